"""Tests of charts.py, dark.py and narrow.py: lines and bars are where their values say, hues and
contrast stay, and parts of a picture are cut out."""

import colorsys
import re
import unittest
import unittest.mock
import xml.dom.minidom

from common.drawing import charts, narrow
from common.drawing.dark import contrast, dark, with_dark
from common.drawing.svg import Drawing, main, number
from common.testing.tree import TreeTest


def elements(svg, name):
    return xml.dom.minidom.parseString(svg).getElementsByTagName(name)


def texts(svg):
    return [element.firstChild.data for element in elements(svg, "text")]


def polylines(svg):
    """The points of each line, without those of the legend."""
    lines = [
        [tuple(map(float, point.split(","))) for point in element.getAttribute("points").split()]
        for element in elements(svg, "polyline")
    ]
    return [line for line in lines if len(line) != 2]


def two_lines(**options):
    series = [
        charts.Series("one", [(1024, 100.0), (4096, 300.0), (2048, 200.0)]),
        charts.Series("two & more", [(1024, 50.0), (2048, 50.0), (4096, 50.0)], dashed=True),
    ]
    return charts.line_chart(
        "A <title>", [("left", series)], "N", "TFLOP/s", "from here", **options
    )


class ChartsTest(TreeTest):
    def test_points_are_where_the_values_say(self):
        one, two = polylines(two_lines())
        # Lengths that double are as far apart; equal steps of the value, too.
        self.assertEqual(len(one), 3)
        self.assertAlmostEqual(one[1][0] - one[0][0], one[2][0] - one[1][0], places=1)
        self.assertAlmostEqual(one[0][1] - one[1][1], one[1][1] - one[2][1], places=1)
        self.assertEqual({y for _, y in two}, {two[0][1]})
        self.assertGreater(two[0][1], one[0][1])  # smaller values are lower, which is a larger y

    def test_a_logarithmic_axis_has_powers_of_two(self):
        svg = two_lines(log_y=True)
        one, _ = polylines(svg)
        self.assertAlmostEqual(
            (one[0][1] - one[1][1]) / (one[1][1] - one[2][1]), 1 / 0.58496, places=2
        )
        self.assertLessEqual({"32", "64", "128", "256", "512"}, set(texts(svg)))

    def test_names_lengths_and_source_can_be_read(self):
        svg = two_lines()
        self.assertLessEqual(
            {"one", "two & more", "1k", "2k", "4k", "left", "N", "TFLOP/s", "from here"},
            set(texts(svg)),
        )
        self.assertEqual(elements(svg, "title")[0].firstChild.data, "A <title>")
        self.assertIn("stroke-dasharray", svg)

    def test_one_name_has_one_colour_in_all_panels(self):
        first = [charts.Series("a", [(128, 1.0), (256, 2.0), (512, 2.0)])]
        second = [charts.Series("b", [(128, 1.0), (256, 1.0), (512, 1.0)])] + first
        svg = charts.line_chart("t", [("p", first), ("q", second)], "x", "y", "s")
        colours = [
            line.getAttribute("stroke")
            for line in elements(svg, "polyline")
            if len(line.getAttribute("points").split()) == 3
        ]
        self.assertEqual(colours, [charts.COLOURS[0], charts.COLOURS[1], charts.COLOURS[0]])

    def test_bars_are_as_long_as_their_values(self):
        groups = [("a", [100.0, 50.0], "", True), ("b", [None, None], "does not fit", False)]
        svg = charts.bar_chart(
            "t", [("p", groups)], ["full", "causal"], "bold: ours", "TFLOP/s", "s"
        )
        bars = [
            float(r.getAttribute("width"))
            for r in elements(svg, "rect")
            if r.getAttribute("height") == "11"
        ]
        self.assertEqual(bars[:2], [2 * bars[1], bars[1]])
        self.assertEqual(len(bars), 4)  # two are those of the legend
        self.assertLessEqual(
            {"does not fit", "100", "50", "full", "causal", "bold: ours"}, set(texts(svg))
        )
        bold = [
            t.firstChild.data
            for t in elements(svg, "text")
            if t.getAttribute("font-weight") == "bold"
        ]
        self.assertEqual(bold, ["p", "a"])

    def test_ticks_hold_all_values(self):
        self.assertEqual(charts.linear_ticks(678.2), [0, 200, 400, 600, 800])
        self.assertEqual(charts.linear_ticks(100), [0, 20, 40, 60, 80, 100])
        self.assertEqual(charts.linear_ticks(0.7)[-1], 0.8)
        self.assertEqual(charts.power_ticks(2.7, 340), [2, 4, 8, 16, 32, 64, 128, 256, 512])
        self.assertEqual(charts.power_ticks(4, 8), [4, 8])

    def test_without_values_nothing_is_drawn(self):
        for values in ([], [(128, 0.0)], [(128, -1.0)]):
            with self.assertRaisesRegex(charts.Problem, "needs values"):
                charts.line_chart("t", [("p", [charts.Series("a", values)])], "x", "y", "s")
        with self.assertRaisesRegex(charts.Problem, "needs values"):
            charts.bar_chart("t", [("p", [("a", [None], "-", False)])], ["n"], "", "x", "s")
        many = [charts.Series(str(i), [(128, 1.0)]) for i in range(13)]
        with self.assertRaisesRegex(charts.Problem, "13 lines in one chart"):
            charts.line_chart("t", [("p", many)], "x", "y", "s")

    def test_a_pointer_ends_where_it_points(self):
        for x, y in ((30, 10), (10, 30), (-10, 10), (20, -5)):
            picture = Drawing(50, 50, "t")
            picture.pointer(10, 10, x, y)
            tip = elements(picture.svg(), "polygon")[0].getAttribute("points").split()[0]
            self.assertEqual(tip, f"{x},{y}")

    def test_the_program_of_a_lesson_draws_what_it_is_asked_for(self):
        def one():
            return Drawing(5, 5, "the one")

        def run(*names):
            with unittest.mock.patch("sys.argv", ["drawings.py", *names]):
                return self.run_main(lambda _: main(one))

        _, out, _ = run("one")
        self.assertIn("<title>the one</title>", out)
        for names in ((), ("two",), ("one", "one")):
            status, out, err = run(*names)
            self.assertEqual((status, out), (2, ""))
            self.assertIn("drawings.py: which picture? There are one", err)

    def test_numbers_are_short(self):
        self.assertEqual(
            [number(x) for x in (1.0, 1.256, 3, "a", 100.0)], ["1", "1.26", 3, "a", "100"]
        )
        self.assertIsNone(re.search(r"\d\.\d{3}", two_lines()))


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
