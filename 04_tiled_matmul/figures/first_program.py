"""Pictures of chapter 1 as SVG: python3 -m 04_tiled_matmul.figures.first_program
host_device|grid|warps|sms|divergence"""

from common.drawing.svg import COLOURS, LINEAR, QUADRATIC, RED, SMALL, Drawing, main

WIDTH = 400


def host_device():
    title = "The CPU and the GPU have separate memories; the host copies and launches"
    d = Drawing(WIDTH, 268, title)
    d.text(90, 22, "CPU (host)", font_weight="bold")
    d.text(310, 22, "GPU (device)", font_weight="bold")
    for x in (12, 232):
        d.box(x, 32, 156, 222, "#f4f4f4", "#bbbbbb")
    steps = [
        ("cudaMalloc", "room for x, y", False),
        ("cudaMemcpy", "x, y", True),
        ("saxpy<<<...>>>", "kernel runs", True),
        ("cudaMemcpy", "y", None),
        ("cudaFree", "", False),
    ]
    for k, (call, effect, forward) in enumerate(steps):
        y = 44 + 42 * k
        d.cell(22, y, 136, 30, LINEAR, f"{k + 1}. {call}", "#666666", dy=5)
        if effect:
            d.cell(
                242, y, 136, 30, QUADRATIC if "kernel" in effect else SMALL, effect, "#666666", dy=5
            )
        if forward is None:
            d.pointer(240, y + 15, 160, y + 15)
        else:
            d.pointer(160, y + 15, 240 if effect else 230, y + 15)
    return d


def grid():
    title = "A grid of 4 blocks of 128 threads: block 2, its 4 warps, and the lanes of warp 1"
    d = Drawing(WIDTH, 316, title)
    d.left(12, 20, "grid: 4 blocks of 128 threads", font_weight="bold")
    for k in range(4):
        d.box(12 + 94 * k, 30, 94, 34, RED if k == 2 else LINEAR, "#666666")
        d.text(59 + 94 * k, 52, f"block {k}", fill="#ffffff" if k == 2 else "#222222")
    for k in range(5):
        d.text(min(max(12 + 94 * k, 16), 378), 80, 128 * k)
    d.line(200, 86, 12, 112, "#999999", 1)
    d.line(294, 86, 388, 112, "#999999", 1)
    d.left(12, 134, "block 2: 4 warps of 32 threads", font_weight="bold")
    for k in range(4):
        d.box(12 + 94 * k, 144, 94, 34, RED if k == 1 else SMALL, "#666666")
        d.text(59 + 94 * k, 166, f"warp {k}", fill="#ffffff" if k == 1 else "#222222")
    d.line(106, 182, 12, 204, "#999999", 1)
    d.line(200, 182, 388, 204, "#999999", 1)
    d.left(12, 226, "warp 1: 32 lanes", font_weight="bold")
    for k in range(32):
        d.box(12 + 11.75 * k, 236, 11.75, 26, RED if k == 12 else COLOURS[4], "#666666")
    d.text(18, 278, 0)
    d.text(12 + 11.75 * 12.5, 278, 12)
    d.text(383, 278, 31)
    d.text(WIDTH / 2, 302, "lane 12 of warp 1 = thread 44; 2 x 128 + 44 = element 300")
    return d


def warps():
    d = Drawing(WIDTH, 226, "A block of 16 x 4 threads: two rows form a warp")
    side = 20
    d.text(40 + 8 * side, 18, "threadIdx.x")
    for x in (0, 15):
        d.text(40 + side * (x + 0.5), 36, x)
    for y in range(4):
        d.text(26, 42 + 32 * y + 17, f"{y}")
        for x in range(16):
            number = 16 * y + x
            d.box(40 + side * x, 42 + 32 * y, side, 26, LINEAR if y < 2 else SMALL, "#666666")
            d.text(40 + side * (x + 0.5), 42 + 32 * y + 17, number, font_size=12)
    d.text(14, 110, "threadIdx.y", transform="rotate(-90 14 110)")
    for x, colour, name in [(40, LINEAR, "warp 0"), (140, SMALL, "warp 1")]:
        d.box(x, 182, 14, 12, colour, "#666666")
        d.left(x + 20, 192, name)
    d.left(40, 214, "number of a thread: threadIdx.y * 16 + threadIdx.x")
    return d


def sms():
    d = Drawing(WIDTH, 250, "Ten blocks on four SMs, two at a time on each")
    d.left(12, 20, "time")
    d.arrow(46, 16, 388)
    number = 0
    order = []
    for lane in range(2):
        for sm in range(4):
            order.append((sm, lane, 0, 3 + 0.2 * ((sm + lane) % 3)))
    order += [(2, 0, 3.4, 6.4), (0, 1, 3.4, 6.5)]
    for sm in range(4):
        y = 34 + 50 * sm
        d.box(60, y, 328, 44, "#f4f4f4", "#bbbbbb")
        d.text(34, y + 26, f"SM {sm}")
    for sm, lane, first, last in order:
        y = 36 + 50 * sm + 20 * lane
        d.box(
            64 + 46 * first,
            y,
            46 * (last - first),
            19,
            LINEAR if number < 8 else QUADRATIC,
            "#666666",
        )
        d.text(64 + 23 * (first + last), y + 14, f"block {number}")
        number += 1
    d.text(WIDTH / 2, 246, "Blocks 8 and 9 start where a block has ended.")
    return d


def divergence():
    title = "A warp in a branch that its lanes take differently: both sides, one after the other"
    d = Drawing(WIDTH, 236, title)
    d.left(12, 20, "lanes 0 to 31")
    d.left(12, 226, "Dashes: idle lanes. The two calls take the sum of their times.")
    rows = [
        ("if (lane < 12)", lambda lane: True),
        ("  f();", lambda lane: lane < 12),
        ("else g();", lambda lane: lane >= 12),
        ("h();", lambda lane: True),
    ]
    for k, (code, active) in enumerate(rows):
        y = 30 + 46 * k
        tall = 18 if k in (0,) else 38
        top = y + (38 - tall)
        for lane in range(32):
            colour = COLOURS[[4, 1, 2, 3][k]] if active(lane) else "#e8e8e8"
            d.box(12 + 8 * lane, top, 8, tall, colour, "#999999")
            if not active(lane):
                d.text(16 + 8 * lane, top + tall / 2 + 4, "–", fill="#666666")
        d.left(280, top + tall / 2 + 4, code, font_family="monospace")
    return d


if __name__ == "__main__":
    main(host_device, grid, warps, sms, divergence)
