#!/usr/bin/env python3
"""tilewright program from outside.  usage: test_program.py TILEWRIGHT SOURCE_DIR"""
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

ADD = """symbol N;

program add(A: f32[N], B: f32[N], out C: f32[N])
  launch core(ceil_div(N, 64)), lane(16)
{
  for (i) in spatial(ceil_div(N, 64)) * repeat(4) * spatial(16) on (core, lane) within (N) {
    C[i] = A[i] + B[i];
  }
}
"""

MATMUL = """symbol M, N, K;

program matmul(A: f32[M, K], B: f32[K, N], out C: f32[M, N])
  launch core(M), lane(16)
{
  for (i) in spatial(M) on core {
    for (j) in repeat(ceil_div(N, 16)) * spatial(16) on lane within (N) {
      register acc: f32[];
      acc = 0.0;
      for k in repeat(K) {
        acc = fma(A[i, k], B[k, j], acc);
      }
      C[i, j] = acc;
    }
  }
}
"""


GPU_ADD = """symbol N;

program add(A: f32[N], B: f32[N], out C: f32[N])
  launch block(ceil_div(N, 512)), thread(128)
{
  for (i) in spatial(ceil_div(N, 512)) * repeat(4) * spatial(128) on (block, thread) within (N) {
    C[i] = A[i] * B[i] + max(A[i], B[i]);
  }
}
"""

WARPS = """symbol M, N;

program halves(A: f32[M, N], out B: f32[M, N], out S: f32[M])
  launch block(M), warp(2), lane(32)
{
  shared row: f32[64];
  shared total: f32[2];
  for (i) in spatial(M) on block {
    register part: f32[];
    part = 0.0;
    for (j) in repeat(ceil_div(N, 64)) * spatial(64) on thread within (N) {
      B[i, j] = exp(A[i, j]);
      part = part + A[i, j];
    }
    for (w, l) in spatial(2, 32) on (warp, lane) {
      row[w * 32 + l] = part;
    }
    barrier block;
    for (w) in spatial(2) on warp {
      if lane == 0 {
        register s: f32[];
        s = 0.0;
        for l in repeat(32) {
          s = s + row[w * 32 + l];
        }
        total[w] = s;
      }
    }
    barrier block;
    if thread == 0 {
      S[i] = total[0] + total[1];
    }
  }
}
"""

LAUNCH = """symbol M, N, R;

program scale(A: f32[N], out C: f32[N])
  launch core(1), lane(8)
{
  for (i) in repeat(ceil_div(N, 8)) * spatial(8) on lane within (N) {
    C[i] = 2.0 * A[i];
  }
}

program rows(out C: f32[R, N], A: f32[R, N])
  launch core(R), lane(8)
{
  for (i) in spatial(R) on core {
    for (j) in repeat(ceil_div(N, 8)) * spatial(8) on lane within (N) {
      C[i, j] = A[i, j] + f32(i);
    }
  }
}

launch both(A: f32[M, N], out C: f32[M, N], out D: f32[M, N]) {
  buffer T: f32[M, N];
  let m = M;
  for i in repeat(m) {
    call scale(A[i], T[i]);
  }
  if M < 3 {
    call rows(C, T) with (R = M);
  } else {
    for i in repeat(M) {
      call scale(T[i], C[i]);
    }
  }
  call rows(D, C) with (R = M);
}
"""

# name, m, n, k, type, type of the sum, elements beside each other in a register
MATRIX = [("m16n8k8_f16", 16, 8, 8, "f16", "f32", 2), ("m16n8k16_f16", 16, 8, 16, "f16", "f32", 2), ("m16n8k16_bf16", 16, 8, 16, "bf16", "f32", 2),
          ("m16n8k4_tf32", 16, 8, 4, "f32", "f32", 1), ("m16n8k8_tf32", 16, 8, 8, "f32", "f32", 1), ("m16n8k32_i8", 16, 8, 32, "i8", "i32", 4),
          ("m8n8k4_f64", 8, 8, 4, "f64", "f64", 1)]


def matrix_program(name, m, n, k, type_, sum_, wide):
    """Two warps, each a tile of its own; fragments element by element, where the instruction wants them."""
    halves, na, nb, nd = (2 if m == 16 else 1), m * k // 32, k * n // 32, m * n // 32
    return f"""program {name}(A: {type_}[2, {m}, {k}], B: {type_}[2, {k}, {n}], C: {sum_}[2, {m}, {n}], out D: {sum_}[2, {m}, {n}])
  launch block(1), warp(2), lane(32)
{{
  register a: {type_}[{na}];
  register b: {type_}[{nb}];
  register d: {sum_}[{nd}];
  for e in repeat({na}) {{
    a[e] = A[warp, lane / 4 + e / {wide} % {halves} * 8, lane % 4 * {wide} + e % {wide} + {4 * wide} * (e / {wide * halves})];
  }}
  for e in repeat({nb}) {{
    b[e] = B[warp, lane % 4 * {wide} + e % {wide} + {4 * wide} * (e / {wide}), lane / 4];
  }}
  for e in repeat({nd}) {{
    d[e] = C[warp, lane / 4 + e / 2 * 8, lane % 4 * 2 + e % 2];
  }}
  mma {name} d, a, b;
  for (w, l) in spatial(2, 32) on (warp, lane) {{
    for e in repeat({nd}) {{
      D[w, l / 4 + e / 2 * 8, l % 4 * 2 + e % 2] = d[e];
    }}
  }}
}}
"""


NVCC = next((p for p in (shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc") if p and os.path.exists(p)), None)


def npy(dims, values, code="<f4", form="f"):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (code, "".join("%d, " % d for d in dims))
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + struct.pack("<%d%s" % (len(values), form), *values)


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<H", data[8:10])[0]
    return struct.unpack("<%df" % ((len(data) - 10 - size) // 4), data[10 + size:])


PACKED = """symbol N;
program cores(X: i4[N], U: u4[N], E: f4e2m1[N], T: i2[N], W: u2[N], S: i4[], out A: i4[N], out B: u4[N],
    out C: f4e2m1[N], out D: i2[N], out F: u2[N], out G: i4[]) launch core(ceil_div(N, 32)), lane(16) {
  for (i) in spatial(ceil_div(N, 32)) * repeat(2) * spatial(16) on (core, lane) within (N) {
    A[i] = X[N - 1 - i];
    B[i] = u4(i32(U[i]) + i32(W[i]));
    C[i] = i32(T[i]) < 0 ? E[i] : f4e2m1(f32(X[i]) * 0.5);
    D[i] = T[N - 1 - i];
    F[i] = u2(f32(E[i]));
  }
  if core < 1 { G = i4(i32(S) + 1); }
}
program blocks(X: i4[N], E: f4e2m1[N], out Y: i4[N], out Z: f32[N], out P: u2[N]) launch block(ceil_div(N, 64)), thread(8) {
  shared S: i4[64];
  for (b) in spatial(ceil_div(N, 64)) on block {
    for (i) in repeat(2) * spatial(8) * repeat(4) on thread within (N - 64 * b) {
      S[i] = i4(i32(X[64 * b + i]) + 1);
    }
    barrier block;
    for (i) in repeat(2) * spatial(8) * repeat(4) on thread within (N - 64 * b) {
      Y[64 * b + i] = S[min(63, N - 64 * b - 1) - i];
      P[64 * b + i] = u2(3.0 * f32(E[64 * b + i]));
      Z[64 * b + i] = f32(E[64 * b + i]) + f32(S[i]);
    }
  }
}
program values(E: f4e2m1[16], X: i4[16], out V: f32[16], out Y: u4[16]) launch core(1) {
  for i in repeat(16) { V[i] = f32(E[i]); Y[i] = u4(-i32(X[i])); }
}
"""


class ProgramTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content.encode() if isinstance(content, str) else content)
        return path

    def run_cli(self, *args, code=0):
        done = subprocess.run([PROGRAM, "program", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
        self.assertEqual(done.returncode, code, (args, done.stdout.decode(), done.stderr.decode()))
        return (done.stdout if code == 0 else done.stderr).decode()

    def test_check_finds_faults(self):
        """Beyond what is refused when it is read: with the place, the sizes that show it, and a hint."""
        bad = self.path("beyond.tw", ADD.replace("A[i] + B[i]", "A[i] + B[i + 1]").encode())
        p = subprocess.run([PROGRAM, "program", bad], capture_output=True, text=True)
        self.assertEqual(p.returncode, 1)
        self.assertIn("beyond.tw:7:5: B[1]: out of bounds (with N = 1)", p.stderr)
        self.assertIn("hint: bound the loop", p.stderr)
        twice = self.path("twice.tw", ADD.replace("C[i] =", "C[i / 2] =").encode())
        p = subprocess.run([PROGRAM, "program", twice], capture_output=True, text=True)
        self.assertEqual(p.returncode, 1)
        self.assertIn("stored a second time", p.stderr)

    def test_structure_is_told_with_its_place(self):
        """What the verifier and the interpreter refuse names file, line and column, with a mark and a hint."""
        stored = self.path("stored.tw", ADD.replace("C[i] =", "A[i] ="))
        self.assertEqual(self.run_cli(stored, code=1), "tilewright: %s:7:5: store to input 'A'\n      A[i] = A[i] + B[i];\n      ^\n"
                         "hint: outputs are declared out: (X: f32[N], out Y: f32[N])\n" % stored)
        beyond = self.path("beyond.tw", ADD.replace("A[i] +", "A[i + 1] +"))
        said = self.run_cli(beyond, "--run", "interp", "--random", "1", "-d", "N=16", code=1)
        self.assertIn("beyond.tw:7:5: A[16]: out of bounds\n", said)
        self.assertIn("\n      C[i] = A[i + 1] + B[i];\n      ^\nhint: bound the loop", said)
        part = self.path("part.tw", "program p(out Y: f32[4]) launch core(1) {\n  Y[0] = 1.0;\n}\n")
        self.assertIn("part.tw:2:3: Y[1] is never stored", self.run_cli(part, code=1))

    def test_check_lists_what_is_not_proved(self):
        good = self.path("good.tw", ADD.encode())
        p = subprocess.run([PROGRAM, "program", good, "--unproved"], capture_output=True, text=True)
        self.assertEqual((p.returncode, p.stdout), (0, ""))
        gather = self.path("gather.tw", ADD.replace("A: f32[N]", "A: f32[N], I: i64[N]").replace("A[i]", "A[index(I[i])]").encode())
        p = subprocess.run([PROGRAM, "program", gather], capture_output=True, text=True)
        self.assertEqual((p.returncode, p.stdout), (0, "1 place is not proved right (--unproved lists it)\n"))
        p = subprocess.run([PROGRAM, "program", gather, "--unproved"], capture_output=True, text=True)
        self.assertEqual(p.returncode, 0)
        self.assertIn("gather.tw:7:5: not proved: bounds of A[", p.stdout)

    def test_check(self):
        self.assertEqual(self.run_cli(self.path("add.tw", ADD)), "")
        wrong = self.run_cli(self.path("wrong.tw", ADD.replace("A[i] +", "A[i, i] +")), code=1)
        self.assertRegex(wrong, r"wrong\.tw:7:\d+: ")
        self.assertIn("C[i] = A[i, i] + B[i];", wrong)
        unverified = self.run_cli(self.path("core.tw", ADD.replace("* spatial(16)", "* repeat(16)")), code=1)
        self.assertRegex(unverified, "6:3: .*lanes")
        for text, code in [("program", 1), ("", 0), ("symbol N;", 0), ("\0", 1), ("define X: f32[4] = (i) => 1.0;", 0), ("# nothing\n", 0)]:
            self.run_cli(self.path("other.tw", text), code=code)
        self.assertIn("cannot read", self.run_cli(self.path("none.tw"), code=1))
        self.assertIn("which file", self.run_cli(code=2))

    def test_choice(self):
        both = self.path("both.tw", ADD + MATMUL.replace("symbol M, N, K", "symbol M, K"))
        self.assertEqual(self.run_cli(both), "")
        self.assertIn("add, matmul", self.run_cli(both, "--run", "interp", code=2))
        self.assertIn("add, matmul", self.run_cli(both, "--name", "mul", code=2))
        self.assertIn("program matmul(", self.run_cli(both, "--name", "matmul", "--stage", "input"))
        self.assertIn("only definitions", self.run_cli(self.path("define.tw", "define X: f32[4] = (i) => 1.0;"), "--stage", "input", code=2))

    def test_stages(self):
        path = self.path("add.tw", ADD)
        self.assertIn(" within (N) {", self.run_cli(path, "--stage", "input"))
        self.assertIn("+: 16", self.run_cli(path, "--stage", "lower_lanes"))
        self.assertIn("lower_lanes", self.run_cli(path, "--stage", "bogus", code=2))
        self.assertIn("C: f32[100]", self.run_cli(path, "--stage", "flatten_index", "--fix", "N=100"))
        self.assertIn("no symbol", self.run_cli(path, "--stage", "flatten_index", "--fix", "K=100", code=1))

    def test_narrow_types_in_functions(self):
        """Casts in a function's body are lowered like those around its call."""
        path = self.path("func.tw", """func widen(a: f8e4m3fn, c: f4e2m1): f64 {
  let w = f32(a) * 0.5;
  return f64(bf16(w)) + f64(c) * 3.0;
}
program narrow(A: f8e4m3fn[N], C: f4e2m1[N], out X: f64[N]) {
  for i in repeat(N) {
    X[i] = widen(A[i], C[i]);
  }
}
""".replace("program", "symbol N;\nprogram", 1))
        outputs = []
        for engine in ("interp", "compiled"):
            folder = os.path.join(self.folder, "func" + engine)
            self.run_cli(path, "-d", "N=40", "--random", "3", "--run", engine, "-o", folder)
            outputs.append(open(os.path.join(folder, "X.npy"), "rb").read())
        self.assertEqual(outputs[0], outputs[1])

    def test_narrow_types(self):
        """Floats of 8 bits go in and out; elements of packed types do as bytes."""
        path = self.path("narrow.tw", """symbol N;
program narrow(A: f8e4m3fn[N], out X: f32[N], out Y: f8e5m2[N]) launch core(ceil_div(N, 16)), lane(16) {
  for (i) in spatial(ceil_div(N, 16)) * spatial(16) on (core, lane) within (N) {
    X[i] = f32(A[i]) * 3.0;
    Y[i] = f8e5m2(f32(A[i]) * 3.0);
  }
}
""")
        outputs = []
        for engine in ("interp", "compiled"):
            folder = os.path.join(self.folder, engine)
            self.run_cli(path, "-d", "N=100", "--random", "3", "--run", engine, "-o", folder)
            outputs.append([open(os.path.join(folder, name), "rb").read() for name in ("X.npy", "Y.pb")])
        self.assertEqual(outputs[0], outputs[1])
        packed = self.path("packed.tw", PACKED)
        kinds = [("cores", ("interp", "compiled"))] + ([("blocks", ("interp", "opencl"))] if self.has_opencl() else [])
        for n in "0", "1", "7", "101":
            for name, engines in kinds:
                outputs = []
                for engine in engines:
                    folder = os.path.join(self.folder, name + engine + n)
                    self.run_cli(packed, "--name", name, "-d", "N=" + n, "--random", "3", "--run", engine, "-o", folder)
                    outputs.append([open(os.path.join(folder, f), "rb").read() for f in sorted(os.listdir(folder))])
                self.assertEqual(*outputs)
        self.path("e.npy", npy((16,), range(16), "|u1", "B"))
        self.path("x.npy", npy((16,), range(-8, 8), "|i1", "b"))
        self.run_cli(packed, "--name", "values", "-i", "E=" + os.path.join(self.folder, "e.npy"), "-i",
                     "X=" + os.path.join(self.folder, "x.npy"), "--run", "compiled", "-o", self.folder)
        data = {name: open(os.path.join(self.folder, name + ".npy"), "rb").read() for name in "VY"}
        values = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        self.assertEqual(list(struct.unpack("<16f", data["V"][-64:])), values + [-v for v in values])
        self.assertEqual(list(data["Y"][-16:]), [-v & 15 for v in range(-8, 8)])
        column = self.path("column.tw", "program p(A: i4[4, 2] layout column, out X: f32[8]) { for i in repeat(8) { X[i] = f32(A[i / 2, i % 2]); } }")
        self.assertIn('parameter "A" has a type that lives inside', self.run_cli(column, "--random", "1", "--run", "interp", code=1))

    def test_emitted_c_compiles(self):
        compiler = shutil.which("gcc") or shutil.which("cc")
        for isa in ("avx512", "avx2", "generic", "scalar"):
            text = self.run_cli(self.path("add.tw", ADD), "--emit", "c", "--target", isa)
            self.assertIn("void add(i64 core, void *const *buf, const i64 *sym, void *scratch)", text)
            if compiler:
                subprocess.run([compiler, "-fsyntax-only", "-Wall", "-x", "c", "-"] + {"avx512": ["-march=skylake-avx512"], "avx2": ["-mavx2", "-mfma"]}.get(isa, []),
                               input=text.encode(), check=True)
        self.assertIn("not for target", self.run_cli(self.path("add.tw"), "--emit", "c", "--target", "sm_90", code=2))
        self.assertIn("launched on cores", self.run_cli(self.path("add.tw"), "--emit", "cuda", code=2))

    def test_runs(self):
        rows, inner, columns = 5, 7, 33
        a = [random.uniform(-1, 1) for _ in range(rows * inner)]
        b = [random.uniform(-1, 1) for _ in range(inner * columns)]
        self.path("a.npy", npy((rows, inner), a))
        self.path("b.npy", npy((inner, columns), b))
        want = [sum(a[i * inner + k] * b[k * columns + j] for k in range(inner)) for i in range(rows) for j in range(columns)]
        for engine in ("interp", "compiled"):
            text = self.run_cli(self.path("matmul.tw", MATMUL), "--run", engine, "-i", "A=a.npy", "-i", "B=b.npy", "-o", "out_" + engine, "--time", "--runs", "3")
            self.assertRegex(text, r"C  f32\[5, 33\] .*\nmedian .* of 3 runs; .* GFLOP/s, .* GB/s")
        got = {engine: read_npy(self.path("out_%s/C.npy" % engine)) for engine in ("interp", "compiled")}
        self.assertEqual(got["interp"], got["compiled"])
        for x, y in zip(got["interp"], want):
            self.assertAlmostEqual(x, y, places=5)

    def test_rates(self):
        text = self.run_cli(self.path("matmul.tw", MATMUL), "--run", "compiled", "--random", "1", "-d", "M=16", "-d", "N=16", "-d", "K=1000", "--time", "--runs", "3")
        ms, flops, bandwidth = (float(re.search(r"([\d.]+) %s" % what, text).group(1)) for what in ("ms,", "GFLOP/s,", "GB/s,"))
        self.assertAlmostEqual(flops * ms * 1e6 / (2 * 16 * 16 * 1000), 1, delta=0.3)  # the time is rounded
        self.assertAlmostEqual(flops / bandwidth, 2 * 16 * 16 * 1000 / (4 * (2 * 16 * 1000 + 256)), delta=0.3)

    def test_wrong_inputs(self):
        path = self.path("matmul.tw", MATMUL)
        self.path("a.npy", npy((2, 3), [0] * 6))
        self.path("b.npy", npy((4, 2), [0] * 8))
        self.path("i.npy", npy((2, 3), [0] * 6, "<i4", "i"))
        self.path("r.npy", npy((6,), [0] * 6))
        run = ("--run", "interp")
        for args, says in [((*run,), "size M is not known"), ((*run, "-d", "M=2", "-d", "N=2", "-d", "K=2"), '"A" is not given'),
                           ((*run, "-i", "A=a.npy", "-i", "B=b.npy"), "K is 3 and 4"), ((*run, "-i", "X=a.npy"), "it has: A, B"),
                           ((*run, "-i", "C=a.npy"), "no input"), ((*run, "-d", "Q=2"), 'no symbol "Q"'),
                           ((*run, "-i", "A=i.npy", "--random", "1", "-d", "N=1"), "is i32, the program wants f32"),
                           ((*run, "-i", "A=r.npy", "--random", "1", "-d", "N=1", "-d", "M=1", "-d", "K=6"), "has 1 dimensions"),
                           ((*run, "-i", "A=a.npy", "--random", "1", "-d", "N=1", "-d", "M=1"), "M is 1 and 2")]:
            self.assertIn(says, self.run_cli(path, *args, code=1), args)
        self.assertIn("nothing is run", self.run_cli(path, "--time", code=2))
        self.assertIn("none of", self.run_cli(path, "--run", "fast", code=2))

    def has_opencl(self):
        """Whether there is a device; without one the command says so, and nothing else is tested."""
        done = subprocess.run([PROGRAM, "program", self.path("gpu.tw", GPU_ADD), "--run", "opencl", "--random", "1", "-d", "N=8"], capture_output=True, text=True)
        if done.returncode == 3 and re.search("there is no OpenCL here|has no device here", done.stderr):
            self.assertIn("hint: install", done.stderr)
            return False
        return True

    def test_no_device(self):
        env = dict(os.environ, OCL_ICD_VENDORS=self.folder)
        done = subprocess.run([PROGRAM, "program", self.path("gpu.tw", GPU_ADD), "--run", "opencl", "--random", "1", "-d", "N=8"], capture_output=True,
                              text=True, env=env)
        self.assertEqual(done.returncode, 3)
        self.assertIn("hint: install", done.stderr)

    def gpu_programs(self):
        with open(os.path.join(SOURCE, "test", "ir", "matmul_simt.tw")) as f:
            matmul = f.read()
        with open(os.path.join(SOURCE, "test", "pass", "gpu", "copies.tw")) as f:
            copies = f.read()
        with open(os.path.join(SOURCE, "test", "pass", "gpu", "vectors.tw")) as f:
            vectors = f.read()
        yield "vectors", vectors, (("N=1",), ("N=70",))
        yield "add", GPU_ADD, (("N=1",), ("N=512",), ("N=1300",))
        yield "halves", WARPS, (("M=3", "N=1"), ("M=2", "N=200"))
        yield "copies", copies, (("M=1", "K=8"), ("M=2", "K=70"))
        for row in MATRIX:
            yield row[0], matrix_program(*row), ((),)
        yield "matmul_simt", matmul, (("M=1", "N=1", "K=1"), ("M=129", "N=130", "K=17"), ("M=128", "N=128", "K=0"))

    def test_opencl_gives_what_the_interpreter_gives(self):
        if not self.has_opencl():
            self.skipTest("no device of OpenCL")
        for name, text, sizes in self.gpu_programs():
            for size in sizes:
                options = [o for s in size for o in ("-d", s)] + ["--random", "7"]
                path = self.path(name + ".tw", text)
                for engine in ("interp", "opencl"):
                    self.run_cli(path, "--run", engine, *options, "-o", "gpu_" + engine)
                for file in os.listdir(self.path("gpu_interp")):
                    with open(self.path("gpu_interp/" + file), "rb") as a, open(self.path("gpu_opencl/" + file), "rb") as b:
                        self.assertEqual(a.read(), b.read(), (name, size, file))
                shutil.rmtree(self.path("gpu_interp"))
        timed = self.run_cli(self.path("add.tw", GPU_ADD), "--run", "opencl", "--random", "1", "-d", "N=1000", "--time", "--runs", "3")
        self.assertRegex(timed, "median .* of 3 runs; ")

    def test_random_programs_on_opencl(self):
        """Those that the unit test of passes makes, where it lies beside the program."""
        maker = os.path.join(os.path.dirname(PROGRAM), "test_pass_random")
        if not os.path.exists(maker) or not self.has_opencl():
            self.skipTest("no device of OpenCL, or no test_pass_random")
        seed = random.randrange(1 << 30)
        for _ in range(3):
            text = ""
            while "launch block(" not in text:
                seed += 1
                stages = subprocess.run([maker, str(seed)], stdout=subprocess.PIPE).stdout.decode()
                text = re.split(r"^--- .*\n", stages, flags=re.M)[1]
            # Files have no floats of 8 bits, parameters of a run no layouts; indices made up go to 9.
            head = re.search(r"^program .*$", text, re.M).group(0)
            plain = re.sub(r" layout (?:[^,()]|\((?:[^()]|\([^()]*\))*\))+(?=, |\)$)", "", head)
            text = text.replace(head, re.sub(r"f8e\w+", "i8", plain).replace("T: f32[7]", "T: f32[16]"))
            sizes = [o for s in "MN" if re.search(r"\b%s\b" % s, text) for o in ("-d", "%s=%d" % (s, random.randrange(1, 50)))]
            for engine in ("interp", "opencl"):
                self.run_cli(self.path("random.tw", text), "--run", engine, "--random", "3", "-o", "random_" + engine, *sizes)
            for file in os.listdir(self.path("random_interp")):
                with open(self.path("random_interp/" + file), "rb") as a, open(self.path("random_opencl/" + file), "rb") as b:
                    a, b = a.read(), b.read()
                    if a != b:
                        self.assertTrue(self.same_but_for_nan(file, a, b), "seed %d, sizes %s: %s differs" % (seed, sizes, file))
            shutil.rmtree(self.path("random_interp"))

    def same_but_for_nan(self, name, a, b):
        """.npy files of floats; a NaN may have any sign."""
        kind = re.search(rb"'descr': '<(f[248])'", a)
        if not kind:
            return False
        form = {b"f2": "e", b"f4": "f", b"f8": "d"}[kind.group(1)]
        at = 10 + struct.unpack("<H", a[8:10])[0]
        n = (len(a) - at) // struct.calcsize(form)
        x, y = (struct.unpack("<%d%s" % (n, form), d[at:]) for d in (a, b))
        return all(p == q or (p != p and q != q) for p, q in zip(x, y))

    def test_cuda_compiles_without_spills(self):
        if not NVCC:
            self.skipTest("no nvcc")
        for target in ("sm_80", "sm_90"): # all kernels in one file: a compiler's start costs more than they do
            all_ = [self.run_cli(self.path(name + ".tw", text), "--emit", "cuda", "--target", target) for name, text, _ in self.gpu_programs()]
            self.path("kernel.cu", "\n".join("namespace file%d {\n%s\n#undef INL\n}" % (i, text) for i, text in enumerate(all_)))
            done = subprocess.run([NVCC, "-arch=" + target, "-Xptxas", "-v", "-cubin", "-o", "kernel.cubin", "kernel.cu"], cwd=self.folder,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), len(all_), done.stderr)

    def test_warps_that_part(self):
        """OpenCL has no warps: a shuffle that some threads of a block do not reach is refused, on CUDA it is not."""
        text = GPU_ADD.replace("C[i] = A[i] * B[i] + max(A[i], B[i]);", "C[i] = shfl_xor(A[i], 1) + B[i];")
        self.assertIn("hint: let all warps do it", self.run_cli(self.path("part.tw", text), "--emit", "opencl", code=1))
        self.assertIn("__shfl_xor_sync", self.run_cli(self.path("part.tw"), "--emit", "cuda"))

    def test_order_of_fragments(self):
        with open(os.path.join(SOURCE, "test", "pass", "gpu", "tensor_cores.tw")) as f:
            text = f.read()
        self.assertIn("mma_m16n8k16_f16", self.run_cli(self.path("order.tw", text), "--emit", "cuda"))
        self.assertIn("repeat(1, 2) * repeat(2, 1)", text)
        for ranked in ("repeat(2, 2, ranks = [1, 0])", "repeat(1, 2, ranks = [1, 0]) * repeat(2, 1)"):
            same = text.replace("repeat(1, 2) * repeat(2, 1)", ranked)
            self.assertEqual(self.run_cli(self.path("same.tw", same), "--emit", "cuda"), self.run_cli(self.path("order.tw"), "--emit", "cuda"))
        other = text.replace("repeat(1, 2) * repeat(2, 1) * spatial(8, 4)", "repeat(2, 1) * repeat(1, 2) * spatial(8, 4)")
        self.assertIn("orders a lane's elements otherwise", self.run_cli(self.path("order.tw", other), "--emit", "cuda", code=1))

    def test_names_of_other_languages(self):
        for name in ("dot", "mix", "clamp", "double", "union"):
            path = self.path("name.tw", GPU_ADD.replace("program add", "program " + name))
            self.assertIn(" %s_k(" % name, self.run_cli(path, "--emit", "cuda"))
            self.assertIn(" %s_k(" % name, self.run_cli(path, "--emit", "opencl"))
        if self.has_opencl():
            self.run_cli(path, "--run", "opencl", "--random", "1", "-d", "N=5")

    def test_much_shared_memory(self):
        text = GPU_ADD.replace("{\n  for", "{\n  shared s: f32[20000];\n  for", 1).replace("C[i] =", "s[i % 512] = A[i];\n    C[i] = s[i % 512] +")
        cuda = self.run_cli(self.path("shared.tw", text), "--emit", "cuda")
        self.assertIn("with 80000 bytes of dynamic shared memory", cuda)
        self.assertIn("extern __shared__", cuda)
        symbol = GPU_ADD.replace("{\n  for", "{\n  shared s: f32[N];\n  for", 1)
        self.assertIn("must be a constant", self.run_cli(self.path("shared.tw", symbol.replace("C[i] =", "s[i] = A[i];\n    C[i] = s[i] +")), "--emit", "cuda", code=1))

    def test_interrupt(self):
        """Ctrl-C ends a run at once and leaves nothing behind."""
        path = self.path("long.tw", MATMUL)
        for engine in ("interp", "compiled"):
            run = subprocess.Popen([PROGRAM, "program", path, "--run", engine, "--random", "1", "-d", "M=2000", "-d", "N=2000", "-d", "K=2000", "--time",
                                    "--runs", "1000", "-o", "interrupted"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(1.5)
            run.send_signal(signal.SIGINT)
            start = time.monotonic()
            run.communicate(timeout=60)
            self.assertLess(time.monotonic() - start, 30)
            self.assertNotEqual(run.returncode, 0)
            self.assertFalse(os.path.exists(self.path("interrupted")))

    def test_targets_must_fit(self):
        path = self.path("gpu.tw", GPU_ADD)
        self.assertIn("launched on blocks", self.run_cli(path, "--run", "compiled", "--random", "1", "-d", "N=1", code=1))
        self.assertIn("launched on blocks", self.run_cli(path, "--emit", "c", code=2))
        self.assertIn("launched on cores", self.run_cli(self.path("add.tw", ADD), "--run", "opencl", "--random", "1", "-d", "N=1", code=1))
        self.assertIn("pass 'lower_lanes'", self.run_cli(path, "--stage", "lower_lanes", code=2))
        self.assertIn("thread", self.run_cli(path, "--stage", "expand_mapping"))

    def test_launch_functions(self):
        """Calls, parts of tensors, loops, branches, inputs behind outputs."""
        gpu = LAUNCH.replace("core(1), lane(8)", "block(1), thread(8)").replace("core(R), lane(8)", "block(R), thread(8)")
        gpu = self.path("gpu_both.tw", gpu.replace(" on core", " on block").replace("on lane", "on thread"))
        engines = [("interp", self.path("both.tw", LAUNCH)), ("compiled", self.path("both.tw"))]
        engines += [("opencl", gpu)] if self.has_opencl() else []
        for rows, columns in (1, 5), (2, 21), (4, 3):
            a = [random.uniform(-1, 1) for _ in range(rows * columns)]
            self.path("a.npy", npy((rows, columns), a))
            c = [2 * x + i // columns if rows < 3 else 4 * x for i, x in enumerate(a)]
            want = {"C": c, "D": [x + i // columns for i, x in enumerate(c)]}
            for engine, path in engines:
                text = self.run_cli(path, "--run", engine, "-i", "A=a.npy", "-o", "launch_" + engine, "--time", "--runs", "2")
                self.assertIn("GFLOP/s", text)
                for name in want:
                    for x, y in zip(read_npy(self.path("launch_%s/%s.npy" % (engine, name))), want[name]):
                        self.assertAlmostEqual(x, y, places=4)
        self.assertIn("launch both(", self.run_cli(self.path("both.tw"), "--stage", "input"))
        self.assertIn("program scale(", self.run_cli(self.path("both.tw"), "--stage", "share"))
        self.assertIn("void rows(", self.run_cli(self.path("both.tw"), "--emit", "c"))
        self.assertIn("has no program 'x'; it has: both, scale, rows", self.run_cli(self.path("both.tw"), "--name", "x", code=2))
        self.run_cli(self.path("both.tw"), "--name", "scale", "--run", "compiled", "-d", "N=9", "--random", "1")

    def test_out_of_bounds_is_found(self):
        text = self.run_cli(self.path("bad.tw", ADD.replace("A[i] +", "A[i + 1] +")), "--run", "interp", "--random", "1", "-d", "N=8", code=1)
        self.assertIn("A[", text)


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0]] + sys.argv[3:], exit=False, verbosity=1).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed" % (result.testsRun - bad, bad))
    sys.exit(bool(bad))
