#!/usr/bin/env python3
"""Read the text off a picture with ONNX Runtime: what the demo program does, in Python, to check it against.

usage: ocr_reference.py PICTURE DET.onnx CLS.onnx REC.onnx

Prints a line for each text found, in reading order: TEXT <tab> confidence <tab> corners x,y x,y x,y x,y (top left,
top right, bottom right, bottom left as the text is read before it is turned).  Needs numpy, Pillow and onnxruntime.

The three steps: detection gives a map of how probable text is; each connected patch of it becomes a rectangle, which
may be slanted.  Direction says whether a line stands on its head.  Recognition gives character probabilities a
column.
"""
import math
import sys

import numpy as np
import onnxruntime
from PIL import Image

LARGEST_SIDE = 960
MAP_THRESHOLD, BOX_THRESHOLD, GROWTH = 0.3, 0.5, 1.6
SHORTEST_BEFORE, SHORTEST_AFTER = 3, 5
TURN_THRESHOLD, TEXT_THRESHOLD = 0.9, 0.5
LINE_HEIGHT, DIRECTION_WIDTH, RECOGNITION_WIDTH = 48, 192, 320


def sample(picture, x, y):
    """Bilinear samples of picture[h, w, c] at pixel centres (x, y); outside the edge pixel continues."""
    h, w = picture.shape[:2]
    x, y = np.clip(x, 0, w - 1), np.clip(y, 0, h - 1)
    x0, y0 = np.floor(x).astype(int), np.floor(y).astype(int)
    x1, y1 = np.minimum(x0 + 1, w - 1), np.minimum(y0 + 1, h - 1)
    fx, fy = (x - x0)[..., None], (y - y0)[..., None]
    top = picture[y0, x0] * (1 - fx) + picture[y0, x1] * fx
    bottom = picture[y1, x0] * (1 - fx) + picture[y1, x1] * fx
    return top * (1 - fy) + bottom * fy


def resize(picture, height, width):
    h, w = picture.shape[:2]
    x = (np.arange(width) + 0.5) * w / width - 0.5
    y = (np.arange(height) + 0.5) * h / height - 0.5
    return sample(picture, *np.meshgrid(x, y))


def normalised(picture):
    """[h, w, c] of 0..255 to [c, h, w] of -1..1"""
    return ((picture / 255 - 0.5) / 0.5).transpose(2, 0, 1).astype(np.float32)


def patches(mask):
    """Pixels (x, y) of each 8-connected patch of a mask."""
    h, w = mask.shape
    seen = np.zeros_like(mask)
    found = []
    for y, x in zip(*np.nonzero(mask)):
        if seen[y, x]:
            continue
        seen[y, x] = True
        stack, patch = [(x, y)], []
        while stack:
            px, py = stack.pop()
            patch.append((px, py))
            for ny in range(max(py - 1, 0), min(py + 2, h)):
                for nx in range(max(px - 1, 0), min(px + 2, w)):
                    if mask[ny, nx] and not seen[ny, nx]:
                        seen[ny, nx] = True
                        stack.append((nx, ny))
        found.append(patch)
    return found


def hull(points):
    """Corners of the convex hull, by Andrew's monotone chain."""
    points = sorted(set(points))
    if len(points) < 3:
        return points

    def half(ordered):
        chain = []
        for p in ordered:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-2], chain[-1]
                if (bx - ax) * (p[1] - ay) - (by - ay) * (p[0] - ax) > 0:
                    break
                chain.pop()
            chain.append(p)
        return chain[:-1]

    return half(points) + half(points[::-1])


def smallest_rectangle(points):
    """The rectangle of least area around points: (centre, unit vector u, half extents along u and across it)."""
    corners = np.array(hull(points), float)
    best = None
    for a, b in zip(corners, np.roll(corners, -1, axis=0)):
        length = np.hypot(*(b - a))
        u = (b - a) / length if length > 0 else np.array([1.0, 0.0])
        v = np.array([-u[1], u[0]])
        s, t = corners @ u, corners @ v
        area = np.ptp(s) * np.ptp(t)
        if best is None or area < best[0]:
            best = (area, u * (s.max() + s.min()) / 2 + v * (t.max() + t.min()) / 2, u, np.ptp(s) / 2, np.ptp(t) / 2)
    return best[1:]


def corners_of(centre, u, a, b):
    """Corners in the order top left, top right, bottom right, bottom left."""
    v = np.array([-u[1], u[0]])
    points = sorted((centre + i * a * u + j * b * v for i in (-1, 1) for j in (-1, 1)), key=lambda p: p[0])
    left, right = sorted(points[:2], key=lambda p: p[1]), sorted(points[2:], key=lambda p: p[1])
    return np.array([left[0], right[0], right[1], left[1]])


def mean_inside(values, centre, u, a, b):
    """Mean of values[h, w] over the pixels whose centres lie in a rectangle."""
    h, w = values.shape
    x, y = np.meshgrid(np.arange(w) - centre[0], np.arange(h) - centre[1])
    inside = (abs(x * u[0] + y * u[1]) <= a) & (abs(y * u[0] - x * u[1]) <= b)
    return values[inside].mean() if inside.any() else 0.0


def detect(session, picture):
    """Corners of the lines of text, in reading order."""
    h, w = picture.shape[:2]
    scale = min(1.0, LARGEST_SIDE / max(h, w))
    height, width = (max(32, round(n * scale / 32) * 32) for n in (h, w))
    probability = session.run(None, {"x": normalised(resize(picture, height, width))[None]})[0][0, 0]
    found = []
    for patch in patches(probability > MAP_THRESHOLD):
        centre, u, a, b = smallest_rectangle(patch)
        if 2 * min(a, b) < SHORTEST_BEFORE or mean_inside(probability, centre, u, a, b) < BOX_THRESHOLD:
            continue
        grow = (4 * a * b) * GROWTH / (4 * (a + b))
        a, b = a + grow, b + grow
        if 2 * min(a, b) < SHORTEST_AFTER:
            continue
        box = corners_of(centre, u, a, b) * [w / width, h / height]
        found.append(np.clip(np.round(box), 0, [w - 1, h - 1]))
    return reading_order(found)


def reading_order(boxes):
    """From top to bottom; of lines that begin within ten pixels of the same height, from left to right."""
    boxes = sorted(boxes, key=lambda b: (b[0][1], b[0][0]))
    for i in range(1, len(boxes)):
        j = i
        while j > 0 and abs(boxes[j][0][1] - boxes[j - 1][0][1]) < 10 and boxes[j][0][0] < boxes[j - 1][0][0]:
            boxes[j - 1], boxes[j] = boxes[j], boxes[j - 1]
            j -= 1
    return boxes


def cut(picture, box):
    """The line of text in a box, upright; a tall one is turned to lie."""
    side = lambda i, j: math.hypot(*(box[i] - box[j]))
    width, height = (max(1, int(max(p))) for p in ((side(0, 1), side(2, 3)), (side(0, 3), side(1, 2))))
    s, t = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    s, t = s[..., None], t[..., None]
    place = (box[0] * (1 - s) + box[1] * s) * (1 - t) + (box[3] * (1 - s) + box[2] * s) * t
    line = sample(picture, place[..., 0], place[..., 1])
    return np.rot90(line) if height >= 1.5 * width else line


def padded(line, width):
    """A line at the height of the networks, its right end filled with zeros or squeezed to the width."""
    h, w = line.shape[:2]
    used = min(width, math.ceil(LINE_HEIGHT * w / h))
    out = np.zeros((1, 3, LINE_HEIGHT, width), np.float32)
    out[0, :, :, :used] = normalised(resize(line, LINE_HEIGHT, used))
    return out


def upright(session, line):
    """The line, turned by half a turn where the direction model is sure that it stands on its head."""
    scores = session.run(None, {"x": padded(line, DIRECTION_WIDTH)})[0][0]
    return line[::-1, ::-1] if scores[1] > TURN_THRESHOLD else line


def recognise(session, line, characters):
    h, w = line.shape[:2]
    width = max(RECOGNITION_WIDTH, int(LINE_HEIGHT * w / h))
    columns = session.run(None, {"x": padded(line, width)})[0][0]
    text, sure, before = "", [], 0
    for column in columns:
        best = int(column.argmax())
        if best != 0 and best != before:  # 0 stands between two characters
            text += characters[best]
            sure.append(float(column[best]))
        before = best
    return text, sum(sure) / len(sure) if sure else 0.0


def read_picture(path, det, cls, rec):
    """[(text, confidence, corners)]"""
    det, cls, rec = (onnxruntime.InferenceSession(p, providers=["CPUExecutionProvider"]) for p in (det, cls, rec))
    table = rec.get_modelmeta().custom_metadata_map["character"]
    characters = [""] + table.split("\n") + [" "]
    picture = np.asarray(Image.open(path).convert("RGB"), float)[:, :, ::-1]  # the networks learnt from BGR
    found = []
    for box in detect(det, picture):
        text, sure = recognise(rec, upright(cls, cut(picture, box)), characters)
        if sure >= TEXT_THRESHOLD:
            found.append((text, sure, box))
    return found


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__.strip())
    for text, sure, box in read_picture(*sys.argv[1:]):
        print("%s\t%.3f\t%s" % (text, sure, " ".join("%d,%d" % tuple(p) for p in box)))


if __name__ == "__main__":
    main()
