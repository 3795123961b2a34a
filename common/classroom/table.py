"""Prints the exercises as a table: all of them, or those of the lessons that are named (01, 02,
...)."""

import sys

from common.classroom import catalogue


def main(names):
    """Prints the table; returns the exit status."""
    try:
        chosen = catalogue.choose(names)
    except catalogue.Fault as fault:
        print(f"table.py: {fault}", file=sys.stderr)
        return 2
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
