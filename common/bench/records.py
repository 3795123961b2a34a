"""Reads and writes records of measurements, the JSON files of docs/results. An old record stays as
it was written; what is read from it has today's names."""

import json
import re

# What has been renamed since a record was written. Kernels, wherever a text names them: old: new.
KERNELS = {
    "10_matmul_register_column": "10_matmul_1d_thread_tiling",
    "11_matmul_register_block": "11_matmul_2d_thread_tiling",
    "18_block_product": "18_back_to_back_matmul",
    "08_finish": "08_edge_masks",
    "14_patience": "14_lazy_rescaling",
    "15_shares": "15_warpgroup_tiles",
}
# Fields: old: new.
FIELDS = {"percent_hidden": "percent_masked"}
AS_IT_WAS = {"command", "commit"}  # fields whose text is history
COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b")
KERNEL = re.compile(rf"\b(?:{'|'.join(map(re.escape, KERNELS))})\b")


class Problem(Exception):
    """One sentence about what is wrong."""


def renamed(value):
    """A part of a record with today's names."""
    if isinstance(value, dict):
        return {
            FIELDS.get(name, name): part if name in AS_IT_WAS else renamed(part)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [renamed(part) for part in value]
    if isinstance(value, str):
        return KERNEL.sub(lambda match: KERNELS[match[0]], value)
    return value


def read(path):
    """A record as a dictionary."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if not isinstance(record, dict):
            raise ValueError("it is not an object")
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Problem(f"{path} is not a record: {error}") from error
    return renamed(record)


def text_of(head, rows):
    """The text of a record: a line for each field of `head` and for each measurement."""
    fields = "".join(
        f"  {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items()
    )
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    return "{\n" + fields + '  "measurements": [\n' + lines + "\n  ]\n}\n"


def program(record):
    """The program that wrote a record: 05_flash_forward, or a module such as common.lab.fidelity.
    Old records name the module's file."""
    words = [word for word in record.get("command", "").split() if word not in ("python3", "-m")]
    return words[0].removesuffix(".py").replace("/", ".") if words else ""


def source(*records):
    """Where figures are from, in a line: the GPU, and the versions of the code."""
    machines = {}  # GPU -> (commits, days)
    for record in records:
        # The lab's record has the toolkit's full version, and a time with its day.
        toolkit = record["toolkit"] if "toolkit" in record else record["cuda"]
        machine = f"{record['gpu']}, driver {record['driver']}, CUDA {toolkit}"
        commits, days = machines.setdefault(machine, ([], []))
        # A record may be of two commits: "adf8e6b (float32) and df281be".
        commits += [word[:7] for word in COMMIT.findall(record["commit"])] or [record["commit"]]
        days.append(record["date"][:10])
    return "; ".join(
        f"{machine}, commit {' and '.join(dict.fromkeys(commits))}, "
        f"{' and '.join(dict.fromkeys(days))}"
        for machine, (commits, days) in machines.items()
    )
