#!/usr/bin/env python3
"""Tests of docs/PARADIGM.md and docs/LANGUAGE.md: their texts, what they say these give, excerpts, commands and pictures.

usage: test_paradigm.py     the command line is $TILEWRIGHT_BUILD/tilewright

    tw              a whole text: it verifies, and each program of it becomes C, or CUDA C and OpenCL C; with "output NAME" blocks behind it, it is run (interpreter, compiled)
                    and gives those numbers
    tw refused      a whole text that does not verify, for the reason that the "output error" block gives
    tw from FILE    an excerpt: its lines stand one after another in FILE
    console         "$ tilewright .." and what it prints

Also: the pictures are those that tools/draw_mapping.py draws, and their mappings give the workers and steps that the
interpreter finds; links lead to files. The last line is "N passed, N failed".
"""
import os
import re
import subprocess
import sys
import tempfile
import textwrap

import numpy as np

import draw_mapping
import task_mapping

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOL = os.path.join(os.environ.get("TILEWRIGHT_BUILD", os.path.join(ROOT, "build")), "tilewright")
PAGES = ("PARADIGM.md", "LANGUAGE.md")
PICTURES = os.path.join(ROOT, "docs", "paradigm", "pictures.txt")
BLOCK = re.compile(r"^```(\S[^\n]*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#:\s]+)\)")
counts = [0, 0]  # failed, passed


def check(good, what):
    counts[bool(good)] += 1
    if not good:
        print(f"FAIL {what}", flush=True)


def tool(*arguments):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=120)


def outputs(text, engine):
    """{name: array} of a run on random inputs, or what went wrong."""
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "text.tw")
        with open(path, "w") as f:
            f.write(text)
        done = tool("program", path, "--random", "1", "--run", engine, "-o", place)
        if done.returncode:
            return done.stderr
        return {name[:-4]: np.load(os.path.join(place, name)) for name in os.listdir(place) if name.endswith(".npy")}


def verify(text):
    with tempfile.NamedTemporaryFile("w", suffix=".tw") as f:
        f.write(text)
        f.flush()
        return tool("program", f.name)


def verified(text, where):
    done = verify(text)
    check(done.returncode == 0, f"{where} does not verify: {done.stderr}")


def check_emitted(text, where):
    with tempfile.NamedTemporaryFile("w", suffix=".tw") as f:
        f.write(text)
        f.flush()
        for name, head in re.findall(r"^program (\w+)\((.*?)^[{}]", text, re.M | re.S):
            for language in ("cuda", "opencl") if "launch block(" in head else ("c",):
                done = tool("program", f.name, "--name", name, "--emit", language)
                check(done.returncode == 0 and name in done.stdout, f"{where}, {name} in {language}: {done.stderr}")


def check_text(text, claims, where):
    verified(text, where)
    check_emitted(text, where)
    if not claims:
        return
    for engine in ("interp", "compiled") if "launch core" in text else ("interp",):
        got = outputs(text, engine)
        for name, want in claims:
            numbers = np.loadtxt(want.splitlines(), ndmin=1)
            check(isinstance(got, dict) and name in got and np.array_equal(np.squeeze(got[name]), np.squeeze(numbers)),
                  f"{where}, {engine}: {name} is {got[name] if isinstance(got, dict) and name in got else got}")


def check_refused(text, claims, where):
    done = verify(text)
    good = done.returncode == 1 and claims and all(want.strip() in done.stderr for _, want in claims)
    check(good, f"{where} says: {done.stderr}")


def check_excerpt(text, path, where):
    with open(os.path.join(ROOT, path)) as f:
        lines = f.read().splitlines()
    part = text.splitlines()
    check(any(lines[i:i + len(part)] == part for i in range(len(lines))), f"{where} is no excerpt of {path}")


def check_console(text, where):
    commands = re.split(r"^\$ tilewright ", text, flags=re.M)
    for command in commands[1:]:
        line, _, want = command.partition("\n")
        done = tool(*line.split())
        said = textwrap.indent(done.stdout + done.stderr, "  ")
        check(done.stdout == want, f"{where}: $ tilewright {line}\ngives\n{said}")


def check_page(name):
    with open(os.path.join(ROOT, "docs", name)) as f:
        page = f.read()
    blocks = [(m.group(1), m.group(2), f"{name}:{page[:m.start()].count(chr(10)) + 1}")
              for m in BLOCK.finditer(page)]
    for i, (kind, text, where) in enumerate(blocks):
        claims = []
        for later, want, _ in blocks[i + 1:]:
            if not later.startswith("output "):
                break
            claims.append((later.split()[1], want))
        if kind == "tw":
            check_text(text, claims, where)
        elif kind == "tw refused":
            check_refused(text, claims, where)
        elif kind.startswith("tw from "):
            check_excerpt(text, kind.split()[2], where)
        elif kind == "console":
            check_console(text, where)
        else:
            check(kind.startswith("output ") and i > 0 or kind == "ebnf", f"{where}: a block of another kind: {kind}")
    for link in LINK.findall(page):
        check(os.path.exists(os.path.join(ROOT, "docs", link)), f"{name}: {link} is not there")
    for path, _ in draw_mapping.pictures(PICTURES) if name == "PARADIGM.md" else ():
        check(f"](paradigm/{os.path.basename(path)})" in page, f"{name} does not show {path}")


WHO = """program who(out worker: i32[{shape}], out step: i32[{shape}])
  launch core({workers})
{{
  register n: i32[1];
  n[0] = 0;
  for ({axes}) in {mapping} on core {{
    worker[{axes}] = i32(core);
    step[{axes}] = n[0];
    n[0] = n[0] + 1;
  }}
}}
"""


def check_pictures():
    for path, options in draw_mapping.pictures(PICTURES):
        name = os.path.basename(path)
        with open(path) as f:
            check(f.read() == draw_mapping.draw(options), f"{name} is not what its mapping draws")
        mapping = task_mapping.parse(options.mapping)
        axes = ", ".join("ij"[:len(mapping.shape)])
        shape = ", ".join(map(str, mapping.shape))
        got = outputs(WHO.format(shape=shape, workers=mapping.workers, axes=axes, mapping=options.mapping), "interp")
        check(isinstance(got, dict) and all((got["worker"][task], got["step"][task]) == who
                                            for task, who in task_mapping.table(mapping).items()),
              f"{name}: the interpreter finds other workers or steps: {got if isinstance(got, str) else ''}")


def main():
    for name in PAGES:
        check_page(name)
    check_pictures()
    print(f"{counts[True]} passed, {counts[False]} failed")
    return 1 if counts[False] else 0


if __name__ == "__main__":
    sys.exit(main())
