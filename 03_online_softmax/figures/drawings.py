"""Prints a picture of this lesson as SVG: python3 -m 03_online_softmax.figures.drawings flow"""

from common.drawing.svg import LINEAR, SMALL, Drawing, main


def state(d, x, y, words):
    """A state (m, l, O), labelled with the keys that it covers."""
    d.matrix(x, y, 96, 30, SMALL, "(m, l, O)")
    d.text(x + 48, y + 44, words, font_size=10, fill="#555555")


def keys(d, x, y, words):
    """A tile of keys and values, which the state processes once."""
    d.matrix(x, y, 62, 34, LINEAR, words)


def flow():
    d = Drawing(700, 432, "One pass over the keys, and the same computation in parts")
    d.text(
        18, 24, "One pass: each tile of keys is read once", text_anchor="start", font_weight="bold"
    )
    y = 108
    known = ["no key", "keys 0", "keys 0, 1", "keys 0 to 2", "all keys"]
    for k in range(5):
        x = 18 + 142 * k
        state(d, x, y, known[k])
        if k < 4:
            d.pointer(x + 96, y + 15, x + 142, y + 15)
            keys(d, x + 88, 46, f"K{k}, V{k}")
            d.pointer(x + 119, 80, x + 119, y + 8)
    d.text(
        18,
        188,
        "A step: update m; rescale l and O by exp(m_old - m); add the tile's sum of P and P V.",
        text_anchor="start",
    )
    top = 228
    d.text(
        18,
        top,
        "In parts: merging two states gives a state",
        text_anchor="start",
        font_weight="bold",
    )
    for k in range(4):
        x = 40 + 174 * k
        keys(d, x + 17, top + 16, f"K{k}, V{k}")
        d.pointer(x + 48, top + 50, x + 48, top + 64)
        d.matrix(x, top + 66, 96, 26, SMALL, "(m, l, O)")
    for k in range(2):
        x = 40 + 348 * k + 87
        for side in (-87, 87):
            d.pointer(x + 48 + side, top + 92, x + 48 + side / 4, top + 114)
        d.matrix(x, top + 116, 96, 26, SMALL, "(m, l, O)")
        d.pointer(x + 48, top + 142, 349 + (-22 if k == 0 else 22), top + 164)
    d.matrix(301, top + 166, 96, 22, SMALL, "(m, l, O)")
    d.text(410, top + 181, "then O / l, and LSE = m + ln l", text_anchor="start")
    return d


if __name__ == "__main__":
    main({"flow": flow})
