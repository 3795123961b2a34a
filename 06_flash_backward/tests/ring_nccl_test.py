"""Faults of ring attention between GPUs: all ranks end within seconds, with one message.
RING_ATTENTION_NCCL names the program."""

import os
import subprocess
import time
import unittest

PROGRAM = os.environ["RING_ATTENTION_NCCL"]


def run(fault):
    """The times of a short sequence, with a fault."""
    return subprocess.run(
        [PROGRAM, *"--section time --shortest 2 --longest 2 --repeats 1 --timeout 8".split()],
        env={**os.environ, "RING_FAULT": fault},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def setUpModule():
    outcome = run("")
    if outcome.returncode == 77:
        raise unittest.SkipTest(" ".join(outcome.stdout.split()))


class Faults(unittest.TestCase):
    def check_refused(self, fault, *texts):
        """One line on standard error, with these texts, and status 2."""
        begin = time.monotonic()
        outcome = run(fault)
        self.assertLess(time.monotonic() - begin, 40)
        self.assertEqual(outcome.returncode, 2, outcome)
        lines = outcome.stderr.splitlines()
        self.assertEqual(len(lines), 1, outcome.stderr)
        for text in ("ring_attention_nccl: ", *texts):
            self.assertIn(text, lines[0])

    def test_a_rank_that_throws(self):
        self.check_refused("1:throw", "rank 1: out of memory")

    def test_a_rank_that_stops(self):
        self.check_refused("1:stop", "rank 1 did not answer for 8 s", "rank 0 waited for")

    def test_a_rank_with_another_shape(self):
        self.check_refused("1:shape", "rank 1 has length_q 2049, rank 0 has 2048")


if __name__ == "__main__":
    unittest.main()
