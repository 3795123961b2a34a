"""Prints the exercises as a table: all of them, or those of the lessons that are named (01, 02,
...)."""

import sys

from common.classroom import catalogue
from common.data.records import aligned


def main(names):
    """Prints the table; returns the exit status."""
    try:
        chosen = catalogue.choose(names)
    except catalogue.Fault as fault:
        print(f"table.py: {fault}", file=sys.stderr)
        return 2
    cells = [["exercise", "kind", "minutes", "points"]]
    cells += [[one.id, one.kind, one.minutes, sum(one.points.values())] for one in chosen]
    if len(chosen) > 1:
        sums = [sum(column) for column in list(zip(*cells[1:]))[2:]]
        cells.append([f"{len(chosen)} exercises", "", *sums])
    print("\n".join(aligned(cells, 1, 2)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
