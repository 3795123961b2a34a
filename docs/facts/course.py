"""Facts of the course as a whole: the front page, and what several lessons share."""

from docs.facts.lesson05 import forward_ratios
from docs.facts.lesson06 import backward_ratios
from docs.facts.records import count, head, points


def ahead_at_most_points():
    """H200, h200_05_interface and h200_06_interface, bfloat16: the course is more than 2 % faster
    than the fastest other implementation at more than half of all points."""
    both = (forward_ratios.all(), backward_ratios.all())
    ahead = sum(count(ratios, lambda ratio: ratio > 1.02) for ratios in both)
    return ahead > 0.5 * sum(map(len, both))


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
