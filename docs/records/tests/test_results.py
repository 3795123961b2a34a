"""Tests of results.py and stamps.py: tables, messages, and which stamps of a file are kept."""

import json

from common.testing.tree import TreeTest
from docs.records import results, stamps


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

    def test_bytes_have_another_rate(self):
        out = self.table("b")[1]
        self.assertIn("GB/s", out)
        self.assertIn("1234", out)
        self.assertNotIn("TFLOP/s", out)

    def test_chosen_columns_in_the_order_that_was_asked_for(self):
        out = self.table("a", "--columns", "registers,TFLOP/s,waves")[1]
        self.assertEqual(
            out.split("\n")[:5],
            [
                "First, all sizes 7",
                "kernel  registers  TFLOP/s",
                "------  ---------  -------",
                "lib            32    10.13",
                "01_own        255     1.50",
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
        self.assertIn("there is no kernel '03_*'; there are lib, 01_own.", err)
        self.assertIn("needs a group", self.table("--rows", "lib")[2])

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
        self.assertIn("there is no column 'speed'; there are N, ms, ", err)
        self.assertIn("takes one column", self.table("a", "--across", "ms,TFLOP/s")[2])
        self.assertIn("have no lengths", self.table("a", "--across", "ms")[2])

    def test_what_kernels_are_made_of_can_be_chosen_by_columns(self):
        made = {"lines": 12, "threads": 384, "stages": 2, "asked_registers": "2 x 240, 24"}
        rows = [row("D 64", "D 64", "10_x", **made), row("D 64", "D 64", "10_x, 2", threads=32)]
        self.write("made.json", json.dumps({**RECORD, "measurements": rows}))
        columns = "lines,threads,stages,setmaxnreg"
        arguments = [self.root / "made.json", "D 64", "--columns", columns]
        out = self.run_main(results.main, *arguments)[1]
        self.assertIn("10_x        12      384       2  2 x 240, 24\n", out)
        self.assertIn("10_x, 2      -       32       -            -\n", out)

    def test_resources_are_a_table_of_their_own(self):
        out = self.table("a", "--resources")[1]
        self.assertIn("registers", out)
        self.assertIn("255", out)
        self.assertNotIn("ms", out)

    def test_lengths_are_a_column_where_rows_differ_in_them(self):
        status, out, _ = self.table("c, D 64")
        self.assertEqual(status, 0)
        self.assertEqual(
            out.split("\n")[:5],
            [
                "Third",
                "kernel      N     ms  TFLOP/s",
                "------  -----  -----  -------",
                "03_own   1024  1.500     2.00",
                "03_own  16384  3.000     4.00",
            ],
        )

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
        self.assertIn("needs a group", self.table("--resources")[2])

    def test_the_source_alone_is_broken_into_lines(self):
        command = "prog " + " ".join(f"--option{i}=value" for i in range(9))
        self.write("long.json", json.dumps(dict(RECORD, command=command)))
        out = self.run_main(results.main, self.root / "long.json", "--source")[1]
        self.assertTrue(out.startswith("(GPU 1, driver 2.3"))
        self.assertLessEqual(max(map(len, out.split("\n"))), 88)
        self.assertIn(command + ")", " ".join(out.split()))

    def test_what_is_not_there_is_said_in_one_sentence(self):
        status, out, err = self.table("d")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("there is no group 'd' in the record; there are a, b, c, D 64, lengths.", err)
        status, _, err = self.run_main(results.main, self.root / "no.json", "a")
        self.assertEqual(status, 2)
        self.assertIn("no.json", err)


BLOCK, COMMIT, WAIT = stamps.BLOCK, stamps.COMMIT, stamps.BARRIER
END, LOAD = stamps.END, stamps.LOAD
SHARED = 7 << 8  # a barrier's address


class StampsTest(TreeTest):
    def test_other_warps_keep_the_first_wait_behind_a_copy_and_their_end(self):
        kept = [
            stamps.Stamp(0, 10, BLOCK),
            stamps.Stamp(9, 11, LOAD | SHARED),
            stamps.Stamp(5, 12, WAIT | SHARED),
            stamps.Stamp(4, 13, WAIT | SHARED),
            stamps.Stamp(5, 15, END),
            stamps.Stamp(4, 16, END),
            stamps.Stamp(5, 19, COMMIT),
            stamps.Stamp(5, 20, WAIT | SHARED),
            stamps.Stamp(5, 21, END),
        ]
        left_out = [stamps.Stamp(6, 14, WAIT | SHARED), stamps.Stamp(6, 17, END)]
        left_out.append(stamps.Stamp(5, 18, COMMIT))
        last_of_6 = stamps.Stamp(6, 18, COMMIT)
        everything = sorted([*kept, *left_out, last_of_6], key=lambda stamp: stamp.clock)
        self.assertEqual(set(stamps.shown(everything)), {*kept, last_of_6})

    def test_a_file_keeps_its_kernels_and_counts(self):
        text = "stamps\tGPU\n08_a\t0.1\t0.2\t1\n0\t1\t1\n09_b\t0.3\t0.4\t2\n0\t1\t1\n4\t2\t5\n"
        path = self.write("stamps.tsv", text)
        self.assertEqual(self.run_main(stamps.main, path)[1], text)
        status, out, _ = self.run_main(stamps.main, path, "09_b")
        self.assertEqual(out, "stamps\tGPU\n09_b\t0.3\t0.4\t2\n0\t1\t1\n4\t2\t5\n")
