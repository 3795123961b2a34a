"""The record of all exercises: what the gate says, and how long checks take. `./learn classroom
gate` adds its figures to it with --record FILE.

    python3 -m common.classroom.record FILE     prints it as a table

Exit status: 0, or 2 without a record.
"""

import datetime
import os
import pathlib
import re
import subprocess
import sys

from common.classroom import catalogue
from common.data.files import write_file
from common.data.records import Problem, aligned, read, text_of

KINDS = ("wrong", "right", "equivalent")


def first_line(*command):
    """Of what a command prints; empty where there is none."""
    try:
        text = subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return ""
    return text.split("\n")[0].strip()


def first_match(pattern, path):
    """In a file of the system; empty where it is not found."""
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ""
    return found[1] if found else ""


def head(compiler):
    """Where and when figures were measured."""
    return {
        "processor": first_match(r"^model name\s*: (.*)$", "/proc/cpuinfo"),
        "cores": os.cpu_count(),
        "system": first_match(r'^PRETTY_NAME="(.*)"$', "/etc/os-release"),
        "compiler": first_line(compiler, "--version"),
        "commit": first_line("git", "-C", str(catalogue.ROOT), "rev-parse", "--short=8", "HEAD"),
        "date": datetime.date.today().isoformat(),
        "command": "./learn classroom gate --record",
    }


def note(path, compiler, figures):
    """Adds figures to a record, which is made if there is none.

    @param figures exercise's ID -> {field: number}
    """
    exercises = {exercise.id: exercise for exercise in catalogue.exercises()}
    path = pathlib.Path(path)
    rows = {row["exercise"]: row for row in read(path)["measurements"]} if path.exists() else {}
    for name, fields in figures.items():
        one, counts = exercises[name], {}
        if not one.predicts:
            counts = {kind: len(one.answers(kind)) for kind in KINDS}
        rows[name] = {**rows.get(name, {"exercise": name}), **counts, **fields}
    order = [name for name in exercises if name in rows]
    write_file(path, text_of(head(compiler), [rows[name] for name in order]))


def of(row, part, whole):
    """A cell, "9 of 9"; what was not measured is a line."""
    return f"{row[part]} of {row[whole]}" if part in row else "-"


def seconds(row, field):
    """A cell, likewise."""
    return f"{row[field]:.1f} s" if field in row else "-"


def table(record):
    """Its lines: a row for each exercise, the sums, and the machine."""
    rows = record["measurements"]
    counted = (*KINDS, "refused", "wrong_graded", "accepted", "right_graded")
    counted += ("hostile_refused", "hostile", "mutants_refused", "mutants")
    sums = {field: sum(row.get(field, 0) for row in rows) for field in counted}
    heads = [
        "exercise",
        *KINDS,
        "refused",
        "accepted",
        "hostile",
        "mutants refused",
        "first",
        "later",
    ]
    yield from aligned(
        [
            heads,
            *(
                [
                    row.get("exercise", f"{len(rows)} exercises"),
                    *(row.get(kind, "-") for kind in KINDS),
                    of(row, "refused", "wrong_graded"),
                    of(row, "accepted", "right_graded"),
                    of(row, "hostile_refused", "hostile"),
                    of(row, "mutants_refused", "mutants"),
                    seconds(row, "first_seconds"),
                    seconds(row, "later_seconds"),
                ]
                for row in (*rows, sums)
            ),
        ],
        1,
    )
    fields = ("processor", "system", "compiler", "date")
    yield f"{record['cores']} cores, " + ", ".join(record[field] for field in fields)
    yield f"commit {record['commit']}, {record['command']}"


def main(arguments):
    """Prints a record; returns the exit status."""
    try:
        if len(arguments) != 1:
            raise Problem("one record is needed")
        print("\n".join(table(read(arguments[0]))))
    except Problem as problem:
        print(f"record: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
