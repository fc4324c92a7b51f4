#!/usr/bin/env python3
"""Run real models with Tilewright and with ONNX Runtime and compare every output; print a table.

usage: run_models.py TILEWRIGHT [options] [MODEL ...]        MODEL: a name or group of tools/models.py (default: all)

Each model runs at several sizes on three inputs (model_inputs.py).  An output passes if it has ONNX Runtime's shape and
type, infinities and NaN in the same places, and differs elsewhere by at most 1e-4 of the largest magnitude of ONNX
Runtime's output.  Where it differs by more, both are held against the same model in double precision (truth.py): it
passes if it is at most 1e-4 off from that, or at most twice as far as ONNX Runtime with or without its graph
optimisations.  Where ONNX Runtime itself is far from that (by 1e-2), and for models that round to integers between their
layers (QUANTISED), a last bit decides about the output: there each node is run by itself on what it got in ONNX Runtime,
and must give what it gave there, integers to one step (cut.py).  Models with a state (model_inputs.STREAMS) run over 100
chunks of a sound, each program with its own state.  Each size and input counts as one test; the last line is
"N passed, N failed".

The table's columns: nodes, kernels and host operators as `tilewright show` counts them; seconds to compile with
nothing cached and milliseconds a run (median) from `tilewright bench --json` at the first size; "ratio", how many times
as long ONNX Runtime takes, the least of runs in turn on one thread; wall seconds of a whole `tilewright run` with a full cache; peak resident
memory in MB, summed over the process tree, of the first run (it compiles) and of a later one; the worst error of all
sizes and inputs; and "spread", how far ONNX Runtime differs from itself without its graph optimisations.  Lines that begin with
NOTE say what was found in double precision or node by node.

--markdown FILE writes the results into the table of docs/MODELS.md, or another such file, in place of older ones.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import numpy as np
import onnx
import onnxruntime

import cut
import library
import model_inputs
import models
import truth
from model_inputs import INPUTS, SIZES, make_input  # noqa: F401: make_input is for bench/

LIMIT = 1e-4
QUANTISED = ("ddddocr_old", "smart_turn")
# Sizes that are fixed at compile time, because a rank depends on them.
FIX = {"aecmos": {"batch_size": 1}, "plcmos": {"batch_size": 1}}

COLUMNS = ("model", "nodes", "kernels", "host", "compile s", "ms", "ratio", "warm s", "MB compile", "MB run", "error",
           "spread")


def difference(got, want, limit=LIMIT):
    """(relative error, or None; what is wrong, or None)"""
    if got.shape != want.shape or got.dtype != want.dtype:
        return None, "is %s %s, not %s %s" % (got.dtype, list(got.shape), want.dtype, list(want.shape))
    if not np.issubdtype(want.dtype, np.floating):
        wrong = int((got != want).sum())
        return float(wrong > 0), "%d elements differ" % wrong if wrong else None
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return None, "has NaN in other places"
    infinite = np.isinf(want)
    if not np.array_equal(np.isinf(got), infinite) or not np.array_equal(got[infinite], want[infinite]):
        return None, "has infinities in other places"
    finite = np.isfinite(want)
    scale = np.abs(want[finite]).max(initial=0.0)
    error = np.abs(got - want)[finite].max(initial=0.0)
    error = float(error / scale) if scale > 0 else float(error)
    return error, None if error <= limit else "is off by %.1e of the largest magnitude" % error


def file_name(output):
    return re.sub(r"[^A-Za-z0-9._-]", "_", output) + ".npy"


def resident_megabytes(session):
    """Resident memory of all processes of a session."""
    pages = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/stat" % entry) as f:
                    fields = f.read().rpartition(")")[2].split()
            except OSError:  # ended meanwhile
                continue
            if int(fields[3]) == session:
                pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Failure(Exception):
    pass


class Tilewright:
    def __init__(self, program, threads, timeout):
        self.program, self.timeout = program, timeout
        self.threads = ["--threads", str(threads)] if threads else []

    def call(self, command, *words):
        """Standard output, wall seconds, peak MB of the process tree."""
        start = time.monotonic()
        process = subprocess.Popen([self.program, command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        peak, done = 0.0, threading.Event()

        def watch():
            nonlocal peak
            while not done.wait(0.01):
                peak = max(peak, resident_megabytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            output, errors = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            raise Failure("%s took more than %d s" % (command, self.timeout))
        finally:
            done.set()
            watcher.join()
        if process.returncode:
            tail = errors.strip().splitlines()
            raise Failure("%s ended with %d%s" % (command, process.returncode, ": " + tail[-1][:300] if tail else ""))
        return output, time.monotonic() - start, peak

    def run(self, model, inputs, out):
        return self.call("run", model, *inputs, "-o", out, *self.threads)

    def bench(self, model, inputs, runs):
        output, _, _ = self.call("bench", model, *inputs, *self.threads, "--runs", str(runs), "--json")
        return json.loads(output.strip().splitlines()[-1])

    def show(self, model):
        """{name: number} of the counts that `show` prints."""
        text = self.call("show", model)[0]
        found = {}
        for name in ("nodes", "kernels", "host operators"):
            match = re.search(r"^\s*%s:\s*(\d+)" % name, text, re.MULTILINE)
            found[name] = match.group(1) if match else "?"
        return found


class Test:
    """One model: its row of the table, its failures, and notes."""

    def __init__(self, program, name, path, args):
        self.program, self.name, self.path, self.args = program, name, path, args
        self.passed, self.failed, self.failures, self.notes, self.worst, self.spread = 0, 0, [], [], 0.0, 0.0
        self.fix = FIX.get(name, {})
        self.options = [word for symbol, value in self.fix.items() for word in ("--fix", "%s=%d" % (symbol, value))]
        self.row = dict.fromkeys(COLUMNS, "-")
        self.row["model"] = name

    def reference(self, level, threads=0):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])

    def go(self):
        levels = onnxruntime.GraphOptimizationLevel
        self.session, self.plain = self.reference(levels.ORT_ENABLE_ALL), self.reference(levels.ORT_DISABLE_ALL)
        self.ports = [i.name for i in self.session.get_inputs()]
        self.outputs = [o.name for o in onnx.load(self.path, load_external_data=False).graph.output]
        stream = model_inputs.STREAMS.get(self.name)
        sizes = stream.sizes if stream else SIZES[self.name]
        with tempfile.TemporaryDirectory(prefix="tilewright-models-") as place:
            os.environ["TILEWRIGHT_CACHE"] = os.path.join(place, "cache")
            os.mkdir(os.environ["TILEWRIGHT_CACHE"])
            for i, size in enumerate(sizes[:1] if self.args.quick else sizes):
                for k, kind in enumerate(INPUTS[:1] if self.args.quick else INPUTS):
                    label = "%s %s %s" % (self.name, "x".join(map(str, size)), kind)
                    if stream:
                        chunks = stream.chunks(kind, size, 100 * i + k)
                        feeds = {**chunks[0], **stream.first_state(size)}
                    else:
                        feeds = model_inputs.make_inputs(self.name, kind, size, 100 * i + k, self.ports)
                    try:
                        if not i and not k:
                            self.measure(self.save(feeds, place), feeds, place)
                        if stream:
                            good = self.compare_stream(label, stream, chunks, size)
                        else:
                            good = self.compare(label, feeds, self.save(feeds, place), os.path.join(place, "out"))
                    except (Failure, library.Error) as failure:
                        self.failures.append("%s: %s" % (label, failure))
                        good = False
                    self.passed += good
                    self.failed += not good
        self.row["error"] = "%.1e" % self.worst if self.passed or self.worst else "-"
        self.row["spread"] = "%.1e" % self.spread

    def save(self, feeds, place):
        """Options of the command line that name a file for each input."""
        words = []
        for k, (name, value) in enumerate(feeds.items()):
            file = os.path.join(place, "x%d.npy" % k)
            np.save(file, value)
            words += ["-i", "%s=%s" % (name, file)]
        return words + self.options

    def measure(self, inputs, feeds, place):
        """Compile with nothing cached, then time; fills the row."""
        out = os.path.join(place, "first")
        _, _, megabytes = self.program.run(self.path, inputs, out)
        self.row["MB compile"] = "%.0f" % megabytes
        _, seconds, megabytes = self.program.run(self.path, inputs, out)
        self.row["warm s"], self.row["MB run"] = "%.2f" % seconds, "%.0f" % megabytes
        counts = self.program.show(self.path)
        self.row.update(nodes=counts["nodes"], kernels=counts["kernels"], host=counts["host operators"])
        filled = os.environ["TILEWRIGHT_CACHE"]
        with tempfile.TemporaryDirectory(dir=place) as empty:
            os.environ["TILEWRIGHT_CACHE"] = empty
            try:
                report = self.program.bench(self.path, inputs, self.args.runs)
            finally:
                os.environ["TILEWRIGHT_CACHE"] = filled
        self.row["compile s"] = "%.1f" % (report["compile_ms"] / 1e3)
        self.row["ms"] = "%.2f" % report["median_ms"]
        self.row["ratio"] = "%.2f" % self.ratio(feeds)

    def ratio(self, feeds):
        """ONNX Runtime's time by Tilewright's: the least of runs in turn, one thread each, so that other work on the
        machine disturbs little."""
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        theirs, ours = self.reference(level, 1), library.Model(self.path, self.args.library, 1, self.fix)
        least = [float("inf"), float("inf")]
        try:
            for _ in range(self.args.runs + 2):
                for k, run in enumerate((lambda: theirs.run(self.outputs, feeds), lambda: ours.run(feeds))):
                    start = time.monotonic()
                    run()
                    least[k] = min(least[k], time.monotonic() - start)
        finally:
            ours.close()
        return least[0] / least[1]

    def judge(self, label, feeds, got):
        """Whether all outputs {name: array} are right."""
        expected = dict(zip(self.outputs, self.session.run(self.outputs, feeds)))
        plain = dict(zip(self.outputs, self.plain.run(self.outputs, feeds)))
        good, exact, unsure = True, None, False
        for name, want in expected.items():
            spread, apart = difference(plain[name], want)
            self.spread = max(self.spread, float("inf") if spread is None else spread)
            error, wrong = difference(got[name], want)
            self.worst = max(self.worst, float("inf") if error is None else error)
            if not wrong:
                continue
            if error is None or not np.issubdtype(want.dtype, np.floating):
                found = wrong + (", which differs from itself without optimisations" if apart else "")
            elif self.name in QUANTISED:
                found = None
                self.notes.append("%s: output %s %s; ONNX Runtime without optimisations is off by %.1e"
                                  % (label, name, wrong, spread))
            else:
                exact = exact or truth.run(self.path, feeds, self.outputs)
                ours, theirs, others = (difference(value[name].astype(np.float64), exact[name])[0]
                                        for value in (got, expected, plain))
                self.notes.append("%s: output %s %s; off from double precision: %.1e, ONNX Runtime %.1e, "
                                  "without optimisations %.1e" % (label, name, wrong, ours, theirs, others))
                if max(theirs, others) < 1e-2:
                    found = None if ours <= max(LIMIT, 2 * max(theirs, others)) else wrong
                else:  # so large an input that ONNX Runtime itself is not near: last bits decide about the output
                    unsure, found = True, None
            if found:
                good = False
                self.failures.append("%s: output %s %s" % (label, name, found))
        return self.compare_nodes(label, feeds) and good if unsure else good

    def compare(self, label, feeds, inputs, out):
        for name in self.outputs:  # so that no file of an earlier run is taken for this one's
            path = os.path.join(out, file_name(name))
            if os.path.exists(path):
                os.unlink(path)
        self.program.run(self.path, inputs, out)
        got = {}
        for name in self.outputs:
            path = os.path.join(out, file_name(name))
            if not os.path.exists(path):
                raise Failure("no output file %s" % file_name(name))
            got[name] = np.load(path)
        good = self.judge(label, feeds, got)
        return self.compare_nodes(label, feeds) and good if self.name in QUANTISED else good

    def compare_nodes(self, label, feeds):
        """Each node by itself."""
        text, wrong = cut.compare(self.path, feeds, self.args.library)
        self.notes.append("%s: %s" % (label, text))
        for name, what in wrong[:3]:
            self.failures.append("%s: node with output %s, on ONNX Runtime's inputs: %s" % (label, name, what))
        return not wrong

    def compare_stream(self, label, stream, chunks, size):
        """Both programs over all chunks, each with its own state; what they say about all of them is compared."""
        model = library.Model(self.path, self.args.library, self.args.threads or 0)

        def walk(run):
            state, said = stream.first_state(size), {name: [] for name in self.outputs}
            for chunk in chunks:
                found = run({**chunk, **state})
                for name in self.outputs:
                    said[name].append(found[name])
                state = {name: found[output] for name, output in stream.state.items()}
            return {name: np.stack(values) for name, values in said.items()}

        try:
            got = walk(model.run)
        finally:
            model.close()
        want, plain = (walk(lambda feeds, s=s: dict(zip(self.outputs, s.run(self.outputs, feeds))))
                       for s in (self.session, self.plain))
        good = True
        for name in self.outputs:
            error, wrong = difference(got[name], want[name])
            self.worst = max(self.worst, float("inf") if error is None else error)
            self.spread = max(self.spread, difference(plain[name], want[name])[0] or 0.0)
            if wrong:
                good = False
                self.failures.append("%s: output %s over %d chunks %s" % (label, name, len(chunks), wrong))
        return good


HEAD = ("| model | from | licence | nodes | kernels | operators | tests | worst error | spread | ratio |",
        "|---|---|---|---:|---:|---|---:|---:|---:|---:|")
# What nearly every model has says little about one.
COMMON = set("Add Cast Clip Concat Constant ConstantOfShape Conv Div Equal Expand Flatten Gather Gemm Identity MatMul Mul Neg "
             "Not Pow ReduceMean Relu Reshape Shape Sigmoid Slice Softmax Split Sqrt Squeeze Sub Transpose Unsqueeze "
             "Where".split())


def operators(path, most=6):
    """Names of the less common operators, the most frequent first."""
    counts = Counter()

    def walk(graph):
        for node in graph.node:
            counts[node.op_type] += node.op_type not in COMMON
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    walk(attribute.g)

    walk(onnx.load(path, load_external_data=False).graph)
    return ", ".join(name for name, count in counts.most_common(most) if count) or "-"


def write_markdown(path, tests):
    """Rows of the table for these tests, in place of older ones for the same models; the order is that of models.py."""
    with open(path) as f:
        lines = f.read().split("\n")
    start = lines.index(HEAD[0])
    end = start + 2
    while end < len(lines) and lines[end].startswith("| "):
        end += 1
    rows = {line.split("|")[1].strip(): line for line in lines[start + 2:end]}
    for test in tests:
        origin, licence = models.origin(test.name)
        cells = (test.name, origin, licence, test.row["nodes"], test.row["kernels"], operators(test.path),
                 "%d of %d" % (test.passed, test.passed + test.failed), *(test.row[c] for c in ("error", "spread", "ratio")))
        rows[test.name] = "| " + " | ".join(cells) + " |"
    with open(path, "w") as f:
        f.write("\n".join(lines[:start] + list(HEAD) + [rows[n] for n in models.NAMES if n in rows] + lines[end:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tilewright")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--quick", action="store_true", help="only the first size and the first input")
    parser.add_argument("--runs", type=int, default=20, help="timed runs")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--timeout", type=int, default=600, metavar="S", help="seconds that one command may take")
    parser.add_argument("--markdown", metavar="FILE", help="write the results into this file's table")
    args = parser.parse_intermixed_args()
    args.library = os.path.dirname(os.path.abspath(args.tilewright))
    program = Tilewright(os.path.abspath(args.tilewright), args.threads, args.timeout)
    paths = models.ensure(args.models)
    width = max(len(n) for n in paths)
    line = "%-{}s  %6s %8s %5s %10s %8s %6s %7s %11s %7s %9s %9s".format(width)
    print(line % COLUMNS, flush=True)
    tests = []
    for name, path in paths.items():
        tests.append(Test(program, name, path, args))
        tests[-1].go()
        print(line % tuple(tests[-1].row[c] for c in COLUMNS), flush=True)
    for test in tests:
        for word, texts in (("NOTE", test.notes), ("FAIL", test.failures)):
            for text in texts:
                print(word, text)
    if args.markdown:
        write_markdown(args.markdown, tests)
    passed, failed = sum(t.passed for t in tests), sum(t.failed for t in tests)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
