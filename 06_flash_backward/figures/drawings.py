"""Prints a picture of this lesson as SVG: python3 -m 06_flash_backward.figures.drawings NAME.
Without one it lists them."""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

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


def block_storage():
    d = Drawing(700, 470, "Rung 06 with 128 columns: where a block stores each matrix")
    d.text(100, 24, "Shared memory", font_weight="bold")
    kib = (2 * (2 * 128 * 128 + 4 * 64 * 128 + 128 * 64) + 4 * 4 * 64) // 1024
    d.text(100, 42, f"16 bits, {kib} KiB")
    top = 60
    for name, size, height in [
        ("K", "128 keys x 128", 64),
        ("V", "128 keys x 128", 64),
        ("Q, current and next tile", "2 x 64 queries x 128", 64),
        ("dO, current and next tile", "2 x 64 queries x 128", 64),
        ("dS, transposed", "128 keys x 64 queries", 40),
        ("LSE and delta, float32", "", 22),
    ]:
        d.box(20, top, 160, height, "#f2f2f2")
        middle = top + height / 2
        d.text(100, middle + (4 if not size else -3), name)
        if size:
            d.text(100, middle + 13, size)
        top += height
    d.text(312, 24, "Registers, float32", font_weight="bold")
    for left, name in [(220, "P\u1d40"), (320, "dS\u1d40")]:
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
    d.arrow(294, top + 32, 412)
    words = [
        "A warp holds the same 16 keys of P, dS, dK and dV, so sums",
        "over queries stay within the warp. dQ is a sum over the keys",
        "of all warps: each warp computes a 32 x 32 part of it.",
    ]
    d.lines_of_text(20, 428, words, step=18, text_anchor="start")
    d.narrow([(0, 0, 414, 404)], [(414, 36, 286, 368)], [(0, 408, 400, 62)])
    return d


def flow():
    title = "The data of the backward pass: what is loaded, what is recomputed, what is stored"
    d = Drawing(390, 470, title)
    for y, height, x, at, name in [
        (8, 84, 14, 25, "from global memory"),
        (100, 236, 92, 328, "one tile, on chip"),
        (344, 84, 92, 361, "to global memory"),
    ]:
        d.box(6, y, 378, height, "#f4f4f4", "#bbbbbb")
        d.left(x, at, name, fill="#555555")
    for x, name in [(30, "Q"), (84, "K"), (192, "dO"), (246, "V"), (330, "O")]:
        d.matrix(x, 32, 40, 48, LINEAR, name)
    d.matrix(138, 42, 40, 28, SMALL, "LSE")
    d.matrix(24, 130, 118, 32, QUADRATIC, "S = scale Q K\u1d40")
    d.matrix(48, 200, 70, 32, QUADRATIC, "P")
    d.matrix(190, 130, 106, 32, QUADRATIC, "dP = dO V\u1d40")
    d.matrix(330, 130, 40, 32, SMALL, "\u03b4")
    d.matrix(190, 280, 106, 32, QUADRATIC, "dS")
    d.pointer(50, 80, 62, 128)
    d.pointer(104, 80, 98, 128)
    d.pointer(212, 80, 224, 128)
    d.pointer(266, 80, 258, 128)
    d.pointer(350, 80, 350, 128)
    d.pointer(226, 72, 332, 128, stroke="#777777", stroke_dasharray="4 3")
    d.pointer(83, 162, 83, 198)
    d.pointer(156, 70, 116, 198)
    d.left(126, 209, "exp(S - LSE)")
    d.pointer(243, 162, 243, 278)
    d.pointer(118, 222, 192, 278)
    d.pointer(336, 162, 292, 278)
    d.left(302, 300, "P \u2218 (dP - \u03b4)")
    d.left(331, 196, "rowsum")
    d.left(328, 212, "(dO \u2218 O)")
    for x, name, words in [
        (62, "dV", "P\u1d40 dO"),
        (190, "dK", "scale dS\u1d40 Q"),
        (300, "dQ", "scale dS K"),
    ]:
        d.matrix(x, 370, 42, 32, LINEAR, name)
        d.text(x + 21, 418, words)
    d.pointer(83, 232, 83, 368)
    d.pointer(222, 312, 212, 368)
    d.pointer(270, 312, 318, 368)
    d.legend(
        14,
        450,
        [(LINEAR, "grows with N"), (QUADRATIC, "N squared, or a tile"), (SMALL, "per query")],
    )
    return d


def bands_of(d, x, y, side, parts, across, groups):
    """A square of scores cut into bands, across or downwards; colour: warp, outline: block."""
    step = side / (parts * groups)
    edge = ("#777777", 0.8) if step > 6 else ("#aaaaaa", 0.3)
    for k in range(parts * groups):
        colour = COLOURS[k % parts]
        if across:
            d.box(x + k * step, y, step, side, colour, *edge)
        else:
            d.box(x, y + k * step, side, step, colour, *edge)
    for k in range(groups):
        if across:
            d.box(x + k * step * parts, y, step * parts, side, "none", "#222222", 1.4)
        else:
            d.box(x, y + k * step * parts, side, step * parts, "none", "#222222", 1.4)


def owners():
    d = Drawing(390, 262, "Which block and warp own which rows and columns of the scores")
    side = 160
    pictures = [
        ("03, 04: dK and dV", "32 keys per block", (8, True, 2)),
        ("03: dQ", "32 queries per block", (8, False, 2)),
    ]
    for k, (name, words, cut) in enumerate(pictures):
        x = 20 + 190 * k
        d.text(x + side / 2, 18, name, font_weight="bold")
        d.text(x + side / 2, 36, words)
        bands_of(d, x, 46, side, *cut)
    words = [
        "64 queries, downwards, and 64 keys, across. Outline: block.",
        "Band: 4 keys or queries of a warp, 8 lanes for each.",
    ]
    d.lines_of_text(20, 228, words, text_anchor="start")
    return d


def rows():
    title = "Which block and warp own which rows and columns of the scores, rung by rung"
    d = Drawing(700, 506, title)
    side = 128
    pictures = [
        ("01, 02: matmuls", "32 x 32 elements of", "a result per block", None),
        ("03: dK, dV", "32 keys a block,", "8 lanes for each key", (8, True, 4)),
        ("03: dQ", "32 queries a block,", "8 lanes for each query", (8, False, 4)),
        ("04: all", "32 keys per block;", "all blocks add to dQ", (8, True, 4)),
        (
            "05, 06, 08 to 12: all",
            "128 keys per block, 16",
            "per warp; all add to dQ",
            (WARPS, True, 1),
        ),
        ("07: dK, dV", "as 06,", "without dQ", (WARPS, True, 1)),
        ("07: dQ", "128 queries a block,", "16 per warp", (WARPS, False, 1)),
    ]
    for k, (name, first, second, cut) in enumerate(pictures):
        x = 18 + 174 * (k % 4)
        y = 64 if k < 4 else 270
        d.text(x + side / 2, y - 40, name, font_weight="bold")
        d.text(x + side / 2, y - 25, first)
        d.text(x + side / 2, y - 10, second)
        if cut is None:
            for i in range(4):
                for j in range(4):
                    d.box(x + 32 * j, y + 32 * i, 32, 32, COLOURS[7], "#222222", 1.4)
        else:
            bands_of(d, x, y, side, *cut)
    words = [
        "Scores of 128 queries, downwards, and 128 keys, across.",
        "Outline: block. Band or part within it: warp.",
        "A sum over queries is local where a warp owns keys;",
        "a sum over keys, where it owns queries.",
        "Rungs 05 to 11 are drawn with 128 columns.",
    ]
    d.lines_of_text(18, 424, words, text_anchor="start")
    d.narrow([(0, 0, 356, 206)], [(356, 0, 344, 206)], [(0, 208, 356, 200)])
    d.narrow([(356, 208, 344, 200)], [(0, 408, 400, 92)])
    return d


def hopper():
    d = Drawing(390, 386, "Rungs 08 to 12: the operands of the five matmuls of a warpgroup")
    shared, registers = LINEAR, QUADRATIC
    width, height = 68, 30
    for x, name in [(6, "result"), (104, "left"), (190, "right")]:
        d.text(x + width / 2, 20, name, font_weight="bold")

    def product(y, result, sign, left, right, words):
        for x, (name, size, fill) in [(6, result), (104, left), (190, right)]:
            d.matrix(x, y, width, height, fill, name)
            d.text(x + width / 2, y + height + 14, size)
        d.text(89, y + height / 2 + 5, sign, font_size=14)
        d.text(181, y + height / 2 + 5, "\u00b7", font_size=15)
        d.lines_of_text(266, y + 13, words, step=15, text_anchor="start")

    of_keys, of_queries, scores = "64 x d", "m x d", "64 x m"
    k_smem, v_smem = ("K", of_keys, shared), ("V", of_keys, shared)
    words = ["then P\u1d40 =", "exp(scale S\u1d40 - LSE)"]
    product(30, ("S\u1d40", scores, registers), "=", k_smem, ("Q\u1d40", "d x m", shared), words)
    words = ["then dS\u1d40 =", "P\u1d40 \u2218 (dP\u1d40 - \u03b4)"]
    product(88, ("dP\u1d40", scores, registers), "=", v_smem, ("dO\u1d40", "d x m", shared), words)
    for y, result, left, right in [(146, "dV", "P\u1d40", "dO"), (204, "dK", "dS\u1d40", "Q")]:
        operands = (left, scores, registers), (right, of_queries, shared)
        words = [f"{left} rounded,", "in registers"]
        product(y, (result, of_keys, registers), "+=", *operands, words)
    operands = ("dS", "m x 128", shared), ("K", "128 x d", shared)
    words = ["dS and K of both", "warpgroups"]
    product(286, ("dQ", "half of m x d", registers), "=", *operands, words)
    d.pointer(138, 252, 138, 283)
    d.left(148, 272, "stmatrix transposes it")
    d.legend(10, 356, [(shared, "in shared memory, 16 bits"), (registers, "in registers")])
    d.left(10, 377, "m: queries of a tile, d: columns")
    return d


def hopper_registers():
    d = Drawing(390, 138, "Rungs 08 to 12: the registers of a thread that holds both S and dP")
    left, scale = 58, 1.18
    d.left(10, 20, "Registers of a thread that holds both S and dP")
    for y, columns, queries in [(34, 64, 128), (72, 128, 64)]:
        d.left(8, y + 13, f"d = {columns}")
        d.left(8, y + 27, f"m = {queries}")
        x = left + 6
        parts = [("dK", columns), ("dV", columns), ("S\u1d40", queries), ("dP\u1d40", queries)]
        for k, (name, of_64) in enumerate(parts):
            numbers = 64 * of_64 // 128  # of 64 rows, shared by 128 threads
            d.box(x, y, scale * numbers, 30, COLOURS[k], "#666666")
            d.text(x + scale * numbers / 2, y + 13, name)
            d.text(x + scale * numbers / 2, y + 26, numbers)
            x += scale * numbers
        d.left(x + 6, y + 19, f"= {2 * 64 * (columns + queries) // 128}")
    at = left + 6 + scale * 255
    d.line(at, 28, at, 108, RED, 1.5, stroke_dasharray="4 3")
    d.right(at, 126, "255, the most", fill=RED)
    return d


def tape():
    d = Drawing(390, 250, "The computation of the example: two inputs, three operations")
    nodes = {
        "x": (50, 50, "x = 3", SMALL),
        "w": (50, 150, "w = 2", SMALL),
        "a": (160, 100, "a = x w", LINEAR),
        "b": (250, 40, "b = a + x", LINEAR),
        "loss": (330, 110, "loss = a b", QUADRATIC),
    }
    for line in [
        (88, 56, 120, 94),  # x to a
        (88, 144, 120, 106),  # w to a
        (88, 44, 208, 40),  # x to b
        (198, 84, 208, 40),  # a to b
        (198, 104, 280, 110),  # a to the loss
        (260, 56, 324, 92),  # b to the loss
    ]:
        d.pointer(*line)
    for x, y, name, colour in nodes.values():
        width = 96 if name.startswith("loss") else 76
        d.box(x - width / 2, y - 16, width, 32, colour, "#666666")
        d.text(x, y + 4, name)
    d.arrow(30, 192, 360)
    d.text(195, 186, "forward: compute, and record each operation")
    d.line(36, 214, 360, 214, RED)
    d.element("path", d="M 30 214 l 9 -5 v 10 z", fill=RED)
    d.text(195, 232, "backward: last operation first, += into gradients", fill=RED)
    return d


def delta():
    d = Drawing(390, 300, "Delta of one query: a sum over keys, or a sum over columns")
    d.text(195, 22, "over the keys: needs P and dP of the whole row", font_weight="bold")
    for k in range(12):
        d.box(27 + 28 * k, 36, 28, 24, QUADRATIC if k < 11 else "#ffffff", "#666666")
        d.box(27 + 28 * k, 76, 28, 24, QUADRATIC if k < 11 else "#ffffff", "#666666")
    d.text(349, 53, "...")
    d.text(349, 93, "...")
    d.text(41, 53, "P")
    d.text(41, 93, "dP")
    d.text(195, 72, "\u2218", font_size=14)
    d.text(195, 118, "N keys, tile by tile: known only after the last tile")
    d.text(195, 160, "over the columns: needs O and dO", font_weight="bold")
    for k in range(4):
        d.box(139 + 28 * k, 174, 28, 24, LINEAR, "#666666")
        d.box(139 + 28 * k, 214, 28, 24, LINEAR, "#666666")
    d.text(153, 191, "O")
    d.text(153, 231, "dO")
    d.text(195, 210, "\u2218", font_size=14)
    d.text(195, 256, "d columns: known before the first tile")
    d.text(195, 286, "both sums are the same number, delta", fill=RED)
    return d


def transposed():
    d = Drawing(390, 330, "Which left operands come from registers: S and dP, or S^T and dP^T")
    for top, name, good in [
        (30, "warps compute S and dP: rows are queries", (False, False, True)),
        (170, "warps compute S\u1d40 and dP\u1d40: rows are keys", (True, True, False)),
    ]:
        d.text(195, top - 8, name, font_weight="bold")
        entries = [("dV", "P\u1d40", "dO"), ("dK", "dS\u1d40", "Q"), ("dQ", "dS", "K")]
        for k, (result, left, right) in enumerate(entries):
            y = top + 36 * k
            d.text(34, y + 19, result + " +=")
            d.box(64, y + 2, 60, 26, QUADRATIC if good[k] else "#ffffff", "#666666", 1)
            d.text(94, y + 19, left)
            d.text(138, y + 19, "\u00b7", font_size=15)
            d.box(152, y + 2, 60, 26, LINEAR, "#666666", 1)
            d.text(182, y + 19, right)
            words = "as the registers hold it" if good[k] else "through shared memory"
            d.left(222, y + 19, words, fill="#222222" if good[k] else RED)
    d.text(195, 300, "One matmul from registers, or two.")
    d.text(195, 318, "Only dQ sums over the keys of all warps.")
    return d


def ordered():
    d = Drawing(390, 300, "Step 11 under the causal mask: when each block reaches each tile of dQ")
    side, left, top = 44, 130, 44
    for b in range(5):
        d.text(left + side * b + side / 2, 36, f"{b}", font_weight="bold")
        for i in range(5):
            x, y = left + side * b, top + side * i
            if i >= b:
                d.cell(x, y, side, side, COLOURS[i - b], f"{i - b}", "#666666", dy=5, font_size=14)
            else:
                d.box(x, y, side, side, "#ffffff", "#cccccc")
    d.text(left + 2.5 * side, 18, "block of keys", font_weight="bold")
    for i in range(5):
        d.right(left - 12, top + side * i + side / 2 + 5, f"tile {i} of dQ")
    d.text(195, 278, "Number: the block's step at this tile, also its rank.")
    d.text(195, 294, "Tile 4: block 4 stores in its step 0, then 3, 2, 1 and 0 add.")
    return d


def wide():
    d = Drawing(390, 372, "Step 13: the work of each warpgroup in both kinds of blocks")
    d.text(195, 20, "a block of keys: dK and dV of 64 keys", font_weight="bold")
    d.text(195, 204, "a block of queries: dQ of 128 queries", font_weight="bold")

    def group(x, y, name, lines):
        d.text(x + 75, y, name)
        for k, words in enumerate(lines):
            d.box(x, y + 10 + 34 * k, 150, 28, QUADRATIC if k == 1 else LINEAR, "#666666", 1)
            d.text(x + 75, y + 28 + 34 * k, words)

    of_s = ["S\u1d40 = K Q\u1d40", "P\u1d40 = exp(S\u1d40 - LSE)", "dV += P\u1d40 dO"]
    of_dp = [
        "dP\u1d40 = V dO\u1d40",
        "dS\u1d40 = P\u1d40 \u2218 (dP\u1d40 - \u03b4)",
        "dK += dS\u1d40 Q",
    ]
    group(20, 44, "warpgroup 0", of_s)
    group(220, 44, "warpgroup 1", of_dp)
    d.pointer(170, 102, 219, 102, RED)
    d.text(195, 94, "P\u1d40", fill=RED)
    d.text(195, 172, "Q and dO are streamed, 64 queries at a time", fill="#555555")
    for x, name, words in [(20, "0", "S, dP of 64 queries"), (220, "1", "S, dP of the others")]:
        group(x, 228, f"warpgroup {name}", [words, "P, dS", "dQ += dS K"])
    d.text(195, 356, "K and V are streamed, 64 keys at a time", fill="#555555")
    return d


def dependent():
    d = Drawing(390, 276, "The three kernels of step 15, without and with dependent launches")
    launch, ready = "#dddddd", QUADRATIC

    def kernel(y, name, left, start, end, first):
        d.box(left, y, start - left, 24, first, "#666666")
        d.box(start, y, end - start, 24, LINEAR, "#666666")
        d.text((start + end) / 2, y + 16, name)

    d.left(16, 22, "One after the other", font_weight="bold")
    kernel(34, "preprocess", 16, 34, 106, launch)
    kernel(62, "gradients", 106, 142, 272, launch)
    kernel(90, "postprocess", 272, 290, 374, launch)
    d.left(16, 142, "Dependent launches", font_weight="bold")
    kernel(154, "preprocess", 16, 34, 106, launch)
    kernel(182, "gradients", 70, 106, 236, ready)
    kernel(210, "postprocess", 218, 236, 320, ready)
    for x, top in [(106, 176), (236, 204)]:
        d.line(x, top, x, top + 34, RED, 1.5, stroke_dasharray="4 3")
    d.legend(16, 264, [(launch, "launch, set-up"), (ready, "set-up, grid_dependency_wait()")])
    return d


def transposed_sums():
    d = Drawing(390, 330, "Step 16: which warpgroup computes which part of a tile")
    of, unit = [COLOURS[1], COLOURS[0]], 0.6
    rows, keys, columns = 64 * unit, 96 * unit, 64 * unit

    def halves(x, y, name):
        for k in range(2):
            d.box(x + k * keys / 2, y, keys / 2, rows, of[k], "#666666")
        d.text(x + keys / 4, y + rows / 2 + 4, name)

    def chunks(x, y, width, name, fill):
        for c in range(3):
            d.box(x, y + c * columns, width, columns, fill, "#666666")
        d.text(x + width / 2, y + 1.5 * columns + 4, name)

    d.text(195, 20, "S, P, dP, dS: 48 keys for each warpgroup", font_weight="bold")
    for x, name in [(96, "P"), (236, "dS")]:
        halves(x, 50, name)
        d.text(x + keys / 2, 43, "96 keys", font_size=12)
        d.right(x - 8, 50 + rows / 2 + 4, "64 queries")
    d.text(195, 112, "P and dS go to shared memory; both warpgroups read them")
    parts = [(14, "dO\u1d40", "P", "dV\u1d40"), (206, "Q\u1d40", "dS", "dK\u1d40")]
    for k, (x, left, right, result) in enumerate(parts):
        d.text(x + 84, 140, f"warpgroup {k}", font_weight="bold")
        chunks(x, 152, rows, left, "#f2f2f2")
        d.text(x + rows / 2, 282, "64", font_size=12)
        halves(x + 46, 152 + columns, right)
        d.left(x + 46 + keys + 4, 152 + 1.5 * columns + 4, "=")
        chunks(x + 122, 152, keys, result, of[k])
        d.text(x + 122 + keys / 2, 282, "96 keys", font_size=12)
    d.text(195, 302, "Three wgmma accumulators of 64 columns x 96 keys,")
    d.text(195, 320, "3 x 48 registers of a thread: one sum per warpgroup")
    return d


def block_pairs():
    d = Drawing(400, 400, "Step 18: two blocks of a cluster exchange dS and share dQ")
    of, unit = [COLOURS[1], COLOURS[0]], 0.9
    rows, keys, columns = 64 * unit, 96 * unit, 192 * unit
    lefts, tops = (12, 215), (46, 46 + rows + 14)
    for b, left in enumerate(lefts):
        middle = left + columns / 2
        d.text(middle, 20, f"block {b}", font_weight="bold")
        x = left + (columns - keys) / 2
        for source, y in enumerate(tops):
            d.box(x, y, keys, rows, of[source], "#666666")
            d.text(x + keys / 2, y + rows / 2 - 4, f"dS, keys {96 * source}")
            d.text(x + keys / 2, y + rows / 2 + 12, f"to {96 * source + 95}")
        d.lines_of_text(middle, 200, ["times K of 192 keys,", "some columns:"])
        x = left
        for owner, width in [(0, 64), (1, 64), (0, 32), (1, 32)]:
            fill = of[b] if owner == b else "#f2f2f2"
            d.box(x, 228, width * unit, rows, fill, "#666666")
            if owner == b:
                d.text(x + width * unit / 2, 228 + rows / 2 + 4, str(width))
            x += width * unit
        d.lines_of_text(middle, 228 + rows + 18, ["dQ, 64 queries", "x 192 columns"])
    edge = (columns - keys) / 2
    for source, y in enumerate(tops):
        ends = (lefts[0] + edge + keys + 6, lefts[1] + edge - 6)
        d.pointer(ends[source], y + rows / 2, ends[1 - source], y + rows / 2)
    for top in tops:
        d.text(200, top + rows / 2 - 8, "12 KiB")
    words = [
        "Each block adds 96 columns of dQ to global memory,",
        "summed over 192 keys: 24 KiB for a tile,",
        "where a block of step 16 adds 48.",
    ]
    d.lines_of_text(200, 346, words)
    return d


def few_heads():
    d = Drawing(390, 336, "Step 19: the query heads of a group divided among blocks")
    left, side, heads, tiles = 62, 26, 8, 8
    for top, parts, words in [(44, 1, "8 blocks"), (196, 4, "32 blocks")]:
        d.text(left + tiles * side / 2, top - 24, "1024 keys, 128 in a block")
        d.text(left + tiles * side / 2, top - 8, words, font_weight="bold")
        height = 12
        for i in range(heads):
            of = i * parts // heads
            for tile in range(tiles):
                d.box(left + tile * side, top + i * height, side, height, COLOURS[of], "#cccccc")
        for part in range(parts):
            share = heads * height / parts
            for tile in range(tiles):
                x, y = left + tile * side, top + part * share
                d.box(x, y, side, share, "none", "#222222", 1.4)
        d.right(left - 6, top + 10, "head 0")
        d.right(left - 6, top + heads * height - 2, "head 7")
        x = left + tiles * side + 8
        if parts == 1:
            d.left(x, top + 44, "a column has")
            d.left(x, top + 60, "dK and dV")
        else:
            for part in range(parts):
                d.left(x, top + part * 24 + 16, f"part {part}")
            d.pointer(x + 54, top + 8, x + 54, top + 88)
            d.left(x + 60, top + 44, "sum")
    words = ["A frame is a block. Each part has sums of its own,", "which the last kernel adds."]
    d.lines_of_text(195, 312, words)
    return d


def score_chain():
    """From the scores over the functor to P and O, and the gradients back."""
    d = Drawing(390, 276, "Scores, changed scores, probabilities, output; and their gradients")
    steps = [("S", "dS"), ("S'", "dS'"), ("P", "dP"), ("O", "dO")]
    names = ["score()", "softmax", "times V"]
    back = ["score'(S) dS'", "P (dP - delta)", "dO V^T"]
    for i, (value, gradient) in enumerate(steps):
        y = 34 + 66 * i
        d.cell(70, y, 60, 32, LINEAR, value, "#666666")
        d.cell(250, y, 60, 32, QUADRATIC if i == 0 else SMALL, gradient, "#666666")
        if i < 3:
            d.vertical_arrow(100, y + 32, y + 66)
            d.left(108, y + 53, names[i], font_size=11)
            d.vertical_arrow(280, y + 66, y + 32)
            d.left(288, y + 53, back[i], font_size=11)
    d.text(100, 22, "forward", font_weight="bold")
    d.text(280, 22, "backward", font_weight="bold")
    return d


def packed_workspace():
    """The rows of the workspace that three packed sequences have."""
    d = Drawing(390, 288, "Rows of the workspace of three packed sequences with two query heads")
    lengths, heads, slot_rows = (200, 60, 150), 2, 128
    begins = [sum(lengths[:i]) for i in range(4)]
    firsts = [begin // slot_rows + i for i, begin in enumerate(begins)]
    d.left(10, 20, "dQ: the rows of a head, packed", font_weight="bold")
    for i, length in enumerate(lengths):
        d.cell(10 + 0.9 * begins[i], 30, 0.9 * length, 24, COLOURS[i], length, "#666666")
    d.left(10, 80, "Workspace: 128 rows for each slot and head", font_weight="bold")
    for i, length in enumerate(lengths):
        y, width = 108 + 56 * i, 90
        slots, tiles = firsts[i + 1] - firsts[i], -(-length // slot_rows)
        words = f"sequence {i}, from row {firsts[i] * slot_rows * heads} on"
        d.left(10, y - 6, words, font_size=11)
        d.box(10, y, slots * heads * width, 28, "#ffffff", "#666666")
        for head in range(heads):
            x = 10 + head * tiles * width
            d.box(x, y, tiles * width, 28, "#f2f2f2", "#666666")
            d.box(x, y, length / slot_rows * width, 28, COLOURS[i], "#666666")
            d.text(x + length / slot_rows * width / 2, y + 18, f"head {head}", font_size=10)
    d.legend(10, 278, [("#f2f2f2", "padding: LSE = ∞, δ = 0"), ("#ffffff", "not used")])
    return d


if __name__ == "__main__":
    main(
        packed_workspace,
        block_pairs,
        few_heads,
        dependent,
        transposed_sums,
        tape,
        delta,
        transposed,
        wide,
        flow,
        hopper,
        hopper_registers,
        ordered,
        owners,
        rows,
        block_storage,
        score_chain,
    )
