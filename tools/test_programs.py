#!/usr/bin/env python3
"""Tests of examples/programs: each program of each file against what numpy computes, in double precision, from the same
inputs.

usage: test_programs.py [NAME]...     the command line is $TILEWRIGHT_BUILD/tilewright; NAMEs choose examples

Programs for CPUs run in the interpreter and compiled, with equal bits, and for other instruction sets. Programs for
GPUs run in the interpreter and on a device of OpenCL, with equal bits; their CUDA must compile for sm_80 and sm_90
without spills. What the machine lacks (a device, nvcc, an instruction set) is said and left out. Every comparison
counts as one test; the last line is "N passed, N failed".
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOL = os.path.join(os.environ.get("TILEWRIGHT_BUILD", os.path.join(ROOT, "build")), "tilewright")
FOLDER = os.path.join(ROOT, "examples", "programs")
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def randoms(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def pair(rng, n):
    return {"A": randoms(rng, n), "B": randoms(rng, n)}


def product(rng, m, n, k):
    return {"A": randoms(rng, m, k), "B": randoms(rng, k, n)}


def linear(rng, m, n, k):
    return {**product(rng, m, n, k), "bias": randoms(rng, n)}


def image(rng, c, h, w, o):
    return {"X": randoms(rng, c, h, w), "F": randoms(rng, o, c, 3, 3)}


def softmax(X):
    e = np.exp(X - X.max(axis=1, keepdims=True))
    return {"Y": e / e.sum(axis=1, keepdims=True)}


def convolution(X, F):
    c, h, w = X.shape
    padded = np.pad(X, ((0, 0), (1, 1), (1, 1)))
    Y = np.zeros((F.shape[0], h, w))
    for dy in range(3):
        for dx in range(3):
            Y += np.einsum("oc,cyx->oyx", F[:, :, dy, dx], padded[:, dy:dy + h, dx:dx + w])
    return {"Y": Y}


def added(A, B):
    return {"C": A + B}


def multiplied(A, B):
    return {"C": A @ B}


def linear_relu(A, B, bias):
    return {"C": np.maximum(A @ B + bias, 0)}


PRODUCTS = [(1, 1, 1), (5, 33, 7), (37, 50, 19), (16, 64, 0)]
# The edges of blocks and tiles: one tile, a part of one, several blocks.
LINEARS = [(1, 1, 1), (8, 48, 5), (9, 49, 1), (100, 130, 33), (4, 400, 17)]
IMAGES = [(1, 1, 1, 1), (3, 5, 7, 4), (5, 12, 17, 9), (2, 21, 20, 13)]
ROWS = [(1, 1), (3, 5), (5, 32), (9, 100), (2, 257)]
CASES = {
    "vector_add": (pair, [(1,), (1023,), (2500,)], added),
    "vector_add_gpu": (pair, [(1,), (1023,), (2500,)], added),
    "matmul_naive": (product, PRODUCTS, multiplied),
    "matmul_naive_gpu": (product, PRODUCTS, multiplied),
    "matmul_cpu": (linear, LINEARS + [(6, 7, 0), (9, 49, 800)], linear_relu),
    "matmul_gpu": (linear, [(1, 1, 1), (130, 140, 37), (20, 128, 16), (3, 4, 0)], linear_relu),
    "matmul_async_gpu": (linear, [(1, 1, 1), (130, 140, 37), (20, 128, 16), (3, 4, 0)], linear_relu),
    "cooperative_load": (lambda rng, m, k: {"A": randoms(rng, m, k)}, [(64, 8), (1, 1), (100, 21)],
                         lambda A: {"T": A.T}),
    "softmax": (lambda rng, r, c: {"X": randoms(rng, r, c)}, ROWS, softmax),
    "softmax_gpu": (lambda rng, r, c: {"X": randoms(rng, r, c)}, ROWS, softmax),
    "transpose_gpu": (lambda rng, m, n: {"A": randoms(rng, m, n)}, [(1, 1), (32, 32), (70, 45), (33, 100)],
                      lambda A: {"T": A.T}),
    "matmul_f16_gpu": (lambda rng, m, n, k: {name: x.astype(np.float16) for name, x in product(rng, m, n, k).items()},
                       [(1, 1, 1), (16, 8, 16), (70, 65, 37), (3, 4, 0)], multiplied),
    "sum_gpu": (lambda rng, n: {"X": randoms(rng, n)}, [(1,), (1024,), (5000,), (0,)], lambda X: {"S": X.sum()}),
    "row_sums_gpu": (lambda rng, r, c: {"X": randoms(rng, r, c)}, ROWS + [(3, 0)], lambda X: {"S": X.sum(axis=1)}),
    "conv_plain": (image, IMAGES, convolution),
    "conv_matmul": (image, IMAGES, convolution),
}


def tool(*arguments):
    return subprocess.run([TOOL, "program", *arguments], capture_output=True, text=True, timeout=300)


class Counts:
    passed = failed = 0

    def one(self, good, what):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL {what}", flush=True)


def run(path, place, engine, expected):
    """The outputs of a run, or what it said."""
    options = [option for name in os.listdir(place) if name.endswith(".npy")
               for option in ("-i", f"{name[:-4]}={os.path.join(place, name)}")]
    out = os.path.join(place, "out")
    shutil.rmtree(out, ignore_errors=True)
    done = tool(path, *options, "-o", out, "--run", *engine)
    if done.returncode != 0:
        return None, (done.stderr or done.stdout).strip()[:600]
    return {name: np.load(os.path.join(out, name + ".npy")) for name in expected}, None


def near(got, want, inputs):
    """Within what f32 sums of so many terms may lose."""
    if got.shape != want.shape:
        return False
    scale = max([1.0, *(float(np.abs(x).max(initial=0)) for x in [want, *inputs.values()])])
    return bool(np.all(np.abs(got - want) <= 1e-5 * scale))


def check_numbers(name, path, engines, counts):
    make, sizes, reference = CASES[name]
    for number, size in enumerate(sizes):
        inputs = make(np.random.default_rng(number), *size)
        expected = reference(**{k: v.astype(np.float64) for k, v in inputs.items()})
        with tempfile.TemporaryDirectory() as place:
            for k, v in inputs.items():
                np.save(os.path.join(place, k + ".npy"), v)
            first = None
            for engine in engines:
                what = f"{name} {size}, {' '.join(engine)}"
                got, why = run(path, place, engine, expected)
                if got is None:
                    counts.one(False, f"{what}: {why}")
                    continue
                counts.one(all(near(got[k], expected[k], inputs) for k in expected), f"{what}: far from numpy")
                first = first or got
                if "--target" in engine:  # other lanes may group sums otherwise
                    continue
                counts.one(all(got[k].tobytes() == first[k].tobytes() for k in expected),
                           f"{what}: other bits than the interpreter's")


def check_cuda(name, path, counts):
    texts = {arch: tool(path, "--emit", "cuda", "--target", arch) for arch in ("sm_80", "sm_90")}
    for arch, done in texts.items():
        if done.returncode != 0:
            counts.one(False, f"{name}: CUDA for {arch}: {done.stderr.strip()[:600]}")
    good = {arch: done.stdout for arch, done in texts.items() if done.returncode == 0}
    for text in set(good.values()):
        archs = [arch for arch in good if good[arch] == text]
        with tempfile.TemporaryDirectory() as place:
            source = os.path.join(place, "k.cu")
            with open(source, "w") as f:
                f.write(text)
            codes = [f"-gencode=arch=compute_{arch[3:]},code={arch}" for arch in archs]
            command = [NVCC, *codes, "-fatbin", "-Xptxas", "-v", "-o", os.path.join(place, "k.bin"), source]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        spills = SPILLS.findall(done.stderr + done.stdout)
        for arch in archs:
            counts.one(done.returncode == 0 and len(spills) >= len(archs) and all(s == ("0", "0") for s in spills),
                       f"{name}: nvcc for {arch}: {(done.stderr + done.stdout)[-800:]}")


QUOTIENT = re.compile(r"[/%] (\d+)L?\b")


def check_quotients(name, path, for_gpu, counts):
    """What is divided by a power of two is shifted or masked: in the text after all passes, and in every language."""
    texts = {"shift": tool(path, "--stage", "shift")}
    for language in ("cuda", "opencl") if for_gpu else ("c",):
        texts[language] = tool(path, "--emit", language)
    for what, done in texts.items():
        kernels = done.stdout[max(0, done.stdout.find("/* program ")):]  # behind the helpers of a language
        body = re.sub(r"#[^\n]*|/\*[\s\S]*?\*/", "", kernels)
        left = [m.group() for m in QUOTIENT.finditer(body) if int(m.group(1)) & (int(m.group(1)) - 1) == 0]
        counts.one(done.returncode == 0 and body and not left, f"{name}, {what}: {left[:3]} {done.stderr.strip()[:300]}")


def check_bench(counts):
    """bench/program_matmul.py runs and finds the example right; what it measures in so few runs says nothing."""
    command = [sys.executable, os.path.join(ROOT, "bench", "program_matmul.py"), "--build", os.path.dirname(TOOL),
               "--size", "50,60,70", "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    counts.one("in turn with the multiply-adds" in done.stdout, f"{' '.join(command)}: {done.stdout}{done.stderr}")
    done = tool(os.path.join(FOLDER, "matmul_cpu.tw"), "--emit", "c")
    counts.one("__builtin_prefetch" in done.stdout, f"matmul_cpu as C prefetches nothing: {done.stderr}")


def cpu_engines():
    """The interpreter, then compiled for the machine's best, for less of it, and as loops over lanes."""
    with open("/proc/cpuinfo") as f:
        flags = set(f.read().split())
    engines = [["interp"], ["compiled"], ["compiled", "--target", "generic"], ["compiled", "--target", "scalar"]]
    return engines + ([["compiled", "--target", "avx2"]] if {"avx2", "fma", "avx512f"} <= flags else [])


def has_device():
    done = tool(os.path.join(FOLDER, "vector_add_gpu.tw"), "-d", "N=1", "--random", "1", "--run", "opencl")
    if done.returncode != 0:
        print(f"OpenCL is left out: {done.stderr.strip()[:300]}")
    return done.returncode == 0


def main():
    chosen = sys.argv[1:] or sorted(CASES)
    counts = Counts()
    files = {name[:-3] for name in os.listdir(FOLDER) if name.endswith(".tw")}
    counts.one(files == set(CASES), f"files and tests differ: {sorted(files ^ set(CASES))}")
    gpu = [["interp"], ["opencl"]] if has_device() else [["interp"]]
    nvcc = NVCC
    if not nvcc:
        print("CUDA is left out: there is no nvcc")
    cpu = cpu_engines()
    for name in chosen:
        path = os.path.join(FOLDER, name + ".tw")
        with open(path) as f:
            for_gpu = "launch block(" in f.read()
        check_numbers(name, path, gpu if for_gpu else cpu, counts)
        check_quotients(name, path, for_gpu, counts)
        if for_gpu and nvcc:
            check_cuda(name, path, counts)
    if "matmul_cpu" in chosen:
        check_bench(counts)
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
