"""Tests of stamps.py: which stamps of a file are kept."""

import unittest

from common.testing.tree import TreeTest
from docs.records import stamps

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


if __name__ == "__main__":
    unittest.main()
