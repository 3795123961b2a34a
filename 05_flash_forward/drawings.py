#!/usr/bin/env python3
"""Prints a picture of this lesson as SVG: drawings.py loops|register_tiles|who_holds_what|swizzle"""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs" / "tools"))
from drawing import Drawing  # noqa: E402

COLOURS = ["#f6d5b5", "#cfe3f5", "#d6ecc9", "#e5d6f0", "#f5e9a8", "#cdebe6", "#f3cdd6", "#dcdcdc"]


def matrix_of_pairs(drawing, x0, y0, pairs, chosen, names):
    """16 rows of pairs of columns: colours and numbers say the lane; one lane is marked."""
    width, height = 34, 19
    for row in range(16):
        for pair in range(pairs):
            lane = row % 8 * 4 + pair % 4
            x, y = x0 + pair * width, y0 + row * height
            drawing.box(x, y, width, height, COLOURS[pair % 4])
            if lane != chosen:
                drawing.text(x + width / 2, y + 14, lane)
    for row in range(16):  # above their neighbours' borders
        for pair in range(pairs):
            if row % 8 * 4 + pair % 4 == chosen:
                x, y = x0 + pair * width, y0 + row * height
                drawing.box(x, y, width, height, "#ffffff", "#b00020", 2.2)
                name = names[pair // 4 * 2 + row // 8]
                drawing.text(x + width / 2, y + 14, name, font_weight="bold")


def loops():
    d = Drawing(700, 300, "The order in which the two algorithms visit the tiles of scores")
    width, height, top = 50, 34, 70
    for left, name, by_rows in [(90, "FlashAttention-1", False), (450, "FlashAttention-2", True)]:
        d.text(left + 2 * width, 20, name, font_weight="bold")
        for tile in range(4):
            d.text(left + tile * width + width / 2, top - 24, f"K{tile}, V{tile}")
            d.text(left - 8, top + tile * height + 22, f"Q{tile}, O{tile}", text_anchor="end")
        for i in range(4):
            for j in range(4):
                colour = COLOURS[i] if by_rows else COLOURS[7]
                x, y = left + j * width, top + i * height
                d.box(x, y, width, height, colour)
                d.text(x + width / 2, y + 22, j + 1 if by_rows else 4 * j + i + 1)
        bottom = top + 4 * height
        if not by_rows:
            lines = [
                "One block for a head.",
                "After each tile O, m and l go to memory,",
                "and come back for the next one.",
            ]
        else:
            lines = [
                "A block for each row of tiles, all at once.",
                "O, m and l stay in its registers;",
                "O and LSE are written at the end.",
            ]
        for k, words in enumerate(lines):
            d.text(left + 2 * width, bottom + 28 + 17 * k, words)
    return d


def who_holds_what():
    chosen = 9
    title = (
        "Accumulators of two products of 16 x 8, and the left operand of 16 x 16: "
        "each number is with the same lane in both"
    )
    d = Drawing(700, 432, title)
    top, left = 62, 62
    second, right = left + 148, left + 352
    for x, keys, name in [
        (left, "keys 0 to 7", "s[i][j], float32"),
        (second, "keys 8 to 15", "s[i][j + 1], float32"),
    ]:
        d.text(x + 68, 24, keys, font_weight="bold")
        d.text(x + 68, 44, name)
    for row in range(16):
        d.text(left - 8, top + row * 19 + 14, f"row {row}", text_anchor="end")
    matrix_of_pairs(d, left, top, 4, chosen, ["0, 1", "2, 3"])
    matrix_of_pairs(d, second, top, 4, chosen, ["0, 1", "2, 3"])
    d.text(left + 318, top + 138, "round")
    d.arrow(left + 292, top + 150, left + 344)
    d.text(right + 136, 24, "keys 0 to 15", font_weight="bold")
    d.text(right + 136, 44, "left operand, 16 bits, two in a register")
    matrix_of_pairs(d, right, top, 8, chosen, ["r0", "r1", "r2", "r3"])
    for k, words in enumerate(
        [
            "A cell is two neighbouring columns; its number is the lane that holds them. Framed: lane 9.",
            "In its cells: which of its four numbers of an accumulator, and which of its four registers.",
        ]
    ):
        d.text(left - 44, top + 16 * 19 + 26 + 18 * k, words, text_anchor="start")
    return d


def swizzle():
    d = Drawing(700, 318, "Eight rows of a tile: where each piece of 16 bytes lies")
    width, height, top = 34, 24, 66
    for left, name, phase in [(62, "plain", 0), (410, "swizzled", 1)]:
        d.text(left + 4 * width, 20, name, font_weight="bold")
        d.text(left - 8, 57, "banks", text_anchor="end", font_size=11)
        for place in range(8):
            x = left + place * width + width / 2
            d.text(x, 57, f"{4 * place}-{4 * place + 3}", font_size=10)
        for row in range(8):
            d.text(left - 8, top + row * height + 16, f"row {row}", text_anchor="end")
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
    for k, words in enumerate(
        [
            "The number in a cell is the piece of 8 columns that lies there. A load wants the same piece of",
            "eight rows, for example 3: on the left from four banks, on the right from all 32.",
        ]
    ):
        d.text(18, top + 8 * height + 28 + 18 * k, words, text_anchor="start")
    return d


def register_tiles():
    chosen_x, chosen_y = 2, 1
    d = Drawing(700, 310, "Which scores and which part of O a lane has")
    top, height, width = 58, 6, 4
    first, second = 62, 424
    for left, name, what in [
        (first, "scores of a warp", "32 queries, 64 keys"),
        (second, "O of a warp", "32 queries, d = 64 columns"),
    ]:
        d.text(left + 32 * width, 20, name, font_weight="bold")
        d.text(left + 32 * width, 40, what)
    for row in range(0, 32, 8):
        d.text(first - 8, top + row * height + 10, f"row {row}", text_anchor="end")
    for key in range(64):
        d.box(first + key * width, top, width, 32 * height, COLOURS[key % 8], stroke="none")
    for piece in range(16):
        x = second + 4 * piece * width
        d.box(x, top, 4 * width, 32 * height, COLOURS[piece % 8], stroke="none")
    for row in range(chosen_y, 32, 4):
        y = top + row * height
        for j in range(8):
            d.box(first + (chosen_x + 8 * j) * width, y, width, height, "#b00020", stroke="none")
        for c in range(2):
            d.box(second + (32 * c + 4 * chosen_x) * width, y, 4 * width, height, "#b00020", stroke="none")
    d.text(371, top + 78, "P, through")
    d.text(371, top + 112, "shared")
    d.text(371, top + 128, "memory")
    d.arrow(334, top + 90, 408)
    for k, words in enumerate(
        [
            "A colour is a lane's x: every eighth key on the left, four columns of each 32 on the right.",
            "Red: the lane with x = 2 and y = 1. Its rows are 1, 5, 9 and so on, on both sides.",
        ]
    ):
        d.text(18, top + 32 * height + 30 + 18 * k, words, text_anchor="start")
    return d


PICTURES = {
    "loops": loops,
    "register_tiles": register_tiles,
    "who_holds_what": who_holds_what,
    "swizzle": swizzle,
}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PICTURES:
        sys.exit(f"drawings.py: which picture? There are {', '.join(PICTURES)}")
    print(PICTURES[sys.argv[1]]().svg(), end="")
