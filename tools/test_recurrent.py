#!/usr/bin/env python3
"""Recurrent cells over sequences: every step of LSTM, GRU and RNN against ONNX's equations in double precision, for numbers of
rows that fill chunks, leave some over, or are none, with symbols for sizes and without, on one thread and on two.

usage: test_recurrent.py        TILEWRIGHT_BUILD: the build folder, default build/; the last line is "N passed, N failed"

That the loop became one program, where its weights fit the cache, is checked as well; one model's do not.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import library

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("TILEWRIGHT_BUILD", os.path.join(ROOT, "build"))
SIZES = [(3, 1), (4, 4), (2, 6), (1, 9), (3, 0), (0, 2)]  # steps, rows
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Cell:
    def __init__(self, kind, directions, hidden, inputs, rows="N", first=0, attributes=None):
        self.kind, self.directions, self.hidden, self.rows, self.first = kind, directions, hidden, rows, first
        self.attributes = attributes or {}
        numbers, gates = np.random.RandomState(hidden), GATES[kind]
        near = 1 / np.sqrt(hidden)
        self.w, self.r, self.b = (numbers.uniform(-near, near, (directions, *shape)).astype(np.float32) for shape in (
            (gates * hidden, inputs), (gates * hidden, hidden), (2 * gates * hidden,)))

    def write(self, path):
        state = [self.directions, self.rows, self.hidden]
        names = ["X", "L", "h", "c"] if self.kind == "LSTM" else ["X", "L", "h"]
        shapes = {"X": ["S", self.rows, self.w.shape[2]], "L": [self.rows], "h": state, "c": state}
        outputs = ["Y", "Y_h", "Y_c"] if self.kind == "LSTM" else ["Y", "Y_h"]
        direction = "bidirectional" if self.directions == 2 else "reverse" if self.first else "forward"
        node = helper.make_node(self.kind, ["X", "W", "R", "B", "L", *names[2:]], outputs, hidden_size=self.hidden,
                                direction=direction, **self.attributes)
        graph = helper.make_graph(
            [node], "cell",
            [helper.make_tensor_value_info(n, TensorProto.INT32 if n == "L" else TensorProto.FLOAT, shapes[n]) for n in names],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(a, n) for a, n in ((self.w, "W"), (self.r, "R"), (self.b, "B"))])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)

    def step(self, d, x, h, c):
        w, r, b = (a[d].astype(np.float64) for a in (self.w, self.r, self.b))
        half, n = len(b) // 2, self.hidden
        given, state = x @ w.T + b[:half], h @ r.T + b[half:]
        if self.kind == "RNN":
            return np.tanh(given + state), c
        if self.kind == "LSTM":
            i, o, f, g = np.split(given + state, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            return sigmoid(o) * np.tanh(c), c
        z, reset = sigmoid(given[:, :n] + state[:, :n]), sigmoid(given[:, n:2 * n] + state[:, n:2 * n])
        if self.attributes.get("linear_before_reset"):
            fresh = np.tanh(given[:, 2 * n:] + reset * state[:, 2 * n:])
        else:
            fresh = np.tanh(given[:, 2 * n:] + (reset * h) @ r[2 * n:].T + b[half + 2 * n:])
        return (1 - z) * fresh + z * h, c

    def expected(self, feeds):
        x, lengths = feeds["X"].astype(np.float64), feeds["L"]
        steps, rows = x.shape[:2]
        y = np.zeros((steps, self.directions, rows, self.hidden))
        h = feeds["h"].astype(np.float64)
        c = feeds.get("c", feeds["h"]).astype(np.float64)
        for d in range(self.directions):
            for row in range(rows):
                one_h, one_c = h[d, row:row + 1], c[d, row:row + 1]
                order = range(lengths[row])
                for t in reversed(order) if d or self.first else order:
                    one_h, one_c = self.step(d, x[t, row:row + 1], one_h, one_c)
                    y[t, d, row] = one_h
                h[d, row], c[d, row] = one_h, one_c
        return {"Y": y, "Y_h": h, **({"Y_c": c} if self.kind == "LSTM" else {})}

    def feeds(self, steps, rows):
        numbers = np.random.RandomState(100 * steps + rows)
        state = (self.directions, rows, self.hidden)
        made = {"X": numbers.randn(steps, rows, self.w.shape[2]), "h": numbers.randn(*state)}
        if self.kind == "LSTM":
            made["c"] = numbers.randn(*state)
        made = {name: value.astype(np.float32) for name, value in made.items()}
        return {**made, "L": numbers.randint(min(steps, 1), steps + 1, rows).astype(np.int32)}


CELLS = {  # name: cell, whether its loop is one program
    "LSTM both ways": (Cell("LSTM", 2, 20, 7), True),
    "LSTM of ten rows": (Cell("LSTM", 1, 16, 5, rows=10), True),
    "GRU backwards": (Cell("GRU", 1, 20, 7, first=1), True),
    "GRU, linear before reset": (Cell("GRU", 2, 32, 3, attributes={"linear_before_reset": 1}), True),
    "RNN": (Cell("RNN", 1, 20, 7), True),
    "RNN beyond the cache": (Cell("RNN", 1, 1536, 4, rows=2), False),
}


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="tilewright-recurrent-") as place:
        os.environ["TILEWRIGHT_CACHE"] = os.path.join(place, "cache")
        os.mkdir(os.environ["TILEWRIGHT_CACHE"])
        for name, (cell, whole) in CELLS.items():
            path, wrong = os.path.join(place, "model.onnx"), []
            cell.write(path)
            one, two = (library.Model(path, BUILD, threads) for threads in (1, 2))
            shown = subprocess.run([os.path.join(BUILD, "tilewright"), "show", path], capture_output=True, text=True).stdout
            if ("flow" in shown) == whole:
                wrong.append("the loop is %s" % ("not one program" if whole else "one program"))
            for steps, rows in SIZES if cell.rows == "N" else [(3, cell.rows)]:
                feeds = cell.feeds(steps, rows)
                got, again, want = one.run(feeds), two.run(feeds), cell.expected(feeds)
                for output, right in want.items():
                    error = np.abs(got[output] - right).max(initial=0) if got[output].shape == right.shape else np.inf
                    if not error < 2e-6:
                        wrong.append("%d steps, %d rows: %s is off by %.1e" % (steps, rows, output, error))
                    if not np.array_equal(got[output], again[output]):
                        wrong.append("%d steps, %d rows: %s depends on the threads" % (steps, rows, output))
            one.close()
            two.close()
            for text in wrong:
                print("FAIL %s: %s" % (name, text))
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


sys.exit(main())
