"""Prints records of machine code: which exponentials of a Hopper kernel overlap with matmuls.

    python3 -m common.bench.machine_code RECORD [--kernel TEXT] [--intervals]

A record has a row for each loop with matmuls: how many exponentials (MUFU.EX2) stand before and
after the wait for matmuls that the warpgroup has issued. Only those before it overlap with them.
--intervals adds, for each point where the warpgroup issues matmuls or waits, the exponentials,
maxima (FMNMX) and conversions to 16 bits (F2FP) up to the next one. Exit status: 0, or 2 when the
record has no such kernel.
"""

import argparse
import sys

from common.data.records import Problem, aligned, read

COUNTED = ("exponentials", "maxima", "conversions")


def table(rows):
    """Lines of a table of all loops."""
    cells = [["kernel", "masked", "before", "after"]]
    for row in rows:
        masked = "yes" if row["masked"] else "no"
        cells.append([row["kernel"], masked, row["before"], row["behind"]])
    title = "Exponentials of a thread in an iteration, before and after the wait for matmuls:"
    return [title, "", *aligned(cells, 1, left=2)]


def intervals(row):
    """Lines of a table of one loop."""
    cells = [["from", "in flight", *COUNTED]]
    for one in row["intervals"]:
        cells.append([one["from"], one["in_flight"], *(one[name] for name in COUNTED)])
    return ["", row["kernel"] + (", masked" if row["masked"] else ""), *aligned(cells, 1)]


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="machine_code.py", description=__doc__.split("\n", 1)[0])
    parser.add_argument("record")
    parser.add_argument("--kernel", default="", help="only kernels with this text in their names")
    parser.add_argument("--intervals", action="store_true", help="print what stands where")
    parsed = parser.parse_args(arguments)
    try:
        record = read(parsed.record)
        rows = [row for row in record["measurements"] if parsed.kernel in row["kernel"]]
        if not rows:
            raise Problem(f"{parsed.record} has no kernel '{parsed.kernel}'")
    except Problem as problem:
        print(f"machine_code.py: {problem}", file=sys.stderr)
        return 2
    lines = table(rows)
    for row in rows if parsed.intervals else ():
        lines += intervals(row)
    print("\n".join(lines))
    print(f"(nvcc {record['compiler']}, for sm_90a, commit {record['commit'][:7]})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
