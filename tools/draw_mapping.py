#!/usr/bin/env python3
"""Draw task mappings as SVG: a cell is a task, its colour the worker, its label the worker and the order in which the
worker does its tasks.

usage: draw_mapping.py MAPPING [--cell N] [--label worker|order|both|none] [--colours N] [--mark W] [-o FILE.svg]
       draw_mapping.py --list FILE [--check]     every picture of a list: lines "NAME.svg: MAPPING [options]",
                                                  NAME beside the list

--colours N    colour by worker / N: a warp, a core
--mark W       draw the tasks of worker W in black
--check        change nothing; exit code 1 where a picture is not what it would be
"""
import argparse
import colorsys
import os
import shlex
import sys

import task_mapping

FONT = 'font-family="DejaVu Sans, Verdana, sans-serif" text-anchor="middle" dominant-baseline="central"'


def colour(k):
    """Neighbouring numbers lie far apart on the wheel."""
    return "#" + "".join(f"{round(255 * x):02x}" for x in colorsys.hls_to_rgb(k * 0.381966 % 1, 0.78, 0.65))


def runs(colours, rows, cols):
    """Rectangles of one colour: (row, column, height, width, colour); equal runs of rows one after another are one."""
    open_runs, done = {}, []
    for r in range(rows + 1):
        now = {}
        c = 0
        while r < rows and c < cols:
            end = c
            while end < cols and colours[r][end] == colours[r][c]:
                end += 1
            now[c, end, colours[r][c]] = 1
            c = end
        for key, first in list(open_runs.items()):
            if key not in now:
                done.append((first, key[0], r - first, key[1] - key[0], key[2]))
                del open_runs[key]
        for key in now:
            open_runs.setdefault(key, r)
    return sorted(done)


def draw(options):
    mapping = task_mapping.parse(options.mapping)
    shape = mapping.shape if len(mapping.shape) == 2 else (1, *mapping.shape)
    cells = {(task if len(task) == 2 else (0, *task)): who for task, who in task_mapping.table(mapping).items()}
    rows, cols, size = *shape, options.cell
    width, height = cols * size + 2, rows * size + 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="-1 -1 {width} {height}">',
           f"<title>{options.mapping}</title>", f'<g stroke="#555" {FONT}>' if options.label != "none" else "<g>"]

    def of(r, c):
        worker, _ = cells[r, c]
        return "black" if worker == options.mark else colour(worker // options.colours)

    colours = [[of(r, c) for c in range(cols)] for r in range(rows)]
    if options.label == "none":
        for r, c, h, w, fill in runs(colours, rows, cols):
            out.append(f'<rect x="{c * size}" y="{r * size}" width="{w * size}" height="{h * size}" fill="{fill}"/>')
    else:
        for r in range(rows):
            for c in range(cols):
                worker, order = cells[r, c]
                x, y, ink = c * size, r * size, "white" if worker == options.mark else "black"
                text = {"worker": f"{worker}", "order": f"{order}", "both": f"{worker}"}[options.label]
                out.append(f'<rect x="{x}" y="{y}" width="{size}" height="{size}" fill="{colours[r][c]}"/>')
                middle = y + size * (0.4 if options.label == "both" else 0.5)
                place = f'x="{x + size / 2:g}" fill="{ink}" stroke="none"'
                out.append(f'<text {place} y="{middle:g}" font-size="{size * 0.42:g}">{text}</text>')
                if options.label == "both":
                    below = f'y="{y + size * 0.78:g}" font-size="{size * 0.26:g}"'
                    out.append(f"<text {place} {below}>step {order}</text>")
    return "\n".join([*out, "</g>", "</svg>", ""])


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mapping", nargs="?")
    p.add_argument("--cell", type=int, default=36)
    p.add_argument("--label", choices=["worker", "order", "both", "none"], default="both")
    p.add_argument("--colours", type=int, default=1)
    p.add_argument("--mark", type=int, default=-1)
    p.add_argument("-o", dest="out")
    p.add_argument("--list", metavar="FILE")
    p.add_argument("--check", action="store_true")
    return p


def pictures(path):
    """(file, options) of each line."""
    with open(path) as f:
        for line in (x for x in f if not x.startswith("#")):
            name, _, rest = line.partition(":")
            if rest:
                yield os.path.join(os.path.dirname(path), name.strip()), parser().parse_args(shlex.split(rest))


def main():
    options = parser().parse_args()
    if not options.list:
        if not options.mapping:
            parser().error("a mapping, or --list")
        text = draw(options)
        if options.out:
            with open(options.out, "w") as f:
                f.write(text)
        else:
            sys.stdout.write(text)
        return 0
    stale = 0
    for path, one in pictures(options.list):
        text = draw(one)
        if options.check:
            known = open(path).read() if os.path.exists(path) else ""
            if known != text:
                print(f"{path} is not what tools/draw_mapping.py --list {options.list} draws")
                stale += 1
        else:
            with open(path, "w") as f:
                f.write(text)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
