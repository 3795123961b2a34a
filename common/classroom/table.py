"""Prints the exercises as a table: all of them, or those of the lessons that are named (01, 02,
...). With --answers: how many answers the gate grades for each exercise with code."""

import sys

from common.classroom import catalogue
from common.data.records import aligned

KINDS = ("wrong", "right", "equivalent")


def of_answers(chosen):
    """How many answers of each kind the exercises have."""
    cells = [["exercise", "stages", *KINDS]]
    for exercise in chosen:
        if not exercise.predicts:
            kinds = (len(exercise.answers(kind)) for kind in KINDS)
            cells.append([exercise.id, len(exercise.points), *kinds])
    sums = [sum(column) for column in list(zip(*cells[1:]))[1:]]
    return aligned([*cells, [f"{len(cells) - 1} exercises", *sums]], 1)


def of_exercises(chosen):
    """What the exercises are, how long they take, and their points."""
    cells = [["exercise", "kind", "minutes", "points"]]
    for one in chosen:
        cells.append([one.id, one.kind, one.minutes, sum(one.points.values())])
    if len(chosen) > 1:
        sums = [sum(column) for column in list(zip(*cells[1:]))[2:]]
        cells.append([f"{len(chosen)} exercises", "", *sums])
    return aligned(cells, 1, 2)


def main(names):
    """Prints the table; returns the exit status."""
    show = of_answers if "--answers" in names else of_exercises
    try:
        chosen = catalogue.choose([name for name in names if name != "--answers"])
    except catalogue.Fault as fault:
        print(f"table.py: {fault}", file=sys.stderr)
        return 2
    print("\n".join(show(chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
