#!/usr/bin/env python3
"""Quantised networks against their definition, in whole numbers: products of bytes of all four kinds at odd sizes and with the
extreme values, convolutions with padding, strides, groups and few channels, what is quantised, dequantised and looked up.

usage: test_quantised.py [SEED]

One model holds all graphs; it is compiled for each instruction set of this machine and must give, everywhere, the same
bits: integers those that numpy finds in 64 bits, quantised floats within one step of what numpy finds in f64, since
a float on the border between two steps may fall to either side. TILEWRIGHT_BUILD names the folder of the build. The last
line is "N passed, N failed".
"""
import os
import random
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("TILEWRIGHT_BUILD", os.path.join(ROOT, "build"))
TYPES = {"u8": (numpy.uint8, TensorProto.UINT8, 0, 255), "i8": (numpy.int8, TensorProto.INT8, -128, 127)}


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.numbers = numpy.random.RandomState(seed % 2**32)
        self.nodes, self.inputs, self.outputs, self.constants = [], [], [], []
        self.feeds, self.expected, self.steps = {}, {}, {}

    def name(self):
        return f"t{len(self.nodes)}_{len(self.inputs)}_{len(self.constants)}"

    def bytes(self, kind, sizes):
        """Random numbers, the greatest and the least among them for long."""
        dtype, _, least, most = TYPES[kind]
        array = self.numbers.randint(least, most + 1, sizes)
        flat = array.reshape(-1)
        flat[: flat.size // 3] = most
        flat[flat.size // 3 : flat.size // 2] = least
        return array.astype(dtype)

    def constant(self, array):
        name = self.name()
        self.constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def input(self, array):
        name = self.name()
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feeds[name] = array
        return name

    def node(self, op, inputs, **attributes):
        name = self.name()
        self.nodes.append(helper.make_node(op, inputs, [name], name="node_" + name, **attributes))
        return name

    def output(self, name, expected, step=0):
        self.outputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(expected.dtype), None))
        self.expected[name], self.steps[name] = expected, step


def windows(x, kernel, stride, pad, fill):
    """[batch, channel, out, out, kernel, kernel]"""
    x = numpy.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=fill)
    return numpy.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]


def convolve(x, w, stride, pad, group):
    """In whole numbers or f64; x is centred, so that padding is 0."""
    parts = []
    for g in range(group):
        each, out = x.shape[1] // group, w.shape[0] // group
        part = windows(x[:, g * each : (g + 1) * each], w.shape[2], stride, pad, 0)
        parts.append(numpy.einsum("nchwij,mcij->nmhw", part, w[g * out : (g + 1) * out]))
    return numpy.concatenate(parts, axis=1)


def quantise(v, scale, zero, kind):
    dtype, _, least, most = TYPES[kind]
    return numpy.clip(numpy.rint(v / numpy.float64(scale)) + zero, least, most).astype(dtype)


def zero_point(m, kind):
    _, _, least, most = TYPES[kind]
    return m.r.choice([0, least, most, m.r.randint(least, most), 128 if kind == "u8" else 0])


def matmul_integer(m, kinds, rows, depth, columns, constant, per_column):
    ka, kb = kinds
    a, b = m.bytes(ka, (rows, depth)), m.bytes(kb, (depth, columns))
    za = zero_point(m, ka)
    zb = numpy.array([zero_point(m, kb) for _ in range(columns)]) if per_column else numpy.array(zero_point(m, kb))
    inputs = [m.input(a), m.constant(b) if constant else m.input(b)]
    inputs += [m.constant(numpy.array(za, TYPES[ka][0])), m.constant(zb.astype(TYPES[kb][0]))]
    wide = (a.astype(numpy.int64) - za) @ (b.astype(numpy.int64) - zb)
    m.output(m.node("MatMulInteger", inputs), wide.astype(numpy.int32))


def conv_integer(m, kinds, channels, size, outputs, kernel, stride, pad, group):
    kx, kw = kinds
    x, w = m.bytes(kx, (1, channels, size, size + 1)), m.bytes(kw, (outputs, channels // group, kernel, kernel))
    zx, zw = zero_point(m, kx), zero_point(m, kw)
    inputs = [m.input(x), m.constant(w)]
    inputs += [m.constant(numpy.array(zx, TYPES[kx][0])), m.constant(numpy.array(zw, TYPES[kw][0]))]
    wide = convolve(x.astype(numpy.int64) - zx, w.astype(numpy.int64) - zw, stride, pad, group)
    y = m.node("ConvInteger", inputs, strides=[stride] * 2, pads=[pad] * 4, group=group)
    m.output(y, wide.astype(numpy.int32))


def dequantised(m, array, scale, zero, constant, axis=None):
    """The node's name and the numbers in f64."""
    shape = [-1 if d == axis else 1 for d in range(array.ndim)] if axis is not None else []
    own = {} if axis is None else {"axis": axis}
    of = array.dtype
    name = m.constant(array) if constant else m.input(array)
    name = m.node("DequantizeLinear", [name, m.constant(scale), m.constant(numpy.asarray(zero, of))], **own)
    return name, (array.astype(numpy.float64) - numpy.reshape(zero, shape)) * numpy.reshape(scale, shape)


def some_scale(m, n=None):
    scale = m.numbers.rand(n or 1).astype(numpy.float32) * numpy.float32(0.02) + numpy.float32(0.001)
    return scale if n else scale[0]


def end(m, name, v, kind):
    """Quantised to steps that spread v over the range."""
    scale, zero = numpy.float32(numpy.abs(v).max() / 100 + 1e-6), zero_point(m, kind)
    inputs = [name, m.constant(scale), m.constant(numpy.array(zero, TYPES[kind][0]))]
    q = m.node("QuantizeLinear", inputs)
    m.output(q, quantise(v, scale, zero, kind), 1)
    return q, scale, zero


def conv_of_floats(m, kinds, channels, size, outputs, kernel, stride, pad, group):
    kx, kw = kinds
    x, w = m.bytes(kx, (1, channels, size, size + 1)), m.bytes(kw, (outputs, channels // group, kernel, kernel))
    fx, vx = dequantised(m, x, some_scale(m), zero_point(m, kx), False)
    fw, vw = dequantised(m, w, some_scale(m, outputs), numpy.zeros(outputs, int), True, 0)
    bias = m.numbers.randn(outputs).astype(numpy.float32)
    y = m.node("Conv", [fx, fw, m.constant(bias)], strides=[stride] * 2, pads=[pad] * 4, group=group)
    v = convolve(vx, vw, stride, pad, group) + bias.reshape(1, -1, 1, 1)
    end(m, m.node("Relu", [y]), numpy.maximum(v, 0), m.r.choice(["u8", "i8"]))


def matmul_of_floats(m, kinds, rows, depth, columns, constant):
    ka, kb = kinds
    a, b = m.bytes(ka, (2, rows, depth)), m.bytes(kb, (depth, columns) if constant else (2, columns, depth))
    fa, va = dequantised(m, a, some_scale(m), zero_point(m, ka), False)
    fb, vb = dequantised(m, b, some_scale(m), zero_point(m, kb), constant)
    if not constant:
        fb, vb = m.node("Transpose", [fb], perm=[0, 2, 1]), vb.transpose(0, 2, 1)
    v = va @ vb
    q, scale, zero = end(m, m.node("MatMul", [fa, fb]), v, "u8")
    # what follows is a function of the byte: a table; f64 tells which bytes it may be of, so that it is judged by itself
    f = m.node("DequantizeLinear", [q, m.constant(scale), m.constant(numpy.array(zero, numpy.uint8))])
    s = m.node("Sigmoid", [m.node("Mul", [f, m.constant(numpy.float32(1.7))])])
    own = (quantise(v, scale, zero, "u8").astype(numpy.float64) - zero) * scale
    steepest = 1.7 * float(scale) / 4  # of the sigmoid, a step of q
    m.output(s, (1 / (1 + numpy.exp(-1.7 * own))).astype(numpy.float32), steepest + 1e-6)


def scaled(m, array, kind, per=None):
    """Names of value, scale and zero point, and the numbers in f64."""
    scale, zero = some_scale(m, per), zero_point(m, kind)
    names = [m.input(array), m.constant(scale), m.constant(numpy.array(zero, TYPES[kind][0]))]
    return names, (array.astype(numpy.float64) - zero) * scale


def result(m, v, kind):
    scale, zero = numpy.float32(numpy.abs(v).max() / 100 + 1e-6), zero_point(m, kind)
    names = [m.constant(scale), m.constant(numpy.array(zero, TYPES[kind][0]))]
    return names, quantise(v, scale, zero, kind)


def linear(m, kind):
    """Operators that quantise their own results."""
    ms = {"domain": "com.microsoft"}
    a, va = scaled(m, m.bytes(kind, (2, 6, 5, 7)), kind)
    b, vb = scaled(m, m.bytes(kind, (6, 1, 7)), kind)
    for op, v in (("QLinearAdd", va + vb), ("QLinearMul", va * vb)):
        end, want = result(m, v, kind)
        m.output(m.node(op, a + b + end, **ms), want, 1)
    pooled = va.mean(axis=(2, 3), keepdims=True)
    unary = [("QLinearGlobalAveragePool", pooled, {}), ("QLinearSigmoid", 1 / (1 + numpy.exp(-va)), {})]
    unary.append(("QLinearLeakyRelu", numpy.where(va < 0, va * numpy.float64(numpy.float32(0.3)), va), {"alpha": 0.3}))
    for op, v, attributes in unary:
        end, want = result(m, v, kind)
        m.output(m.node(op, a + end, **attributes, **ms), want, 1)
    for rounded in (True, False):
        c, vc = scaled(m, m.bytes(kind, (7, 30)), kind)
        w, vw = scaled(m, m.bytes("i8", (19, 30)), "i8")
        unit = float(numpy.prod([numpy_helper.to_array(t) for t in m.constants if t.name in (c[1], w[1])]))
        bias = m.numbers.randint(-5000, 5000, 19).astype(numpy.int32)
        v = vc @ vw.T + bias * unit
        end, want = result(m, v, kind) if rounded else ([], v.astype(numpy.float32))
        y = m.node("QGemm", c + w + [m.constant(bias)] + end, transB=1, **ms)
        m.output(y, want, 1 if rounded else 1e-5 * numpy.abs(v).max())
    x, vx = scaled(m, m.bytes(kind, (1, 8, 6, 6)), kind)
    for group in (1, 8):
        w = m.bytes("i8", (8, 8 // group, 3, 3))
        scale = some_scale(m, 8)
        names = [m.constant(w), m.constant(scale), m.constant(numpy.zeros(8, numpy.int8))]
        v = convolve(vx, w.astype(numpy.float64) * scale.reshape(-1, 1, 1, 1), 1, 1, group)
        end, want = result(m, v, kind)
        m.output(m.node("QLinearConv", x + names + end, pads=[1] * 4, group=group), want, 1)
    p, vp = scaled(m, m.bytes(kind, (3, 5, 12)), kind)
    q, vq = scaled(m, m.bytes("i8", (3, 12, 9)), "i8")
    end, want = result(m, vp @ vq, kind)
    m.output(m.node("QLinearMatMul", p + q + end), want, 1)


def compare(m, name, got):
    want = m.expected[name]
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    off = numpy.abs(got.astype(numpy.float64) - want.astype(numpy.float64))
    if off.size and off.max() > m.steps[name]:
        return f"off by {off.max()}, {(off > m.steps[name]).sum()} of {off.size} elements"
    rare = (off > 0).mean() if want.dtype in (numpy.uint8, numpy.int8) and off.size else 0
    return f"{rare:.1%} of the elements are off by a step" if rare > 0.02 else None


def instruction_sets():
    with open("/proc/cpuinfo") as f:
        flags = next((set(line.split()) for line in f if line.startswith("flags")), set())
    sets = [("scalar", set()), ("avx2", {"avx2", "fma"}), ("avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"})]
    sets.append(("avx512vnni", sets[2][1] | {"avx512_vnni"}))
    return [name for name, need in sets if need <= flags]


def make(seed):
    m = Maker(seed)
    kinds = [(a, b) for a in TYPES for b in TYPES]
    for i, k in enumerate(kinds):
        matmul_integer(m, k, 1 + 4 * i, 64, 37, True, i % 2 == 0)
        matmul_integer(m, k, 7, 30 + i, 19, i % 2 == 1, i % 2 == 1)
        conv_integer(m, k, 8, 9, 20, 3, 1 + i % 2, 1, 1)
        conv_of_floats(m, k, 12, 8, 24, 3 if i % 2 else 1, 1, i % 2, 1)
        matmul_of_floats(m, k, 9, 40 + i, 33, i % 2 == 0)
    conv_integer(m, ("u8", "i8"), 3, 13, 16, 5, 2, 2, 1)
    conv_integer(m, ("u8", "u8"), 20, 9, 20, 3, 1, 1, 20)
    conv_of_floats(m, ("u8", "i8"), 3, 15, 16, 3, 2, 1, 1)
    conv_of_floats(m, ("i8", "i8"), 24, 9, 24, 3, 1, 1, 24)
    conv_of_floats(m, ("u8", "i8"), 16, 7, 16, 3, 1, 1, 4)
    for kind in TYPES:
        linear(m, kind)
    graph = helper.make_graph(m.nodes, "quantised", m.inputs, m.outputs, m.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    return m, model


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    passed = failed = 0
    m, model = make(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        command = [os.path.join(BUILD, "tilewright"), "run", path, "--no-cache"]
        for name, array in m.feeds.items():
            numpy.save(os.path.join(folder, name), array)
            command += ["-i", f"{name}={folder}/{name}.npy"]
        first = {}
        for isa in instruction_sets():
            out = os.path.join(folder, isa)
            done = subprocess.run(command + ["-o", out, "--isa", isa], capture_output=True, text=True)
            if done.returncode:
                print(f"seed {seed}, {isa}: {done.stderr}")
                failed += 1
                continue
            for name in m.expected:
                got = numpy.load(os.path.join(out, name + ".npy"))
                why = compare(m, name, got)
                if not why and got.dtype != numpy.float32 and not numpy.array_equal(first.setdefault(name, got), got):
                    why = "other numbers than " + instruction_sets()[0]
                passed, failed = passed + (not why), failed + bool(why)
                if why:
                    print(f"seed {seed}, {isa}, {name}: {why}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
