"""Tests of charts.py: what charts show is what the record says, and pictures hold it."""

import html
import json
import re
import unittest
import xml.dom.minidom

from common.testing.tree import TreeTest
from docs.records import charts

try:
    import matplotlib
except ModuleNotFoundError:
    matplotlib = None

HEAD = {"gpu": "a GPU", "driver": "1", "cuda": "13.0", "commit": "0123456", "date": "2026-11-28"}
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
        record = {**HEAD, "command": "05_flash_forward", "measurements": ROWS}
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


if __name__ == "__main__":
    unittest.main()
