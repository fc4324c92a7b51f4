#!/usr/bin/env python3
"""Rarer convolutions, pools and resizes against ONNX Runtime, one node a model: which kind is slow.

usage: conv_cases.py [--tilewright PATH] [--threads N] [--rounds 3] [--runs 25] [--only TEXT] [--inside] [--check]
                     [--exact]

Makes the models (weights seeded, sizes of about a millisecond), compares results with ONNX Runtime's within 1e-4 of
the largest magnitude, then lets both take turns and prints a line for each case: the medians in ms, GFLOP/s where
that means something, and ONNX Runtime's time divided by Tilewright's, the slowest first.  --check stops after the
comparison, which also fills the cache of compiled models, so that a later run times and nothing else.

A node alone reads and writes tensors as a caller lays them (channels first).  --inside puts a small 1x1 convolution
before it and one behind it, so that both engines lay its tensors as they would in a network.

Needs numpy, onnx and onnxruntime (tools/venv.sh).
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

BOUND = 1e-4  # of the largest magnitude


def case(op, shape, weights=None, bias=0, **attributes):
    """One node on an input of that shape; weights: their shape, bias: how many."""
    return {"op": op, "shape": shape, "weights": weights, "bias": bias, "attributes": attributes}


def conv(channels, size, filters, kernel, stride=1, pad=None, group=1, dilation=1, batch=1):
    """A convolution over as many axes as the kernel has; padded to keep its size where stride 1 would."""
    d = dilation
    rank = len(kernel)
    sizes = list(size) if isinstance(size, tuple) else [size] * rank
    pads = list(pad) if pad is not None else [d * (k - 1) // 2 for k in kernel] + [d * (k - 1) // 2 for k in kernel]
    return case("Conv", [batch, channels] + sizes, [filters, channels // group, *kernel], filters, pads=pads,
                strides=list(stride) if isinstance(stride, tuple) else [stride] * rank, group=group,
                dilations=[d] * rank)


def transposed(channels, size, filters, kernel, stride, pad, group=1, **more):
    return case("ConvTranspose", [1, channels, size, size], [channels, filters // group, kernel, kernel], filters,
                strides=[stride] * 2, pads=[pad] * 4, group=group, **more)


def pool(op, channels, size, kernel, stride, pad=0, **more):
    return case(op, [1, channels, size, size], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, **more)


CASES = {
    "conv 3x3": conv(64, 56, 64, (3, 3)),
    "conv 1x1": conv(256, 28, 256, (1, 1)),
    "conv 3x3 stride 2": conv(64, 56, 128, (3, 3), 2),
    "grouped 32 groups of 4": conv(128, 56, 128, (3, 3), group=32),
    "grouped 32 groups of 8": conv(256, 28, 256, (3, 3), group=32),
    "grouped 32 groups of 16 stride 2": conv(512, 28, 512, (3, 3), 2, group=32),
    "grouped 2 groups of 64": conv(128, 28, 128, (3, 3), group=2),
    "grouped 4 groups of 64": conv(256, 14, 256, (3, 3), group=4),
    "grouped 1x1 3 groups of 80": conv(240, 28, 240, (1, 1), group=3),
    "depthwise 3x3": conv(192, 56, 192, (3, 3), group=192),
    "depthwise 3x3 stride 2": conv(192, 112, 192, (3, 3), 2, group=192),
    "depthwise 5x5": conv(240, 28, 240, (5, 5), group=240),
    "depthwise 5x5 stride 2": conv(240, 56, 240, (5, 5), 2, group=240),
    "depthwise 7x7": conv(192, 28, 192, (7, 7), group=192),
    "depthwise 7x7 stride 2": conv(192, 56, 192, (7, 7), 2, group=192),
    "depthwise 3x3 dilation 2": conv(192, 56, 192, (3, 3), group=192, dilation=2),
    "depthwise 3x3 multiplier 2": conv(96, 56, 192, (3, 3), group=96),
    "conv 1-D k=3": conv(256, (400,), 256, (3,)),
    "conv 1-D k=7 stride 2": conv(128, (800,), 128, (7,), 2),
    "conv 1-D k=256 stride 64": conv(1, (64000,), 258, (256,), 64, pad=(0, 0)),
    "conv 1-D depthwise k=31": conv(256, (400,), 256, (31,), group=256),
    "conv 3-D 3x3x3": conv(16, (16, 28, 28), 32, (3, 3, 3)),
    "conv 3-D 3x3x3 first": conv(3, (16, 56, 56), 16, (3, 3, 3), (1, 2, 2)),
    "transposed 2x2 stride 2": transposed(64, 56, 64, 2, 2, 0),
    "transposed 3x3 stride 2": transposed(64, 28, 64, 3, 2, 1, output_padding=[1, 1]),
    "transposed 4x4 stride 2": transposed(128, 28, 64, 4, 2, 1),
    "transposed 3x3 stride 1": transposed(64, 56, 64, 3, 1, 1),
    "transposed 4x4 stride 2 4 groups": transposed(128, 28, 128, 4, 2, 1, group=4),
    "transposed depthwise 4x4 stride 2": transposed(64, 56, 64, 4, 2, 1, group=64),
    "dilated 3x3 d=2": conv(128, 28, 128, (3, 3), dilation=2),
    "dilated 3x3 d=4": conv(128, 28, 128, (3, 3), dilation=4),
    "asymmetric pads 3x3 stride 2": conv(64, 56, 64, (3, 3), 2, pad=(0, 0, 1, 1)),
    "asymmetric pads 4x4": conv(64, 28, 64, (4, 4), pad=(1, 1, 2, 2)),
    "conv 3x39 of 8 channels": conv(8, (172, 264), 8, (3, 39), (1, 3), pad=(1, 18, 1, 18)),
    "conv 5x5": conv(32, 56, 64, (5, 5)),
    "conv 1x7": conv(128, 28, 128, (1, 7)),
    "first 3x3 stride 2 of 3": conv(3, 224, 32, (3, 3), 2, pad=(1, 1, 1, 1)),
    "first 7x7 stride 2 of 1": conv(1, 224, 64, (7, 7), 2),
    "first 7x7 stride 2 of 3": conv(3, 224, 64, (7, 7), 2),
    "first 7x7 stride 2 of 4": conv(4, 224, 64, (7, 7), 2),
    "first 11x11 stride 4": conv(3, 224, 64, (11, 11), 4, pad=(2, 2, 2, 2)),
    "patches 16x16 stride 16": conv(3, 224, 192, (16, 16), 16, pad=(0, 0, 0, 0)),
    "last 3x3 to 3": conv(32, 112, 3, (3, 3)),
    "conv 3x3 batch 8": conv(64, 28, 64, (3, 3), batch=8),
    "conv 1x1 batch 8": conv(128, 14, 128, (1, 1), batch=8),
    "MaxPool 2x2 stride 2": pool("MaxPool", 64, 112, 2, 2),
    "MaxPool 3x3 stride 2": pool("MaxPool", 64, 112, 3, 2, 1),
    "MaxPool 3x3 stride 2 ceil": pool("MaxPool", 64, 112, 3, 2, 0, ceil_mode=1),
    "MaxPool 3x3 stride 1": pool("MaxPool", 64, 56, 3, 1, 1),
    "AveragePool 2x2 stride 2": pool("AveragePool", 64, 112, 2, 2),
    "AveragePool 3x3 stride 1": pool("AveragePool", 192, 35, 3, 1, 1),
    "AveragePool 3x3 stride 2 ceil": pool("AveragePool", 64, 112, 3, 2, 0, ceil_mode=1),
    "GlobalAveragePool": case("GlobalAveragePool", [1, 1280, 14, 14]),
    "GlobalMaxPool": case("GlobalMaxPool", [1, 1280, 14, 14]),
    "Resize nearest x2": case("Resize", [1, 64, 56, 56], mode="nearest", nearest_mode="floor",
                              coordinate_transformation_mode="asymmetric"),
    "Resize bilinear x2": case("Resize", [1, 64, 56, 56], mode="linear",
                               coordinate_transformation_mode="half_pixel"),
}


SMALL = 8  # channels before and behind a case that lies inside


def inside(c, nodes, constants, rng):
    """The input of the model instead, and the name of its result: a 1x1 convolution on either side."""
    many = {"before": c["shape"][1], "behind": c["bias"] or c["shape"][1]}
    ones = [1] * (len(c["shape"]) - 2)
    for name, shape in ("before", [many["before"], SMALL] + ones), ("behind", [SMALL, many["behind"]] + ones):
        constants.append((name, (rng.standard_normal(shape) / math.sqrt(shape[1])).astype(np.float32)))
    nodes[0].input[0], nodes[0].output[0] = "from", "to"
    nodes.insert(0, helper.make_node("Conv", ["x", "before"], ["from"]))
    nodes.append(helper.make_node("Conv", ["to", "behind"], ["y"]))
    return [c["shape"][0], SMALL] + c["shape"][2:]


def model(c, within):
    rng = np.random.default_rng(1)
    inputs, constants, shape = ["x"], [], c["shape"]
    if c["weights"]:
        fan = math.prod(c["weights"][1:])
        constants.append(("w", (rng.standard_normal(c["weights"]) / math.sqrt(fan)).astype(np.float32)))
        constants.append(("b", rng.standard_normal(c["bias"]).astype(np.float32)))
    if c["op"] == "Resize":
        inputs.append("")
        constants.append(("scales", np.array([1, 1, 2, 2], np.float32)))
    nodes = [helper.make_node(c["op"], inputs + [n for n, _ in constants], ["y"], **c["attributes"])]
    if within:
        shape = inside(c, nodes, constants, rng)
    graph = helper.make_graph(nodes, "case", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
                              [numpy_helper.from_array(v, n) for n, v in constants])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made, rng.standard_normal(shape).astype(np.float32)


def flops(c, result):
    """Multiplications and additions, 0 where the case has none."""
    if not c["weights"]:
        return 0
    if c["op"] == "ConvTranspose":
        return 2 * math.prod(c["shape"]) * math.prod(c["weights"][1:])
    return 2 * result.size * math.prod(c["weights"][1:])


class Contest:
    def __init__(self, args, name, c, folder):
        self.args, self.name, self.case = args, name, c
        self.path, self.input = os.path.join(folder, "model.onnx"), os.path.join(folder, "x.npy")
        self.folder = folder
        made, x = model(c, args.inside)
        onnx.save(made, self.path)
        np.save(self.input, x)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        self.x = x
        self.flops = 0 if args.inside else flops(c, self.session.run(None, {"x": x})[0])

    def tilewright(self, *words):
        options = ["--exact"] if self.args.exact else []
        done = subprocess.run([self.args.tilewright, words[0], self.path, "-i", "x=" + self.input, *options, *words[1:]],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit("%s: %s" % (self.name, done.stderr[-2000:]))
        return done.stdout

    def check(self):
        self.want = self.session.run(None, {"x": self.x})[0]
        self.tilewright("run", "-o", os.path.join(self.folder, "out"))
        got = np.load(os.path.join(self.folder, "out", "y.npy"))
        if got.shape != self.want.shape:
            sys.exit("%s: shape %s instead of %s" % (self.name, got.shape, self.want.shape))
        error = float(np.abs(got - self.want).max() / max(np.abs(self.want).max(), 1e-30))
        if not error <= BOUND:
            sys.exit("%s: error %.1e of the largest magnitude" % (self.name, error))
        return error

    def theirs(self):
        times = []
        for k in range(self.args.runs + 2):
            start = time.perf_counter()
            self.session.run(None, {"x": self.x})
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times[2:])

    def mine(self):
        said = self.tilewright("bench", "--threads", str(self.args.threads), "--runs", str(self.args.runs), "--json")
        return json.loads(said.strip().splitlines()[-1])["median_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tilewright", default="tilewright", metavar="PATH")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose names hold this, or one of a,b,c")
    parser.add_argument("--inside", action="store_true", help="with a 1x1 convolution before and behind")
    parser.add_argument("--check", action="store_true", help="compare results and stop")
    parser.add_argument("--exact", action="store_true", help="compile without what rounds otherwise")
    args = parser.parse_args()
    rows = []
    for name, c in CASES.items():
        if not any(word in name for word in args.only.split(",")) or (args.inside and c["shape"][1] < SMALL):
            continue
        with tempfile.TemporaryDirectory() as folder:
            contest = Contest(args, name, c, folder)
            error = contest.check()
            if args.check:
                print("%-36s error %.1e" % (name, error), flush=True)
                continue
            times = [(contest.theirs(), contest.mine()) for _ in range(args.rounds)]
            ratio = statistics.median(a / b for a, b in times)
            mine = statistics.median(b for _, b in times)
            theirs = statistics.median(a for a, _ in times)
            rows.append((ratio, "%-36s %7.3f ms  ONNX Runtime %7.3f ms  x%.2f  %6.1f GFLOP/s  error %.1e" %
                         (name, mine, theirs, ratio, contest.flops / mine * 1e-6, error)))
    for _, line in sorted(rows):
        print(line)
    if rows:
        print("%d cases, geometric mean x%.2f" % (len(rows), math.exp(statistics.mean(math.log(r) for r, _ in rows))))


if __name__ == "__main__":
    main()
