"""Prints records of the examples as tables."""

import statistics

from common.bench.command import Failure, module
from common.bench.peers import BACKENDS, HEADINGS, OURS, OURS_SAME_BITS, SAME_BITS
from common.files.records import Problem, program, read


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


def mask_of(row):
    return "causal" if row["causal"] else "full"


def heads_of(row):
    """The number of heads, "32/8" where they share those of K and V."""
    kv_heads = row.get("kv_heads", row["heads"])
    return str(row["heads"]) if kv_heads == row["heads"] else f"{row['heads']}/{kv_heads}"


def columns_of(row):
    """The head dimension, "192/128" where that of v and o is another one. Old records have none."""
    head_dim_v = row.get("head_dim_v", row["head_dim"])
    return (
        str(row["head_dim"]) if head_dim_v == row["head_dim"] else f"{row['head_dim']}/{head_dim_v}"
    )


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
        print(
            "TFLOP/s; - means not supported. x best: our speed over that of the fastest other"
            + same
            + "."
        )
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
        lengths = sorted({row["length"] for row, _, _ in found})
        lines = {}
        width = max([4, *(len(columns_of(row)) for row, _, _ in found)])
        print(f"{'':{22 + width}}" + "".join(f"{n:>7}" for n in lengths))
        for row, value, _ in found:
            what = (
                f"{row['type']:<9}{heads_of(row):>5} {columns_of(row):>{width}} {mask_of(row):<6}"
            )
            if row["batch"] == 1 and row["length"] < 16384:
                what += " B1"
            lines.setdefault(what, {})[row["length"]] = value
        for what, of in lines.items():
            figures = (f"{of[n]:>7.3f}" if n in of else f"{'':7}" for n in lengths)
            print(f"{what:<{22 + width}}{''.join(figures)}".rstrip())
        values = [value for _, value, _ in found]
        row, least, best = min(found, key=lambda one: one[1])
        print(
            f"{len(values)} points: least {least:.3f} ({row['type']}, {heads_of(row)} heads, "
            f"D {columns_of(row)}, {mask_of(row)}, N {row['length']}, {HEADINGS[best]}), "
            f"median {statistics.median(values):.3f}, "
            f"{sum(round(value, 3) >= 1 for value in values)} at or above 1.00"
        )


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
    there = {row["backend"] for row in timed}
    lines = [row for row in timed if row["type"] != "float16"]  # float16: below
    table = TimeTable([name for name in HEADINGS if name in there], lines)
    table.print_heading()
    table.print_lines(lines)
    print_summary(timed)


def print_summary(timed):
    """What is said of all points together."""
    print_ratios(timed)
    print_rms_ratios(timed)
    there = {row["backend"] for row in timed}
    headings = {name: heading for name, heading in HEADINGS.items() if name in there}
    types = [row for row in timed if row.get("group", "types").startswith("types")]
    title = "Speed in float16 over that in bfloat16"
    print_types(title, by_problem(types), headings, lambda row: row["tflops"], 2)


def print_record(path, what):
    """The times of a record as tables, and the errors of `what`."""
    try:
        record = read(path)
    except Problem as problem:
        raise Failure(str(problem)) from problem
    if program(record) != module():
        raise Failure(f"{path} is not a record of {module()}")
    source = "({gpu}, driver {driver}, PyTorch {torch}, commit {commit}, {date})".format(**record)
    counted = [row for row in record["measurements"] if row["what"] == "counters"]
    if counted:
        print_counted(counted)
        print(source)
        return
    there = {row["backend"] for row in record["measurements"]}
    headings = {backend: heading for backend, heading in HEADINGS.items() if backend in there}
    print_times(record["measurements"])
    print_errors(record, headings, "largest_error", f"Largest error of {what}")
    print_errors(record, headings, "rms_error", f"Rms of the error of {what}")
    for name, version in record.get("peers", {}).items():
        print(f"{name}: {version}")
    print(source)


def print_errors(record, headings, field, what):
    """For each type and backend the most that an error of a record is. Old records have no rms."""
    most = {}
    for row in record["measurements"]:
        value = row.get(field) if row["what"] == "error" else None
        if value is not None:
            of_type = most.setdefault(row["type"], {})
            of_type[row["backend"]] = max(of_type.get(row["backend"], 0), value)
    if most:
        print(f"\n{what} against float64, the most over the problems that --check tries")
        print(" " * 9 + "".join(f"{h:>{max(10, len(h) + 2)}}" for h in headings.values()))
    for dtype, of_type in most.items():
        print(
            f"{dtype:<9}"
            + "".join(
                (f"{of_type[n]:.2e}" if n in of_type else "-").rjust(max(10, len(h) + 2))
                for n, h in headings.items()
            )
        )


def print_types(title, problems, headings, speed, digits):
    """What float16 reaches of bfloat16's speed(row)."""
    lengths = sorted({length for dtype, _, _, length in problems if dtype == "float16"})
    if not lengths:
        return
    print(f"\n{title}, by length")
    print(f"{'':<12}{'D':>3} {'mask':<6}" + "".join(f"{n:>7}" for n in lengths))
    kinds = dict.fromkeys(
        (head_dim, mask) for dtype, head_dim, mask, _ in problems if dtype == "float16"
    )
    for backend, heading in headings.items():
        for kind in kinds:
            of = [
                [problems[(t, *kind, n)].get(backend) for t in ("float16", "bfloat16")]
                for n in lengths
            ]
            if all(row is not None for rows in of for row in rows):
                ratios = "".join(f"{speed(half) / speed(brain):>7.{digits}f}" for half, brain in of)
                print(f"{heading:<12}{kind[0]:>3} {kind[1]:<6}{ratios}")


def print_counted(rows, headings=HEADINGS):
    """What ncu counted, as a table, and whether float16 takes other cycles."""
    there = {row["backend"] for row in rows}
    headings = {backend: heading for backend, heading in headings.items() if backend in there}
    problems = by_problem(rows)
    print_counters(problems, headings, OURS)
    title = "Cycles in bfloat16 over those in float16"
    print_types(title, problems, headings, lambda row: 1 / row["cycles"], 3)


def print_counters(problems, headings, ours):
    """Prints a table with a line for each problem in bfloat16.

    problems: {(type, head_dim, mask, length): {backend: row of a record}}; headings: of the
    backends' columns; ours: the backend whose kernels are looked at more closely.
    """
    others = [backend for backend in headings if backend != ours]
    print(
        "Clock cycles of all kernels of a pass, counted by ncu. Then, for the kernel that "
        "takes longest, the"
    )
    print("percentage of its peak that each unit of the GPU reaches.")
    groups = [
        ("million cycles", [f"{h:>9}" for h in headings.values()]),
        ("over ours", [f"{headings[b]:>11}" for b in others]),
        ("tensor cores, %", [f"{h:>9}" for h in headings.values()]),
        ("in ours, %", [f"{h:>8}" for h in ("shared", "L2", "DRAM")]),
    ]
    groups = [group for group in groups if group[1]]  # there may be no other backend
    cells = ["".join(columns) for _, columns in groups]
    print(
        (
            " " * 16 + "".join(f"{title:>{len(cell)}}" for (title, _), cell in zip(groups, cells))
        ).rstrip()
    )
    print(f"{'D':>3} {'mask':<6}{'N':>6}" + "".join(cells))

    def column(of, backend, field, unit, form):
        value = f"{of[backend][field] / unit:{form}}" if backend in of else "-"
        return value.rjust(int(form.split(".")[0]))

    for (dtype, head_dim, mask, length), of in problems.items():
        if dtype != "bfloat16":
            continue
        print(
            f"{head_dim:>3} {mask:<6}{length:>6}"
            + "".join(column(of, b, "cycles", 1e6, "9.3f") for b in headings)
            + "".join(column(of, b, "cycles", of[ours]["cycles"], "11.2f") for b in others)
            + "".join(column(of, b, "tensor", 1, "9.0f") for b in headings)
            + "".join(column(of, ours, name, 1, "8.0f") for name in ("shared", "l2", "dram"))
        )
