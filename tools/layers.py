#!/usr/bin/env python3
"""Check which room includes which, and that programs are made without target text.

usage: layers.py [ROOT]       ROOT: the repository, default the one this file lies in

 - A file of src/ROOM may include its own room's headers and those of the rooms that ARROWS allows, through others too.
   cli/, examples/ and bench/ may include include/ only. The rooms are those of cmake/rooms.cmake.
 - src/sched, src/pass, src/opt and src/ops build programs, they do not print C: string literals there must hold no
   target text, and the code must use no intrinsics.

The last line is "N passed, N failed", counting files; the exit code is 1 where one failed.
"""
import os
import re
import sys

ROOMS_FILE = "cmake/rooms.cmake"
# Who may include whom. "backend" is the folder of backend.h, which belongs to no single backend.
ARROWS = {
    "base": [],
    "tmap": ["base"],
    "target": ["base"],
    "ir": ["base", "tmap"],
    "pass": ["ir", "target"],
    "graph": ["ir"],
    "ops": ["graph"],
    "onnx": ["ops"],
    "sched": ["graph", "tmap", "target"],
    "opt": ["ops", "sched"],
    "cgen": ["ir", "target"],
    "rt": ["base"],
    "rt/host": ["rt"],
    "backend": ["ir", "target"],
    "backend/cpu": ["backend", "cgen", "pass"],
    "backend/opencl": ["base"],
    "compile": ["onnx", "opt", "sched", "backend/cpu", "backend/opencl", "rt"],
    "api": ["compile", "rt"],
}
# Files made by the build, and the rooms that may include them; the public header.
GENERATED = {"ops_list.inc": ["ops"], "host_list.inc": ["rt", "rt/host"], "math_tw.inc": ["ir"],
             "build_id.inc": ["compile"]}
PUBLIC, PUBLIC_USERS = "tilewright.h", ["api"]
CLIENTS = ["cli", "examples", "bench"]

NO_TARGET_TEXT = ["src/sched", "src/pass", "src/opt", "src/ops"]
TARGET_STRINGS = [
    (r"__m\d+", "a vector type of a compiler"),
    (r"\b_mm\d*_", "an intrinsic"),
    (r"#\s*(include|define|pragma)", "a preprocessor line"),
    (r"__builtin", "a compiler's built-in function"),
    (r"__attribute__|vector_size", "a compiler's attribute"),
    (r"\b(__)?asm(__)?\b|\bvolatile\b", "inline assembly"),
    (r";\s*\\n", "a statement of C"),
    (r"\bstatic inline\b|\btypedef\b|\bvoid\s*\*|\b__global__\b|\b__kernel\b", "a declaration of C"),
    (r"\bfor\s*\(\s*(int|long|size_t|int64_t|i64)\b", "a loop of C"),
]
TARGET_CODE = [(r"\b_mm\d*_\w+", "an intrinsic"), (r"\b__m(128|256|512)\w*", "a vector type"),
               (r"\b(__)?asm\b\s*(volatile)?\s*\(", "inline assembly"),
               (r"(imm|arm_neon|x86)intrin\.h|arm_neon\.h", "a header of intrinsics")]

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def without_comments(text):
    """Comments become blanks; strings and line numbers stay."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.S)
    return token.sub(lambda m: blank(m) if m.group(0)[0] == "/" else m.group(0), text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def listed_rooms(root):
    with open(os.path.join(root, ROOMS_FILE)) as f:
        return re.search(r"set\(TW_ROOMS ([^)]*)\)", f.read()).group(1).split()


def closure():
    """room -> all rooms it may include"""
    reach = {}

    def visit(room):
        if room not in reach:
            reach[room] = {room}
            for next_room in ARROWS[room]:
                reach[room] |= visit(next_room)
        return reach[room]

    for room in ARROWS:
        visit(room)
    return reach


def room_of(path):
    """The room of a path below src/: the longest name in ARROWS that is a folder of it."""
    parts = path.split("/")[:-1]
    while parts:
        if "/".join(parts) in ARROWS:
            return "/".join(parts)
        parts.pop()
    return None


def check_includes(root, file, text, reach):
    top = file.split("/")[0]
    room = room_of(file[len("src/"):]) if top == "src" else None
    if top == "src" and room is None:
        yield 1, "lies in no room"
        return
    for match in INCLUDE.finditer(text):
        name, line = match.group(1), line_of(text, match.start())
        beside = os.path.normpath(os.path.join(os.path.dirname(file), name))
        if os.path.exists(os.path.join(root, beside)):
            found = beside
        elif os.path.exists(os.path.join(root, "src", name)):
            found = "src/" + name
        elif name == PUBLIC:
            if room is not None and room not in PUBLIC_USERS:
                yield line, f"room {room} may not include the public header"
            continue
        elif name in GENERATED:
            if room not in GENERATED[name]:
                yield line, f'"{name}" belongs to {" and ".join(GENERATED[name])}'
            continue
        else:
            yield line, f'there is no "{name}"'
            continue
        if top in CLIENTS:
            if not found.startswith(top + "/"):
                yield line, f'{top}/ may include <tilewright.h> only, not "{name}"'
        else:
            target = room_of(found[len("src/"):]) if found.startswith("src/") else None
            if target not in reach[room]:
                yield line, f'room {room} may not include "{name}" (allowed: {" ".join(sorted(reach[room]))})'
            elif target != room and found.endswith("_int.h"):
                yield line, f'"{name}" is internal to room {target}'


def check_target_text(text):
    strings = [(m.start(), m.group(0)) for m in STRING.finditer(text)]
    includes = [m.span() for m in INCLUDE.finditer(text)]
    for at, string in strings:
        if any(a <= at < b for a, b in includes):
            continue
        for pattern, what in TARGET_STRINGS:
            if re.search(pattern, string):
                yield line_of(text, at), f"target text in a string: {what}: {string}"
    code = STRING.sub(blank, text)
    for pattern, what in TARGET_CODE:
        for match in re.finditer(pattern, code):
            yield line_of(text, match.start()), f"{what}: {match.group(0)}"


def sources(root):
    for top in ["src"] + CLIENTS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def main():
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        sys.exit(__doc__)
    root = sys.argv[1] if len(sys.argv) == 2 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    passed = failed = 0
    for room in listed_rooms(root):
        if room not in ARROWS:
            print(f"{ROOMS_FILE}: tools/layers.py knows no arrows of room {room}")
            failed += 1
    reach = closure()
    for file in sources(root):
        with open(os.path.join(root, file), encoding="utf-8") as f:
            text = without_comments(f.read())
        complaints = list(check_includes(root, file, text, reach))
        if file.startswith(tuple(d + "/" for d in NO_TARGET_TEXT)):
            complaints += check_target_text(text)
        for line, complaint in complaints:
            print(f"{file}:{line}: {complaint}")
        passed, failed = passed + (not complaints), failed + bool(complaints)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
