"""Tests of functors.py: tables of functors by kernel and by implementation."""

import json

from common.testing.tree import TreeTest
from docs.records import functors

HEAD = {"gpu": "GPU 1", "driver": "2.3", "toolkit": "4.5", "commit": "abc", "date": "2026-01-02"}


def time(milliseconds, tflops, **fields):
    return {**fields, "milliseconds": milliseconds, "tflops": tflops}


def cells_of(*rows):
    """The table's cells, without the title and the source."""
    lines = functors.table({**HEAD, "measurements": list(rows)})
    assert lines[-1].startswith("(GPU 1")
    return [line.split("  ") for line in lines[1:-1]]


def words(line):
    return [cell.strip() for cell in line if cell.strip()]


class FunctorsTest(TreeTest):
    def test_implementations_stand_side_by_side_and_errors_are_left_out(self):
        lines = cells_of(
            {"what": "error", "backend": "this lesson", "group": "causal", "largest_error": 0.1},
            time(1.0, 20.04, backend="this lesson", group="causal"),
            time(2.0, 10.0, backend="FLEX_ATTENTION", group="causal"),
            time(3.0, 6.0, backend="this lesson", group="sinks"),
        )
        self.assertEqual(words(lines[0]), ["functor", "lesson: ms", "flex: ms", "lesson", "flex"])
        self.assertEqual(words(lines[-2]), ["causal", "1.000", "2.000", "20.0", "10.0"])
        self.assertEqual(words(lines[-1]), ["sinks", "3.000", "-", "6.0", "-"])

    def test_kernels_stand_side_by_side(self):
        lines = cells_of(
            time(4.0, 5.0, kernel="01_a", functor="alibi", group="functors"),
            time(2.0, 10.0, kernel="02_b", functor="alibi", group="functors"),
        )
        self.assertEqual(words(lines[-1]), ["alibi", "5.0", "10.0"])

    def test_a_record_without_functors_is_refused(self):
        for rows in ([], [{"group": "a", "milliseconds": 1.0}]):
            self.write("other.json", json.dumps({**HEAD, "measurements": rows}))
            status, out, err = self.run_main(functors.main, self.root / "other.json")
            self.assertEqual((status, out), (2, ""))
            self.assertIn("no times of functors", err)
