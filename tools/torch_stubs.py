#!/usr/bin/env python3
"""Make PyPI's torch importable for CPU work without its 2 GB of CUDA libraries.

usage: torch_stubs.py

PyPI's torch for x86-64 Linux is built for CUDA: its libraries are linked against libcublas, libcudnn and others, so
that even a program that only uses the CPU cannot load without them.  This script looks at the installed torch's
libraries, collects the functions that they expect of libraries which are not there, and compiles for each a library
of that name in which every function returns 100: "no CUDA device", the answer a machine without one gives.  torch
then reports that CUDA is not available and works on the CPU.  Needs a C compiler and readelf; does nothing where
nothing is missing.

Used for exporting models only (tools/venv.sh --models), where torch is installed without its dependencies.
"""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

NO_DEVICE = 100  # cudaErrorNoDevice


def torch_lib():
    spec = importlib.util.find_spec("torch")
    if spec is None:
        sys.exit("torch_stubs.py: torch is not installed")
    return os.path.join(os.path.dirname(spec.origin), "lib")


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", path))


def version_homes(path):
    """{symbol version: the library it belongs to}"""
    homes, library = {}, None
    for line in readelf("-V", path).splitlines():
        file = re.search(r"File: (\S+)", line)
        name = re.search(r"Name: (\S+)", line)
        if file:
            library = file.group(1)
        elif name and library:
            homes[name.group(1)] = library
    return homes


def symbols(path):
    """(defined names, {undefined name: version or ''})"""
    defined, undefined = set(), {}
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].endswith(":"):
            continue
        name, _, version = fields[7].replace("@@", "@").partition("@")
        if fields[6] != "UND":
            defined.add(name)
        elif fields[4] != "WEAK":
            undefined[name] = version
    return defined, undefined


def build(folder, library, functions):
    """functions: {name: symbol version or ''}"""
    with tempfile.TemporaryDirectory() as place:
        source, script = os.path.join(place, "stub.c"), os.path.join(place, "stub.map")
        with open(source, "w") as f:
            for name in functions:
                f.write("long %s(void) { return %d; }\n" % (name, NO_DEVICE))
        options = ["-Wl,-soname," + library]
        versions = {v for v in functions.values() if v}
        if versions:
            with open(script, "w") as f:
                for version in versions:
                    names = "".join("%s; " % n for n, v in functions.items() if v == version)
                    f.write("%s { global: %s};\n" % (version, names))
            options.append("-Wl,--version-script=" + script)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-fno-builtin", "-w", "-O1", *options, source,
                        "-o", os.path.join(folder, library)], check=True)


def main():
    folder = torch_lib()
    if os.path.isdir(os.path.join(os.path.dirname(os.path.dirname(folder)), "nvidia")):
        return  # installed with its dependencies
    present = {n for n in os.listdir(folder) if ".so" in n}
    paths = [os.path.join(folder, n) for n in sorted(present)]
    # Also where the system has some of them: then versions may not fit, and torch need not look at the device.
    missing = sorted(n for n in {n for p in paths for n in needed(p)} - present if re.match(r"lib(cu|nv|nccl)", n))
    missing = [n for n in missing if not n.startswith("libcuda.so")]  # the driver, loaded only by those who ask for it
    if not missing:
        return
    defined, undefined, homes = set(), {}, {}
    for path in paths:
        mine, wanted = symbols(path)
        defined |= mine
        undefined.update(wanted)
        homes.update(version_homes(path))
    wanted = {n: v for n, v in undefined.items() if n not in defined}
    # A symbol's version names its library; one without a version can come from any that all load: the CUDA runtime.
    loose = {n: v for n, v in wanted.items() if not v and re.match(r"_*(cu[a-zA-Z]|nv|nccl)", n)}
    for library in missing:
        functions = {n: v for n, v in wanted.items() if v and homes.get(v) == library}
        if library.startswith("libcudart."):
            functions.update(loose)
        build(folder, library, functions)
    print("made stand-ins for %d CUDA libraries" % len(missing))


if __name__ == "__main__":
    main()
