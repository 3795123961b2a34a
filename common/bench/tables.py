"""Prints records of the examples as tables."""

import statistics

from common.bench.command import Failure, module
from common.bench.peers import BACKENDS, HEADINGS, OURS, OURS_SAME_BITS, SAME_BITS
from common.data.records import aligned, program, read


def figures(values, columns, form):
    """Numbers in columns of 20; - where there is none."""
    return "".join(
        f"{values[c]:{form}}".rjust(20) if c in values else f"{'-':>20}" for c in columns
    )


def by_problem(rows):
    """{(type, head_dim, mask, length): {backend: row}} of a record's rows."""
    problems = {}
    for row in rows:
        key = (row["type"], row["head_dim"], mask_of(row), row["length"])
        problems.setdefault(key, {})[row["backend"]] = row
    return problems


def headings_in(rows, headings=HEADINGS):
    """{backend: heading} of the backends in some rows."""
    there = {row["backend"] for row in rows}
    return {backend: heading for backend, heading in headings.items() if backend in there}


def mask_of(row):
    return "causal" if row["causal"] else "full"


def both(first, second):
    """One number where they are the same, else "32/8"."""
    return str(first) if first == second else f"{first}/{second}"


def heads_of(row):
    """The number of heads, "32/8" where they share those of K and V."""
    return both(row["heads"], row.get("kv_heads", row["heads"]))


def columns_of(row):
    """The head dimension, "192/128" where that of v and o is another one. Old records have none."""
    return both(row["head_dim"], row.get("head_dim_v", row["head_dim"]))


def points_in(rows):
    """[{backend: row}], one for each point that was timed."""
    points = {}
    for row in rows:
        fields = ("group", "type", "batch", "heads", "kv_heads", "causal", "length")
        point = (*(row.get(f) for f in fields), columns_of(row))
        points.setdefault(point, {})[row["backend"]] = row
    return list(points.values())


def speed(row):
    """TFLOP/s, or GB/s where bytes count and not FLOPs."""
    return row["tflops"] if "tflops" in row else row["gigabytes_per_second"]


def ratio(of, same_bits=False):
    """(our speed over that of the fastest other one, which one that is) of a point's {backend:
    row}; None where nothing was compared. same_bits: the deterministic modes only."""
    ours = of.get(OURS_SAME_BITS if same_bits else OURS)
    names = SAME_BITS if same_bits else BACKENDS
    others = [of[name] for name in names if name in of]
    if ours is None or not others:
        return None
    best = max(others, key=speed)
    return speed(ours) / speed(best), best["backend"]


def spread(of):
    """How far a point's 5th and 95th percentile of rounds lie apart, in percent of the median: the
    larger of ours and the fastest other one; None where the record does not have them."""
    found = ratio(of)
    both_times = [of[name].get("milliseconds_5_95") for name in (OURS, found[1])] if found else []
    if not both_times or None in both_times:
        return None
    medians = [of[name]["milliseconds"] for name in (OURS, found[1])]
    return max(100 * (high - low) / m for (low, high), m in zip(both_times, medians))


def time_table(rows):
    """Cells of a table of times, a line for each point: TFLOP/s of each backend, the ratio to the
    best other one, and how far the rounds of both spread. Old records have no percentiles."""
    columns = headings_in(rows)
    modes = (False, True) if any(name in SAME_BITS for name in columns) else (False,)
    spreads = any("milliseconds_5_95" in row for row in rows)
    cells = [["type", "B", "heads", "D", "mask", "N", *columns.values(), "x best", "best"]]
    cells[0] += ["x det", "best det"] * (len(modes) - 1) + ["5-95 %"] * spreads
    for of in points_in(rows):
        row = next(iter(of.values()))
        line = [row["type"], row["batch"], heads_of(row), columns_of(row), mask_of(row)]
        line.append(row["length"])
        line += (f"{of[name]['tflops']:.1f}" if name in of else "-" for name in columns)
        for mode in modes:
            found = ratio(of, mode)
            line += [f"{found[0]:.3f}", HEADINGS[found[1]]] if found else ["-", "-"]
        if spreads:
            percent = spread(of)
            line.append("-" if percent is None else f"{percent:.1f}")
        cells.append(line)
    return cells


def print_ratios(rows):
    """The ratios to the fastest other backend: by length, and the least and the median."""
    for same_bits, title in ((False, ""), (True, ", deterministic modes")):
        found = [(next(iter(of.values())), ratio(of, same_bits)) for of in points_in(rows)]
        found = [(row, *one) for row, one in found if one and row["type"] != "float16"]
        if not found:
            continue
        print(f"\nThe lesson's speed over that of the fastest other{title}, by length")
        lines, batches = {}, {}
        for row, *_ in found:
            batches.setdefault(row.get("group"), set()).add(row["batch"])
        for row, value, _ in found:
            batch = "1" if batches[row.get("group")] == {1} else ""
            what = (row["type"], heads_of(row), columns_of(row), mask_of(row), batch)
            lines.setdefault(what, {})[row["length"]] = value
        print_by_length(lines, ("type", "heads", "D", "mask", "B"), ".3f")
        values = [value for _, value, _ in found]
        row, least, best = min(found, key=lambda one: one[1])
        where = f"{row['type']}, {heads_of(row)} heads, D {columns_of(row)}, {mask_of(row)}"
        print(
            f"{len(values)} points: least {least:.3f} ({where}, N {row['length']}, "
            f"{HEADINGS[best]}), median {statistics.median(values):.3f}, "
            f"{sum(round(value, 3) >= 1 for value in values)} at or above 1.00"
        )


def print_by_length(lines, headings, form):
    """{labels: {length: value}} as a line for each tuple of labels, a column for each length."""
    lengths = sorted({length for of in lines.values() for length in of})
    cells = [[*headings, *lengths]]
    for labels, of in lines.items():
        cells.append([*labels, *(f"{of[n]:{form}}" if n in of else "-" for n in lengths)])
    print("\n".join(aligned(cells, 1)))


def print_rms_ratios(rows):
    """How the lesson's rms errors compare with the least of the others', the most over points."""
    most = {}
    for of in points_in(rows):
        for ours in (OURS, OURS_SAME_BITS):
            others = [of[name].get("rms_errors") for name in BACKENDS if name in of]
            others = [errors for errors in others if errors]
            for output, error in of.get(ours, {}).get("rms_errors", {}).items():
                if not others:
                    continue
                least = min(errors[output] for errors in others)
                key = (of[ours]["type"], HEADINGS[ours])
                worst = most.setdefault(key, {}).get(output, (0, 0))
                most[key][output] = max(worst, (error / least, error))
    if most:
        print("\nRms error against float64 over the least of the others', the most over points")
    for (dtype, ours), of in most.items():
        figures = (f"{name} {value:.3f} ({error:.1e})" for name, (value, error) in of.items())
        print(f"{dtype:<9}{ours:<8} {', '.join(figures)}")


def print_times(rows):
    """All tables of times."""
    timed = [row for row in rows if row["what"] == "time" and row["backend"] in HEADINGS]
    cells = time_table([row for row in timed if row["type"] != "float16"])  # float16: below
    same = "; x det: the same with equal bits" if "x det" in cells[0] else ""
    what = "x best: our speed over that of the fastest other"
    apart = "; 5-95 %: how far these percentiles of the rounds lie apart"
    apart = apart if "5-95 %" in cells[0] else ""
    print(f"TFLOP/s; - means not supported, or not measured. {what}{same}{apart}.")
    print("\n".join(aligned(cells, 1)))
    print_ratios(timed)
    print_rms_ratios(timed)
    types = [row for row in timed if row.get("group", "types").startswith("types")]
    title = "Speed in float16 over that in bfloat16"
    print_types(title, types, headings_in(timed), lambda row: row["tflops"], 2)


def print_record(path, what):
    """The times of a record as tables, and the errors of `what`."""
    record = read(path)
    if program(record) != module():
        raise Failure(f"{path} is not a record of {module()}")
    rows = record["measurements"]
    counted = [row for row in rows if row["what"] == "counters"]
    if counted:
        print_counted(counted)
    else:
        print_times(rows)
        print_errors(rows, "largest_error", f"Largest error of {what}")
        print_errors(rows, "rms_error", f"Rms of the error of {what}")
        for name, version in record.get("peers", {}).items():
            print(f"{name}: {version}")
    print("({gpu}, driver {driver}, PyTorch {torch}, commit {commit}, {date})".format(**record))


def print_errors(rows, field, what):
    """For each type and backend the most that an error is. Old records have no rms."""
    most = {}
    for row in rows:
        if row["what"] == "error" and row.get(field) is not None:
            of_type = most.setdefault(row["type"], {})
            of_type[row["backend"]] = max(of_type.get(row["backend"], 0), row[field])
    headings = headings_in(rows)
    cells = [["type", *headings.values()]]
    for dtype, of in most.items():
        cells.append([dtype, *(f"{of[name]:.2e}" if name in of else "-" for name in headings)])
    if most:
        print(f"\n{what} against float64, the most over the problems that --check tries")
        print("\n".join(aligned(cells, 1)))


def print_types(title, rows, headings, speed, digits):
    """What float16 reaches of bfloat16's speed(row), where all lengths were measured in both."""
    problems = by_problem(rows)
    lengths = {length for dtype, *_, length in problems if dtype == "float16"}
    lines = {}
    for backend, heading in headings.items():
        for _, head_dim, mask, length in (key for key in problems if key[0] == "float16"):
            types = (problems.get((t, head_dim, mask, length), {}) for t in ("float16", "bfloat16"))
            half, brain = (of.get(backend) for of in types)
            if half and brain:
                lines.setdefault((heading, head_dim, mask), {})[length] = speed(half) / speed(brain)
    if lengths:
        print(f"\n{title}, by length")
        whole = {label: of for label, of in lines.items() if len(of) == len(lengths)}
        print_by_length(whole, ("backend", "D", "mask"), f".{digits}f")


def print_counted(rows, headings=HEADINGS):
    """What ncu counted: a line for each problem in bfloat16, our kernels more closely, and whether
    float16 takes other cycles."""
    headings = headings_in(rows, headings)
    others = [backend for backend in headings if backend != OURS]
    print(
        "Clock cycles of all kernels of a pass, counted by ncu. Then, for the kernel that "
        "takes longest, the\npercentage of its peak that each unit of the GPU reaches."
    )
    # Of each column: its headings, and the field of a row, its unit and its digits.
    columns = [("Mcycles", name, "cycles", 1e6, 3) for name in headings]
    columns += [("over ours", name, "cycles", None, 2) for name in others]
    columns += [("tensor, %", name, "tensor", 1, 0) for name in headings]
    if any("read_bytes" in row for row in rows):  # old records lack them
        print("The MB are what all kernels of a pass read from global memory.")
        columns += [("read, MB", name, "read_bytes", 1e6, 0) for name in headings]
    units = {"shared": "shared", "l2": "L2", "dram": "DRAM"}
    cells = [["", "", "", *(column[0] for column in columns), *["ours, %"] * len(units)]]
    cells.append(["D", "mask", "N", *(headings[name] for _, name, *_ in columns), *units.values()])
    columns += [("", OURS, field, 1, 0) for field in units]
    for (dtype, *problem), of in by_problem(rows).items():
        if dtype == "bfloat16":
            cells.append(problem)
            for _, name, field, unit, digits in columns:
                over = unit or of[OURS][field]
                cells[-1].append(f"{of[name][field] / over:.{digits}f}" if name in of else "-")
    print("\n".join(aligned(cells, 2)))
    title = "Cycles in bfloat16 over those in float16"
    print_types(title, rows, headings, lambda row: 1 / row["cycles"], 3)
