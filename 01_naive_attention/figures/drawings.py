"""Prints a picture of this lesson as SVG: python3 -m 01_naive_attention.figures.drawings forward"""

from common.drawing.svg import LINEAR, QUADRATIC, RED, Drawing, main

WIDTH = 400
TALL, WIDE = 26, 84  # d and N in pixels: the longer the text, the wider
GREY = "#555555"


def linear(d, x, y, name):
    """A matrix of N x d elements."""
    d.matrix(x, y, TALL, WIDE, LINEAR, name)
    d.text(x + TALL / 2, y + WIDE + 16, "N×d", fill=GREY)


def square(d, x, y, name):
    """A matrix of N x N elements."""
    d.matrix(x, y, WIDE, WIDE, QUADRATIC, name)
    d.text(x + WIDE / 2, y + WIDE + 16, "N×N", fill=GREY)


def sign(d, x, y, words):
    """A sign between two matrices."""
    d.text(x, y + WIDE / 2 + 6, words, font_size=18)


def legend(d, y):
    d.box(16, y - 11, 16, 14, LINEAR, "#666666")
    d.left(38, y, "grows with N")
    d.box(150, y - 11, 16, 14, QUADRATIC, "#666666")
    d.left(172, y, "grows with N²; all of it is stored")


def forward():
    d = Drawing(WIDTH, 512, "The forward pass: Q and K give S, softmax gives P, P and V give O")
    d.left(16, 28, "1. Scores: S = scale · Q Kᵀ", font_size=14)
    linear(d, 40, 44, "Q")
    sign(d, 88, 44, "×")
    d.matrix(110, 44 + (WIDE - TALL) / 2, WIDE, TALL, LINEAR, "Kᵀ")
    d.text(110 + WIDE / 2, 44 + (WIDE + TALL) / 2 + 16, "d×N", fill=GREY)
    sign(d, 217, 44, "=")
    square(d, 240, 44, "S")
    d.left(16, 178, "2. Softmax of each row", font_size=14)
    square(d, 40, 192, "S")
    d.pointer(130, 192 + WIDE / 2, 234, 192 + WIDE / 2)
    d.text(182, 192 + WIDE / 2 - 10, "row by row")
    square(d, 240, 192, "P")
    d.left(16, 326, "3. Output: O = P V", font_size=14)
    square(d, 40, 340, "P")
    sign(d, 144, 340, "×")
    linear(d, 166, 340, "V")
    sign(d, 217, 340, "=")
    linear(d, 240, 340, "O")
    d.line(16, 456, 384, 456, "#cccccc", 1)
    d.left(16, 476, "N: length of the text. d: size of a head.", fill=GREY)
    legend(d, 500)
    return d


def backward():
    d = Drawing(WIDTH, 560, "The backward pass: from dO to dV, dP, dS, dQ and dK")
    d.left(16, 28, "1. Through O = P V", font_size=14)
    linear(d, 40, 44, "dO")
    d.pointer(74, 44 + WIDE / 2, 172, 44 + WIDE / 2)
    d.text(120, 44 + WIDE / 2 - 8, "dO Vᵀ")
    square(d, 178, 44, "dP")
    linear(d, 352, 44, "dV")
    d.right(346, 44 + WIDE / 2 + 4, "Pᵀ dO =")
    d.left(16, 172, "2. Through the softmax", font_size=14)
    d.pointer(220, 150, 220, 196)
    d.left(232, 170, "dS = P ∘ (dP − δ)")
    d.left(232, 188, "δ: one value for each row", fill=GREY)
    square(d, 178, 202, "dS")
    d.left(16, 318, "3. Through", font_size=14)
    d.left(16, 338, "S = scale · Q Kᵀ", font_size=14)
    d.pointer(206, 308, 150, 362)
    d.pointer(234, 308, 270, 362)
    linear(d, 124, 368, "dQ")
    d.right(118, 414, "scale · dS K =")
    linear(d, 260, 368, "dK")
    d.left(294, 414, "= scale · dSᵀ Q")
    d.line(16, 496, 384, 496, "#cccccc", 1)
    d.left(16, 518, "S and P come from the forward pass.", fill=GREY)
    legend(d, 546)
    return d


CELL = 22


def masked(d, left, top, queries, keys):
    """The causal mask of that many queries and keys: what is seen, and what is masked."""
    shift = keys - queries
    for i in range(queries):
        for j in range(keys):
            seen = j <= i + shift
            x, y = left + CELL * j, top + CELL * i
            d.box(x, y, CELL, CELL, "#8fc7a8" if seen else "#ffffff", "#888888", 0.8)
            if not seen:
                d.text(x + CELL / 2, y + 15, "−∞", fill="#666666")
        if shift + i < 0:  # this row sees no key
            d.left(left + CELL * keys + 6, top + CELL * i + 15, "no key", fill=RED)
        d.right(left - 6, top + CELL * i + 15, f"{i}", fill=GREY)
    for j in range(keys):
        d.text(left + CELL * j + CELL / 2, top - 6, f"{j}", fill=GREY)


def mask():
    d = Drawing(WIDTH, 262, "The causal mask for equal and for unequal numbers of queries and keys")
    for x, queries, keys in [(22, 4, 4), (150, 2, 5), (300, 5, 2)]:
        shift = keys - queries
        d.left(x, 26, f"{queries} queries,", font_weight="bold")
        d.left(x, 42, f"{keys} keys", font_weight="bold")
        d.left(x, 60, f"shift {shift}".replace("-", "−"), fill=GREY)
        masked(d, x, 92, queries, keys)
    d.box(22, 222, 14, 14, "#8fc7a8", "#888888", 0.8)
    d.left(42, 234, "query i (row) sees key j (column): j ≤ i + shift")
    d.left(22, 254, "The last query always sees the last key: bottom right.", fill=GREY)
    return d


if __name__ == "__main__":
    main(forward, backward, mask)
