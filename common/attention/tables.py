"""Prints records of the examples as tables."""

from common.attention.command import Failure, module
from common.attention.peers import CUDNN, FLASH_3, OURS
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
        key = (row["type"], row["head_dim"], "causal" if row["causal"] else "full", row["length"])
        problems.setdefault(key, {})[row["backend"]] = row
    return problems


def print_record(path, headings, what):
    """The times of a record as a table: TFLOP/s of each backend, and the errors of `what`."""
    try:
        record = read(path)
    except Problem as problem:
        raise Failure(str(problem)) from problem
    if program(record) != module():
        raise Failure(f"{path} is not a record of {module()}")
    source = "({gpu}, driver {driver}, PyTorch {torch}, commit {commit}, {date})".format(**record)
    counted = [row for row in record["measurements"] if row["what"] == "counters"]
    if counted:
        print_counted(counted, headings)
        print(source)
        return
    there = {row["backend"] for row in record["measurements"]}
    headings = {backend: heading for backend, heading in headings.items() if backend in there}
    timed = [
        row
        for row in record["measurements"]
        if row["what"] == "time" and row["backend"] in headings
    ]
    problems = by_problem(timed)
    compared = {
        name: heading
        for name, heading in ((FLASH_3, "x flash 3"), (CUDNN, "x cuDNN"))
        if name in there
    }
    print(
        "TFLOP/s; - means not supported. The last columns: the lesson's speed divided by the "
        "other's."
    )
    print(
        f"{'type':<9}{'D':>3} {'mask':<6}{'N':>6}"
        + "".join(f"{n:>10}" for n in headings.values())
        + "".join(f"{n:>10}" for n in compared.values())
    )
    for (dtype, head_dim, mask, length), of in problems.items():
        if dtype == "float16":  # below
            continue
        rates = {name: row["tflops"] for name, row in of.items()}
        print(
            f"{dtype:<9}{head_dim:>3} {mask:<6}{length:>6}"
            + "".join(f"{rates[n]:>10.1f}" if n in rates else f"{'-':>10}" for n in headings)
            + "".join(
                f"{rates[OURS] / rates[n]:>10.2f}" if n in rates else f"{'-':>10}" for n in compared
            )
        )
    title = "Speed in float16 over that in bfloat16"
    print_types(title, problems, headings, lambda row: row["tflops"], 2)
    print_errors(record, headings, "largest_error", f"Largest error of {what}")
    print_errors(record, headings, "rms_error", f"Rms of the error of {what}")
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
    for dtype, of_type in most.items():
        print(
            f"{dtype:<25}"
            + "".join(f"{of_type[n]:>10.2e}" if n in of_type else f"{'-':>10}" for n in headings)
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


def print_counted(rows, headings):
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
