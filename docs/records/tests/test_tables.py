"""Tests of tables.py: the ratios of which most pages speak, and what it refuses. Pages hold a table
of every other form, which docs.pages_in_sync compares."""

import copy
import functools
import json

from common.data.records import Problem, print_named
from common.testing.tree import TreeTest
from docs.records import tables

main = functools.partial(print_named, tables, tables.TABLES)
HEAD = {"gpu": "GPU 1", "driver": "2.3", "toolkit": "4.5", "commit": "abc", "date": "2026-01-02"}


def ring_row(gpus, milliseconds, **fields):
    point = {"mask": "causal", "pass": "backward", "gpus": gpus, "length": 64}
    rates = {"tflops_per_gpu": 10.4, "mebibytes_per_gpu": 7}
    percents = {"percent_of_linear": 87.46, "percent_predicted": 98.04}
    times = {"milliseconds": milliseconds, "milliseconds_least": milliseconds - 0.5}
    times |= {"milliseconds_most": milliseconds + 0.2, "milliseconds_without_transfers": 3.5}
    return {**point, **times, **rates, **percents, **fields}


def of(implementation, milliseconds, **fields):
    return ring_row(2, milliseconds, implementation=implementation, **fields)


OTHERS = [
    of("lesson", 4.5, mebibytes_per_gpu=6),
    of("PyTorch, CUDNN_ATTENTION, alltoall", 6.0),
    of("PyTorch, CUDNN_ATTENTION, allgather", 5.0, mebibytes_per_gpu=8),
    of("ring-flash-attn", 9.0),
]
PEERS = {"ring-flash-attn": "ring-flash-attn 0.1"}
BESIDE = {**HEAD, "torch": "9.8", "peers": PEERS, "measurements": OTHERS}


class RingTest(TreeTest):
    def test_the_faster_rotation_of_each_backend_counts(self):
        lines = tables.ring_beside(BESIDE)
        self.assertEqual(lines[3].split(), "64 causal backward 4.5 9.0 5.0 6 7 8".split())

    def test_a_problem_that_one_of_them_did_not_compute_is_refused(self):
        for name, other in (("mask", "full"), ("pass", "forward"), ("length", 65)):
            record = copy.deepcopy(BESIDE)
            record["measurements"][-1][name] = other
            with self.subTest(name), self.assertRaisesRegex(Problem, "lack"):
                tables.ring_beside(record)

    def test_a_record_of_two_and_of_four_gpus_is_refused(self):
        record = copy.deepcopy(BESIDE)
        record["measurements"].append({**OTHERS[0], "gpus": 4})
        with self.assertRaisesRegex(Problem, "2 numbers of GPUs"):
            tables.ring_beside(record)


def row(backend, tflops, length=4096, **other):
    fields = {"what": "time", "type": "bfloat16", "head_dim": 64, "causal": False}
    return {**fields, "backend": backend, "tflops": tflops, "length": length, **other}


class FrontTest(TreeTest):
    def run_front(self, rows, name):
        path = self.write("record.json", json.dumps({**HEAD, "measurements": rows}))
        return self.run_main(main, name, path, path)

    def test_what_is_behind(self):
        rows = [row("this lesson", 110.0), row("CUDNN_ATTENTION", 100.0)]
        rows += [row("this lesson", 80.0, 512), row("FLASH_ATTENTION_4", 100.0, 512)]
        rows += [row("this lesson", 50.0, head_dim=96), row("FLASH_ATTENTION", 100.0, head_dim=96)]
        rows += [row("deterministic", 90.0), row("CUDNN_ATTENTION, same bits", 100.0)]
        rows += [row("this lesson", 30.0, type="float32"), row("MATH", 40.0, type="float32")]
        status, out, err = self.run_front(rows, "front_behind")
        self.assertEqual((status, err), (0, ""))
        lines = [line.split() for line in out.splitlines()]
        self.assertEqual(
            [line for line in lines if line[0] == "forward"],
            [
                ["forward", "bfloat16", "64", "full", "1", "of", "2", "0.800", "512", "FA-4"],
                ["forward", "bfloat16", "96", "full", "1", "of", "1", "0.500", "4096", "FA-2"],
                ["forward", "float32", "64", "full", "1", "of", "1", "0.750", "4096", "unfused"],
            ],
        )
        same_bits = ["forward,", "deterministic", "bfloat16", "64", "full", "1", "of", "1"]
        self.assertIn([*same_bits, "0.900", "4096", "cuDNN"], lines)
        self.assertIn("points behind, of all: forward 3 of 4; forward,", " ".join(lines[-2]))

    def test_what_is_not_compared_is_refused(self):
        for rows in ([], [row("this lesson", 1.0)], [row("CUDNN_ATTENTION", 1.0)]):
            for name in ("front", "front_behind"):
                status, _, err = self.run_front(rows, name)
                self.assertEqual(status, 2)
                self.assertIn("tables.py: ", err)
        self.assertIn("length 4096", self.run_front([row("this lesson", 1.0)], "front")[2])


class Fp8Test(TreeTest):
    def test_the_better_kernel_counts_and_a_later_record_of_others(self):
        group = {"group": "e4m3, D 64", "length": 4096}
        ours = [{**group, "kernel": "01_a", "tflops": 90.0}]
        ours += [{**group, "kernel": "02_b", "tflops": 100.0}]
        first = [row("this lesson", 80.0, group="d64"), row("FLASH_ATTENTION_3", 60.0, group="d64")]
        first += [row("this lesson", 1.0, group="types_d64")]
        later = [row("FLASH_ATTENTION_3", 70.0, group="d64")]
        more = {"type": "float8_e4m3fn", "percent_error": 5.04, "group": "d64"}
        later += [row("FLASH_ATTENTION_3", 125.0, **more)]
        records = [{**HEAD, "measurements": rows} for rows in (ours, first, later)]
        last = tables.fp8(*records)[3].split()
        self.assertEqual(last, "64 full 4096 80 70 90 100 125 1.25 0.80 5.0".split())
        last = tables.fp8(*records[:2])[3].split()
        self.assertEqual(last, "64 full 4096 80 60 90 100 - 1.25 - -".split())
        records[2]["measurements"] += [row("CUDNN_ATTENTION", 50.0, **{**more, "percent_error": 6})]
        last = tables.fp8(*records)[3].split()
        self.assertEqual(last, "64 full 4096 80 70 90 100 125 50 1.25 0.80 5.0 6.0".split())
        ours[1]["percent_error"] = 5.5
        last = tables.fp8(*records)[3].split()
        self.assertEqual(last, "64 full 4096 80 70 90 100 125 50 1.25 0.80 5.5 5.0 6.0".split())
