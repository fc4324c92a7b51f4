#!/usr/bin/env python3
"""Minimax coefficients of src/ir/math.tw: Remez exchange on a grid, then the coefficients are rounded to the type one by one, each time refitting
those that are left. Prints name, largest error (relative to what the polynomial corrects) and the coefficients, lowest power first.
Needs mpmath. Usage: math_coefficients.py [NAME..]"""
import sys
import struct
from mpmath import mp, mpf, matrix, lu_solve, exp, log, sqrt, tan, atan, asin, erf, erfc, sin, cos, pi

mp.dps = 50


def to_f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0]) if abs(x) > 0 else mpf(0)


def to_f64(x):
    return mpf(float(x))


def remez(f, w, powers, lo, hi, points):
    """c with max over the grid of |w(x) (f(x) - sum c_k x^k)| as small as can be."""
    n = len(powers)
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(pi * i / (points - 1)) for i in range(points)]
    fx = [f(x) for x in grid]
    wx = [w(x) for x in grid]
    keep = [i for i in range(points) if abs(wx[i]) > mpf(10) ** -12 * max(wx)]  # nothing to fit where the weight vanishes
    grid, fx, wx = [grid[i] for i in keep], [fx[i] for i in keep], [wx[i] for i in keep]
    px = [[x ** k for k in powers] for x in grid]
    m = len(grid)
    ref = [round(i * (m - 1) / n) for i in range(n + 1)]
    best = None
    for _ in range(25):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for r, i in enumerate(ref):
            for k in range(n):
                a[r, k] = px[i][k]
            a[r, n] = (-1) ** r / wx[i]
            b[r] = fx[i]
        s = lu_solve(a, b)
        c = [s[k] for k in range(n)]
        e = [wx[i] * (fx[i] - sum(ck * pk for ck, pk in zip(c, px[i]))) for i in range(m)]
        worst = max(abs(v) for v in e)
        if best is None or worst < best[0]:
            best = (worst, c)
        if worst <= abs(s[n]) * mpf("1.0005"):
            break
        # new reference: the largest error of each run of one sign, then the n + 1 largest neighbours
        runs = []
        for i, v in enumerate(e):
            if runs and (e[runs[-1]] > 0) == (v > 0):
                if abs(v) > abs(e[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > n + 1:
            runs.pop(0 if abs(e[runs[0]]) < abs(e[runs[-1]]) else -1)
        if len(runs) < n + 1:
            break
        ref = runs
    return best


def fit(f, w, powers, lo, hi, kind, points=301):
    rounding = to_f32 if kind == "f32" else to_f64
    fixed = []
    left = list(powers)
    while left:
        g = lambda x: f(x) - sum(c * x ** k for k, c in fixed)
        _, c = remez(g, w, left, lo, hi, points)
        fixed.append((left[0], rounding(c[0])))
        left = left[1:]
    worst = mpf(0)
    for i in range(1000):
        x = lo + (hi - lo) * (mpf(i) + mpf("0.5")) / 1000
        worst = max(worst, abs(w(x) * (f(x) - sum(c * x ** k for k, c in fixed))))
    return worst, [c for _, c in fixed]


def series(z, term, n=60):
    """sum of term(k) z^k: what (f(x) - start) / power would lose to cancellation near 0."""
    s, p = mpf(0), mpf(1)
    for k in range(n):
        s += term(k) * p
        p *= z
    return s


LN2 = log(mpf(2))
SQ = sqrt(mpf(2))
T8 = tan(pi / 8)


def jobs():
    fact = [mp.factorial(k) for k in range(80)]
    half = LN2 / 2 * mpf("1.01")
    one = lambda x: mpf(1)
    # exp(r) = 1 + r + r^2 P(r)
    g = lambda r: series(r, lambda k: 1 / fact[k + 2])
    yield "exp", g, lambda r: r * r, -half, half, {"f32": 5, "f64": 11}
    # the same to f32's precision, in f64 arithmetic: for powers
    yield "exp_mid", g, lambda r: r * r, -half, half, {"f64": 7}
    # log(1 + f) = f - f^2/2 + f^3 P(f)
    lo, hi = 1 / SQ - 1, SQ - 1
    h = lambda f: series(f, lambda k: mpf((-1) ** k) / (k + 3)) if abs(f) < mpf("0.02") else (log(1 + f) - f + f * f / 2) / f ** 3
    yield "log", h, lambda f: f * f, lo, hi, {"f32": 8}
    # log(1 + f) = 2 s + s z P(z), s = f / (2 + f), z = s^2
    smax = (SQ - 1) / (SQ + 1)
    yield "log_s", lambda z: series(z, lambda k: mpf(2) / (2 * k + 3)), lambda z: z, mpf(0), smax ** 2, {"f32": 3, "f64": 8}
    yield "log_mid", lambda z: series(z, lambda k: mpf(2) / (2 * k + 3)), lambda z: z, mpf(0), smax ** 2, {"f64": 5}
    # log(1 + f) = 2 s (1 + z / 3 + z^2 P(z)): for powers
    yield "log_tail", lambda z: series(z, lambda k: mpf(1) / (2 * k + 5)), lambda z: z * z, mpf(0), smax ** 2, {"f64": 7}
    # erf(x) = x + x P(x^2), |x| <= 0.95
    e = lambda z: series(z, lambda k: 2 / sqrt(pi) * (-1) ** k / (fact[k] * (2 * k + 1)))
    yield "erf", lambda z: e(z) - 1, lambda z: 1 / e(z), mpf(0), mpf("0.9025"), {"f32": 7, "f64": 14}
    # erfc(a) = exp(P(a)), 0.95 <= a <= 4
    yield "erfc", lambda a: log(erfc(a)), erfc, mpf("0.95"), mpf(4), {"f32": 8}
    # erfc(a) = exp(P(u) - a^2), u = (a - 2) / (a + 2), 0.95 <= a <= 6
    back = lambda u: 2 * (1 + u) / (1 - u)
    yield "erfc_u", lambda u: log(erfc(back(u))) + back(u) ** 2, lambda u: erfc(back(u)), (mpf("0.95") - 2) / mpf("2.95"), mpf("0.5"), {"f64": 19}
    # tanh(x) = x + x z P(z), z = x^2 <= 0.4
    th = lambda z: (mp.tanh(sqrt(z)) / sqrt(z) - 1) / z if z > mpf("1e-12") else mpf(-1) / 3 + 2 * z / 15
    yield "tanh", th, lambda z: z, mpf(0), mpf("0.4"), {"f32": 5}
    # asin(x) = x + x z P(z), z = x^2 <= 1/4
    binom = lambda k: fact[2 * k] / (mpf(4) ** k * fact[k] ** 2)
    yield "asin", lambda z: series(z, lambda k: binom(k + 1) / (2 * k + 3), 39), lambda z: z, mpf(0), mpf("0.2505"), {"f32": 5, "f64": 12}
    # atan(x) = x + x z P(z), |x| <= tan(pi / 8)
    yield "atan", lambda z: series(z, lambda k: mpf((-1) ** (k + 1)) / (2 * k + 3)), lambda z: z, mpf(0), T8 ** 2 * mpf("1.001"), {"f32": 5, "f64": 12}
    # sin(x) = x + x z P(z); cos(x) = 1 - z/2 + z^2 P(z); |x| <= pi / 4
    q = (pi / 4 * mpf("1.001")) ** 2
    yield "sin", lambda z: series(z, lambda k: mpf((-1) ** (k + 1)) / fact[2 * k + 3], 30), lambda z: z, mpf(0), q, {"f32": 4, "f64": 6}
    yield "cos", lambda z: series(z, lambda k: mpf((-1) ** k) / fact[2 * k + 4], 30), lambda z: z * z, mpf(0), q, {"f32": 3, "f64": 6}


def main():
    for name, f, w, lo, hi, counts in jobs():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        for kind, n in counts.items():
            worst, c = fit(f, w, list(range(n)), lo, hi, kind)
            print("%s_%s  error 2^%.1f" % (name, kind, float(mp.log(worst, 2))))
            for k, v in enumerate(c):
                print("    c%d = %s" % (k, float(v).hex()))
            sys.stdout.flush()


main()
