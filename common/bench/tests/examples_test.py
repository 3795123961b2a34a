"""Tests of what the examples of lessons 05 and 06 share, as far as it needs no GPU: the orders in
which calls alternate, the points, and the tables of records."""

import argparse
import collections
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import types
import unittest
from unittest import mock

from common.bench import command, peers, points, problems, program, tables, timing
from common.bench.peers import CUDNN, FLASH_3, FLASH_4, OURS, OURS_SAME_BITS
from common.testing.tree import TreeTest


class Orders(unittest.TestCase):
    def test_each_call_comes_at_each_place_and_behind_each_other_one_equally_often(self):
        self.assertEqual(timing.orders_of(0), [])
        for count in range(1, 14):
            orders = timing.orders_of(count)
            self.assertGreaterEqual(len(orders), timing.ROUNDS)
            for order in orders:
                self.assertEqual(sorted(order), list(range(count)))
            for place in range(count):
                there = collections.Counter(order[place] for order in orders)
                self.assertEqual((len(there), len(set(there.values()))), (count, 1))
            pairs = collections.Counter(pair for order in orders for pair in zip(order, order[1:]))
            self.assertEqual(len(pairs), count * (count - 1))
            self.assertLessEqual(len(set(pairs.values())), 1)


class Spread(unittest.TestCase):
    def test_percentiles_are_values_that_were_measured(self):
        values = list(range(101))[::-1]
        self.assertEqual(timing.percentiles(values, (0, 5, 95, 100)), [0, 5, 95, 100])
        self.assertEqual(timing.percentiles([3.5], (5, 95)), [3.5, 3.5])

    def test_without_nvidia_smi_there_is_neither_clock_nor_power(self):
        with mock.patch.dict(os.environ, {"PATH": ""}):
            self.assertEqual(timing.clock_and_power(), {})


def timed(backend, tflops, length=512, dtype="bfloat16", error=None, kv_heads=16, **more):
    row = {"what": "time", "backend": backend, "group": "d64", "type": dtype, "batch": 2}
    row.update(heads=16, kv_heads=kv_heads, length=length, head_dim=64, causal=True)
    row.update(milliseconds=1, tflops=tflops, **more)
    if error is not None:
        row["rms_errors"] = {"d_q": error, "d_k": 2 * error}
    return row


def printed_by(function, *arguments):
    """What a function prints, and what it returns."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        result = function(*arguments)
    return text.getvalue(), result


class Points(unittest.TestCase):
    def test_the_goals_are_24_points_of_a_pass(self):
        points = problems.points_of("goals")
        self.assertEqual(len(set(points)), 24)
        for point in points:
            self.assertEqual(point.batch * point.length, 16384)
            self.assertEqual(point.heads * point.head_dim, 2048)
            self.assertEqual(point.types, ("bfloat16",))

    def test_groups_and_sets_each_once(self):
        self.assertEqual(problems.points_of("d64,d128,goals,d64"), problems.points_of("goals"))
        self.assertEqual({(p.heads, p.kv_heads) for p in problems.points_of("gqa")}, {(32, 8)})
        self.assertEqual({p.batch for p in problems.points_of("small")}, {1})
        lengths = problems.points_of("lengths")
        self.assertEqual({p.length for p in lengths}, {300, 777, 3000})
        self.assertTrue(all(16384 - p.length < p.batch * p.length <= 16384 for p in lengths))
        everything = problems.points_of(",".join(problems.SETS))
        self.assertEqual({p.group for p in everything}, set(problems.GROUPS))
        self.assertEqual(len({point.name() for point in everything}), len(everything))

    def test_a_group_that_is_not_there(self):
        with self.assertRaisesRegex(command.Failure, "no points 'd65'; allowed are goals, "):
            problems.points_of("goals,d65")

    def test_flops_of_masked_products_count_half(self):
        full, causal = (
            next(p for p in problems.points_of("small") if p.causal == mask)
            for mask in (False, True)
        )
        self.assertEqual(full.flops((1, 1)), 4 * 16 * 1024**2 * 128)
        self.assertEqual(full.flops((3, 2)), 5 * causal.flops((1, 0)) * 2)
        point = problems.points_of("d192_v128")[0]
        self.assertEqual(point.flops((3, 2)), 2 * 4 * 16 * 4096**2 * (3 * 192 + 2 * 128))


class Ratios(unittest.TestCase):
    def test_the_fastest_other_one_counts(self):
        rows = [
            timed(OURS, 300),
            timed(FLASH_3, 200),
            timed(CUDNN, 250),
            timed(OURS_SAME_BITS, 400),
        ]
        (of,) = tables.points_in(rows)
        self.assertEqual(tables.ratio(of), (1.2, CUDNN))
        self.assertIsNone(tables.ratio(of, same_bits=True))
        name = next(name for name, base in peers.SAME_BITS.items() if base == FLASH_4)
        (of,) = tables.points_in([*rows, timed(name, 500)])
        self.assertEqual(tables.ratio(of), (1.2, CUDNN))
        self.assertEqual(tables.ratio(of, same_bits=True), (0.8, name))

    def test_least_and_median(self):
        rows = []
        for length, ours in ((512, 90), (1024, 110), (2048, 130)):
            rows += [timed(OURS, ours, length), timed(FLASH_4, 100, length)]
        text, _ = printed_by(tables.print_times, rows)
        self.assertIn(
            "3 points: least 0.900 (bfloat16, 16 heads, D 64, causal, N 512, flash 4)", text
        )
        self.assertIn("median 1.100, 2 at or above 1.00", text)
        line = next(line for line in text.splitlines() if line.endswith("1.300"))
        self.assertEqual(line.split()[-3:], ["0.900", "1.100", "1.300"])

    def test_errors_are_compared_with_the_least_at_each_point(self):
        rows = [timed(OURS, 300, error=3e-3), timed(CUDNN, 200, error=2e-3)]
        rows += [timed(OURS, 300, 1024, error=2e-3), timed(FLASH_3, 1, 1024, error=4e-3)]
        text, _ = printed_by(tables.print_times, rows)
        self.assertIn("d_q 1.500 (3.0e-03), d_k 1.500 (6.0e-03)", text)


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


class RecordTest(TreeTest):
    def setUp(self):
        super().setUp()
        self.path = self.root / "record.json"

    def rows(self, **fields):
        rows = json.loads(self.path.read_text(encoding="utf-8"))["measurements"]
        return [row for row in rows if fields.items() <= row.items()]

    def test_a_process_that_is_killed_leaves_what_it_has_measured(self):
        command = (
            "import os, signal\n"
            "from common.bench.program import Record\n"
            f"kept = Record({str(self.path)!r}, {{'gpu': 'H100'}})\n"
            "for run in (1, 2):\n"
            "    kept.put([{'run': run}])\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-B", "-c", command], check=False)
        self.assertEqual((done.returncode, self.rows()), (-9, [{"run": 1}, {"run": 2}]))
        self.assertEqual([path.name for path in self.path.parent.iterdir()], [self.path.name])

    def test_a_place_that_cannot_be_written_is_found_first(self):
        with self.assertRaises(OSError):
            program.Record(str(self.path / "none.json"), {})

    def run_points(self, wrong=()):
        """points.run() on a GPU of paper. Returns what it prints, and the exit status."""
        args = argparse.Namespace(json=str(self.path), points=None, repeats=1, seconds=0)
        args.flash_attention_3 = args.table = None
        patched = {
            "begin": mock.Mock(return_value=("library", True)),
            "record_head": lambda *_: {"gpu": "H100"},
            "peers": mock.Mock(load=mock.Mock(return_value={})),
            "torch": mock.Mock(),
        }
        goals = [Point(group=name) for name in "abc"]
        with mock.patch.multiple(points, **patched), mock.patch.object(PaperCase, "wrong", wrong):
            return printed_by(points.run, args, None, goals, None, PaperCase, lambda r: None)

    def test_a_peer_that_fails_is_missing_with_its_reason(self):
        text, status = self.run_points()
        self.assertEqual(status, 0)
        self.assertIn("missing: ValueError: no kernel for it\n", text)
        self.assertEqual(len(self.rows(what="missing", backend="MATH")), 3)
        self.assertEqual(len(self.rows(what="time", backend=OURS)), 3)

    def test_a_point_that_is_wrong_is_not_recorded(self):
        self.assertEqual(self.run_points(wrong=("b",))[1], 1)
        self.assertEqual(self.rows(group="b"), [])
        self.assertEqual(len(self.rows(what="time", backend=OURS)), 2)


class Installed(unittest.TestCase):
    def test_folders_and_versions_of_packages(self):
        self.assertEqual(peers.folders_of("json"), [pathlib.Path(json.__file__).parent])
        self.assertEqual(peers.folders_of("fa_no_such_package"), [])
        self.assertEqual(peers.version_of("fa-no-such-package"), "")
