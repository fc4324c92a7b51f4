#!/usr/bin/env python3
"""Test reference_tensors.py with run --compare: all tensors of a model against ONNX Runtime's, whatever their names.

usage: test_reference_tensors.py        (TILEWRIGHT_BUILD names the build folder; the last line is "N passed, N failed")
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(os.environ.get("TILEWRIGHT_BUILD", os.path.join(os.path.dirname(HERE), "build")), "tilewright")
NAMES = ["/conv/out:0", "/conv/out_0", "é漢\tx", "n" * 300]  # of what the nodes make, one after the other


def model(path, factor):
    """factor: what the third node multiplies by, so that two models part there."""
    constants = [numpy_helper.from_array(np.float32(value), name) for name, value in (("k", 2), ("f", factor))]
    nodes = [helper.make_node("Add", ["x", "k"], [NAMES[0]]), helper.make_node("Tanh", [NAMES[0]], [NAMES[1]]),
             helper.make_node("Mul", [NAMES[1], "f"], [NAMES[2]]), helper.make_node("Sqrt", [NAMES[2]], [NAMES[3]])]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 5])
    graph = helper.make_graph(nodes, "g", [value("x")], [value(NAMES[3])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def main():
    with tempfile.TemporaryDirectory() as place:
        at = lambda name: os.path.join(place, name)
        model(at("right.onnx"), 3)
        model(at("wrong.onnx"), 3.1)
        np.save(at("x.npy"), np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32))
        done = subprocess.run([sys.executable, os.path.join(HERE, "reference_tensors.py"), at("right.onnx"), at("ref"), "x=" + at("x.npy")],
                              capture_output=True, text=True)
        results = [done.returncode == 0 and "5 tensors" in done.stdout]
        for name, code, says in (("right.onnx", 0, "5 of 5 tensors compared, 0 differ"), ("wrong.onnx", 1, "5 of 5 tensors compared, 2 differ")):
            run = subprocess.run([PROGRAM, "run", at(name), "-i", "x=" + at("x.npy"), "--no-optimise", "--compare", at("ref")],
                                 capture_output=True, text=True, env={**os.environ, "TILEWRIGHT_CACHE": at("cache")})
            results.append(run.returncode == code and says in run.stdout)
            if not results[-1]:
                print(run.stdout, run.stderr)
        first = [line for line in run.stdout.splitlines() if "DIFFERS FIRST" in line]
        results.append(len(first) == 1 and "é漢" in first[0] and "element [0, 0] is" in first[0])
    passed = sum(results)
    print("%d passed, %d failed" % (passed, len(results) - passed))
    return passed < len(results)


if __name__ == "__main__":
    sys.exit(main())
