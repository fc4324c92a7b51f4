"""Every node of a model by itself, on what it got in ONNX Runtime: whether it gives what it gave there.

    text, wrong = cut.compare("model.onnx", {"x": array}, "build")       # wrong: [(output, what is wrong)]

The model is cut at every tensor: each becomes an input of the nodes that take it, so that no error of one node reaches
another.  For models that round to integers between layers, where whole runs of two correct programs drift apart.
Bodies of control flow are not cut.

Nodes that round to integers inside, at each step of a recurrence (INSIDE), are held to the limit of all others at the first
step, where nothing has been rounded yet that both had not been given, and at all that follow until the two part: there by at
most one step of the rounding.  From then on they work with different numbers and are not held to each other.
"""
import os
import tempfile
from collections import namedtuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import library

Report = namedtuple("Report", "wrong worst")
FLOAT_LIMIT = 1e-5  # of the largest magnitude
INSIDE = {"DynamicQuantizeLSTM": 1 / 255}
STEPS = 1  # how far integers may be off: sums of floating-point numbers that lie between two of them


def values_of_all(model, feeds):
    """{tensor: what it is in ONNX Runtime}, without its optimisations."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    there = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # with more, DynamicQuantizeLSTM rounds each thread's rows by themselves
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return dict(zip(names, session.run(names, feeds)))


def cut_model(model, values):
    """The model with every edge cut; small integers, which may be shapes, become constants.  (model, feeds)"""
    known = {tensor.name for tensor in model.graph.initializer}
    nodes, feeds, constants = [], {}, {}

    def source(name):
        value = values[name]
        if value.dtype in (np.int64, np.int32) and value.size <= 16:
            constants["cut_" + name] = value
        else:
            feeds["cut_" + name] = value
        return "cut_" + name

    for node in model.graph.node:
        twin = onnx.NodeProto()
        twin.CopyFrom(node)
        if node.op_type != "Constant":
            for k, name in enumerate(node.input):
                twin.input[k] = name if not name or name in known else source(name)
            nodes.append(twin)
        else:
            known.update(node.output)
            constants[node.output[0]] = values[node.output[0]]
    outputs = [describe(name, values[name]) for node in nodes for name in node.output if name]
    inputs = [describe(name, array) for name, array in feeds.items()]
    initializers = [*model.graph.initializer, *(numpy_helper.from_array(a, n) for n, a in constants.items())]
    graph = helper.make_graph(nodes, "cut", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version), feeds


def run_ours(model, feeds, build):
    with tempfile.TemporaryDirectory(prefix="tilewright-cut-") as place:
        file = os.path.join(place, "model.onnx")
        onnx.save(model, file)
        program = library.Model(file, build)
        try:
            return program.run(feeds)
        finally:
            program.close()


def first_step(model, node, values):
    """(model of this node on the first step of its sequence, its inputs)"""
    name = node.input[0]
    known = {tensor.name for tensor in model.graph.initializer}
    values = {**values, name: values[name][:1]}
    alone = onnx.ModelProto.FromString(model.SerializeToString())
    del alone.graph.node[:], alone.graph.output[:], alone.graph.input[:]
    alone.graph.node.append(node)
    needed = [n for n in dict.fromkeys(node.input) if n and n not in known]
    alone.graph.input.extend(describe(n, values[n]) for n in needed)
    alone.graph.output.extend(onnx.ValueInfoProto(name=n) for n in node.output if n)
    wanted = values_of_all(alone, {n: values[n] for n in needed})
    pieces, feeds = cut_model(alone, {**values, **wanted})
    return pieces, feeds, wanted


def describe(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def parting(got, want, scale):
    """How far off a sequence [steps, directions, ..] is where the two first part; 0 where they never do."""
    off = np.abs(got.astype(np.float64) - want).reshape(*want.shape[:2], -1).max(2, initial=0) / scale
    off = np.where(np.isnan(off), np.inf, off)
    firsts = []
    for direction, steps in enumerate(off.T):  # one of a single direction may go either way
        ways = (steps, steps[::-1]) if off.shape[1] == 1 else (steps[::-1],) if direction else (steps,)
        firsts.append(min(float(next((x for x in way if x > FLOAT_LIMIT), 0.0)) for way in ways))
    return max(firsts, default=0.0)


def judge(pieces, found, values, limits, report):
    """limits: {output: (step of its rounding, the sequence that its node makes)}"""
    parted = set()
    for output in pieces.graph.output:
        got, want = found[output.name], values[output.name]
        if got.shape != want.shape or got.dtype != want.dtype:
            report.wrong.append((output.name, "is %s %s, not %s %s" % (got.dtype, got.shape, want.dtype, want.shape)))
        elif np.issubdtype(want.dtype, np.floating):
            scale = np.abs(want).max(initial=0) or 1.0
            error = float(np.abs(got.astype(np.float64) - want).max(initial=0) / scale)
            limit, sequence = limits.get(output.name, (FLOAT_LIMIT, None))
            if output.name == sequence:
                error = parting(got, want, scale)
                if error > 0:
                    parted.add(sequence)
            elif sequence in parted:  # a last state, of a sequence that has gone another way
                continue
            kind = "inside" if sequence else "floats"
            report.worst[kind] = max(report.worst[kind], error)
            if not error <= limit:
                report.wrong.append((output.name, "is off by %.1e of the largest magnitude" % error))
        elif want.size:
            off = np.abs(got.astype(np.int64) - want.astype(np.int64))
            report.worst["apart"] += int((off > 0).sum())
            report.worst["integers"] += off.size
            if off.max() > STEPS:
                report.wrong.append((output.name, "is off by %d steps" % off.max()))


def compare(path, feeds, build):
    model = onnx.load(path)
    values = {**feeds, **values_of_all(model, feeds)}
    pieces, inputs = cut_model(model, values)
    rounding = [node for node in model.graph.node if node.op_type in INSIDE]
    limits = {name: (INSIDE[node.op_type], node.output[0]) for node in rounding for name in node.output if name}
    report = Report([], dict.fromkeys(("floats", "inside", "apart", "integers"), 0))
    judge(pieces, run_ours(pieces, inputs, build), values, limits, report)
    for node in rounding:
        first, inputs, wanted = first_step(model, node, values)
        judge(first, run_ours(first, inputs, build), wanted, {}, report)
    text = "%d nodes by themselves: floats at most %.1e off, %d of %d integers off by a step" % (
        len(pieces.graph.node), report.worst["floats"], report.worst["apart"], report.worst["integers"])
    if rounding:
        text += "; %s where it parts at most %.1e off, a step being %.1e" % (
            rounding[0].op_type, report.worst["inside"], INSIDE[rounding[0].op_type])
    return text, report.wrong
