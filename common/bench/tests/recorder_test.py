"""Tests of the programs that recorder.py frames, with tools of paper; and that the lists of
ablations fit the steps."""

import unittest
from unittest import mock

from common.bench import ablations, limits, mma_rate, tools
from common.flatten import flatten
from common.testing.tree import SMI, PaperTest

# nvcc "compiles" to a program that takes as many ms as its source has 'for'.
ABLATION_TOOLS = {
    "nvcc": r"""case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
for word; do case $word in *.cu) source=$word;; esac; out=$word; done
grep -q BROKEN "$source" && { echo "error: broken" >&2; exit 1; }
count=$(grep -o '\<for\>' "$source" | wc -l)
printf '#!/bin/sh\necho "full: %d.0 ms"\necho "causal: 7.0 ms"\n' "$count" > "$out"
chmod +x "$out"
""",
    "nvidia-smi": SMI,
}


class Lists(unittest.TestCase):
    def test_every_idea_fits_its_step_alone_and_behind_the_ones_before_it(self):
        self.assertEqual(len(ablations.ideas()), 8)
        for (lesson, step), taken_back in ablations.ideas().items():
            with self.subTest(lesson=lesson, step=step):
                texts = ablations.variants(lesson, step)
                self.assertEqual(len(texts), 1 + 2 * len(taken_back))
                first = taken_back[0].what
                self.assertEqual(texts[first, "alone"], texts[first, "so far"])
                different = len(set(texts.values()))
                self.assertEqual(different, len(texts) - 1)

    def test_the_program_times_what_it_checks(self):
        text = ablations.timed("05_flash_forward", "08_edge_masks")
        self.assertIn("check_and_time<half>(64", text)
        self.assertIn("milliseconds(", text)
        matmul = ablations.timed("04_tiled_matmul", "21_matmul_persistent")
        self.assertIn("return check_and_time<bfloat16>(", matmul)


class Whole(PaperTest):
    def ran(self, *arguments):
        return self.run_with(ABLATION_TOOLS, ablations.main, *arguments)

    def test_a_record_is_written_and_printed_again(self):
        record = self.root / "record.json"
        status, text, err = self.ran("05/08", "--json", record, "--commit", "abcdef0")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("O rescaled after every tile", text)
        self.assertIn("NVIDIA H100, driver 580.1, CUDA 13.0, commit abcdef0", text)
        rows = [line.split() for line in text.splitlines()]
        self.assertIn("1.00", [row[-1] for row in rows if row])
        self.assertEqual(self.ran("--table", record), (0, text, ""))

    def test_a_lesson_alone_means_all_its_steps(self):
        steps = [step for _, step in ablations.find_steps("05")]
        self.assertEqual(steps, ["02_flash_1", "08_edge_masks"])

    def test_what_cannot_be_done_is_said(self):
        for arguments, text in (
            (["05/07"], "says nothing of 07_pipeline"),
            (["05/99"], "no step '99'"),
            (["03"], "'03' is neither LESSON/STEP nor a lesson with ablations"),
            (["--table", "nowhere.json"], "cannot be read"),
        ):
            with self.subTest(arguments=arguments):
                status, _, err = self.ran(*arguments)
                self.assertEqual(status, 2)
                self.assertIn(text, err)

    def test_a_variant_that_does_not_compile_ends_it(self):
        with mock.patch.object(ablations, "timed", return_value="-arch=sm_80 BROKEN"):
            with mock.patch.object(
                ablations, "variants", return_value={("", "alone"): "-arch=sm_80 BROKEN"}
            ):
                status, _, err = self.ran("05/08")
        self.assertEqual(status, 2)
        self.assertIn("error: broken", err)


NCU = r"""for word; do case $word in *gpu__*) names=$word;; esac; done
echo "==PROF== Connected"
printf '"ID","Kernel Name"'; printf ',"%s"' $(echo $names | tr , ' '); echo
printf '"",""'; printf ',"%%"%.0s' $(echo $names | tr , ' '); echo
for kernel in 0:first:3 1:longest:8 2:last:4; do
  IFS=: read id name value <<END
$kernel
END
  printf '"%s","void %s<float>(int)"' $id $name
  printf ",\"$value\"%.0s" $(echo $names | tr , ' '); echo
done
"""
LIMIT_TOOLS = {
    "nvcc": """case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
for out; do :; done; touch "$out"
""",
    "nvidia-smi": SMI,
    "ncu": NCU,
}


class Limits(PaperTest):
    def ran(self, *arguments, **changed):
        return self.run_with({**LIMIT_TOOLS, **changed}, limits.main, *arguments)

    def test_the_longest_launch_counts(self):
        record = self.root / "record.json"
        options = ("--json", record, "--commit", "abcdef0")
        status, text, err = self.ran("04/12", *options)
        self.assertEqual((status, err), (0, ""))
        self.assertIn('"function": "longest"', record.read_text(encoding="utf-8"))
        row = ["04/12_matmul_vector_loads", *["8"] * 4, "1.0", "8.0", *["8.00"] * 6]
        self.assertIn(row, [line.split() for line in text.splitlines()])
        self.assertIn("NVIDIA H100, driver 580.1, CUDA 13.0, commit abcdef0", text)
        self.assertEqual(self.ran("--table", record), (0, text, ""))
        _, other, _ = self.ran("05/02", "--table", record)
        self.assertNotIn("04/12", other)

    def test_the_steps_can_be_timed(self):
        for step in limits.STEPS:
            text = limits.timed(*flatten.find_step(*step.split("/")))
            self.assertIn("return check_and_time<", text)

    def test_what_cannot_be_done_is_said(self):
        for arguments, changed, words in (
            (["04/99"], {}, "no step '99'"),
            (["04/12"], {"ncu": "echo no permission >&2; exit 1"}, "no permission"),
            (["04/12"], {"nvcc": "echo error; exit 1"}, "nvcc failed"),
            (["--table", "nowhere.json"], {}, "cannot be read"),
        ):
            with self.subTest(words):
                status, _, err = self.ran(*arguments, **changed)
                self.assertEqual(status, 2)
                self.assertIn(words, err)


RATE_TOOLS = {
    "nvcc": """case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
for out; do :; done
printf '#!/bin/sh\\necho "mma.sync m16n8k8 tf32 8 1024.0"\\n' > "$out"; chmod +x "$out"
""",
    "nvidia-smi": SMI,
}


class MmaRate(PaperTest):
    def ran(self, *arguments, **changed):
        return self.run_with({**RATE_TOOLS, **changed}, mma_rate.main, *arguments)

    def test_a_record_is_written_and_printed_again(self):
        record = self.root / "record.json"
        status, text, err = self.ran("--json", record, "--commit", "abcdef0")
        self.assertEqual((status, err), (0, ""))
        cells = [line.split() for line in text.splitlines()]
        self.assertIn("mma.sync m16n8k8 tf32 8 1024 50.0".split(), cells)
        self.assertIn("NVIDIA H100, driver 580.1, CUDA 13.0, commit abcdef0", text)
        self.assertEqual(self.ran("--table", record), (0, text, ""))

    def test_what_cannot_be_done_is_said(self):
        self.assertIn("cannot be read", self.ran("--table", "nowhere.json")[2])
        self.assertIn("failed", self.ran(nvcc="echo error; exit 1")[2])


PAPER = {
    "nvcc": """case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
while [ "$1" != -o ]; do shift; done; touch $2""",
    "nvidia-smi": SMI,
    "ncu": """echo "==PROF== Connected"; echo "[7] step@host"; echo '  wavefronts  8   '""",
    "compute-sanitizer": """case "$*" in *broken*) echo "========= Error: Race";; esac
echo "PASS  O"; echo =========SUMMARY""",
}


class Tools(PaperTest):
    def ran(self, *arguments, **changed):
        return self.run_with({**PAPER, **changed}, tools.main, *arguments)

    def test_a_record_keeps_what_the_tools_say_of_the_kernel(self):
        record = self.root / "record.json"
        status, text, err = self.ran("--json", record, "--commit", "abcdef0")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(text.count("  wavefronts  8\n"), 2)
        self.assertEqual(text.count("Error: Race\n"), 1)
        for noise in ("PROF", "host", "PASS"):
            self.assertNotIn(noise, text)
        status, table, _ = self.ran("--table", record)
        self.assertEqual((status, table.count("$ "), table.count("NVIDIA H100")), (0, 4, 1))
        status, shown, _ = self.ran("--show", record, "races_no_barrier")
        self.assertEqual(status, 0)
        self.assertEqual(
            shown.splitlines()[:3],
            [
                "$ compute-sanitizer --tool racecheck --print-limit 1 ./step05_broken",
                "========= Error: Race",
                "=========SUMMARY",
            ],
        )

    def test_what_cannot_be_done_is_said(self):
        self.assertEqual(self.ran("--show", "nowhere.json", "races_05")[0], 2)
        self.assertIn("ncu", self.ran(ncu="echo no permission >&2; exit 1")[2])
        self.assertIn("nvcc failed", self.ran(nvcc="echo error; exit 1")[2])

    def test_the_barrier_is_a_line_of_the_step(self):
        text = flatten.flatten(tools.LESSON, "05_tensor_cores")
        self.assertEqual(text.count(tools.BARRIER), 1)
