"""Prints the exercises as a table: all of them, or those of the lessons that are named (01, 02,
...). With --answers: how many answers the gate grades for each exercise with code."""

import sys

from common.classroom import catalogue

KINDS = ("wrong", "right", "equivalent")


def print_answers(chosen):
    """How many answers of each kind the exercises have."""
    with_code = [exercise for exercise in chosen if not exercise.predicts]
    print(f"{'exercise':<22}  {'stages':>6}  " + "  ".join(f"{kind:>10}" for kind in KINDS))
    print(f"{'-' * 22}  {'-' * 6}  " + "  ".join("-" * 10 for _ in KINDS))
    total = [0, 0, 0, 0]
    for exercise in with_code:
        row = [len(exercise.points), *(len(exercise.answers(kind)) for kind in KINDS)]
        total = [sum(pair) for pair in zip(total, row)]
        print(f"{exercise.id:<22}  {row[0]:>6}  " + "  ".join(f"{n:>10}" for n in row[1:]))
    print(
        f"{len(with_code):>12} exercises  {total[0]:>6}  "
        + "  ".join(f"{n:>10}" for n in total[1:])
    )


def main(names):
    """Prints the table; returns the exit status."""
    of_answers = "--answers" in names
    names = [name for name in names if name != "--answers"]
    try:
        chosen = catalogue.choose(names)
    except catalogue.Fault as fault:
        print(f"table.py: {fault}", file=sys.stderr)
        return 2
    if of_answers:
        print_answers(chosen)
        return 0
    print(f"{'exercise':<22}  {'kind':<17}  {'minutes':>7}  {'points':>6}")
    print(f"{'-' * 22}  {'-' * 17}  {'-' * 7}  {'-' * 6}")
    for exercise in chosen:
        points = sum(exercise.points.values())
        print(f"{exercise.id:<22}  {exercise.kind:<17}  {exercise.minutes:>7}  {points:>6}")
    if len(chosen) > 1:
        print(
            f"{len(chosen):>12} exercises  {'':<17}  {sum(e.minutes for e in chosen):>7}  "
            f"{sum(sum(e.points.values()) for e in chosen):>6}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
