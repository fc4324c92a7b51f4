#!/usr/bin/env python3
"""Test what is installed: exported names, the header alone, programs built by pkg-config and by CMake.

usage: test_install.py        TILEWRIGHT_BUILD: the build folder, default build/; the last line is "N passed, N failed"
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("TILEWRIGHT_BUILD", os.path.join(ROOT, "build"))

PROGRAM = r"""
#include <tilewright.h>
#include <stdio.h>
int main(void)
{
	tilewright_model *model = NULL;
	if (tilewright_compile_file("there is no such file", NULL, &model) == 0)
		return 1;
	puts(tilewright_last_error());
	return model != NULL;
}
"""
LISTS = """cmake_minimum_required(VERSION 3.20)
project(client C)
find_package(tilewright REQUIRED)
add_executable(with_shared client.c)
target_link_libraries(with_shared PRIVATE tilewright::tilewright_shared)
add_executable(with_static client.c)
target_link_libraries(with_static PRIVATE tilewright::tilewright_static)
"""


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError("%s\n%s" % (" ".join(command), done.stdout))
    return done.stdout


def check_program(path, **more):
    if "there is no such file" not in run([path], **more):
        raise RuntimeError(path + " does not name the missing file")


def exported_names(place):
    library = glob.glob(place + "/**/libtilewright.so", recursive=True)[0]
    names = [line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).splitlines()]
    strangers = [n for n in names if not n.startswith("tilewright_")]
    if strangers or not names:
        raise RuntimeError("exported besides tilewright_*: %s" % " ".join(strangers[:20]))


def header_alone(place):
    source = os.path.join(place, "header.c")
    with open(source, "w") as f:
        f.write("#include <tilewright.h>\n#include <tilewright.h>\nint none;\n")
    for standard in ("c99", "c17"):
        run(["cc", "-std=" + standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-I" + place + "/include", "-c", source,
             "-o", os.devnull])


def by_pkg_config(place):
    where = os.path.dirname(glob.glob(place + "/**/tilewright.pc", recursive=True)[0])
    words = run(["pkg-config", "--cflags", "--libs", "tilewright"], env={**os.environ, "PKG_CONFIG_PATH": where}).split()
    program = os.path.join(place, "by_pkg_config")
    run(["cc", os.path.join(place, "client", "client.c"), *words, "-o", program])
    check_program(program, env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(where)})


def by_cmake(place):
    client = os.path.join(place, "client")
    run(["cmake", "-S", client, "-B", client + "/build", "-G", "Ninja", "-DCMAKE_PREFIX_PATH=" + place])
    run(["cmake", "--build", client + "/build"])
    for name in ("with_shared", "with_static"):
        check_program(os.path.join(client, "build", name))


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as place:
        run(["cmake", "--install", BUILD, "--prefix", place])
        os.mkdir(os.path.join(place, "client"))
        for name, text in (("client.c", PROGRAM), ("CMakeLists.txt", LISTS)):
            with open(os.path.join(place, "client", name), "w") as f:
                f.write(text)
        tests = [exported_names, header_alone, by_cmake]
        if shutil.which("pkg-config"):
            tests.append(by_pkg_config)
        for test in tests:
            try:
                test(place)
                passed += 1
            except (RuntimeError, IndexError, OSError) as error:
                print("%s: %s" % (test.__name__, error))
                failed += 1
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
