"""Facts of the course as a whole: the front page, and what several lessons share."""

import fnmatch
import json
import re
import statistics

from common.bench.peers import OURS
from docs.facts.records import BACKENDS, ROOT, Ratios, each, head, points, rows


def median_ratio():
    """H200 and H100, both passes, bfloat16: the course over the fastest other implementation, the
    median of all points."""
    records = [f"h{gpu}_{lesson}_interface" for gpu in (100, 200) for lesson in ("05", "06")]
    return statistics.median(r for name in records for r in each(Ratios(name).all()))


_MAP_ROW = re.compile(r"^\| \[(.+?)\]\(\w+\.md\).*?\| (\d+) minutes[ ,]", re.M)
_BEHIND = {
    "h100_05_decode": "ragged_page_16 ragged_page_64",
    "h200_05_decode": "q16_b4_32k ragged_page_16 ragged_page_64 window_128 window_1024 b16_8k_e4m3 "
    "parts_0 parts_512 parts_2048 parts_b1_0 parts_b1_512 parts_b1_2048",
    "h100_06_packed": "documents_full_backward",
    "h200_06_packed": "",
    "h100_05_functors": "bias_4k",
    "h100_06_functors": "causal_16k bias_4k blocks_4k bits_4k",
}
# Further kernels and calls of the course.
_OURS = (BACKENDS["same_length"], "whole", "forward", "even", "paged", "wgmma", "chunked")


def cases_behind_are_listed():
    """In the records of decoding, packed sequences and functors another implementation is faster,
    by rounded ratios, exactly in the cases that results/comparison.md lists."""
    return all(_behind(record) == set(cases.split()) for record, cases in _BEHIND.items())


def _behind(record):
    ours, best = {}, {}
    for row in rows(record):
        if row.get("what") == "time" and row["backend"] == OURS:
            ours[row["group"]] = row["milliseconds"]
        elif row.get("what") == "time" and row["backend"] not in _OURS:
            best[row["group"]] = min(row["milliseconds"], best.get(row["group"], float("inf")))
    return {case for case, ms in best.items() if ms / ours[case] < 0.9995}


def hours(lesson="all", part="all"):
    """Estimated hours of a lesson, 01 to 06: its chapters and appendices as its map has them, and
    its exercises as lesson.json does."""
    minutes = {"chapters": 0, "appendices": 0, "exercises": 0}
    for page in ROOT.glob(f"{'0?' if lesson == 'all' else lesson}_*/README.md"):
        for title, time in _MAP_ROW.findall(page.read_text(encoding="utf-8")):
            minutes["appendices" if title.startswith("Appendix") else "chapters"] += int(time)
        about = json.loads((page.parent / "exercises/lesson.json").read_text(encoding="utf-8"))
        minutes["exercises"] += sum(one["minutes"] for one in about["exercises"].values())
    return (sum(minutes.values()) if part == "all" else minutes[part]) / 60


def first_minutes_cores():
    """The machine of first_minutes: its cores."""
    return head("first_minutes")["cores"]


def _seconds(what):
    return points("first_minutes", "seconds", None, what=f"./learn {what}: all of it")


def seconds_of_first_lab():
    """The same machine: seconds of the first ./learn lab, which builds the lab."""
    return _seconds("lab FILE.cu, from nothing")


def seconds_of_lab():
    """Seconds of ./learn lab for another file."""
    return _seconds("lab, another file")


def public_programs(outcome="*"):
    """Public programs in the lab with this outcome, "_" for a space: how many."""
    outcomes = [row["outcome"] for row in rows("lab_public_programs")]
    return len(fnmatch.filter(outcomes, outcome.replace("_", " ")))


def public_findings(verdict):
    """Kinds of findings in public programs, summed over these, that are "true" or "false"."""
    programs = rows("lab_public_programs")
    return sum(str(one["true"]).lower() == verdict for row in programs for one in row["findings"])


def public_repositories():
    """How many repositories they are from."""
    return len({row["repository"] for row in rows("lab_public_programs")})


def minutes_of_run():
    """The same machine: minutes of ./learn run in a fresh clone whose packages are installed."""
    return _seconds("run, from nothing") / 60


def minutes_of_next_run():
    """Minutes of ./learn run once everything is compiled."""
    return _seconds("run, again") / 60


def minutes_of_test():
    """Minutes of ./learn test after ./learn run."""
    return _seconds("test") / 60
