#!/usr/bin/env python3
"""Symbolic equals fixed: a network of the blocks that chains are made of, compiled once with symbols for its sizes and once for
each size, gives the same bits; sizes are those of one pixel, primes, and such as fill and overflow a strip of rows.

usage: test_sizes.py        TILEWRIGHT_BUILD: the build folder, default build/; the last line is "N passed, N failed"

The sums of both forms are added in the same order, whatever is fused and however tall tiles are (--exact forbids Winograd's
convolution, which depends on sizes). That the symbolic form has chains, with strips of an open length, is checked as well.
"""
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("TILEWRIGHT_BUILD", os.path.join(ROOT, "build"))
SIZES = [(1, 1, 1), (2, 31, 17), (1, 103, 61)]
CLOSE = [(1, 5, 2)]  # where maps of one column are fixed, the rule-based schedule folds channels by lanes: other last bits


class Network:
    """Convolutions in a row, each with its activation; weights are random."""

    def __init__(self):
        self.numbers = numpy.random.RandomState(5)
        self.nodes, self.constants, self.at = [], [], "x"
        self.limits = [self.constant(numpy.float32(0)), self.constant(numpy.float32(6))]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.asarray(array, numpy.float32), name))
        return name

    def node(self, op, inputs, **attributes):
        self.at = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [self.at], **attributes))
        return self.at

    def conv(self, channels, out, side=1, stride=1, group=1, clip=True):
        shape = (out, channels // group, side, side)
        weight = self.numbers.randn(*shape) / numpy.sqrt(numpy.prod(shape[1:]))
        inputs = [self.at, self.constant(weight), self.constant(self.numbers.randn(out) / 4)]
        self.node("Conv", inputs, group=group, strides=[stride] * 2, pads=[side // 2] * 4)
        return self.node("Clip", [self.at, *self.limits]) if clip else self.at

    def block(self, channels, wide, out, side, stride, add=False):
        before = self.at
        self.conv(channels, wide)
        self.conv(wide, wide, side, stride, wide)
        after = self.conv(wide, out, clip=False)
        if add:
            self.node("Add", [after, before])


def write(path):
    net = Network()
    net.conv(3, 16, 3, 2)
    net.block(16, 56, 16, 3, 1, add=True)
    net.block(16, 40, 24, 5, 2)
    net.conv(24, 33)
    net.conv(33, 33, 3, 1, 33)
    net.conv(33, 16)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])
    y = helper.make_tensor_value_info(net.at, TensorProto.FLOAT, None)
    graph = helper.make_graph(net.nodes, "sizes", [x], [y], net.constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def tilewright(folder, *arguments):
    p = subprocess.run([os.path.join(BUILD, "tilewright"), *arguments], capture_output=True, text=True, timeout=600,
                       env={**os.environ, "TILEWRIGHT_CACHE": os.path.join(folder, "cache")})
    if p.returncode != 0:
        print(f"{' '.join(arguments)}: exit code {p.returncode}\n{p.stderr[-2000:]}")
    return p


def run(path, folder, flag, size):
    into = os.path.join(folder, flag.strip("-"))
    os.makedirs(into, exist_ok=True)
    sizes = [word for name, n in zip("nhw", size) for word in (flag, f"{name}={n}")]
    if tilewright(folder, "run", path, "--exact", *sizes, "--random", "3", "-o", into).returncode != 0:
        return None
    return [numpy.load(os.path.join(into, f)) for f in sorted(os.listdir(into)) if f.endswith(".npy")]


def equal(a, b, size):
    if a.shape != b.shape:
        return False
    return a.tobytes() == b.tobytes() or (size in CLOSE and abs(a - b).max() <= 1e-6 * abs(b).max())


def same(path, folder, size):
    symbolic, fixed = run(path, folder, "-d", size), run(path, folder, "--fix", size)
    good = bool(symbolic) and bool(fixed) and all(equal(a, b, size) for a, b in zip(symbolic, fixed))
    if not good:
        print(f"sizes {size}: the symbolic form and the fixed one differ")
    return good


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        write(path)
        sizes = [word for name in "nhw" for word in ("-d", f"{name}=9")]
        profile = tilewright(folder, "bench", path, "--exact", *sizes, "--runs", "1", "--profile")
        results = ["chain expand window project strip=open" in profile.stdout]
        if not results[0]:
            print("no chain has strips of an open length\n" + profile.stdout)
        results += [same(path, folder, size) for size in SIZES + CLOSE]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
