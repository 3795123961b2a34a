"""Tests of results.py and charts.py: what tables and charts show is what a record says, and what
they refuse."""

import html
import json
import re
import unittest
import xml.dom.minidom

from common.testing.tree import TreeTest
from docs.records import charts, results

try:
    import matplotlib
except ModuleNotFoundError:
    matplotlib = None


def row(group, title, kernel, **fields):
    return {"group": group, "title": title, "kernel": kernel, **fields}


FIRST, SECOND = ("a", "First"), ("b", "Second")
THIRD, FOURTH = ("c, D 64", "Third"), ("lengths", "Fourth")
RATES = {"tflops": 10.126, "percent_of_peak": 50.04}
SLOWER = {"tflops": 1.5, "percent_of_peak": 8.25, "percent_of_cublas": 16.2}
RECORD = {
    "gpu": "GPU 1",
    "driver": "2.3",
    "toolkit": "4.5",
    "commit": "abc",
    "date": "2026-01-02",
    "command": "prog --section time",
    "measurements": [
        row(*FIRST, "lib", size=7, milliseconds=2.0, **RATES, registers=32),
        row(*FIRST, "01_own", size=7, milliseconds=12.3456, **SLOWER, registers=255),
        row(*SECOND, "02_own", size=7, milliseconds=1.0, gigabytes_per_second=1234.5, registers=1),
        row(*THIRD, "03_own", length=1024, milliseconds=1.5, tflops=2.0, registers=7),
        row(*THIRD, "03_own", length=16384, milliseconds=3.0, tflops=4.0, registers=7),
        row(*FOURTH, "01_own", length=128, tflops=2.0),
        row(*FOURTH, "02_own", length=128, tflops=4.0, type="float32"),
        row(*FOURTH, "02_own", length=64, tflops=3.0, type="bfloat16"),
        row(*FOURTH, "01_own", length=64, tflops=1.0),
    ],
}


class ResultsTest(TreeTest):
    def table(self, *arguments):
        self.write("record.json", json.dumps(RECORD))
        return self.run_main(results.main, self.root / "record.json", *arguments)

    def test_a_group_has_the_columns_that_it_has(self):
        status, out, _ = self.table("a")
        self.assertEqual(status, 0)
        self.assertEqual(
            out.split("\n"),
            [
                "First, all sizes 7",
                "kernel      ms  TFLOP/s  % of peak  % of cuBLAS",
                "------  ------  -------  ---------  -----------",
                "lib      2.000    10.13       50.0            -",
                "01_own  12.346     1.50        8.2         16.2",
                "(GPU 1, driver 2.3, CUDA 4.5, commit abc, 2026-01-02:",
                " prog --section time)",
                "",
            ],
        )

    def test_chosen_rows(self):
        self.assertEqual(
            self.table("a", "--rows", "01_*", "--columns", "ms")[1].split("\n")[1:4],
            ["kernel      ms", "------  ------", "01_own  12.346"],
        )
        self.assertIn("lib", self.table("a", "--rows", "01_own,lib")[1])
        self.assertNotIn(
            "01_own", self.table("lengths", "--rows", "02_own", "--across", "TFLOP/s")[1]
        )
        status, _, err = self.table("a", "--rows", "lib,03_*")
        self.assertEqual(status, 2)
        self.assertIn("03_*", err)
        self.assertEqual(self.table("--rows", "lib")[0], 2)

    def test_a_line_for_each_length_and_a_column_for_each_kernel_and_type(self):
        self.assertEqual(
            self.table("lengths", "--across", "TFLOP/s")[1].split("\n")[:6],
            [
                "TFLOP/s: Fourth",
                "     01_own   02_own    02_own",
                "N            float32  bfloat16",
                "---  ------  -------  --------",
                "64     1.00        -      3.00",
                "128    2.00     4.00         -",
            ],
        )

    def test_unknown_columns(self):
        status, out, err = self.table("a", "--columns", "ms,speed")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("speed", err)
        self.assertEqual(self.table("a", "--across", "ms,TFLOP/s")[0], 2)
        self.assertEqual(self.table("a", "--across", "ms")[0], 2)  # no lengths

    def test_resources_stand_once_where_they_are_the_same(self):
        self.assertIn("kernel  registers\n", self.table("c, D 64", "--resources")[1])
        rows = [
            {"title": "T", "kernel": "15_x", "length": length, "registers": registers}
            for length, registers in [(512, 7), (1024, 8), (2048, 8)]
        ]
        lines = results.of_resources(rows)
        self.assertEqual(
            [line.split() for line in lines[3:]], [["15_x", "512", "7"], ["15_x", "1024", "8"]]
        )

    def test_without_a_group_there_is_a_table_for_each(self):
        status, out, _ = self.table()
        self.assertEqual(status, 0)
        for title in ("First, all sizes 7", "Second", "TFLOP/s: Third", "TFLOP/s: Fourth"):
            self.assertIn(title, out)
        self.assertEqual(out.count("GPU 1"), 1)
        self.assertIn("\nN       1024  16384\n------  ----  -----\n03_own  2.00   4.00\n", out)
        self.assertIn("\n02_own  bfloat16  3.00     -\n", out)
        self.assertEqual(self.table("--resources")[0], 2)

    def test_names_of_fields_are_columns_where_no_heading_is(self):
        rows = [row("limits", "Waits", "01_x", shared=45.8, fixed_wait=0.2, waves=1.234)]
        self.write("limits.json", json.dumps({**RECORD, "measurements": rows}))
        arguments = [self.root / "limits.json", "limits", "--columns", "shared,fixed_wait,waves"]
        lines = self.run_main(results.main, *arguments)[1].split("\n")
        self.assertEqual(lines[1], "kernel  shared  fixed wait  waves")
        self.assertEqual(lines[3].split(), ["01_x", "45.8", "0.2", "1.23"])

    def test_a_change_is_compared_with_its_step(self):
        step = {"group": "05/08", "lesson": "05", "step": "08_x"}
        rows = [
            {**step, "taken_back": what, "order": order, "full_ms": ms, "causal_ms": 1.0}
            for what, order, ms in (("", "alone", 2.0), ("a", "alone", 3.0), ("a", "so far", 5.0))
        ]
        self.write("changes.json", json.dumps({**RECORD, "measurements": rows}))
        lines = self.run_main(results.main, self.root / "changes.json", "05/08")[1].split("\n")
        self.assertTrue(lines[0].endswith("08_x of lesson 05: 2.000 ms full, 1.000 ms causal"))
        self.assertEqual(lines[3].split(), ["a", "1.50", "1.00", "2.50", "1.00"])

    def test_a_session_is_its_command_and_what_it_printed(self):
        session = {"group": "s", "ran": "ncu x", "lines": ["", "  Section: y", "  sum  7"]}
        self.write("tools.json", json.dumps({**RECORD, "measurements": [session]}))
        out = self.run_main(results.main, self.root / "tools.json", "s")[1]
        self.assertTrue(out.startswith("$ ncu x\n  sum  7\n(GPU 1"))

    def test_what_is_not_there_is_named(self):
        status, out, err = self.table("d")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("'d'", err)
        status, _, err = self.run_main(results.main, self.root / "no.json", "a")
        self.assertEqual(status, 2)
        self.assertIn("no.json", err)


ROWS = [
    {"group": "bfloat16, D 64", "kernel": kernel, "length": length, "tflops": float(tflops)}
    for kernel, length, tflops in (
        ("08_edge_masks", 4096, 300),
        ("08_edge_masks", 1024, 200),
        ("09_wgmma", 1024, 250),
        ("09_wgmma", 4096, 500),
    )
]


class ChartsTest(TreeTest):
    def chart(self, *arguments):
        record = {**RECORD, "command": "05_flash_forward", "measurements": ROWS}
        self.write("record.json", json.dumps(record))
        return self.run_main(charts.main, *arguments[:1], self.root / "record.json", *arguments[1:])

    def test_lines_have_the_points_of_the_record(self):
        status, out, _ = self.chart("by_length", "--group", "bfloat16, D 64", "--data")
        self.assertEqual(status, 0)
        lines = json.loads(out)["panels"]["bfloat16, D 64"]
        self.assertEqual(lines["08_edge_masks"], [[4096, 300], [1024, 200]])

    def test_bars_are_those_of_the_first_and_the_last_length(self):
        shown = json.loads(self.chart("first_and_last", "--group", "bfloat16, D 64", "--data")[1])
        self.assertEqual(shown["names"], ["1024 keys", "4096 keys"])
        self.assertEqual(shown["panels"]["bfloat16, D 64"]["09_wgmma"], [250, 500])

    def test_a_table_compares_with_the_row_before(self):
        rows = [["01_a", {"float32": 2.0}], ["cuBLAS", {"others": 9.0}], ["02_b", {"float32": 3.0}]]
        text = charts.table({"panels": {"title": rows}, "x_label": "TFLOP/s", "source": "here"})
        self.assertEqual([line.split()[-1] for line in text[3:6]], ["-", "-", "1.50"])

    def test_a_record_without_the_group_is_refused(self):
        status, out, err = self.chart("by_length", "--group", "float8")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("float8", err)

    @unittest.skipUnless(matplotlib, "matplotlib is not installed")
    def test_a_picture_holds_its_data_and_colours_for_dark_pages(self):
        for chart in ("by_length", "first_and_last"):
            data = self.chart(chart, "--group", "bfloat16, D 64", "--data")[1]
            status, svg, _ = self.chart(chart, "--group", "bfloat16, D 64")
            self.assertEqual(status, 0)
            xml.dom.minidom.parseString(svg)
            self.assertEqual(html.unescape(re.search("<desc>(.*)</desc>", svg)[1]), data.strip())
            self.assertIn("prefers-color-scheme: dark", svg)
            self.assertIn("08_edge_masks", svg)
