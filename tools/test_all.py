#!/usr/bin/env python3
"""Run every test of the project and add up what passed and failed.

usage: test_all.py [--build DIR] [--all] [--only STAGE]... [--part K/N] [--list]

Stages run in order: checks of the sources, unit tests (those that ctest knows), tests of the tools, folders of small models
against what they must compute (test/cases, the node cases of the onnx package, those of tools/runtime_cases.py), the kernels of all these models.
--all adds the long ones: more samples, models with constant inputs, kernels of real models, all under the sanitizers.
--only and --part cut this into pieces: a stage, and of it the K-th of N parts (of its runners, or of the cases one runs).
Each runner prints one line here and writes what it says to DIR/test-logs/; of a failed one the end is shown.

The last line is "N passed, N failed"; the exit code is 1 where something failed.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from parts import part_of, take_part

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LONG_VARIABLE = "TILEWRIGHT_LONG_TESTS"
TAIL = 40  # lines of a failed runner that are shown
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed", re.M)
CMOCKA = re.compile(r"^\[  (PASSED|FAILED)  \] (\d+) test\(s\)", re.M)


class Job:
    """One command with its verdict."""

    def __init__(self, name, command, seconds=900, env=None, divides=False):
        self.name, self.command, self.seconds, self.divides = name, command, seconds, divides  # divides: knows --part
        self.env = {**os.environ, **(env or {})}
        self.passed = self.failed = 0
        self.output, self.spent = "", 0.0

    def run(self):
        start = time.monotonic()
        try:
            done = subprocess.run(self.command, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=self.seconds)
            self.output, code = done.stdout.decode(errors="replace"), done.returncode
        except subprocess.TimeoutExpired as late:
            self.output = (late.stdout or b"").decode(errors="replace") + f"\nstopped after {self.seconds} s\n"
            code = None
        except OSError as error:
            self.output, code = f"{error}\n", None
        self.spent = time.monotonic() - start
        self.count(code)
        return self

    def count(self, code):
        """What the output says; a runner that dies or says nothing counts as one test."""
        sums = SUMMARY.findall(self.output)
        cmocka = CMOCKA.findall(self.output)
        if sums:
            self.passed, self.failed = (int(n) for n in sums[-1])
        elif cmocka:
            self.passed = sum(int(n) for word, n in cmocka if word == "PASSED")
            self.failed = sum(int(n) for word, n in cmocka if word == "FAILED")
        elif code == 0:
            self.passed = 1
        if code != 0 and self.failed == 0:
            self.failed = 1
            self.output += f"\nexit code {code}\n"


def python(script, *arguments):
    return [sys.executable, os.path.join(ROOT, "tools", script), *arguments]


def check_jobs(build):
    yield Job("layers", python("layers.py"))
    yield Job("format", [os.path.join(ROOT, "tools", "format.sh"), "--check"])


def has_long_version(test):
    """Whether the unit test asks for the variable that makes it take more samples."""
    for source in (f"test_{test}.c", f"{test}.c"):
        path = os.path.join(ROOT, "test", "unit", source)
        if os.path.exists(path):
            with open(path) as f:
                return LONG_VARIABLE in f.read()
    return False


def unit_jobs(build, long=False, env=None, name="unit"):
    """One job for each test that ctest lists; long: those that have a long version, in that version."""
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    for test in json.loads(listing.stdout)["tests"]:
        extra = dict(env or {})
        if long:
            if not has_long_version(test["name"]):
                continue
            extra[LONG_VARIABLE] = "1"
        command = test.get("command") or ["false"]  # without a command: not built
        yield Job(f"{name} {test['name']}", command, seconds=3600 if long else 900, env=extra)


def tool_jobs(build):
    for script in sorted(glob.glob(os.path.join(ROOT, "tools", "test_*.py"))):
        if os.path.basename(script) != os.path.basename(__file__):
            yield Job("tools " + os.path.basename(script)[len("test_"):-len(".py")], [sys.executable, script],
                      env={"TILEWRIGHT_BUILD": build})


CASES = os.path.join(ROOT, "test", "cases")


def node_folder(build):
    """Where the node cases lie; written when they are not there."""
    folder = os.path.join(build, "node_cases")
    subprocess.run(python("node_cases.py", folder), cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return folder


def known(name):
    return os.path.join(ROOT, "test", f"known_failures_{name}.txt")


def cases_job(build, name, folder, listed, *options):
    """The command line over a folder of small models, against the list of those known to fail."""
    return Job(name, python("run_cases.py", os.path.join(build, "tilewright"), folder, "--known-failures", known(listed), *options),
               seconds=7200, divides=True)


def case_jobs(build):
    yield cases_job(build, "cases", CASES, "cases")


def damaged_jobs(build):
    """Few here; the sanitizers run more."""
    yield Job("damaged models", python("fuzz_models.py", os.path.join(build, "tilewright"), node_folder(build), "--count", "60",
                                       "--seed", "7"), seconds=900)
    yield Job("damaged files", python("fuzz_files.py", os.path.join(build, "tilewright"), "--count", "80", "--seed", "7"))
    yield from fuzz_jobs("damaged", build, 300)


def fuzz_jobs(name, build, count):
    """Damaged texts and models within one process (test/tools/fuzz.c)."""
    kinds = {"program": ("examples/programs/*.tw", "test/ir/*.tw"), "operator": ("examples/custom_op/*.tw",),
             "onnx": ("test/cases/*/model.onnx",)}
    for kind, patterns in kinds.items():
        files = [path for pattern in patterns for path in sorted(glob.glob(os.path.join(ROOT, pattern)))]
        yield Job(f"{name}: {kind}", [os.path.join(build, "fuzz"), kind, *files, "--count", str(count), "--seed", "7"], seconds=3600)


def runtime_jobs(build):
    folder = os.path.join(build, "runtime_cases")
    subprocess.run(python("runtime_cases.py", folder), cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    yield cases_job(build, "runtime", folder, "runtime")


def node_jobs(build):
    yield cases_job(build, "node", node_folder(build), "node")


def kernel_jobs(build):
    lists = [option for name in ("cases", "node") for option in ("--skip", known(name))]
    yield Job("kernels", python("run_kernels.py", os.path.join(build, "kernels_check"), *lists, CASES, node_folder(build)),
              seconds=3600, divides=True)


def model_kernel_jobs(build):
    yield Job("kernels of real models", python("run_kernels.py", os.path.join(build, "kernels_check"), "--models"), seconds=7200,
              divides=True)


def constant_cases_jobs(build):
    yield cases_job(build, "cases, constant inputs", CASES, "cases_constants", "--constants")


def constant_node_jobs(build):
    yield cases_job(build, "node, constant inputs", node_folder(build), "node_constants", "--constants")


def sanitizer_build(build, kind="ON", targets=("all",)):
    """The build folder; None where building failed."""
    place = build + ("-sanitizers" if kind == "ON" else "-threads")
    options = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g", "-DTW_SANITIZE=" + kind, "-DTW_WERROR=OFF"]
    for command in (["cmake", "-S", ROOT, "-B", place, "-G", "Ninja", *options],
                    ["cmake", "--build", place, "--target", *targets]):
        if Job("build", command, seconds=3600).run().failed:
            return None
    return place


def sanitizer_unit_jobs(build):
    place = sanitizer_build(build)
    if place:
        yield from unit_jobs(place, name="sanitizers")
    else:
        yield Job("sanitizers: build", ["cmake", "--build", build + "-sanitizers"], seconds=3600)


def sanitizer_case_jobs(build):
    place = sanitizer_build(build)
    if place:
        yield cases_job(place, "sanitizers cases", CASES, "cases", "--slow")
        yield cases_job(place, "sanitizers control flow", node_folder(build), "node", "--slow", *flow_cases(build))
        yield Job("sanitizers damaged models", python("fuzz_models.py", os.path.join(place, "tilewright"), node_folder(build)),
                  seconds=3600)
        yield Job("sanitizers damaged files", python("fuzz_files.py", os.path.join(place, "tilewright"), "--count", "500"), seconds=3600)
        yield from fuzz_jobs("sanitizers damaged", place, 3000)
        yield soak_job("sanitizers soak", place)


def soak_job(name, place):
    return Job(name, python("test_soak.py"), env={"TILEWRIGHT_BUILD": place}, seconds=1800)


FLOW = re.compile(r"scan|loop|test_if|lstm|gru|rnn|linear_attention|range_.*expanded")


def flow_cases(build):
    """Names of the node cases with loops and branches."""
    return sorted(name for name in os.listdir(node_folder(build)) if FLOW.search(name))


def thread_jobs(build):
    """Threads that share a pool, and loops and branches, under the thread sanitizer."""
    tests = ["test_shapes_threads", "test_rt_pool", "test_rt_flow"]
    place = sanitizer_build(build, "thread", [*tests, "soak", "tilewright"])
    if not place:
        yield Job("threads: build", ["cmake", "--build", build + "-threads"], seconds=3600)
        return
    for test in tests:
        yield Job("threads " + test[len("test_"):], [os.path.join(place, test)])
    yield soak_job("threads soak", place)
    yield cases_job(place, "threads control flow", node_folder(build), "node", "--slow", *flow_cases(build))


STAGES = [("checks", check_jobs), ("unit", unit_jobs), ("tools", tool_jobs), ("cases", case_jobs), ("node", node_jobs),
          ("damaged", damaged_jobs), ("runtime", runtime_jobs), ("kernels", kernel_jobs)]
LONG_STAGES = [("long", lambda build: unit_jobs(build, long=True, name="long")), ("constants", constant_cases_jobs),
               ("node-constants", constant_node_jobs), ("model-kernels", model_kernel_jobs),
               ("sanitizers", sanitizer_unit_jobs), ("sanitizer-cases", sanitizer_case_jobs),
               ("threads", thread_jobs)]


def stage_part(jobs, part):
    """The K-th of N parts of a stage: of each job that can be divided, and of the list of the others."""
    if not part:
        return jobs
    for job in jobs:
        job.command = [*job.command, "--part", "%d/%d" % part] if job.divides else job.command
    whole = take_part([job for job in jobs if not job.divides], part)
    return [job for job in jobs if job.divides or job in whole]


def report(job, logs):
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", job.name)
    with open(os.path.join(logs, name + ".txt"), "w") as f:
        f.write(job.output)
    print(f"{job.name}: {job.passed} passed, {job.failed} failed ({job.spent:.1f} s)", flush=True)
    if job.failed:
        for line in job.output.rstrip().splitlines()[-TAIL:]:
            print("    " + line)
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--all", action="store_true", help="the long stages too")
    parser.add_argument("--only", action="append", metavar="STAGE", help="this stage (several: again)")
    parser.add_argument("--part", type=part_of, metavar="K/N", help="only the K-th of N parts of each stage")
    parser.add_argument("--list", action="store_true", help="names of the stages")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    stages = STAGES + (LONG_STAGES if options.all or options.only or options.list else [])
    if options.list:
        print("\n".join(name for name, _ in stages))
        return
    unknown = set(options.only or []) - {name for name, _ in stages}
    if unknown:
        parser.error(f"no stage {', '.join(sorted(unknown))}")
    logs = os.path.join(build, "test-logs")
    os.makedirs(logs, exist_ok=True)
    passed = failed = 0
    start = time.monotonic()
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for name, jobs in stages:
            if options.only and name not in options.only:
                continue
            # The runners of model folders use all processors themselves; the jobs of the other stages run side by side.
            for job in pool.map(Job.run, stage_part(list(jobs(build)), options.part)):
                report(job, logs)
                passed, failed = passed + job.passed, failed + job.failed
    print(f"in {time.monotonic() - start:.0f} s; what each runner said: {os.path.relpath(logs)}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
