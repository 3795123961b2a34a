"""Prints a picture of this lesson as SVG: python3 -m 01_naive_attention.figures.drawings flow"""

from common.drawing.svg import LINEAR, QUADRATIC, Drawing, main

TALL, WIDE = 24, 92  # d and N in pixels: the longer the text, the wider


def step(d, x, y, words):
    """An arrow to the next matrix, labelled with the operation."""
    d.arrow(x, y, x + 78)
    for k, line in enumerate(words):
        d.text(x + 36, y - 8 - 14 * (len(words) - 1 - k), line, font_size=11)


def flow():
    d = Drawing(700, 392, "The data of naive attention, forward and backward")
    d.text(18, 26, "Forward", text_anchor="start", font_weight="bold")
    y, middle = 52, 52 + WIDE / 2
    for x, name in [(20, "Q"), (58, "K")]:
        d.matrix(x, y, TALL, WIDE, LINEAR, name, "N x d")
    step(d, 92, middle, ["scale", "Q K\u1d40"])
    d.matrix(178, y, WIDE, WIDE, QUADRATIC, "S", "N x N")
    step(d, 280, middle, ["softmax", "of rows"])
    d.matrix(366, y, WIDE, WIDE, QUADRATIC, "P", "N x N")
    d.matrix(474, y, TALL, WIDE, LINEAR, "V", "N x d")
    step(d, 510, middle, ["P V"])
    d.matrix(596, y, TALL, WIDE, LINEAR, "O", "N x d")

    d.text(18, 204, "Backward", text_anchor="start", font_weight="bold")
    y, middle = 228, 228 + WIDE / 2
    d.matrix(596, y, TALL, WIDE, LINEAR, "dO", "N x d")
    d.pointer(592, middle, 554, middle)
    d.text(573, middle - 8, "dO V\u1d40", font_size=11)
    d.matrix(458, y, WIDE, WIDE, QUADRATIC, "dP", "N x N")
    d.pointer(452, middle, 378, middle)
    d.text(415, middle - 22, "P \u2218 (dP - \u03b4)", font_size=11)
    d.text(415, middle - 8, "P from above", font_size=11)
    d.matrix(280, y, WIDE, WIDE, QUADRATIC, "dS", "N x N")
    d.pointer(274, middle, 196, middle)
    d.text(235, middle - 22, "dS K: dQ", font_size=11)
    d.text(235, middle - 8, "dS\u1d40 Q: dK", font_size=11)
    for x, name in [(126, "dQ"), (164, "dK")]:
        d.matrix(x, y, TALL, WIDE, LINEAR, name, "N x d")
    d.matrix(646, y, TALL, WIDE, LINEAR, "dV", "N x d")
    d.pointer(623, middle, 643, middle)
    d.text(634, y - 8, "P\u1d40 dO", font_size=11)
    d.legend(
        20,
        370,
        [(LINEAR, "grows with N"), (QUADRATIC, "grows with N squared, and all of it is stored")],
    )
    return d


if __name__ == "__main__":
    main({"flow": flow})
