#!/usr/bin/env python3
"""Largest resident memory of Tilewright beside ONNX Runtime's: from the ONNX file to the first outputs.

usage: memory.py [--tilewright PATH] [--threads 2] [-d SYMBOL=N]... MODEL ...

MODEL is as in versus.py.  Every contender is a fresh process that runs once on the same inputs.  Columns, in MB:

  ort      ONNX Runtime in Python: session and run
  less py  the same less what Python with numpy held before onnxruntime was imported
  cold     Tilewright that compiles and runs in one process, without a cache
  with cc  the same and its C compilers, at the moment when they had most together (shared pages counted once)
  warm     Tilewright that takes the model from its cache

A peak is the system's high-water mark of the process (VmHWM), read until it ends; Linux only.  Last comes cold and
warm as parts of `less py`: below 1 Tilewright needs less.
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

HERE = os.path.dirname(os.path.abspath(__file__))
INTERVAL = 0.004  # s between looks


def field(path, name):
    """A figure of a file of /proc in MB; 0 where the process has ended."""
    try:
        with open(path) as f:
            found = re.search(r"^%s:\s+(\d+) kB" % name, f.read(), re.M)
        return int(found[1]) / 1024 if found else 0.0
    except OSError:
        return 0.0


def descendants(pid):
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
        lists = [open("/proc/%d/task/%s/children" % (pid, t)).read().split() for t in tasks]
    except OSError:
        return []
    return [d for words in lists for w in words for d in (int(w), *descendants(int(w)))]


def watch(words, tree):
    """Output, peak of the process, and with tree the most that it and those it started held together."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.PIPE, text=True)
        errors = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        peak = most = 0.0
        while process.poll() is None:
            peak = max(peak, field("/proc/%d/status" % process.pid, "VmHWM"))
            children = descendants(process.pid) if tree else []
            if children:
                most = max(most, sum(field("/proc/%d/smaps_rollup" % p, "Pss") for p in (process.pid, *children)))
            time.sleep(INTERVAL)
        reader.join()
        if process.returncode:
            sys.exit("failed: %s\n%s" % (" ".join(words), errors[0][-2000:]))
        out.seek(0)
        return out.read(), peak, max(peak, most)


def ort(model, folder, threads):
    """One contender, in a process of its own: prints what was held before onnxruntime came, and the peak."""
    import numpy as np
    before = field("/proc/self/status", "VmRSS")
    with open(os.path.join(folder, "names.json")) as f:
        names = json.load(f)["inputs"]
    feeds = {name: np.load(os.path.join(folder, "in", "%d.npy" % k)) for k, name in enumerate(names)}
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    print(json.dumps({"before": before, "peak": field("/proc/self/status", "VmHWM")}))


def measure(contest, args):
    mine = [args.tilewright, "bench", contest.path, *contest.input_options(), "--threads", args.threads, "--runs", "1",
            "--json"]
    text = watch([sys.executable, __file__, "--ort", contest.path, contest.folder, args.threads], False)[0]
    peer = json.loads(text.strip().splitlines()[-1])
    _, cold, together = watch([*mine, "--no-cache"], True)
    watch(mine, False)  # fills the cache
    warm = watch(mine, False)[1]
    return peer["peak"], peer["peak"] - peer["before"], cold, together, warm


def main():
    import versus
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--tilewright", default="tilewright", metavar="PATH")
    parser.add_argument("--threads", default="2")
    parser.add_argument("-d", "--dim", action="append", default=[], metavar="SYMBOL=N",
                        help="size of a symbolic dimension")
    args = parser.parse_intermixed_args()
    args.shapes, args.options = {}, []
    args.sizes = {symbol: int(n) for symbol, n in (d.split("=") for d in args.dim)}
    print("%-24s %7s %7s %7s %7s %7s   %5s %5s" % ("MB", "ort", "less py", "cold", "with cc", "warm", "cold", "warm"))
    for name, path in versus.find_models(args.models):
        with tempfile.TemporaryDirectory() as folder:
            row = measure(versus.Contest(args, name, path, args.threads, folder), args)
        ratios = row[2] / row[1], row[4] / row[1]
        print("%-24s %7.1f %7.1f %7.1f %7.1f %7.1f   %5.2f %5.2f" % (name, *row, *ratios), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ort"]:
        ort(*sys.argv[2:5])
    else:
        main()
