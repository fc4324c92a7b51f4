#!/usr/bin/env python3
"""How much of the core's multiply-add peak examples/programs/matmul_cpu.tw reaches, packing included.

usage: program_matmul.py [--build DIR] [--size M,N,K] [--rounds N] [--program FILE.tw] [--cc COMMAND]

Prints what bench/peak.c (built here and run alone) says the core can do, measured and as lanes x ports x clock, and
what the example reaches on one thread, twice: with its arrays in huge pages where the system grants them, as a run's
own large buffers are, and in ordinary ones, where each first touch of a page costs a look-up (in a virtual machine
inside another, a microsecond). The clock of a core changes within milliseconds, and other work takes time of the core
and its caches: so the example takes turns with the multiply-add loop of peak.c, in one process, in processor time, and
the loop runs as long as the example does. A run's share is its speed against the mean of the loop just before and just
after it; none is left out. Printed are the median of the shares and their quarters, and the best run against the best
turn of the loop. The exit code is 1 where the two peaks differ by more than 5%.
"""
import argparse
import ctypes
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its waiting threads would count
import numpy as np  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
F32 = 1


def library(build):
    lib = ctypes.CDLL(os.path.join(build, "libtilewright.so"))
    lib.tilewright_last_error.restype = ctypes.c_char_p
    return lib


def check(lib, status):
    if status:
        raise SystemExit(lib.tilewright_last_error().decode())


HUGE = 2 << 20


def zeros(pages, *shape):
    """Zeros at the beginning of a page."""
    size = int(np.prod(shape))
    room = mmap.mmap(-1, (4 * size // HUGE + 2) * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        room.madvise(mmap.MADV_HUGEPAGE if pages == "huge" else mmap.MADV_NOHUGEPAGE)
    except OSError:
        pass  # a system that knows but one kind
    at = -np.frombuffer(room, np.uint8).ctypes.data % HUGE
    return np.frombuffer(room, np.float32, size, at).reshape(shape)


class Example:
    """The program, compiled, with inputs and one thread."""

    def __init__(self, lib, path, pages, m, n, k):
        rng = np.random.default_rng(0)
        self.lib = lib
        self.operations = 2.0 * m * n * k
        self.inputs = [zeros(pages, *shape) for shape in ((m, k), (k, n), (n,))]
        for x in self.inputs:
            x[...] = rng.standard_normal(x.shape)
        self.result = zeros(pages, m, n)
        self.context = ctypes.c_void_p()
        program, model = ctypes.c_void_p(), ctypes.c_void_p()
        check(lib, lib.tilewright_open_program_file(path.encode(), None, ctypes.byref(program)))
        check(lib, lib.tilewright_compile_program(program, None, ctypes.byref(model)))
        check(lib, lib.tilewright_create_context(model, 1, ctypes.byref(self.context)))
        for i, x in enumerate(self.inputs):
            dims = (ctypes.c_int64 * x.ndim)(*x.shape)
            check(lib, lib.tilewright_set_input(self.context, i, F32, x.ndim, dims, x.ctypes.data_as(ctypes.c_void_p)))
        check(lib, lib.tilewright_set_output(self.context, 0, self.result.ctypes.data_as(ctypes.c_void_p),
                                             ctypes.c_size_t(self.result.nbytes)))

    def run(self):
        """Seconds of this thread's processor time: it is the only one that works."""
        start = time.thread_time_ns()
        check(self.lib, self.lib.tilewright_run(self.context))
        return (time.thread_time_ns() - start) * 1e-9

    def wrong(self):
        a, b, bias = (x.astype(np.float64) for x in self.inputs)
        want = np.maximum(a @ b + bias, 0)
        return float(np.abs(self.result - want).max(initial=0)) > 1e-5 * max(1.0, float(want.max(initial=0)))


SOURCE = os.path.join(ROOT, "bench", "peak.c")


def build(cc, out, *options):
    subprocess.run([*cc.split(), "-O2", *options, "-o", out, SOURCE, "-lm"], check=True)
    return out


def peak(cc, place):
    """What the program says."""
    done = subprocess.run([build(cc, os.path.join(place, "peak"))], capture_output=True, text=True)
    if done.returncode == 2:
        raise SystemExit(done.stderr.strip())
    return dict(line.split() for line in done.stdout.splitlines())


def peak_loop(cc, place):
    """The program's loop, to be called from here."""
    over = ctypes.CDLL(build(cc, os.path.join(place, "peak.so"), "-shared", "-fPIC")).peak_over
    over.restype, over.argtypes = ctypes.c_double, [ctypes.c_double]
    return over


def measure(example, over, rounds, pages):
    """The example, in turn with the loop."""
    example.run()
    if example.wrong():
        raise SystemExit("the result is wrong")
    operations = example.operations
    took = statistics.median(example.run() for _ in range(10))
    peaks, speeds = [over(took)], []
    for _ in range(rounds):
        speeds.append(operations / example.run() * 1e-9)
        peaks.append(over(took))
    shares = [50 * s / a + 50 * s / b for s, a, b in zip(speeds, peaks, peaks[1:])]
    low, middle, high = statistics.quantiles(shares, n=4)
    print(f"{pages} pages: {took * 1e3:.1f} ms each, median {middle:.1f}% of them, half of the runs within {low:.1f} to "
          f"{high:.1f}%; the best run {max(speeds):.1f} GFLOP/s, the best turn of the multiply-adds {max(peaks):.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--size", default="768,768,768")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--program", default=os.path.join(ROOT, "examples", "programs", "matmul_cpu.tw"))
    parser.add_argument("--cc", default="cc")
    args = parser.parse_args()
    m, n, k = (int(x) for x in args.size.split(","))
    lib = library(args.build)
    with tempfile.TemporaryDirectory() as place:
        alone = peak(args.cc, place)
        over = peak_loop(args.cc, place)
        measured, expected = float(alone["measured_gflops"]), float(alone["lanes_x_ports_x_clock_gflops"])
        print(f"peak, measured               {measured:6.1f} GFLOP/s  ({alone['vectors']})")
        print(f"peak, lanes x ports x clock  {expected:6.1f} GFLOP/s  "
              f"({alone['lanes']} x {alone['ports']} x {alone['clock_ghz']} GHz x 2)")
        print(f"{os.path.basename(args.program)} {m}x{n}x{k}, in turn with the multiply-adds")
        for pages in ("huge", "small"):
            measure(Example(lib, args.program, pages, m, n, k), over, args.rounds, pages)
    return 1 if abs(measured / expected - 1) > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
