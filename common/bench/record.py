"""Writes the record of an example: what was measured, on which machine, with which version of the
code."""

import contextlib
import datetime
import json
import pathlib
import shlex
import subprocess
import sys

from common.bench.command import Failure, module
from common.bench.pytorch import torch
from common.files.records import Problem, read
from common.files.write_file import write_file

ROOT = pathlib.Path(__file__).resolve().parents[2]


def first_line(command):
    """What a command prints first; "unknown" when it prints nothing."""
    try:
        lines = subprocess.run(
            command, capture_output=True, text=True, timeout=60
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        lines = []
    return lines[0].strip() if lines else "unknown"


@contextlib.contextmanager
def writing(path):
    """Makes a Failure of what the system says."""
    try:
        yield
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from error


def rows_before(path):
    """The measurements of an earlier run on this GPU; none where there is no record."""
    if not pathlib.Path(path).exists() or pathlib.Path(path).stat().st_size == 0:
        return []
    try:
        record = read(path)
    except Problem as problem:
        raise Failure(str(problem)) from problem
    if record.get("gpu") != torch.cuda.get_device_name():
        raise Failure(f"{path} is of another GPU: {record.get('gpu')}")
    return record["measurements"]


def write_record(path, on_gpu, commit, peers, rows):
    """Writes the record, whole or not at all. peers: {what was compared: its version}."""
    record = {
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "driver": first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
        "toolkit": torch.version.cuda or "none",
        "torch": torch.__version__,
        "commit": commit
        or first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python3", "-m", module(), *sys.argv[1:]]),
        "peers": peers,
    }
    head = "".join(
        f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in record.items()
    )
    body = ",\n".join("    " + json.dumps(row) for row in rows)
    with writing(path):
        write_file(path, "{\n" + head + '  "measurements": [\n' + body + "\n  ]\n}\n")
