"""Tests of results.py and charts.py: what they show is what a record says, and what they refuse.
Pages hold a table of every other form, which docs.pages_in_sync compares."""

import html
import importlib.util
import json
import re
import unittest
import xml.dom.minidom

from common.testing.tree import TreeTest
from docs.records import charts, results

MATPLOTLIB = importlib.util.find_spec("matplotlib")


def row(group, title, kernel, **fields):
    return {"group": group, "title": title, "kernel": kernel, **fields}


FIRST = ("a", "First")
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

    def test_what_is_not_there_is_named(self):
        for arguments, word in (
            (["d"], "'d'"),
            (["a", "--rows", "lib,03_*"], "03_*"),
            (["a", "--columns", "ms,speed"], "speed"),
            (["a", "--across", "ms"], "length"),
            (["--rows", "lib"], "group"),
        ):
            status, out, err = self.table(*arguments)
            self.assertEqual((status, out), (2, ""))
            self.assertIn(word, err)
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

    def test_a_record_without_the_group_is_refused(self):
        status, out, err = self.chart("by_length", "--group", "float8")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("float8", err)

    @unittest.skipUnless(MATPLOTLIB, "matplotlib is not installed")
    def test_a_picture_holds_its_data_and_colours_for_dark_pages(self):
        for chart in ("by_length", "first_and_last"):
            data = self.chart(chart, "--group", "bfloat16, D 64", "--data")[1]
            status, svg, _ = self.chart(chart, "--group", "bfloat16, D 64")
            self.assertEqual(status, 0)
            xml.dom.minidom.parseString(svg)
            self.assertEqual(html.unescape(re.search("<desc>(.*)</desc>", svg)[1]), data.strip())
            self.assertIn("prefers-color-scheme: dark", svg)
            self.assertIn("08_edge_masks", svg)
