"""Tests of check_dependencies.py: for each rule, statements that it forbids and that it allows."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from common.testing import check_dependencies

# Rule and file; statements there that the rule forbids, and statements that no rule forbids.
CASES = [
    ("root", "02_two/two.hpp", ['#include "two.hpp"', '#include "../01_one/one.hpp"'],
     ["#include <vector>", '#include "student/softmax.hpp"', '// #include "two.hpp"']),
    ("lesson", "02_two/two.hpp", ["#  include <03_three/three.hpp>", '#include "docs/stepper.hpp"'],
     ['#include "01_one/one.hpp"', '#include "common/lab/engine.hpp"']),
    ("lesson", "02_two/exercises/sum/exercise.cpp", ['#include "03_three/three.hpp"'], []),
    ("lesson", "01_one/one.py", ["def f():\n    import docs.site.site", "from docs import site",
     'import importlib\nimportlib.import_module("02_two.two")'], ["from common import drawing"]),
    ("common", "common/cli/file.hpp", ['#include "01_one/one.hpp"'],
     ['#include "common/check/check.hpp"']),
    ("foundation", "common/check/check.hpp", ['#include "common/gpu/kernel.cuh"'],
     ['#include "common/tensor/tensor.hpp"']),
    ("surface", "common/gpu/kernel.cuh", ['#include "common/lab/engine.hpp"'],
     ['#include "common/gpu/kernel_lab.hpp"']),
    ("surface", "common/gpu/kernel_lab.hpp", [], ['#include "common/lab/engine.hpp"']),
    ("kernel", "02_two/kernels/03_step.cuh", ['#include "01_one/kernels/01_first.cuh"',
     '#include "02_two/two.hpp"'], ['#include "common/attention/tiles.cuh"']),
    ("step", "02_two/kernels/03_step.cuh", ['#include "02_two/kernels/04_step.cuh"'],
     ['#include "02_two/kernels/02_step.cuh"', '#include "02_two/kernels/shared.cuh"']),
    ("backend", "02_two/kernels/03_step.cuh", ["#ifdef __CUDACC__", "#if 0\n#elif FA_LAB_WATCHED",
     "# if 1 && \\\n  __CUDA_ARCH__ >= 900"], ["#ifdef NDEBUG", "#define FA_GPUS 2"]),
    ("backend", "common/gpu/kernel.cuh", [], ["#ifdef __CUDACC__"]),
    ("path", "docs/site/site.py", ["from sys import path", 'env["PYTHONPATH"] = ""',
     'import sys\nsys.path[:0] = ["common"]'], ["import os.path"]),
]  # fmt: skip
TREE = """
01_one/one.hpp 01_one/kernels/01_first.cuh 02_two/two.py 02_two/kernels/02_step.cuh
02_two/kernels/04_step.cuh 02_two/kernels/shared.cuh 03_three/three.hpp docs/stepper.hpp
common/attention/tiles.cuh common/lab/engine.hpp common/tensor/tensor.hpp
""".split() + [name for _, name, _, _ in CASES]  # fmt: skip


def check(files):
    """The exit status for a repository with these files, and the lines that are printed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            return check_dependencies.main(["--root", folder]), out.getvalue().splitlines()


class CheckDependencies(unittest.TestCase):
    def test_each_rule_forbids_and_allows(self):
        for rule, name, forbidden, allowed in CASES:
            for statement in forbidden + allowed:
                with self.subTest(rule=rule, file=name, statement=statement):
                    status, lines = check({**dict.fromkeys(TREE, ""), name: statement + "\n"})
                    rules = {line.rpartition("[")[2] for line in lines if line.startswith(name)}
                    self.assertEqual(status, int(statement in forbidden))
                    self.assertEqual(rules, {rule + "]"} if statement in forbidden else set())

    def test_nothing_to_check_is_a_failure_and_builds_are_not_read(self):
        built = dict.fromkeys(["build/learn/a.cpp", "build-gpu/a.cpp"], '#include "nowhere.hpp"\n')
        self.assertEqual(check(built)[0], 2)
        self.assertEqual(check({**built, "docs/a.hpp": ""})[0], 0)
