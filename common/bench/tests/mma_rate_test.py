"""Tests of mma_rate.py with an nvcc of paper: its program prints what the real one would."""

import contextlib
import io
import os
import pathlib
import stat
import tempfile
import unittest
from unittest import mock

from common.bench import mma_rate

PAPER = {
    "nvcc": """case "$*" in *--version*) echo "release 13.0, V13.0.88"; exit;; esac
for out; do :; done
printf '#!/bin/sh\\necho "mma.sync m16n8k8 tf32 8 1024.0"\\n' > "$out"; chmod +x "$out"
""",
    "nvidia-smi": 'echo "NVIDIA H100, 580.1"',
}


class MmaRate(unittest.TestCase):
    def run_main(self, *arguments, **changed):
        with tempfile.TemporaryDirectory() as folder:
            for name, script in {**PAPER, **changed}.items():
                tool = pathlib.Path(folder, name)
                tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
                tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
            out, err = io.StringIO(), io.StringIO()
            with mock.patch.dict(os.environ, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"):
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    status = mma_rate.main([str(one) for one in arguments])
        return status, out.getvalue(), err.getvalue()

    def test_a_record_is_written_and_printed_again(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "record.json")
            status, text, err = self.run_main("--json", record, "--commit", "abcdef0")
            self.assertEqual((status, err), (0, ""))
            self.assertIn("mma.sync m16n8k8 tf32 8 1024 50.0".split(), self.cells(text))
            self.assertIn("NVIDIA H100, driver 580.1, CUDA 13.0, commit abcdef0", text)
            self.assertEqual(self.run_main("--table", record), (0, text, ""))

    @staticmethod
    def cells(text):
        return [line.split() for line in text.splitlines()]

    def test_what_cannot_be_done_is_said(self):
        self.assertIn("cannot be read", self.run_main("--table", "nowhere.json")[2])
        self.assertIn("failed", self.run_main(nvcc="echo error; exit 1")[2])


if __name__ == "__main__":
    unittest.main()
