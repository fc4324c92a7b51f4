#!/usr/bin/env python3
"""Operators made of text, from outside.  usage: test_custom.py TILEWRIGHT SOURCE_DIR"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_cli import F32, F64, field, int_attribute, model, npy, tensor, value_info  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])

SNAKE = """symbol M, N;
tensor alpha: f32[];
tensor X: f32[M, N];
define Square: f32[M, N] = (i, j) => X[i, j] * X[i, j];
define Y: f32[M, N] = (i, j) => X[i, j] + alpha * Square[i, j];
"""

MATMUL = """symbol M, N, K;

program mm(A: f32[M, K], B: f32[K, N], out C: f32[M, N])
  launch core(ceil_div(M, 4) * ceil_div(N, 32)), lane(16)
{
  map tile = repeat(4, 2) * spatial(1, 16);
  for (bi, bj) in spatial(ceil_div(M, 4), ceil_div(N, 32)) on core {
    register acc: f32[4, 32] mirrors tile;
    for (i, j) in tile on lane {
      acc[i, j] = 0.0;
    }
    for k in repeat(K) {
      for (i, j) in tile on lane {
        acc[i, j] = fma(A[min(4 * bi + i, M - 1), k], B[k, min(32 * bj + j, N - 1)], acc[i, j]);
      }
    }
    for (i, j) in tile on lane within (M - 4 * bi, N - 32 * bj) {
      C[4 * bi + i, 32 * bj + j] = acc[i, j];
    }
  }
}
"""

MEANING = """
tensor A: f32[M, K];
tensor B: f32[K, N];
define C: f32[M, N] = (i, j) => sum(k < K, A[i, k] * B[k, j]);
"""

PACKED = """symbol M, N, K;

program pack(W: f32[K, N], out B: f32[K, round_up(N, 16)] layout row(1, ceil_div(N, 16)) * row(K, 16))
  launch core(ceil_div(N, 16)), lane(16)
{
  for (k, j) in spatial(1, ceil_div(N, 16)) * repeat(K, 1) * spatial(1, 16) on (core, lane) {
    B[k, j] = j < N ? W[k, j] : 0.0;
  }
}

program mul(A: f32[M, K], B: f32[K, round_up(N, 16)] layout row(1, ceil_div(N, 16)) * row(K, 16), out C: f32[M, N])
  launch core(M), lane(16)
{
  for (i) in spatial(M) on core {
    for b in repeat(ceil_div(N, 16)) {
      register acc: f32[16] mirrors spatial(16);
      for (j) in spatial(16) on lane {
        acc[j] = 0.0;
      }
      for k in repeat(K) {
        for (j) in spatial(16) on lane {
          acc[j] = fma(A[i, k], B[k, 16 * b + j], acc[j]);
        }
      }
      for (j) in spatial(16) on lane within (N - 16 * b) {
        C[i, 16 * b + j] = acc[j];
      }
    }
  }
}

launch MyMatMul(A: f32[M, K], W: f32[K, N], out C: f32[M, N]) {
  buffer B: f32[K, round_up(N, 16)] layout row(1, ceil_div(N, 16)) * row(K, 16);
  call pack(W, B);
  call mul(A, B, C);
}
"""


def float_attribute(name, value):
    return field(5, field(1, name) + bytes([2 << 3 | 5]) + struct.pack("<f", value) + field(20, 1))


def floats_attribute(name, values):
    return field(5, field(1, name) + b"".join(bytes([7 << 3 | 5]) + struct.pack("<f", v) for v in values) + field(20, 6))


def node(op, inputs, outputs, attributes=b"", domain=""):
    return b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, "n_" + op) + field(4, op) + attributes + \
        (field(7, domain) if domain else b"")


def my_model(*args):
    return model(*args) + field(8, field(1, "my") + field(2, 1))


class CustomTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp()
        cls.env = dict(os.environ, TILEWRIGHT_CACHE=os.path.join(cls.dir, "cache"), LC_ALL="C")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def path(self, name, data):
        with open(os.path.join(self.dir, name), "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)
        return name

    def run_cli(self, *args, code=0):
        done = subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, cwd=self.dir)
        self.assertEqual(done.returncode, code, (args, done.stdout.decode(), done.stderr.decode()))
        return (done.stdout if code == 0 else done.stderr).decode()

    def values(self, name):
        with open(os.path.join(self.dir, name), "rb") as f:
            data = f.read()
        at = 10 + struct.unpack("<H", data[8:10])[0]
        return struct.unpack("<%df" % ((len(data) - at) // 4), data[at:])

    def snake(self, attributes=float_attribute("alpha", 0.5), type_=F32, dims=("n", 8), inputs=("r",), outputs=("s",)):
        nodes = [node("Relu", ["x"], ["r"]), node("Snake", inputs, outputs, attributes, "my"), node("Neg", ["s"], ["y"])]
        return self.path("snake.onnx", my_model(nodes, [value_info("x", type_, dims)], [value_info("y", type_, dims)]))

    def matmul(self, op="MyMatMul", domain="my"):
        w = [random.uniform(-1, 1) for _ in range(20 * 33)]
        nodes = [node("Relu", ["x"], ["r"]), node(op, ["r", "w"], ["m"], domain=domain), node("Add", ["m", "b"], ["a"]), node("Relu", ["a"], ["y"])]
        self.path("matmul.onnx", my_model(nodes, [value_info("x", F32, ("n", 20)), value_info("b", F32, (33,))], [value_info("y", F32, ("n", 33))],
                                          [tensor("w", F32, (20, 33), struct.pack("<660f", *w))]))
        return w

    def test_definitions(self):
        m = self.snake()
        self.path("Snake.tw", SNAKE)
        x = [random.uniform(-1, 1) for _ in range(24)]
        self.path("x.npy", npy("<f4", (3, 8), struct.pack("<24f", *x)))
        for op in ("Snake.tw", "Snake=Snake.tw", "my::Snake=Snake.tw", "./Snake.tw"):
            text = self.run_cli("run", m, "--op", op, "-i", "x=x.npy", "-o", "out", "--verify")
            self.assertEqual(text.count("1 of 1 outputs agree"), 2)
        self.assertRegex(self.run_cli("check", m, "--op", "Snake.tw"), r"Snake +1 +1  kernels")
        self.run_cli("check", m, code=1)
        for got, v in zip(self.values("out/y.npy"), x):
            r = max(v, 0)
            self.assertAlmostEqual(got, -(r + 0.5 * r * r), places=5)
        self.assertIn("kernels: 1\n", self.run_cli("show", m, "--op", "Snake.tw"))
        self.assertIn("operator is not supported", self.run_cli("run", m, "--op", "other::Snake=Snake.tw", "-i", "x=x.npy", code=1))
        self.assertIn("median", self.run_cli("bench", m, "--op", "Snake.tw", "-i", "x=x.npy", "--runs", "1"))

    def test_attributes(self):
        text = """symbol N, K, times;
tensor X: f32[N];
tensor weights: f32[K];
define Y: f32[N] = (i) => f32(times) * sum(k < K, weights[k] * X[max(i - k, 0)]);
define Z: f32[times, N] = (t, i) => X[i];
"""
        self.path("Blur.tw", text)
        attributes = floats_attribute("weights", [0.5, 0.25, 0.25]) + int_attribute("times", 3)
        m = self.path("blur.onnx", my_model([node("Blur", ["x"], ["y", "z"], attributes, "my")], [value_info("x", F32, ("n",))],
                                            [value_info("y", F32, ("n",)), value_info("z", F32, (3, "n"))]))
        self.path("x.npy", npy("<f4", (4,), struct.pack("<4f", 1, 2, 4, 8)))
        self.run_cli("run", m, "--op", "Blur.tw", "-i", "x=x.npy", "-o", "out", "--verify")
        self.assertEqual(self.values("out/y.npy"), (3.0, 4.5, 8.25, 16.5))
        self.assertEqual(self.values("out/z.npy"), (1, 2, 4, 8) * 3)

    def test_programs_are_fused(self):
        """What makes the input and what uses the output become part of the program; it gives what ours gives."""
        self.path("a.tw", MATMUL)
        self.path("packed.tw", PACKED)
        self.path("meaning.tw", MATMUL + MEANING)
        w = self.matmul()
        x = [random.uniform(-1, 1) for _ in range(5 * 20)]
        b = [random.uniform(-1, 1) for _ in range(33)]
        self.path("x.npy", npy("<f4", (5, 20), struct.pack("<100f", *x)))
        self.path("b.npy", npy("<f4", (33,), struct.pack("<33f", *b)))
        want = [max(0, b[j] + sum(max(x[i * 20 + k], 0) * w[k * 33 + j] for k in range(20))) for i in range(5) for j in range(33)]
        for op, steps in ("my::MyMatMul=a.tw", 1), ("MyMatMul=packed.tw", 1), ("MyMatMul=meaning.tw", 1):
            text = self.run_cli("run", "matmul.onnx", "--op", op, "-i", "x=x.npy", "-i", "b=b.npy", "-o", "out", "--verify")
            self.assertIn("without optimisation: 1 of 1 outputs agree", text)
            self.assertEqual("interpreter: 1 of 1 outputs agree" in text, "meaning" in op)
            for got, value in zip(self.values("out/y.npy"), want):
                self.assertAlmostEqual(got, value, places=4)
            self.assertIn("steps: %d\n" % steps, self.run_cli("show", "matmul.onnx", "--op", op))  # packing is done beforehand
            for isa in ("scalar", "generic"):
                self.run_cli("run", "matmul.onnx", "--op", op, "-i", "x=x.npy", "-i", "b=b.npy", "-o", "out_" + isa, "--isa", isa)
                for got, value in zip(self.values("out_%s/y.npy" % isa), want):
                    self.assertAlmostEqual(got, value, places=4)

    def test_operators_of_onnx_too(self):
        self.path("a.tw", MATMUL)
        self.matmul("MatMul", "")
        shown = self.run_cli("show", "matmul.onnx", "--op", "MatMul=a.tw")
        self.assertRegex(shown, r"kernel mm +n_MatMul")
        self.assertNotRegex(self.run_cli("show", "matmul.onnx"), r"kernel mm ")
        self.run_cli("run", "matmul.onnx", "--op", "::MatMul=a.tw", "-d", "n=3", "--random", "1", "--verify")

    def test_what_does_not_fit(self):
        self.path("Snake.tw", SNAKE)
        for arguments, says in [({"type_": F64}, r"input 0 is of type f64, but Snake.tw has X f32\[M, N\]"),
                                ({"dims": ("n",)}, r"input 0 has 1 dimensions, but Snake.tw has X f32\[M, N\]"),
                                ({"attributes": b""}, "has 1 inputs and 1 outputs, but Snake.tw is written for 2 and 1"),
                                ({"attributes": float_attribute("beta", 1)}, "attribute 'beta' is not supported"),
                                ({"attributes": floats_attribute("alpha", [1, 2])}, "attribute 'alpha' is a list"),
                                ({"outputs": ("s", "t")}, "1 inputs and 2 outputs")]:
            m = self.snake(**arguments)
            self.assertRegex(self.run_cli("run", m, "--op", "Snake.tw", "-d", "n=3", "--random", "1", code=1), "n_Snake.*" + says)
        m = self.snake()
        for text, says in [("", "neither a definition nor a program"), ("symbol N;", "neither a definition nor a program"),
                           (SNAKE.replace("Square[i, j];", "Square[i];"), r":5:51: load of 'Square' \(rank 2\)"),
                           (SNAKE.replace("Square[i, j];", "Square[i, j, j];"), r"bad.tw:5:\d+: "),
                           (SNAKE.replace("symbol M, N;", "symbol M, N, Q;") + "define Z: f32[Q] = (i) => 0.0;", "1 inputs and 1 outputs|nothing tells Q"),
                           (SNAKE.replace("symbol M, N;", "symbol M; symbol N in 1..4;"), "declares N in 1..4"),
                           (MATMUL + MATMUL.replace("program mm", "program mm2").split(";", 1)[1], "several programs and none of this name"),
                           (MATMUL.replace("core(ceil_div(M, 4) * ceil_div(N, 32)), lane(16)", "block(1), thread(16)").replace("on core", "on block")
                            .replace("on lane", "on thread"), "launched on blocks")]:
            self.path("bad.tw", text)
            self.assertRegex(self.run_cli("run", m, "--op", "Snake=bad.tw", "-d", "n=3", "--random", "1", code=1), says)
        self.assertIn("cannot read", self.run_cli("run", m, "--op", "none.tw", "-d", "n=3", "--random", "1", code=1))


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0]] + sys.argv[3:], exit=False, verbosity=1).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed" % (result.testsRun - bad, bad))
    sys.exit(bool(bad))
