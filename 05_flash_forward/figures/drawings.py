"""Prints a picture of this lesson as SVG: python3 -m 05_flash_forward.figures.drawings NAME.
Without one it lists them."""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main


def matrix_of_pairs(drawing, x0, y0, pairs, chosen, names):
    """16 rows of pairs of columns; the number gives the lane, and one lane is outlined."""
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
                drawing.box(x, y, width, height, "#ffffff", RED, 2.2)
                name = names[pair // 4 * 2 + row // 8]
                drawing.text(x + width / 2, y + 14, name, font_weight="bold")


def loops():
    d = Drawing(700, 300, "The order in which the two algorithms visit the tiles of scores")
    width, height, top = 50, 34, 70
    for left, name, by_rows in [(90, "FlashAttention-1", False), (450, "FlashAttention-2", True)]:
        d.text(left + 2 * width, 20, name, font_weight="bold")
        for tile in range(4):
            d.text(left + tile * width + width / 2, top - 24, f"K{tile}, V{tile}")
            d.right(left - 8, top + tile * height + 22, f"Q{tile}, O{tile}")
        for i in range(4):
            for j in range(4):
                colour = COLOURS[i] if by_rows else COLOURS[7]
                x, y = left + j * width, top + i * height
                d.box(x, y, width, height, colour)
                d.text(x + width / 2, y + 22, j + 1 if by_rows else 4 * j + i + 1)
        bottom = top + 4 * height
        if not by_rows:
            lines = [
                "One block per head.",
                "After each tile it writes O, m and l to memory",
                "and reads them back for the next tile.",
            ]
        else:
            lines = [
                "One block per row of tiles, all in parallel.",
                "O, m and l stay in its registers;",
                "O and LSE are written at the end.",
            ]
        d.lines_of_text(left + 2 * width, bottom + 28, lines)
    d.narrow([(0, 0, 350, 300)], [(350, 0, 350, 300)])
    return d


def mma_fragments():
    chosen = 9
    title = "Two 16 x 8 accumulators and the 16 x 16 left operand: the same lane holds an element"
    d = Drawing(700, 460, title)
    top, left = 62, 62
    second, right = left + 148, left + 352
    for x, keys, name in [
        (left, "keys 0 to 7", "s[i][j], float32"),
        (second, "keys 8 to 15", "s[i][j + 1], float32"),
    ]:
        d.text(x + 68, 24, keys, font_weight="bold")
        d.text(x + 68, 44, name)
    for row in range(16):
        d.right(left - 8, top + row * 19 + 14, f"row {row}")
    matrix_of_pairs(d, left, top, 4, chosen, ["0, 1", "2, 3"])
    matrix_of_pairs(d, second, top, 4, chosen, ["0, 1", "2, 3"])
    d.text(left + 318, top + 138, "round")
    d.arrow(left + 292, top + 150, left + 344)
    d.text(right + 136, 24, "keys 0 to 15", font_weight="bold")
    d.text(right + 136, 44, "left operand, 16 bits, two in a register")
    matrix_of_pairs(d, right, top, 8, chosen, ["r0", "r1", "r2", "r3"])
    words = [
        "A cell is two adjacent columns; its number is the lane that",
        "holds them. Outlined: lane 9. Its cells name the two of its four",
        "accumulator values, or the one of its four operand registers.",
    ]
    d.lines_of_text(left - 44, top + 16 * 19 + 26, words, 18, text_anchor="start")
    d.narrow([(0, 0, 350, 370)], [(0, 0, 60, 370), (350, 0, 350, 370)], [(0, 374, 412, 66)])
    return d


def swizzle():
    d = Drawing(700, 336, "Eight rows of a tile: where each 16-byte piece is stored")
    width, height, top = 36, 24, 66
    for left, name, phase in [(52, "plain", 0), (402, "swizzled", 1)]:
        d.text(left + 4 * width, 20, name, font_weight="bold")
        d.right(left - 8, 57, "banks")
        for place in range(8):
            x = left + place * width + width / 2
            d.text(x, 57 if place % 2 else 42, f"{4 * place}-{4 * place + 3}")
        for row in range(8):
            d.right(left - 8, top + row * height + 16, f"row {row}")
            for place in range(8):
                piece = place ^ (row * phase)
                x, y = left + place * width, top + row * height
                d.box(x, y, width, height, COLOURS[piece])
                if piece != 3:
                    d.text(x + width / 2, y + 16, piece)
        for row in range(8):
            x, y = left + (3 ^ (row * phase)) * width, top + row * height
            d.box(x, y, width, height, "#ffffff", RED, 2.2)
            d.text(x + width / 2, y + 16, 3, font_weight="bold")
    words = [
        "The number in a cell is the piece of 8 columns stored there.",
        "A load reads the same piece of eight rows, for example 3:",
        "plain from four banks, swizzled from all 32.",
    ]
    d.lines_of_text(18, top + 8 * height + 28, words, 18, text_anchor="start")
    d.narrow([(0, 0, 350, 264)], [(350, 0, 350, 264)], [(0, 268, 400, 66)])
    return d


def register_tiles():
    chosen_x, chosen_y = 2, 1
    d = Drawing(700, 360, "Which scores and which part of O a lane holds")
    top, height, width = 58, 6, 4
    first, second = 62, 424
    for left, name, what in [
        (first, "scores of a warp", "32 queries, 64 keys"),
        (second, "O of a warp", "32 queries, d = 64 columns"),
    ]:
        d.text(left + 32 * width, 20, name, font_weight="bold")
        d.text(left + 32 * width, 40, what)
        d.box(left, top, 64 * width, 32 * height, "#f4f4f4", "#888888")
        for row in range(chosen_y, 32, 4):
            d.box(left, top + row * height, 64 * width, height, LINEAR, stroke="none")
    for row in range(0, 32, 8):
        d.right(first - 8, top + row * height + 10, f"row {row}")
    for row in range(chosen_y, 32, 4):
        y = top + row * height
        for j in range(8):
            d.box(first + (chosen_x + 8 * j) * width, y, width, height, RED, stroke="none")
        for c in range(2):
            d.box(
                second + (32 * c + 4 * chosen_x) * width, y, 4 * width, height, RED, stroke="none"
            )
    for left, step in [(first, 8), (second, 32)]:
        for column in range(step, 64, step):
            x = left + column * width
            d.line(x, top, x, top + 32 * height, "#888888", 0.6)
    d.text(371, top + 78, "P, through")
    d.text(371, top + 112, "shared")
    d.text(371, top + 128, "memory")
    d.arrow(334, top + 90, 408)
    words = [
        "Small boxes: the lane with x = 2 and y = 1. Of each 8 keys it",
        "has number x; of each 32 columns it has four, from 4 x on.",
        "Bands: its rows, 1, 5, 9 and so on, which it shares with the",
        "other 7 lanes of the same y, on both sides.",
    ]
    d.lines_of_text(18, top + 32 * height + 30, words, text_anchor="start")
    d.narrow([(0, 0, 332, 258)], [(332, 0, 368, 258)], [(0, 262, 400, 92)])
    return d


def place(d, x, y, width, height, name):
    """A level of memory."""
    d.box(x, y, width, height, "#f4f4f4", "#bbbbbb")
    d.left(x + 8, y + 15, name, fill="#555555")


def flow():
    bold = {"text_anchor": "start", "font_weight": "bold"}
    d = Drawing(400, 556, "The data of rung 01 and of a block of rung 03")
    d.text(12, 22, "01: three kernels communicate through memory", **bold)
    place(d, 8, 34, 384, 94, "global memory")
    place(d, 8, 152, 384, 58, "")
    d.left(16, 203, "on the chip", fill="#555555")
    for x, width, colour, name in [
        (16, 34, LINEAR, "Q"),
        (58, 34, LINEAR, "K"),
        (128, 50, QUADRATIC, "S"),
        (216, 50, QUADRATIC, "P"),
        (284, 34, LINEAR, "V"),
        (346, 34, LINEAR, "O"),
    ]:
        d.matrix(x, 58, width, 56, colour, name)
    for x, words, inputs, output in [
        (86, "scale Q K\u1d40", (33, 75), 146),
        (196, "softmax of rows", (160,), 232),
        (322, "P V", (250, 301), 363),
    ]:
        d.text(x, 184, words)
        for k, source in enumerate(inputs):
            d.pointer(source, 114, x - 22 + 14 * k, 170)
        d.pointer(x + 22, 170, output, 117)

    d.text(12, 242, "03: one kernel, only inputs and results in memory", **bold)
    place(d, 8, 254, 384, 88, "global memory")
    place(d, 8, 356, 384, 50, "shared memory")
    place(d, 8, 420, 384, 66, "registers")
    for x, rows, name in [(112, 1, "Q"), (190, 4, "K"), (268, 4, "V"), (338, 1, "O, LSE")]:
        for row in range(4):
            fill = LINEAR if rows == 4 or row != 1 else "#9cc5ea"
            d.box(x, 276 + 15 * row, 44, 15, fill, "#666666")
        d.text(x + 22, 271, name)
    for x, name in [(190, "K\u2c7c"), (268, "V\u2c7c")]:
        d.pointer(x + 22, 336, x + 22, 364)
        d.matrix(x, 366, 44, 28, LINEAR, name)
        d.pointer(x + 22, 394, x + 22, 442)
    d.pointer(134, 306, 134, 442)
    d.matrix(112, 444, 44, 28, "#9cc5ea", "Q\u1d62")
    d.matrix(176, 444, 72, 28, QUADRATIC, "S, then P")
    d.matrix(266, 444, 60, 28, SMALL, "m, l, O")
    d.pointer(156, 458, 174, 458)
    d.pointer(248, 458, 264, 458)
    d.pointer(326, 452, 360, 308, stroke="#777777", stroke_dasharray="5 3")
    d.lines_of_text(386, 432, ["at the", "end"], step=15, text_anchor="end", fill="#555555")
    d.legend(
        12,
        508,
        [
            (LINEAR, "grows with N"),
            (SMALL, "a value for each row, and O"),
            (QUADRATIC, "scores and P: N squared in 01, one tile in 03"),
        ],
    )
    return d


# Of each rung: queries of a block, rows of a warp, the owner of a row, and of rows 0 to 7.
ROWS = [
    ("01, softmax", 4, 1, "a warp", lambda row: (f"warp {row % 4}", row % 4)),
    ("02, 03", 64, 32, "a thread", lambda row: (f"lane {row}", row)),
    ("04", 128, 32, "8 lanes", lambda row: (shortened(lanes_of_row(row)), row % 4)),
    ("05 to 08", 128, 32, "4 lanes", lambda row: (f"lanes {4 * row} to {4 * row + 3}", row)),
]


def lanes_of_row(row):
    """The eight lanes of rung 04 with this row: see the lane's y in its source."""
    return [lane for lane in range(32) if lane // 2 % 2 + lane // 16 * 2 == row % 4]


def shortened(lanes):
    """Eight lanes in a cell: the first three, and the last."""
    return f"{lanes[0]}, {lanes[1]}, {lanes[2]} .. {lanes[-1]}"


def rows():
    d = Drawing(700, 390, "Which blocks, warps and lanes own a row, rung by rung")
    height = 1.5  # of a row, where all of a head's are shown
    for k, (name, block, of_warp, owner, first_rows) in enumerate(ROWS):
        left, top = 18 + 172 * k, 66
        d.text(left + 79, 22, name, font_weight="bold")
        d.text(left + 79, 40, f"owner of a row: {owner}")
        if owner == "a thread" and block == 64:
            d.text(left + 79, 56, "(02: until the next tile)", fill="#555555")
        for first in range(0, 128, of_warp):
            d.box(
                left,
                top + first * height,
                32,
                of_warp * height,
                COLOURS[first // of_warp % (block // of_warp)],
                "#aaaaaa",
                0.3,
            )
        for first in range(0, 128, block):
            d.box(
                left,
                top + first * height,
                32,
                block * height,
                "none",
                "#222222",
                0.6 if block < 32 else 1.6,
            )
        d.left(left - 6, top + 128 * height + 16, "128 rows")
        zoom = 24
        for row in range(8):
            words, colour = first_rows(row)
            y = top + zoom * row
            d.box(left + 44, y, 114, zoom, COLOURS[colour % 8], "#aaaaaa")
            d.text(left + 101, y + 16, words)
        d.line(left + 32, top, left + 44, top, "#888888", 0.8)
        d.line(left + 32, top + 8 * height, left + 44, top + 8 * zoom, "#888888", 0.8)
        d.text(left + 111, top + 8 * zoom + 16, "rows 0 to 7")
    words = [
        "Narrow: the rows of a head, a band for each warp, an outline",
        "for each block. Wide: the owners of the first eight. In rung",
        "04 rows 4 apart have the same lanes, from rung 05 on rows 8",
        "apart. With 256 columns rung 08 has 8 warps of 16 rows, and",
        "rung 04 has 4.",
    ]
    d.lines_of_text(18, 308, words, text_anchor="start")
    d.narrow([(0, 0, 350, 288)], [(350, 0, 350, 288)], [(0, 292, 420, 98)])
    return d


def causal():
    """The tiles of rung 08 with 128 columns: see flash_edge_masks()."""
    block_m, block_n = 128, 64
    title = "Rung 08 under the causal mask: which tiles are computed, and in which order"
    d = Drawing(700, 482, title)
    side, top = 30, 82
    for left, length_q, length_k in [(86, 640, 640), (478, 384, 448)]:

        def seen(query):
            return min(max(query + 1 + length_k - length_q, 0), length_k)

        blocks, columns = length_q // block_m, -(-length_k // block_n)
        width = columns * side
        d.text(left + width / 2, 24, f"{length_q} queries, {length_k} keys", font_weight="bold")
        for column in range(columns):
            d.text(left + (column + 0.5) * side, top - 8, block_n * column)
        d.text(left + width / 2, top - 26, "first key of a tile")
        for block in range(blocks):
            y = top + 2 * side * block
            query0 = block * block_m
            tiles, whole = -(-seen(query0 + block_m - 1) // block_n), seen(query0) // block_n
            for column in range(columns):
                x = left + column * side
                if column >= tiles:
                    d.box(x, y, side, 2 * side, "#ffffff", "#cccccc")
                    continue
                d.box(x, y, side, 2 * side, QUADRATIC if column >= whole else LINEAR)
                d.text(x + side / 2, y + side + 4, tiles - column)
            d.right(left - 8, y + side - 4, f"{query0} to {query0 + block_m - 1}")
            d.right(left - 8, y + side + 12, f"scheduled {blocks - block}", fill="#555555")
        # The edge of the mask: a step for each query, so a line.
        shift = length_k - length_q
        d.line(
            left + (shift + 1) / block_n * side,
            top,
            left + width,
            top + 2 * side * blocks,
            RED,
            1.6,
        )
    d.legend(
        18,
        408,
        [
            (LINEAR, "fully visible"),
            (QUADRATIC, "partly masked"),
            ("#ffffff", "skipped"),
            (RED, "edge of the mask"),
        ],
    )
    words = [
        "Numbers: the order of the tiles in a block, masked tiles first.",
        "Tiles: 128 queries x 64 keys; head dimension 128.",
    ]
    d.lines_of_text(18, 450, words, text_anchor="start")
    d.narrow([(0, 0, 393, 390)], [(393, 0, 307, 270)], [(0, 394, 400, 84)])
    return d


def mirrored():
    """Tiles of 128 keys that each of eight blocks computes: N = 1024, causal."""
    d = Drawing(390, 330, "Tiles of keys for each block, in step 15 and with mirrored tiles")
    blocks, unit = 8, 7
    for top, name, query0 in [
        (14, "Step 15", lambda block, group: 128 * block + 64 * group),
        (176, "Step 16", lambda block, group: 64 * (block if group == 0 else 15 - block)),
    ]:
        base = top + 128
        d.left(16, top + 12, name, font_weight="bold")
        for block in range(blocks):
            x, y, total = 66 + 40 * block, base, 0
            for group in range(2):
                tiles = -(-(query0(block, group) + 64) // 128)
                y -= unit * tiles
                total += tiles
                d.box(x, y, 26, unit * tiles, COLOURS[1 - group], "#666666")
            d.text(x + 13, y - 4, total)
            d.text(x + 13, base + 14, block)
        d.right(58, base + 14, "block")
    d.legend(96, 26, [(COLOURS[1], "warpgroup 0"), (COLOURS[0], "warpgroup 1")])
    return d


def split_bits():
    d = Drawing(390, 190, "A float32 as the sum of two TF32 values: their significant bits")
    unit, left = 13, 60

    def bits(y, name, start, count, fill, words):
        d.right(left - 8, y + 17, name)
        d.box(left + start * unit, y, count * unit, 26, fill, "#666666")
        d.text(left + (start + count / 2) * unit, y + 17, words)

    bits(14, "x", 0, 24, SMALL, "float32: 24 significant bits")
    bits(56, "high", 0, 11, LINEAR, "TF32: 11 bits")
    bits(98, "x - high", 12, 12, SMALL, "a sign and 12 bits")
    bits(140, "low", 12, 11, QUADRATIC, "TF32: 11 bits")
    d.line(left + 11 * unit, 40, left + 11 * unit, 176, "#777777", 1, stroke_dasharray="3 3")
    return d


if __name__ == "__main__":
    main(mirrored, split_bits, flow, loops, rows, register_tiles, mma_fragments, swizzle, causal)
