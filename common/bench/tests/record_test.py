"""Tests of records that are written after each point: runs that are cut, that go on, that a limit
ends. Nothing is measured, and neither PyTorch nor a GPU is needed."""

import argparse
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

from common.bench import points, problems, record, timing
from common.bench.command import Failure
from common.bench.peers import FLASH_3, OURS
from common.data.records import Problem

HEAD = {"gpu": "H100", "driver": "1", "commit": "abcdef0", "date": "2026-01-01"}
HEAD["command"] = "python3 -m program --points all"
POINTS = {name: {"what": "time", "group": name} for name in ("a", "b", "c")}


class Cut(Exception):
    """What ends a run in the middle."""


class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "record.json")

    def args(self, **options):
        values = {"json": str(self.path), "again": False, "limit": None}
        return argparse.Namespace(**{**values, "commit": "abcdef0", **options})


class RecordTest(FileTest):
    def run_points(self, run, cut_at="", seconds=0, head=(), **options):
        """Measures POINTS with a clock of paper. Returns the names that were measured, and the
        record."""
        clock, measured = types.SimpleNamespace(now=record.BEGAN), []
        monotonic = mock.patch.object(record.time, "monotonic", lambda: clock.now)
        with monotonic, contextlib.redirect_stdout(io.StringIO()):
            kept = record.Record(self.args(**options), {**HEAD, **dict(head)})
            for name in kept.left(POINTS):
                if name == cut_at:
                    raise Cut
                clock.now += seconds
                measured.append(name)
                kept.put(POINTS[name], [{**POINTS[name], "backend": b, "run": run} for b in "xy"])
        return measured, kept

    def runs(self):
        """{point: run} of the file."""
        rows = json.loads(self.path.read_text(encoding="utf-8"))["measurements"]
        return {row["group"]: row["run"] for row in rows}

    def test_a_run_that_is_cut_leaves_its_points_and_the_next_one_goes_on(self):
        with self.assertRaises(Cut):
            self.run_points(1, cut_at="c")
        self.assertEqual(self.runs(), {"a": 1, "b": 1})
        measured, kept = self.run_points(2)
        self.assertEqual((measured, len(kept.rows)), (["c"], 6))
        self.assertEqual(self.runs(), {"a": 1, "b": 1, "c": 2})
        self.assertEqual(self.run_points(3)[0], [])

    def test_a_process_that_is_killed_leaves_a_whole_record(self):
        program = (
            "import argparse, os, signal\n"
            "from common.bench.record import Record\n"
            f"args = argparse.Namespace(json={str(self.path)!r}, again=False, limit=None)\n"
            f"kept, points = Record(args, {HEAD!r}), {POINTS!r}\n"
            "for name in kept.left(points):\n"
            "    if name == 'b': os.kill(os.getpid(), signal.SIGKILL)\n"
            "    kept.put(points[name], [{**points[name], 'run': 1}])\n"
        )
        done = subprocess.run([sys.executable, "-B", "-c", program], check=False)
        self.assertEqual((done.returncode, self.runs()), (-9, {"a": 1}))
        self.assertEqual([path.name for path in self.path.parent.iterdir()], [self.path.name])

    def test_again_measures_anew_point_by_point(self):
        self.run_points(1)
        with self.assertRaises(Cut):
            self.run_points(2, again=True, cut_at="b")
        self.assertEqual(self.runs(), {"a": 2, "b": 1, "c": 1})

    def test_a_limit_ends_it_in_time_and_names_what_is_missing(self):
        measured, kept = self.run_points(1, seconds=40, limit=100)
        self.assertEqual((measured, kept.missing), (["a", "b"], ["c"]))
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            self.assertEqual((kept.status(), kept.status(good=False)), (3, 1))
        self.assertIn("Missing, since 100 s have passed: c.\n", text.getvalue())
        measured, kept = self.run_points(2, seconds=40, limit=100)
        self.assertEqual((measured, kept.status()), (["c"], 0))

    def refused(self, words, **options):
        with self.assertRaisesRegex((Failure, Problem), words):
            self.run_points(2, **options)

    def test_what_is_not_the_same_record_is_refused(self):
        self.run_points(1)
        before = self.path.read_text(encoding="utf-8")
        for head, words in (
            ({"gpu": "H200"}, "record.json has another gpu: H100, not H200; --again begins"),
            ({"commit": "1234567"}, "has another commit: abcdef0, not 1234567"),
            ({"command": "python3 -m other"}, "is not a record of other"),
            ({"options": {"seconds": 1}}, "has another options: None"),
        ):
            self.refused(words, head=head)
        self.assertEqual(self.path.read_text(encoding="utf-8"), before)
        self.run_points(3, head={"gpu": "H200"}, again=True)
        self.assertEqual(set(self.runs().values()), {3})

    def test_code_without_a_commit_does_not_go_on(self):
        for commit in ("unknown", "abcdef0-dirty"):
            self.run_points(1, head={"commit": commit}, again=True)
            self.refused("may be of other code", head={"commit": commit})

    def test_a_file_that_is_no_record_is_refused(self):
        for text in ('{"gpu": "H100", "measurem', "[]", "{}", '{"measurements": [1]}'):
            self.path.write_text(text, encoding="utf-8")
            self.refused("record.json is not a record: ")
            self.assertEqual(self.path.read_text(encoding="utf-8"), text)


class ExampleTest(FileTest):
    def time(self, cut_at=None):
        """time_points() with times of paper. Returns how many points were timed, and the lines."""
        points, timed, text = problems.points_of("lengths_d64"), [], io.StringIO()

        def time_point(_, point, __, ___):
            if len(timed) == cut_at:
                raise Cut
            timed.append(point)
            return [
                {**point.fields("time"), **point.label(OURS, None), "milliseconds": 1, "tflops": 2}
            ]

        paper = {"time_point": time_point, "torch": mock.Mock()}
        with mock.patch.multiple(timing, **paper), contextlib.redirect_stdout(text):
            example = types.SimpleNamespace(timed=(OURS,))
            timing.time_points(example, points, record.Record(self.args(), HEAD), 1, 0)
        return len(timed), text.getvalue().splitlines()

    def test_an_example_that_was_cut_goes_on(self):
        with self.assertRaises(Cut):
            self.time(cut_at=2)
        timed, lines = self.time()
        self.assertEqual((timed, len(lines)), (4, 4))
        self.assertEqual(self.time(), (0, []))


class Point(types.SimpleNamespace):
    def _asdict(self):
        return vars(self)


class PaperCase(points.Case):
    """A point whose kernels are functions of paper."""

    wrong = ()
    q = types.SimpleNamespace(is_cuda=True)

    def __init__(self, point, _):
        self.point = point

    def label(self, backend):
        return {"backend": backend, "group": self.point.group}

    def ours(self, _):
        return lambda: 1

    def others(self):
        def broken():
            raise ValueError("no kernel for it\nwith a long explanation")

        return {FLASH_3: lambda: lambda: 1, "MATH": broken}

    def check(self, calls):
        right = self.point.group not in self.wrong
        return [{"what": "error", **self.label(name)} for name in calls], right

    def time(self, calls, _, __):
        return [{"what": "time", **self.label(name)} for name in calls]


class PointsTest(FileTest):
    def run_goals(self, wrong=()):
        """points.run() on a GPU of paper. Returns the exit status, and what it prints."""
        goals, text = [Point(group=name) for name in POINTS], io.StringIO()
        args = self.args(points=None, repeats=1, seconds=0, flash_attention_3=None)
        patched = {
            "begin": mock.Mock(return_value=("library", True)),
            "record_head": lambda *_: HEAD,
            "peers": mock.Mock(load=mock.Mock(return_value={})),
            "torch": mock.Mock(),
        }
        with mock.patch.multiple(points, **patched), mock.patch.object(PaperCase, "wrong", wrong):
            with contextlib.redirect_stdout(text):
                status = points.run(
                    args, None, goals, None, PaperCase, lambda rows: print(len(rows))
                )
        return status, text.getvalue()

    def rows(self, **fields):
        rows = json.loads(self.path.read_text(encoding="utf-8"))["measurements"]
        return [row for row in rows if fields.items() <= row.items()]

    def test_a_peer_that_fails_is_missing_with_its_reason(self):
        status, text = self.run_goals()
        self.assertEqual(status, 0)
        self.assertIn("missing: ValueError: no kernel for it\n", text)
        self.assertEqual(len(self.rows(what="missing", backend="MATH")), 3)
        self.assertEqual(len(self.rows(what="time", backend=OURS)), 3)

    def test_only_what_is_missing_is_measured(self):
        self.assertEqual(self.run_goals(wrong=("b",))[0], 1)
        self.assertEqual(self.rows(group="b"), [])
        self.assertEqual(self.run_goals()[0], 0)
        self.assertEqual(len(self.rows(what="time", backend=OURS)), 3)


if __name__ == "__main__":
    unittest.main()
