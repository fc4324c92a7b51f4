#!/usr/bin/env python3
"""Test run_cases.py with a scripted program in tilewright's place: verdicts, crashes, hangs, the shrinking list.

usage: test_run_cases.py        (no arguments; the last line is "N passed, N failed")
"""
import os
import subprocess
import sys
import tempfile

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_cases.py")

# Does what the file "act" in a case's folder says.
PROGRAM = r'''#!/usr/bin/env python3
import os, signal, sys, time
words = sys.argv[1:]
if words[0] == "run":
    act = open(os.path.join(os.path.dirname(words[1]), "act")).read()
    if act == "hang":
        time.sleep(60)
    if act == "accept":
        sys.exit(0)
    if act != "mute":
        print("no such operator", file=sys.stderr)
    sys.exit(3 if act == "blame" else 1)
folders = [w for w in words[1:] if os.path.isdir(w)]
passed = failed = 0
for folder in folders:
    name = os.path.basename(folder)
    act = open(os.path.join(folder, "act")).read()
    if act == "constants":
        act = "pass" if "--constants" in words else "fail"
    if act == "tolerance":
        act = "pass" if words[words.index("--rtol") + 1] == "0.5" else "fail"
    if act == "crash" or act == "crowd" and len(folders) > 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if act == "hang":
        time.sleep(60)
    if act == "fail":
        print("FAIL %s: output y differs" % name, flush=True)
        failed += 1
    else:
        print("ok %s" % name, flush=True)
        passed += 1
print("%d passed, %d failed" % (passed, failed), flush=True)
if any(open(os.path.join(f, "act")).read() == "leave" for f in folders):
    sys.exit(23)
sys.exit(1 if failed else 0)
'''

checks = {True: 0, False: 0}


def check(what, condition, shown=""):
    checks[bool(condition)] += 1
    if not condition:
        print("FAIL %s\n%s" % (what, shown))


class Place:
    """A folder with the scripted program, cases and a list of known failures."""

    def __init__(self, root, acts, known=None, refused=()):
        self.root = root
        self.program = os.path.join(root, "program")
        with open(self.program, "w") as f:
            f.write(PROGRAM)
        os.chmod(self.program, 0o755)
        for name, act in acts.items():
            folder = os.path.join(root, "cases", name)
            os.makedirs(folder)
            for file, text in (("model.onnx", ""), ("act", act)):
                with open(os.path.join(folder, file), "w") as f:
                    f.write(text)
            if name in refused:
                with open(os.path.join(folder, "expect.txt"), "w") as f:
                    f.write("error\n")
            if act == "tolerance":
                with open(os.path.join(folder, "meta.json"), "w") as f:
                    f.write('{"rtol": 0.5, "atol": 0}')
        self.list = os.path.join(root, "known.txt")
        if known is not None:
            with open(self.list, "w") as f:
                f.write(known)

    def run(self, *options):
        command = [sys.executable, RUNNER, self.program, os.path.join(self.root, "cases"), "--silence", "2"]
        done = subprocess.run(command + ["--known-failures", self.list, *options], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines(), done.stdout + done.stderr


def case(acts, known="", refused=(), options=()):
    with tempfile.TemporaryDirectory() as root:
        place = Place(root, acts, known, refused)
        code, lines, text = place.run(*options)
        left = open(place.list).read() if os.path.exists(place.list) else None
        return code, lines, text, left


def main():
    code, lines, text, _ = case({"a": "pass", "b": "pass", "t": "tolerance"})
    check("all pass", code == 0 and lines[-1] == "3 passed, 0 failed", text)

    code, lines, text, _ = case({"a": "pass", "b": "fail"})
    check("a failure", code == 1 and lines[-1] == "1 passed, 1 failed" and "FAIL b: output y differs" in lines, text)

    code, lines, text, _ = case({"a": "pass", "b": "fail"}, "b  # why\n")
    check("a known failure", code == 0 and lines[-2:] == ["known failures: 1", "1 passed, 0 failed"], text)

    code, lines, text, left = case({"a": "pass", "b": "fail"}, "a\nb\n")
    check("a cured one fails the run", code == 1 and lines[-1] == "0 passed, 1 failed" and left == "a\nb\n", text)

    acts, known = {"a": "pass", "b": "fail", "c": "fail"}, "# head\na\nb  # why\ngone\n"
    code, lines, text, left = case(acts, known, options=["--update"])
    check("--update shrinks", code == 1 and left == "# head\nb  # why\n" and "1 passed, 1 failed" == lines[-1], text)

    code, lines, text, _ = case({"a": "pass"}, "gone\n")
    check("a listed case that is not there", code == 1 and lines[-1] == "1 passed, 1 failed", text)

    code, lines, text, left = case({"a": "pass", "b": "fail"}, None, options=["--create"])
    check("--create", code == 0 and left == "b\n", text)
    code, lines, text, left = case({"a": "fail"}, "b\n", options=["--create"])
    check("--create refuses where a list is", code == 2 and left == "b\n", text)

    many = {"c%02d" % i: "pass" for i in range(20)}
    code, lines, text, _ = case({**many, "c07": "crash", "c13": "crash"})
    check("crashes are found", code == 1 and lines[-1] == "18 passed, 2 failed" and
          [x for x in lines if "FAIL" in x] == ["FAIL c07: died of SIGSEGV", "FAIL c13: died of SIGSEGV"], text)

    code, lines, text, _ = case({**many, "c03": "hang"})
    found = "FAIL c03: took too long" in lines
    check("a hang is found", code == 1 and lines[-1] == "19 passed, 1 failed" and found, text)

    code, lines, text, _ = case({**many, "c05": "crowd"})
    check("a crash only among others is no pass", code == 1 and any("FAIL c05: passes alone" in x for x in lines), text)

    code, lines, text, _ = case({"a": "pass", "b": "leave"})
    check("a bad exit code is no pass", code == 1 and "exit code 23" in text, text)

    code, lines, text, _ = case({"a": "constants"}, options=["--constants"])
    check("--constants is passed on", code == 0 and lines[-1] == "1 passed, 0 failed", text)

    refusals = {"good": "refuse", "mute": "mute", "accept": "accept", "blame": "blame", "slow": "hang"}
    code, lines, text, _ = case(refusals, refused=refusals)
    check("refusals", code == 1 and lines[-1] == "1 passed, 4 failed" and "FAIL good" not in text, text)

    print("%d passed, %d failed" % (checks[True], checks[False]))
    return 1 if checks[False] else 0


if __name__ == "__main__":
    sys.exit(main())
