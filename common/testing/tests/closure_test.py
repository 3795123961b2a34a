"""The way of a kernel stays short: python3 -m unittest common/testing/tests/closure_test.py"""

import pathlib
import tempfile
import unittest

from common.testing import closure


class Closure(unittest.TestCase):
    def test_no_step_includes_more_than_its_limits_allow(self):
        limits = closure.limits()
        self.assertEqual(sorted(limits), closure.steps(), "closure.txt has a line for each step")
        for step, (most_files, most_lines) in limits.items():
            files = closure.closure(step)
            grown = f"{step} includes more; if it must, raise its limits in closure.txt"
            self.assertLessEqual(len(files), most_files, grown)
            self.assertLessEqual(sum(files.values()), most_lines, grown)

    def test_a_step_of_a_ladder_includes_at_most_twelve_files(self):
        for step, (most_files, _) in closure.limits().items():
            if step.count("/") == 2:  # not one of kernels/decode, functors or packed
                self.assertLessEqual(most_files, 12, step)

    def test_files_are_counted_once_and_only_those_of_lessons_and_of_attention(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            x = '#include "05_a/kernels/y.cuh"\n#include "common/gpu/k.cuh"\n'
            for name, text in {
                "05_a/kernels/01_x.cuh": x,
                "05_a/kernels/y.cuh": '#include "common/attention/z.cuh"\n#include <vector>\n',
                "common/attention/z.cuh": "int z;\n\n",
                "common/gpu/k.cuh": '#include "common/attention/z.cuh"\n',
            }.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            self.assertEqual(closure.steps(root), ["05_a/kernels/01_x.cuh"])
            expected = {
                "05_a/kernels/01_x.cuh": 2,
                "05_a/kernels/y.cuh": 2,
                "common/attention/z.cuh": 2,
            }
            self.assertEqual(closure.closure("05_a/kernels/01_x.cuh", root), expected)
