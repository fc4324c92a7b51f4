#!/usr/bin/env python3
"""Write ONNX test folders for what the onnx package has no cases of: operators that only ONNX Runtime defines (domain
com.microsoft), which it answers, as it does Scans in Scans and those of opset 8; operators as they were up to opset 6, weights of 4 bits and lengths that only data
decides, which numpy answers.

usage: runtime_cases.py DIR

A folder that is complete already is not touched.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

DONE = ".complete"
VERSION = "7"  # to be increased when other cases are written


def weights(rng, shape, signed, by_column):
    """Weights in 8 bits, scales, zero points; of each direction or of each column."""
    low, high = (-128, 128) if signed else (0, 256)
    kind = np.int8 if signed else np.uint8
    values = rng.integers(low, high, shape).astype(kind)
    places = (shape[0], shape[2]) if by_column else shape[:1]
    zero = np.zeros(places, kind) if signed else np.full(places, rng.integers(100, 150), kind)
    return values, rng.uniform(0.003, 0.008, places).astype(np.float32), zero


def quantized_lstm(rng, direction, signed, time=5, size=6, hidden=4, by_column=False):
    """Model and inputs; a batch of one, since ONNX Runtime rounds larger ones in parts."""
    n = 2 if direction == "bidirectional" else 1
    constants = dict(zip(("W", "W_scale", "W_zero"), weights(rng, (n, size, 4 * hidden), signed, by_column)))
    constants.update(zip(("R", "R_scale", "R_zero"), weights(rng, (n, hidden, 4 * hidden), signed, by_column)))
    constants["B"] = rng.normal(0, 0.1, (n, 8 * hidden)).astype(np.float32)
    inputs = {"X": rng.standard_normal((time, 1, size)), "h": rng.uniform(-0.5, 0.5, (n, 1, hidden)),
              "c": rng.standard_normal((n, 1, hidden))}
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        ["X", "W", "R", "B", "", "h", "c", "", "W_scale", "W_zero", "R_scale", "R_zero"], ["Y", "Y_h", "Y_c"],
        domain="com.microsoft", direction=direction, hidden_size=hidden)
    return [node], constants, {k: v.astype(np.float32) for k, v in inputs.items()}


def old(opset, op, answer, *shapes, kind=np.float32, constant=None, **attributes):
    """One node up to opset 6 on inputs of these shapes; constant: the number of one that is an initializer."""
    def make(rng):
        inputs = {"x%d" % k: (rng.uniform(0.5, 2, shape).astype(kind) if kind == np.float32 else rng.integers(0, 2, shape) > 0)
                  for k, shape in enumerate(shapes)}
        node = helper.make_node(op, list(inputs), ["y"], **attributes)
        want = {"y": np.asarray(answer(*inputs.values()))}
        constants = {} if constant is None else {"x%d" % constant: inputs.pop("x%d" % constant)}
        return [node], constants, inputs, opset, want
    return make


def along(axis, fn):
    """fn with the second array laid along the axes of the first from `axis` on."""
    return lambda a, b: fn(a, b.reshape(b.shape + (1,) * (a.ndim - axis - b.ndim)))


def normalised(x, scale, bias, mean, variance):
    lay = lambda v: v[:, None, None]
    return lay(scale) * (x - lay(mean)) / np.sqrt(lay(variance) + 1e-5) + lay(bias)


def narrow_weights(kind, block, turned=False):
    """Weights of 4 bits, dequantised in blocks or by column, times an input: numpy answers, since ONNX Runtime rounds
    the input to 8 bits for such products."""
    def make(rng):
        low, high = (-8, 8) if kind == TensorProto.INT4 else (0, 16)
        shape = (16, 24)
        raw = rng.integers(low, high, shape)
        scales = rng.uniform(0.01, 0.1, (shape[0] // block, shape[1]) if block else shape[1]).astype(np.float32)
        zero = rng.integers(low, high, scales.shape)
        w, z = (helper.make_tensor(name, kind, v.shape, v.flatten().tolist()) for name, v in (("w", raw.T if turned else raw),
                                                                                            ("z", zero)))
        nodes = [helper.make_node("Transpose", ["w"], ["t"])] if turned else []
        nodes += [helper.make_node("DequantizeLinear", ["t" if turned else "w", "s", "z"], ["d"], axis=0 if block else 1,
                                   **({"block_size": block} if block else {})),
                  helper.make_node("MatMul", ["x", "d"], ["y"])]
        x = rng.standard_normal((3, 16)).astype(np.float32)
        spread = (lambda v: np.repeat(v, block, 0)) if block else (lambda v: v)
        want = x.astype(float) @ ((raw - spread(zero)) * spread(scales).astype(float))
        return nodes, {"w": w, "z": z, "s": scales}, {"x": x}, 21, {"y": want.astype(np.float32)}
    return make


CASES = {
    "int4_blocks": narrow_weights(TensorProto.INT4, 4),
    "uint4_columns": narrow_weights(TensorProto.UINT4, 0),
    "int4_turned": narrow_weights(TensorProto.INT4, 0, turned=True),
    "old_add_axis": old(6, "Add", along(1, np.add), (2, 3, 4, 5), (3, 4), broadcast=1, axis=1),
    "old_add_suffix": old(6, "Add", np.add, (2, 3, 4), (3, 4), broadcast=1),
    "old_add_one": old(1, "Add", np.add, (2, 3), (1,), broadcast=1, consumed_inputs=[0, 0]),
    "old_sub_first": old(6, "Sub", along(0, np.subtract), (3, 2, 4), (3,), broadcast=1, axis=0),
    "old_mul_constant": old(6, "Mul", along(1, np.multiply), (2, 3, 4), (3,), constant=1, broadcast=1, axis=1),
    "old_div_scalar": old(6, "Div", np.divide, (3, 4), (), broadcast=1),
    "old_pow_axis": old(1, "Pow", along(1, np.power), (2, 3, 2), (3,), broadcast=1, axis=1),
    "old_less_axis": old(1, "Less", along(0, np.less), (3, 4), (3,), broadcast=1, axis=0),
    "old_greater_equal_shapes": old(1, "Greater", np.greater, (3, 4), (3, 4)),
    "old_and_axis": old(1, "And", along(0, np.logical_and), (3, 4), (3,), kind=bool, broadcast=1, axis=0),
    "old_relu": old(1, "Relu", lambda x: np.maximum(x, 0), (3, 4), consumed_inputs=[0]),
    "old_gemm": old(6, "Gemm", lambda a, b, c: 0.5 * (a.T @ b) + c, (4, 3), (4, 5), (5,), alpha=0.5, transA=1, broadcast=1),
    "old_batchnorm": old(6, "BatchNormalization", normalised, (2, 3, 4, 5), (3,), (3,), (3,), (3,), is_test=1),
    "old_dropout": old(6, "Dropout", lambda x: x, (3, 4), is_test=1, ratio=0.3),
    "dynamic_quantize_lstm_forward": lambda rng: quantized_lstm(rng, "forward", True),
    "dynamic_quantize_lstm_reverse": lambda rng: quantized_lstm(rng, "reverse", True, time=9, hidden=17),
    "dynamic_quantize_lstm_bidirectional": lambda rng: quantized_lstm(rng, "bidirectional", True, size=33),
    "dynamic_quantize_lstm_unsigned": lambda rng: quantized_lstm(rng, "bidirectional", False),
    "dynamic_quantize_lstm_columns": lambda rng: quantized_lstm(rng, "forward", True, by_column=True),
}


def counted(total):
    """What text-to-speech does: durations make a length, and all that follows has it."""
    def make(rng):
        w = rng.dirichlet(np.ones(5)).astype(np.float32) * total
        nodes = [helper.make_node("Ceil", ["w"], ["whole"]), helper.make_node("ReduceSum", ["whole"], ["sum"], keepdims=0),
                 helper.make_node("Cast", ["sum"], ["count"], to=TensorProto.INT64),
                 helper.make_node("Range", ["zero", "count", "one"], ["numbers"]),
                 helper.make_node("Cast", ["numbers"], ["x"], to=TensorProto.FLOAT), helper.make_node("Shape", ["x"], ["shape"]),
                 helper.make_node("ConstantOfShape", ["shape"], ["zeros"]), helper.make_node("Add", ["x", "zeros"], ["z"]),
                 helper.make_node("Unsqueeze", ["z", "last"], ["column"]), helper.make_node("MatMul", ["column", "row"], ["y"])]
        constants = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64), "last": np.array([1], np.int64),
                     "row": np.linspace(-1, 1, 7, dtype=np.float32)[None]}
        numbers = np.arange(int(np.ceil(w).sum()), dtype=np.float32)
        return nodes, constants, {"w": w}, 17, {"y": numbers[:, None] * constants["row"]}
    return make


def stepped(start, limit, delta, kind):
    """Range between numbers that come from data: the inputs are rows whose sum is the number."""
    def make(rng):
        names = ("start", "limit", "delta")
        inputs = {name: np.array([value, 0], kind) for name, value in zip(names, (start, limit, delta))}
        nodes = [helper.make_node("ReduceSum", [name], ["sum_" + name], keepdims=0) for name in names]
        nodes.append(helper.make_node("Range", ["sum_" + name for name in names], ["y"]))
        return nodes, {}, inputs, 17, {"y": np.arange(start, limit, delta).astype(kind)}
    return make


def sliced_from(value, answer):
    """A slice that begins at (value - 7) / 2, counted from the end where that is negative; division goes to zero."""
    def make(rng):
        x = rng.standard_normal((9, 3)).astype(np.float32)
        nodes = [helper.make_node("Sub", ["value", "seven"], ["less"]), helper.make_node("Div", ["less", "two"], ["start"]),
                 helper.make_node("Slice", ["x", "start", "end"], ["y"])]
        constants = {name: np.array([v], np.int64) for name, v in (("seven", 7), ("two", 2), ("end", 100))}
        return nodes, constants, {"x": x, "value": np.array([value], np.int64)}, 17, {"y": x[answer:]}
    return make


def body(name, nodes, inputs, outputs):
    value = lambda k, shape: helper.make_tensor_value_info(k, TensorProto.FLOAT, shape)
    return helper.make_graph(nodes, name, [value(*i) for i in inputs], [value(*o) for o in outputs])


def scan_of_a_batch(*directions):
    """Opset 8: everything has a batch; the state is scaled by a tensor from outside, the scanned inputs go either way."""
    def make(rng):
        nodes = [helper.make_node("Mul", ["state", "decay"], ["kept"]), helper.make_node("Add", ["kept", "a"], ["next"]),
                 helper.make_node("Sub", ["next", "b"], ["seen"])]
        inner = body("inner", nodes, [("state", [4]), ("a", [4]), ("b", [4])], [("next", [4]), ("seen", [4])])
        inputs = {k: rng.standard_normal(s).astype(np.float32)
                  for k, s in (("first", (3, 4)), ("p", (3, 6, 4)), ("q", (3, 6, 4)), ("decay_in", (4,)))}
        scan = helper.make_node("Scan", ["", "first", "p", "q"], ["last", "all"], body=inner, num_scan_inputs=2,
                                **({"directions": list(directions)} if directions else {}))
        return [helper.make_node("Sigmoid", ["decay_in"], ["decay"]), scan], {}, inputs, 8
    return make


def scan_in_scan(rng):
    """For each row of x, the running sum of its elements, each times a state of the outer scan and a tensor from outside."""
    nodes = [helper.make_node("Mul", ["element", "outer_state"], ["scaled"]), helper.make_node("Mul", ["scaled", "k"], ["times"]),
             helper.make_node("Add", ["sum", "times"], ["sum_out"]), helper.make_node("Identity", ["sum_out"], ["running"])]
    inner = body("inner", nodes, [("sum", [2]), ("element", [2])], [("sum_out", [2]), ("running", [2])])
    outer = body("outer", [helper.make_node("Scan", ["zero", "row"], ["total", "sums"], body=inner, num_scan_inputs=1,
                                            scan_output_directions=[1]),
                           helper.make_node("Tanh", ["total"], ["outer_next"])],
                 [("outer_state", [2]), ("row", [5, 2])], [("outer_next", [2]), ("sums", [5, 2])])
    inputs = {"x": rng.standard_normal((5, 4, 2)).astype(np.float32), "s": rng.standard_normal(2).astype(np.float32),
              "k": rng.standard_normal(2).astype(np.float32)}
    node = helper.make_node("Scan", ["s", "x"], ["end", "all"], body=outer, num_scan_inputs=1, scan_input_axes=[1],
                            scan_output_axes=[1])
    return [node], {"zero": np.zeros(2, np.float32)}, inputs


def n_grams(mode, shape, skips, least, most, kind=np.int64):
    """n-grams of one to three numbers in mixed columns; few numbers, so that many occur."""
    def make(rng):
        pool = [3, 1, 0, 2, 1, 2, 2, 2, 0, 3, 1, 2, 3, 0, 0, 2]  # four of one, three of two, two of three
        node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], mode=mode, max_skip_count=skips, min_gram_length=least,
                                max_gram_length=most, ngram_counts=[0, 4, 10], ngram_indexes=[4, 0, 7, 2, 1, 8, 3, 6, 5],
                                pool_int64s=pool, weights=[float(w) for w in rng.uniform(0.5, 2, 9)])
        return [node], {}, {"x": rng.integers(0, 4, shape).astype(kind)}, 17
    return make


CASES.update({"sliced_from_the_end": sliced_from(4, -1), "sliced_from_the_front": sliced_from(10, 1),
              "n_grams": n_grams("TF", (40,), 0, 1, 3), "n_grams_skipping": n_grams("TF", (3, 25), 4, 1, 3, np.int32),
              "n_grams_of_two": n_grams("TFIDF", (2, 30), 1, 2, 2), "n_grams_there": n_grams("IDF", (2, 9), 2, 1, 2),
              "n_grams_longer_than_the_row": n_grams("TF", (2, 2), 3, 1, 3), "scan8": scan_of_a_batch(), "scan8_backwards": scan_of_a_batch(0, 1), "scan_in_scan": scan_in_scan,
              "range_counted": counted(100), "range_counted_beyond_the_guess": counted(1500), "range_counted_none": counted(0),
              "range_down": stepped(10, -7, -3, np.int64), "range_empty": stepped(5, 5, 1, np.int32),
              "range_halves": stepped(-1, 2, 0.5, np.float32), "range_doubles": stepped(3, 800, 0.25, np.float64)})


def write(folder, nodes, constants, inputs, opset=17, want=None):
    place = os.path.join(folder, "test_data_set_0")
    os.makedirs(place, exist_ok=True)
    kind = lambda value: helper.np_dtype_to_tensor_dtype(value.dtype)
    values = [helper.make_tensor_value_info(k, kind(v), v.shape) for k, v in inputs.items()]
    used = {name for node in nodes for name in node.input}
    names = [name for node in nodes for name in node.output if name not in used]
    results = [helper.make_tensor_value_info(k, kind(want[k]) if want else onnx.TensorProto.FLOAT, None) for k in names]
    graph = helper.make_graph(nodes, "case", values, results,
                              [v if isinstance(v, TensorProto) else numpy_helper.from_array(v, k)
                               for k, v in constants.items()])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset),
                                                                  helper.make_opsetid("com.microsoft", 1)])
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    outputs = want or {}
    if not want:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        outputs = dict(zip(names, session.run(names, inputs)))
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for i, (name, value) in enumerate(tensors.items()):
            with open(os.path.join(place, "%s_%d.pb" % (kind, i)), "wb") as f:
                f.write(numpy_helper.from_array(value, name).SerializeToString())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    stamp = os.path.join(sys.argv[1], DONE)
    if os.path.exists(stamp) and open(stamp).read() == VERSION:
        return
    for i, (name, make) in enumerate(CASES.items()):
        write(os.path.join(sys.argv[1], name), *make(np.random.default_rng(i)))
    with open(stamp, "w") as f:
        f.write(VERSION)


if __name__ == "__main__":
    main()
