"""Prints a picture of this lesson as SVG: python3 -m 03_online_softmax.figures.drawings passes"""

from common.drawing.svg import LINEAR, QUADRATIC, SMALL, Drawing, main

WIDTH = 400
GREY = "#555555"
CELLS, SIDE = 8, 20
BAR, OLD, NEW = 26, "#8fb8de", "#e39b5a"


def bars(d, x, y, heights, colours, labels):
    """Bars of those heights, as fractions of 96 pixels, on a line at y."""
    for k, (height, colour, label) in enumerate(zip(heights, colours, labels)):
        left = x + 34 * k
        d.box(left, y - 96 * height, BAR, 96 * height, colour, "#666666", 0.8)
        d.text(left + BAR / 2, y - 96 * height - 6, label)
        d.text(left + BAR / 2, y + 16, ["3", "2", "5"][k], fill=GREY)
    d.line(x - 8, y, x + 34 * len(heights) - 2, y, "#222222", 1)


def rescale():
    d = Drawing(WIDTH, 236, "One factor rescales every term of the sum when the maximum rises")
    y = 168
    d.left(16, 26, "after scores 3 and 2", font_weight="bold")
    d.left(16, 44, "m = 3")
    bars(d, 28, y, [1, 0.5], [OLD, OLD], ["1", "1/2"])
    d.pointer(128, 124, 226, 124)
    d.text(177, 96, "score 5 arrives:")
    d.text(177, 114, "every term × 1/4")
    d.left(240, 26, "after score 5", font_weight="bold")
    d.left(240, 44, "m = 5")
    bars(d, 248, y, [0.25, 0.125, 1], [OLD, OLD, NEW], ["1/4", "1/8", "1"])
    d.text(62, y + 36, "l = 3/2", font_size=14)
    d.text(296, y + 36, "l = 3/2 · 1/4 + 1 = 11/8", font_size=14)
    d.left(16, 228, "Each bar is 2 to the power (score − m).", fill=GREY)
    return d


def row(d, x, y, colour):
    for cell in range(CELLS):
        d.box(x + cell * SIDE, y, SIDE, 16, colour)


def passes():
    rows = [
        ("Three passes", [("m", LINEAR), ("l", LINEAR), ("write P", LINEAR), ("P V", QUADRATIC)]),
        ("Two passes", [("m, l", LINEAR), ("write P", LINEAR), ("P V", QUADRATIC)]),
        ("One pass", [("m, l, O", LINEAR)]),
    ]
    d = Drawing(WIDTH, 410, "Passes over the keys: three and the product, two and the product, one")
    y = 20
    for words, parts in rows:
        d.left(16, y + 12, words, font_weight="bold")
        for name, colour in parts:
            d.right(176, y + 12, name)
            row(d, 186, y, colour)
            d.pointer(186, y + 23, 186 + CELLS * SIDE, y + 23, stroke_width=1.2)
            y += 34
        y += 16
    d.box(16, y + 2, 16, 14, LINEAR, "#666666")
    d.left(38, y + 13, "scores of one row")
    d.box(186, y + 2, 16, 14, QUADRATIC, "#666666")
    d.left(208, y + 13, "probabilities P, read again")
    d.left(16, y + 38, "Each arrow is one pass over all keys.", fill=GREY)
    return d


def state(d, x, y):
    d.matrix(x, y, 66, 26, SMALL, "(m, l, O)")


def keys(d, x, y, k):
    d.matrix(x, y, 62, 26, LINEAR, f"tile {k}")


def chain():
    d = Drawing(WIDTH, 178, "One pass: each tile of keys updates the state once")
    d.left(16, 26, "One pass: one tile after the other", font_weight="bold")
    for k in range(4):
        x = 24 + 94 * k
        keys(d, x + 2, 44, k)
        d.pointer(x + 33, 70, x + 33, 96)
        state(d, x, 98)
        if k < 3:
            d.pointer(x + 66, 111, x + 94, 111)
        d.text(x + 33, 142, ["tile 0", "tiles 0, 1", "0 to 2", "all tiles"][k], fill=GREY)
    d.left(16, 168, "Below each state: the tiles that it covers.", fill=GREY)
    return d


def tree():
    d = Drawing(WIDTH, 240, "In parts: independent states are merged as a tree")
    d.left(16, 26, "In parts: merge the states", font_weight="bold")
    for k in range(4):
        x = 24 + 94 * k
        keys(d, x + 2, 44, k)
        d.pointer(x + 33, 70, x + 33, 90)
        state(d, x, 92)
    for k in range(2):
        x = 71 + 188 * k
        d.pointer(x - 14, 118, x + 20, 142)
        d.pointer(x + 80, 118, x + 46, 142)
        state(d, x, 144)
    d.pointer(104, 170, 186, 194)
    d.pointer(292, 170, 210, 194)
    state(d, 165, 196)
    d.left(240, 214, "O / l, and m + ln l")
    return d


def tiles():
    d = Drawing(WIDTH, 352, "Attention by tiles: each worker holds one tile of scores at a time")
    d.left(16, 26, "Each worker holds one tile of scores", font_weight="bold")
    left, top, side = 98, 96, 34
    at = {0: 4, 1: 2}  # the tile that a worker computes in this row
    for i in range(4):
        for j in range(6):
            now = at.get(i) == j
            x, y = left + side * j, top + side * i
            if j < at.get(i, 0):
                d.hatched(x, y, side, side, "#eeeeee", "#aaaaaa", 8)
            else:
                d.box(x, y, side, side, QUADRATIC if now else "#ffffff", "#aaaaaa", 0.8)
            if now:
                d.text(left + side * (j + 0.5), top + side * (i + 0.5) + 4, "S, P")
    for j in range(6):
        used = j in at.values()
        look = ("#222222", 2) if used else ("#aaaaaa", 0.8)
        d.box(left + side * j, 56, side, 28, LINEAR, *look)
    d.right(left - 8, 74, "K, V")
    for i in range(4):
        look = ("#222222", 2) if i in at else ("#aaaaaa", 0.8)
        d.box(58, top + side * i, 30, side, LINEAR, *look)
        if i in at:
            d.text(73, top + side * (i + 0.5) + 4, "Q")
            d.matrix(322, top + side * i + 3, 62, side - 6, SMALL, "m, l, O", stroke="#222222")
            d.pointer(
                left + 6 * side + 1, top + side * (i + 0.5), 320, top + side * (i + 0.5),
                stroke_width=1.2,
            )  # fmt: skip
            d.right(50, top + side * (i + 0.5) - 2, "worker")
            d.right(50, top + side * (i + 0.5) + 12, "ab"[i])
        else:
            d.right(50, top + side * (i + 0.5) + 4, "waits", fill=GREY)
    y = top + side * 4 + 24
    d.lines_of_text(
        16,
        y,
        [
            "Rows of tiles are independent: each worker takes one.",
            "It goes along the tiles of keys, from left to right.",
            "Each tile of S becomes P, is added to m, l and O,",
            "and is discarded. Hatched: computed, no longer stored.",
        ],
        20,
        text_anchor="start",
    )
    return d


if __name__ == "__main__":
    main(rescale, passes, chain, tree, tiles)
