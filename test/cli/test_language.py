"""What the language has, against what can be done with it: each scalar type, scope, layout and statement stands in a small program, and
the programs of a machine are called by one launch function, which is checked, printed and parsed again, interpreted, and run as C or by
OpenCL with the same bits; its CUDA is compiled where nvcc is. A row of the matrix that is lost fails by the name of its program.

usage: test_language.py TILEWRIGHT SOURCE_FOLDER [TEST]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
NVCC = next((p for p in (shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc") if p and os.path.exists(p)), None)

TYPES = ("i1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0 f4e2m1 "
         "i4 u4 i2 u2").split()
LAYOUTS = {
    "row": "row", "column": "column", "strided": "strides(1, 9)", "blocked": "blocked(2, 4)",
    "swizzled": "row(8, 16) swizzle(1, 0)", "shifted": "row(8, 16) swizzle(1, 0, 1)",
    "composed": "row(2, 2) * column(4, 8)", "tiles": "column(4, 2) * row(2, 8) swizzle(1, 0)",
}
MMA = {  # shape: types of a and d, elements of a, b, d that a lane holds
    "m16n8k8_f16": ("f16", "f32", 4, 2, 4), "m16n8k16_f16": ("f16", "f32", 8, 4, 4),
    "m16n8k16_bf16": ("bf16", "f32", 8, 4, 4), "m16n8k4_tf32": ("f32", "f32", 2, 1, 4),
    "m16n8k8_tf32": ("f32", "f32", 4, 2, 4), "m16n8k32_i8": ("i8", "i32", 16, 8, 4), "m8n8k4_f64": ("f64", "f64", 1, 1, 2),
}


def one(name, params, launch, body):
    return name, params, "program %s(%s) launch %s {\n%s\n}\n" % (name, ", ".join(params), launch, body)


def types_on(launch, loop, last):
    """Loads, stores and casts of each type; a register and scratch of it; a row of vectors on cores."""
    for t in TYPES:
        params = ["X: %s[32]" % t, "F: f32[32]", "out Y: %s[32]" % t, "out Z: f32[32]", "out V: %s[32]" % t]
        yield one("type_" + t, params, launch, """  shared S: %s[16];
  %s {
    register r: %s[1];
    r[0] = X[i];
    Z[i] = f32(X[i]);
    Y[i] = %s(F[i] * 3.0);
    S[i %% 16] = r[0];
  }
%s""" % (t, loop, t, t, last))
    arithmetic = "i8 i16 i32 i64 u8 u16 u32 u64 f32 f64".split()
    for t in arithmetic:
        params = ["X: %s[32]" % t, "W: %s[32]" % t, "out Y: %s[32]" % t]
        body = "  %s {\n    let x = X[i] * W[i] + X[i] / W[31 - i] - min(X[i], W[i]);\n    Y[i] = x < W[i] ? max(x, abs(X[i])) : -x;\n  }" % loop
        yield one("math_" + t, params, launch, body)


def layouts_on(launch, loop):
    for name, layout in LAYOUTS.items():
        for t in "f32", "i4":
            first = one("to_%s_%s" % (name, t), ["X: %s[8, 16]" % t, "out T: %s[8, 16] layout %s" % (t, layout)], launch.replace("(2)", "(1)"),
                        "  for i in repeat(8) { for j in repeat(16) { T[i, j] = X[i, j]; } }" if "core" in launch else
                        "  if thread == 0 { for i in repeat(8) { for j in repeat(16) { T[i, j] = X[i, j]; } } }")
            second = one("from_%s_%s" % (name, t), ["T: %s[8, 16] layout %s" % (t, layout), "out Y: f32[8, 16]"], launch,
                         "  %s {\n    Y[i / 4, i %% 4] = f32(T[i / 4, i %% 4]);\n%s  }" % (
                             loop, "".join("    Y[i / 4, i %% 4 + %d] = f32(T[i / 4, i %% 4 + %d]);\n" % (k, k) for k in (4, 8, 12))))
            yield first + (second,)


CPU_LOOP = "for (i) in spatial(2) * repeat(4) * spatial(4) on (core, lane)"
CPU = [
    one("scopes", ["X: f32[2, 16]", "out Y: f32[2, 16]"], "core(2), lane(4)", """  shared S: f32[16] layout strides(1);
  register part: f32[4] mirrors spatial(4);
  register v: f32x4[2];
  for (j) in repeat(4) * spatial(4) on lane { S[j] = X[core, 15 - j]; }
  for (j) in spatial(4) on lane { part[j] = 0.0; }
  for (j) in repeat(4) * spatial(4) on lane { part[lane] = part[lane] + S[j]; }
  let total = reduce(add, part);
  v[0] = f32x4(0.5);
  v[1] = X[core, 0 +: 4] + v[0];
  Y[core, 0 +: 4] = v[1] * f32(iota_i32(4));
  for j in repeat(12, unroll) { Y[core, j + 4] = S[j] + total; }"""),
    one("loops", ["X: f32[40]", "I: u8[8]", "out Y: f32[40]", "out Z: f32[16]"], "core(1), lane(4)",
        """  for i in repeat(40, unroll 4) { prefetch X[i + 8]; Y[i] = X[i + 1] where i + 1 < 40 else 0.0; }
  for (i) in repeat(4, attrs = [unroll]) * spatial(4) on lane {
    specialise i < 8 { if X[i] < 0.0 { Z[i] = 1.0; } else if X[i] == inf { Z[i] = 2.0; } else { Z[i] = third(X[i]); } }
  }"""),
    one("vectors", ["X: f32[40]", "I: u8[8]", "out Y: f32[16]", "out Z: f32[8]", "out S: f32[4]"], "core(1)",
        """  let m = iota_i32(16) < splat(9i32, 16);
  let x = X[3 +: 16 where m else 0.25];
  Y[0 +: 16 where m] = x;
  Y[9 +: 4] = select(X[0 +: 4] < X[4 +: 4], X[0 +: 4], X[4 +: 4]);
  Y[13 + iota_i32(2)] = gather(X, i32(I[0 +: 2]) % 40i32);
  Y[15] = extract(x, 3);
  Z[0 +: 8] = fma(X[0 +: 8], X[8 +: 8], sqrt(abs(X[16 +: 8])));
  S[0] = reduce(max, x);
  S[1] = exp(minnum(X[0], 1.0)) + floor(X[1]) + ceil(X[2]) + round(X[3]) + trunc(X[4]);
  S[2] = f32(ceil_div(7, 2) + round_up(5, 4) + (13 % 4) / 2 + (1 << 3) - (9 >> 1));
  S[3] = f32(bitcast_f32(bitcast_i32(X[5]) xor 1i32));"""),
]

GPU_LOOP = "for (i) in spatial(2) * spatial(4) * repeat(4) on (block, thread)"
GPU = [
    one("tiles", ["X: f32[2, 64]", "out Y: f32[2, 64]"], "block(2), thread(32)", """  shared S: f32[8, 8] layout row(8, 8) swizzle(1, 0);
  register r: f32[16, 16] layout row(2, 1) * local(8, 4) * row(1, 4);
  register q: f32[8, 8] mirrors spatial(8, 4) * repeat(1, 2);
  for (i, j) in repeat(2, 1) * spatial(4, 8) on thread { S[i, j] = X[block, 8 * i + j]; }
  barrier block;
  for (i, j) in repeat(2, 1) * spatial(8, 4) * repeat(1, 4) on thread { r[i, j] = S[i % 8, j % 8]; }
  for (i, j) in spatial(8, 4) * repeat(1, 2) on thread { q[i, j] = r[i, j]; }
  for (i, j) in spatial(8, 4) * repeat(1, 2) on thread { Y[block, 8 * i + j] = q[i, j]; }"""),
    one("copies", ["X: f32[4, 128]", "out Y: f32[128]"], "block(1), thread(32)", """  shared S: f32[2, 128];
  register s: f32[4];
  for e in repeat(4, unroll) { s[e] = 0.0; }
  copy async S[0, 4 * thread +: 4] = X[0, 4 * thread +: 4];
  commit;
  for t in repeat(4) {
    if t < 3 { copy async S[(t + 1) % 2, 4 * thread +: 4] = X[t + 1, 4 * thread +: 4] where thread < 30 else 0.5; }
    commit;
    wait 1;
    barrier block;
    for e in repeat(4) { s[e] = s[e] + S[t % 2, 127 - 4 * thread - e]; }
    barrier block;
  }
  for e in repeat(4, unroll 2) { Y[4 * thread + e] = s[e]; }"""),
    one("shuffles", ["X: f32[64]", "out Y: f32[64]"], "block(1), warp(2), lane(32)", """  let x = X[32 * warp + lane];
  let y = shfl_xor(x, 5) + shfl_up(x, 3) - shfl_down(x, 7) * shfl_idx(x, 9);
  barrier warp;
  Y[32 * warp + lane] = third(y);"""),
    one("wide", ["X: f32[128]", "I: i4[128]", "J: u8[32]", "out Y: f32[128]", "out Z: i4[128]", "out W: f32[32]"], "block(1), thread(32)",
        """  register v: f32x4[1];
  v[0] = X[4 * thread +: 4 where iota_i32(4) < splat(i32(thread) % 5i32, 4) else 0.5];
  Y[4 * thread +: 4] = v[0] * 2.0 + f32(I[4 * thread +: 4]);
  Z[4 * thread +: 4] = I[124 - 4 * thread +: 4];
  W[thread] = reduce(add, v[0]) + extract(gather(X, iota_i32(4) + splat(i32(J[thread]) % 100i32, 4)), 2);"""),
    one("guards", ["X: f32[64]", "out Y: f32[64]"], "block(2), thread(32)", """  for (i) in spatial(2) * spatial(32) on (block, thread) within (64) {
    specialise i < 32 { prefetch X[i]; Y[i] = (i + 1 < 64 ? X[i + 1] : 2.0) + select(X[i] < 0.0, exp(X[i]), 1.0); }
  }"""),
]
for shape, (t, d, na, nb, nd) in MMA.items():
    GPU.append(one("mma_" + shape, ["A: %s[32, %d]" % (t, na), "B: %s[32, %d]" % (t, nb), "out D: %s[32, %d]" % (d, nd)],
                   "block(1), warp(1), lane(32)", """  register a: %s[%d];
  register b: %s[%d];
  register d: %s[%d];
  for e in repeat(%d, unroll) { a[e] = A[lane, e]; }
  for e in repeat(%d, unroll) { b[e] = B[lane, e]; }
  for e in repeat(%d, unroll) { d[e] = %s(e); }
  mma %s d, a, b;
  for e in repeat(%d, unroll) { D[lane, e] = d[e]; }""" % (t, na, t, nb, d, nd, na, nb, nd, d, shape, nd)))


def text_of(programs, pairs):
    """All programs and the launch function `all` that calls them, each with parameters of its own."""
    texts, params, calls = ["func third(x: f32): f32 {\n  let y = x / 3.0;\n  return y;\n}\n"], [], []

    def call(name, ports, renamed):
        names = []
        for p in ports:
            port = p.replace("out ", "").split(":")[0]
            names.append(renamed.get(port, "%s_%s" % (port, name)))
            if port not in renamed:
                params.append(p.replace(port + ":", names[-1] + ":"))
        calls.append("  call %s(%s);" % (name, ", ".join(names)))

    for name, ports, text in programs:
        texts.append(text)
        call(name, ports, {})
    for name, ports, text, (name2, ports2, text2) in pairs:
        texts += [text, text2]
        buffer = "T_" + name
        calls.append("  buffer %s: %s;" % (buffer, ports[1].split(": ", 1)[1]))
        call(name, ports, {"T": buffer})
        call(name2, ports2, {"T": buffer})
    return "\n".join(texts) + "\nlaunch all(%s) {\n%s\n}\n" % (", ".join(params), "\n".join(calls))


class LanguageTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def run_cli(self, *args):
        done = subprocess.run([PROGRAM, "program", *args], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, (args, done.stdout[-500:], done.stderr))
        return done.stdout

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def same(self, text, name, engine):
        self.write(name + ".tw", text)
        self.run_cli(name + ".tw", "--name", "all")
        for one_of in re.findall(r"^program (\w+)", text, re.M):
            printed = self.run_cli(name + ".tw", "--name", one_of, "--stage", "input")
            self.write("printed.tw", printed)
            self.assertEqual(self.run_cli("printed.tw", "--stage", "input"), printed, one_of)
        for e in "interp", engine:
            self.run_cli(name + ".tw", "--name", "all", "--random", "3", "--run", e, "-o", e)
        files = sorted(os.listdir(os.path.join(self.folder, "interp")))
        self.assertGreater(len(files), 40)
        for file in files:
            with open(os.path.join(self.folder, "interp", file), "rb") as a, open(os.path.join(self.folder, engine, file), "rb") as b:
                self.assertEqual(a.read(), b.read(), file)

    def test_cores(self):
        programs = list(types_on("core(2), lane(4)", CPU_LOOP, "  V[16 * core +: 16] = S[0 +: 16];")) + CPU
        self.same(text_of(programs, layouts_on("core(2)", "for (i) in spatial(2) * repeat(16) on core")), "cores", "compiled")

    def test_blocks(self):
        programs = list(types_on("block(2), thread(4)", GPU_LOOP, "  barrier block;\n  %s { V[i] = S[i %% 16]; }" % GPU_LOOP)) + GPU
        text = text_of(programs, layouts_on("block(2), thread(4)", GPU_LOOP))
        self.write("blocks.tw", text)
        if NVCC:
            self.write("blocks.cu", self.run_cli("blocks.tw", "--name", "all", "--emit", "cuda"))
            done = subprocess.run([NVCC, "-arch=sm_80", "-cubin", "-o", "blocks.cubin", "blocks.cu"], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("__kernel", self.run_cli("blocks.tw", "--name", "all", "--emit", "opencl"))
        probe = subprocess.run([PROGRAM, "program", "blocks.tw", "--name", "guards", "--random", "1", "--run", "opencl"], cwd=self.folder,
                               capture_output=True, text=True)
        if probe.returncode == 3:
            self.skipTest("no device of OpenCL")
        self.same(text, "blocks", "opencl")

    def test_what_there_is_not(self):
        """Types that ONNX has beside these are refused by name."""
        for t in "complex64", "complex128", "string":
            self.write("no.tw", "program p(X: %s[4], out Y: f32[4]) { Y[0] = 1.0; }" % t)
            done = subprocess.run([PROGRAM, "program", "no.tw"], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(t, done.stderr)


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0]] + sys.argv[3:], exit=False, verbosity=1).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed" % (result.testsRun - bad, bad))
    sys.exit(bad > 0)
