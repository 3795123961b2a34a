"""Prints a picture of this lesson as SVG: python3 -m 02_safe_softmax.figures.drawings passes"""

from common.drawing.svg import LINEAR, QUADRATIC, SMALL, Drawing, main

CELLS, SIDE = 18, 18


def passes():
    d = Drawing(700, 252, "The three passes of safe softmax over one row of scores")
    left = 178
    d.text(left + CELLS * SIDE / 2, 24, "a row of scores", font_weight="bold")
    for k, (words, result, note) in enumerate(
        [
            ("1: the maximum", "m", "one value"),
            ("2: the sum of exp(x - m)", "l", "one value"),
            ("3: exp(x - m) / l", None, ""),
        ]
    ):
        y = 42 + 56 * k
        d.text(left - 10, y + 14, words, text_anchor="end")
        for cell in range(CELLS):
            d.box(left + cell * SIDE, y, SIDE, SIDE, LINEAR)
        d.pointer(left, y + 28, left + CELLS * SIDE, y + 28)
        d.text(left + CELLS * SIDE + 14, y + 32, "reads all", text_anchor="start", font_size=11)
        if result:
            x = left + CELLS * SIDE + 80
            d.pointer(left + CELLS * SIDE + 6, y + 9, x - 4, y + 9)
            d.matrix(x, y - 2, 26, 22, SMALL, result)
            d.text(x + 34, y + 13, note, text_anchor="start", font_size=11)
            # What a pass has found, the next one needs before its first step.
            d.pointer(x + 13, y + 21, x + 13, y + 53, stroke="#777777", stroke_dasharray="4 3")
    y = 42 + 56 * 3 - 8
    for cell in range(CELLS):
        d.box(left + cell * SIDE, y, SIDE, SIDE, QUADRATIC)
    d.text(left - 10, y + 14, "writes P", text_anchor="end")
    d.text(left + CELLS * SIDE + 93, y - 34, "m and l", font_size=11)
    d.text(
        20,
        y + 40,
        "Three reads and one write per score. Each pass needs the complete result of the pass "
        "above it.",
        text_anchor="start",
    )
    return d


if __name__ == "__main__":
    main({"passes": passes})
