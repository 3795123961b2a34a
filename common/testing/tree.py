"""What tests in Python share: a small repository in a temporary directory, and a way to run
main()."""

import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]


class TreeTest(unittest.TestCase):
    """Each test has an empty directory self.root of its own."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name).resolve()

    def write(self, path, text, mode=0o644):
        """Writes root/path; bytes as they are, text as UTF-8 without changing line ends."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        file.chmod(mode)
        return file

    def read(self, path):
        return (self.root / path).read_bytes().decode("utf-8")

    def run_main(self, main, *arguments):
        """Returns (exit status, stdout, stderr)."""
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline=""), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main([str(a) for a in arguments])
            except SystemExit as exit_:
                status = exit_.code
        out.flush()
        return status, out.buffer.getvalue().decode("utf-8"), err.getvalue()


SMI = 'echo "NVIDIA H100, 580.1"'  # nvidia-smi


class PaperTest(TreeTest):
    """Runs a program's main() with tools of paper: shell scripts in place of nvcc and the like."""

    def run_with(self, tools, main, *arguments):
        """As run_main(); tools: {name: script}."""
        for name, script in tools.items():
            self.write(f"tools/{name}", f"#!/bin/sh\n{script}\n", 0o755)
        path = f"{self.root}/tools{os.pathsep}{os.environ['PATH']}"
        with mock.patch.dict(os.environ, PATH=path):
            return self.run_main(main, *arguments)
