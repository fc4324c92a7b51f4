#!/usr/bin/env python3
"""Time Tilewright against ONNX Runtime and OpenVINO, taking turns in one run; print ratios.

usage: versus.py [--tilewright PATH] [--threads 1,2] [--rounds 5] [--runs 20] [--peers ort,ov] [-d SYMBOL=N]...
                 [--shape INPUT=NxN..]... [--exact] MODEL ...

MODEL is an ONNX file, or a name or group of tools/models.py.  Each round runs every contender once, each in a fresh
process (A B C, A B C, ...) that times RUNS inferences after a warm-up, so that drift of the machine's speed hits all
alike.  A ratio is the peer's time divided by Tilewright's, taken round by round; printed are the median over the
rounds and, in brackets, the least and the largest: above 1 Tilewright is faster.  Then each peer's geometric mean
over the models.

--shape times a copy of the model whose input has that shape in place of its own (other pictures, other batches);
--exact forbids Tilewright what rounds otherwise than the definition (Winograd).

Two checks keep the figures honest: outputs are compared with ONNX Runtime's (the largest error relative to its
largest magnitude is printed; another shape or type ends the run), and Tilewright's report is audited: the wall time
of many runs minus that of few must agree with what it says a run takes.

Needs numpy, onnx and onnxruntime (tools/venv.sh); openvino only for the peer ov: pip install openvino==2026.4.1
"""
import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))
import models
import run_models

MODULES = {"ort": "onnxruntime", "ov": "openvino"}
# For models whose sizes have no names that -d could give, or none that tell anything.
USUAL_SIZES = {"ppocr_det": (1, 3, 448, 640), "ppocr_cls": (1, 3, 48, 192), "ppocr_rec": (1, 3, 48, 320)}


def command(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit("failed: %s\n%s" % (" ".join(words), done.stderr[-2000:]))
    return done.stdout


def report(words):
    return json.loads(command(words).strip().splitlines()[-1])


def resized(path, shapes, folder):
    """A copy of a model in which the inputs named in {name: sizes} have these sizes; what followed from the old ones
    is left to be inferred."""
    model = onnx.load(path)
    del model.graph.value_info[:]
    unknown = set(shapes) - {v.name for v in model.graph.input}
    if unknown:
        sys.exit("%s has no input %s" % (path, ", ".join(unknown)))
    for value in model.graph.input:
        if value.name in shapes:
            dims = value.type.tensor_type.shape.dim
            del dims[:]
            dims.extend(onnx.TensorShapeProto.Dimension(dim_value=n) for n in shapes[value.name])
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    copy = os.path.join(folder, "resized.onnx")
    onnx.save(model, copy, save_as_external_data=False)
    return copy


class Contest:
    """One model at one number of threads, with its inputs in a folder."""

    def __init__(self, args, name, path, threads, folder):
        self.args, self.name, self.threads, self.folder = args, name, threads, folder
        self.path = resized(path, args.shapes, folder) if args.shapes else path
        graph = onnx.load(self.path, load_external_data=False).graph
        constants = {t.name for t in graph.initializer}
        values = [v for v in graph.input if v.name not in constants]
        self.inputs, self.outputs = [v.name for v in values], [v.name for v in graph.output]
        os.mkdir(os.path.join(folder, "in"))
        rng = np.random.default_rng(0)
        for k, value in enumerate(values):
            np.save(self.input_file(k), self.make_input(value, rng))
        with open(os.path.join(folder, "names.json"), "w") as f:
            json.dump({"inputs": self.inputs}, f)

    def input_file(self, k):
        return os.path.join(self.folder, "in", "%d.npy" % k)

    def make_input(self, value, rng):
        kind = value.type.tensor_type
        shape = USUAL_SIZES.get(self.name)
        if shape is None or any(d.dim_param in self.args.sizes for d in kind.shape.dim):
            shape = [d.dim_value if d.dim_value > 0 else self.args.sizes.get(d.dim_param, 1) for d in kind.shape.dim]
        if self.name in models.OCR:
            return run_models.make_input(self.name, "picture", tuple(shape), 0)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        data = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 1000, shape)
        return data.astype(dtype)

    def input_options(self):
        return [w for k, name in enumerate(self.inputs) for w in ("-i", "%s=%s" % (name, self.input_file(k)))]

    def mine(self, runs):
        return report([self.args.tilewright, "bench", self.path, *self.input_options(),
                       "--threads", self.threads, "--runs", str(runs), "--json", *self.args.options])

    def peer(self, engine, *options):
        return report([sys.executable, os.path.join(HERE, "peer.py"), engine, self.path, self.folder,
                       self.threads, str(self.args.runs), *options])

    def rounds(self):
        self.mine(1)  # compiles and fills the cache
        rows = []
        for k in range(self.args.rounds):
            row = {p: self.peer(p, *(["--keep"] if p == "ort" and not k else [])) for p in self.args.peers}
            row["tilewright"] = self.mine(self.args.runs)
            rows.append({who: figures["median_ms"] for who, figures in row.items()})
        return rows

    def audit(self, reported_ms):
        """What a run takes seen from outside, or None where that agrees with what is reported."""
        def wall(runs):
            start = time.perf_counter()
            self.mine(runs)
            return time.perf_counter() - start
        extra = max(20, int(1000 / reported_ms))
        best = min((wall(5 + extra) - wall(5)) / extra * 1e3 for _ in range(3))
        return best if best > 1.15 * reported_ms else None

    def error(self):
        out = os.path.join(self.folder, "out")
        command([self.args.tilewright, "run", self.path, *self.input_options(), "-o", out, *self.args.options])
        worst = 0.0
        for k, name in enumerate(self.outputs):
            got = np.load(os.path.join(out, run_models.file_name(name)))
            error, wrong = run_models.difference(got, np.load(os.path.join(self.folder, "ref", "%d.npy" % k)))
            if error is None:
                sys.exit("%s: output %s %s" % (self.name, name, wrong))
            worst = max(worst, error)
        return worst


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--tilewright", default="tilewright", metavar="PATH")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--peers", default="ort,ov")
    parser.add_argument("-d", "--dim", action="append", default=[], metavar="SYMBOL=N",
                        help="size of a symbolic dimension")
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=NxN..", help="another shape of an input")
    parser.add_argument("--exact", action="store_true", help="compile without what rounds otherwise")
    args = parser.parse_intermixed_args()
    args.shapes = {name: [int(n) for n in sizes.split("x")] for name, sizes in (s.split("=") for s in args.shape)}
    args.options = ["--exact"] if args.exact else []
    args.sizes = {symbol: int(n) for symbol, n in (d.split("=") for d in args.dim)}
    args.peers = [p for p in args.peers.split(",") if p]
    for p in args.peers:
        if p not in MODULES:
            parser.error("no such peer: %s" % p)
        if importlib.util.find_spec(MODULES[p]) is None:
            parser.error("peer %s needs the Python package %s" % (p, MODULES[p]))
    return args


def find_models(words):
    """[(name, path)] of files, and of names and groups of tools/models.py."""
    found = []
    for word in words:
        if os.path.exists(word):
            found.append((os.path.basename(word).removesuffix(".onnx"), word))
        else:
            found += models.ensure([word]).items()
    return found


def main():
    args = parse()
    found = find_models(args.models)
    for threads in args.threads.split(","):
        logs = {p: [] for p in args.peers}
        for name, path in found:
            with tempfile.TemporaryDirectory() as folder:
                contest = Contest(args, name, path, threads, folder)
                rows = contest.rounds()
                middle = {who: statistics.median(r[who] for r in rows) for who in rows[0]}
                words = ["%s %.2f ms" % pair for pair in middle.items()]
                for p in args.peers:
                    ratios = sorted(r[p] / r["tilewright"] for r in rows)
                    logs[p].append(math.log(statistics.median(ratios)))
                    words.append("x%s %.2f (%.2f-%.2f)" % (p, statistics.median(ratios), ratios[0], ratios[-1]))
                if "ort" in args.peers:
                    words.append("error %.1e" % contest.error())
                print("%-24s threads %s  %s" % (name, threads, "  ".join(words)), flush=True)
                reported = middle["tilewright"]
                outside = contest.audit(reported)
                if outside:
                    print("  audit: reports %.2f ms a run, but takes %.2f ms" % (reported, outside), flush=True)
        for p in args.peers:
            mean = math.exp(statistics.mean(logs[p]))
            print("geometric mean over %d models, threads %s, against %s: %.3f" % (len(found), threads, p, mean))


if __name__ == "__main__":
    main()
