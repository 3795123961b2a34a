"""Tests of ring.py: tables of ring attention between GPUs, and records that do not fit."""

import copy
import json

from common.data.records import Problem
from common.testing.tree import TreeTest
from docs.records import ring

HEAD = {"gpu": "GPU 1", "driver": "2.3", "toolkit": "4.5", "commit": "abc", "date": "2026-01-02"}


def row(gpus, milliseconds, **fields):
    point = {"mask": "causal", "pass": "backward", "gpus": gpus, "length": 64}
    rates = {"tflops_per_gpu": 10.4, "mebibytes_per_gpu": 7}
    percents = {"percent_of_linear": 87.46, "percent_predicted": 98.04}
    return {**point, "milliseconds": milliseconds, **rates, **percents, **fields}


def torch_row(milliseconds, implementation, **fields):
    return row(2, milliseconds, implementation=f"PyTorch, {implementation}", **fields)


RECORD = {**HEAD, "measurements": [row(1, 7.0), row(2, 4.0)]}
SLOW = torch_row(6.0, "CUDNN_ATTENTION, alltoall")
PYTORCH = {**HEAD, "torch": "9.8", "measurements": [SLOW]}


class RingTest(TreeTest):
    def test_a_line_has_the_time_of_one_gpu_and_of_several(self):
        lines = ring.gpus(RECORD)
        cells = "causal backward 2 64 7.00 4.00 10 87.5 98.0 7".split()
        self.assertEqual(lines[3].split(), cells)
        self.assertEqual(lines[4], "(GPU 1, driver 2.3, CUDA 4.5, commit abc, 2026-01-02)")

    def test_a_problem_that_one_gpu_did_not_compute_is_refused(self):
        with self.assertRaises(Problem):
            ring.gpus({**HEAD, "measurements": [row(1, 7.0, length=32), row(2, 4.0)]})

    def test_a_line_of_pytorch_names_backend_and_rotation(self):
        cells = "causal backward cuDNN, alltoall 2 64 6.00 10 7".split()
        self.assertEqual(ring.implementations(PYTORCH)[3].split(), cells)

    def test_the_records_choose_the_table(self):
        self.write("own.json", json.dumps(RECORD))
        self.write("torch.json", json.dumps(PYTORCH))
        own, torch = self.root / "own.json", self.root / "torch.json"
        for arguments, title in (((own,), ring.PROBLEM), ((torch,), "PyTorch 9.8")):
            status, out, err = self.run_main(ring.main, *arguments)
            self.assertEqual((status, out.splitlines()[0], err), (0, title, ""))
        for arguments, words in (
            ((own, torch), "lacks FLASH_ATTENTION"),
            ((torch, "--efficiency"), "0 rows"),
            ((torch, own), "2 numbers of GPUs"),
            ((self.root / "none.json",), "cannot be read"),
        ):
            status, out, err = self.run_main(ring.main, *arguments)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn(words, err)

    def test_a_problem_of_pytorch_that_the_lesson_did_not_compute_is_refused(self):
        for name, other in (("mask", "full"), ("pass", "forward"), ("gpus", 4), ("length", 65)):
            record = copy.deepcopy(PYTORCH)
            record["measurements"][0][name] = other
            with self.subTest(name), self.assertRaises(Problem):
                ring.fastest(RECORD, record)

    def test_both_passes_stand_in_a_line(self):
        forward = row(2, 3.0, percent_of_linear=50.0, mebibytes_per_gpu=9, **{"pass": "forward"})
        lines = ring.efficiency({**HEAD, "measurements": [forward, *RECORD["measurements"]]})
        self.assertEqual(lines[3].split(), "64 causal 2 50.0 98.0 87.5 98.0 9".split())
        self.assertEqual(len(lines), 5)

    def test_the_chart_has_the_prediction_dashed_below_what_was_measured(self):
        record = {**HEAD, "measurements": [row(1, 7.0), row(2, 4.0), row(2, 9.0, length=128)]}
        svg = ring.chart(record)
        for words in ("2 GPUs, causal, zig-zag: measured", "2 GPUs, causal, zig-zag: predicted"):
            self.assertEqual(svg.count(words), 1)
        # A line in the panel and one in the legend.
        self.assertEqual((svg.count("<polyline"), svg.count("stroke-dasharray")), (4, 2))

    def test_the_faster_rotation_of_each_backend_counts(self):
        others = [
            torch_row(5.0, "CUDNN_ATTENTION, allgather", mebibytes_per_gpu=8),
            torch_row(9.0, "FLASH_ATTENTION, alltoall"),
        ]
        lines = ring.fastest(RECORD, {**PYTORCH, "measurements": [SLOW, *others]})
        self.assertEqual(lines[3].split(), "64 causal backward 4.0 9.0 5.0 7 7 8".split())

    def test_a_backend_that_was_not_timed_is_reported(self):
        with self.assertRaisesRegex(Problem, "lacks FLASH_ATTENTION"):
            ring.fastest(RECORD, PYTORCH)

    def test_a_record_of_two_and_of_four_gpus_is_refused(self):
        record = copy.deepcopy(PYTORCH)
        record["measurements"].append({**SLOW, "gpus": 4})
        with self.assertRaisesRegex(Problem, "2 numbers of GPUs"):
            ring.fastest(RECORD, record)
