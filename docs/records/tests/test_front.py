"""Tests of front.py: which peers and shapes it takes, its ratios, and what it refuses."""

import json

from common.testing.tree import TreeTest
from docs.records import front


def row(backend, tflops, length=4096, **other):
    fields = {"what": "time", "type": "bfloat16", "head_dim": 64, "causal": False}
    return {**fields, "backend": backend, "tflops": tflops, "length": length, **other}


class FrontTest(TreeTest):
    def run_front(self, rows, *options):
        record = {"gpu": "GPU 1", "driver": "2.3", "toolkit": "4.5", "commit": "abc"}
        record |= {"date": "2026-01-02", "command": "prog", "measurements": rows}
        path = self.write("record.json", json.dumps(record))
        return self.run_main(front.main, path, path, *options)

    def lines(self, rows, *options):
        status, out, err = self.run_front(rows, *options)
        self.assertEqual((status, err), (0, ""))
        return [line.split() for line in out.splitlines()]

    def test_all_peers_of_the_record_and_the_least_ratio(self):
        rows = [row("this lesson", 110.0), row("FLASH_ATTENTION_4", 100.0)]
        rows += [row("CUDNN_ATTENTION", 90.0), row("this lesson", 95.0, 512)]
        rows += [row("FLASH_ATTENTION", 100.0, 512)]
        lines = self.lines(rows)
        heading = ["pass", "D", "mask", "course", "FA-4", "cuDNN", "x", "best", "least"]
        self.assertEqual(lines[1], heading)
        self.assertEqual(lines[3], ["forward", "64", "full", "110", "100", "90", "1.100", "0.950"])
        self.assertEqual(lines[4][0], "backward")
        shorter = self.lines(rows, "--length", "512")
        self.assertEqual(shorter[3], ["forward", "64", "full", "95", "100", "0.950", "0.950"])

    def test_other_types_groups_and_modes_are_left_out(self):
        rows = [row("this lesson", 110.0, group="d64"), row("CUDNN_ATTENTION", 100.0, group="d64")]
        rows += [row("deterministic", 500.0), row("MATH", 500.0)]
        rows += [row("CUDNN_ATTENTION", 500.0, group="gqa")]
        rows += [row("CUDNN_ATTENTION", 500.0, type="float16", group="d64")]
        lines = self.lines(rows)
        self.assertEqual(lines[3], ["forward", "64", "full", "110", "100", "1.100", "1.100"])
        self.assertEqual(len([line for line in lines if line[0] == "forward"]), 1)

    def test_what_is_behind(self):
        rows = [row("this lesson", 110.0), row("CUDNN_ATTENTION", 100.0)]
        rows += [row("this lesson", 80.0, 512), row("FLASH_ATTENTION_4", 100.0, 512)]
        rows += [row("this lesson", 50.0, head_dim=96), row("FLASH_ATTENTION", 100.0, head_dim=96)]
        rows += [row("deterministic", 90.0), row("CUDNN_ATTENTION, same bits", 100.0)]
        rows += [row("this lesson", 30.0, type="float32"), row("MATH", 40.0, type="float32")]
        lines = self.lines(rows, "--behind")
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

    def test_nothing_is_behind(self):
        rows = [row("this lesson", 100.0), row("CUDNN_ATTENTION", 100.01)]
        self.assertIn("forward 0 of 1;", " ".join(self.lines(rows, "--behind")[-2]))

    def test_what_is_not_compared_is_refused(self):
        for rows in ([], [row("this lesson", 1.0)], [row("CUDNN_ATTENTION", 1.0)]):
            for options in ((), ("--behind",)):
                status, _, err = self.run_front(rows, *options)
                self.assertEqual(status, 2)
                self.assertIn("front.py: ", err)
        status, _, err = self.run_front([row("this lesson", 1.0)], "--length", "7")
        self.assertEqual(status, 2)
        self.assertIn("length 7", err)
