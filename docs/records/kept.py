"""Prints records whose programs ran once; the history keeps these at the record's commit.

    python3 -m docs.records.kept ablations RECORD [LESSON/STEP]   steps with changes
    python3 -m docs.records.kept limits RECORD                    what steps wait for, by ncu
    python3 -m docs.records.kept mma_rate RECORD                  the rate of matrix instructions
    python3 -m docs.records.kept session RECORD NAME              a session of one of NVIDIA's tools
    python3 -m docs.records.kept sessions RECORD                  all of them

Exit status: 0, or 2 when a record lacks what is asked.
"""

import sys

from common.data.records import Problem, aligned, formatted, read, rows_with, source_lines

WAITS = ("global", "shared", "barrier", "queue", "math", "fixed")


def ablations(record, step=""):
    """Times of a step with each change over its own, alone and with those above it."""
    lines = []
    rows = rows_with(record, what="ablation")
    for lesson, name in dict.fromkeys((row["lesson"], row["step"]) for row in rows):
        if step and not f"{lesson}/{name}".startswith(step):
            continue
        times = {
            (r["taken_back"], r["order"]): r for r in rows_with(record, lesson=lesson, step=name)
        }
        whole = times["", "alone"]
        masks = [field.removesuffix("_ms") for field in whole if field.endswith("_ms")]
        cells = [["change", *masks, *(f"with all above: {mask}" for mask in masks)]]
        for what in dict.fromkeys(what for what, _ in times if what):
            both = times[what, "alone"], times[what, "so far"]
            ratios = (one[f"{m}_ms"] / whole[f"{m}_ms"] for one in both for m in masks)
            cells.append([what, *map("{:.2f}".format, ratios)])
        own = ", ".join(f"{whole[f'{mask}_ms']:.3f} ms {mask}" for mask in masks)
        lines += [f"Times as long as {name} of lesson {lesson}: {own}", *aligned(cells, 1), ""]
    if not lines:
        raise Problem(f"the record has no step {step}")
    return lines + source_lines(record)


def limits(record):
    """Shares of the cycles, and what the warps wait for."""
    cells = [
        ["step", "issue, %", "tensor, %", "shared, %", "DRAM, %", "sectors of a load", "warps"]
    ]
    cells[0] += [f"wait: {name}" for name in WAITS]
    for row in rows_with(record, what="limits"):
        shares = (f"{row[name]:.0f}" for name in ("issue", "tensor", "shared", "dram"))
        sectors = "-" if row["sectors"] is None else f"{row['sectors']:.1f}"
        waits = (f"{row[f'{name}_wait']:.2f}" for name in WAITS)
        cells.append(
            [f"{row['lesson']}/{row['kernel']}", *shares, sectors, f"{row['warps']:.1f}", *waits]
        )
    title = "Percent of the cycles; sectors; warps of an SM; warps that wait per issued instruction"
    return [title, *aligned(cells, 1), *source_lines(record)]


def mma_rate(record):
    """FLOPs per clock of one SM."""
    cells = [["instruction", "shape", "type", "warps", "FLOPs per clock", "of the peak, %"]]
    fields = ("instruction", "shape", "type", "warps", "flops_per_clock", "percent")
    for row in record["measurements"]:
        cells.append(formatted("{} {} {} {} {:.0f} {:.1f}", *map(row.get, fields)))
    title = "Matmuls on one SM, all others busy as well; peak: 4096 FLOPs of bf16, 2048 of TF32"
    return [title, *aligned(cells, 1, 3), *source_lines(record)]


def session(record, name):
    """The command, and what it printed of the kernel."""
    (row,) = rows_with(record, what="session", name=name)
    lines = [line for line in row["lines"] if line.strip() and "Section:" not in line]
    lines = [line for line in lines if "Metric Name" not in line and "-- -" not in line]
    return [f"$ {row['ran']}", *lines, *source_lines(record)]


def sessions(record):
    """All sessions."""
    lines = []
    for row in rows_with(record, what="session"):
        lines += [*session(record, row["name"])[: -len(source_lines(record))], ""]
    return lines + source_lines(record)


TABLES = {table.__name__: table for table in (ablations, limits, mma_rate, session, sessions)}


def main(arguments):
    try:
        name, path, *more = arguments
        print("\n".join(TABLES[name](read(path), *more)))
    except (Problem, ValueError, TypeError, KeyError) as problem:
        print(f"kept: {problem}; see python3 -m pydoc docs.records.kept", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
