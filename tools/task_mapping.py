"""The algebra of task mappings in a few lines, for pictures: workers, shape, and f: worker -> its tasks in order.
src/tmap/ is the one that counts; the test of the pictures holds this one against the interpreter.

    spatial(d..)   prod(d) workers with one task each
    repeat(d..)    one worker that does all tasks in order
    f * g          for p in f(w / Wg), for q in g(w % Wg): the task p * shape(g) + q
"""
import itertools
import math
import re

FACTOR = re.compile(r"\s*(repeat|spatial)\(([^()\[\]]*)(?:,\s*ranks\s*=\s*\[([^\]]*)\])?\)\s*(\*|$)")


class Mapping:
    def __init__(self, workers, shape, tasks):
        self.workers, self.shape, self.tasks = workers, shape, tasks

    def __mul__(self, inner):
        def tasks(w):
            for p in self.tasks(w // inner.workers):
                for q in inner.tasks(w % inner.workers):
                    yield tuple(a * n + b for a, n, b in zip(p, inner.shape, q))

        return Mapping(self.workers * inner.workers, tuple(a * b for a, b in zip(self.shape, inner.shape)), tasks)


def in_order(shape, ranks):
    """All coordinates; the dimension of the highest rank runs fastest."""
    dims = sorted(range(len(shape)), key=lambda d: ranks[d])
    for at in itertools.product(*(range(shape[d]) for d in dims)):
        yield tuple(at[dims.index(d)] for d in range(len(shape)))


def factor(kind, shape, ranks):
    if kind == "repeat":
        return Mapping(1, shape, lambda w: in_order(shape, ranks))
    return Mapping(math.prod(shape), shape, lambda w: [next(itertools.islice(in_order(shape, ranks), w, None))])


def parse(text):
    whole, at = None, 0
    while at < len(text):
        m = FACTOR.match(text, at)
        if not m:
            raise ValueError(f"not a mapping: {text[at:]}")
        shape = tuple(int(d) for d in m.group(2).rstrip(", ").split(","))
        ranks = [int(r) for r in m.group(3).split(",")] if m.group(3) else list(range(len(shape)))
        one = factor(m.group(1), shape, ranks)
        whole = whole * one if whole else one
        at = m.end()
    return whole


def table(mapping):
    """{task: (worker, its number among the worker's tasks)}"""
    return {task: (w, k) for w in range(mapping.workers) for k, task in enumerate(mapping.tasks(w))}
