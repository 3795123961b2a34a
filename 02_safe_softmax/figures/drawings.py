"""Prints a picture of this lesson as SVG: python3 -m 02_safe_softmax.figures.drawings passes"""

from common.drawing.svg import LINEAR, QUADRATIC, RED, SMALL, Drawing, main

WIDTH = 400
CELLS, SIDE = 9, 20
GREY = "#555555"


def shift():
    d = Drawing(WIDTH, 236, "Subtracting the maximum moves the scores to where exp is finite")
    left, right, y = 24, 232, 128  # the numbers for which exp(s) neither overflows nor vanishes
    d.left(16, 26, "exp(s) in float32", font_size=14)
    d.box(left, y - 16, right - left, 32, SMALL, "#888888", 0.8)
    d.text((left + right) / 2, y + 58, "exp(s) is finite and above 0")
    d.box(right, y - 16, 376 - right, 32, "#f7d6d6", "#888888", 0.8)
    d.text((right + 376) / 2, y + 58, "exp(s) = ∞", fill=RED)
    for x, words in [(left, "−104"), (150, "0"), (right, "89")]:
        d.line(x, y + 16, x, y + 22, "#222222", 1)
        d.text(x, y + 36, words)
    for k, score in enumerate([1000, 1001, 1002]):
        before, after = 264 + 44 * k, 94 + 28 * k
        d.text(before, y + 36, score, fill=RED)
        d.element(
            "path",
            d=f"M {before} {y - 8} Q {(before + after) / 2} {y - 124} {after} {y - 17}",
            fill="none",
            stroke="#222222",
            stroke_width=1.2,
        )
        d.element("path", d=f"M {after} {y - 8} l 0 -11 l 8 3 z", fill="#222222")
        d.element("circle", cx=before, cy=y, r=6, fill=RED)
        d.element("circle", cx=after, cy=y, r=6, fill="#1b6e3c")
    d.text(212, y - 84, "subtract 1002 from each")
    d.left(16, 216, "The scores become −2, −1, 0. (The axis is not to scale.)", fill=GREY)
    return d


def passes():
    d = Drawing(WIDTH, 300, "The three passes of safe softmax over one row of scores")
    left = 178
    entries = [
        ("Pass 1: the maximum", "m = max s", "m"),
        ("Pass 2: the sum", "l = Σ exp(s − m)", "l"),
        ("Pass 3: the quotients", "p = exp(s − m) / l", None),
    ]
    for k, (words, what, result) in enumerate(entries):
        y = 30 + 76 * k
        d.left(16, y + 8, words, font_weight="bold")
        d.left(16, y + 28, what)
        for cell in range(CELLS):
            d.box(left + cell * SIDE, y, SIDE, SIDE, LINEAR)
        d.pointer(left, y + 31, left + CELLS * SIDE, y + 31)
        if result:
            d.pointer(left + CELLS * SIDE + 2, y + 31, left + CELLS * SIDE + 18, y + 48)
            d.text(left + CELLS * SIDE + 22, y + 60, result, font_size=15, font_weight="bold")
            d.pointer(left + CELLS * SIDE + 14, y + 56, left - 8, y + 84, "#999999", 1.2,
                      stroke_dasharray="4 3")  # fmt: skip
    y = 30 + 76 * 2 + 44
    for cell in range(CELLS):
        d.box(left + cell * SIDE, y, SIDE, SIDE, QUADRATIC)
    d.left(16, y + 15, "written: P")
    d.left(16, 272, "Each score is read three times. No pass can begin", fill=GREY)
    d.left(16, 290, "before the one above it has ended.", fill=GREY)
    return d


if __name__ == "__main__":
    main(shift, passes)
