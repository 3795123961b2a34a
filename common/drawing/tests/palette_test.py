"""Tests of dark.py and narrow.py: hues stay, contrast stays, and parts of a picture are cut out."""

import colorsys
import unittest
import xml.dom.minidom

from common.drawing import narrow
from common.drawing.dark import contrast, dark, with_dark
from common.drawing.svg import Drawing


def hue(colour):
    return 360 * colorsys.rgb_to_hsv(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))[0]


class DarkTest(unittest.TestCase):
    def test_paper_becomes_dark_and_ink_light(self):
        self.assertLess(contrast(dark("#ffffff"), "#000000"), 1.5)
        self.assertGreater(contrast(dark("#ffffff"), dark("#222222")), 10)

    def test_hues_stay(self):
        for colour in ("#b00020", "#0072b2", "#009e73", "#cfe3f5", "#f6b98a"):
            apart = abs(hue(colour) - hue(dark(colour))) % 360
            self.assertLess(min(apart, 360 - apart), 16, colour)

    def test_short_colours_are_the_same_as_long_ones(self):
        self.assertEqual(dark("#999"), dark("#999999"))

    def test_contrast_is_as_wcag_defines_it(self):
        self.assertAlmostEqual(contrast("#000000", "#ffffff"), 21)
        self.assertAlmostEqual(contrast("#777777", "#ffffff"), 4.48, places=2)

    def test_each_colour_has_a_rule_and_a_second_palette_is_not_added(self):
        d = Drawing(10, 10, "A title")
        d.box(0, 0, 5, 5, "#cfe3f5", "#999")
        svg = with_dark(d.svg())
        self.assertIn(f'[fill="#cfe3f5"] {{ fill: {dark("#cfe3f5")} }}', svg)
        self.assertIn(f'[stroke="#999"] {{ stroke: {dark("#999")} }}', svg)
        xml.dom.minidom.parseString(svg)
        self.assertEqual(with_dark(svg), svg)


class TimelineTest(unittest.TestCase):
    def drawn(self):
        d = Drawing(760, 200, "A timeline")
        d.text(88, 24, "09_wgmma", font_weight="bold")
        d.text(80, 74, "TMA", text_anchor="end")
        d.text(424, 74, "V", text_anchor="middle")
        for i, words in enumerate(("copy", "matmul", "softmax")):
            d.box(18 + 240 * i, 120, 14, 12, "#dcdcdc")
            d.text(37 + 240 * i, 130, words)
        d.text(18, 148, "Cycles of one SM.")
        return d.svg()

    def test_titles_stand_above_two_halves_with_labels_and_no_word_is_cut(self):
        svg = narrow.with_timeline(self.drawn())
        title, first, second, *rest = narrow.rows_of(svg)
        self.assertEqual(title[0][:2], (84, 10))
        self.assertEqual(first[0], second[0])
        cut = first[1][0] + first[1][2]
        self.assertEqual((cut, cut + second[1][2]), (second[1][0], 760))
        self.assertGreater(abs(cut - 424), 3)
        self.assertEqual([row[0][0] for row in rest], [12, 492, 12])
        self.assertLessEqual(max(sum(part[2] for part in row) for row in narrow.rows_of(svg)), 450)
        self.assertEqual(narrow.with_timeline(svg), svg)

    def test_other_drawings_stay(self):
        svg = Drawing(760, 200, "A title").svg()
        self.assertEqual(narrow.with_timeline(svg), svg)


class NarrowTest(unittest.TestCase):
    def test_parts_stand_below_and_beside_one_another(self):
        d = Drawing(700, 100, "A title")
        d.text(1, 2, "words")
        d.narrow([(0, 0, 60, 90), (200, 0, 300, 90)], [(350, 10, 350, 50)])
        svg = narrow.narrow(with_dark(d.svg()))
        document = xml.dom.minidom.parseString(svg)
        self.assertEqual(narrow.size(svg), (360, 90 + narrow.GAP + 50))
        parts = [
            [part.getAttribute(name) for name in ("x", "y", "viewBox")]
            for part in document.getElementsByTagName("svg")[1:]
        ]
        self.assertEqual(
            parts,
            [["0", "0", "0 0 60 90"], ["60", "0", "200 0 300 90"], ["0", "96", "350 10 350 50"]],
        )
        self.assertEqual(len(document.getElementsByTagName("text")), 1)
        self.assertEqual(len(document.getElementsByTagName("style")), 1)

    def test_a_picture_without_one_has_no_narrow_form(self):
        self.assertIsNone(narrow.rows_of(Drawing(400, 100, "A title").svg()))


if __name__ == "__main__":
    unittest.main()
