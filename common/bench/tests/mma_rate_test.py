"""Tests of mma_rate.py with an nvcc of paper: its program prints what the real one would."""

import pathlib
import tempfile
import unittest

from common.bench import mma_rate
from common.testing import paper

TOOLS = {
    "nvcc": """case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
for out; do :; done
printf '#!/bin/sh\\necho "mma.sync m16n8k8 tf32 8 1024.0"\\n' > "$out"; chmod +x "$out"
""",
    "nvidia-smi": paper.SMI,
}


class MmaRate(unittest.TestCase):
    def run_main(self, *arguments, **changed):
        return paper.run_main(mma_rate.main, {**TOOLS, **changed}, *arguments)

    def test_a_record_is_written_and_printed_again(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "record.json")
            status, text, err = self.run_main("--json", record, "--commit", "abcdef0")
            self.assertEqual((status, err), (0, ""))
            cells = [line.split() for line in text.splitlines()]
            self.assertIn("mma.sync m16n8k8 tf32 8 1024 50.0".split(), cells)
            self.assertIn("NVIDIA H100, driver 580.1, CUDA 13.0, commit abcdef0", text)
            self.assertEqual(self.run_main("--table", record), (0, text, ""))

    def test_what_cannot_be_done_is_said(self):
        self.assertIn("cannot be read", self.run_main("--table", "nowhere.json")[2])
        self.assertIn("failed", self.run_main(nvcc="echo error; exit 1")[2])


if __name__ == "__main__":
    unittest.main()
