"""Prints recorded measurements as tables: python3 -m docs.records.results FILE [GROUP [OPTION]].

FILE is a record that a lesson's program wrote with --results; GROUP is one of its groups. Without a
group there is a table for each of them, all lengths beside one another. Without an option the table
has times and rates; with --resources what each kernel takes of the GPU, once if it is the same for
all lengths; with --columns the columns that are named, "TFLOP/s,registers". With --across the
values of one column stand side by side: a line for each length, a column for each kernel and type.
With --rows only the kernels that are named are shown, "07_*,08_matmul_coalesced". A group may also
be a step with changes, or a session of one of NVIDIA's tools. The last lines say where the figures
are from, and with --source there is nothing else. Exit status: 0, or 2 when FILE has no such thing.
"""

import argparse
import fnmatch
import sys
import textwrap

from common.data.records import Problem, aligned, read

SIZE = [("N", "length", "{}")]  # where the rows of a group differ in it
SPEED = [
    ("ms", "milliseconds", "{:.3f}"),
    ("TFLOP/s", "tflops", "{:.2f}"),
    ("GB/s", "gigabytes_per_second", "{:.0f}"),
    ("% of peak", "percent_of_peak", "{:.1f}"),
    ("% of bandwidth", "percent_of_bandwidth", "{:.1f}"),
    ("% of cuBLAS", "percent_of_cublas", "{:.1f}"),
    ("price", "deterministic_price", "{:.2f}"),
]
RESOURCES = [
    ("registers", "registers", "{}"),
    ("shared", "shared_bytes", "{}"),
    ("spilled", "spilled_bytes", "{}"),
    ("blocks", "blocks", "{}"),
    ("% of warps", "percent_of_warps", "{:.0f}"),
    ("threads", "threads", "{}"),
    ("stages", "stages", "{}"),
]
OTHERS = [
    ("waves", "waves", "{:.2f}"),
    ("% masked", "percent_masked", "{:.0f}"),
    ("extra bytes", "extra_bytes", "{}"),
    ("type", "type", "{}"),
    ("D", "head_dim", "{}"),
    ("largest", "max_error", "{:.1e}"),
    ("plain largest", "plain_max_error", "{:.1e}"),
    ("rms", "rms_error", "{:.1e}"),
    ("plain rms", "plain_rms_error", "{:.1e}"),
    ("note", "note", "{}"),
]
KNOWN = {column[0]: column for column in SIZE + SPEED + RESOURCES + OTHERS}


def named(headings, rows):
    """The columns with these headings, "ms,TFLOP/s", or names of fields."""
    fields = {field: (field.replace("_", " "), field, "{}") for row in rows for field in row}
    known = fields | {h: c for h, c in KNOWN.items() if c[1] in fields or h not in fields}
    unknown = [heading for heading in headings.split(",") if heading not in known]
    if unknown:
        raise Problem(f"there is no column '{unknown[0]}'; there are {', '.join(known)}.")
    return [known[heading] for heading in headings.split(",")]


def rows_of(record, group):
    """The measurements of a group."""
    rows = [row for row in record["measurements"] if row["group"] == group]
    if not rows:
        known = sorted({row["group"] for row in record["measurements"]})
        raise Problem(f"there is no group '{group}' in the record; there are {', '.join(known)}.")
    return rows


def of_kernels(rows, names):
    """Those rows whose kernels are named, "07_*,08_matmul_coalesced"."""
    for name in names.split(","):
        if not any(fnmatch.fnmatchcase(row["kernel"], name) for row in rows):
            known = ", ".join(dict.fromkeys(row["kernel"] for row in rows))
            raise Problem(f"there is no kernel '{name}'; there are {known}.")
    return [
        row
        for row in rows
        if any(fnmatch.fnmatchcase(row["kernel"], name) for name in names.split(","))
    ]


def cell(row, column):
    """A field as text."""
    _, field, shape = column
    return shape.format(row[field]) if field in row else "-"


def table(rows, columns):
    """The lines of a table with the columns that any row has."""
    columns = [column for column in columns if any(column[1] in row for row in rows)]
    cells = [["kernel", *(heading for heading, _, _ in columns)]]
    cells += [[row["kernel"], *(cell(row, column) for column in columns)] for row in rows]
    size = f", all sizes {rows[0]['size']}" if "size" in rows[0] else ""
    return [rows[0]["title"] + size, *aligned(cells, 1)]


def of_resources(rows):
    """What kernels take of the GPU: one line for a kernel that takes the same at all lengths."""
    keys = [key for _, key, _ in RESOURCES]
    first = {}
    for row in rows:
        first.setdefault((row["kernel"], row.get("type"), *map(row.get, keys)), row)
    several = len({taken[:2] for taken in first}) < len(first)
    return table(list(first.values()), SIZE + RESOURCES if several else RESOURCES)


def by_length(rows, column, across=False):
    """The lines of a table with a line for each kernel and type and a column for each length;
    across: with a column for each kernel and type and a line for each length."""
    if not all("length" in row for row in rows):
        raise Problem("the rows have no lengths.")
    kernels = list(dict.fromkeys((row["kernel"], row.get("type", "")) for row in rows))
    values = {(row["length"], row["kernel"], row.get("type", "")): row for row in rows}
    cells = [["N", *(kernel for kernel, _ in kernels)]]
    if any(kind for _, kind in kernels):
        cells = [["", *cells[0][1:]], ["N", *(kind for _, kind in kernels)]]
    headings, left = len(cells), 1
    for length in sorted({row["length"] for row in rows}):
        found = (values.get((length, *kernel), {}) for kernel in kernels)
        cells.append([str(length), *(cell(row, column) for row in found)])
    if not across:
        headings, left, cells = 1, headings, list(zip(*cells))
    return [f"{column[0]}: {rows[0]['title']}", *aligned(cells, headings, left)]


def ablations(rows):
    """Times of a step with each change over its own, alone and with those above it."""
    times = {(row["taken_back"], row["order"]): row for row in rows}
    whole = times["", "alone"]
    masks = [field.removesuffix("_ms") for field in whole if field.endswith("_ms")]
    cells = [["change", *masks, *(f"with all above: {mask}" for mask in masks)]]
    for what in dict.fromkeys(what for what, _ in times if what):
        both = times[what, "alone"], times[what, "so far"]
        ratios = (row[f"{mask}_ms"] / whole[f"{mask}_ms"] for row in both for mask in masks)
        cells.append([what, *map("{:.2f}".format, ratios)])
    own = ", ".join(f"{whole[f'{mask}_ms']:.3f} ms {mask}" for mask in masks)
    title = f"Times as long as {whole['step']} of lesson {whole['lesson']}: {own}"
    return [title, *aligned(cells, 1)]


def session(row):
    """A command, and what it printed of the kernel."""
    left_out = ("Section:", "Metric Name", "-- -")
    lines = [line for line in row["lines"] if line.strip()]
    return [f"$ {row['ran']}"] + [
        line for line in lines if not any(words in line for words in left_out)
    ]


def everything(record):
    """The lines of the tables of all groups."""
    lines = []
    for group in dict.fromkeys(row["group"] for row in record["measurements"]):
        rows = rows_of(record, group)
        lengths = {row.get("length") for row in rows}
        if len(lengths) == 1 or not all("tflops" in row or "note" in row for row in rows):
            lines += table(rows, SPEED + OTHERS)
        else:
            lines += by_length(rows, KNOWN["TFLOP/s"])
        lines.append("")
    return lines


def source(record):
    """Where the figures are from, in lines of the pages' width."""
    toolkit = record["toolkit"] if "toolkit" in record else record["cuda"]
    return [
        f"({record['gpu']}, driver {record['driver']}, CUDA {toolkit}, commit {record['commit']}, "
        f"{record['date'][:10]}:",
        *textwrap.wrap(
            f"{record['command']})",
            88,
            initial_indent=" ",
            subsequent_indent="   ",
            break_on_hyphens=False,
            break_long_words=False,
        ),
    ]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", help="a record in docs/results")
    parser.add_argument(
        "group", nargs="?", help="a group of its measurements; without: all of them"
    )
    parser.add_argument("--rows", metavar="NAMES", help="kernels, with commas between them")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--resources", action="store_true", help="registers, memory, occupancy")
    which.add_argument("--columns", metavar="NAMES", help="headings, with commas between them")
    which.add_argument("--across", metavar="NAME", help="heading of the column to set side by side")
    which.add_argument(
        "--source", action="store_true", help="nothing but where the figures are from"
    )
    options = parser.parse_args(arguments)
    try:
        record = read(options.file)
        rows = rows_of(record, options.group) if options.group else []
        if not rows and (options.rows or options.across or options.columns or options.resources):
            raise Problem("an option needs a group.")
        if options.rows:
            rows = of_kernels(rows, options.rows)
        if options.source:
            lines = []
        elif not rows:
            lines = everything(record)
        elif options.across:
            if len(chosen := named(options.across, rows)) != 1:
                raise Problem(f"--across takes one column, not {options.across}.")
            lines = by_length(rows, chosen[0], across=True)
        elif options.columns:
            lines = table(rows, named(options.columns, rows))
        elif "taken_back" in rows[0]:
            lines = ablations(rows)
        elif "ran" in rows[0]:
            lines = session(rows[0])
        elif options.resources:
            lines = of_resources(rows)
        else:
            lines = table(rows, SIZE + SPEED)
        lines += source(record)
    except (OSError, ValueError, KeyError, Problem) as error:
        print(f"results.py: {options.file}: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
