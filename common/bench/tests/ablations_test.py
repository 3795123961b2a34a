"""Tests of ablations.py: the lists fit the steps, and the whole with tools of paper."""

import pathlib
import tempfile
import unittest
from unittest import mock

from common.bench import ablations
from common.testing import paper

# nvcc "compiles" to a program that takes as many ms as its source has 'for'.
TOOLS = {
    "nvcc": r"""case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
for word; do case $word in *.cu) source=$word;; esac; out=$word; done
grep -q BROKEN "$source" && { echo "error: broken" >&2; exit 1; }
count=$(grep -o '\<for\>' "$source" | wc -l)
printf '#!/bin/sh\necho "full: %d.0 ms"\necho "causal: 7.0 ms"\n' "$count" > "$out"
chmod +x "$out"
""",
    "nvidia-smi": paper.SMI,
}


class Lists(unittest.TestCase):
    def test_every_idea_fits_its_step_alone_and_behind_the_ones_before_it(self):
        self.assertEqual(len(ablations.ideas()), 7)
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


class Whole(unittest.TestCase):
    def run_main(self, *arguments):
        return paper.run_main(ablations.main, TOOLS, *arguments)

    def test_a_record_is_written_and_printed_again(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "record.json")
            status, text, err = self.run_main("05/08", "--json", record, "--commit", "abcdef0")
            self.assertEqual((status, err), (0, ""))
            self.assertIn("O rescaled after every tile", text)
            self.assertIn("NVIDIA H100, driver 580.1, CUDA 13.0, commit abcdef0", text)
            rows = [line.split() for line in text.splitlines()]
            self.assertIn("1.00", [row[-1] for row in rows if row])
            self.assertEqual(self.run_main("--table", record), (0, text, ""))

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
                status, _, err = self.run_main(*arguments)
                self.assertEqual(status, 2)
                self.assertIn(text, err)

    def test_a_variant_that_does_not_compile_ends_it(self):
        with mock.patch.object(ablations, "timed", return_value="-arch=sm_80 BROKEN"):
            with mock.patch.object(
                ablations, "variants", return_value={("", "alone"): "-arch=sm_80 BROKEN"}
            ):
                status, _, err = self.run_main("05/08")
        self.assertEqual(status, 2)
        self.assertIn("error: broken", err)


if __name__ == "__main__":
    unittest.main()
