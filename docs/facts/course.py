"""Facts of the course as a whole: the front page, and what several lessons share."""

import json
import re
import statistics

from docs.facts.records import ROOT, Ratios, each, head, points


def median_ratio():
    """H200 and H100, both passes, bfloat16: the course over the fastest other implementation, the
    median of all points."""
    records = [f"h{gpu}_{lesson}_interface" for gpu in (100, 200) for lesson in ("05", "06")]
    return statistics.median(r for name in records for r in each(Ratios(name).all()))


def hours(lesson="all", part="all"):
    """Estimated hours of a lesson, 01 to 06: its chapters and appendices as its map has them, and
    its exercises as lesson.json does."""
    minutes = {"chapters": 0, "appendices": 0, "exercises": 0}
    for page in ROOT.glob(f"{'0?' if lesson == 'all' else lesson}_*/README.md"):
        text = page.read_text(encoding="utf-8")
        for title, time in re.findall(r"^\| \[(.+?)\]\(\w+\.md\).*?\| (\d+) minutes[ ,]", text, re.M):
            minutes["appendices" if title.startswith("Appendix") else "chapters"] += int(time)
        about = json.loads((page.parent / "exercises/lesson.json").read_text(encoding="utf-8"))
        minutes["exercises"] += sum(one["minutes"] for one in about["exercises"].values())
    return (sum(minutes.values()) if part == "all" else minutes[part]) / 60


def first_minutes_cores():
    """The machine of first_minutes: its cores."""
    return head("first_minutes")["cores"]


def _minutes(what):
    return points("first_minutes", "seconds", None, what=f"./learn {what}: all of it") / 60


def minutes_of_run():
    """The same machine: minutes of ./learn run in a fresh clone whose packages are installed."""
    return _minutes("run, from nothing")


def minutes_of_next_run():
    """Minutes of ./learn run once everything is compiled."""
    return _minutes("run, again")


def minutes_of_test():
    """Minutes of ./learn test after ./learn run."""
    return _minutes("test")
