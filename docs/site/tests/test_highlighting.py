"""Tests of the colours of listings, which conf.py chooses."""

import pathlib
import re
import unittest

from pygments import token
from pygments.styles import get_style_by_name

SITE = pathlib.Path(__file__).resolve().parents[1]
PARTS = (token.Comment.Single, token.Keyword, token.Keyword.Type, token.Number.Integer)


def luminance(colour):
    """The relative luminance of WCAG."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(a, b):
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


class Dark(unittest.TestCase):
    def setUp(self):
        text = (SITE / "conf.py").read_text("utf-8")
        self.style = get_style_by_name(re.search(r'pygments_dark_style = "(.*)"', text)[1])

    def test_parts_of_code_differ(self):
        colours = [self.style.style_for_token(part)["color"] for part in PARTS]
        self.assertEqual(len(set(colours)), len(PARTS), colours)

    def test_comments_are_grey(self):
        colour = self.style.style_for_token(token.Comment.Single)["color"]
        parts = [int(colour[i : i + 2], 16) for i in (0, 2, 4)]
        self.assertLess(max(parts) - min(parts), 48)

    def test_letters_stand_out(self):
        ground = self.style.background_color[1:]
        for part, look in self.style:
            if look["color"] and part is not token.Error:
                own = look["bgcolor"] or ground
                self.assertGreaterEqual(contrast(look["color"], own), 4.5, part)


if __name__ == "__main__":
    unittest.main()
