#!/usr/bin/env python3
"""Write the benchmark networks as ONNX files, with random but lively weights from a fixed seed.

usage: export_models.py OUT_DIR [NAME ...] [--dynamic]

Needs (PyPI): torch, torchvision, onnx and onnxscript (tools/requirements-models.txt), and transformers for bert_base
and gpt2.  The first five are the networks of the Hidet paper.  With --dynamic a second file NAME_dynamic.onnx has the
batch (and for tokens the sequence length) as symbols "n" and "s"; both files hold the same weights.

A freshly initialised network is dead: the signal shrinks layer by layer until a program that returned a constant
would pass a comparison.  So convolutions get He weights, batch norms are calibrated on random inputs,
zero-initialised heads get random weights, and every network is checked: its outputs for two inputs must differ by
more than a tenth of their largest magnitude.  Each file is checked by the ONNX checker, shape inference included.
"""
import argparse
import logging
import os
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import onnx
import torch
import torchvision

IMAGE, LARGE, TOKENS = (1, 3, 224, 224), (1, 3, 299, 299), (1, 128)
OPSET = 17


class Tokens(torch.nn.Module):
    """A transformer that takes token ids alone and returns its last hidden state."""

    def __init__(self, model, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, ids):
        return self.model(input_ids=ids, return_dict=True, **self.options).last_hidden_state


def enliven(model, shape):
    """Give a network of torchvision weights that carry a signal through all layers."""
    norms = []
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_in")
        elif isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # a cumulative average, so that a few calibration runs suffice
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0.0, 0.2)
            norms.append(module)
        elif isinstance(module, torch.nn.Linear) and module.weight.std() < 1e-3:
            torch.nn.init.normal_(module.weight, 0.0, module.in_features ** -0.5)
    if norms:
        model.train()
        for module in model.modules():
            if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
                module.eval()
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(4, *shape[1:]))
    return model


def vision(name, shape, **options):
    return enliven(getattr(torchvision.models, name)(weights=None, **options), shape)


def bert():
    import transformers
    config = transformers.BertConfig()
    config._attn_implementation = "eager"
    return Tokens(transformers.BertModel(config))


def gpt2():
    import transformers
    # The model asks whether a CUDA stream is being captured; without CUDA's libraries (tools/torch_stubs.py) that crashes.
    torch.cuda.is_current_stream_capturing = lambda: False
    config = transformers.GPT2Config()
    config._attn_implementation = "eager"
    config.use_cache = False
    return Tokens(transformers.GPT2Model(config), use_cache=False)


# name: (maker, input shape, whether the exporter must be the newer one, which is based on torch.export)
MODELS = {
    "resnet50": (lambda: vision("resnet50", IMAGE), IMAGE, False),
    "inception_v3": (lambda: vision("inception_v3", LARGE, aux_logits=True, init_weights=False), LARGE, False),
    "mobilenet_v2": (lambda: vision("mobilenet_v2", IMAGE), IMAGE, False),
    "bert_base": (bert, TOKENS, False),
    "gpt2": (gpt2, TOKENS, True),
    "efficientnet_b0": (lambda: vision("efficientnet_b0", IMAGE), IMAGE, False),
    "vit_b16": (lambda: vision("vit_b_16", IMAGE), IMAGE, True),
}


def sample(shape, batch=1):
    shape = (batch, *shape[1:])
    return torch.randint(0, 30000, shape) if len(shape) == 2 else torch.randn(shape)


def check_alive(name, model, shape):
    with torch.no_grad():
        a, b = model(sample(shape)), model(sample(shape))
    moved = float((a - b).abs().max() / a.abs().max())
    if not moved > 0.1:  # also when NaN
        sys.exit("%s is dead: two inputs move the output by %.1e of its largest magnitude" % (name, moved))
    return moved


def export(model, x, path, name, axes, newer):
    """axes: {dimension: symbol} of the input, or None for fixed sizes."""
    options = dict(input_names=[name], output_names=["out"])
    if newer:
        shapes = ({k: torch.export.Dim(v) for k, v in axes.items()},) if axes else None
        torch.onnx.export(model, (x,), path, dynamo=True, verbose=False, external_data=False,
                          dynamic_shapes=shapes, **options)
    else:
        torch.onnx.export(model, (x,), path, dynamo=False, opset_version=OPSET,
                          dynamic_axes=axes and {name: axes}, **options)
    onnx.checker.check_model(path, full_check=True)
    print(path, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", metavar="OUT_DIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--dynamic", action="store_true", help="also write NAME_dynamic.onnx")
    args = parser.parse_intermixed_args()
    unknown = [n for n in args.names if n not in MODELS]
    if unknown:
        parser.error("no such model: %s" % ", ".join(unknown))
    os.makedirs(args.out, exist_ok=True)
    for name in args.names or MODELS:
        torch.manual_seed(0)
        make, shape, newer = MODELS[name]
        model = make().eval()
        moved = check_alive(name, model, shape)
        print("%s: two inputs differ by %.2f of the largest output" % (name, moved), flush=True)
        tokens = len(shape) == 2
        label, axes = ("ids", {0: "n", 1: "s"}) if tokens else ("x", {0: "n"})
        with torch.no_grad():
            export(model, sample(shape), os.path.join(args.out, name + ".onnx"), label, None, newer)
            if args.dynamic:
                # A sample of two: the exporters take a dimension of one for a constant.
                export(model, sample(shape, 2), os.path.join(args.out, name + "_dynamic.onnx"), label, axes, newer)


if __name__ == "__main__":
    main()
