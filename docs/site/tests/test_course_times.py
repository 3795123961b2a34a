"""Test that the lessons' maps give their exercises at least the minutes of the catalogue."""

import unittest

from common.classroom import catalogue
from docs.site import chapters, course_map
from docs.site.excerpts import read_lines


def exercise_minutes(lines):
    """The sum over the last column of a map's chapters."""
    rows = [match for line in lines if (match := course_map.ROW.fullmatch(line))]
    return sum(int(match[2]) for match in rows if match[2])


class CourseTimesTest(unittest.TestCase):
    def test_sum_of_a_map(self):
        lines = [
            "| [1. One](1_one.md) | a | 45 minutes | 80 minutes |",
            "| [2. Two](2_two.md) | b | 5 min | 10 min, of which 5 for puzzles |",
        ]
        self.assertEqual(exercise_minutes(lines), 90)

    def test_no_map_promises_less_than_its_exercises_take(self):
        minutes = {}
        for exercise in catalogue.choose([]):  # tasks without a grader come on top
            minutes[exercise.id[:2]] = minutes.get(exercise.id[:2], 0) + exercise.minutes
        self.assertGreater(len(minutes), 5)
        for page in chapters.lessons(course_map.ROOT):
            said = exercise_minutes(read_lines(course_map.ROOT / page))
            self.assertGreaterEqual(said, minutes.get(page[:2], 0), page)


if __name__ == "__main__":
    unittest.main()
