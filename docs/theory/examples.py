"""Prints the worked examples of the theory chapters: python3 -m docs.theory.examples NAME
[RECORD...]

Figures are computed here, exactly where they are exact, or taken from records in docs/results.
Exit status: 0, 1 when an example says one thing and a record another, 2 when a record lacks what is
asked.
"""

import heapq
import math
import operator
import random
import sys
from fractions import Fraction

from common.data.records import Problem, aligned, formatted, print_named, rows_with
from common.data.records import source_lines as source_of

# An SM of compute capability 9.0 (NVIDIA, Hopper Tuning Guide, section 1.4.1).
WARPS, BLOCKS, REGISTERS, SHARED = 64, 32, 64 * 1024, 228 * 1024
RESERVED = 1024  # bytes of shared memory that each block has beside its own
QUARTERS = 4  # of an SM; each has a quarter of the registers and its own warps
TILE = 128  # queries and keys of a tile
EXPONENTIALS = 16  # per cycle and SM (CUDA Programming Guide, throughput of instructions)
PIECE = 256  # registers are handed out to a warp in pieces of this size


def find(record, **fields):
    """The one row with these fields."""
    rows = rows_with(record, **fields)
    if len(rows) != 1:
        raise Problem(f"the record has {len(rows)} rows with {fields}; one is needed")
    return rows[0]


def machine(record):
    """What the GPU could do, from a rate and its share of the peak in a record of lesson 04.

    Returns (float32, bfloat16, memory): operations per second, the same on tensor cores, bytes per
    second."""
    add = find(record, group="add")
    cuda = find(record, group="matmul", kernel="cuBLAS")
    tensor = find(record, group="mma", kernel="cuBLAS")
    return (
        1e12 * cuda["tflops"] / cuda["percent_of_peak"] * 100,
        1e12 * tensor["tflops"] / tensor["percent_of_peak"] * 100,
        1e9 * add["gigabytes_per_second"] / add["percent_of_peak"] * 100,
    )


class Kernel:
    """A measured kernel: what it computes, what it must move at least, and how fast it was."""

    def __init__(self, name, kind, operations, least, rate):
        self.name, self.kind = name, kind  # kind: "float32" or "bfloat16"
        self.intensity = operations / least  # operations for each byte
        self.rate = rate  # operations per second


def kernels(matmul, forward):
    """Kernels of lessons 04 and 05 for the roofline, from the lowest intensity to the highest."""
    found = []

    def by_bytes(group, name, operations, least):
        row = find(matmul, group=group, kernel=name)
        rate = 1e9 * row["gigabytes_per_second"] * operations / least
        found.append(Kernel(name, "float32", operations, least, rate))

    by_bytes("add", "01_vector_add", 1, 12)  # for each element
    by_bytes("softmax", "06_softmax_online", 5, 8)  # max, minus, exp, add, divide
    n, d = 4096, 64
    work, rows, scores = 4 * n * n * d, n * d, n * n  # of a head
    three = {"reads": 3 * rows + 2 * scores, "writes": rows + 2 * scores}
    row = find(forward, group="float32, D 64", kernel="01_unfused", length=n)
    least = 4 * sum(three.values())
    found.append(Kernel("attention, three kernels", "float32", work, least, 1e12 * row["tflops"]))
    for name in ("07_matmul_naive", "09_matmul_shared_tiles", "14_matmul_register_prefetch"):
        row = find(matmul, group="matmul", kernel=name)
        n = row["size"]
        found.append(Kernel(name, "float32", 2 * n**3, 12 * n * n, 1e12 * row["tflops"]))
    n = 4096
    for name in ("03_flash_2", "04_register_tiles"):
        row = find(forward, group="float32, D 64", kernel=name, length=n)
        found.append(Kernel(name, "float32", work, 16 * rows, 1e12 * row["tflops"]))
    for name in ("15_matmul_tensor_cores", "17_matmul_fragment_prefetch"):
        row = find(matmul, group="mma", kernel=name)
        found.append(Kernel(name, "bfloat16", 2 * n**3, 6 * n * n, 1e12 * row["tflops"]))
    for name in ("05_tensor_cores", "08_edge_masks"):
        row = find(forward, group="bfloat16, D 64", kernel=name, length=n)
        found.append(Kernel(name, "bfloat16", work, 8 * rows, 1e12 * row["tflops"]))
    return sorted(found, key=lambda kernel: kernel.intensity)


def bound(kernel, peaks):
    """The most operations per second that the roofline allows."""
    float32, bfloat16, memory = peaks
    return min(float32 if kernel.kind == "float32" else bfloat16, kernel.intensity * memory)


def significant(value):
    """Three digits: 0.0833, 15.8, 1024."""
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}"


def roofline(matmul, forward):
    peaks = machine(matmul)
    float32, bfloat16, memory = peaks
    cells = [["kernel", "type", "op/byte", "bound", "TFLOP/s", "% of bound"]]
    for kernel in kernels(matmul, forward):
        most = bound(kernel, peaks)
        figures = (significant(kernel.intensity), most / 1e12, kernel.rate / 1e12)
        cells.append([kernel.name, kernel.kind, *formatted("{} {:.2f} {:.2f}", *figures)])
        cells[-1].append(f"{100 * kernel.rate / most:.1f}")
    return [
        f"memory {memory / 1e12:.2f} TB/s, float32 {float32 / 1e12:.1f} TFLOP/s, bfloat16 "
        f"{bfloat16 / 1e12:.0f} TFLOP/s",
        f"operations in the time of a byte: float32 {float32 / memory:.1f}, "
        f"bfloat16 {bfloat16 / memory:.0f}",
        "",
        *aligned(cells, 1),
        *source_of(matmul, forward),
    ]


def fusion(matmul, forward):
    """Three kernels and one: what each must move, and what was measured."""
    n, d = 4096, 64
    heads = 16384 // n * (2048 // d)  # B N = 16384 tokens, H D = 2048
    float32, bfloat16, memory = machine(matmul)
    lines = [f"{heads} heads, N = {n}, d = {d}; ms at the peaks of the GPU"]
    cells = [["", "type", "GB", "to move", "to compute"]]
    for kind, size, peak in (("float32", 4, float32), ("bfloat16", 2, bfloat16)):
        for name, count in (
            ("S = Q K^T", 2 * n * d + n * n),
            ("P = softmax(S)", 2 * n * n),
            ("O = P V", n * n + 2 * n * d),
            ("one kernel", 4 * n * d),
        ):
            least = heads * size * count
            work = {"P = softmax(S)": 0, "one kernel": 4 * n * n * d}.get(name, 2 * n * n * d)
            compute = f"{1e3 * heads * work / peak:.2f}" if work else "-"
            moved = formatted("{:.2f} {:.2f}", least / 1e9, 1e3 * least / memory)
            cells.append([name, kind, *moved, compute])
    lines += aligned(cells, 1)
    cells = [["measured, float32", "kernels", "extra bytes", "ms"]]
    for name, count, beside in (
        ("01_unfused", 3, 4 * n * n),
        ("02_flash_1", 1, 8 * n),
        ("03_flash_2", 1, 0),
        ("04_register_tiles", 1, 0),
    ):
        row = find(forward, group="float32, D 64", kernel=name, length=n)
        cells.append([name, count, heads * beside, f"{row['milliseconds']:.2f}"])
    return [*lines, "", *aligned(cells, 1), *source_of(matmul, forward)]


def ceil_div(a, b):
    return -(-a // b)


def tiles(matmul):
    """What attention reads and writes by the number of queries in a tile."""
    n, d = 4096, 64
    _, tensor, memory = machine(matmul)
    cells = [["queries in a tile", "tiles", "elements", "x 4 N d", "op/byte"]]
    for block_m in (1, 16, 64, 128, 256, 4096):
        count = ceil_div(n, block_m)
        elements = 2 * n * d + 2 * n * d * count
        times, intensity = elements / (4 * n * d), 4 * n * n * d / (2 * elements)
        cells.append([block_m, count, elements, significant(times), significant(intensity)])
    return [
        f"one head, N = {n}, d = {d}, 2 bytes an element: 2 N d + 2 N d ceil(N / B_m)",
        *aligned(cells, 1),
        f"operations in the time of a byte, this GPU's tensor cores: {tensor / memory:.0f}",
    ]


def matmuls(matmul):
    """What the tiles of lesson 04's matmuls ask of global memory, and how fast they ask."""
    _, _, memory = machine(matmul)
    sides = {
        "08_matmul_coalesced": (1, 1),
        "09_matmul_shared_tiles": (32, 32),
        "10_matmul_1d_thread_tiling": (64, 64),
        "11_matmul_2d_thread_tiling": (128, 128),
        "12_matmul_vector_loads": (128, 128),
        "13_matmul_double_buffer": (128, 128),
        "14_matmul_register_prefetch": (128, 256),
    }
    cells = [["kernel", "tile", "x least", "GB", "TB/s", "% of peak", "TFLOP/s"]]
    for name, (rows, columns) in sides.items():
        row = find(matmul, group="matmul", kernel=name)
        n = row["size"]
        moved = 4 * (n**3 // rows + n**3 // columns + n * n)
        rate = moved / row["milliseconds"] * 1e3
        figures = (moved / (12 * n * n), moved / 1e9, rate / 1e12, 100 * rate / memory)
        cells.append(
            [name, f"{rows} x {columns}", *formatted("{:.1f} {:.2f} {:.2f} {:.0f}", *figures)]
        )
        cells[-1].append(f"{row['tflops']:.1f}")
    title = f"C = A B, float32, all sizes {n}: requested from global memory, and how fast"
    return [title, *aligned(cells, 1), *source_of(matmul)]


class Moments:
    """How many numbers, their mean, and the sum of their squared distances from it."""

    def __init__(self, count=0, mean=Fraction(0), squares=Fraction(0)):
        self.count, self.mean, self.squares = count, mean, squares

    def merge(self, other):
        """Both sets of numbers as one."""
        count = self.count + other.count
        if count == 0:
            return Moments()
        between = other.mean - self.mean
        return Moments(
            count,
            self.mean + between * other.count / count,
            self.squares + other.squares + between * between * self.count * other.count / count,
        )


def moments():
    numbers = [3, 2, 5, 1]
    cells = [["seen", "count", "mean", "squares", "variance"]]

    def add(name, x):
        cells.append([name, x.count, x.mean, x.squares, x.squares / x.count])

    halves = []
    for half in (numbers[:2], numbers[2:]):
        x = Moments()
        for number in half:
            x = x.merge(Moments(1, Fraction(number)))
        halves.append(x)
        add(" ".join(map(str, half)), x)
    whole = halves[0].merge(halves[1])
    add("merged", whole)
    mean = Fraction(sum(numbers), len(numbers))
    squares = sum((number - mean) ** 2 for number in numbers)
    if (whole.mean, whole.squares) != (mean, squares):
        raise ArithmeticError("the merge is not what the definition says")
    add("by definition", Moments(len(numbers), mean, squares))
    return aligned(cells, 1)


def types():
    """Sizes and ranges of the types, from their bits."""
    cells = [["type", "bytes", "exponent", "fraction", "epsilon", "largest", "least normal"]]
    for name, size, exponent, fraction in (
        ("float64", 8, 11, 52),
        ("float32", 4, 8, 23),
        ("TF32", 4, 8, 10),
        ("float16", 2, 5, 10),
        ("bfloat16", 2, 8, 7),
    ):
        bias = 2 ** (exponent - 1) - 1
        largest = (2 - Fraction(1, 2**fraction)) * Fraction(2) ** bias
        figures = formatted("2^-{} {:.3g} 2^{}", fraction, float(largest), 1 - bias)
        cells.append([name, size, exponent, fraction, *figures])
    return aligned(cells, 1)


def spacing():
    """How far float32 scores lie apart, and what half of that does to a probability."""
    cells = [["score about", "neighbours apart", "rounding changes P by up to"]]
    for size in (1, 10, 100, 1000, 10000):
        power = size.bit_length() - 1 - 23  # of the last of float32's 24 digits
        cells.append([size, f"2^{power}", f"{2.0**power / 2:.0e} of itself"])
    return aligned(cells, 1)


def resident(warps, registers, shared):
    """How many blocks share an SM: by registers, shared memory, warps and blocks."""
    for_a_warp = ceil_div(registers * 32, PIECE) * PIECE
    by_registers = REGISTERS // QUARTERS // for_a_warp * QUARTERS // warps
    by_shared = SHARED // (shared + RESERVED)
    return by_registers, by_shared, min(WARPS // warps, BLOCKS)


def occupancy(*records):
    """The limits of recorded kernels, and whether they explain what the driver said."""
    headings = "kernel,warps,regs,shared,by regs,by shared,by warps,blocks"
    cells = [headings.split(",")]
    off, seen = 0, set()
    for record in records:
        for row in record["measurements"]:
            if "blocks" not in row or row["blocks"] == 0:
                continue
            warps = round(row["percent_of_warps"] / 100 * WARPS / row["blocks"])
            numbers = (warps, row["registers"], row["shared_bytes"])
            if (row["kernel"], numbers) in seen:
                continue
            seen.add((row["kernel"], numbers))
            limits = resident(*numbers)
            off += min(limits) != row["blocks"]
            if row["group"] not in ("transpose", "matmul", "mma", "tiles, bfloat16, D 64"):
                continue
            if row["kernel"] not in ("02_transpose_naive", "04_transpose_swizzled"):
                cells.append([row["kernel"], *numbers, *limits, row["blocks"]])
    if off:
        raise ArithmeticError(f"{off} of {len(seen)} kernels have not the blocks of their limits")
    return [
        *aligned(cells, 1),
        f"{len(seen)} kernels in the records, {off} with other blocks than the least limit",
        *source_of(*records),
    ]


def thread(forward):
    """What a thread that owns a query must hold, and what the compiler gave it."""
    keys = 32  # scores of a tile
    cells = [["kernel", "d", "q, o", "scores", "m, l", "sum", "registers", "local bytes"]]
    for head_dim in (64, 128):
        for name in ("02_flash_1", "03_flash_2"):
            row = find(forward, group=f"float32, D {head_dim}", kernel=name, length=4096)
            held = (2 * head_dim, keys, 2)
            given = (row["registers"], row["spilled_bytes"])
            cells.append([name, head_dim, *held, sum(held), *given])
    return [*aligned(cells, 1), *source_of(forward)]


def schedule(count, copy, compute, stages):
    """When tiles are copied and computed: [(asked for, arrived, begun, done)]."""
    times = []
    for tile in range(count):
        free = times[tile - stages][3] if tile >= stages else 0
        arrived = free + copy
        begun = max(arrived, times[-1][3] if times else 0)
        times.append((free, arrived, begun, begun + compute))
    return times


def pipeline():
    """How long a loop over tiles takes with some stages."""
    count = 16
    cells = [["copy", "compute", "1 stage", "2 stages", "3 stages", "4 stages", "compute alone"]]
    for copy, compute in ((1, 4), (4, 4), (8, 4), (12, 4), (16, 4)):
        ends = [schedule(count, copy, compute, stages)[-1][3] for stages in (1, 2, 3, 4)]
        cells.append([copy, compute, *ends, count * compute])
    return [f"{count} tiles; any unit of time", *aligned(cells, 1)]


def in_flight(matmul):
    """Little's law: bytes in flight = bandwidth times latency."""
    _, _, memory = machine(matmul)
    cells = [["if a load takes", "bytes in flight", "per SM, of 132"]]
    for nanoseconds in (300, 500, 800):
        least = memory * nanoseconds * 1e-9
        figures = f"{least / 1e6:.2f} MB", f"{least / 132 / 1024:.1f} KiB"
        cells.append([f"{nanoseconds} ns", *figures])
    return [f"memory {memory / 1e12:.2f} TB/s", *aligned(cells, 1)]


def stages(matmul, forward):
    """Steps before and after they pipeline."""
    cells = [["kernel", "stages", "shared", "regs", "blocks", "TFLOP/s", "x before"]]
    before = None
    for record, group, name, count in (
        (matmul, "matmul", "12_matmul_vector_loads", 1),
        (matmul, "matmul", "13_matmul_double_buffer", 2),
        (matmul, "matmul", "14_matmul_register_prefetch", 3),
        (matmul, "mma", "15_matmul_tensor_cores", 1),
        (matmul, "mma", "16_matmul_pipelined", 3),
        (matmul, "mma", "17_matmul_fragment_prefetch", 3),
        (forward, "bfloat16, D 64", "06_swizzle", 1),
        (forward, "bfloat16, D 64", "07_pipeline", 2),
    ):
        length = {"length": 4096} if record is forward else {}
        row = find(record, group=group, kernel=name, **length)
        gain = f"{row['tflops'] / before:.2f}" if count > 1 else ""
        before = row["tflops"]
        numbers = (count, row["shared_bytes"], row["registers"], row["blocks"])
        cells.append([name, *numbers, f"{row['tflops']:.1f}", gain])
    return [*aligned(cells, 1), *source_of(matmul, forward)]


def counted_by_ncu(fidelity, row, *counters):
    """Counts of loads and stores together, a row's in the record of the lab's fidelity."""
    count = dict(zip(fidelity["metrics"], row["ncu"]))
    return [sum(count[f"l1tex__{what}_op_{way}.sum"] for way in ("ld", "st")) for what in counters]


SECTORS, WAVEFRONTS = "t_sectors_pipe_lsu_mem_global", "data_pipe_lsu_wavefronts_mem_shared"
CONFLICTS = "data_bank_conflicts_pipe_lsu_mem_shared"


def profile(fidelity, matmul):
    """What NVIDIA's profiler counted in small problems, and how fast large ones are."""
    cells = [["kernel", "sectors", "wavefronts", "conflicts", "% of peak", "of"]]
    for row in fidelity["counts"]:
        if row["group"] not in ("transpose", "matmul") or row["kernel"].startswith("14_"):
            continue  # the counts are of an older step 14
        fast = find(matmul, group=row["group"], kernel=row["kernel"])
        of = "bytes" if "gigabytes_per_second" in fast else "operations"
        counts = counted_by_ncu(fidelity, row, SECTORS, WAVEFRONTS, CONFLICTS)
        cells.append([row["kernel"], *counts, f"{fast['percent_of_peak']:.1f}", of])
    return [
        "counted by ncu, all sizes 128; rates with all sizes 4096",
        *aligned(cells, 1),
        *source_of(fidelity, matmul),
    ]


def wavefronts(first, last):
    """Shared memory's bound on the kernels from one number to another: an example."""

    def show(fidelity, matmul):
        cells = [
            ["", "", "wavefronts", "wavefronts", "at most", "reached"],
            ["kernel", "sectors", "lab", "ncu", "% of peak", "% of peak"],
        ]
        for row in fidelity["counts"]:
            if row["group"] != "matmul" or not first <= int(row["kernel"][:2]) <= last:
                continue
            sectors, ncu = counted_by_ncu(fidelity, row, SECTORS, WAVEFRONTS)
            lab = sum(row["lab"][f"wavefronts_{way}"] for way in ("ld", "st"))
            multiply_adds = row["size"] ** 3 // 32  # of warps
            bound = min(1, multiply_adds / QUARTERS / ncu)
            fast = find(matmul, group=row["group"], kernel=row["kernel"])
            rates = formatted("{:.1f} {:.1f}", 100 * bound, fast["percent_of_peak"])
            cells.append([row["kernel"], sectors, lab, ncu, *rates])
        return [
            f"counts: all sizes {row['size']}; reached: all sizes 4096",
            *aligned(cells, 2),
            *source_of(fidelity, matmul),
        ]

    return show


def backward(forward, gradients):
    """Time of the backward pass over that of the forward pass."""
    cells = [["", "N", "forward ms", "backward ms", "times"]]
    for group in ("bfloat16, D 64", "bfloat16, D 128"):
        for mask in ("", ", causal"):
            for length in (1024, 4096, 16384):
                wanted = {"group": group + mask, "length": length}
                there = find(forward, kernel="08_edge_masks", **wanted)["milliseconds"]
                back = find(gradients, kernel="06_swizzled_pipeline", **wanted)["milliseconds"]
                times = formatted("{:.3f} {:.3f} {:.2f}", there, back, back / there)
                cells.append([group + mask, length, *times])
    return [
        "five matmuls for two: 2.5 times the operations",
        *aligned(cells, 1),
        *source_of(forward, gradients),
    ]


def beyond():
    """Cycles of an SM for a tile of 128 queries and keys, forward: matmuls and exponentials."""
    rows = []
    for name, matmul in (("H200", 4096), ("B200", 8192)):  # FLOPs per cycle and SM
        for d in (64, 128):
            cycles = 2 * 2 * TILE * TILE * d // matmul
            exponentials = TILE * TILE // EXPONENTIALS
            share = exponentials / cycles
            rows.append([name, d, cycles, exponentials, f"{share:.2f}"])
    headings = ["GPU", "D", "cycles of S and P V", "cycles of exp", "exp / matmuls"]
    return [
        f"{EXPONENTIALS} exponentials per cycle and SM; 4096 and 8192 FLOPs of tensor cores",
        *aligned([headings, *rows], 1),
    ]


def chebyshev(degree):
    """The polynomial of this degree that is 2^x at the Chebyshev points of [0, 1]."""
    count = degree + 1
    points = [(1 + math.cos(math.pi * (k + 0.5) / count)) / 2 for k in range(count)]
    differences = [2.0**x for x in points]  # Newton's divided differences, in place
    for step in range(1, count):
        for k in range(degree, step - 1, -1):
            slope = differences[k] - differences[k - 1]
            differences[k] = slope / (points[k] - points[k - step])

    def value(x):
        result = differences[degree]
        for k in range(degree - 1, -1, -1):
            result = result * (x - points[k]) + differences[k]
        return result

    return value


def bfloat16(x):
    """A number from 1 to 2, rounded to the 8 significant bits of bfloat16."""
    return round(x * 128) / 128


def exponential():
    """How well polynomials replace 2^x for a fraction x, before and after rounding to bfloat16."""
    inputs = [k / 10_000 for k in range(10_000)]
    rows = []
    for degree in range(1, 6):
        value = chebyshev(degree)
        error = max(abs(value(x) / 2.0**x - 1) for x in inputs)
        other = sum(bfloat16(value(x)) != bfloat16(2.0**x) for x in inputs)
        rows.append(formatted("{} {:.1e} {:.1f}", degree, error, 100 * other / len(inputs)))
    headings = ["degree", "largest relative error", "% other in bfloat16"]
    return [*aligned([headings, *rows], 1), f"rounding to bfloat16 alone: up to {2.0**-8:.1e}"]


def rates():
    """The rates that times stand for: those of a table in the notes, for the errata."""
    batch, heads, length, head_dim = 8, 12, 1024, 64
    operations = 4 * batch * heads * length**2 * head_dim
    cells = [["row", "ms", "TFLOP/s in the notes", "from their own time"]]
    for name, milliseconds, rate in (
        ("PyTorch", 45.2, 2.1),
        ("Python", 156.8, 0.6),
        ("Triton", 12.3, 7.8),
        ("CUDA", 8.7, 11.2),
    ):
        true = operations / milliseconds / 1e9
        cells.append([name, milliseconds, rate, f"{true:.2f}"])
    size = f"B {batch}, H {heads}, N {length}, d {head_dim}"
    return [f"{size}: 4 B H N^2 d = {operations / 1e9:.1f} GFLOP", *aligned(cells, 1)]


def speedup():
    """What fusion can gain at most, for the errata: an example of the notes, its bandwidths."""
    n, d = 1024, 64
    far, near = 2e12, 19e12  # bytes per second of an A100, as the notes have them
    peak = 312e12  # its tensor cores in 16 bits (NVIDIA, A100 data sheet)
    rows, scores, work = n * d, n * n, 4 * n * n * d
    three = [(2 * rows + scores, work / 2), (2 * scores, 0), (scores + 2 * rows, work / 2)]
    unfused = sum(max(2 * count / far, operations / peak) for count, operations in three)
    fused = max(2 * 4 * rows / far, work / peak)
    cells = [["one head, N 1024, d 64, 16 bits", "microseconds"]]
    cells.append(["three kernels: larger of bytes and operations", f"{1e6 * unfused:.2f}"])
    cells.append(["one kernel: bytes", f"{1e6 * 2 * 4 * rows / far:.2f}"])
    cells.append(["one kernel: operations", f"{1e6 * work / peak:.2f}"])
    return [
        *aligned(cells, 1),
        f"quotient of the bounds {unfused / fused:.1f}; the notes' formula gives "
        f"{n * near / (2 * d * far):.0f}",
    ]


def maxima():
    """The largest of n random errors beside that of n others with the same spread."""
    pairs, random_errors = 50, random.Random(1)
    cells = [["elements", "least ratio of maxima", "largest", "least ratio of rms", "largest"]]
    for count in (100, 1000, 10000):
        ratios = []
        for _ in range(pairs):
            both = []
            for _ in range(2):
                errors = [random_errors.gauss(0, 1) for _ in range(count)]
                rms = math.sqrt(sum(error * error for error in errors) / count)
                both.append((max(map(abs, errors)), rms))
            ratios.append([a / b for a, b in zip(*both)])
        row = [f"{pick(column):.2f}" for column in zip(*ratios) for pick in (min, max)]
        cells.append([count, *row])
    return [f"{pairs} pairs of sets of normal errors, equal spread", *aligned(cells, 1)]


def last_finish(tiles, sms):
    """When the last SM ends, if each takes the next tile of a list as soon as it is free."""
    ends = [0] * sms
    for tile in tiles:
        heapq.heapreplace(ends, ends[0] + tile)
    return max(ends)


def order_of_tiles():
    """The idle share of 132 SMs under a causal mask, by the order in which tiles are taken.

    16384 queries in sequences of each length, 16 heads, tiles of 128 queries; tile i takes i + 1
    units of time. The bound is the time of one longest tile, beside the mean work of an SM.
    """
    sms, heads, queries = 132, 16, 16384
    cells = [("length", "tiles", "idle, shortest first", "longest first", "one longest tile")]
    for length in (1024, 2048, 4096, 8192, 16384):
        count = length // TILE
        tiles = [i + 1 for i in range(count) for _ in range(heads * queries // length)]
        mean = sum(tiles) / sms

        def idle(order, mean=mean):
            return f"{100 * (1 - mean / last_finish(order, sms)):.1f} %"

        longest = f"{100 * count / (mean + count):.1f} %"
        cells.append(
            (str(length), str(len(tiles)), idle(tiles), idle(sorted(tiles, reverse=True)), longest)
        )
    return aligned(cells, 1)


def to_bits(x, bits):
    """A number rounded to so many significant bits."""
    fraction, exponent = math.frexp(x)
    return math.ldexp(round(fraction * 2**bits), exponent - bits)


def rounded_output():
    """How far dQ is off when delta comes from an O that was rounded; all else is exact."""
    generator, d, queries = random.Random(6), 64, 16
    half = {"float16": 11, "bfloat16": 8}  # significant bits
    cells = [("keys", "scores", *half)]
    for keys, factor in ((2, 1), (16, 1), (128, 1), (128, 8), (128, 32)):
        worst = dict.fromkeys(half, 0.0)
        largest = 0.0
        k, v = ([[generator.gauss(0, 1) for _ in range(d)] for _ in range(keys)] for _ in "kv")
        for _ in range(queries):
            q, d_o = ([generator.gauss(0, 1) for _ in range(d)] for _ in "qo")
            s = [factor * sum(map(operator.mul, q, row)) / math.sqrt(d) for row in k]
            p = [math.exp(x - max(s)) for x in s]
            p = [x / sum(p) for x in p]
            o = [sum(map(operator.mul, p, column)) for column in zip(*v)]
            d_p = [sum(map(operator.mul, d_o, row)) for row in v]

            def d_q(of, p=p, d_p=d_p, d_o=d_o):
                delta = sum(map(operator.mul, d_o, of))
                d_s = [a * (b - delta) for a, b in zip(p, d_p)]
                return [sum(map(operator.mul, d_s, column)) for column in zip(*k)]

            exact = d_q(o)
            largest = max(largest, *map(abs, exact))
            for name, bits in half.items():
                off = d_q([to_bits(x, bits) for x in o])
                worst[name] = max(worst[name], *(abs(a - b) for a, b in zip(off, exact)))
        scores = "normal" if factor == 1 else f"{factor} times as large"
        cells.append((str(keys), scores, *(f"{worst[name] / largest:.0e}" for name in half)))
    return aligned(cells, 1)


def to_e4m3(x):
    """A number rounded to e4m3."""
    step = 2.0 ** max(math.frexp(x)[1] - 4, -9)
    return max(-448.0, min(448.0, round(x / step) * step))


def add_in_tensor_cores(so_far, products):
    """What a wgmma makes of a sum and products of 8 bits: each is cut off 13 bits behind the
    leading one of the largest (a probe of lesson 05, chapter 11)."""
    largest = max(map(abs, (so_far, *products)))
    unit = 2.0 ** (math.frexp(largest)[1] - 1 - 13)
    return unit * sum(int(x / unit) for x in (so_far, *products))


def sums_in_tensor_cores():
    """How far O is off by the sums of P V alone, without promotion and with it.

    One query with normal scores, 16 columns, P times 2^6; the row's maximum is known from the first
    key on, so that O is never rescaled.
    """
    generator, columns = random.Random(8), 16
    cells = [["keys", "V of both signs: 01", "02", "V of one sign: 01", "02"]]
    for keys in (1024, 4096, 16384, 65536):
        s = [generator.gauss(0, 1) for _ in range(keys)]
        m = max(s)
        p = [to_e4m3(64 * math.exp(x - m)) for x in s]
        v = [[generator.gauss(0, 1) for _ in range(keys)] for _ in range(columns)]
        largest = max(max(map(abs, column)) for column in v)
        cells.append([f"{keys:,}"])
        for kind in (float, abs):
            exact, carried, promoted = [], [], []
            for column in v:
                products = [a * to_e4m3(kind(x) / largest * 448) for a, x in zip(p, column)]
                whole = in_float32 = 0.0
                for first in range(0, keys, TILE):
                    of_tile = 0.0
                    for k in range(first, first + TILE, 32):
                        whole = add_in_tensor_cores(whole, products[k : k + 32])
                        of_tile = add_in_tensor_cores(of_tile, products[k : k + 32])
                    in_float32 += of_tile
                exact.append(sum(products))
                carried.append(whole)
                promoted.append(in_float32)
            for sums in (carried, promoted):
                cells[-1].append(f"{100 * math.dist(sums, exact) / math.hypot(*exact):.2f}")
    return ["Error of O by its sums alone, % of its norm", *aligned(cells, 1)]


EXAMPLES = {  # name: (function, how many records; None for any number)
    "roofline": (roofline, 2),
    "fusion": (fusion, 2),
    "tiles": (tiles, 1),
    "matmuls": (matmuls, 1),
    "maxima": (maxima, 0),
    "moments": (moments, 0),
    "types": (types, 0),
    "spacing": (spacing, 0),
    "occupancy": (occupancy, None),
    "thread": (thread, 1),
    "pipeline": (pipeline, 0),
    "in_flight": (in_flight, 1),
    "stages": (stages, 2),
    "profile": (profile, 2),
    "wavefronts_9_to_11": (wavefronts(9, 11), 2),
    "wavefronts_12": (wavefronts(12, 12), 2),
    "backward": (backward, 2),
    "beyond": (beyond, 0),
    "exponential": (exponential, 0),
    "rates": (rates, 0),
    "speedup": (speedup, 0),
    "order_of_tiles": (order_of_tiles, 0),
    "rounded_output": (rounded_output, 0),
    "sums_in_tensor_cores": (sums_in_tensor_cores, 0),
}


def main(arguments):
    return print_named(sys.modules[__name__], EXAMPLES, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
