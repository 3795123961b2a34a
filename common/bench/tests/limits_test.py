"""Tests of limits.py with tools of paper."""

import pathlib
import tempfile
import unittest

from common.bench import limits
from common.flatten import flatten
from common.testing import paper

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
TOOLS = {
    "nvcc": """case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
for out; do :; done; touch "$out"
""",
    "nvidia-smi": paper.SMI,
    "ncu": NCU,
}


class Limits(unittest.TestCase):
    def run_main(self, *arguments, **changed):
        return paper.run_main(limits.main, {**TOOLS, **changed}, *arguments)

    def test_the_longest_launch_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "record.json")
            options = ("--json", record, "--commit", "abcdef0")
            status, text, err = self.run_main("04/12", *options)
            self.assertEqual((status, err), (0, ""))
            self.assertIn('"function": "longest"', record.read_text(encoding="utf-8"))
            row = ["04/12_matmul_vector_loads", *["8"] * 4, "1.0", "8.0", *["8.00"] * 6]
            self.assertIn(row, [line.split() for line in text.splitlines()])
            self.assertIn("NVIDIA H100, driver 580.1, CUDA 13.0, commit abcdef0", text)
            self.assertEqual(self.run_main("--table", record), (0, text, ""))
            _, other, _ = self.run_main("05/02", "--table", record)
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
                status, _, err = self.run_main(*arguments, **changed)
                self.assertEqual(status, 2)
                self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
