#!/usr/bin/env python3
"""Draws this lesson's pictures, who_holds_what.svg and swizzle.svg, beside itself: python3 drawings.py"""

import pathlib

COLOURS = ["#f6d5b5", "#cfe3f5", "#d6ecc9", "#e5d6f0", "#f5e9a8", "#cdebe6", "#f3cdd6", "#dcdcdc"]


class Drawing:
    """An SVG picture on a panel of its own, so that it can be read on dark pages too."""

    def __init__(self, width, height, title):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" '
            'fill="#222222" text-anchor="middle" role="img">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>',
        ]

    def box(self, x, y, width, height, fill, stroke="#999", stroke_width=0.6):
        self.lines.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="{stroke_width}"/>'
        )

    def text(self, x, y, words, **attributes):
        more = "".join(f' {name.replace("_", "-")}="{a}"' for name, a in attributes.items())
        self.lines.append(f'<text x="{x:g}" y="{y}"{more}>{words}</text>')

    def line(self, x1, y1, x2, y2):
        self.lines.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#222222" stroke-width="1.5"/>'
        )

    def arrow(self, x1, y, x2):
        self.line(x1, y, x2 - 6, y)
        self.lines.append(f'<path d="M {x2} {y} l -9 -5 v 10 z" fill="#222222"/>')

    def write(self, name):
        path = pathlib.Path(__file__).resolve().parent / name
        path.write_text("\n".join([*self.lines, "</svg>", ""]), encoding="utf-8")


def matrix_of_pairs(drawing, x0, y0, pairs, chosen, names):
    """16 rows of pairs of columns: colours and numbers say the lane; one lane is marked."""
    width, height = 42, 19
    for row in range(16):
        for pair in range(pairs):
            lane = row % 8 * 4 + pair % 4
            x, y = x0 + pair * width, y0 + row * height
            drawing.box(x, y, width, height, COLOURS[pair % 4])
            if lane != chosen:
                drawing.text(x + width / 2, y + 14, lane, font_size=11)
    for row in range(16):  # above their neighbours' borders
        for pair in range(pairs):
            if row % 8 * 4 + pair % 4 == chosen:
                x, y = x0 + pair * width, y0 + row * height
                drawing.box(x, y, width, height, "#ffffff", "#b00020", 2.2)
                name = names[pair // 4 * 2 + row // 8]
                drawing.text(x + width / 2, y + 14, name, font_weight="bold")
    return pairs * width


def who_holds_what():
    chosen = 9
    title = (
        "Accumulators of two products of 16 x 8, and the left operand of 16 x 16: "
        "each number is with the same lane in both"
    )
    d = Drawing(860, 430, title)
    top, left = 62, 62
    d.text(left + 84, 24, "s[i][j]: keys 0 to 7", font_weight="bold")
    d.text(left + 268, 24, "s[i][j + 1]: keys 8 to 15", font_weight="bold")
    d.text(left + 84, 44, "16 x 8, float32")
    d.text(left + 268, 44, "16 x 8, float32")
    for row in range(16):
        d.text(left - 8, top + row * 19 + 14, f"row {row}", text_anchor="end", font_size=11)
    matrix_of_pairs(d, left, top, 4, chosen, ["0, 1", "2, 3"])
    matrix_of_pairs(d, left + 184, top, 4, chosen, ["0, 1", "2, 3"])
    d.text(left + 393, top + 138, "round")
    d.arrow(left + 366, top + 150, left + 424)
    right = left + 438
    d.text(right + 168, 24, "left operand: keys 0 to 15", font_weight="bold")
    d.text(right + 168, 44, "16 x 16, 16 bits, two in each register")
    matrix_of_pairs(d, right, top, 8, chosen, ["r0", "r1", "r2", "r3"])
    d.text(
        left,
        top + 16 * 19 + 24,
        "A cell is two neighbouring columns; the number is the lane that holds them. "
        "Lane 9, framed in red: group g = 2, pair t = 1.",
        text_anchor="start",
    )
    d.text(
        left,
        top + 16 * 19 + 42,
        "In its cells: which of the lane's four numbers of each accumulator, and which of its four registers.",
        text_anchor="start",
    )
    d.write("who_holds_what.svg")


def swizzle():
    d = Drawing(860, 318, "Eight rows of a tile: where each piece of 16 bytes lies")
    width, height, top = 42, 24, 66
    for left, name, phase in [(70, "plain", 0), (492, "swizzled", 1)]:
        d.text(left + 4 * width, 22, name, font_weight="bold")
        for place in range(8):
            x = left + place * width + width / 2
            d.text(x, 44, "banks", font_size=9)
            d.text(x, 57, f"{4 * place}-{4 * place + 3}", font_size=10)
        for row in range(8):
            d.text(left - 8, top + row * height + 16, f"row {row}", text_anchor="end", font_size=11)
            for place in range(8):
                piece = place ^ (row * phase)
                x, y = left + place * width, top + row * height
                d.box(x, y, width, height, COLOURS[piece])
                if piece != 3:
                    d.text(x + width / 2, y + 16, piece)
        for row in range(8):
            x, y = left + (3 ^ (row * phase)) * width, top + row * height
            d.box(x, y, width, height, "#ffffff", "#b00020", 2.2)
            d.text(x + width / 2, y + 16, 3, font_weight="bold")
    d.text(
        70,
        top + 8 * height + 24,
        "The number in a cell is the piece of 8 columns that lies there. A load wants the same piece of "
        "eight rows, for example 3:",
        text_anchor="start",
    )
    d.text(
        70, top + 8 * height + 40, "on the left from four banks, on the right from all 32.", text_anchor="start"
    )
    d.write("swizzle.svg")


if __name__ == "__main__":
    who_holds_what()
    swizzle()
