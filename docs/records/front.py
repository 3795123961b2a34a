"""Prints the front page's tables of results: python3 -m docs.records.front FORWARD BACKWARD
[--length N | --behind].

FORWARD and BACKWARD are the records of the interfaces of lessons 05 and 06. For bfloat16 and each
head dimension and mask there is a line: TFLOP/s of the course and of the peers that the records
have at one length; the course's speed over that of the fastest of them; and the least such ratio
over all recorded lengths. --behind prints the other table instead: where another implementation is
faster, for all types, head dimensions and modes in the records. Exit status: 0, or 2 when a record
has nothing of the kind.
"""

import argparse
import sys

from common.bench.peers import FOR_16_BITS, HEADINGS, MATH, OURS, SAME_BITS
from common.bench.tables import columns_of, mask_of, points_in
from common.bench.tables import ratio as ratio_of_point
from common.data.records import Problem, aligned, read, source_lines

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


def table(records, length):
    """The lines of the table. records: {"forward": record, "backward": record}."""
    measured = {name: problems(record) for name, record in records.items()}
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
    return [*aligned(cells, 1), *legend]


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


def behind(records):
    """The lines of the table of what is behind. records: as for table()."""
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
    return [*aligned(cells, 1), "points behind, of all: " + "; ".join(totals)]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("forward", help="docs/results/h200_05_interface.json")
    parser.add_argument("backward", help="docs/results/h200_06_interface.json")
    parser.add_argument("--length", type=int, default=4096, help="queries and keys")
    parser.add_argument("--behind", action="store_true", help="where another one is faster")
    options = parser.parse_args(arguments)
    try:
        records = {"forward": read(options.forward), "backward": read(options.backward)}
        lines = behind(records) if options.behind else table(records, options.length)
        where = source_lines(*records.values())
    except (Problem, KeyError) as problem:
        print(f"front.py: {problem}", file=sys.stderr)
        return 2
    if options.behind:
        print("Where another is faster; least: the course's speed over that of the other, at N")
        print("\n".join(lines))
    else:
        print(f"TFLOP/s in bfloat16, {options.length} queries and keys")
        print("\n".join(lines))
    print("\n".join(where))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
