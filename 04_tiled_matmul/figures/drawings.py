"""Prints a picture of this lesson as SVG: python3 -m 04_tiled_matmul.figures.drawings
banks|tiles|ring"""

import itertools

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

YELLOW = "#f5e9a8"  # the results of a block and of a thread
TILE = 32  # rows and columns of a tile, and banks


def banks():
    chosen = 5
    d = Drawing(
        700, 326, "A tile of 32 x 32 floats in shared memory: the bank of each element of a column"
    )
    side = 6.5
    for k, (name, place) in enumerate(
        [
            ("plain", lambda row, col: TILE * row + col),
            ("padded", lambda row, col: (TILE + 1) * row + col),
            ("swizzled", lambda row, col: TILE * row + (col ^ row)),
        ]
    ):
        left, top = 22 + 226 * k, 58
        d.text(left + 16 * side, 22, name, font_weight="bold")
        d.text(left + side / 2, 50, "0")
        d.text(left + 31.5 * side, 50, "31")
        d.text(left + 16 * side, 50, "bank")
        cells = {}  # (bank, row of banks) -> (row, col)
        for row in range(TILE):
            for col in range(TILE):
                word = place(row, col)
                cells[word % TILE, word // TILE] = (row, col)
        lines = TILE + (name == "padded")
        runs = {}  # of neighbours of one colour, each as a piece of a path
        for line in range(lines):
            colours = [
                # White: what the pad leaves empty.
                "#ffffff"
                if (bank, line) not in cells
                else RED
                if cells[bank, line][1] == chosen
                else COLOURS[cells[bank, line][0] % 2 + 1]
                for bank in range(TILE)
            ]
            bank = 0
            for colour, of_run in itertools.groupby(colours):
                length = len(list(of_run))
                runs.setdefault(colour, []).append(f"M{bank} {line}h{length}v1h-{length}z")
                bank += length
        runs["none"] = [f"M0 {y}h{TILE}" for y in range(lines + 1)]
        runs["none"] += [f"M{x} 0v{lines}" for x in range(TILE + 1)]
        for colour, path in runs.items():
            d.element(
                "path",
                d="".join(path),
                transform=f"translate({left} {top}) scale({side})",
                fill=colour,
                stroke="#cccccc" if colour == "none" else "none",
                stroke_width=0.3 / side,
            )
        of_column = [place(row, chosen) % TILE for row in range(TILE)]
        used = len(set(of_column))
        rounds = max(of_column.count(bank) for bank in set(of_column))
        many = "banks, 1 wavefront" if rounds == 1 else f"bank, {rounds} wavefronts"
        d.text(left + 16 * side, top + TILE * side + 24, f"{used} {many}", font_weight="bold")
    d.lines_of_text(
        22,
        314,
        [
            f"Red: column {chosen}, which a warp reads in one request. Other colours: even "
            f"and odd rows. White: padding."
        ],
        text_anchor="start",
    )
    return d


def tiles():
    d = Drawing(700, 330, "The levels of memory that the elements of a matmul pass through")
    for x, width, name, size in [
        (12, 300, "global memory", "all of A, B and C"),
        (330, 176, "shared memory", "a block's tiles"),
        (524, 164, "registers", "of a thread"),
    ]:
        d.box(x, 36, width, 240, "#f4f4f4", "#bbbbbb")
        d.text(x + width / 2, 24, name, font_weight="bold")
        d.text(x + width / 2, 266, size, font_size=11)
    # C in the middle, A left of it, B above it: a tile of C needs a strip of each.
    d.box(26, 138, 110, 110, LINEAR, "#666666", 1)
    d.box(26, 174, 110, 32, SMALL, "#666666", 1)
    d.box(60, 174, 32, 32, RED, "#666666", 1)
    d.text(44, 158, "A")
    d.box(150, 138, 110, 110, LINEAR, "#666666", 1)
    d.box(190, 174, 32, 32, YELLOW, "#666666", 1)
    d.text(168, 158, "C")
    d.box(150, 46, 110, 82, LINEAR, "#666666", 1)
    d.box(190, 46, 32, 82, SMALL, "#666666", 1)
    d.box(190, 72, 32, 32, RED, "#666666", 1)
    d.text(168, 66, "B")
    for x, y, name, below in [(354, 134, "A's tile", 126), (428, 62, "B's tile", 142)]:
        d.box(x, y, 64, 64, RED, "#666666", 1)
        d.text(x + 32, below, name, font_size=11)
    d.pointer(92, 178, 350, 166)
    d.pointer(222, 88, 424, 88)
    # One step: the same column of A's tile and row of B's, of each the thread's eight.
    d.box(390, 150, 6, 28, "#ffffff", "#666666", 1)
    d.box(446, 88, 28, 6, "#ffffff", "#666666", 1)
    d.pointer(397, 164, 564, 172)
    d.pointer(475, 91, 586, 132)
    d.box(590, 150, 64, 64, YELLOW, "#666666", 1)
    for k in range(1, 8):
        d.line(590 + 8 * k, 150, 590 + 8 * k, 214, "#999999", 0.5)
        d.line(590, 150 + 8 * k, 654, 150 + 8 * k, "#999999", 0.5)
    d.box(570, 150, 10, 64, "#ffffff", "#666666", 1)
    d.box(590, 130, 64, 10, "#ffffff", "#666666", 1)
    d.text(622, 122, "8 of B", font_size=11)
    d.text(556, 144, "8 of A", font_size=11)
    d.text(622, 230, "64 sums", font_size=11)
    d.pointer(590, 208, 226, 206, stroke="#777777", stroke_dasharray="5 3")
    d.text(466, 224, "at the end, to C", font_size=11, fill="#555555")
    d.lines_of_text(
        12,
        298,
        [
            "Rung 09 loads a tile once for the whole block. In rung 11 a thread uses 16 "
            "elements of it for",
            "64 multiplications. The block steps through the tiles of the green strips; the "
            "sums stay in registers.",
        ],
        text_anchor="start",
    )
    return d


FETCH, MULTIPLY, WRITE = 3, 2, 3  # how long each takes, in units of the drawing
STEPS, TILES = 4, 2  # of the sums of a tile of C, and tiles of C


def ring_times(stages, runs_on):
    """The schedule of an SM: [(stage, step, copied from, ready, read from, free)], and [(from, to)]
    for each tile of C that is written. The producer of rung 21 continues with the next tile."""
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


def ring():
    rungs = [
        ("19", 1, False, "one stage"),
        ("20", 3, False, "a circular buffer of stages"),
        ("21", 3, True, "persistent: the producer continues with the next tile"),
    ]
    unit, left, row = 13.2, 70, 17
    d = Drawing(
        700,
        372,
        "Two tiles of C on one SM: when the stages are filled and read in rungs 19 to 21",
    )
    y = 40
    for name, stages, runs_on, idea in rungs:
        steps, writes = ring_times(stages, runs_on)
        d.text(12, y - 12, f"rung {name}: {idea}", text_anchor="start", font_weight="bold")
        for stage in range(stages):
            words = f"stage {stage}" if stages > 1 else "stage"
            d.text(left - 6, y + row * stage + 11, words, text_anchor="end", font_size=10)
        d.text(left - 6, y + row * stages + 11, "C", text_anchor="end", font_size=10)
        for stage, step, fetch, there, read, end in steps:
            for first, last, colour in [
                (fetch, there, LINEAR),
                (there, read, SMALL),
                (read, end, QUADRATIC),
            ]:
                if first < last:
                    d.box(
                        left + unit * first,
                        y + row * stage,
                        unit * (last - first),
                        row - 3,
                        colour,
                        "#666666",
                    )
            d.text(left + unit * (read + end) / 2, y + row * stage + 11, step, font_size=10)
        for first, last in writes:
            d.box(
                left + unit * first,
                y + row * stages,
                unit * (last - first),
                row - 3,
                COLOURS[4],
                "#666666",
            )
        end = writes[-1][1]
        d.line(left + unit * end, y - 4, left + unit * end, y + row * (stages + 1), RED, 1.2)
        y += row * (stages + 1) + 38
    d.legend(
        12,
        y - 8,
        [
            (LINEAR, "copy in flight"),
            (SMALL, "tiles ready"),
            (QUADRATIC, "tiles multiplied"),
            (COLOURS[4], "C is written"),
            (RED, "the end"),
        ],
    )
    d.lines_of_text(
        12,
        y + 14,
        [
            f"Time runs to the right. A tile of C takes {STEPS} steps here. A copy takes "
            f"{FETCH} units, a multiplication {MULTIPLY}, a write {WRITE}.",
            "Numbers: steps. In rungs 19 and 20 another block computes the second tile, once "
            "the first block has ended.",
        ],
        text_anchor="start",
    )
    return d


if __name__ == "__main__":
    main({"banks": banks, "tiles": tiles, "ring": ring})
