"""Prints the map of the course: what one can do after each lesson, and how long it takes by the
tables of the lessons' pages (`45 minutes`, `45 min, of which 20 for puzzles`).

Exit status: 0.
"""

import pathlib
import re
import sys

from common.classroom import catalogue
from common.data.records import aligned
from docs.site import navigation, reading_time
from docs.site.excerpts import read_lines

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(
    r"\| *\[.*\]\([1-9]\w*\.md\) *\|.*\| *(?:(\d+) min[^|]*)?\| *(?:(\d+) min[^|]*)?\|\s*"
)
HEADS = ("lesson", "after it you can", "reading", "exercises", "hours")


def said(minutes):
    """3 h 45, for 225 minutes."""
    return f"{minutes // 60} h {minutes % 60:02d}" if minutes else "-"


def times(root, lesson):
    """(minutes of reading, minutes of exercises) of a lesson, by its map."""
    matches = [match for line in read_lines(root / lesson) if (match := ROW.fullmatch(line))]
    return tuple(sum(int(match[k]) for match in matches if match[k]) for k in (1, 2))


def ability(root, lesson):
    """What one can do after a lesson, by its lesson.json."""
    path = (root / lesson).parent / "exercises" / "lesson.json"
    return catalogue.read_lesson(path)["ability"].rstrip(".") if path.is_file() else ""


def lines(root):
    """The lines of the map."""
    rows, whole = [], (0, 0)
    for lesson in navigation.lessons(root):
        spent = times(root, lesson)
        whole = tuple(map(sum, zip(whole, spent)))
        title = re.sub("[*`]", "", navigation.title(root, lesson))
        rows.append((title, ability(root, lesson), *spent))
    rows.append(("all", "", *whole))
    cells = [
        (title, able, said(reading), said(practice), f"{(reading + practice) / 60:.1f}")
        for title, able, reading, practice in rows
    ]
    source = f"(Reading: {reading_time.said()}. Exercises: the sum of their minutes.)"
    return [*aligned([HEADS, *cells], 1), source]


def main():
    """Returns the exit status."""
    print("\n".join(lines(ROOT)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
