"""Runs NVIDIA's tools, and reads what ncu prints."""

import csv
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


def number_of(text):
    """A number as ncu prints it; None where it has none."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def parse_ncu(text):
    """The launches in ncu's CSV, in order, with their metrics: from the page `details`, which has
    a line for each metric, or the page `raw`, which has a column for each and a line of units."""
    reader = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    launches = {}
    for row in reader:
        if not (row.get("ID") or "").isdigit():
            continue  # units
        launch = launches.setdefault(
            int(row["ID"]), {"function": row.get("Kernel Name", ""), "metrics": {}}
        )
        if "Metric Name" in row:
            launch["metrics"][row["Metric Name"]] = number_of(row["Metric Value"])
        else:
            for name, value in row.items():
                if name and "__" in name:
                    launch["metrics"][name] = number_of(value)
    return [launches[number] for number in sorted(launches)]
