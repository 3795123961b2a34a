"""Facts of the course as a whole: the front page, and what several lessons share."""

from docs.facts.lesson05 import forward_ratios
from docs.facts.lesson06 import backward_ratios
from docs.facts.records import count


def ahead_at_most_points():
    """H200, h200_05_interface and h200_06_interface, bfloat16: the course is more than 2 % faster
    than the fastest other implementation at more than half of all points."""
    both = (forward_ratios.all(), backward_ratios.all())
    ahead = sum(count(ratios, lambda ratio: ratio > 1.02) for ratios in both)
    return ahead > 0.5 * sum(map(len, both))
