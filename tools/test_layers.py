#!/usr/bin/env python3
"""Test layers.py on small trees, each with one fault (or none).

usage: test_layers.py        (no arguments; the last line is "N passed, N failed")
"""
import os
import subprocess
import sys
import tempfile

CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.py")
ROOMS = "set(TW_ROOMS base ir pass sched rt api)\n"

# name: (files, part of the complaint, or None where all is well)
CASES = {
    "allowed": ({"src/pass/a.c": '#include "ir/ir.h"\n#include "base/base.h"\n#include <stdio.h>\n'}, None),
    "through others": ({"src/sched/a.c": '#include "base/base.h"\n'}, None),
    "own folder": ({"src/ir/a.c": '#include "ir.h"\n'}, None),
    "upwards": ({"src/base/a.c": '#include "ir/ir.h"\n'}, "may not include"),
    "runtime knows no compiler": ({"src/rt/a.c": '#include "ir/ir.h"\n'}, "may not include"),
    "public header in a room": ({"src/ir/a.c": '#include "tilewright.h"\n'}, "public header"),
    "public header in the interface": ({"src/api/a.c": '#include "tilewright.h"\n'}, None),
    "internal header": ({"src/ir/ir_int.h": "", "src/pass/a.c": '#include "ir/ir_int.h"\n'}, "internal"),
    "command line inside": ({"cli/a.c": '#include "base/base.h"\n'}, "tilewright.h"),
    "command line": ({"cli/a.h": "", "cli/a.c": '#include "a.h"\n#include "tilewright.h"\n'}, None),
    "missing": ({"src/ir/a.c": '#include "ir/nothing.h"\n'}, "there is no"),
    "unknown room": ({"src/other/a.c": ""}, "no room"),
    "generated": ({"src/ir/a.c": '#include "math_tw.inc"\n'}, None),
    "generated elsewhere": ({"src/base/a.c": '#include "math_tw.inc"\n'}, "belongs to"),
    "commented out": ({"src/base/a.c": '/* #include "ir/ir.h" */\n// #include "ir/ir.h"\n'}, None),
    "vector type": ({"src/pass/a.c": 'const char *t = "__m512 v";\n'}, "vector type"),
    "intrinsic": ({"src/sched/a.c": 'const char *t = "_mm256_add_ps(a, b)";\n'}, "intrinsic"),
    "statement": ({"src/sched/a.c": 'const char *t = "x = y;\\n";\n'}, "statement"),
    "preprocessor": ({"src/pass/a.c": 'const char *t = "#include <math.h>";\n'}, "preprocessor"),
    "intrinsic in code": ({"src/pass/a.c": "void f(void) { _mm_pause(); }\n"}, "intrinsic"),
    "plain strings": ({"src/pass/a.c": 'const char *t = "a; b"; /* __m512 */\nint x = __builtin_clz(1);\n'}, None),
    "target text where it belongs": ({"src/rt/a.c": 'const char *t = "__m512 v;\\n";\n'}, None),
}


def run(files):
    with tempfile.TemporaryDirectory() as root:
        base = {"cmake/rooms.cmake": ROOMS, "src/base/base.h": "", "src/ir/ir.h": "", "include/tilewright.h": ""}
        for path, text in {**base, **files}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as f:
                f.write(text)
        done = subprocess.run([sys.executable, CHECKER, root], capture_output=True, text=True)
        return done.returncode, done.stdout


passed = failed = 0
for name, (files, complaint) in CASES.items():
    code, output = run(files)
    good = (code == 0) if complaint is None else (code == 1 and complaint in output)
    if not good:
        print(f"{name}: exit code {code}, expected {complaint!r}:\n{output}")
    passed, failed = passed + good, failed + (not good)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
