#!/usr/bin/env python3
"""The compiler is killed at random moments, again and again: the next run works, gives the same, and clears away what was left.

usage: test_killed.py [--count N] [--seed S]     TILEWRIGHT_BUILD: the build folder, default build/; the last line is "N passed, N failed"

Each round kills `tilewright run` (kill -9) between its start and a little after its usual end, with a cache that is empty, or holds
what the rounds before left. In every fifth round, and after the last, a run to the end must give the outputs of the first; the cache
then holds nothing but whole entries and temporary files younger than those it removes, and TMPDIR no folder of a compilation.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import onnx
from onnx import helper

from test_soak import loop, products

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("TILEWRIGHT_BUILD", os.path.join(ROOT, "build"))


class Place:
    """A folder with two models, a cache and a folder for temporary files."""

    def __init__(self, folder):
        self.folder = folder
        self.cache, self.tmp = os.path.join(folder, "cache"), os.path.join(folder, "tmp")
        os.mkdir(self.tmp)
        self.models = []
        for make in (products, loop):
            path = os.path.join(folder, make.__name__ + ".onnx")
            onnx.save(helper.make_model(make(), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
            self.models.append(path)

    def start(self, model, out):
        sizes = ["-d", "n=9"] + (["-d", "m=5"] if "products" in model else [])
        command = [os.path.join(BUILD, "tilewright"), "run", model, "--random", "1", *sizes, "-o", os.path.join(self.folder, out)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**os.environ, "TILEWRIGHT_CACHE": self.cache, "TMPDIR": self.tmp})

    def outputs(self, model, out):
        """(bytes of all outputs by name, or None; what was printed)"""
        process = self.start(model, out)
        said = process.communicate(timeout=120)[0].decode(errors="replace")
        if process.returncode != 0:
            return None, said
        folder = os.path.join(self.folder, out)
        return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}, said

    def clear(self):
        for name in os.listdir(self.cache) if os.path.isdir(self.cache) else []:
            os.remove(os.path.join(self.cache, name))


def age(folder, prefix):
    """What a killed writer left, made old enough to be removed: temporary files, folders that were not locked yet."""
    for name in os.listdir(folder):
        if name.startswith(prefix):
            os.utime(os.path.join(folder, name), (time.time() - 7200,) * 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    wrong = []
    with tempfile.TemporaryDirectory(prefix="tilewright-killed-") as folder:
        place = Place(folder)
        begin = time.monotonic()
        want = {model: place.outputs(model, "want%d" % k)[0] for k, model in enumerate(place.models)}
        usual = (time.monotonic() - begin) / len(place.models)
        if None in want.values():
            wrong.append("the models do not run")
        for k in range(options.count):
            model = rng.choice(place.models)
            if rng.random() < 0.7:
                place.clear()
            process = place.start(model, "out")
            time.sleep(rng.random() * usual * 1.2)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            if k % 5 != 4 and k + 1 < options.count:
                continue
            if os.path.isdir(place.cache):
                age(place.cache, ".part-")
            for again in place.models:
                got, said = place.outputs(again, "again%d" % k)
                if got != want[again]:
                    wrong.append("round %d: %s: %s" % (k, again, said.strip()[-300:] if got is None else "other outputs"))
                for name in os.listdir(os.path.join(folder, "again%d" % k)) if got is not None else []:
                    os.remove(os.path.join(folder, "again%d" % k, name))
        for _ in range(5):  # C compilers outlive what started them: they may write into a folder that is being swept
            age(place.tmp, "tilewright-cc-")
            place.clear()
            place.outputs(place.models[0], "last")  # compiles: what was killed while compiling is swept up
            if not os.listdir(place.tmp):
                break
            time.sleep(1)
        if os.listdir(place.tmp):
            wrong.append("left in TMPDIR: %s" % os.listdir(place.tmp))
        parts = [name for name in os.listdir(place.cache) if name.startswith(".part-")]
        if parts:
            wrong.append("left in the cache: %s" % parts)
    for text in wrong:
        print("FAIL %s (--seed %d)" % (text, options.seed))
    print("%d passed, %d failed" % (max(options.count - len(wrong), 0), len(wrong)))
    sys.exit(len(wrong) > 0)


if __name__ == "__main__":
    main()
