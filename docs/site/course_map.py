"""Prints the map of the course: the chapters of each lesson, and how long they take by the tables
of the lessons' pages (`45 minutes`, `45 min, of which 20 for puzzles`).

Exit status: 0.
"""

import pathlib
import re
import sys

from docs.site import chapters, reading_time
from docs.site.excerpts import read_lines

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(
    r"\| *\[.*\]\([1-9]\w*\.md\) *\|.*\| *(?:(\d+) min[^|]*)?\| *(?:(\d+) min[^|]*)?\|\s*"
)


def hours(minutes):
    """3 h 45, for 225 minutes."""
    return f"{minutes // 60} h {minutes % 60:02d}" if minutes else "-"


def lines(root):
    """The lines of the map."""
    rows = []
    for lesson in chapters.lessons(root):
        times = [match for line in read_lines(root / lesson) if (match := ROW.fullmatch(line))]
        reading, exercises = (sum(int(match[k]) for match in times if match[k]) for k in (1, 2))
        title = re.sub("[*`]", "", chapters.title(root, lesson))
        rows.append((title, str(len(times)), hours(reading), hours(exercises)))
    heads = ("lesson", "chapters", "reading", "exercises")
    widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
    form = "  ".join(f"{{:{'<' if k == 0 else '>'}{width}}}" for k, width in enumerate(widths))
    table = [
        line.rstrip() for line in map(form.format, *zip(heads, map("-".__mul__, widths), *rows))
    ]
    return [*table, f"(Reading: {reading_time.said()}.)"]


def main():
    """Returns the exit status."""
    print("\n".join(lines(ROOT)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
