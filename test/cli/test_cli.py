#!/usr/bin/env python3
"""The command line from outside: exit codes, messages, files.  usage: test_cli.py TILEWRIGHT SOURCE_DIR

Models are made here, field by field, so that nothing but the standard library is needed.
"""
import json
import os
import pty
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
F32, I32, I64, BOOL, F16, F64, BF16 = 1, 6, 7, 9, 10, 11, 16


# ---- protobuf and ONNX, as much as is needed ----

def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, type_, dims):
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, type_) + field(2, shape)))


def node(op, inputs, outputs, attributes=b""):
    return b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(4, op) + attributes


def int_attribute(name, value):
    return field(5, field(1, name) + field(3, value) + field(20, 2))


def tensor(name, type_, dims, raw):
    return b"".join(field(1, d) for d in dims) + field(2, type_) + field(8, name) + field(9, raw)


def model(nodes, inputs, outputs, initializers=()):
    graph = b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, t) for t in initializers)
    graph += b"".join(field(11, v) for v in inputs) + b"".join(field(12, v) for v in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def add_model(type_=F32, a=("n", 3), b=("n", 3), out=("n", 3), names=("a", "b", "sum")):
    return model([node("Add", names[:2], names[2:])], [value_info(names[0], type_, a), value_info(names[1], type_, b)],
                 [value_info(names[2], type_, out)])


# ---- .npy ----

def npy(code, dims, data, fortran=False, version=1):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }" % (code, fortran, "".join("%d, " % d for d in dims))
    head = 10 if version == 1 else 12
    text += " " * (63 - (head + len(text)) % 64) + "\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text.encode() + data


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    n = struct.unpack("<H", data[8:10])[0]
    assert (10 + n) % 64 == 0 and data[9 + n:10 + n] == b"\n"
    head = eval(data[10:10 + n].decode())  # a dictionary's text, of our own making
    assert head["fortran_order"] is False
    return head["descr"], head["shape"], data[10 + n:]


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


class Cli(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tilewright-cli-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.env = dict(os.environ, TILEWRIGHT_CACHE=os.path.join(self.dir, "cache"), LC_ALL="C",
                        ASAN_OPTIONS="allocator_may_return_null=1:" + os.environ.get("ASAN_OPTIONS", ""))

    def path(self, name, data=None):
        path = os.path.join(self.dir, name)
        if data is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(data)
        return path

    def run_cli(self, *args, code=0, says=None, env=None):
        p = subprocess.run([PROGRAM, *args], capture_output=True, text=True, env=env or self.env, timeout=120)
        self.last = p.stdout + p.stderr
        self.assertEqual(p.returncode, code, "%s: %s%s" % (args, p.stdout, p.stderr))
        if code and args[:1] != ("test",):
            self.assertTrue(p.stderr.strip() or args[:1] == ("check",), args)
            self.assertLess(len(p.stderr), 8192)
        if says:
            self.assertRegex(p.stdout + p.stderr, says)
        return p.stdout

    # ---- usage ----

    def test_help(self):
        everything = self.run_cli("--help")
        for command in ("run", "bench", "test", "check", "show", "program", "info"):
            self.assertIn("\n  %s " % command, everything)
            text = self.run_cli(command, "--help")
            self.assertTrue(text.startswith("usage: tilewright %s" % command))
            self.assertEqual(text, self.run_cli("help", command))
            self.assertLessEqual(max(map(len, text.splitlines()[1:])), 80)
            if command != "info":
                self.assertEqual(text, self.run_cli(command, "x", "--bogus", "--help"))
        self.assertRegex(self.run_cli("--version"), r"^tilewright \d+\.\d+\.\d+\n$")

    def test_usage_errors(self):
        for args, says in [((), "usage"), (("bogus",), "no command 'bogus'"), (("--bogus",), "unknown option '--bogus'"), (("run",), "which model"),
                           (("run", "a", "b"), "one argument too many: 'b'"), (("run", "a", "--bogus"), "unknown option"),
                           (("run", "a", "--threads"), "needs a value"), (("run", "a", "--threads", "0"), "not a number"),
                           (("run", "a", "--threads", "2x"), "not a number"), (("run", "a", "--random", "-1"), "not a number"),
                           (("run", "a", "-i", "x"), "not NAME=FILE"), (("run", "a", "-i", "=f"), "not NAME=FILE"),
                           (("run", "a", "-i", "x=f", "-ix=g"), "given twice"), (("run", "a", "-d", "n"), "not SYMBOL=N"),
                           (("run", "a", "-d", "n=-1"), "not a number"), (("run", "a", "-d", "n=99999999999999999999"), "not a number"),
                           (("run", "a", "--json"), "unknown option"), (("bench", "a", "--runs", "0"), "not a number"),
                           (("bench", "a", "--json=1"), "takes no value"), (("test", "--rtol", "x", "d"), "not a tolerance"),
                           (("test", "--rtol", "nan", "d"), "not a tolerance"), (("test",), "which folder"), (("info", "x"), "too many"),
                           (("check",), "which model"), (("help", "nothing"), "no command")]:
            self.run_cli(*args, code=2, says=says)
        self.run_cli("run", self.path("m.onnx", add_model()), "--isa", "z80", code=2, says="z80")

    def test_man_pages(self):
        for name in ("", "run", "bench", "test", "check", "show", "program", "info"):
            with open(os.path.join(SOURCE, "man", "tilewright%s.1" % ("-" + name if name else ""))) as f:
                self.assertEqual(f.read(), self.run_cli("man", *([name] if name else [])), "man/ is out of date: make it anew with 'tilewright man'")

    # ---- run ----

    def test_run(self):
        m, out = self.path("m.onnx", add_model()), self.path("out/of/here")
        a = self.path("a.npy", npy("<f4", (2, 3), floats(1, 2, 3, 4, 5, 6)))
        b = self.path("b.pb", tensor("b", F32, (2, 3), floats(10, 20, 30, 40, 50, 60)))
        text = self.run_cli("run", m, "-i", "a=" + a, "-ib=" + b, "-o", out, "--threads=1")
        self.assertRegex(text, r"^sum  f32\[2, 3\]  least 11, most 66, mean 38\.5  = 11 22 33 44 55 66\n$")
        self.assertEqual(read_npy(os.path.join(out, "sum.npy")), ("<f4", (2, 3), floats(11, 22, 33, 44, 55, 66)))
        self.assertEqual(os.listdir(out), ["sum.npy"])
        again = self.run_cli("run", m, "-i", "a=" + a, "-i", "b=" + b)  # from the cache
        self.assertEqual(text, again)

    def test_size_that_is_one(self):
        # What is left of a shape when its size is divided by itself is 1, whatever the symbol is: it stretches.
        nodes = [node("Shape", ["x"], ["s"]), node("ReduceProd", ["s"], ["all"]), node("Concat", ["all", "rest"], ["shape"], int_attribute("axis", 0)),
                 node("Reshape", ["x", "shape"], ["column"]), node("Add", ["column", "z"], ["y"])]
        m = self.path("m.onnx", model(nodes, [value_info("x", F32, ("b", 6)), value_info("z", F32, ("n",))], [value_info("y", F32, ("r", "c"))],
                                      [tensor("rest", I64, (1,), b"\xff" * 8)]))
        self.assertRegex(self.run_cli("run", m, "--random", "1", "-d", "b=2", "-d", "n=3"), r"y  f32\[12, 3\]")

    def test_npy_variants(self):
        m, out = self.path("m.onnx", add_model()), self.path("out")
        big = struct.pack(">6f", 1, 2, 3, 4, 5, 6)
        columns = floats(1, 4, 2, 5, 3, 6)
        zero = self.path("z.npy", npy("<f4", (2, 3), floats(0, 0, 0, 0, 0, 0)))
        for data in (npy(">f4", (2, 3), big), npy("<f4", (2, 3), columns, fortran=True), npy("<f4", (2, 3), floats(1, 2, 3, 4, 5, 6), version=2)):
            self.run_cli("run", m, "-i", "a=" + self.path("a.npy", data), "-i", "b=" + zero, "-o", out)
            self.assertEqual(read_npy(os.path.join(out, "sum.npy"))[2], floats(1, 2, 3, 4, 5, 6))

    def test_output_names(self):
        names = ("a", "b", "out/put:0 \u00e9../x")
        m, out = self.path("m.onnx", add_model(names=names)), self.path("out")
        self.run_cli("run", m, "--random", "1", "-d", "n=2", "-o", out)
        (name,) = os.listdir(out)
        self.assertRegex(name, r"^out_put_0_+\.\._x\.npy$")

    # ---- run: verify, dump-tensors, compare ----

    def chain(self):
        """p = x w, q = p + 1.5, y = q q, s = the sum of y: optimised, p and q are never written"""
        w, c = tensor("w", F32, (3, 5), floats(*range(15))), tensor("c", F32, (), floats(1.5))
        nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "c"], ["q"]), node("Mul", ["q", "q"], ["y"]),
                 node("ReduceSum", ["y"], ["s"], int_attribute("keepdims", 0))]
        return self.path("chain.onnx", model(nodes, [value_info("x", F32, ("n", 3))], [value_info("s", F32, ())], [w, c]))

    def faulty_compiler(self, least):
        """A C compiler that takes 2.5 for 1.5 in kernels of at least so many characters."""
        name = self.path("cc%d" % least, b"""#!%s
import os, sys
for name in sys.argv[1:]:
    if name.endswith(".c"):
        with open(name) as f:
            parts = f.read().split("\\nvoid k_")
        with open(name, "w") as f:
            f.write("\\nvoid k_".join(p.replace("0x1.8p+0f", "2.5f") if len(p) >= %d else p for p in parts))
os.execvp(%r, [%r] + sys.argv[1:])
""" % (sys.executable.encode(), least, *[os.environ.get("TILEWRIGHT_CC", "cc")] * 2))
        os.chmod(name, 0o755)
        return dict(self.env, TILEWRIGHT_CC=name)

    def test_verify(self):
        m = self.chain()
        text = self.run_cli("run", m, "-d", "n=2", "--random", "1", "--verify")
        self.assertRegex(text, r"\nverify: without optimisation: 1 of 1 outputs agree\nverify: interpreter: 1 of 1 outputs agree\n$")
        for command in (["--isa", "scalar"], ["--no-optimise"], ["--threads", "1", "--fix", "n=2"]):
            self.assertEqual(self.run_cli("run", m, "-d", "n=2", "--random", "1", "--verify", *command).count("1 of 1 outputs agree"), 2)
        # a fault of the fused kernel only: the first tensor that both ways write is y
        text = self.run_cli("run", m, "-d", "n=2", "--random", "1", "--verify", code=1, env=self.faulty_compiler(2500), says="verify: the results differ")
        self.assertRegex(text, r'verify: without optimisation: output "s" differs: element .*\nverify: without optimisation: 0 of 1 outputs agree\n')
        self.assertRegex(text, r'verify: interpreter: output "s" differs: element .*\nverify: interpreter: 0 of 1 outputs agree\n')
        self.assertIn('the first tensor that differs from the run without optimisation is "y"', text)
        self.assertIn('the first tensor that differs from the interpreter is "y"', text)
        self.assertNotIn("without optimisation, the first", text)
        # a fault of both compilations: the interpreter finds it, and the plain one tells where it begins
        text = self.run_cli("run", m, "-d", "n=2", "--random", "1", "--verify", code=1, env=self.faulty_compiler(0))
        self.assertIn("verify: without optimisation: 1 of 1 outputs agree", text)
        self.assertIn('the first tensor that differs from the interpreter is "y"', text)
        self.assertIn('without optimisation, the first that differs from the interpreter is "q"', text)

    def test_verify_leaves_out(self):
        many = self.run_cli("run", self.chain(), "-d", "n=20000000", "--random", "1", "--verify")
        self.assertRegex(many, r"interpreter: left out: it would take about \S+ operations")
        nonzero = self.path("nonzero.onnx", model([node("NonZero", ["x"], ["y"])], [value_info("x", F32, ("n",))], [value_info("y", I64, (1, "k"))]))
        self.assertRegex(self.run_cli("run", nonzero, "-d", "n=9", "--random", "1", "--verify"), r"1 of 1 outputs agree\nverify: interpreter: left out: .*NonZero")

    def test_dump_tensors(self):
        m, out = self.chain(), self.path("out")
        x = self.path("x.npy", npy("<f4", (2, 3), floats(1, 0, 0, 0, 1, 0)))
        p = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        self.run_cli("run", m, "-i", "x=" + x, "--dump-tensors", out, "--no-optimise")
        self.assertEqual(sorted(os.listdir(out)), ["names.txt", "p.npy", "q.npy", "s.npy", "x.npy", "y.npy"])
        self.assertEqual(read_npy(out + "/x.npy"), ("<f4", (2, 3), floats(1, 0, 0, 0, 1, 0)))
        self.assertEqual(read_npy(out + "/p.npy"), ("<f4", (2, 5), floats(*sum(p, []))))
        self.assertEqual(read_npy(out + "/q.npy"), ("<f4", (2, 5), floats(*[v + 1.5 for v in sum(p, [])])))
        self.assertEqual(read_npy(out + "/s.npy"), ("<f4", (), floats(sum((v + 1.5) ** 2 for v in sum(p, [])))))
        few = self.path("few")
        text = self.run_cli("run", m, "-i", "x=" + x, "--dump-tensors", few, "-o", self.path("own"))
        self.assertEqual(sorted(os.listdir(few)), ["names.txt", "s.npy", "x.npy", "y.npy"])
        self.assertEqual(os.listdir(self.path("own")), ["s.npy"])
        self.assertEqual(text.count("\n"), 1)  # outputs of the model alone
        self.run_cli("run", m, "-i", "x=" + x, "--dump-tensors", self.path("file", b""), code=1, says="file")

    def test_compare(self):
        m, ref = self.chain(), self.path("ref")
        x = self.path("x.npy", npy("<f4", (2, 3), floats(1, 0, 0, 0, 1, 0)))
        plain = ("run", m, "-i", "x=" + x, "--no-optimise")
        self.run_cli(*plain, "--dump-tensors", ref)
        self.assertIn("\n5 of 5 tensors compared, 0 differ\n", self.run_cli(*plain, "--compare", ref))
        self.assertIn("\n3 of 3 tensors compared, 0 differ\n", self.run_cli("run", m, "-i", "x=" + x, "--compare", ref))
        q = [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5]
        self.path("ref/q.npy", npy("<f4", (2, 5), floats(*(q[:3] + [4.5009] + q[4:]))))  # within 1e-4 of 10.5
        self.run_cli(*plain, "--compare", ref)
        self.path("ref/q.npy", npy("<f4", (2, 5), floats(*(q[:3] + [4.52] + q[4:]))))
        self.path("ref/y.npy", npy("<f4", (5, 2), bytes(40)))
        os.remove(ref + "/p.npy")
        text = self.run_cli(*plain, "--compare", ref, code=1, says='2 tensors differ from those in .*, first of them "q"')
        self.assertRegex(text, r"(?m)^ +0\.02 +0\.0019 +q  f32\[2, 5\]  DIFFERS FIRST: element \[0, 3\] is 4\.5, expected 4\.5[12]")
        self.assertRegex(text, r"(?m)y  f32\[2, 5\]  differs: shape \[2, 5\], expected \[5, 2\]$")
        self.assertIn("\n4 of 5 tensors compared, 2 differ\n", text)
        self.path("ref/y.npy", npy("<f8", (2, 5), bytes(80)))
        self.run_cli(*plain, "--compare", ref, code=1, says="type f32, expected f64")
        nan = npy("<f4", (), floats(float("nan")))
        self.path("nan/s.npy", nan)
        self.run_cli(*plain, "--compare", self.path("nan"), code=1, says='"s"')
        self.run_cli(*plain, "--compare", self.path("none"), code=1, says="cannot read .*none: No such file")
        os.mkdir(self.path("none"))
        self.run_cli(*plain, "--compare", self.path("none"), code=1, says="no file in")
        self.path("broken/s.npy", nan[:-1])
        self.run_cli("run", m, "-i", "x=" + x, "--verify", "--compare", ref, code=1)  # the comparison comes first
        self.run_cli(*plain, "--compare", self.path("broken"), code=1, says="3 bytes of data")

    def test_tensor_names(self):
        # Names that are no file names, or become the same one; whose file is whose does not depend on what else there is.
        long = "n" * 300
        names = ["a:b", "a/b", "a_b", "a_b_2", "A_B", "\u00e9\u6f22", "tab\tnew\nline \\", "..", long + "1", long + "2"]
        nodes = [node("Add", ["x", "k%d" % i], [name]) for i, name in enumerate(names)]
        ones = [tensor("k%d" % i, F32, (), floats(i)) for i in range(len(names))]
        x = self.path("x.npy", npy("<f4", (2,), floats(0, 1)))
        m = self.path("m.onnx", model(nodes, [value_info("x", F32, (2,))], [value_info(name, F32, (2,)) for name in names], ones))
        out = self.path("out")
        self.run_cli("run", m, "-i", "x=" + x, "--dump-tensors", out)
        self.assertEqual(len(os.listdir(out)), len(names) + 2)
        with open(out + "/names.txt", encoding="utf-8") as f:
            listed = dict(line[:-1].split("\t")[::-1] for line in f)
        for i, name in enumerate(names):
            file = listed[name.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")]
            self.assertEqual(read_npy(out + "/" + file), ("<f4", (2,), floats(i, i + 1)), name)
        self.assertIn("11 of 11 tensors compared, 0 differ", self.run_cli("run", m, "-i", "x=" + x, "--compare", out))
        few = self.path("few.onnx", model(nodes[3:4] + nodes[9:], [value_info("x", F32, (2,))], [value_info(names[k], F32, (2,)) for k in (3, 9)], ones))
        self.assertIn("3 of 3 tensors compared, 0 differ", self.run_cli("run", few, "-i", "x=" + x, "--compare", out))
        self.path("out/" + listed["a_b_2"], npy("<f4", (2,), floats(3, 5)))
        self.run_cli("run", m, "-i", "x=" + x, "--compare", out, code=1, says='first of them "a_b_2"')
        self.path("out/names.txt", b"x.npy x\n")
        self.run_cli("run", m, "-i", "x=" + x, "--compare", out, code=1, says="names.txt: line 1 is not a file, a tab and a tensor")

    def test_compare_rounded(self):
        # A value between two steps of 8 bits: who parts there is told why.
        zero = tensor("z", 3, (), b"\0")
        m = self.path("m.onnx", model([node("QuantizeLinear", ["x", "s", "z"], ["q"])], [value_info("x", F32, (2,))], [value_info("q", 3, (2,))],
                                      [tensor("s", F32, (), floats(1)), zero]))
        x = self.path("x.npy", npy("<f4", (2,), floats(2.5, 4)))
        self.path("ref/q.npy", npy("|i1", (2,), b"\3\4"))
        self.run_cli("run", m, "-i", "x=" + x, "--compare", self.path("ref"), code=1)
        self.assertIn("note: the first to differ is rounded to 8 bits and off by one step", self.last)
        self.path("ref/q.npy", npy("|i1", (2,), b"\7\4"))
        self.run_cli("run", m, "-i", "x=" + x, "--compare", self.path("ref"), code=1)
        self.assertNotIn("note:", self.last)

    def test_tensors_of_all_kinds(self):
        # an output that is an input, one that is a constant, a type without .npy, one tensor twice
        k = tensor("k", I64, (2,), struct.pack("<2q", 3, -4))
        m = self.path("m.onnx", model([node("Cast", ["a"], ["h"], int_attribute("to", BF16)), node("Neg", ["a"], ["b/1"]), node("Abs", ["a"], ["b_1"])],
                                      [value_info("a", F32, (2,))], [value_info(n, t, (2,)) for n, t in (("a", F32), ("k", I64), ("h", BF16), ("b/1", F32), ("b_1", F32))], [k]))
        out = self.path("out")
        text = self.run_cli("run", m, "--random", "1", "--verify", "--dump-tensors", out)
        self.assertEqual(text.count("5 of 5 outputs agree"), 2)
        self.assertEqual(sorted(os.listdir(out)), ["a.npy", "b_1.npy", "b_1_2.npy", "h.pb", "names.txt"])
        self.assertIn("4 of 4 tensors compared, 0 differ", self.run_cli("run", m, "--random", "1", "--compare", out))

    def test_random(self):
        m = self.path("m.onnx", add_model())
        texts = [self.run_cli("run", m, "--random", seed, "-d", "n=4") for seed in ("1", "1", "2")]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertIn("f32[4, 3]", texts[0])
        a = self.path("a.npy", npy("<f4", (5, 3), floats(*range(15))))
        self.assertIn("f32[5, 3]", self.run_cli("run", m, "-i", "a=" + a, "--random", "1"))  # n from the file
        self.assertIn("f32[4, 3]", self.run_cli("run", m, "--fix", "n=4", "--random", "1"))
        self.run_cli("run", m, "--random", "1", code=1, says='"a".*-d n=N')
        self.run_cli("run", m, "--random", "1", "-d", "q=3", code=1, says='no symbolic dimension "q"; it has: n')
        odd = self.path("odd.onnx", add_model(F32, *[("p.Dim 1", 3)] * 3))  # the file's spelling of a size, and the model's
        for name in ("p.Dim 1", "p_Dim_1"):
            self.assertIn("f32[4, 3]", self.run_cli("run", odd, "--random", "1", "-d", name + "=4"))
            self.assertIn("f32[4, 3]", self.run_cli("run", odd, "--random", "1", "--fix", name + "=4"))
        self.run_cli("run", m, "-i", "a=" + a, "-d", "n=4", "--random", "1", code=1, says="dimension 0 is 5, but n is 4")
        for type_ in (I32, I64, F64):
            self.run_cli("run", self.path("t.onnx", add_model(type_)), "--random", "3", "-d", "n=100", says=r"(i32|i64|f64)\[100, 3\]")

    def test_input_errors(self):
        m = self.path("m.onnx", add_model())
        good = self.path("a.npy", npy("<f4", (2, 3), floats(*range(6))))
        self.run_cli("run", m, "-i", "a=" + good, code=1, says='"b" was not given')
        self.run_cli("run", m, "-i", "c=" + good, code=1, says='no input "c"; it has: a, b')
        self.run_cli("run", m, "-i", "a=/no/such.npy", code=1, says="/no/such.npy")
        self.run_cli("run", m, "-i", "a=" + self.path("a.txt", b"1"), code=1, says="neither .npy nor .pb")
        head = len(npy("<f4", (2, 3), b""))
        for name, data, says in [
                ("t.npy", npy("<i4", (2, 3), bytes(24)), "type i32; the model wants f32"), ("r.npy", npy("<f4", (6,), bytes(24)), "1 dimensions"),
                ("d.npy", npy("<f4", (2, 4), bytes(32)), "dimension 1 is 4; the model wants 3"), ("s.npy", npy("<f4", (3, 3), bytes(36)), "dimension 0 is 2, but n is 3"),
                ("cut.npy", npy("<f4", (2, 3), bytes(23)), "23 bytes of data instead of 24"), ("head.npy", npy("<f4", (2, 3), b"")[:head - 1], "cut short"),
                ("empty.npy", b"", "not a .npy"), ("huge.npy", npy("<f4", (1 << 62, 8), b""), "too large"), ("o.npy", npy("|O", (2, 3), b""), "type"),
                ("neg.npy", npy("<f4", (-2, 3), b""), "shape"), ("many.npy", npy("<f4", (1,) * 9, bytes(4)), "shape"),
                ("cut.pb", tensor("a", F32, (2, 3), bytes(24))[:-1], "damaged"), ("short.pb", tensor("a", F32, (2, 3), bytes(20)), "20 bytes"),
                ("type.pb", tensor("a", 8, (2, 3), b""), "type 8"), ("huge.pb", tensor("a", F32, (1 << 60, 1 << 60), b""), "too large"),
                ("big.pb", tensor("a", F32, (1 << 40,), b""), "fewer elements"), ("wild.pb", b"\xff" * 40, "damaged")]:
            self.run_cli("run", m, "-i", "a=" + self.path(name, data), "-i", "b=" + good, code=1, says=says)

    def test_model_errors(self):
        good = add_model()
        self.run_cli("run", "/no/such.onnx", code=1, says="/no/such.onnx")
        self.run_cli("run", self.dir, code=1)
        self.run_cli("run", self.path("empty.onnx", b""), code=1)
        for n in range(1, len(good), 7):
            for command in ("run", "check"):
                self.run_cli(command, self.path("cut.onnx", good[:n]), code=1)
        self.run_cli("run", self.path("op.onnx", model([node("NoSuchOperator", ["a"], ["y"])], [value_info("a", F32, (2,))], [value_info("y", F32, (2,))])),
                     code=1, says="NoSuchOperator")
        # what is wrong is said of what it is in: tensor, node, operator, what was expected and what came
        x, y = [value_info("x", F32, ("n", 4))], [value_info("y", F32, ())]

        def refused(says, nodes, *initializers):
            self.run_cli("run", self.path("wrong.onnx", model(nodes, x, y, initializers)), code=1, says=says)

        add = node("Add", ["x", "w"], ["y"], field(3, "plus"))
        refused(r"tensor 'w' has 16 bytes of data; its shape says 20", [add], tensor("w", F32, (5,), bytes(16)))
        refused(r"tensor 'w' has a negative size, -4, along axis 0", [add], tensor("w", F32, (2**64 - 4,), bytes(16)))
        refused(r"tensor 'w' has a shape of more elements", [add], tensor("w", F32, (1 << 62, 4), bytes(16)))
        refused(r"tensor 'w' holds 0 elements; its shape says 4", [add], field(1, 4) + field(2, F32) + field(8, "w"))
        refused(r"two tensors are named 'y': outputs of 'plus' \(Add\) and 'two' \(Relu\)", [add, node("Relu", ["x"], ["y"], field(3, "two"))],
                tensor("w", F32, (4,), bytes(16)))
        refused(r"node 'r' \(Reshape, opset 17\): the new shape has -1 for axis 0 and for axis 1", [node("Reshape", ["x", "w"], ["y"], field(3, "r"))],
                tensor("w", I64, (2,), b"\xff" * 16))
        refused(r"node 'g' \(Gather, opset 17\): input 1 of type f32 is not supported; i32 or i64 is; its inputs: 'x' f32\[n, 4\], 'w' f32\[4\]",
                [node("Gather", ["x", "w"], ["y"], field(3, "g"))], tensor("w", F32, (4,), bytes(16)))
        old = model([node("LayerNormalization", ["x", "w"], ["y"], field(3, "ln"))], x, y, [tensor("w", F32, (4,), bytes(16))])
        self.run_cli("run", self.path("old.onnx", old.replace(field(2, 17), field(2, 11))), code=1, says="supported from opset 17 on: 'ln'")

        def branch(op, name, attributes=b""):
            return field(5, field(1, name) + field(6, field(1, node(op, ["x"], [name], attributes)) + field(2, "g") + field(12, value_info(name, F32, ()))) + field(20, 5))

        both = branch("Relu", "then_branch"), branch("Cast", "else_branch", int_attribute("to", I64))
        for sides, says in (both, r"node 'choose' \(If, opset 17\): output 0 is f32\[n, 4\] in one branch and i64\[n, 4\] in the other"), (both[:1], "attribute 'else_branch' is missing"):
            data = model([node("If", ["c"], ["y"], field(3, "choose") + b"".join(sides))], x + [value_info("c", BOOL, ())], y)
            self.run_cli("run", self.path("if.onnx", data), code=1, says=says)

    def test_files_of_other_kinds(self):
        for data, says in [(b"", "an empty file"), (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "git lfs pull"),
                           (b"<!DOCTYPE html><html>", "a web page"), (b"no model\n", "a text file"), (b"PK\3\4" + bytes(60), "torch.onnx.export"),
                           (b"\x1c\0\0\0TFL3" + bytes(60), "TensorFlow Lite"), (b"GGUF\3\0\0\0" + bytes(60), "a GGUF file"),
                           (b"\x89HDF\r\n\x1a\n" + bytes(60), "HDF5"), (b"\x1f\x8b\x08" + bytes(60), "gzip"), (npy("<f4", (1,), bytes(4)), "numpy")]:
            self.run_cli("run", self.path("other.onnx", data), code=1, says="not an ONNX model, but .*" + says)
        good = add_model()
        self.run_cli("run", self.path("cut.onnx", good[:len(good) // 2]), code=1, says=r"cut short or damaged: the field of \d+ bytes at byte \d+ has only \d+ left")

    def test_missing_sizes(self):
        m = self.path("m.onnx", add_model(a=("n", "m"), b=("n", "m")))
        self.run_cli("run", m, "--random", "1", code=1, says="give it with -d n=N -d m=N")
        self.run_cli("run", m, "--random", "1", "-d", "n=2", code=1, says='dimension 1 is not known: give it with -d m=N')

    def test_check_lists_everything(self):
        def problems(nodes, opset=17, outputs=("y",)):
            data = model(nodes, [value_info("x", F32, ("n", 4))], [value_info(o, F32, ()) for o in outputs])
            text = self.run_cli("check", self.path("m.onnx", data.replace(field(2, 17), field(2, opset))), code=1)
            first, *lines = text.splitlines()
            self.assertEqual(first, "model: %d problem%s" % (len(lines), "" if len(lines) == 1 else "s"))
            return [line.strip() for line in lines]

        def named(name):
            return field(3, name)

        text = field(5, field(1, "axis") + field(4, "last") + field(20, 3))
        lines = problems([node("Foo", ["x"], ["a"], named("first")), node("Bar", ["a"], ["b"], named("second")),
                          node("Softmax", ["x"], ["c"], named("odd") + int_attribute("axi", 3)), node("Softmax", ["x"], ["d"], named("word") + text),
                          node("Relu", ["missing"], ["e"], named("lost")), node("Concat", ["b", "c"], ["f"], named("axisless")),
                          node("Cast", ["x"], ["i"], named("cast") + int_attribute("to", I64)), node("Add", ["x", "i"], ["g"], named("types")),
                          node("Sum", ["d", "e", "f", "g"], ["y"], named("sum"))])
        for says in ("not supported: Foo (ai.onnx, opset 17): operator is not supported: 'first'", "not supported: Bar (ai.onnx, opset 17): operator is not supported: 'second'",
                     "not supported: Softmax (ai.onnx, opset 17): attribute 'axi' is not supported: 'odd'",
                     "wrong: node 'lost' (Relu): input 'missing' is not a tensor of the model",
                     "wrong: node 'word' (Softmax, opset 17): attribute 'axis' is a string, not an integer; its inputs: 'x' f32[n, 4]",
                     "wrong: node 'axisless' (Concat, opset 17): attribute 'axis' is missing; its inputs: 'c' f32[n, 4]",
                     "wrong: node 'types' (Add, opset 17): inputs 0 and 1 have different types, f32 and i64; its inputs: 'x' f32[n, 4], 'i' i64[n, 4]"):
            self.assertIn(says, lines)
        self.assertEqual(len(lines), 7)
        # a run tells the same, in one message
        self.run_cli("run", self.path("m.onnx"), code=1, says="(?s)7 problems.*'first'.*'second'.*'odd'.*'missing'.*'word'.*'axisless'.*'types'")
        lines = problems([node("Foo", ["x"], ["q"]), node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])])
        self.assertTrue(len(lines) == 2 and "cycle" in lines[1], lines)
        lines = problems([node("Relu", ["x"], ["y"]), node("Exp", ["x"], ["y"])], outputs=("y", "z"))
        self.assertTrue(len(lines) == 2 and "two tensors are named 'y'" in lines[0] and "output 'z'" in lines[1], lines)
        self.assertEqual(problems([node("Relu", ["x"], ["y"])], opset=99), ["not supported: opset 99 of ai.onnx is not supported; 1 to 28 are"])
        many = problems([node("Op%d" % i, ["x"], ["t%d" % i]) for i in range(200)] + [node("Relu", ["x"], ["y"])])
        self.assertTrue(len(many) == 200 and all("Op%d " % i in many[i] for i in range(200)))

    def test_terminal(self):
        # What a model brings cannot write to the terminal as it likes.
        for name, shown in [("a\x1b[31mb", r"a\\x1b\[31mb"), ("\xc3\xa4", "\u00c3\u00a4"), ("caf\u00e9", "caf\u00e9"), ("\x9b1m", r"\\xc2\\x9b1m")]:
            m = self.path("m.onnx", add_model(names=("a", "b", name)))
            self.run_cli("run", m, "--random", "1", "-d", "n=2", says=shown)
        p = subprocess.run([PROGRAM, "run", self.path("bad.onnx", model([node("Add", ["a"], ["y"])], [value_info("a", F32, (1,))], []).replace(b"Add", b"\x1b\xff["))],
                           capture_output=True, env=self.env)
        self.assertEqual(p.returncode, 1)
        self.assertNotIn(b"\x1b", p.stderr)
        p.stderr.decode()

    def test_write_errors(self):
        m = self.path("m.onnx", add_model())
        file = self.path("file", b"")
        self.run_cli("run", m, "--random", "1", "-d", "n=2", "-o", file, code=1, says="file")
        self.run_cli("run", m, "--random", "1", "-d", "n=2", "-o", file + "/x", code=1, says="file/x")
        with open("/dev/full", "w") as full:
            p = subprocess.run([PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, env=self.env)
        self.assertEqual(p.returncode, 1)

    def test_huge_sizes(self):
        m = self.path("m.onnx", add_model())
        for n in (1 << 36, 1 << 40, 1 << 62):
            p = subprocess.run([PROGRAM, "run", m, "--random", "1", "-d", "n=%d" % n], capture_output=True, text=True, env=self.env)
            self.assertIn(p.returncode, (1, 3))
            self.assertRegex(p.stderr, "memory|too large")

    def test_toolchain(self):
        m = self.path("m.onnx", add_model())
        env = dict(self.env, TILEWRIGHT_CC="/no/such/cc")
        self.run_cli("run", m, "--random", "1", "-d", "n=2", code=3, says="/no/such/cc", env=env)

    # ---- the others ----

    def test_bench(self):
        m = self.path("m.onnx", add_model())
        line = self.run_cli("bench", m, "-d", "n=8", "--runs", "3", "--warmup", "1", "--json", "--threads", "2")
        self.assertEqual(line.count("\n"), 1)
        result = json.loads(line)
        self.assertEqual(sorted(result), sorted(["median_ms", "min_ms", "compile_ms", "load_ms", "threads", "peak_mb"]))
        self.assertEqual(result["threads"], 2)
        self.assertTrue(0 < result["min_ms"] <= result["median_ms"])
        self.assertGreater(result["compile_ms"], 0)
        self.assertTrue(0 < result["peak_mb"] < 500)
        self.assertEqual(json.loads(self.run_cli("bench", m, "-d", "n=8", "--runs", "3", "--json"))["compile_ms"], 0)  # cached
        self.assertRegex(self.run_cli("bench", m, "-d", "n=8", "--runs", "3", "--profile"), r"median [\d.]+ ms(.|\n)*program(.|\n)*add")

    def test_profile_of_a_loop(self):
        """A step of a recurrence counts as often as a run does it."""
        weights = [tensor("W", F32, (1, 12, 3), struct.pack("<36f", *[0.1] * 36)), tensor("R", F32, (1, 12, 4), struct.pack("<48f", *[0.1] * 48))]
        m = self.path("m.onnx", model([node("GRU", ("X", "W", "R"), ("Y",), int_attribute("hidden_size", 4))],
                                      [value_info("X", F32, (37, 1, 3))], [value_info("Y", F32, (37, 1, 1, 4))], weights))
        rows = [line.split() for line in self.run_cli("bench", m, "--runs", "1", "--profile").splitlines()]
        head = next(i for i, row in enumerate(rows) if "times" in row)
        table = rows[head + 1:-1]
        self.assertIn("37", [row[2] for row in table])
        self.assertAlmostEqual(sum(float(row[0]) for row in table), float(rows[-1][0]), delta=1e-4 * len(rows))

    def test_show_check_info(self):
        m = self.path("m.onnx", add_model())
        text = self.run_cli("show", m)
        for line in ("nodes: 1", "kernels: 1", "host operators: 0", r"inputs:\n  a  f32\[n, 3\]\n  b  f32\[n, 3\]", r"outputs:\n  sum  f32\[n, 3\]", "groups:"):
            self.assertRegex(text, "(?m)^" + line)
        dump = self.path("dump")
        self.run_cli("show", m, "--dump", dump)
        self.assertTrue(os.listdir(dump))
        self.assertRegex(self.run_cli("check", m), "Add")
        self.assertRegex(self.run_cli("info"), r"(?s)version: .*compiler: .*cache: ")
        points = self.run_cli("info", "--space", "matmul").splitlines()
        self.assertTrue(20 <= len(points) == len(set(points)) <= 500 and all(re.fullmatch(r"(\w+=\d+ ?)+", p) for p in points))
        self.run_cli("info", "--space", "nothing", code=2, says="there are .*matmul")

    # ---- test ----

    def folder(self, name, data, inputs, outputs, **files):
        base = self.path(name)
        self.path(name + "/model.onnx", data)
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for i, t in enumerate(tensors):
                self.path("%s/test_data_set_0/%s_%d.pb" % (name, kind, i), t)
        for file, text in files.items():
            self.path("%s/%s" % (name, file.replace("_", ".")), text.encode())
        return base

    def add_folder(self, name, last=9.0, **files):
        a, b = floats(1, 2, 3), floats(4, 5, 6)
        return self.folder(name, add_model(), [tensor("a", F32, (1, 3), a), tensor("b", F32, (1, 3), b)],
                           [tensor("sum", F32, (1, 3), floats(5, 7, last))], **files)

    def test_test(self):
        good, bad = self.add_folder("good"), self.add_folder("bad", last=9.5)
        self.assertEqual(self.run_cli("test", good), "ok good\n1 passed, 0 failed\n")
        self.assertEqual(self.run_cli("test", good + "/"), "ok good\n1 passed, 0 failed\n")
        self.assertEqual(self.run_cli("test", "--constants", good), "ok good\n1 passed, 0 failed\n")
        text = self.run_cli("test", bad, good, code=1)
        self.assertRegex(text, r'^FAIL bad: output 0 "sum": element \[0, 2\] is 9, expected 9\.5; 1 of 3 differ.*\nok good\n1 passed, 1 failed\n$')
        self.assertRegex(self.run_cli("test", "--constants", bad, code=1), "is 9, expected 9.5")
        self.run_cli("test", "--rtol", "0.1", bad)
        self.run_cli("test", "--atol=0.6", bad)
        self.assertEqual(self.run_cli("test", self.add_folder("meta", last=9.5, meta_json='{"rtol": 0.1, "atol": 0}')), "ok meta\n1 passed, 0 failed\n")
        self.run_cli("test", "--rtol", "1e-6", self.path("meta"), code=1)
        # a folder of folders
        os.makedirs(self.path("many"))
        for name in ("good", "bad"):
            shutil.copytree(self.path(name), self.path("many/" + name))
        self.assertRegex(self.run_cli("test", self.path("many"), code=1), r"^FAIL bad: .*\nok good\n1 passed, 1 failed\n$")
        # other shapes, types
        wrong = self.folder("shape", add_model(), [tensor("", F32, (1, 3), bytes(12))] * 2, [tensor("", F32, (3,), bytes(12))])
        self.assertRegex(self.run_cli("test", wrong, code=1), r"shape \[1, 3\], expected \[3\]")
        wrong = self.folder("type", add_model(), [tensor("", F32, (1, 3), bytes(12))] * 2, [tensor("", I32, (1, 3), bytes(12))])
        self.assertRegex(self.run_cli("test", wrong, code=1), "type f32, expected i32")
        nan, infinity = float("nan"), float("inf")
        special = self.folder("special", add_model(), [tensor("a", F32, (1, 3), floats(nan, infinity, 1)), tensor("b", F32, (1, 3), floats(1, 1, 1))],
                              [tensor("sum", F32, (1, 3), floats(nan, infinity, 2))])
        self.run_cli("test", special)
        for values in ((1, infinity, 2), (nan, -infinity, 2), (nan, 1e38, 2)):
            other = self.folder("special", add_model(), [tensor("a", F32, (1, 3), floats(nan, infinity, 1)), tensor("b", F32, (1, 3), floats(1, 1, 1))],
                                [tensor("sum", F32, (1, 3), floats(*values))])
            self.run_cli("test", other, code=1)

    def test_test_errors(self):
        good = self.add_folder("good")
        broken = self.folder("broken", b"\x00\x01garbage", [], [])
        text = self.run_cli("test", broken, self.path("absent"), good, code=1)
        self.assertRegex(text, r"^FAIL broken: .+\nFAIL absent: .+\nok good\n1 passed, 2 failed\n$")
        refused = self.folder("refused", b"\x00\x01garbage", [], [], expect_txt="error")
        self.assertEqual(self.run_cli("test", refused), "ok refused\n1 passed, 0 failed\n")
        ran = self.add_folder("ran", expect_txt="error")
        self.assertRegex(self.run_cli("test", ran, code=1), "should have been refused")
        none = self.folder("none", add_model(a=(2, 3), b=(2, 3), out=(2, 3)), [], [])
        self.run_cli("test", none, code=1)

    def test_constants_change_the_model(self):
        # With Sub, the second input as a constant must still be the second operand; initialisers that were there stay.
        c = tensor("c", F32, (3,), floats(100, 200, 300))
        data = model([node("Sub", ["a", "b"], ["t"]), node("Add", ["t", "c"], ["y"])],
                     [value_info("a", F32, (3,)), value_info("c", F32, (3,)), value_info("b", F32, (3,))], [value_info("y", F32, (3,))], [c])
        folder = self.folder("sub", data, [tensor("a", F32, (3,), floats(1, 2, 3)), tensor("b", F32, (3,), floats(5, 7, 9))],
                             [tensor("y", F32, (3,), floats(96, 195, 294))])
        self.run_cli("test", folder)
        self.run_cli("test", "--constants", folder)

    def test_changed_files(self):
        """A model and its weights are not read again while they are unchanged; a change shows whatever their times say."""
        data = field(5, field(1, 2) + field(2, F32) + field(8, "w") + field(13, field(1, "location") + field(2, "w.bin")) + field(14, 1))
        graph = field(1, node("Add", ["a", "w"], ["y"])) + field(2, "g") + data + field(11, value_info("a", F32, (2,))) + field(12, value_info("y", F32, (2,)))
        m = self.path("m.onnx", field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
        w, a, out = self.path("w.bin", floats(10, 20)), self.path("a.npy", npy("<f4", (2,), floats(1, 2))), self.path("out")

        def sums():
            self.run_cli("run", m, "-i", "a=" + a, "-o", out)
            return struct.unpack("<2f", read_npy(os.path.join(out, "y.npy"))[2])

        def known():
            return len([name for name in os.listdir(self.path("cache")) if name.endswith(".twf")])

        self.assertEqual(sums(), (11, 22))
        self.assertEqual(known(), 0)  # changed a moment ago
        time.sleep(3.2)
        self.assertEqual(sums(), (11, 22))
        self.assertEqual(known(), 2)
        self.assertEqual(sums(), (11, 22))
        before = os.stat(w)
        with open(w, "r+b") as f:
            f.write(floats(30, 40))
        os.utime(w, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(sums(), (31, 42))
        os.rename(w, w + ".old")
        self.run_cli("run", m, "-i", "a=" + a, code=1, says="w.bin")
        os.symlink(w + ".old", w)
        self.assertEqual(sums(), (31, 42))

    def test_interrupted(self):
        m = self.path("m.onnx", add_model())
        self.run_cli("run", m, "--random", "1", "-d", "n=2")  # compiled
        p = subprocess.Popen([PROGRAM, "bench", m, "-d", "n=100000", "--runs", "1000000"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.7)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=20)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn("cancelled", err)

    def softmaxes(self):
        nodes = [node("Softmax", ["x%d" % i], ["x%d" % (i + 1)], int_attribute("axis", i % 2)) for i in range(5)]
        return self.path("m.onnx", model(nodes, [value_info("x0", F32, (6, 7))], [value_info("x5", F32, (6, 7))]))

    def test_progress_line(self):
        # one stage after the other, each counting up, though compilers run while tasks are still scheduled
        master, slave = pty.openpty()
        p = subprocess.Popen([PROGRAM, "bench", self.softmaxes(), "--no-cache", "--runs", "1"], env=self.env, stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        shown = b""
        try:
            while chunk := os.read(master, 65536):
                shown += chunk
        except OSError:  # the other end is closed
            pass
        os.close(master)
        self.assertEqual(p.wait(), 0, shown)
        lines = [m.groups() for m in re.finditer(rb"\x1b\[K(scheduling|compiling kernels) (\d+)/(\d+)", shown)]
        self.assertEqual(sorted(lines, key=lambda l: (l[0] != b"scheduling", int(l[1]))), lines)
        last = {l[0]: (int(l[1]), int(l[2])) for l in lines}
        self.assertEqual(last[b"compiling kernels"][0], last[b"compiling kernels"][1])
        self.assertEqual(last[b"scheduling"][0], last[b"scheduling"][1] - 1)

    def test_interrupted_compiler(self):
        compiler, folder = self.path("cc.sh", b"#!/bin/sh\ncase \"$*\" in *--version*) echo cc 1.0;; *) sleep 60;; esac\n"), self.path("tmp")
        os.chmod(compiler, 0o755)
        os.mkdir(folder)
        p = subprocess.Popen([PROGRAM, "bench", self.softmaxes(), "--no-cache"], env=dict(self.env, TILEWRIGHT_CC=compiler, TMPDIR=folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while p.poll() is None and not any(name.endswith(".c") for f in os.listdir(folder) for name in os.listdir(os.path.join(folder, f))):
            time.sleep(0.02)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=20)
        self.assertEqual(p.returncode, 1, err)
        self.assertIn("cancelled", err)
        self.assertEqual(os.listdir(folder), [])

    def test_pb_output_for_other_types(self):
        # bfloat16 has no .npy
        m = self.path("m.onnx", model([node("Cast", ["a"], ["y"], int_attribute("to", BF16))], [value_info("a", F32, (2,))], [value_info("y", BF16, (2,))]))
        a, out = self.path("a.npy", npy("<f4", (2,), floats(1, -2))), self.path("out")
        self.run_cli("run", m, "-i", "a=" + a, "-o", out)
        with open(os.path.join(out, "y.pb"), "rb") as f:
            self.assertEqual(f.read(), field(1, 2) + field(2, BF16) + field(8, "y") + field(9, struct.pack("<2H", 0x3f80, 0xc000)))


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0]] + sys.argv[3:], exit=False, verbosity=1).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed" % (result.testsRun - bad, bad))
    sys.exit(bool(bad))
