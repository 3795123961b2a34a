"""Prints how long the lessons take: python3 -m docs.site.times.

Reading is the sum over the chapters in a lesson's map, its README.md; exercises are the catalogue's
minutes. Both are estimates. Exit status: 0, 1 when a map gives its exercises another time than the
catalogue, 2 when a map has no times.
"""

import pathlib
import re
import sys

from common.classroom import catalogue
from docs.records.results import aligned
from docs.site import gfm
from docs.site.chapters import lessons

MINUTES = re.compile(r"(\d+) min(?:utes)?")


class Fault(Exception):
    """What is wrong with a map."""


def of_map(lines):
    """(reading, exercises) in minutes: sums over the last two columns of a map's chapters."""
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines]
    chapters = [row for row in rows if len(row) == 4 and re.match(r"\s*\[\d\. ", row[0])]
    if not chapters:
        raise Fault("has no chapters with times")
    cells = [[MINUTES.search(cell) for cell in row[2:]] for row in chapters]
    if not all(reading for reading, _ in cells):
        raise Fault("has a chapter without a time")
    return tuple(sum(int(found[1]) for found in column if found) for column in zip(*cells))


def half_hours(minutes):
    """A time in hours, rounded to a half: 3.5."""
    return f"{round(minutes / 30) / 2:g}"


def table(root, exercises):
    """Lines with the times of each lesson under root. exercises: {"01": minutes}."""
    cells = [["lesson", "read and run, min", "exercises, min", "together, hours"]]
    total = [0, 0]
    for page in lessons(root):
        number = page[:2]
        try:
            reading, said = of_map(gfm.read_lines(root / page))
            if said != exercises.get(number, 0):
                raise ArithmeticError(
                    f"{page} gives its exercises {said} minutes, the catalogue "
                    f"{exercises.get(number, 0)}"
                )
        except Fault as fault:
            raise Fault(f"{page} {fault}") from fault
        cells.append([number, str(reading), str(said), half_hours(reading + said)])
        total = [total[0] + reading, total[1] + said]
    return aligned([*cells, ["all", *map(str, total), half_hours(sum(total))]], 1)


def main():
    """Prints the table; returns the exit status."""
    exercises = {}
    for exercise in catalogue.choose([]):
        number = exercise.id[:2]
        exercises[number] = exercises.get(number, 0) + exercise.minutes
    try:
        lines = table(pathlib.Path(), exercises)
    except Fault as fault:
        print(f"times.py: {fault}", file=sys.stderr)
        return 2
    except ArithmeticError as error:
        print(f"times.py: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
