"""Tests of tools.py with tools of paper."""

import pathlib
import tempfile
import unittest

from common.bench import tools
from common.flatten import flatten
from common.testing import paper

PAPER = {
    "nvcc": """case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
while [ "$1" != -o ]; do shift; done; touch $2""",
    "nvidia-smi": paper.SMI,
    "ncu": """echo "==PROF== Connected"; echo "[7] step@host"; echo '  wavefronts  8   '""",
    "compute-sanitizer": """case "$*" in *broken*) echo "========= Error: Race";; esac
echo "PASS  O"; echo =========SUMMARY""",
}


class Tools(unittest.TestCase):
    def run_main(self, *arguments, **changed):
        return paper.run_main(tools.main, {**PAPER, **changed}, *arguments)

    def test_a_record_keeps_what_the_tools_say_of_the_kernel(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "record.json")
            status, text, err = self.run_main("--json", record, "--commit", "abcdef0")
            self.assertEqual((status, err), (0, ""))
            self.assertEqual(text.count("  wavefronts  8\n"), 2)
            self.assertEqual(text.count("Error: Race\n"), 1)
            for noise in ("PROF", "host", "PASS"):
                self.assertNotIn(noise, text)
            status, table, _ = self.run_main("--table", record)
            self.assertEqual((status, table.count("$ "), table.count("NVIDIA H100")), (0, 4, 1))
            status, shown, _ = self.run_main("--show", record, "races_no_barrier")
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
        self.assertEqual(self.run_main("--show", "nowhere.json", "races_05")[0], 2)
        self.assertIn("ncu", self.run_main(ncu="echo no permission >&2; exit 1")[2])
        self.assertIn("nvcc failed", self.run_main(nvcc="echo error; exit 1")[2])

    def test_the_barrier_is_a_line_of_the_step(self):
        text = flatten.flatten(tools.LESSON, "05_tensor_cores")
        self.assertEqual(text.count(tools.BARRIER), 1)


if __name__ == "__main__":
    unittest.main()
