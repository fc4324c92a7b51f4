#!/usr/bin/env python3
"""Run models with loops and branches that were damaged at random, and see that each is refused or runs.

usage: fuzz_models.py TILEWRIGHT DIR [--count N] [--seed S] [--keep DIR]      DIR: folders of tools/node_cases.py

A damaged model has one to three faults: inputs of nodes exchanged, taken away or left empty, nodes removed, doubled or of another
operator, attributes, types and sizes changed, bodies exchanged, outputs renamed, or bytes of the file changed.  `tilewright run`
must end by itself with exit code 0 or 1, in time, and say why where it refuses; under the sanitizers any finding of theirs is
another exit code.  Model K of a seed is always the same; --keep writes those that failed.  The last line is
"N passed, N failed".
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

import onnx
from onnx import AttributeProto, TensorProto, helper

MODELS = re.compile(r"scan|loop|test_if|lstm|gru|rnn|linear_attention_delta|range_float_type.*expanded|nonzero|unique|nonmax|compress")
SECONDS = 60
SIZES = (-1, 0, 1, 2, 3, 7, 64, 1 << 20, 1 << 31, (1 << 63) - 1, -(1 << 63))


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def names_of(graph):
    names = [v.name for v in graph.input] + [t.name for t in graph.initializer]
    return names + [name for node in graph.node for name in node.output if name] or ["nothing"]


def damage_input(rng, graph, node):
    if not node.input:
        node.input.append(rng.choice(names_of(graph)))
    else:
        node.input[rng.randrange(len(node.input))] = rng.choice(names_of(graph) + ["", "unknown"])


def damage_count(rng, graph, node):
    if node.input and rng.random() < 0.5:
        del node.input[rng.randrange(len(node.input))]
    elif node.output and rng.random() < 0.5:
        del node.output[rng.randrange(len(node.output))]
    else:
        node.output.append("more%d" % rng.randrange(100))


def damage_attribute(rng, graph, node):
    if not node.attribute:
        node.attribute.append(helper.make_attribute(rng.choice(["axis", "num_scan_inputs", "direction"]), rng.choice(SIZES)))
        return
    attribute = rng.choice(node.attribute)
    if attribute.type == AttributeProto.INT:
        attribute.i = rng.choice(SIZES)
    elif attribute.type == AttributeProto.INTS:
        attribute.ints[:] = [rng.choice(SIZES) for _ in range(rng.randrange(5))]
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e30])
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice([b"", b"reverse", b"bidirectional", b"\xff\xfe", b"x" * 1000])
    elif attribute.type == AttributeProto.TENSOR:
        damage_tensor(rng, attribute.t)
    else:
        node.attribute.remove(attribute)


def damage_tensor(rng, tensor):
    if rng.random() < 0.5 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(SIZES)
    elif rng.random() < 0.5:
        tensor.data_type = rng.randrange(30)
    else:
        tensor.raw_data = bytes(rng.randrange(256) for _ in range(len(tensor.raw_data)))


def damage_nodes(rng, graph, node):
    choice = rng.random()
    if choice < 0.4:
        graph.node.remove(node)
    elif choice < 0.7:
        graph.node.append(node)
    else:
        node.op_type = rng.choice(["Loop", "If", "Scan", "LSTM", "Identity", "Shape", "NonZero", "Add", "Concat", "Reshape"])


def damage_values(rng, graph, node):
    values = [*graph.input, *graph.output]
    if graph.initializer and rng.random() < 0.3:
        damage_tensor(rng, rng.choice(graph.initializer))
    elif values:
        value = rng.choice(values)
        kind = value.type.tensor_type
        if rng.random() < 0.3:
            kind.elem_type = rng.choice([TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING, 77])
        elif rng.random() < 0.3:
            value.name = rng.choice(names_of(graph))
        elif kind.shape.dim:
            dim = rng.choice(kind.shape.dim)
            if rng.random() < 0.5:
                dim.dim_param = rng.choice(["N", "M", "a b", ""])
            else:
                dim.dim_value = rng.choice(SIZES)
        else:
            value.type.Clear()


def damage_bodies(rng, graph, node):
    bodies = [a for n in graph.node for a in n.attribute if a.type == AttributeProto.GRAPH]
    if len(bodies) < 2:
        damage_input(rng, graph, node)
        return
    one, other = rng.sample(bodies, 2)
    one.g.CopyFrom(onnx.GraphProto.FromString(other.g.SerializeToString()))


KINDS = (damage_input, damage_count, damage_attribute, damage_nodes, damage_values, damage_bodies)


def damaged(data, rng):
    """Bytes of the model with faults."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.randrange(1, 4)):
        graph = rng.choice(list(graphs_of(model.graph)))
        if graph.node:
            rng.choice(KINDS)(rng, graph, rng.choice(graph.node))
    changed = bytearray(model.SerializeToString())
    if rng.random() < 0.2:
        for _ in range(rng.randrange(1, 9)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def symbols_of(data):
    """-d options for what the inputs leave open."""
    try:
        graph = onnx.ModelProto.FromString(data).graph
    except Exception:  # damaged too much
        return []
    found = {d.dim_param for v in graph.input for d in v.type.tensor_type.shape.dim if d.dim_param.isidentifier()}
    return [word for name in sorted(found) for word in ("-d", name + "=3")]


def verdict(program, path, data):
    """What is wrong, or None."""
    command = [program, "run", path, "--random", "1", "--threads", "2", "--no-cache", *symbols_of(data)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "took more than %d s" % SECONDS
    message = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1) or "Sanitizer" in message or "runtime error" in message:
        return "exit code %d: %s" % (done.returncode, message.strip()[-2000:])
    return "refused without a word" if done.returncode == 1 and not message.strip() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilewright")
    parser.add_argument("dir")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", metavar="DIR")
    options = parser.parse_args()
    program = os.path.abspath(options.tilewright)
    folders = sorted(name for name in os.listdir(options.dir) if MODELS.search(name))
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="tilewright-fuzz-") as place:
        path = os.path.join(place, "model.onnx")
        for k in range(options.count):
            rng = random.Random("%d %d" % (options.seed, k))
            name = rng.choice(folders)
            with open(os.path.join(options.dir, name, "model.onnx"), "rb") as f:
                data = damaged(f.read(), rng)
            with open(path, "wb") as f:
                f.write(data)
            wrong = verdict(program, path, data)
            passed, failed = passed + (wrong is None), failed + (wrong is not None)
            if wrong:
                print("FAIL model %d of seed %d (%s): %s" % (k, options.seed, name, wrong), flush=True)
                if options.keep:
                    os.makedirs(options.keep, exist_ok=True)
                    with open(os.path.join(options.keep, "%d-%d.onnx" % (options.seed, k)), "wb") as f:
                        f.write(data)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
