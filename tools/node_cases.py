#!/usr/bin/env python3
"""Write the onnx package's own node test cases as ONNX test folders.

usage: node_cases.py OUT_DIR

Each case becomes OUT_DIR/NAME/ with model.onnx, test_data_set_0/input_K.pb and output_K.pb (TensorProto files) and
meta.json, which holds the relative and absolute tolerance the case asks for.  Written are the cases whose inputs and
outputs are all plain tensors: 1,829 of the 1,884 that onnx 1.23.2 has.  Left out, and counted in the last line, are
those that take or give sequences, optionals or tensors of strings.  The same onnx and Pillow (for one
encoded image) give the same bytes every time.

OUT_DIR is made anew as a whole; a marker file with the package's version makes a second call return at once.
"""
import json
import os
import random
import shutil
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

MARKER = ".complete"
FORMAT = "1"  # of what is written here; a change makes existing folders stale


def kind_of(case):
    """What keeps a case from being plain, or None."""
    values = list(case.model.graph.input) + list(case.model.graph.output)
    kinds = {v.type.WhichOneof("value") for v in values}
    for kind in ("sequence_type", "optional_type"):
        if kind in kinds:
            return kind[:-len("_type")]
    if kinds - {"tensor_type"}:
        return "other"
    if any(v.type.tensor_type.elem_type == TensorProto.STRING for v in values):
        return "string"
    return None


def tensor(value, info):
    """The TensorProto of a data set's value, named and typed as the graph says."""
    kind = info.type.tensor_type.elem_type
    if isinstance(value, TensorProto):
        proto = TensorProto()
        proto.CopyFrom(value)
    else:
        proto = numpy_helper.from_array(np.asarray(value))
    if proto.data_type != kind:
        raise ValueError("%s: data is %s, graph says %s" % (
            info.name, TensorProto.DataType.Name(proto.data_type), TensorProto.DataType.Name(kind)))
    proto.name = info.name
    return proto


def write_bytes(path, message):
    with open(path, "wb") as f:
        f.write(message.SerializeToString(deterministic=True))


def write_case(case, folder):
    os.makedirs(folder)
    write_bytes(os.path.join(folder, "model.onnx"), case.model)
    for k, (inputs, outputs) in enumerate(case.data_sets):
        place = os.path.join(folder, "test_data_set_%d" % k)
        os.mkdir(place)
        graph = case.model.graph
        for side, infos, values in (("input", graph.input, inputs), ("output", graph.output, outputs)):
            if len(infos) != len(values):
                raise ValueError("%s: %d %ss in the graph, %d in the data" % (case.name, len(infos), side, len(values)))
            for i, (info, value) in enumerate(zip(infos, values)):
                write_bytes(os.path.join(place, "%s_%d.pb" % (side, i)), tensor(value, info))
    with open(os.path.join(folder, "meta.json"), "w") as f:
        json.dump({"rtol": case.rtol, "atol": case.atol}, f)
        f.write("\n")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    out = sys.argv[1]
    version = "onnx %s format %s\n" % (onnx.__version__, FORMAT)
    marker = os.path.join(out, MARKER)
    if os.path.exists(marker) and open(marker).read() == version:
        return
    if os.path.isdir(out) and os.listdir(out) and not os.path.exists(marker):
        sys.exit("node_cases.py: %s is not empty and was not written by this script" % out)
    random.seed(0)
    np.random.seed(0)
    left_out = {}
    building = out.rstrip("/") + ".new"
    shutil.rmtree(building, ignore_errors=True)
    os.makedirs(building)
    written = 0
    for case in sorted(collect_testcases(None), key=lambda c: c.name):
        reason = kind_of(case)
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        write_case(case, os.path.join(building, case.name))
        written += 1
    with open(os.path.join(building, MARKER), "w") as f:
        f.write(version)
    shutil.rmtree(out, ignore_errors=True)
    os.replace(building, out)
    print("onnx %s: %d cases written; left out: %s" % (
        onnx.__version__, written, ", ".join("%d %s" % (n, k) for k, n in sorted(left_out.items()))))


if __name__ == "__main__":
    main()
