#!/usr/bin/env python3
"""Time one model in another inference engine; one contender of versus.py, in a process of its own.

usage: peer.py ENGINE MODEL.onnx FOLDER THREADS RUNS [--keep]        ENGINE: ort or ov

Inputs are FOLDER/in/K.npy in the order of FOLDER/names.json's "inputs".  Prints one line of JSON like `tilewright
bench --json`: median_ms, min_ms, load_ms (from the file to the first output), threads.  --keep writes outputs to
FOLDER/ref/K.npy.
"""
import json
import os
import statistics
import sys
import time


def load_ort(model, feeds, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def load_ov(model, feeds, threads):
    import openvino
    core = openvino.Core()
    graph = core.read_model(model)
    graph.reshape({name: list(value.shape) for name, value in feeds.items()})
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(graph, "CPU", options).create_infer_request()

    def run():
        found = request.infer(feeds)
        return [found[o] for o in request.model_outputs]

    return run


def main():
    engine, model, folder, threads, runs = sys.argv[1:6]
    threads, runs = int(threads), int(runs)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import numpy as np
    with open(os.path.join(folder, "names.json")) as f:
        names = json.load(f)["inputs"]
    feeds = {name: np.load(os.path.join(folder, "in", "%d.npy" % k)) for k, name in enumerate(names)}
    start = time.perf_counter()
    run = {"ort": load_ort, "ov": load_ov}[engine](model, feeds, threads)
    outputs = run()
    load = time.perf_counter() - start
    if "--keep" in sys.argv:
        os.makedirs(os.path.join(folder, "ref"), exist_ok=True)
        for k, value in enumerate(outputs):
            np.save(os.path.join(folder, "ref", "%d.npy" % k), value)
    for _ in range(2):
        run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps({"median_ms": statistics.median(times), "min_ms": min(times), "load_ms": load * 1e3,
                      "threads": threads}))


if __name__ == "__main__":
    main()
