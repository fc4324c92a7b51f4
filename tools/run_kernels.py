#!/usr/bin/env python3
"""Check every kernel of many models: text form, verifier and interpreter at every stage of lowering (test/tools/kernels_check.c).

usage: run_kernels.py KERNELS_CHECK [--skip FILE]... DIR...     folders of ONNX test folders (model.onnx in each)
       run_kernels.py KERNELS_CHECK --models                    the real models, the small ones at small sizes interpreted

--skip names lists of cases that do not compile yet (the lists of known failures of tools/run_cases.py). Models that must be
refused (expect.txt) have no kernels. Each model counts as one test; the last line is "N passed, N failed".
"""
import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import models
from parts import part_of, take_part
from run_cases import read_list

SECONDS = 1800
GROUPS = ("ocr", "nets")  # of the real models
# Large sizes would make the interpreter, which checks every access, take hours.
SMALL = {
    "ppocr_cls": ["x_0=1", "x_2=16", "x_3=32"],
    "ppocr_det": ["p2o_DynamicDimension_0=1", "p2o_DynamicDimension_1=32", "p2o_DynamicDimension_2=32"],
    "ppocr_rec": ["p2o_DynamicDimension_0=1", "x_2=48", "p2o_DynamicDimension_1=32"],
}


def real_models():
    for name in models.expand(GROUPS):
        sizes = SMALL.get(name)
        yield name, models.path_of(name), ["--interpret", *sizes] if sizes else []


def cases(folder, skip):
    for name in sorted(os.listdir(folder)):
        model = os.path.join(folder, name, "model.onnx")
        if name not in skip and os.path.exists(model) and not os.path.exists(os.path.join(folder, name, "expect.txt")):
            yield name, model, ["--interpret"]


def check(program, model, options):
    """(reason or None, stages checked)"""
    try:
        done = subprocess.run([program, model, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"took longer than {SECONDS} s", 0
    lines = done.stdout.decode(errors="replace").strip().splitlines() or ["no output"]
    if done.returncode == 0:
        return None, int(lines[-1].split(" passed, ")[0])
    return f"exit code {done.returncode}: {lines[0][:400]}", 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels_check")
    parser.add_argument("dirs", nargs="*", metavar="DIR")
    parser.add_argument("--skip", action="append", default=[], metavar="FILE")
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--part", type=part_of, metavar="K/N", help="only the K-th of N parts of the models")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_intermixed_args()
    if args.models == bool(args.dirs):
        parser.error("give folders, or --models")
    skip = {name for path in args.skip for name in read_list(path)[0]}
    if args.models:
        models.ensure(GROUPS)
    work = list(real_models()) if args.models else [case for folder in args.dirs for case in cases(folder, skip)]
    work = take_part(work, args.part)
    failed = stages = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda item: check(args.kernels_check, item[1], item[2]), work)
        for (name, _, _), (reason, count) in zip(work, results):
            stages += count
            if reason:
                failed += 1
                print(f"FAIL {name}: {reason}", flush=True)
            elif args.models:
                print(f"ok {name}: {count} stages", flush=True)
    print(f"{stages} stages of kernels checked")
    print(f"{len(work) - failed} passed, {failed} failed")
    return 1 if failed or not work else 0


if __name__ == "__main__":
    sys.exit(main())
