#!/usr/bin/env python3
"""Fused equals unfused, compiled: models of several random graphs, each run by `tilewright run --verify`, which compares
a compilation with one without rewriting and fusion and with the interpreter.

usage: test_fusion.py [SEED [MODELS [GRAPHS]]]     GRAPHS: in each model

The graphs are chains of elementwise operators and movement around anchors: matmul, convolution, reductions, softmax; with
broadcasts, second outputs, and for some a symbolic first size. A third of them lay results of layers, slices and inputs side
by side, again and again. Each model has narrow convolutions of one tensor besides, which become one. A model's outputs must be the same bits on one thread and on three. TILEWRIGHT_BUILD names the folder of the build.
The last line is "N passed, N failed".
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
LONG = bool(os.environ.get("TILEWRIGHT_LONG_TESTS"))


class Maker:
    """One model, made of graphs beside each other. A value is (name, sizes); a size is a number or "n"."""

    def __init__(self, seed, size):
        self.r = random.Random(seed)
        self.numbers = numpy.random.RandomState(seed % 2**32)
        self.size, self.nodes, self.inputs, self.outputs, self.constants = size, [], [], [], []

    def name(self, what):
        return f"{what}_{len(self.nodes)}_{len(self.inputs)}_{len(self.constants)}"

    def number(self, s):
        return self.size if s == "n" else s

    def constant(self, array):
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def leaf(self, sizes):
        if "n" not in sizes and self.r.random() < 0.5:
            array = self.numbers.randint(-8, 9, sizes).astype(numpy.float32) / 4
            return self.constant(array), sizes
        name = self.name("x")
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes))
        return name, sizes

    def node(self, op, inputs, sizes, **attributes):
        name = self.name("t")
        self.nodes.append(helper.make_node(op, inputs, [name], name="node_" + name, **attributes))
        return name, list(sizes)

    def output(self, value):
        self.outputs.append(helper.make_tensor_value_info(value[0], TensorProto.FLOAT, None))

    def unary(self, x):
        return self.node(self.r.choice(["Relu", "Neg", "Abs", "Sigmoid", "Tanh"]), [x[0]], x[1])

    def binary(self, x):
        if self.r.random() < 0.25:
            y = self.unary(x)
        else:
            tail = x[1][self.r.randint(0, len(x[1])):]
            y = self.leaf([s if self.r.random() < 0.7 else 1 for s in tail])
        return self.node(self.r.choice(["Add", "Sub", "Mul", "Max", "Min"]), [x[0], y[0]], x[1])

    def move(self, x):
        sizes, r = list(x[1]), self.r
        axis = r.randrange(len(sizes))
        kind = r.choice(["transpose", "reshape", "concat", "slice", "pad"])
        if kind == "transpose":
            order = list(range(len(sizes)))
            r.shuffle(order)
            return self.node("Transpose", [x[0]], [sizes[k] for k in order], perm=order)
        if sizes[axis] == "n" or (kind == "reshape" and "n" in sizes):
            return x
        if kind == "reshape":
            if axis + 1 < len(sizes):
                sizes[axis:axis + 2] = [sizes[axis] * sizes[axis + 1]]
            elif sizes[axis] % 2 == 0 and len(sizes) < 4:
                sizes[axis:axis + 1] = [sizes[axis] // 2, 2]
            return self.node("Reshape", [x[0], self.constant(numpy.array(sizes, numpy.int64))], sizes)
        if kind == "concat":
            y = self.unary(x)
            sizes[axis] *= 2
            return self.node("Concat", [x[0], y[0]], sizes, axis=axis)
        if kind == "slice":
            start = r.randrange(sizes[axis])
            end, step = r.randint(start + 1, sizes[axis]), r.randint(1, 2)
            sizes[axis] = (end - start + step - 1) // step
            return self.node("Slice", [x[0]] + [self.constant(numpy.array([v], numpy.int64))
                                                for v in (start, end, axis, step)], sizes)
        pads = numpy.zeros(2 * len(sizes), numpy.int64)
        pads[axis], pads[axis + len(sizes)] = r.randint(0, 2), r.randint(0, 2)
        sizes[axis] += int(pads[axis] + pads[axis + len(sizes)])
        return self.node("Pad", [x[0], self.constant(pads)], sizes)

    def chain(self, x, most):
        for _ in range(self.r.randint(0, most)):
            if numpy.prod([self.number(s) for s in x[1]]) > 3000:
                return x
            x = self.r.choice([self.unary, self.unary, self.binary, self.binary, self.move])(x)
        return x

    def anchor(self, x):
        sizes, r = list(x[1]), self.r
        kind = r.choice(["matmul", "conv", "reduce", "softmax"])
        if kind == "matmul" and len(sizes) > 1:
            columns = r.randint(1, 40)
            y = self.leaf([sizes[-1], columns])
            return self.node("MatMul", [x[0], y[0]], sizes[:-1] + [columns])
        if kind == "conv":
            channels, out, side = r.randint(1, 6), r.randint(1, 9), r.choice([1, 3])
            batch = "n" if "n" in sizes else r.randint(1, 2)
            x = self.leaf([batch, channels, r.randint(3, 9), r.randint(3, 14)])
            x = self.binary(x) if r.random() < 0.5 else x
            group = channels if r.random() < 0.3 else 1
            out = channels if group > 1 else out
            w = self.leaf([out, channels // group, side, side])
            pad, stride = r.randint(0, side // 2), r.randint(1, 2)
            spread = [(s + 2 * pad - side) // stride + 1 for s in x[1][2:]]
            return self.node("Conv", [x[0], w[0]], [batch, out] + spread, pads=[pad] * 4, strides=[stride] * 2, group=group)
        if kind == "reduce":
            axis = r.randrange(len(sizes))
            sizes[axis] = 1
            return self.node(r.choice(["ReduceMax", "ReduceMean", "ReduceL2"]), [x[0]], sizes, axes=[axis], keepdims=1)
        return self.node("Softmax", [x[0]], sizes, axis=r.choice([-1, r.randrange(len(sizes))]))

    def layer(self, x, axis):
        """Changes no size but, where the axis allows it, that of the channels or columns."""
        sizes, r = list(x[1]), self.r
        last = 1 if len(sizes) == 4 else len(sizes) - 1
        before, after = sizes[last], r.randint(1, 40) if axis == last else sizes[last]
        sizes[last] = after
        if len(sizes) < 4:
            return self.node("MatMul", [x[0], self.leaf([before, after])[0]], sizes)
        side = r.choice([1, 3])
        w = self.leaf([after, before, side, side])
        return self.node("Conv", [x[0], w[0]], sizes, pads=[side // 2] * 4)

    def join(self, parts, axis):
        sizes = list(parts[0][1])
        sizes[axis] = sum(p[1][axis] for p in parts)
        return self.node("Concat", [p[0] for p in parts], sizes, axis=axis)

    def split(self, x, axis):
        sizes, size = [list(x[1]), list(x[1])], x[1][axis]
        middle = self.r.randint(1, size - 1)
        sizes[0][axis], sizes[1][axis] = middle, size - middle
        names = [self.name("half") + end for end in "ab"]
        self.nodes.append(helper.make_node("Split", [x[0], self.constant(numpy.array([middle, size - middle], numpy.int64))],
                                           names, name="node_" + names[0], axis=axis))
        return list(zip(names, sizes))

    def side_by_side(self):
        r, rank = self.r, self.r.randint(3, 4)
        axis = r.randint(1, rank - 1)
        x = self.leaf([r.choice(["n", r.randint(1, 3)]), r.randint(1, 20)] + [r.randint(2, 6) for _ in range(rank - 2)])
        parts, y = [], x
        for _ in range(r.randint(2, 4)):
            y = self.layer(y, axis)
            y = self.unary(y) if r.random() < 0.5 else y
            if r.random() < 0.2:
                self.output(y)
            parts += self.split(y, axis) if r.random() < 0.3 and y[1][axis] > 1 else [y]
            if r.random() < 0.2:
                sizes = list(y[1])
                sizes[axis] = r.randint(1, 5)
                parts.append(self.leaf(sizes))
            if len(parts) > 1 and r.random() < 0.6:
                y = self.join(parts, axis)
                parts = [y] if r.random() < 0.4 else parts
        y = self.join(parts, axis)
        self.output(self.layer(y, axis) if r.random() < 0.7 else y)

    def choice(self, x, weight, sizes):
        """A convolution on one side of a branch, on the other one its negative."""
        any_value = self.node("ReduceMax", [x[0]], [], keepdims=0)
        condition = self.node("Greater", [any_value[0], self.constant(numpy.float32(self.r.choice([0.5, 100])))], [])
        sides = []
        for kind in ("Relu", "Neg"):
            name = self.name(kind)
            nodes = [helper.make_node("Conv", [x[0], weight], [name + "_sum"], name=name + "_conv"),
                     helper.make_node(kind, [name + "_sum"], [name], name=name + "_side")]
            sides.append(helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]))
        return self.node("If", [condition[0]], sizes, then_branch=sides[0], else_branch=sides[1])

    def beside(self):
        """Narrow convolutions of one tensor, which become one, and what reads them."""
        r, depth = self.r, self.r.randint(4, 40)
        x = self.leaf([r.choice(["n", 2]), depth, r.randint(4, 9), r.randint(4, 9)])
        x = self.unary(x) if r.random() < 0.7 else x
        same = r.choice(["Relu", "Sigmoid", "silu", ""])
        for _ in range(r.randint(2, 4)):
            channels = r.randint(1, 20)
            sizes = [x[1][0], channels] + x[1][2:]
            bias = [self.constant(self.numbers.randint(-8, 9, [channels]).astype(numpy.float32))] * r.randint(0, 1)
            weight = self.constant(self.numbers.randint(-8, 9, [channels, depth, 1, 1]).astype(numpy.float32) / 4)
            if r.random() < 0.2:
                self.output(self.choice(x, weight, sizes))
                continue
            y = self.node("Conv", [x[0], weight] + bias, sizes)
            kind = same if r.random() < 0.8 else r.choice(["Relu", "Tanh"])
            if kind == "silu":
                y = self.node("Mul", [y[0], self.node("Sigmoid", [y[0]], sizes)[0]], sizes)
            elif kind:
                y = self.node(kind, [y[0]], sizes)
            if r.random() < 0.4:
                self.output(y)
            for _ in range(r.randint(0, 2)):
                self.output(r.choice([lambda v: self.layer(v, 1), self.move, self.binary])(y))

    def graph(self):
        if self.r.random() < 0.33:
            self.side_by_side()
            return
        sizes = [self.r.randint(1, 6) for _ in range(self.r.randint(0, 2))] + [self.r.randint(1, 40)]
        if self.r.random() < 0.4:
            sizes[0] = "n"
        x = self.chain(self.leaf(sizes), 3)
        for _ in range(self.r.randint(1, 2)):
            x = self.anchor(x)
            if self.r.random() < 0.2:
                self.output(x)
            x = self.chain(x, 3)
        self.output(self.unary(x))

    def model(self, graphs):
        self.beside()
        for _ in range(graphs):
            self.graph()
        self.inputs.append(helper.make_tensor_value_info("last", TensorProto.FLOAT, ["n"]))  # so that n is known
        self.output(self.node("Relu", ["last"], ["n"]))
        graph = helper.make_graph(self.nodes, "random", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(seed, graphs, folder):
    size = seed % 7 + 1
    path = os.path.join(folder, f"random_{seed}.onnx")
    onnx.save(Maker(seed, size).model(graphs), path)
    command = [os.path.join(BUILD, "tilewright"), "run", path, "-d", f"n={size}", "--random", str(seed), "--verify", "--no-cache"]
    p = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if p.returncode != 0:
        print(f"seed {seed}, {graphs} graphs: exit code {p.returncode}\n{p.stdout[-2000:]}{p.stderr[-2000:]}")
        return False
    return same_bits(path, size, seed, folder)


def same_bits(path, size, seed, folder):
    outputs = []
    for threads in (1, 3):
        into = os.path.join(folder, f"threads_{threads}")
        os.makedirs(into, exist_ok=True)
        command = [os.path.join(BUILD, "tilewright"), "run", path, "-d", f"n={size}", "--random", str(seed),
                   "--threads", str(threads), "-o", into]
        p = subprocess.run(command, capture_output=True, text=True, timeout=1200,
                           env={**os.environ, "TILEWRIGHT_CACHE": os.path.join(folder, "cache")})
        if p.returncode != 0:
            print(f"seed {seed}, {threads} threads: exit code {p.returncode}\n{p.stderr[-2000:]}")
            return False
        outputs.append({f: open(os.path.join(into, f), "rb").read() for f in sorted(os.listdir(into))})
    if outputs[0] != outputs[1] or not outputs[0]:
        print(f"seed {seed}: one thread and three give different bits")
    return outputs[0] == outputs[1] and bool(outputs[0])


def main():
    given = [int(a) for a in sys.argv[1:]]
    first = given[0] if given else 1
    models = given[1] if len(given) > 1 else 25 if LONG else 2
    graphs = given[2] if len(given) > 2 else 8 if LONG else 3
    with tempfile.TemporaryDirectory() as folder:
        good = sum(check(seed, graphs, folder) for seed in range(first, first + models))
    print(f"{good} passed, {models - good} failed")
    return 0 if good == models else 1


if __name__ == "__main__":
    sys.exit(main())
