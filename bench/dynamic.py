#!/usr/bin/env python3
"""Time models with open sizes against the same models compiled for one size each, in turn; print ratios.

usage: dynamic.py [--tilewright PATH] [--prepare] [--rounds 4] [--ms 200] [--kernels N] [--over RATIO] CASE ...

CASE is a name of tools/models.py, timed at sizes of tools/model_inputs.py (NAME@0,2: at the first and the third of
them; NAME alone: at the first two), or FILE:SYMBOL=N,.. with sizes for the symbols of an ONNX file, whose inputs are
random then.

Each round runs both forms in fresh processes, one thread, some MS milliseconds of runs each; which goes first changes.
Printed are the ratio of the least times of all rounds and the median of the rounds' ratios of medians: above 1 the
form with open sizes is slower. --kernels prints the N steps (or steps that together do the same nodes) whose least
times differ most; --over does so only for cases whose two ratios are both above it. --prepare only compiles what is
not in the cache.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))
import model_inputs
import models
import run_models


def ports_of(path):
    """{input: (element type, [size, or the name of it as a file or the compiler spells it])}"""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    ports = {}
    for value in graph.input:
        kind = value.type.tensor_type
        if value.name in constants:
            continue
        sizes = []
        for k, d in enumerate(kind.shape.dim):
            word = "".join(c if c.isalnum() else "_" for c in value.name)
            unnamed = "%s_%d" % (word, k)
            sizes.append(d.dim_value if d.dim_value > 0 else unnamed if d.dim_param in ("", "?", "-1") else d.dim_param)
        ports[value.name] = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type), sizes
    return ports


def known_input(name, size, ports):
    stream = model_inputs.STREAMS.get(name)
    if stream:
        return {**stream.first_state(size), **stream.chunks("normal", size, 0)[0]}
    kind = "picture" if name in models.OCR else "normal"
    return model_inputs.make_inputs(name, kind, size, 0, list(ports))


def random_input(sizes, ports):
    rng, made = np.random.default_rng(0), {}
    for name, (dtype, dims) in ports.items():
        shape = [d if isinstance(d, int) else sizes[d] for d in dims]
        made[name] = (rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 100, shape)).astype(dtype)
    return made


STEP = re.compile(r" *([\d.]+) +[\d.]+ +[\d.e+]+( +[-\d.]+){4} +[-a-z]+ +(\d+) +(\S+) +(.*?) +(\S+) +(\S+)$")


def steps_of(table):
    """{step: (least ms, program, schedule, sizes, nodes)} of what bench --profile prints."""
    found = [STEP.match(line) for line in table.splitlines()]
    return {int(f[3]): (float(f[1]), f[4], f[5], f[6], f[7].split("+")) for f in found if f}


class Case:
    """One model at one size, its inputs in a folder."""

    def __init__(self, args, label, path, ports, inputs, folder):
        always = run_models.FIX.get(label, {})
        self.args, self.path, self.fixed = args, path, []
        self.options = [w for s, n in always.items() for w in ("--fix", "%s=%d" % (s, n))]
        pairs = [pair for name, array in inputs.items() for pair in zip(ports[name][1], array.shape)]
        symbols = {d: n for d, n in pairs if isinstance(d, str)}
        for k, (name, array) in enumerate(inputs.items()):
            file = os.path.join(folder, "%d.npy" % k)
            np.save(file, array)
            self.options += ["-i", "%s=%s" % (name, file)]
        for symbol, n in (pair for pair in symbols.items() if pair[0] not in always):
            self.fixed += ["--fix", "%s=%d" % (symbol, n)]
        sizes = ",".join("%s=%d" % (s.split(".")[-1], n) for s, n in symbols.items())
        self.label = "%-20s %-24s" % (label, sizes[-24:])

    def bench(self, fix, *options):
        words = [self.args.tilewright, "bench", self.path, *self.options, *(self.fixed if fix else []),
                 "--threads", "1", "--json", *options]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            print("%s failed: %s\n%s" % (self.label, " ".join(words), done.stderr[-600:]), flush=True)
            return None
        return {**json.loads(done.stdout), "steps": steps_of(done.stderr)}

    def prepare(self):
        took = [self.bench(fix, "--runs", "1") for fix in (False, True)]
        if all(took):
            print(self.label, "compiled in", " and ".join("%.1f s" % (t["compile_ms"] / 1e3) for t in took), flush=True)

    def time(self):
        first = self.bench(True, "--runs", "3")
        if not first:
            return
        runs = str(max(3, min(2000, int(self.args.ms / first["min_ms"]))))
        taken = {False: [], True: []}
        for k in range(self.args.rounds):
            for fix in ((False, True) if k % 2 else (True, False)):
                taken[fix].append(self.bench(fix, "--runs", runs))
        if not all(taken[False] + taken[True]):
            return
        open_ms, fixed_ms = (min(t["min_ms"] for t in taken[fix]) for fix in (False, True))
        median = statistics.median(a["median_ms"] / b["median_ms"] for a, b in zip(taken[False], taken[True]))
        print("%s least %.3f  median %.3f  (%.3f ms)" % (self.label, open_ms / fixed_ms, median, fixed_ms), flush=True)
        if self.args.kernels and min(open_ms / fixed_ms, median) >= self.args.over:
            self.kernels(runs)

    def kernels(self, runs):
        forms = []
        for fix in (False, True):
            taken = [self.bench(fix, "--profile", "--runs", runs) for _ in range(2)]
            if not all(taken):
                return
            forms.append([min(t["steps"][k] for t in taken) for k in taken[0]["steps"]])
        print_kernels(*forms, self.args.kernels)


def print_kernels(opened, fixed, most):
    """The steps of both forms that do the same nodes, together where these are divided in another way."""
    leader = {}

    def find(name):
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for *_, nodes in opened + fixed:
        for name in nodes:
            leader[find(name)] = find(nodes[0])
    groups = {}
    for which, steps in enumerate((opened, fixed)):
        for s in steps:
            groups.setdefault(find(s[-1][0]), ([], []))[which].append(s)

    def total(steps):
        return sum(s[0] for s in steps)

    rows = sorted(groups.items(), key=lambda g: -abs(total(g[1][0]) - total(g[1][1])))
    print("    sums of the least times: %.3f ms, fixed %.3f ms" % (total(opened), total(fixed)))
    for name, (a, b) in rows[:most]:
        print("    %+.4f ms: %.4f, fixed %.4f  %s" % (total(a) - total(b), total(a), total(b), name))
        for word, steps in (("open ", a), ("fixed", b)):
            for ms, program, schedule, sizes, _ in steps[:4]:
                print("        %s %.4f %-18s %-20s %s" % (word, ms, program, sizes, schedule))


def cases(args):
    for word in args.cases:
        if os.path.exists(word.split(":")[0]):
            path, _, sizes = word.partition(":")
            ports = ports_of(path)
            sizes = {s: int(n) for s, n in (pair.split("=") for pair in sizes.split(","))}
            yield os.path.basename(path).removesuffix(".onnx"), path, ports, random_input(sizes, ports)
            continue
        name, _, which = word.partition("@")
        path = models.ensure([name])[name]
        ports = ports_of(path)
        stream = model_inputs.STREAMS.get(name)
        sizes = stream.sizes if stream else model_inputs.SIZES[name]
        for k in [int(w) for w in which.split(",")] if which else range(min(2, len(sizes))):
            yield name, path, ports, known_input(name, sizes[k], ports)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="+", metavar="CASE")
    parser.add_argument("--tilewright", default="tilewright", metavar="PATH")
    parser.add_argument("--prepare", action="store_true", help="only compile")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--ms", type=float, default=200)
    parser.add_argument("--kernels", type=int, default=0, metavar="N")
    parser.add_argument("--over", type=float, default=0, metavar="RATIO")
    args = parser.parse_args()
    for label, path, ports, inputs in cases(args):
        with tempfile.TemporaryDirectory() as folder:
            case = Case(args, label, path, ports, inputs, folder)
            case.prepare() if args.prepare else case.time()


if __name__ == "__main__":
    main()
