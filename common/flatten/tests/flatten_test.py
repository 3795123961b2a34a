"""Tests of flatten.py: python3 -m unittest common/flatten/tests/flatten_test.py

The last one needs nvcc: without it it is skipped.
"""

import os
import pathlib
import shutil
import subprocess
import unittest

from common.flatten import flatten
from common.testing.tree import TreeTest

ALL = [(lesson, step) for lesson in flatten.lessons() for step in flatten.steps(lesson)]
COMPILED = ("04_tiled_matmul", "19_matmul_wgmma"), ("06_flash_backward", "05_tensor_cores")


def find_nvcc():
    """The path of nvcc or None: on PATH, in CUDA_HOME, or from common/cmake/fetch_nvcc.sh."""
    folders = [os.environ.get("CUDA_HOME", "/usr/local/cuda"), flatten.ROOT / "build" / "nvcc"]
    found = [shutil.which("nvcc"), *(pathlib.Path(folder) / "bin" / "nvcc" for folder in folders)]
    return next((str(path) for path in found if path and os.access(path, os.X_OK)), None)


class Steps(TreeTest):
    def test_every_step_is_flattened(self):
        self.assertGreaterEqual(len(ALL), 57)
        for lesson, step in ALL:
            text = flatten.flatten(lesson, step)
            headings = [line for line in text.splitlines() if line.startswith("// ---- ")]
            self.assertEqual(len(headings), len(set(headings)), f"{lesson} {step}")
            self.assertIn(f"// ---- {lesson}/kernels/{step}.cuh ", text)
            for unwanted in ('#include "', "#include <fmt", "//!"):
                self.assertNotIn(unwanted, text, f"{lesson} {step}")

    def test_a_step_that_does_not_exist_is_bad_use(self):
        for arguments in (["05", "99"], ["05", "08_edge"], ["07", "01"]):
            status, _, error = self.run_main(flatten.main, *arguments)
            self.assertEqual(status, 2)
            self.assertIn("allowed are 0", error)

    def test_learn_writes_a_file_relative_to_where_it_was_called(self):
        command = [flatten.ROOT / "learn", "flatten", "5", "8", "new/step.cu"]
        result = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("nvcc -arch=sm_80", result.stdout)
        written = self.read("new/step.cu")
        self.assertEqual(written, flatten.flatten("05_flash_forward", "08_edge_masks"))

    @unittest.skipUnless(find_nvcc(), "nvcc is not installed")
    def test_nvcc_compiles_steps_without_the_repository(self):
        options = ("-arch=compute_90a", "--expt-relaxed-constexpr", "-ptx", "-Xcicc", "-O0")
        for lesson, step in COMPILED:
            source = self.write("step.cu", flatten.flatten(lesson, step))
            command = [find_nvcc(), *options, source, "-o", f"{source}.ptx"]
            result = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), f"{lesson} {step}")


if __name__ == "__main__":
    unittest.main()
