#!/usr/bin/env python3
"""Write what ONNX Runtime computes for every tensor of a model, as `tilewright run --compare` reads it.

usage: reference_tensors.py MODEL OUT_DIR [NAME=FILE.npy ...]

    tools/reference_tensors.py model.onnx ref x=picture.npy
    tilewright run model.onnx -i x=picture.npy --no-optimise --compare ref

compares each tensor that a node makes, in the order of the graph, and names the first that differs.  ONNX Runtime runs
without its graph optimisations and on one thread.  OUT_DIR gets a numbered .npy file for each tensor, the inputs among
them, and names.txt, which says whose each is (a line: file, tab, tensor).  Any other program's tensors may be laid out the
same way.  Tensors inside the bodies of If, Loop and Scan are not written.
"""
import os
import sys

import numpy as np
import onnx

import cut


def spelt(name):
    return name.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def main():
    if len(sys.argv) < 3 or any("=" not in word for word in sys.argv[3:]):
        sys.exit(__doc__)
    path, folder = sys.argv[1:3]
    feeds = {}
    for word in sys.argv[3:]:
        name, _, file = word.rpartition("=")
        feeds[name] = np.load(file)
    values = {**feeds, **cut.values_of_all(onnx.load(path), feeds)}
    os.makedirs(folder, exist_ok=True)
    lines = []
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.dtype != object:  # no sequences, no strings
            file = "%06d.npy" % len(lines)
            np.save(os.path.join(folder, file), value)
            lines.append("%s\t%s\n" % (file, spelt(name)))
    with open(os.path.join(folder, "names.txt"), "w", encoding="utf-8") as f:
        f.writelines(lines)
    print("%d tensors in %s" % (len(lines), folder))


if __name__ == "__main__":
    main()
