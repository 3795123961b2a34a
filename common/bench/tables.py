"""Prints records of the examples as tables."""

import statistics

from common.bench.command import Failure, module
from common.bench.peers import BACKENDS, HEADINGS, OURS, OURS_SAME_BITS, SAME_BITS
from common.data.records import Problem, program, read


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


def ratio(of, same_bits=False):
    """(our speed over that of the fastest other one, which one that is) of a point's {backend:
    row}; None where nothing was compared. same_bits: the deterministic modes only."""
    ours = of.get(OURS_SAME_BITS if same_bits else OURS)
    names = SAME_BITS if same_bits else BACKENDS
    others = [of[name] for name in names if name in of]
    if ours is None or not others:
        return None
    best = max(others, key=lambda row: row["tflops"])
    return ours["tflops"] / best["tflops"], best["backend"]


class TimeTable:
    """Times of points as lines: TFLOP/s of each backend, and the ratio to the best other one."""

    def __init__(self, columns, rows):
        """rows: all that are printed, or their labels."""
        self.columns = columns
        self.width_d = max([4, *(1 + len(columns_of(row)) for row in rows)])
        self.modes = (False, True) if any(name in SAME_BITS for name in columns) else (False,)

    def print_heading(self):
        same = "; x det: the same with equal bits" if len(self.modes) > 1 else ""
        what = "x best: our speed over that of the fastest other"
        print(f"TFLOP/s; - means not supported. {what}{same}.")
        line = f"{'type':<9}{'B':>3}{'heads':>6}{'D':>{self.width_d}} {'mask':<6}{'N':>6}"
        line += "".join(f"{HEADINGS[name]:>{self.width(name)}}" for name in self.columns)
        for mode in self.modes:
            line += f"{'x det' if mode else 'x best':>8} {'best det' if mode else 'best':<9}"
        print(line.rstrip())

    @staticmethod
    def width(name):
        return max(9, len(HEADINGS[name]) + 2)

    def print_lines(self, rows):
        """Prints the points of some rows."""
        for of in points_in(rows):
            row = next(iter(of.values()))
            line = f"{row['type']:<9}{row['batch']:>3}{heads_of(row):>6}"
            line += f"{columns_of(row):>{self.width_d}} "
            line += f"{mask_of(row):<6}{row['length']:>6}"
            for name in self.columns:
                figure = f"{of[name]['tflops']:.1f}" if name in of else "-"
                line += figure.rjust(self.width(name))
            for mode in self.modes:
                found = ratio(of, mode)
                line += f"{found[0]:8.3f} {HEADINGS[found[1]]:<9}" if found else f"{'-':>8}{'':10}"
            print(line.rstrip(), flush=True)


def print_ratios(rows):
    """The ratios to the fastest other backend: by length, and the least and the median."""
    for same_bits, title in ((False, ""), (True, ", deterministic modes")):
        found = [(next(iter(of.values())), ratio(of, same_bits)) for of in points_in(rows)]
        found = [(row, *one) for row, one in found if one and row["type"] != "float16"]
        if not found:
            continue
        print(f"\nThe lesson's speed over that of the fastest other{title}, by length")
        lines = {}
        width = max([4, *(len(columns_of(row)) for row, _, _ in found)])
        for row, value, _ in found:
            what = f"{row['type']:<9}{heads_of(row):>5} {columns_of(row):>{width}} "
            what += f"{mask_of(row):<6}"
            if row["batch"] == 1 and row["length"] < 16384:
                what += " B1"
            lines.setdefault(what, {})[row["length"]] = value
        print_by_length(lines, 22 + width, "7.3f")
        values = [value for _, value, _ in found]
        row, least, best = min(found, key=lambda one: one[1])
        where = f"{row['type']}, {heads_of(row)} heads, D {columns_of(row)}, {mask_of(row)}"
        print(
            f"{len(values)} points: least {least:.3f} ({where}, N {row['length']}, "
            f"{HEADINGS[best]}), median {statistics.median(values):.3f}, "
            f"{sum(round(value, 3) >= 1 for value in values)} at or above 1.00"
        )


def print_by_length(lines, width, form, heading=""):
    """{label: {length: value}} as a line for each label and a column for each length."""
    lengths = sorted({length for of in lines.values() for length in of})
    print(f"{heading:<{width}}" + "".join(f"{n:>7}" for n in lengths))
    for label, of in lines.items():
        values = (f"{of[n]:>{form}}" if n in of else f"{'':7}" for n in lengths)
        print(f"{label:<{width}}{''.join(values)}".rstrip())


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
    lines = [row for row in timed if row["type"] != "float16"]  # float16: below
    table = TimeTable(list(headings_in(timed)), lines)
    table.print_heading()
    table.print_lines(lines)
    print_summary(timed)


def print_summary(timed):
    """What is said of all points together."""
    print_ratios(timed)
    print_rms_ratios(timed)
    types = [row for row in timed if row.get("group", "types").startswith("types")]
    title = "Speed in float16 over that in bfloat16"
    print_types(title, types, headings_in(timed), lambda row: row["tflops"], 2)


def print_record(path, what):
    """The times of a record as tables, and the errors of `what`."""
    try:
        record = read(path)
    except Problem as problem:
        raise Failure(str(problem)) from problem
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
    widths = {name: (h, max(10, len(h) + 2)) for name, h in headings_in(rows).items()}
    if most:
        print(f"\n{what} against float64, the most over the problems that --check tries")
        print(" " * 9 + "".join(f"{h:>{width}}" for h, width in widths.values()))
    for dtype, of_type in most.items():
        cells = ((f"{of_type[n]:.2e}" if n in of_type else "-", w) for n, (_, w) in widths.items())
        print(f"{dtype:<9}" + "".join(f"{cell:>{width}}" for cell, width in cells))


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
                label = f"{heading:<12}{head_dim:>3} {mask:<6}"
                lines.setdefault(label, {})[length] = speed(half) / speed(brain)
    if lengths:
        print(f"\n{title}, by length")
        whole = {label: of for label, of in lines.items() if len(of) == len(lengths)}
        print_by_length(whole, 22, f"7.{digits}f", f"{'':<12}{'D':>3} mask")


def print_counted(rows, headings=HEADINGS):
    """What ncu counted: a line for each problem in bfloat16, our kernels more closely, and whether
    float16 takes other cycles."""
    headings = headings_in(rows, headings)
    others = [backend for backend in headings if backend != OURS]
    print(
        "Clock cycles of all kernels of a pass, counted by ncu. Then, for the kernel that "
        "takes longest, the\npercentage of its peak that each unit of the GPU reaches."
    )
    groups = {  # title: headings of the columns, their width
        "million cycles": (headings.values(), 9),
        "over ours": ([headings[b] for b in others], 11),
        "tensor cores, %": (headings.values(), 9),
        "in ours, %": (("shared", "L2", "DRAM"), 8),
    }
    cells = {t: "".join(f"{h:>{width}}" for h in names) for t, (names, width) in groups.items()}
    cells = {title: cell for title, cell in cells.items() if cell}  # there may be no other backend
    print((" " * 16 + "".join(f"{title:>{len(cell)}}" for title, cell in cells.items())).rstrip())
    print(f"{'D':>3} {'mask':<6}{'N':>6}" + "".join(cells.values()))

    def column(of, backend, field, unit, width, digits):
        value = f"{of[backend][field] / unit:.{digits}f}" if backend in of else "-"
        return value.rjust(width)

    for (dtype, head_dim, mask, length), of in by_problem(rows).items():
        if dtype == "bfloat16":
            print(
                f"{head_dim:>3} {mask:<6}{length:>6}"
                + "".join(column(of, b, "cycles", 1e6, 9, 3) for b in headings)
                + "".join(column(of, b, "cycles", of[OURS]["cycles"], 11, 2) for b in others)
                + "".join(column(of, b, "tensor", 1, 9, 0) for b in headings)
                + "".join(column(of, OURS, name, 1, 8, 0) for name in ("shared", "l2", "dram"))
            )
    title = "Cycles in bfloat16 over those in float16"
    print_types(title, rows, headings, lambda row: 1 / row["cycles"], 3)
