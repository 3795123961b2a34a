"""Tests of flatten.py: python3 -m unittest common/flatten/tests/flatten_test.py

The last two need nvcc, and the last a GPU: without them they are skipped.
"""

import concurrent.futures
import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from common.flatten import flatten

ALL = [(lesson, step) for lesson in flatten.lessons().values() for step in flatten.steps(lesson)]


def has_gpu():
    smi = shutil.which("nvidia-smi")
    return smi is not None and subprocess.run([smi, "-L"], capture_output=True).returncode == 0


def names(text):
    return [sorted(item.names) for item in flatten.split(text).parts if not isinstance(item, str)]


class Splitting(unittest.TestCase):
    def test_a_definition_keeps_the_comment_above_and_behind_it(self):
        source = flatten.split(
            "namespace fa {\n\n// lost\n\n/// Kept.\nint a = 1;  // too\n}  // end\n"
        )
        self.assertEqual([item.text for item in source.parts], ["/// Kept.\nint a = 1;  // too"])

    def test_names_of_all_kinds_of_definitions_are_found(self):
        text = """
template <int d, bool large = (d > 2)>
struct Tile { int x; };
template <class T>
__global__ void __launch_bounds__(Tile<2>::threads, 1) kernel(T* out) { out[0] = '{'; }
constexpr int kSize[2] = {1, 2};
using half = __half;
enum class Kind { kOne };
#define TWICE(x) \\
  x x
template <class T>
__device__ const T& largest(const T& a) { return a; }
"""
        expected = ["Tile", "kernel", "kSize", "half", "Kind", "TWICE", "largest"]
        self.assertEqual(names(text), [[name] for name in expected])

    def test_the_branch_for_nvcc_is_taken_and_other_conditions_stay(self):
        text = "#if defined(__CUDACC__)\nint gpu;\n#else\nint lab;\n#endif\n"
        self.assertEqual(names(text), [["gpu"]])
        text = "#if __CUDA_ARCH__ >= 900\n#define A 1\n#else\n#define A 2\n#endif\n"
        self.assertEqual([item.text + "\n" for item in flatten.split(text).parts], [text])

    def test_members_and_local_variables_are_no_uses(self):
        item = flatten.Item(
            "int f(Tile tile, int rows) { const auto at = g(tile); return at.size() + rows; }"
        )
        self.assertEqual(item.uses & {"tile", "rows", "at", "size", "g", "Tile"}, {"g", "Tile"})

    def test_places_of_calls_and_timestamps_are_left_out(self):
        text = (
            "void f(int a, SourceLocation location = caller_location()) {\n"
            "  FA_STAMP(kEnd, 0);\n  g(a, location);\n}"
        )
        self.assertEqual(flatten.without_lab(text), "void f(int a) {\n  g(a);\n}")


class Steps(unittest.TestCase):
    def test_a_number_names_a_lesson_and_a_step(self):
        self.assertEqual(flatten.find_step("5", "8"), ("05_flash_forward", "08_edge_masks"))
        for lesson, step in [("07", "01"), ("05", "99"), ("05", "08_edge")]:
            with self.assertRaises(LookupError):
                flatten.find_step(lesson, step)

    def test_every_step_needs_nothing_of_the_repository(self):
        self.assertGreaterEqual(len(ALL), 57)
        for lesson, step in ALL:
            text = flatten.flatten(lesson, step)
            for unwanted in ('#include "', "FA_TARGET", "SourceLocation", "fmt::", "//!", "clang-"):
                self.assertNotIn(unwanted, text, f"{lesson} {step}")

    def test_the_contents_name_the_lines_where_parts_begin(self):
        lines = flatten.flatten("05_flash_forward", "08_edge_masks").split("\n")
        rows = [line.split() for line in lines if re.match(r"// +\d+  \S", line)]
        self.assertGreater(len(rows), 5)
        for row in rows:
            self.assertIn(f"// ---- {row[2]} ", lines[int(row[1]) - 1])
        begin = [row[2] for row in rows if row[3:] == ["<-", "begin", "here"]]
        self.assertEqual(begin, ["05_flash_forward/kernels/08_edge_masks.cuh"])

    def test_a_step_that_does_not_exist_is_bad_use(self):
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(flatten.main(["05", "99"]), 2)
        self.assertIn("08_edge_masks", errors.getvalue())

    def test_learn_writes_a_file_relative_to_where_it_was_called(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [flatten.ROOT / "learn", "flatten", "5", "8", "new/step.cu"]
            result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("nvcc -arch=sm_80", result.stdout)
            self.assertIn(f"./learn lab {folder}/new/step.cu", result.stdout)
            written = (pathlib.Path(folder) / "new" / "step.cu").read_text(encoding="utf-8")
            self.assertEqual(written, flatten.flatten("05_flash_forward", "08_edge_masks"))


@unittest.skipUnless(flatten.find_nvcc(), "nvcc is not installed")
class Compiled(unittest.TestCase):
    def for_all(self, work, *options):
        """Compiles every step, as its second line says or with other options, and calls
        work(program)."""

        def compiled(lesson_and_step):
            lesson, step = lesson_and_step
            name = pathlib.Path(folder) / f"{lesson[:2]}_{step}"
            text = flatten.flatten(lesson, step)
            name.with_suffix(".cu").write_text(text, encoding="utf-8")
            chosen = options or [re.search(r"-arch=\w+", text)[0]]
            command = [flatten.find_nvcc(), *chosen, f"{name}.cu", "-o", str(name)]
            result = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(
                result.returncode, 0, f"{name.name}: {result.stdout}{result.stderr}"[:2000]
            )
            work(name)

        with tempfile.TemporaryDirectory() as folder:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(compiled, ALL))

    def test_nvcc_compiles_every_step_without_the_repository(self):
        self.for_all(lambda name: None, "-arch=compute_90a", "-ptx", "-Xcicc", "-O0")

    @unittest.skipUnless(has_gpu(), "there is no GPU")
    def test_every_step_is_right_on_the_gpu(self):
        def run(name):
            result = subprocess.run([name], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, f"{name.name}: {result.stdout}{result.stderr}")
            self.assertIn("PASS", result.stdout)

        self.for_all(run)
