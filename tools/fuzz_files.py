#!/usr/bin/env python3
"""Damage files that the command line reads beside models, and see that each is refused with a word or read.

usage: fuzz_files.py TILEWRIGHT [--count N] [--seed S] [--keep DIR]

Kinds of files, in turn: .npy and .pb inputs, a folder of tensors to compare with, a test folder's meta.json and tensors, and entries
of the cache (images, and what is known of files), which must not matter at all: that run has to succeed. A damaged file has one to four
faults: bytes changed, removed, doubled, numbers in its text changed. Exit codes are 0 or 1, any finding of the sanitizers is another.
Case K of a seed is always the same; --keep writes the files that failed. The last line is "N passed, N failed".
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import helper, numpy_helper

from test_soak import products

SECONDS = 60
WORDS = (b"", b"0", b"-1", b"1e999", b"9223372036854775807", b"18446744073709551616", b"\xff" * 9 + b"\x01", b"\0\0\0\0", b"(", b")", b"'",
         b"{", b"}", b"[" * 3000, b'"\\u0000"', b"nan", b"<f8", b">i2", b"|O", b"True")


def damaged(rng, data):
    """Bytes with one to four faults."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1) if rng.random() < 0.3 else rng.randrange(min(len(data), 140) + 1)  # most in the header
        numbers = [m.span() for m in re.finditer(rb"\d+", bytes(data[:400]))]
        choice = rng.randrange(6)
        if choice == 0 and numbers:
            begin, end = rng.choice(numbers)
            data[begin:end] = rng.choice(WORDS[1:6])
        elif choice == 1:
            data[at:at + 1] = bytes([rng.randrange(256)])
        elif choice == 2:
            del data[at:at + rng.choice([1, 2, 8, 100, 1 << 30])]
        elif choice == 3:
            data[at:at] = data[at:at + rng.choice([1, 4, 64])]
        elif choice == 4:
            data[at:at + rng.choice([0, 1, 3])] = rng.choice(WORDS)
        elif at < len(data):
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


class Place:
    """A model with its inputs, a folder of its tensors, a test folder and a cache, all whole."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        x = numpy.random.RandomState(3).standard_normal((2, 3, 16)).astype(numpy.float32)
        data = os.path.join(folder, "case", "test_data_set_0")
        os.makedirs(data)
        self.model = os.path.join(folder, "case", "model.onnx")
        onnx.save(helper.make_model(products(), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.model)
        os.utime(self.model, (1e9, 1e9))
        numpy.save(os.path.join(folder, "x.npy"), x)
        numpy.save(os.path.join(folder, "f.npy"), numpy.asfortranarray(x))
        self.write("x.pb", numpy_helper.from_array(x, "x").SerializeToString())
        self.write("case/meta.json", b'{"rtol": 0.001, "atol": 1e-7, "more": [1, {"deep": null}]}')
        shutil.copy(self.path("x.pb"), os.path.join(data, "input_0.pb"))
        for _ in range(2):  # the second has the cache know the file, too
            done = self.run("run", self.model, "-i", "x=" + self.path("x.npy"), "-o", folder, "--dump-tensors", self.path("dump"))
            if done.returncode != 0:
                sys.exit(done.stderr.decode())
        y = numpy.load(os.path.join(folder, "y.npy"))
        self.write("case/test_data_set_0/output_0.pb", numpy_helper.from_array(y, "y").SerializeToString())

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)

    def run(self, *words):
        return subprocess.run([self.program, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS,
                              env={**os.environ, "TILEWRIGHT_CACHE": self.path("cache")})

    def targets(self):
        """(file that is damaged, words of the command line, whether it must succeed)"""
        x = "x=" + self.path("x.npy")
        for name in ("x.npy", "f.npy", "x.pb"):
            yield name, ["run", self.model, "-i", "x=" + self.path(name)], False
        for name in sorted(os.listdir(self.path("dump"))):
            yield "dump/" + name, ["run", self.model, "-i", x, "--compare", self.path("dump")], False
        for name in ("meta.json", "test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"):
            yield "case/" + name, ["test", self.path("case")], False
        for name in sorted(os.listdir(self.path("cache"))):
            yield "cache/" + name, ["run", self.model, "-i", x], True


def verdict(place, words, must):
    """What is wrong, or None."""
    try:
        done = place.run(*words)
    except subprocess.TimeoutExpired:
        return "took more than %d s" % SECONDS
    said = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode not in ((0,) if must else (0, 1)) or "Sanitizer" in said or "runtime error" in said:
        return "exit code %d: %s" % (done.returncode, said.strip()[-2000:])
    return "refused without a word" if done.returncode == 1 and not said.strip() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilewright")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", metavar="DIR")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-") as folder:
        place = Place(os.path.abspath(options.tilewright), folder)
        targets = list(place.targets())
        for k in range(options.count):
            rng = random.Random("%d %d" % (options.seed, k))
            name, words, must = targets[k % len(targets)]
            with open(place.path(name), "rb") as f:
                whole = f.read()
            place.write(name, damaged(rng, whole))
            wrong = verdict(place, words, must)
            if wrong:
                failed += 1
                print("FAIL case %d of seed %d (%s): %s" % (k, options.seed, name, wrong), flush=True)
                if options.keep:
                    os.makedirs(options.keep, exist_ok=True)
                    shutil.copy(place.path(name), os.path.join(options.keep, "%d-%d-%s" % (options.seed, k, os.path.basename(name))))
            place.write(name, whole)
    print("%d passed, %d failed" % (options.count - failed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
