"""Tests of results.py: its tables and its one message."""

import json
import unittest

from tree import TreeTest

import results

RECORD = {
    "gpu": "GPU 1",
    "driver": "2.3",
    "toolkit": "4.5",
    "commit": "abc",
    "date": "2026-01-02",
    "command": "prog --section time",
    "measurements": [
        {"group": "a", "title": "First", "kernel": "lib", "size": 7, "milliseconds": 2.0,
         "tflops": 10.126, "percent_of_peak": 50.04, "registers": 32},
        {"group": "a", "title": "First", "kernel": "01_own", "size": 7, "milliseconds": 12.3456,
         "tflops": 1.5, "percent_of_peak": 8.25, "percent_of_cublas": 16.2, "registers": 255},
        {"group": "b", "title": "Second", "kernel": "02_own", "size": 7, "milliseconds": 1.0,
         "gigabytes_per_second": 1234.5, "registers": 1},
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

    def test_bytes_have_another_rate(self):
        out = self.table("b")[1]
        self.assertIn("GB/s", out)
        self.assertIn("1234", out)
        self.assertNotIn("TFLOP/s", out)

    def test_resources_are_a_table_of_their_own(self):
        out = self.table("a", "--resources")[1]
        self.assertIn("registers", out)
        self.assertIn("255", out)
        self.assertNotIn("ms", out)

    def test_what_is_not_there_is_said_in_one_sentence(self):
        status, out, err = self.table("c")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("there is no group 'c' in the record; there are a, b.", err)
        status, _, err = self.run_main(results.main, self.root / "no.json", "a")
        self.assertEqual(status, 2)
        self.assertIn("no.json", err)


if __name__ == "__main__":
    unittest.main()
