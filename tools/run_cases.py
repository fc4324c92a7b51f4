#!/usr/bin/env python3
"""Run `tilewright test` over a folder of ONNX test folders and compare with the list of those known to fail.

usage: run_cases.py TILEWRIGHT DIR --known-failures FILE [--constants] [--update | --create] [options] [NAME ...]

A test folder holds model.onnx, test_data_set_*/input_K.pb and output_K.pb, perhaps meta.json ({"rtol", "atol"}) and
expect.txt.  Where expect.txt says "error", `tilewright run` must refuse the model: exit code 1, a message on standard
error, within 5 seconds and 256 MB.  All other cases must run and give the stored outputs; many go into one process.
When a process dies or hangs, the guilty folder is found by running the rest again in ever smaller parts.

The run fails where a case fails that is not on the list, and where a case on the list passes or is not there: the
list may only shrink.  --update takes such cases off the list and adds none.  --create writes the list where there is
no file yet.

The last line is "N passed, N failed"; known failures are in neither number but in a line before.
"""
import argparse
import concurrent.futures
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time

import onnx

from parts import part_of, take_part

ERROR_SECONDS, ERROR_MEGABYTES = 5, 256
DEFAULT_TOLERANCE = (1e-3, 1e-7)


class Case:
    def __init__(self, folder, name):
        self.name, self.folder = name, os.path.join(folder, name)
        self.expect_error = self._read("expect.txt").strip() == "error"
        meta = json.loads(self._read("meta.json") or "{}")
        self.tolerance = (meta.get("rtol", DEFAULT_TOLERANCE[0]), meta.get("atol", DEFAULT_TOLERANCE[1]))

    def _read(self, name):
        try:
            with open(os.path.join(self.folder, name)) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def input_options(self):
        """-i NAME=FILE for the inputs of the first data set; names come from the model, else from the tensors."""
        place = os.path.join(self.folder, "test_data_set_0")
        files = [f for f in os.listdir(place) if f.startswith("input_")] if os.path.isdir(place) else []
        try:
            graph = onnx.load(os.path.join(self.folder, "model.onnx"), load_external_data=False).graph
            constants = {t.name for t in graph.initializer}
            names = [v.name for v in graph.input if v.name not in constants]
        except Exception:  # a damaged model; the program must say so
            names = []
        options = []
        for k in range(len(files)):
            path = os.path.join(place, "input_%d.pb" % k)
            name = names[k] if k < len(names) else tensor_name(path)
            if name:
                options += ["-i", "%s=%s" % (name, path)]
        return options


def tensor_name(path):
    try:
        with open(path, "rb") as f:
            return onnx.TensorProto.FromString(f.read()).name
    except Exception:
        return ""


class Ended:
    """How a process ended: output lines, standard error, exit code (None: killed for taking too long), peak memory."""

    def __init__(self, lines, errors, code, megabytes):
        self.lines, self.errors, self.code, self.megabytes = lines, errors, code, megabytes

    def words(self):
        if self.code is None:
            return "took too long"
        if self.code < 0:
            try:
                return "died of %s" % signal.Signals(-self.code).name
            except ValueError:
                return "died of signal %d" % -self.code
        last = self.errors.strip().splitlines()
        return "exit code %d%s" % (self.code, ": " + last[-1][:200] if last else "")


def run(command, silence, total):
    """Run a command; kill its process group after `silence` seconds without output or `total` seconds in all."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                   start_new_session=True)
        output, start = b"", time.monotonic()
        heard, late = start, False
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                left = min(heard + silence, start + total) - time.monotonic()
                if left <= 0:
                    late = True
                    break
                if selector.select(left):
                    data = os.read(process.stdout.fileno(), 65536)
                    if not data:
                        break
                    output, heard = output + data, time.monotonic()
        # Standard output may be closed early by a process that then hangs.
        status = usage = None
        while not late:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            late = time.monotonic() > start + total
            time.sleep(0.002)
        try:  # what it left running, a C compiler say, goes with it
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if late:
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        errors.seek(0)
        return Ended(output.decode(errors="replace").splitlines(), errors.read().decode(errors="replace"),
                     None if late else process.returncode, usage.ru_maxrss / 1024)


class Runner:
    def __init__(self, args):
        self.args = args
        self.factor = 10 if args.slow else 1

    def batch(self, cases):
        """One process over cases of one tolerance: {name: None if it passed, else the reason}, and how it ended."""
        rtol, atol = cases[0].tolerance
        command = [self.args.tilewright, "test", "--rtol", repr(rtol), "--atol", repr(atol)]
        if self.args.constants:
            command.append("--constants")
        silence = self.args.silence * self.factor
        ended = run(command + [c.folder for c in cases], silence, silence + 3 * len(cases) * self.factor)
        names = {c.name for c in cases}
        found, closed = {}, False
        for line in ended.lines:
            word, _, rest = line.partition(" ")
            name, colon, reason = rest.partition(": ")
            name = os.path.basename(name.strip().rstrip("/"))
            if word == "ok" and name in names:
                found.setdefault(name, None)
            elif word == "FAIL" and name in names:
                found[name] = reason.strip() if colon else "no reason given"
            closed = closed or line.strip().endswith(" failed")
        failed = any(reason is not None for reason in found.values())
        regular = closed and ended.code == (1 if failed else 0)
        if not regular and len(found) == len(cases):
            found[cases[-1].name] = "all cases done, but the process " + ended.words()
        return found, ended

    def all(self, cases):
        """{name: None or reason} for cases of one tolerance."""
        found, ended = self.batch(cases)
        rest = [c for c in cases if c.name not in found]
        if not rest:
            return found
        if len(cases) == 1:
            return {cases[0].name: ended.words()}
        # The first one without a verdict is the likely culprit; if it is not, ever smaller parts find it.
        first, others = rest[0], rest[1:]
        found.update(self.all([first]))
        if found[first.name] is not None:
            parts = [others]
        else:
            middle = (len(others) + 1) // 2
            parts = [others[:middle], others[middle:]]
        for part in parts:
            if part:
                found.update(self.all(part))
        if all(found[c.name] is None for c in rest):
            found[first.name] = "passes alone, but together with others the process " + ended.words()
        return found

    def refusal(self, case):
        """A case that must be refused: {name: None or reason}."""
        command = [self.args.tilewright, "run", os.path.join(case.folder, "model.onnx")] + case.input_options()
        ended = run(command, ERROR_SECONDS * self.factor, ERROR_SECONDS * self.factor)
        if ended.code == 0:
            reason = "must be refused, but runs"
        elif ended.code != 1:
            reason = "must be refused with exit code 1, but " + ended.words()
        elif not ended.errors.strip():
            reason = "refused without a message"
        elif "Sanitizer" in ended.errors or "runtime error:" in ended.errors:
            reason = "refused, but a sanitizer says: " + ended.errors.strip().splitlines()[0][:200]
        elif ended.megabytes > ERROR_MEGABYTES and not self.args.slow:
            reason = "refused, but took %d MB" % ended.megabytes
        else:
            reason = None
            if self.args.verbose:
                print("refused %s: %s" % (case.name, ended.errors.strip().splitlines()[-1][:300]))
        return {case.name: reason}


def load_cases(folder, only):
    names = sorted(n for n in os.listdir(folder) if os.path.lexists(os.path.join(folder, n, "model.onnx")))
    unknown = set(only) - set(names)
    if unknown:
        sys.exit("run_cases.py: no such case in %s: %s" % (folder, " ".join(sorted(unknown))))
    return [Case(folder, n) for n in names if not only or n in only]


def run_all(args, cases):
    runner, jobs = Runner(args), []
    groups = {}
    for case in cases:
        if case.expect_error:
            jobs.append((runner.refusal, case))
        else:
            groups.setdefault(case.tolerance, []).append(case)
    for group in groups.values():
        for start in range(0, len(group), args.batch):
            jobs.append((runner.all, group[start:start + args.batch]))
    found = {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(*job) for job in jobs]):
            found.update(future.result())
            if sys.stderr.isatty():
                print("\r%d of %d cases" % (len(found), len(cases)), end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return found


def read_list(path):
    """(names, lines) of a list of known failures: a name a line, the rest of a line after '#' is a remark."""
    with open(path) as f:
        lines = f.read().splitlines()
    names = [line.split("#")[0].strip() for line in lines]
    return [n for n in names if n], lines


def write_list(path, lines):
    with open(path, "w") as f:
        f.write("".join(line + "\n" for line in lines))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tilewright")
    parser.add_argument("dir")
    parser.add_argument("only", nargs="*", metavar="NAME", help="run only these cases")
    parser.add_argument("--known-failures", required=True, metavar="FILE")
    parser.add_argument("--constants", action="store_true", help="all inputs but the first become initialisers")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--update", action="store_true", help="take cases that pass or are gone off the list")
    group.add_argument("--create", action="store_true", help="write the list; refused where the file exists")
    parser.add_argument("--batch", type=int, default=64, help="cases in one process")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--silence", type=float, default=60, metavar="S",
                        help="seconds a process may go without finishing a case")
    parser.add_argument("--slow", action="store_true", help="for sanitizer builds: ten times the time, no memory limit")
    parser.add_argument("--part", type=part_of, metavar="K/N", help="only the K-th of N parts of the cases")
    parser.add_argument("--verbose", action="store_true",
                        help="also print the messages of refused models, and known failures")
    args = parser.parse_intermixed_args()
    if args.create and os.path.exists(args.known_failures):
        parser.error("%s exists; --update can shrink it" % args.known_failures)
    if not args.create and not os.path.exists(args.known_failures):
        parser.error("no list %s; --create writes it" % args.known_failures)
    if args.create and (args.only or args.part):
        parser.error("--create needs all cases")
    return args


def main():
    args = parse()
    cases = load_cases(args.dir, args.only)
    if args.constants:
        cases = [c for c in cases if not c.expect_error]  # a refusal is the same with and without
    cases = take_part(cases, args.part)
    known, lines = ([], []) if args.create else read_list(args.known_failures)
    os.environ.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    with tempfile.TemporaryDirectory(prefix="tilewright-cases-") as cache:
        os.environ["TILEWRIGHT_CACHE"] = cache  # what is tested is this build, not what an older one left behind
        found = run_all(args, cases)

    failing = {n for n, reason in found.items() if reason is not None}
    if args.create:
        lines = known = sorted(failing)
        write_list(args.known_failures, lines)
    gone = set() if args.only or args.part else set(known) - set(found)
    cured = {n for n in known if n in found and n not in failing}
    if args.update and (gone or cured):
        lines = [line for line in lines if line.split("#")[0].strip() not in gone | cured]
        write_list(args.known_failures, lines)
        print("taken off the list: %d" % len(gone | cured))
        gone, cured = set(), set()
    bad = 0
    for name in sorted(set(found) | gone):
        if name in gone:
            print("FAIL %s: on the list of known failures, but there is no such case; remove it from the list" % name)
        elif name in cured:
            print("FAIL %s: passes; remove it from the list of known failures" % name)
        elif name in failing and name not in known:
            print("FAIL %s: %s" % (name, found[name]))
        else:
            if name in failing and args.verbose:
                print("known %s: %s" % (name, found[name]))
            continue
        bad += 1
    print("known failures: %d" % len(failing & set(known)))
    print("%d passed, %d failed" % (len(found) - len(failing) - len(cured), bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
