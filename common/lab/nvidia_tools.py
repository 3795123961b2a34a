"""Runs NVIDIA's tools."""

import os
import re
import signal
import subprocess

PROCESS_SECONDS = 60


class Outcome:
    """What a process left behind; its status is None when its time was over."""

    def __init__(self, status, output, error):
        self.status, self.output, self.error = status, output, error

    def last_words(self):
        """The last line that says something, for a record of a failure."""
        lines = [line.strip() for line in (self.output + "\n" + self.error).splitlines()]
        lines = [re.sub(r"^=+ *", "", line) for line in lines if line.strip("= ")]
        return lines[-1] if lines else f"exit status {self.status}"


def run(command, seconds=PROCESS_SECONDS, **environment):
    """Runs a command, with more variables; after `seconds` it and its children are killed."""
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C", **environment},  # numbers without a comma for a point
        start_new_session=True,
    )
    try:
        output, error = process.communicate(timeout=seconds)
        return Outcome(process.returncode, output, error)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, error = process.communicate()
        return Outcome(None, output, error)
