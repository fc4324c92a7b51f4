#!/usr/bin/env python3
"""Memory stays flat and results stay the same however models are used: other sizes in each of a thousand runs, several contexts at
once, contexts that come and go, are cancelled and given wrong inputs while others run (test/tools/soak.c).

usage: test_soak.py [--models]      TILEWRIGHT_BUILD: the build folder, default build/; the last line is "N passed, N failed"

Three small models: sums of products with two symbols, a loop whose length and sizes change, and one in which data decides sizes.
--models: BERT, a text detector and a recurrent network instead, those of them that tools/models.py has fetched.
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
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
REAL = {
    "bert_base_dynamic": ["-d", "n=1..2", "-d", "s=1..40", "--runs", "240", "--churn", "6000"],
    "ppocr_det": ["-d", "p2o_DynamicDimension_0=1..1", "-d", "p2o_DynamicDimension_1=32..256/32",
                  "-d", "p2o_DynamicDimension_2=32..256/32", "--churn", "6000"],
    "silero_vad": ["-d", "input_0=1..4", "-d", "state_1=input_0", "-d", "input_1=256..256", "--churn", "6000"],
}


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, *shape):
    numbers = numpy.random.RandomState(len(name) + sum(shape)).standard_normal(shape) / 4
    return numpy_helper.from_array(numbers.astype(numpy.float32), name)


def products():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["r"]),
             helper.make_node("Softmax", ["r"], ["y"], axis=-1)]
    return helper.make_graph(nodes, "products", [value("x", FLOAT, ["n", "m", 16])], [value("y", FLOAT, ["n", "m", 24])],
                             [weight("w", 16, 24)])


def loop():
    """What x becomes after as many steps as it has rows, and each step's first row."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["s", "w"], ["t"]), helper.make_node("Tanh", ["t"], ["next"]),
         helper.make_node("ReduceSum", ["next", "first"], ["row"], keepdims=0), helper.make_node("Identity", ["go"], ["on"])],
        "body", [value("i", INT64, []), value("go", BOOL, []), value("s", FLOAT, ["n", 8])],
        [value("on", BOOL, []), value("next", FLOAT, ["n", 8]), value("row", FLOAT, [8])])
    nodes = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Gather", ["shape", "zero"], ["count"], axis=0),
             helper.make_node("Loop", ["count", "", "x"], ["y", "rows"], body=body)]
    constants = [weight("w", 8, 8), numpy_helper.from_array(numpy.array([0], numpy.int64), "first"),
                 numpy_helper.from_array(numpy.array(0, numpy.int64), "zero")]
    return helper.make_graph(nodes, "loop", [value("x", FLOAT, ["n", 8])],
                             [value("y", FLOAT, ["n", 8]), value("rows", FLOAT, ["n", 8])], constants)


def places():
    """Values of x that are above 0, and where they are."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("NonZero", ["r"], ["at"]),
             helper.make_node("Transpose", ["at"], ["where"], perm=[1, 0]), helper.make_node("GatherND", ["x", "where"], ["found"]),
             helper.make_node("Exp", ["found"], ["y"])]
    return helper.make_graph(nodes, "places", [value("x", FLOAT, ["n", "m"])],
                             [value("where", INT64, ["k", 2]), value("y", FLOAT, ["k"])])


SMALL = {
    "products": (products, ["-d", "n=1..40", "-d", "m=1..30", "--churn", "1000"]),
    "loop": (loop, ["-d", "n=1..40", "--churn", "1000"]),
    "places": (places, ["-d", "n=1..60", "-d", "m=1..60", "--churn", "1000"]),
}


def soak(name, path, options):
    """(passed, failed)"""
    done = subprocess.run([os.path.join(BUILD, "soak"), path, *options], capture_output=True, text=True, timeout=900)
    lines = done.stdout.strip().splitlines() or ["no output"]
    print("\n".join(f"{name}: {line}" for line in lines[:-1] + done.stderr.strip().splitlines()), flush=True)
    words = lines[-1].split()
    if len(words) != 4 or words[1] != "passed,":
        print(f"{name}: exit code {done.returncode}: {lines[-1]}")
        return 0, 1
    return int(words[0]), int(words[2]) or int(done.returncode != 0)


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="tilewright-soak-") as folder:
        work = []
        if "--models" in sys.argv[1:]:
            import models
            work = [(name, models.path_of(name), options) for name, options in REAL.items() if os.path.exists(models.path_of(name))]
        else:
            os.environ["TILEWRIGHT_CACHE"] = os.path.join(folder, "cache")
            for name, (make, options) in SMALL.items():
                path = os.path.join(folder, name + ".onnx")
                onnx.save(helper.make_model(make(), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
                work.append((name, path, options))
        for item in work:
            good, bad = soak(*item)
            passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
