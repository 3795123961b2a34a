"""Tests of nvidia_tools.py: a process ends in time, and leaves its last words."""

import time
import unittest

from common.lab.nvidia_tools import Outcome, run


class Tools(unittest.TestCase):
    def test_a_process_that_does_not_end_is_ended_with_its_children(self):
        start = time.monotonic()
        outcome = run(["sh", "-c", "echo first; sleep 60 & sleep 60"], seconds=0.5)
        self.assertIsNone(outcome.status)
        self.assertEqual(outcome.output, "first\n")
        self.assertLess(time.monotonic() - start, 30)

    def test_the_last_words_are_those_that_say_something(self):
        self.assertEqual(Outcome(1, "======= a\n", "== b \n=======\n").last_words(), "b")
        self.assertEqual(Outcome(3, "", "").last_words(), "exit status 3")
