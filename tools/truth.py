"""A model's outputs in double precision, by the reference evaluator of the onnx package: what is nearer to it is right.

    outputs = truth.run("model.onnx", {"x": array}, ["y"])        # {name: float64 array}

Every float32 of the model becomes a float64: inputs, constants, attributes, the targets of Cast.  Convolutions, which the
evaluator does slowly, are done here by matrix products of numpy, one for each place of the window, and so is
BatchNormalization, which up to opset 13 it computes as in training.
"""
import itertools

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


def tuples(x, kernel, auto_pad, dilations, pads, strides):
    """Dilations, strides, and the padding before and after, one for each axis of the window."""
    rank = len(kernel)
    dilations, strides = dilations or [1] * rank, strides or [1] * rank
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, k, d, s in zip(x.shape[2:], kernel, dilations, strides):
            whole = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
            small, large = whole // 2, whole - whole // 2
            before.append(small if auto_pad == "SAME_UPPER" else large)
            after.append(large if auto_pad == "SAME_UPPER" else small)
    else:
        pads = pads if pads and auto_pad != "VALID" else [0] * (2 * rank)
        before, after = pads[:rank], pads[rank:]
    return dilations, strides, list(zip(before, after))


class Conv(OpRun):
    op_domain = ""

    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, pads=None, strides=None):
        kernel = w.shape[2:]
        dilations, strides, pads = tuples(x, kernel, auto_pad, dilations, pads, strides)
        padded = np.pad(x, [(0, 0), (0, 0), *pads])
        sizes = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(padded.shape[2:], kernel, dilations, strides)]
        n, group = x.shape[0], group or 1
        weights = w.reshape(group, w.shape[0] // group, w.shape[1], *kernel)
        y = np.zeros((n, group, weights.shape[1], int(np.prod(sizes))))
        for at in itertools.product(*map(range, kernel)):
            window = tuple(slice(a * d, a * d + (size - 1) * s + 1, s)
                           for a, d, size, s in zip(at, dilations, sizes, strides))
            y += weights[(slice(None),) * 3 + at] @ padded[(slice(None),) * 2 + window].reshape(n, group, w.shape[1], -1)
        y = y.reshape(n, w.shape[0], *sizes)
        return (y if b is None else y + b.reshape(-1, *[1] * len(kernel)),)


class BatchNormalization(OpRun):
    op_domain = ""

    def _run(self, x, scale, bias, mean, variance, epsilon=None, **_):
        lay = lambda v: v.reshape(-1, *[1] * (x.ndim - 2))
        return (lay(scale / np.sqrt(variance + (1e-5 if epsilon is None else epsilon))) * (x - lay(mean)) + lay(bias),)


class RandomNormalLike(OpRun):
    """Models that have noise are run with none of it: what it is multiplied by is 0."""
    op_domain = ""

    def _run(self, x, **_):
        return (np.zeros(x.shape),)


class GatherElements(OpRun):
    """Also with indices that are fewer than the data along other axes, which the evaluator refuses."""
    op_domain = ""

    def _run(self, data, indices, axis=None):
        at = list(np.indices(indices.shape))
        at[axis or 0] = indices
        return (data[tuple(at)],)


def widen_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def widen_type(kind):
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type == TensorProto.FLOAT:
        kind.tensor_type.elem_type = TensorProto.DOUBLE


def widen(graph):
    for tensor in graph.initializer:
        widen_tensor(tensor)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        widen_type(value.type)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                widen_tensor(attribute.t)
            if attribute.HasField("g"):
                widen(attribute.g)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def run(path, feeds, outputs):
    model = onnx.load(path)
    widen(model.graph)
    wide = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in feeds.items()}
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model, new_ops=[Conv, BatchNormalization, RandomNormalLike, GatherElements]).run(outputs, wide)
    return dict(zip(outputs, found))
