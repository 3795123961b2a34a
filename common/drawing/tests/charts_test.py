"""Tests of charts.py: lines and bars are where their values say; nothing is drawn without
values."""

import re
import unittest
import unittest.mock
import xml.dom.minidom

from common.drawing import charts
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
