"""Tests of check_dependencies.py: for each rule, statements that it forbids and that it allows."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from common.testing import check_dependencies

# The files of a small repository. Their names are all that matters.
TREE = """
01_one/one.hpp 01_one/one.py 01_one/kernels/01_first.cuh 02_two/two.hpp 02_two/two.py
02_two/kernels/02_step.cuh 02_two/kernels/03_step.cuh 02_two/kernels/04_step.cuh
02_two/kernels/shared.cuh 03_three/three.hpp common/attention/tiles.cuh common/check/check.hpp
common/drawing/svg.py common/cli/file.hpp common/gpu/kernel.cuh common/gpu/kernel_lab.hpp
common/lab/engine.hpp common/tensor/tensor.hpp docs/site/site.py docs/stepper.hpp
""".split()
# Rule and file; statements there that this rule forbids (-), and that no rule forbids (+).
CASES = r"""
root 02_two/two.hpp
- #include "two.hpp"
- #include "../01_one/one.hpp"
+ #include "01_one/one.hpp"
+ #include <vector>
+ #include "student/softmax.hpp"
+ #include "kernel_lines.hpp"
+ // #include "two.hpp"

lesson 02_two/two.hpp
- #include "03_three/three.hpp"
- #  include <03_three/three.hpp>
- #include "docs/stepper.hpp"
+ #include "01_one/one.hpp"
+ #include "common/lab/engine.hpp"
+ #include "02_two/kernels/shared.cuh"

lesson 02_two/exercises/sum/frame.txt
- #include "03_three/three.hpp"
+ #include "01_one/one.hpp"

lesson 01_one/one.py
- from docs.site import site
- from docs import site
- import docs.site.site
- def f():\n    import docs.site.site
- import importlib\nimportlib.import_module("02_two.two")
+ from common.drawing import svg
+ import docs_of_another
+ # import docs.site.site

common common/cli/file.hpp
- #include "01_one/one.hpp"
- #include "docs/stepper.hpp"
+ #include "common/check/check.hpp"

common common/drawing/svg.py
- from docs.site.site import f
- from docs.site import site as s
- from ...docs.site import site
- __import__("01_one.one")
+ import common.drawing.svg
+ from . import svg
+ from .svg import f
+ import svg
+ import os

foundation common/check/check.hpp
- #include "common/gpu/kernel.cuh"
- #include "common/lab/engine.hpp"
+ #include "common/tensor/tensor.hpp"

foundation common/tensor/tensor.hpp
- #include "common/gpu/kernel.cuh"
- #include "common/lab/engine.hpp"
+ #include "common/cli/file.hpp"

surface common/gpu/kernel.cuh
- #include "common/lab/engine.hpp"
+ #include "common/gpu/kernel_lab.hpp"

surface common/gpu/kernel_cuda.cuh
- #include "common/lab/engine.hpp"
+ #include "common/tensor/tensor.hpp"

surface common/gpu/kernel_lab.hpp
+ #include "common/lab/engine.hpp"

kernel 02_two/kernels/03_step.cuh
- #include "01_one/kernels/01_first.cuh"
- #include "02_two/two.hpp"
- #include "common/lab/engine.hpp"
- #include "common/tensor/tensor.hpp"
+ #include "common/gpu/kernel.cuh"
+ #include "common/attention/tiles.cuh"
+ #include "02_two/kernels/shared.cuh"

kernel 02_two/kernels/shared.cuh
- #include "01_one/kernels/01_first.cuh"
+ #include "02_two/kernels/04_step.cuh"

step 02_two/kernels/03_step.cuh
- #include "02_two/kernels/04_step.cuh"
- #include "02_two/kernels/03_step.cuh"
+ #include "02_two/kernels/02_step.cuh"

backend 02_two/kernels/03_step.cuh
- #ifdef __CUDACC__
- #if !defined(__CUDA_ARCH__)
- # if 1 && \\n  __CUDA_ARCH__ >= 900
- #if 0\n#elif FA_LAB_WATCHED
- #ifndef FA_LAB_WATCHED
- #if defined(FA_CUDA)
+ #if defined(__linux__)
+ // #ifdef __CUDACC__
+ #define FA_GPUS 2
+ #ifdef NDEBUG

backend common/lab/engine.hpp
- #ifdef __CUDACC__
+ #if defined(__x86_64__)

backend common/gpu/kernel.cuh
+ #ifdef __CUDACC__
+ #if __CUDA_ARCH__ >= 900

path docs/site/site.py
- import sys\nsys.path.insert(0, "common")
- import sys\nsys.path[:0] = ["common"]
- from sys import path
- import os\nos.environ["PYTHONPATH"] = "common"
- f"PYTHONPATH={1}"
+ import sys\nsys.exit(0)
+ # sys.path
+ import os.path
+ "what sys.path is"
"""


def cases():
    """Yields (rule, file, statements, forbidden or not)."""
    rule = name = ""
    for line in filter(None, CASES.splitlines()):
        if line[:2] in ("- ", "+ "):
            yield rule, name, line[2:].replace(r"\n", "\n"), line[0] == "-"
        else:
            rule, name = line.split()


class CheckDependencies(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        for name in TREE:
            self.write(name, "")

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def check(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = check_dependencies.main(["--root", str(self.root)])
        return status, out.getvalue().splitlines()

    def test_each_rule_forbids_and_allows(self):
        for rule, name, statement, forbidden in cases():
            with self.subTest(rule=rule, file=name, statement=statement):
                self.write(name, statement + "\n")
                status, lines = self.check()
                self.write(name, "")
                broken = [line for line in lines if line.endswith("]")]
                if forbidden:
                    self.assertEqual(status, 1)
                    self.assertTrue(any(line.endswith(f"[{rule}]") for line in broken), lines)
                    self.assertTrue(all(line.startswith(f"{name}:") for line in broken), lines)
                else:
                    self.assertEqual((status, broken), (0, []))

    def test_every_rule_has_a_case_that_it_forbids(self):
        tried = {rule for rule, _, _, forbidden in cases() if forbidden}
        self.assertEqual(tried, {rule[0] for rule in check_dependencies.RULES})

    def test_a_message_says_where_what_and_why(self):
        name = "02_two/kernels/03_step.cuh"
        self.write(name, '// A step.\n#if 1 || \\\n    0\n#endif\n#include "02_two/two.hpp"\n')
        self.assertEqual(
            self.check()[1][0],
            "02_two/kernels/03_step.cuh:5: includes 02_two/two.hpp: a kernel uses common/gpu, "
            "common/attention and its own lesson's kernels only [kernel]",
        )

    def test_what_is_built_or_hidden_is_not_read(self):
        for name in ("build/learn/a.cpp", "build-gpu/a.cpp", "my_exercises/a.hpp"):
            self.write(name, '#include "nowhere.hpp"\n')
        self.write(".venv/lib/a.py", "import sys; sys.path")
        self.assertEqual(self.check()[0], 0)

    def test_nothing_to_check_is_a_failure(self):
        self.root = self.root / "empty"
        self.root.mkdir()
        self.assertEqual(self.check()[0], 2)
