"""Estimates how long a chapter takes to read and run, from what stands on its page. The factors
are judgements, for a reader to whom all of it is new; no reader has been timed. sync_pages.py
writes the estimates into the tables of chapters.

    python3 -m docs.site.reading_time PAGE...    prints the counts and the estimate of each page
    python3 -m docs.site.reading_time            prints the map of the course, with the times
"""

import pathlib
import re
import sys

from common.classroom import catalogue
from common.data.records import aligned
from docs.site import navigation
from docs.site.excerpts import read_lines

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Seconds for each of these on a page.
FACTORS = {
    "words": 0.6,  # 100 a minute
    "lines": 15,  # of code, of a difference, of a program's output
    "rows": 8,  # of tables
    "formulas": 45,
    "drawings": 45,
    "predictions": 240,
    "questions": 90,  # at the end, with folded answers
}
ROW = re.compile(r"(\|[^|]*\((\w+\.md)\)[^|]*\|[^|]*\|) *\d* ?min[^|]*(\|.*)")
FENCE = re.compile(r"[ \t]*```(\w*)")
QUESTION = re.compile(r"\*\*\d+\.\*\*|\d+\. ")


def counts(lines):
    """How often a page has what FACTORS names."""
    found = dict.fromkeys(FACTORS, 0)
    language, asks = None, False  # of the block that a line is in; below the heading Questions
    for line in lines:
        if fence := FENCE.match(line):
            language = fence[1] if language is None else None
            found["formulas"] += language == "math"
        elif language is not None:
            found["lines"] += language != "math" and bool(line.strip())
        elif line.startswith("#"):
            asks = line.strip("# ") == "Questions"
            found["words"] += len(line.split()) - 1
        elif line.startswith("|"):
            found["rows"] += not re.fullmatch(r"[|:\- ]+", line)
        elif line.startswith("!["):
            found["drawings"] += 1
        elif not line.startswith("<!--"):
            found["predictions"] += line.startswith("**Predict.**")
            found["questions"] += asks and bool(QUESTION.match(line))
            found["words"] += len(line.split())
    return found


def minutes(lines):
    """The estimate for a page, a multiple of 5."""
    seconds = sum(FACTORS[what] * count for what, count in counts(lines).items())
    return max(5, 5 * round(seconds / 300))


def said():
    """The factors as a sentence."""
    seconds = {what: f"{s:g} s" if s < 60 else f"{s / 60:g} min" for what, s in FACTORS.items()}
    per = [
        f"{round(60 / FACTORS['words'])} words a minute",
        f"{seconds['lines']} for a line of code or output",
        f"{seconds['rows']} for a row of a table",
        f"{seconds['formulas']} for a formula or a drawing",
        f"{seconds['predictions']} for a prediction",
        f"{seconds['questions']} for a question",
    ]
    return ", ".join(per)


def filled(row, lines_of):
    """A row of a table of chapters, `| [title](page.md) | what | 45 minutes | 80 minutes |`, with
    the page's estimate in place of the minutes; any other row as it is.

    lines_of -- gives the lines of a page that the row links
    """
    match = ROW.fullmatch(row)
    if match is None:
        return row
    return f"{match[1]} {minutes(lines_of(match[2]))} minutes {match[3]}"


MAP_ROW = re.compile(
    r"\| *\[.*\]\([1-9]\w*\.md\) *\|.*\| *(?:(\d+) min[^|]*)?\| *(?:(\d+) min[^|]*)?\|\s*"
)
HEADS = ("lesson", "after it you can", "reading", "exercises", "hours")


def hours(minutes):
    """3 h 45, for 225 minutes."""
    return f"{minutes // 60} h {minutes % 60:02d}" if minutes else "-"


def times(root, lesson):
    """(minutes of reading, minutes of exercises) of a lesson, by its map."""
    matches = [match for line in read_lines(root / lesson) if (match := MAP_ROW.fullmatch(line))]
    return tuple(sum(int(match[k]) for match in matches if match[k]) for k in (1, 2))


def ability(root, lesson):
    """What one can do after a lesson, by its lesson.json."""
    path = (root / lesson).parent / "exercises" / "lesson.json"
    return catalogue.read_lesson(path)["ability"].rstrip(".") if path.is_file() else ""


def course_map(root):
    """The lines of the map of the course: what one can do after each lesson, and how long it takes
    by the tables of the lessons' pages (`45 minutes`, `45 min, of which 20 for puzzles`)."""
    rows, whole = [], (0, 0)
    for lesson in navigation.lessons(root):
        spent = times(root, lesson)
        whole = tuple(map(sum, zip(whole, spent)))
        title = re.sub("[*`]", "", navigation.title(root, lesson))
        rows.append((title, ability(root, lesson), *spent))
    rows.append(("all", "", *whole))
    cells = [
        (title, able, hours(reading), hours(practice), f"{(reading + practice) / 60:.1f}")
        for title, able, reading, practice in rows
    ]
    source = f"(Reading: {said()}. Exercises: the sum of their minutes.)"
    return [*aligned([HEADS, *cells], 1), source]


def main(pages):
    """Returns the exit status."""
    if not pages:
        print("\n".join(course_map(ROOT)))
    for page in pages:
        lines = read_lines(pathlib.Path(page))
        words = ", ".join(f"{count} {what}" for what, count in counts(lines).items())
        print(f"{page}: {minutes(lines)} minutes: {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
