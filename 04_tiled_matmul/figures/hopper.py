"""Pictures of chapter 5 as SVG: python3 -m 04_tiled_matmul.figures.hopper
tma|mbarrier|swizzle|descriptor|ring|roles|raster"""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

WIDTH = 400


def tma():
    title = "TMA copies a box of 64 columns to a panel in shared memory; outside it writes 0"
    d = Drawing(WIDTH, 268, title)
    d.text(100, 20, "global memory", font_weight="bold")
    d.text(316, 20, "shared memory", font_weight="bold")
    d.box(14, 32, 150, 150, LINEAR, "#666666", 1)
    d.text(40, 52, "A")
    for k in range(2):
        d.box(100 + 40 * k, 120, 40, 90, "none", RED, 2)
    d.box(140, 120, 24, 62, QUADRATIC, "#666666", 0.5)
    d.box(100, 120, 40, 62, QUADRATIC, "#666666", 0.5)
    for k in range(2):
        d.element(
            "rect",
            x=100 + 40 * k,
            y=120,
            width=40,
            height=90,
            fill="none",
            stroke=RED,
            stroke_width=2,
        )
    d.text(120, 108, "64 columns", font_size=12)
    d.left(16, 228, "corner: (col, row)")
    d.pointer(60, 216, 97, 124, stroke_width=1)
    for k in range(2):
        y = 32 + 104 * k
        d.box(270, y, 92, 96, "#ffffff", RED, 2)
        d.box(270, y, 92 if k == 0 else 55, 66, QUADRATIC, "#666666", 0.5)
        d.text(316, y + 40, f"panel {k}" if k == 0 else "")
        d.text(298, y + 40, "" if k == 0 else "panel 1")
        d.text(316, y + 86, "0")
    d.text(348, 176, "0")
    d.pointer(184, 150, 266, 86)
    d.pointer(184, 170, 266, 190)
    words = [
        "One thread issues one copy for each panel. Rows are",
        "128 bytes; what lies outside of A arrives as 0.",
    ]
    d.lines_of_text(12, 248, words, text_anchor="start", step=15)
    return d


def mbarrier():
    title = "An mbarrier over time: a phase ends when no arrival and no byte is missing"
    d = Drawing(WIDTH, 246, title)
    left, unit = 92, 30
    rows = ["arrivals left", "bytes left", "phase", "wait(0)", "wait(1)"]
    for k, name in enumerate(rows):
        d.right(left - 8, 52 + 34 * k, name)
    events = [("expect", 1), ("A", 2.7), ("B", 4.2), ("expect", 5.6), ("A", 7.2), ("B", 8.8)]
    for name, at in events:
        d.text(left + unit * at, 22, name)
        d.line(left + unit * at, 28, left + unit * at, 206, "#bbbbbb", 1, stroke_dasharray="3 3")

    def bar(row, first, last, words, colour):
        d.box(left + unit * first, 34 + 34 * row, unit * (last - first), 26, colour, "#666666")
        d.text(left + unit * (first + last) / 2, 51 + 34 * row, words)

    end = 10
    for first, last, words in [
        (0, 1, "1"),
        (1, 4.2, "0"),
        (4.2, 5.6, "1"),
        (5.6, 8.8, "0"),
        (8.8, end, "1"),
    ]:
        bar(0, first, last, words, LINEAR)
    for first, last, words in [
        (0, 1, "0"),
        (1, 2.7, "48K"),
        (2.7, 4.2, "32K"),
        (4.2, 5.6, "0"),
        (5.6, 7.2, "48K"),
        (7.2, 8.8, "32K"),
        (8.8, end, "0"),
    ]:
        bar(1, first, last, words, LINEAR)
    for first, last, words, colour in [
        (0, 4.2, "0 (parity 0)", SMALL),
        (4.2, 8.8, "1 (parity 1)", COLOURS[3]),
        (8.8, end, "2", SMALL),
    ]:
        bar(2, first, last, words, colour)
    for first, last, words, colour in [
        (0, 4.2, "waits", RED),
        (4.2, 8.8, "returns", SMALL),
        (8.8, end, "wait", RED),
    ]:
        bar(3, first, last, words, "#f3cdd6" if colour == RED else colour)
    for first, last, words, colour in [
        (0, 4.2, "returns", SMALL),
        (4.2, 8.8, "waits", RED),
        (8.8, end, "ret.", SMALL),
    ]:
        bar(4, first, last, words, "#f3cdd6" if colour == RED else colour)
    d.left(12, 226, "expect: arrive_and_expect(48K). A and B: tiles land.")
    d.left(12, 242, "wait(p) returns when the phase of parity p has ended.")
    return d


def swizzle():
    d = Drawing(WIDTH, 250, "Swizzle of 128 bytes: piece p of row r stands at place p ^ (r % 8)")
    side, tall, left = 42, 22, 46
    d.text(left + 4 * side, 18, "place in the row (16 bytes each)")
    for place in range(8):
        d.text(left + side * (place + 0.5), 36, place, fill="#555555")
    for row in range(8):
        d.right(left - 8, 57 + tall * row, f"row {row}")
        for place in range(8):
            piece = place ^ row
            at = (left + side * place, 42 + tall * row, side, tall)
            d.cell(*at, COLOURS[row % 2 + 1], f"p{piece}", "#ffffff")
    for row in range(8):  # above their neighbours' borders
        d.outlined(left + side * (3 ^ row), 42 + tall * row, side, tall, "p3")
    d.text(WIDTH / 2, 238, "Piece 3 of eight rows (outlined) lies in eight places: all banks.")
    return d


def descriptor():
    title = "The 64 bits of a descriptor, and the distances LBO and SBO in a tile of panels"
    d = Drawing(WIDTH, 382, title)
    fields = [
        ("62-63", "swizzle", 62),
        ("32-45", "SBO / 16", 110),
        ("16-29", "LBO / 16", 110),
        ("0-13", "address / 16", 110),
    ]
    x = 4
    for bits, name, width in fields:
        d.cell(x, 24, width, 28, LINEAR, name, "#666666")
        d.text(x + width / 2, 18, bits, fill="#555555")
        x += width
    d.left(12, 82, "K-major: k runs along a row", font_weight="bold")
    d.left(212, 82, "MN-major: k runs down", font_weight="bold")
    for row in range(16):
        d.box(50, 92 + 10 * row, 100, 10, COLOURS[1 + row // 8], "#ffffff", 0.4)
    d.box(50, 92, 25, 160, "none", RED, 2)
    d.text(100, 270, "128 bytes: 64 of k")
    d.line(157, 92, 157, 172, RED, 1.5)
    d.lines_of_text(162, 128, ["SBO =", "1024"], text_anchor="start", step=15)
    d.right(45, 136, "8 rows")
    d.right(45, 216, "8 rows")
    for panel in range(2):
        for row in range(16):
            d.box(222 + 70 * panel, 92 + 10 * row, 62, 10, COLOURS[1 + row // 8], "#ffffff", 0.4)
        d.box(222 + 70 * panel, 92, 62, 160, "none", RED, 2)
        d.text(253 + 70 * panel, 270, f"panel {panel}")
    d.line(222, 284, 292, 284, RED, 1.5)
    d.text(290, 302, "LBO = bytes of a panel")
    d.line(360, 92, 360, 172, RED, 1.5)
    d.left(364, 136, "SBO")
    words = [
        "Each row is 128 bytes. Outlined: 16 steps of k, which one",
        "wgmma reads (K-major: the first 16 of its rows are drawn).",
        "SBO: from 8 rows to the next 8. LBO: from a panel to the next.",
        "In K-major LBO is not used with this swizzle.",
    ]
    d.lines_of_text(12, 324, words, text_anchor="start", step=16)
    return d


FETCH, MULTIPLY, WRITE = 3, 2, 3  # how long each takes, in units of the drawing
STEPS, TILES = 4, 2  # of the sums of a tile of C, and tiles of C


def ring_times(stages, runs_on):
    """The schedule of an SM: [(stage, step, copied from, ready, read from, free)], and [(from, to)]
    for each tile of C that is written. The producer of step 21 continues with the next tile."""
    steps, writes, free, now = [], [], [0] * stages, 0
    for tile in range(TILES):
        begin = now
        for k in range(STEPS):
            stage = (tile * STEPS * runs_on + k) % stages
            fetch = free[stage] if runs_on else max(begin, free[stage])
            read = max(now, fetch + FETCH)
            now = free[stage] = read + MULTIPLY
            steps.append((stage, tile * STEPS + k, fetch, fetch + FETCH, read, now))
        writes.append((now, now + WRITE))
        now += WRITE
    return steps, writes


def draw_ring(d, left, y, stages, runs_on):
    """One kernel: a row for each stage and one for C; returns the height."""
    unit, row = 7.0, 20
    steps, writes = ring_times(stages, runs_on)

    def box(first, last, line, colour):
        width = unit * (last - first)
        d.box(left + unit * first, y + row * line, width, row - 3, colour, "#666666")

    for stage in range(stages):
        d.right(left - 6, y + row * stage + 13, f"stage {stage}")
    d.right(left - 6, y + row * stages + 13, "C")
    for stage, step, fetch, there, read, end in steps:
        for first, last, colour in [
            (fetch, there, LINEAR),
            (there, read, SMALL),
            (read, end, QUADRATIC),
        ]:
            if first < last:
                box(first, last, stage, colour)
        d.text(left + unit * (read + end) / 2, y + row * stage + 13, step)
    for first, last in writes:
        box(first, last, stages, COLOURS[3])
    end = left + unit * writes[-1][1]
    d.line(end, y - 4, end, y + row * (stages + 1), RED, 1.5)
    return row * (stages + 1)


def ring():
    kinds = [
        ("step 19: one stage", 1, False),
        ("step 20: three stages", 3, False),
        ("step 21: persistent", 3, True),
    ]
    title = "Two tiles of C on one SM: when the stages are filled and read in steps 19 to 21"
    d = Drawing(WIDTH, 382, title)
    y = 30
    for name, stages, runs_on in kinds:
        d.left(12, y - 10, name, font_weight="bold")
        y += draw_ring(d, 62, y, stages, runs_on) + 30
    entries = [
        (LINEAR, "copy in flight"),
        (SMALL, "ready"),
        (QUADRATIC, "multiplied"),
        (COLOURS[3], "C is stored"),
    ]
    for k, (colour, words) in enumerate(entries):
        x = 12 + [0, 112, 182, 278][k]
        d.box(x, y - 16, 14, 12, colour, "#666666")
        d.left(x + 19, y - 6, words)
    words = [
        f"Numbers: steps along k. A copy takes {FETCH} units of time, a",
        f"multiplication {MULTIPLY}, the store of a tile {WRITE}. Three stages are",
        "drawn; the kernels of steps 20 and 21 have four.",
    ]
    d.lines_of_text(12, y + 14, words, text_anchor="start")
    return d


def roles():
    title = "Step 21: a producer warpgroup and two consumer warpgroups around a ring of stages"
    d = Drawing(WIDTH, 330, title)
    left, width, gap = 12, 84, 10
    d.cell(84, 12, 230, 64, LINEAR, "producer", "#666666", 1, dy=-16, font_weight="bold")
    d.lines_of_text(199, 48, ["1 thread issues TMA", "24 registers"])
    for stage in range(4):
        x = left + (width + gap) * stage
        d.cell(x, 136, width, 46, SMALL, f"stage {stage}", "#666666", 1, dy=-4)
        d.text(x + width / 2, 174, "A, B tiles")
    for consumer, rows in enumerate(["0 to 63", "64 to 127"]):
        x = left + 194 * consumer
        d.cell(x, 246, 178, 64, QUADRATIC, f"consumer {consumer}", "#666666", 1, dy=-16,
               font_weight="bold")  # fmt: skip
        d.lines_of_text(x + 89, 282, [f"wgmma: rows {rows}", "240 registers"])
    # One arrow for each thing that travels, with its words on the arrow's outer side.
    d.pointer(128, 78, 128, 132)
    d.lines_of_text(120, 100, ["copies,", "then full"], text_anchor="end")
    d.pointer(272, 132, 272, 78, stroke=RED, stroke_dasharray="5 3")
    d.lines_of_text(280, 100, ["empty:", "8 arrivals"], text_anchor="start", fill=RED)
    d.pointer(128, 184, 128, 242)
    d.lines_of_text(120, 208, ["wait for full,", "then read"], text_anchor="end")
    d.pointer(272, 242, 272, 186, stroke=RED, stroke_dasharray="5 3")
    d.lines_of_text(
        280, 208, ["arrive at empty,", "one lane a warp"], text_anchor="start", fill=RED
    )
    return d


def raster():
    d = Drawing(WIDTH, 252, "The order of tiles of C: row by row, and in groups of rows")
    side, rows, cols, group, running = 22, 8, 8, 4, 16
    for x, name, order in [
        (12, "row by row", lambda m, n: m * cols + n),
        (212, "groups of 4 rows", lambda m, n: (m // group) * group * cols + n * group + m % group),
    ]:
        d.text(x + 4 * side, 20, name, font_weight="bold")
        for m in range(rows):
            for n in range(cols):
                i = order(m, n)
                d.box(
                    x + side * n,
                    30 + side * m,
                    side,
                    side,
                    QUADRATIC if i < running else "#eeeeee",
                    "#ffffff",
                )
                d.text(x + side * (n + 0.5), 30 + side * m + 15, i)
    d.text(100, 226, "2 + 8 strips are read")
    d.text(300, 226, "4 + 4 strips are read")
    d.text(WIDTH / 2, 242, "Tiles 0 to 15 run at the same time.")
    return d


if __name__ == "__main__":
    main(tma, mbarrier, swizzle, descriptor, ring, roles, raster)
