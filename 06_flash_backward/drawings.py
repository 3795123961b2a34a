#!/usr/bin/env python3
"""Prints a picture of this lesson as SVG: drawings.py who_holds_what"""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs" / "tools"))
from drawing import Drawing  # noqa: E402

COLOURS = ["#f6d5b5", "#cfe3f5", "#d6ecc9", "#e5d6f0", "#f5e9a8", "#cdebe6", "#f3cdd6", "#dcdcdc"]
WARPS = 8


def bands(d, left, top, width, name, size):
    """A matrix with a row of keys for each warp."""
    height = 21
    d.text(left + width / 2, top - 24, name, font_weight="bold")
    d.text(left + width / 2, top - 8, size)
    for warp in range(WARPS):
        y = top + warp * height
        d.box(left, y, width, height, COLOURS[warp])
        d.text(left + width / 2, y + 15, f"warp {warp}")


def who_holds_what():
    d = Drawing(700, 470, "Rung 06 with 128 columns: what a block has where")
    d.text(100, 24, "Shared memory", font_weight="bold")
    kib = (2 * (2 * 128 * 128 + 4 * 64 * 128 + 128 * 64) + 4 * 4 * 64) // 1024
    d.text(100, 42, f"16 bits, {kib} KiB")
    top = 60
    for name, size, height in [
        ("K", "128 keys x 128", 64),
        ("V", "128 keys x 128", 64),
        ("Q, this tile and the next", "2 x 64 queries x 128", 64),
        ("dO, likewise", "2 x 64 queries x 128", 64),
        ("dS, turned", "128 keys x 64 queries", 40),
        ("LSE and delta, float32", "", 22),
    ]:
        d.box(20, top, 160, height, "#f2f2f2")
        middle = top + height / 2
        d.text(100, middle + (4 if not size else -3), name)
        if size:
            d.text(100, middle + 13, size)
        top += height
    d.text(450, 24, "Registers, float32", font_weight="bold")
    for left, name in [(220, "P, turned"), (320, "dS, turned")]:
        bands(d, left, 88, 84, name, "64 queries")
    for left, name in [(424, "dK"), (554, "dV")]:
        bands(d, left, 88, 120, name, "128 columns")
    left, top, width, height = 424, 318, 62.5, 38
    d.text(left + 2 * width, top - 22, "dQ of 64 queries", font_weight="bold")
    d.text(left + 2 * width, top - 7, "128 columns")
    for warp in range(WARPS):
        x, y = left + warp // 2 * width, top + warp % 2 * height
        d.box(x, y, width, height, COLOURS[warp])
        d.text(x + width / 2, y + 23, f"warp {warp}")
    d.text(352, top + 2, "dS of all warps,")
    d.text(352, top + 18, "from shared memory")
    d.arrow(296, top + 32, 418)
    for k, words in enumerate(
        [
            "A colour is a warp. It has the same 16 keys in P, dS, dK and dV: their sums over queries need nothing",
            "from other warps. dQ sums over keys, which all warps have: it is shared out anew, 32 x 32 to each.",
        ]
    ):
        d.text(20, 428 + 18 * k, words, text_anchor="start")
    return d


PICTURES = {"who_holds_what": who_holds_what}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PICTURES:
        sys.exit(f"drawings.py: which picture? There are {', '.join(PICTURES)}")
    print(PICTURES[sys.argv[1]]().svg(), end="")
