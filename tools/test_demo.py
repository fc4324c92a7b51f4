#!/usr/bin/env python3
"""Test the program that reads text off pictures: what it reads, where, and how it refuses what is no picture or model.

usage: test_demo.py [BUILD]     BUILD: default TILEWRIGHT_BUILD, else build/; the last line is "N passed, N failed"

What it should read of test/data/ocr.png is what was drawn there (tools/make_picture.py).  On other pictures, made from
that one, its texts, boxes and confidences are compared with tools/ocr_reference.py, which runs ONNX Runtime: turned by
a quarter, larger than the detection model is shown, cut, and one without text.
"""
import os
import subprocess
import sys
import tempfile

from PIL import Image, ImageOps

import make_picture
import models
import ocr_reference

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PICTURE = os.path.join(ROOT, "test", "data", "ocr.png")
PIXELS, CONFIDENCE = 1, 0.005  # how far boxes and confidences may lie from the reference's
SANITIZER = "AddressSanitizer", "runtime error:", "LeakSanitizer"

checks = {True: 0, False: 0}


def check(what, condition, shown=""):
    checks[bool(condition)] += 1
    if not condition:
        print("FAIL %s\n%s" % (what, shown))


class Demo:
    def __init__(self, program, files):
        self.program, self.files = program, files

    def run(self, picture, *options, files=None):
        return subprocess.run([self.program, *options, picture, *(files or self.files)], capture_output=True, text=True,
                              timeout=600)

    def read(self, picture, *options):
        """[(text, confidence, [(x, y)])], or the complaint"""
        done = self.run(picture, "--tsv", *options)
        if done.returncode != 0:
            return done.stderr or "exit code %d" % done.returncode
        found = []
        for line in done.stdout.splitlines():
            text, sure, corners = line.split("\t")
            found.append((text, float(sure), [tuple(int(n) for n in c.split(",")) for c in corners.split()]))
        return found


def is_near(found, expected):
    """Whether the texts are the same, and boxes and confidences nearly."""
    if isinstance(found, str) or len(found) != len(expected):
        return False
    return all(a[0] == b[0] and abs(a[1] - b[1]) <= CONFIDENCE and
               all(abs(p - q) <= PIXELS for c, d in zip(a[2], b[2]) for p, q in zip(c, d)) for a, b in zip(found, expected))


def drawn_order():
    """What was drawn, from top to bottom; what begins at nearly the same height, from left to right."""
    lines = sorted(make_picture.LINES, key=lambda line: line[3][1])
    assert [line[0] for line in lines[-2:]] == ["2+2=4", "no-warranty"]
    return [line[0] for line in lines]


def test_pictures(demo, place):
    found = demo.read(PICTURE)
    check("reads what was drawn", not isinstance(found, str) and [f[0] for f in found] == drawn_order(), found)
    check("the same with one thread", demo.read(PICTURE, "--threads", "1") == found, found)
    sheet = Image.open(PICTURE).convert("RGB")
    variants = {
        "itself": sheet,
        "turned": sheet.rotate(90, expand=True),
        "large": sheet.resize((1500, 1050), Image.BICUBIC),
        "cut": sheet.crop((20, 3, 613, 290)),
        "blank": Image.new("RGB", (97, 33), (200, 210, 220)),
        "dot": Image.new("RGB", (1, 1)),
    }
    for name, picture in variants.items():
        path = os.path.join(place, name + ".png")
        picture.save(path)
        expected = ocr_reference.read_picture(path, *demo.files)
        found = demo.read(path)
        check("%s: as the reference" % name, is_near(found, expected), "%s\n%s" % (found, expected))
    grey = os.path.join(place, "grey.png")
    ImageOps.grayscale(sheet).save(grey)
    found = demo.read(grey)
    check("grey: reads what was drawn", not isinstance(found, str) and [f[0] for f in found] == drawn_order(), found)


def test_tables(demo):
    done = demo.run(PICTURE)
    rows = done.stdout.splitlines()
    for text in drawn_order():
        check("the table shows %s" % text, sum("  %s" % text in row for row in rows) == 1, done.stdout)
    for name in ("detection", "direction", "recognition"):
        check("the table shows the time of %s" % name, sum(row.split()[:1] == [name] for row in rows) == 1, done.stdout)
    check("one line is upside down", sum("(upside down)" in row for row in rows) == 1, done.stdout)


def test_refusals(demo, place):
    text, half = os.path.join(place, "text.png"), os.path.join(place, "half.png")
    with open(text, "w") as f:
        f.write("no picture\n")
    with open(PICTURE, "rb") as whole, open(half, "wb") as f:
        f.write(whole.read()[:2000])
    det, cls, rec = demo.files
    for what, code, picture, files in (
            ("a missing picture", 1, os.path.join(place, "none.png"), demo.files),
            ("a file that is no picture", 1, text, demo.files),
            ("half a picture", 1, half, demo.files),
            ("a missing model", None, PICTURE, [det, cls, os.path.join(place, "none.onnx")]),
            ("a picture for a model", 1, PICTURE, [det, cls, PICTURE]),
            ("models in the wrong order", 1, PICTURE, [cls, det, rec]),
            ("a recognition model without characters", 1, PICTURE, [det, cls, cls])):
        done = demo.run(picture, files=files)
        good = done.returncode in ([1, 3] if code is None else [code]) and done.stderr.startswith("ocr: ")
        check("%s is refused" % what, good and not any(s in done.stderr for s in SANITIZER),
              "exit code %d\n%s" % (done.returncode, done.stderr))
    for options in (["--threads", "0"], ["--threads", "x"], ["--colour"], ["one more"]):
        done = demo.run(PICTURE, *options)
        check("wrong usage: %s" % " ".join(options), done.returncode == 2 and done.stderr.startswith("usage:"), done.stderr)


def test_readme():
    """The README shows the smallest client as it is."""
    with open(os.path.join(ROOT, "examples", "first", "first.c")) as f:
        program = f.read()
    with open(os.path.join(ROOT, "README.md")) as f:
        readme = f.read()
    body = program[program.index("int main"):].replace("\t", "    ")
    check("the README shows examples/first", body in readme.replace("\t", "    "), body)


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TILEWRIGHT_BUILD") or os.path.join(ROOT, "build")
    program = os.path.join(build, "example_ocr")
    if not os.path.exists(program):
        print("FAIL there is no %s" % program)
        checks[False] += 1
    else:
        demo = Demo(program, list(models.ensure(["ocr"]).values()))
        with tempfile.TemporaryDirectory() as place:
            test_pictures(demo, place)
            test_tables(demo)
            test_refusals(demo, place)
    test_readme()
    print("%d passed, %d failed" % (checks[True], checks[False]))
    sys.exit(checks[False] > 0)


if __name__ == "__main__":
    main()
