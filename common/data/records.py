"""Reads and writes records of measurements, the JSON files of docs/results. An old record stays as
it was written; what is read from it has today's names."""

import argparse
import json
import re
import sys
import textwrap

# What has been renamed since a record was written. Kernels, wherever a text names them, and the
# label of a changed one: old: new.
KERNELS = {
    "10_matmul_register_column": "10_matmul_1d_thread_tiling",
    "11_matmul_register_block": "11_matmul_2d_thread_tiling",
    "18_block_product": "18_back_to_back_matmul",
    "08_finish": "08_edge_masks",
    "14_patience": "14_lazy_rescaling",
    "15_shares": "15_warpgroup_tiles",
    "behind the wait": "after the wait",
}
# Fields: old: new.
FIELDS = {"percent_hidden": "percent_masked"}
AS_IT_WAS = {"command", "commit"}  # fields whose text is history
COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b")
KERNEL = re.compile(rf"\b(?:{'|'.join(map(re.escape, KERNELS))})\b")


class Problem(Exception):
    """One sentence about what is wrong."""

    status = 2  # of a program that ends with it


def renamed(value):
    """A part of a record with today's names."""
    if isinstance(value, dict):
        return {
            FIELDS.get(name, name): part if name in AS_IT_WAS else renamed(part)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [renamed(part) for part in value]
    if isinstance(value, str):
        return KERNEL.sub(lambda match: KERNELS[match[0]], value)
    return value


def read(path):
    """A record as a dictionary."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if not isinstance(record, dict):
            raise ValueError("it is not an object")
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Problem(f"{path} is not a record: {error}") from error
    return renamed(record)


def text_of(head, rows):
    """The text of a record: a line for each field of `head` and for each measurement."""
    fields = "".join(
        f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items()
    )
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    return "{\n" + fields + '  "measurements": [\n' + lines + "\n  ]\n}\n"


def program(record):
    """The program that wrote a record: 05_flash_forward, or a module such as common.bench.compare.
    Old records name the module's file."""
    words = [word for word in record.get("command", "").split() if word not in ("python3", "-m")]
    return words[0].removesuffix(".py").replace("/", ".") if words else ""


def source(*records):
    """Where figures are from, in a line: the GPU, and the versions of the code."""
    machines = {}  # GPU -> (commits, days)
    for record in records:
        # The lab's record has the toolkit's full version, and a time with its day.
        toolkit = record["toolkit"] if "toolkit" in record else record["cuda"]
        machine = f"{record['gpu']}, driver {record['driver']}, CUDA {toolkit}"
        commits, days = machines.setdefault(machine, ([], []))
        # A record may be of two commits: "adf8e6b (float32) and df281be".
        commits += [word[:7] for word in COMMIT.findall(record["commit"])] or [record["commit"]]
        days.append(record["date"][:10])
    return "; ".join(
        f"{machine}, commit {' and '.join(dict.fromkeys(commits))}, "
        f"{' and '.join(dict.fromkeys(days))}"
        for machine, (commits, days) in machines.items()
    )


def source_lines(*records):
    """The same in lines of the pages' width."""
    return textwrap.wrap(f"({source(*records)})", 88, subsequent_indent=" ")


def rows_with(record, **fields):
    """The rows with these fields; a Problem where there is none."""
    rows = [
        row
        for row in record["measurements"]
        if all(row.get(name) == value for name, value in fields.items())
    ]
    if not rows:
        raise Problem(f"the record has 0 rows with {fields}")
    return rows


def aligned(cells, headings, left=1):
    """Lines of cells, so many of them headings; all columns but the first, or first few, are flush
    right."""
    cells = [[str(cell) for cell in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "  ".join(
            f"{text:{'<' if i < left else '>'}{width}}"
            for i, (text, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in cells
    ]
    lines.insert(headings, "  ".join("-" * width for width in widths))
    return lines


def formatted(shapes, *values):
    """A line of cells: formatted("{} {:.2f}", "a", 1) is ["a", "1.00"]."""
    return [shape.format(value) for shape, value in zip(shapes.split(), values)]


def print_named(module, choices, arguments):
    """The main program of a module that prints a table or a drawing: NAME [RECORD...]. Returns the
    exit status: 0, 1 where an example and a record contradict each other, 2 for bad use.

    choices: {name: (function of records, their number; None for any)}. It returns lines, a text or
    a Drawing.
    """
    program = module.__file__.rsplit("/", 1)[-1]
    parser = argparse.ArgumentParser(description=module.__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("name", choices=choices)
    parser.add_argument("records", nargs="*", metavar="RECORD", help="a file of docs/results")
    options = parser.parse_args(arguments)
    show, count = choices[options.name]
    try:
        if len(options.records) != count and not (count is None and options.records):
            takes = "at least one" if count is None else count
            raise Problem(f"{options.name} takes {takes} records, not {len(options.records)}")
        shown = show(*(read(path) for path in options.records))
    except KeyError as error:
        print(f"{program}: the record has no {error}", file=sys.stderr)
        return 2
    except (Problem, ValueError) as problem:
        print(f"{program}: {problem}", file=sys.stderr)
        return 2
    except ArithmeticError as error:
        print(f"{program}: {options.name}: {error}", file=sys.stderr)
        return 1
    if isinstance(shown, list):
        shown = "\n".join(shown) + "\n"
    print(shown if isinstance(shown, str) else shown.svg(), end="")
    return 0
