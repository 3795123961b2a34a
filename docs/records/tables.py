"""Prints tables of records: NAME RECORD...

    front FORWARD BACKWARD          the course beside other implementations, from the records of the
                                    interfaces of lessons 05 and 06
    front_behind FORWARD BACKWARD   where another implementation is faster
    functors RECORD                 masks and scores by functors, by kernel or by implementation
    ring RECORD                     ring attention between GPUs, and what the model predicts
    ring_beside RECORD              beside the faster rotation of each backend
    fp8 RECORD OTHER...             the kernels in 8 bits beside the course and FlashAttention-3 of
                                    other records
    first_minutes RECORD            the first commands on a new machine
    programs RECORD                 public programs in the lab: how each ended, and what was found

Exit status: 0, or 2 when a record has nothing of the kind.
"""

import sys

from common.bench.peers import FOR_16_BITS, HEADINGS, MATH, OURS, SAME_BITS
from common.bench.tables import columns_of, mask_of, points_in
from common.bench.tables import ratio as ratio_of_point
from common.data.records import (
    Problem,
    aligned,
    formatted,
    print_named,
    rows_with,
    source_lines,
)

LENGTH = 4096  # queries and keys
GROUPS = ("d64", "d128", "d256")  # the shapes of the FlashAttention papers, six or three lengths
NAMES = {OURS: "course", "FLASH_ATTENTION": "FA-2", "FLASH_ATTENTION_3": "FA-3"}
NAMES["FLASH_ATTENTION_4"] = "FA-4"
NAMES[MATH] = "unfused"


def problems(record):
    """{(head_dim, mask): {length: {backend: TFLOP/s}}} of the times in bfloat16."""
    found = {}
    for row in record["measurements"]:
        wanted = row["what"] == "time" and row["type"] == "bfloat16"
        if not wanted or row.get("group", GROUPS[0]) not in GROUPS:
            continue
        if row["backend"] in (OURS, *FOR_16_BITS):
            by_length = found.setdefault((row["head_dim"], mask_of(row)), {})
            by_length.setdefault(row["length"], {})[row["backend"]] = row["tflops"]
    return found


def ratio(speeds):
    """The course's speed over that of the fastest peer, at one length."""
    return speeds[OURS] / max(speeds[peer] for peer in speeds if peer != OURS)


def front(forward, backward, length=LENGTH):
    """For each head dimension and mask in bfloat16: TFLOP/s of the course and of the peers that the
    records have at one length; the course's speed over that of the fastest of them; and the least
    such ratio over all recorded lengths."""
    measured = {"forward": problems(forward), "backward": problems(backward)}
    there = {
        backend
        for of_pass in measured.values()
        for by_length in of_pass.values()
        for backend in by_length.get(length, {})
    }
    columns = [backend for backend in (OURS, *FOR_16_BITS) if backend in there]
    names = [NAMES.get(backend, HEADINGS[backend]) for backend in columns]
    cells = [["pass", "D", "mask", *names, "x best", "least"]]
    lengths = set()
    for name, of_pass in measured.items():
        for (head_dim, mask), by_length in sorted(of_pass.items(), key=lambda item: item[0][0]):
            speeds = by_length.get(length, {})
            compared = {n: of for n, of in by_length.items() if OURS in of and len(of) > 1}
            if length not in compared:
                raise Problem(f"nothing is compared at length {length}: {name}, D {head_dim}")
            figures = [f"{speeds[c]:.0f}" if c in speeds else "-" for c in columns]
            lengths |= set(compared)
            least = min(ratio(of) for of in compared.values())
            ratios = [f"{ratio(speeds):.3f}", f"{least:.3f}"]
            cells.append([name, str(head_dim), mask, *figures, *ratios])
    if len(cells) == 1:
        raise Problem("the records have no times in bfloat16")
    legend = [
        "x best: the course's speed over that of the fastest other",
        f"least: the same at the worst of the recorded lengths, {min(lengths)} to {max(lengths)}",
    ]
    title = f"TFLOP/s in bfloat16, {length} queries and keys"
    return [title, *aligned(cells, 1), *legend, *source_lines(forward, backward)]


def name_of(backend):
    """A peer's name on the front page, whatever its mode."""
    backend = SAME_BITS.get(backend, backend)
    return NAMES.get(backend, HEADINGS[backend])


def ratios(record, same_bits):
    """For each type, head dimension and mask in a record: speed over that of the fastest other, who
    that is, and the length, of each point."""
    found = {}
    for of in points_in([row for row in record["measurements"] if row["what"] == "time"]):
        row, point = next(iter(of.values())), ratio_of_point(of, same_bits)
        if point:
            kind = (row["type"], row["head_dim"], columns_of(row), row["causal"])
            found.setdefault(kind, []).append((*point, row["length"]))
    return found


def front_behind(forward, backward):
    """Where another implementation is faster: all types, head dimensions and modes."""
    records = {"forward": forward, "backward": backward}
    cells = [["pass", "type", "D", "mask", "behind", "least", "N", "fastest"]]
    totals = []
    modes = [(name, same_bits) for name in records for same_bits in (False, True)]
    for name, same_bits in modes:
        what = f"{name}, deterministic" if same_bits else name
        points, slower = ratios(records[name], same_bits), 0
        for (dtype, _, columns, causal), found in sorted(points.items()):
            less = [point for point in found if round(point[0], 3) < 1]
            slower += len(less)
            if less:
                least, fastest, length = min(less)
                cells.append([what, dtype, columns, mask_of({"causal": causal})])
                cells[-1] += [f"{len(less)} of {len(found)}", f"{least:.3f}", str(length)]
                cells[-1].append(name_of(fastest))
        if points:
            totals.append(f"{what} {slower} of {sum(map(len, points.values()))}")
    if not totals:
        raise Problem("the records compare nothing")
    return [
        "Where another is faster; least: the course's speed over that of the other, at N",
        *aligned(cells, 1),
        "points behind, of all: " + "; ".join(totals),
        *source_lines(forward, backward),
    ]


FIELDS = (("milliseconds", 3, ": ms"), ("tflops", 1, ""))
TITLE = "TFLOP/s over visible scores; - means not measured."


def functors(record):
    """A line for each functor: TFLOP/s over visible scores of each kernel, or milliseconds and
    TFLOP/s of each implementation."""
    headings = {**HEADINGS, "FLEX_ATTENTION": "flex"}
    found = {}  # functor -> {kernel or implementation: row}
    for row in record["measurements"]:
        if "milliseconds" in row:
            name = row.get("kernel") or headings.get(row.get("backend"), "")
            found.setdefault(row.get("functor", row.get("group")), {})[name] = row
    columns = list(dict.fromkeys(name for of in found.values() for name in of))
    if not columns or "" in columns or None in found:
        raise Problem("the record has no times of functors")
    kernels = any("kernel" in row for of in found.values() for row in of.values())
    fields = FIELDS[1:] if kernels else FIELDS  # names of kernels are long
    titles = [name.replace("_", " ") for name in columns]  # so that they can be two lines
    cells = [["functor", *(f"{title}{unit}" for *_, unit in fields for title in titles)]]
    for functor, of in found.items():
        cells.append([functor])
        for field, digits, _ in fields:
            cells[-1] += [f"{of[c][field]:.{digits}f}" if c in of else "-" for c in columns]
    return [
        TITLE if kernels else f"Milliseconds, and {TITLE}",
        *aligned(cells, 1),
        *source_lines(record),
    ]


IMPLEMENTATIONS = {name: name for name in ("lesson", "ring-flash-attn")}
IMPLEMENTATIONS |= {"FLASH_ATTENTION": "FlashAttention-2", "CUDNN_ATTENTION": "cuDNN"}
POINT = ("mask", "pass", "gpus", "length")
PROBLEM = "bfloat16, batch 1, 16 query heads, 16 key heads, head_dim 128"


def spread(row):
    """How far the rounds of a row lie apart, in percent of the median."""
    between = row["milliseconds_most"] - row["milliseconds_least"]
    return 100 * between / row["milliseconds"]


def ring(record):
    """A line for each problem on several GPUs, with the time of one."""
    cells = [["mask", "pass", "GPUs", "N", "1 GPU: ms", "spread, %", "ms", "spread, %"]]
    cells[0] += ["no transfers: ms", "TFLOP/s per GPU", "efficiency, %", "predicted, %"]
    cells[0] += ["MiB per GPU"]
    rows = [row for row in record["measurements"] if row["gpus"] > 1 and "percent_predicted" in row]
    if not rows:
        raise Problem("the record has no times of several GPUs")
    point = ("form", *POINT) if "form" in rows[0] else POINT  # old records are of one form
    cells[0] = [*point[: -len(POINT)], *cells[0]]
    for row in rows:
        one = rows_with(record, **{name: row[name] for name in point} | {"gpus": 1})[0]
        cells.append(
            formatted(
                "{} " * len(point) + "{:.2f} {:.1f} {:.2f} {:.1f} {:.2f} {:.0f} {:.1f} {:.1f} {}",
                *(row[name] for name in point),
                one["milliseconds"],
                spread(one),
                row["milliseconds"],
                spread(row),
                row["milliseconds_without_transfers"],
                row["tflops_per_gpu"],
                row["percent_of_linear"],
                row["percent_predicted"],
                row["mebibytes_per_gpu"],
            )
        )
    return [PROBLEM, *aligned(cells, 1, len(point) - 2), *source_lines(record)]


def ring_beside(record):
    """A line for each problem: milliseconds and MiB of each implementation, of those with two
    rotations the faster one."""
    rows = record["measurements"]
    found = dict.fromkeys(tuple(row[name] for name in POINT) for row in rows)
    if len(counts := {point[POINT.index("gpus")] for point in found}) != 1:
        raise Problem(f"the record is of {len(counts)} numbers of GPUs, not of one")
    keys = [key for key in IMPLEMENTATIONS if any(key in row["implementation"] for row in rows)]
    heads = [f"{IMPLEMENTATIONS[key]}: {unit}" for unit in ("ms", "MiB") for key in keys]
    cells = [["N", "mask", "pass", *heads]]
    for point in found:
        of = rows_with(record, **dict(zip(POINT, point)))
        best = []
        for key in keys:
            own = [row for row in of if key in row["implementation"]]
            if not own:
                raise Problem(f"the record lacks {key} of {dict(zip(POINT, point))}")
            best.append(min(own, key=lambda row: row["milliseconds"]))
        times = [f"{row['milliseconds']:.1f}" for row in best]
        mask, which, _, length = point
        cells.append([length, mask, which, *times, *(row["mebibytes_per_gpu"] for row in best)])
    versions = ", ".join([f"PyTorch {record['torch']}", *record["peers"].values()])
    title = f"{counts.pop()} GPUs, {versions}"
    return [title, *aligned(cells, 1, 3), *source_lines(record)]


FP8 = ("float8_e4m3fn", "FLASH_ATTENTION_3")
FP8_CUDNN = ("float8_e4m3fn", "CUDNN_ATTENTION")


def fp8(kernels, *others):
    """A line for each problem in 8 bits: TFLOP/s in 16 bits and in 8, how many times as fast the
    course's better kernel is as its own in 16 bits and as FlashAttention-3 in 8, and the error of
    that beside its 16 bits; where records have them, cuDNN's speed and error, and the error of the
    course's better kernel beside float64. A later record of others counts."""
    others_at = {}
    for row in (row for record in others for row in record["measurements"]):
        if row["what"] == "time" and row["group"] in GROUPS:
            problem = (row["head_dim"], row["causal"], row["length"])
            others_at.setdefault(problem, {})[row["type"], row["backend"]] = row
    steps = list(dict.fromkeys(row["kernel"] for row in kernels["measurements"]))
    eight = {FP8: "FA-3"}
    if any(FP8_CUDNN in of for of in others_at.values()):
        eight[FP8_CUDNN] = "cuDNN"
    ours = any("percent_error" in row for row in kernels["measurements"])
    sixteen = [("bfloat16", OURS), ("bfloat16", FP8[1])]
    cells = [["D, mask", "N", "16 bits: course", "16 bits: FA-3", *steps]]
    cells[0] += [f"8 bits: {name}" for name in eight.values()]
    cells[0] += ["x 16 bits", "x FA-3", *["course: error, %"] * ours]
    cells[0] += [f"{name}: error, %" for name in eight.values()]
    for group, length in dict.fromkeys((r["group"], r["length"]) for r in kernels["measurements"]):
        rows = rows_with(kernels, group=group, length=length)
        speeds = {row["kernel"]: row["tflops"] for row in rows}
        causal, head_dim = group.endswith("causal"), int(group.split(", ")[1].split()[1])
        of = others_at.get((head_dim, causal, length), {})
        peers = {key: of[key]["tflops"] for key in (*sixteen, *eight) if key in of}
        shown = [*map(peers.get, sixteen), *map(speeds.get, steps), *map(peers.get, eight)]
        line = [f"{head_dim} {mask_of({'causal': causal})}", length]
        line += ["-" if x is None else f"{x:.0f}" for x in shown]
        for key in (sixteen[0], FP8):
            line.append(f"{max(speeds.values()) / peers[key]:.2f}" if key in peers else "-")
        if ours:
            line.append(f"{max(rows, key=lambda row: row['tflops'])['percent_error']:.1f}")
        for key in eight:
            line.append(f"{of[key]['percent_error']:.1f}" if key in of else "-")
        cells.append(line)
    title = "TFLOP/s in bfloat16 and in e4m3, B x N = 16384, H x D = 2048; - means not measured."
    return [title, *aligned(cells, 1), *source_lines(kernels, *others)]


def first_minutes(record):
    """A line for each command of common/cli/tests/first_minutes.sh."""
    rows = [[row["what"], f"{row['seconds']:.0f} s"] for row in record["measurements"]]
    machine = "{processor}, {system}, {compiler}, commit {commit}, {date}".format(**record)
    return [*aligned([["", f"{record['cores']} cores"], *rows], 1), machine]


def programs(record):
    """A line for each public program, then one for each kind of finding in it."""
    cells, found = [["repository", "program", "arguments", "result"]], [["program", "finding", ""]]
    for row in record["measurements"]:
        name = row["path"].removesuffix("/main.cu").rsplit("/", 1)[-1].removesuffix(".cu")
        sample = f"--sample {row['sample']} -- " if "sample" in row else ""
        arguments = f"{sample}{row['arguments']}".removesuffix(" -- ") or "-"
        why = f": {row['why']}" if row["why"] else ""
        cells.append([row["repository"], name, arguments, row["outcome"] + why])
        for finding in row["findings"]:
            verdict = "true" if finding["true"] else "false alarm"
            found.append([name, finding["kind"], f"{verdict}: {finding['because']}"])
    machine = "{processor}, {system}, {compiler}, commit {commit}, {date}".format(**record)
    return [*aligned(cells, 1, 4), "", *aligned(found, 1, 3), "", machine]


def suites(record):
    """A line for each suite of labelled programs and kind of mistake."""
    cells = [["suite", "programs", "mistake", "labelled", "found", "without it", "reported"]]
    for row in record["measurements"]:
        columns = ("suite", "programs", "kind", "labelled", "found", "free", "reported")
        cells.append([str(row[column]) for column in columns])
    machine = "{processor}, {system}, {compiler}, commit {commit}, {date}".format(**record)
    return [*aligned(cells, 1), "", machine]


TABLES = {  # how many records each takes
    "front": (front, 2),
    "front_behind": (front_behind, 2),
    "functors": (functors, 1),
    "ring": (ring, 1),
    "ring_beside": (ring_beside, 1),
    "fp8": (fp8, None),
    "first_minutes": (first_minutes, 1),
    "programs": (programs, 1),
    "suites": (suites, 1),
}


if __name__ == "__main__":
    sys.exit(print_named(sys.modules[__name__], TABLES, sys.argv[1:]))
