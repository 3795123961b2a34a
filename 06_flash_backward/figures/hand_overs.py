"""Prints a picture of how the Hopper kernels of this lesson hand data over, as SVG:
python3 -m 06_flash_backward.figures.hand_overs NAME. Without a name it lists them."""

from common.drawing.svg import LINEAR, QUADRATIC, RED, SMALL, Drawing, main

GREY, EDGE = "#f2f2f2", "#666666"


def step(d, x, y, width, words, fill=LINEAR, second=""):
    """A box of one or two lines, for an operation."""
    height = 40 if second else 28
    d.box(x, y, width, height, fill, EDGE, 1)
    d.text(x + width / 2, y + 18, words)
    if second:
        d.text(x + width / 2, y + 33, second)


def proxy_fence():
    d = Drawing(390, 314, "What orders the stores of dS before the wgmma that reads them")
    for x, name in [(12, "warpgroup 0"), (126, "warpgroup 1"), (262, "tensor cores")]:
        d.text(x + 54, 22, name, font_weight="bold")
    for x, keys in [(12, "0 to 63"), (126, "64 to 127")]:
        step(d, x, 34, 108, "stmatrix: dS of", LINEAR, f"keys {keys}")
        d.vertical_arrow(x + 54, 76, 94)
        step(d, x, 96, 108, "fence_async_", QUADRATIC, "proxy()")
        d.vertical_arrow(x + 54, 138, 156)
    step(d, 12, 158, 222, "named barrier of 256 threads", QUADRATIC)
    d.pointer(123, 186, 123, 212)
    step(d, 12, 214, 222, "issue wgmma: dQ = dS K", LINEAR)
    d.arrow(236, 228, 260)
    step(d, 262, 214, 116, "read dS of", SMALL, "128 keys")
    words = ["ordinary stores:", "generic proxy"]
    d.lines_of_text(320, 50, words, step=15)
    words = ["without it: wgmma", "may read what dS", "held before"]
    d.lines_of_text(320, 102, words, step=15, fill=RED)
    words = ["without it: the other", "half is not stored yet"]
    d.lines_of_text(320, 164, words, step=15, fill=RED)
    d.text(320, 270, "async proxy")
    d.text(195, 292, "The thread that stored calls the fence;")
    d.text(195, 308, "the barrier tells the others that it has.")
    return d


def d_q_hand_over():
    d = Drawing(390, 406, "Step 09: a part of dQ goes from an MMA warpgroup to its adder")
    d.text(96, 20, "MMA warpgroup", font_weight="bold")
    d.text(96, 36, "128 threads")
    d.text(306, 20, "adder", font_weight="bold")
    d.text(306, 36, "one thread")
    left, right = 10, 230
    step(d, left, 48, 172, "d_q_empty: wait", QUADRATIC, "tile 0: returns at once")
    step(d, left, 96, 172, "store the part in", LINEAR, "shared.d_q")
    step(d, left, 144, 172, "fence_async_proxy()", QUADRATIC, "__syncwarp()")
    step(d, left, 192, 172, "lane 0 of 4 warps: arrive", QUADRATIC)
    step(d, right, 48, 150, "d_q_full: wait", QUADRATIC)
    d.line(368, 76, 368, 214, EDGE, 1, stroke_dasharray="3 4")
    d.pointer(182, 206, 228, 228)
    d.left(232, 206, "d_q_full: 4 arrivals")
    step(d, right, 216, 150, "bulk_add()", LINEAR, "bulk_commit()")
    step(d, right, 264, 150, "bulk_wait_read<0>()", QUADRATIC, "TMA has read it")
    step(d, right, 312, 150, "arrive", QUADRATIC)
    step(d, left, 240, 172, "matmuls, P and dS", GREY, "of the next tile")
    step(d, left, 312, 172, "d_q_empty: wait", QUADRATIC)
    step(d, left, 348, 172, "store the next part", LINEAR)
    d.pointer(228, 326, 184, 326)
    d.left(232, 358, "d_q_empty: 1 arrival")
    d.text(195, 398, "Downwards: time.")
    return d


def delayed():
    d = Drawing(390, 396, "Step 10: dS of tile t is stored while dQ of tile t - 1 is computed")
    left, width = 74, 62
    for t in range(5):
        x = left + width * t
        d.text(x + width / 2, 20, f"t = {t}" if t < 4 else "after", font_weight="bold")
    for slot in range(2):
        y = 32 + 52 * slot
        d.text(34, y + 26, f"dS[{slot}]", font_weight="bold")
        for t in range(5):
            x = left + width * t
            stored, read = t < 4 and t % 2 == slot, t > 0 and t % 2 != slot
            fill = LINEAR if stored else QUADRATIC if read else "#ffffff"
            d.box(x, y, width - 6, 44, fill, EDGE, 1)
            if stored or read:
                d.text(x + width / 2 - 3, y + 19, "store" if stored else "read by")
                d.text(x + width / 2 - 3, y + 35, f"dS {t}" if stored else f"dQ {t - 1}")
    rows = [
        ("at.stage", [t % 2 for t in range(5)]),
        ("at.parity", [t // 2 % 2 for t in range(5)]),
        ("", []),
        ("waits at", ["-"] + [f"[{(t % 2) ^ 1}]" for t in range(1, 5)]),
        ("argument", ["-"] + [(t // 2 % 2) ^ (t % 2) ^ 1 for t in range(1, 5)]),
        ("of tile", ["-"] + [t - 1 for t in range(1, 5)]),
        ("arrives at", [f"[{t % 2}]" for t in range(4)] + ["-"]),
    ]
    for k, (name, values) in enumerate(rows):
        y = 158 + 24 * k
        d.line(6, y - 17, 384, y - 17, "#cccccc", 0.8)
        d.right(66, y, name)
        for t, value in enumerate(values):
            d.text(left + width * t + width / 2 - 3, y, value)
    d.text(195, 206, "Tile t and the barriers d_s_full[0] and d_s_full[1]", font_weight="bold")
    d.line(6, 309, 384, 309, "#cccccc", 0.8)
    words = [
        "Argument: of wait(). The phase of tile t - 1 ends when",
        "all 8 warps have stored dS of t - 1 and finished dQ of t - 2.",
        "So in tile t a warpgroup may overwrite dS of t - 2,",
        "and read dS of t - 1.",
    ]
    d.lines_of_text(195, 330, words, step=18)
    return d


def ordered_sum():
    d = Drawing(390, 268, "Step 11: three blocks add to one tile of dQ, the last keys first")
    left, unit = 84, 60
    for b in (2, 1, 0):
        rank = 2 - b
        y = 26 + 46 * rank
        d.text(44, y + 13, f"block {b}", font_weight="bold")
        d.text(44, y + 28, f"rank {rank}")
        if rank:
            d.box(left, y, unit * (rank + 0.25), 32, GREY, EDGE, 1)
            d.text(left + unit * (rank + 0.25) / 2, y + 20, f"polls for {rank}")
        x = left + unit * (rank + 0.25 if rank else 0.25)
        d.box(x, y, unit, 32, LINEAR if rank else QUADRATIC, EDGE, 1)
        d.text(x + unit / 2, y + 20, f"add d{b}" if rank else f"store d{b}")
        d.line(x + unit, y + 32, x + unit, 178, EDGE, 1, stroke_dasharray="3 4")
    d.text(44, 195, "counter", font_weight="bold")
    d.text(44, 230, "dQ tile", font_weight="bold")
    edges = [left, *(left + unit * (k + 1.25) for k in range(3)), 384]
    sums = ["not set", "d2", "d2 + d1", "(d2 + d1) + d0"]
    for k in range(4):
        d.box(edges[k], 178, edges[k + 1] - edges[k], 26, SMALL, EDGE, 1)
        d.text((edges[k] + edges[k + 1]) / 2, 195, k)
        d.text((edges[k] + edges[k + 1]) / 2, 230, sums[k])
    d.text(195, 258, "To the right: time. d0, d1, d2: the parts of the three blocks.")
    return d


def four_orders():
    d = Drawing(390, 372, "Step 11: what orders the addition of one block before that of the next")
    d.text(80, 20, "block of rank 0", font_weight="bold")
    d.text(310, 20, "block of rank 1", font_weight="bold")
    d.text(195, 20, "memory", font_weight="bold")
    left, right, width = 8, 238, 144
    step(d, left, 32, width, "bulk_store(): TMA")
    d.box(162, 62, 66, 44, SMALL, EDGE, 1)
    d.text(195, 81, "sums")
    d.text(195, 97, "of the tile")
    d.pointer(152, 52, 172, 62)
    step(d, left, 84, width, "1. completion", QUADRATIC, "bulk_wait<0>()")
    step(d, left, 140, width, "2. release", QUADRATIC, "atomic_add_release()")
    d.box(162, 172, 66, 44, SMALL, EDGE, 1)
    d.text(195, 191, "counter")
    d.text(195, 207, "0, then 1")
    d.pointer(152, 172, 162, 182)
    step(d, right, 190, width, "3. acquire", QUADRATIC, "load_acquire() == 1")
    d.pointer(228, 202, 238, 208)
    step(d, right, 246, width, "4. proxy fence", QUADRATIC, "fence_..._global()")
    step(d, right, 302, width, "bulk_add(): TMA")
    for x, y1, y2 in [(80, 60, 82), (80, 124, 138), (310, 230, 244), (310, 286, 300)]:
        d.vertical_arrow(x, y1, y2)
    d.line(195, 106, 195, 172, EDGE, 1, stroke_dasharray="3 4")
    d.line(195, 216, 195, 312, EDGE, 1, stroke_dasharray="3 4")
    d.pointer(238, 316, 200, 316)
    d.right(190, 320, "to the same sums")
    words = ["Downwards: time. The counter says that the sums are there;", "1 to 4 make that true."]
    d.lines_of_text(195, 350, words, step=16)
    return d


if __name__ == "__main__":
    main(proxy_fence, d_q_hand_over, delayed, ordered_sum, four_orders)
