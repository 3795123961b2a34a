"""Tests of front_charts.py: what the front page's pictures show, and what is refused."""

import re
import unittest

from common.data.records import read
from common.testing.tree import ROOT, TreeTest
from docs.records import front, front_charts

RESULTS = ROOT / "docs" / "results"
FORWARD, BACKWARD = (RESULTS / f"h100_0{lesson}_interface.json" for lesson in (5, 6))
LESSON, PEERS = RESULTS / "h200_05_flash_forward.json", RESULTS / "h200_05_interface.json"


class FrontCharts(TreeTest):
    def picture(self, *arguments):
        status, out, err = self.run_main(front_charts.main, *arguments)
        self.assertEqual((status, err), (0, ""))
        return out

    def test_steps_rise(self):
        drawn = self.picture("steps", LESSON, PEERS)
        widths = [float(w) for w in re.findall(r'width="([\d.]+)" height="13"', drawn)]
        self.assertEqual(len(widths), len(front_charts.STEPS))
        self.assertEqual(widths, sorted(widths))
        self.assertRegex(drawn, r">FlashAttention-3: \d+<")

    def test_no_number_touches_the_line(self):
        drawn = self.picture("steps", LESSON, PEERS)
        line = float(re.search(r'<line x1="([\d.]+)"[^>]*dasharray', drawn)[1])
        numbers = re.findall(r'<text x="([\d.]+)"([^>]*bold[^>]*)>(\d+)<', drawn)
        self.assertEqual(len(numbers), len(front_charts.STEPS))
        for x, look, digits in numbers:
            width = 8 * len(digits)
            first = float(x) - (width if 'anchor="end"' in look else 0)
            self.assertFalse(first - 2 < line < first + width + 2, digits)

    def test_others_have_a_mark_for_each_figure(self):
        drawn = self.picture("others", FORWARD, BACKWARD)
        figures = 0
        for path in (FORWARD, BACKWARD):
            for lengths in front.problems(read(path)).values():
                figures += len(lengths[front_charts.LENGTH])
        legend = 1 + len(front_charts.MARKS)
        self.assertEqual(len(re.findall("<(?:circle|polygon)", drawn)), figures + legend)

    def test_letters_are_legible_on_a_phone(self):
        for arguments in (("steps", LESSON, PEERS), ("others", FORWARD, BACKWARD)):
            drawn = self.picture(*arguments)
            self.assertGreaterEqual(min(map(float, re.findall(r'font-size="([\d.]+)', drawn))), 12)
            self.assertLessEqual(float(re.search(r'<svg [^>]*width="(\d+)', drawn)[1]), 420)

    def test_what_is_missing_is_named(self):
        status, _, err = self.run_main(front_charts.main, "steps", PEERS)
        self.assertEqual(status, 2)
        self.assertIn("no record of 05_flash_forward", err)


if __name__ == "__main__":
    unittest.main()
