"""Tests of dark.py: hues stay."""

import colorsys
import unittest
import xml.dom.minidom

from common.drawing.dark import channels, dark, with_dark


def hue(colour):
    """In degrees."""
    return 360 * colorsys.rgb_to_hsv(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))[0]


class DarkTest(unittest.TestCase):
    def test_paper_becomes_dark_and_ink_light(self):
        self.assertLess(max(channels(dark("#ffffff"))), 0.05)
        self.assertGreater(min(channels(dark("#222222"))), 0.5)

    def test_hues_stay(self):
        for colour in ("#b00020", "#0072b2", "#009e73", "#cfe3f5", "#f6b98a"):
            apart = abs(hue(colour) - hue(dark(colour))) % 360
            self.assertLess(min(apart, 360 - apart), 16, colour)

    def test_each_colour_has_a_rule_and_a_second_palette_is_not_added(self):
        svg = with_dark(
            '<svg xmlns="http://www.w3.org/2000/svg"><path fill="#cfe3f5" stroke="#999"/></svg>'
        )
        self.assertIn(f'[fill="#cfe3f5"] {{ fill: {dark("#cfe3f5")} }}', svg)
        self.assertIn(f'[stroke="#999"] {{ stroke: {dark("#999")} }}', svg)
        xml.dom.minidom.parseString(svg)
        self.assertEqual(with_dark(svg), svg)
