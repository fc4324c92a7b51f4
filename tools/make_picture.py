#!/usr/bin/env python3
"""Draw the picture that the demo reads: test/data/ocr.png.

usage: make_picture.py OUT.png        needs Pillow and the DejaVu fonts (Debian: fonts-dejavu-core)

A sheet of paper with lines of text in different sizes, faces and colours; one line stands on its head, so that the
direction model has something to do, and one is slanted.  The picture is committed: another version of Pillow may draw
other pixels.
"""
import sys

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/dejavu/"
SIZE = (640, 448)
PAPER = (250, 247, 238)
# text, font, size, (x, y) of the top left corner, colour, turned by (degrees, counterclockwise)
LINES = [
    ("Tilewright", "DejaVuSans-Bold.ttf", 56, (40, 24), (24, 60, 110), 0),
    ("Task mappings all the way down", "DejaVuSerif.ttf", 30, (40, 110), (30, 30, 30), 0),
    ("arXiv:2210.09603", "DejaVuSansMono.ttf", 22, (40, 168), (120, 40, 30), 0),
    ("This line is upside down", "DejaVuSerif.ttf", 30, (40, 216), (20, 90, 50), 180),
    ("Slanted but still legible", "DejaVuSerif.ttf", 28, (40, 264), (70, 40, 110), 6),
    ("no-warranty", "DejaVuSans.ttf", 16, (40, 398), (60, 60, 60), 0),
    ("2+2=4", "DejaVuSans-Bold.ttf", 34, (480, 380), (160, 80, 0), 0),
]


def draw_line(sheet, text, font, size, place, colour, turned):
    font = ImageFont.truetype(FONTS + font, size)
    text = text.replace(" ", "  ")  # the recognition model overlooks narrow gaps
    left, top, right, bottom = font.getbbox(text)
    margin = 4
    ink = Image.new("L", (right - left + 2 * margin, bottom - top + 2 * margin), 0)
    ImageDraw.Draw(ink).text((margin - left, margin - top), text, font=font, fill=255)
    ink = ink.rotate(turned, resample=Image.BICUBIC, expand=True)
    sheet.paste(Image.new("RGB", ink.size, colour), place, ink)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    sheet = Image.new("RGB", SIZE, PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.line([(40, 98), (600, 98)], fill=(190, 180, 160), width=2)
    for line in LINES:
        draw_line(sheet, *line)
    sheet.save(sys.argv[1], optimize=True)


if __name__ == "__main__":
    main()
