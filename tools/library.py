"""The shared library from Python, as far as the tools need it: a thin cover of include/tilewright.h by ctypes.

    model = library.Model("model.onnx", build="build")
    outputs = model.run({"x": numpy_array})      # {name: numpy array}, copies

A model is compiled, or taken from the cache, when it is made.  What fails raises Error with the library's words.
"""
import ctypes
import os

import numpy as np

TYPES = {np.dtype(name): number for name, number in (
    ("float32", 1), ("uint8", 2), ("int8", 3), ("uint16", 4), ("int16", 5), ("int32", 6), ("int64", 7), ("bool", 9),
    ("float16", 10), ("float64", 11), ("uint32", 12), ("uint64", 13))}
NUMBERS = {number: dtype for dtype, number in TYPES.items()}
MAX_RANK = 8


class Error(Exception):
    pass


class Port(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("rank", ctypes.c_int),
                ("dims", ctypes.c_int64 * MAX_RANK), ("dim_text", ctypes.c_char_p * MAX_RANK)]


class Tensor(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("rank", ctypes.c_int), ("dims", ctypes.c_int64 * MAX_RANK),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def load(build):
    library = ctypes.CDLL(os.path.join(build, "libtilewright.so"))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
            ("last_error", text, []),
            ("create_options", pointer, []),
            ("free_options", None, [pointer]),
            ("fix_symbol", number, [pointer, text, ctypes.c_int64]),
            ("compile_file", number, [text, pointer, ctypes.POINTER(pointer)]),
            ("free_model", None, [pointer]),
            ("count_outputs", number, [pointer]),
            ("get_output_port", ctypes.POINTER(Port), [pointer, number]),
            ("find_input", number, [pointer, text]),
            ("create_context", number, [pointer, number, ctypes.POINTER(pointer)]),
            ("free_context", None, [pointer]),
            ("set_input", number, [pointer, number, number, number, ctypes.POINTER(ctypes.c_int64), pointer]),
            ("run", number, [pointer]),
            ("get_output", number, [pointer, number, ctypes.POINTER(Tensor)])):
        function = getattr(library, "tilewright_" + name)
        function.restype, function.argtypes = result, arguments
    return library


class Model:
    """One model with one context.  fix: {symbol: size} to compile for."""

    def __init__(self, path, build, threads=0, fix=None):
        self.library, self.model, self.context = load(build), ctypes.c_void_p(), ctypes.c_void_p()
        options = ctypes.c_void_p(self.library.tilewright_create_options())
        try:
            for symbol, size in (fix or {}).items():
                self.call("fix_symbol", options, symbol.encode(), size)
            self.call("compile_file", os.fsencode(path), options, ctypes.byref(self.model))
        finally:
            self.library.tilewright_free_options(options)
        self.call("create_context", self.model, threads, ctypes.byref(self.context))

    def call(self, name, *arguments):
        if getattr(self.library, "tilewright_" + name)(*arguments):
            raise Error(self.library.tilewright_last_error().decode(errors="replace"))

    def run(self, feeds):
        held = []  # the arrays must stay until the run ends
        for name, value in feeds.items():
            value = np.require(value, requirements="C")
            held.append(value)
            index = self.library.tilewright_find_input(self.model, name.encode())
            if index < 0:
                raise Error("there is no input " + name)
            dims = (ctypes.c_int64 * MAX_RANK)(*value.shape)
            self.call("set_input", self.context, index, TYPES[value.dtype], value.ndim, dims,
                      value.ctypes.data_as(ctypes.c_void_p))
        self.call("run", self.context)
        return {self.library.tilewright_get_output_port(self.model, k).contents.name.decode(): self.output(k)
                for k in range(self.library.tilewright_count_outputs(self.model))}

    def output(self, index):
        tensor = Tensor()
        self.call("get_output", self.context, index, ctypes.byref(tensor))
        data = ctypes.string_at(tensor.data, tensor.bytes) if tensor.bytes else b""
        return np.frombuffer(data, NUMBERS[tensor.type]).reshape(tensor.dims[:tensor.rank])

    def close(self):
        self.library.tilewright_free_context(self.context)
        self.library.tilewright_free_model(self.model)
        self.context, self.model = None, None
