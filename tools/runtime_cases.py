#!/usr/bin/env python3
"""Write ONNX test folders for operators that only ONNX Runtime defines (domain com.microsoft): it gives the answers.

usage: runtime_cases.py DIR

A folder that is complete already is not touched.
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

DONE = ".complete"
VERSION = "1"  # to be increased when other cases are written


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


CASES = {
    "dynamic_quantize_lstm_forward": lambda rng: quantized_lstm(rng, "forward", True),
    "dynamic_quantize_lstm_reverse": lambda rng: quantized_lstm(rng, "reverse", True, time=9, hidden=17),
    "dynamic_quantize_lstm_bidirectional": lambda rng: quantized_lstm(rng, "bidirectional", True, size=33),
    "dynamic_quantize_lstm_unsigned": lambda rng: quantized_lstm(rng, "bidirectional", False),
    "dynamic_quantize_lstm_columns": lambda rng: quantized_lstm(rng, "forward", True, by_column=True),
}


def write(folder, nodes, constants, inputs):
    place = os.path.join(folder, "test_data_set_0")
    os.makedirs(place, exist_ok=True)
    values = [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, v.shape) for k, v in inputs.items()]
    names = [name for node in nodes for name in node.output]
    graph = helper.make_graph(nodes, "case", values,
                              [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, None) for k in names],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                  helper.make_opsetid("com.microsoft", 1)])
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
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
