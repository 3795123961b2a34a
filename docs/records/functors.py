"""Prints a record of functors as a table: python3 -m docs.records.functors RECORD.

A line for each functor, and TFLOP/s over visible scores of each kernel, or milliseconds and TFLOP/s
of each implementation. Exit status: 0, or 2 when RECORD has no such thing.
"""

import argparse
import sys

from common.bench.peers import HEADINGS
from common.data.records import Problem, aligned, read, source_lines

NAMES = {**HEADINGS, "FLEX_ATTENTION": "flex"}
FIELDS = (("milliseconds", 3, ": ms"), ("tflops", 1, ""))
TITLE = "TFLOP/s over visible scores; - means not measured."


def table(record):
    """The lines of the table."""
    found = {}  # functor -> {kernel or implementation: row}
    for row in record["measurements"]:
        if "milliseconds" in row:
            name = row.get("kernel") or NAMES.get(row.get("backend"), "")
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


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record")
    try:
        print("\n".join(table(read(parser.parse_args(arguments).record))))
    except Problem as problem:
        print(f"functors: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
