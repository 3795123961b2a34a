"""What tests in Python share: a small repository in a temporary directory, and a way to run
main()."""

import contextlib
import io
import pathlib
import tempfile
import unittest

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
