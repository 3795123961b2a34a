#!/usr/bin/env python3
"""Prints recorded measurements as tables: docs/tools/results.py FILE GROUP [--resources].

FILE is a record that a lesson's program wrote with --results; GROUP is one of its groups. Without
--resources the table has times and rates, with it what each kernel takes of the GPU. The last line
says where the figures are from. Exit status: 0, or 2 when FILE has no such thing.
"""

import argparse
import json
import sys

SIZE = [("N", "length", "{}")]  # where the rows of a group differ in it
SPEED = [
    ("ms", "milliseconds", "{:.3f}"),
    ("TFLOP/s", "tflops", "{:.2f}"),
    ("GB/s", "gigabytes_per_second", "{:.0f}"),
    ("% of peak", "percent_of_peak", "{:.1f}"),
    ("% of cuBLAS", "percent_of_cublas", "{:.1f}"),
]
RESOURCES = [
    ("registers", "registers", "{}"),
    ("shared", "shared_bytes", "{}"),
    ("spilled", "spilled_bytes", "{}"),
    ("blocks", "blocks", "{}"),
    ("% of warps", "percent_of_warps", "{:.0f}"),
]


class Problem(Exception):
    """One sentence about what is wrong."""


def table(record, group, columns):
    """The lines of a table with the columns that any row of the group has."""
    rows = [row for row in record["measurements"] if row["group"] == group]
    if not rows:
        known = sorted({row["group"] for row in record["measurements"]})
        raise Problem(f"there is no group '{group}' in the record; there are {', '.join(known)}.")
    columns = [column for column in columns if any(column[1] in row for row in rows)]
    cells = [["kernel", *(heading for heading, _, _ in columns)]]
    for row in rows:
        cells.append(
            [row["kernel"]]
            + [shape.format(row[field]) if field in row else "-" for _, field, shape in columns]
        )
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = [
        line[0].ljust(widths[0])
        + "".join(f"  {text.rjust(width)}" for text, width in zip(line[1:], widths[1:]))
        for line in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    size = f", all sizes {rows[0]['size']}" if "size" in rows[0] else ""
    return [rows[0]["title"] + size, *lines]


def source(record):
    """Where the figures are from, in lines of the pages' width."""
    return [
        "({gpu}, driver {driver}, CUDA {toolkit}, commit {commit}, {date}:".format(**record),
        f" {record['command']})",
    ]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", help="a record in docs/results")
    parser.add_argument("group", help="a group of its measurements")
    parser.add_argument("--resources", action="store_true", help="registers, memory, occupancy")
    options = parser.parse_args(arguments)
    try:
        with open(options.file, encoding="utf-8") as file:
            record = json.load(file)
        columns = SIZE + (RESOURCES if options.resources else SPEED)
        lines = table(record, options.group, columns) + source(record)
    except (OSError, ValueError, KeyError, Problem) as error:
        print(f"results.py: {options.file}: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
