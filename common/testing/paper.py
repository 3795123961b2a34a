"""Runs a program's main() with tools of paper: shell scripts in place of nvcc, ncu and the like."""

import contextlib
import io
import os
import pathlib
import stat
import tempfile
from unittest import mock

SMI = 'echo "NVIDIA H100, 580.1"'


def run_main(main, tools, *arguments):
    """Exit status, standard output and standard error; tools: {name: script}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, script in tools.items():
            tool = pathlib.Path(folder, name)
            tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        out, err = io.StringIO(), io.StringIO()
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        with mock.patch.dict(os.environ, PATH=path), contextlib.redirect_stdout(out):
            with contextlib.redirect_stderr(err):
                status = main([str(one) for one in arguments])
    return status, out.getvalue(), err.getvalue()
