"""Compares what the watched lab says of kernels with what NVIDIA's own tools say of them on a GPU.

    python3 -m common.lab.fidelity --build BUILD --output docs/results/h200_fidelity.json
    python3 -m common.lab.fidelity --table docs/results/h200_fidelity.json

The first form needs a GPU, ncu and compute-sanitizer, and a build that compiled for this GPU. For
each kernel of lesson 04 it records the sectors and wavefronts that the lab and ncu count; for these
kernels, for all broken ones and for their right twins the findings of the lab and the errors that
memcheck, racecheck, initcheck and synccheck report. The second form prints a record as tables.

Exit status: 0 done, 2 could not be done.
"""

import argparse
import concurrent.futures
import datetime
import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import sys

from common.data.files import check_writable, write_file
from common.data.records import Problem, aligned, read
from common.lab.nvidia_tools import parse_ncu, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNT_SIZE = 128  # whole tiles: the counts are round
CHECK_SIZE = 70  # ragged: the guards have work to do
SANITIZERS_AT_ONCE = 8
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

# What ncu is asked for. Not every version and GPU knows all of them.
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared{}.sum"
METRICS = (
    SECTORS.format("ld"),
    SECTORS.format("st"),
    WAVEFRONTS.format("_op_ld"),
    WAVEFRONTS.format("_op_st"),
    WAVEFRONTS.format(""),
    CONFLICTS.format("_op_ld"),
    CONFLICTS.format("_op_st"),
    CONFLICTS.format("_op_ldgsts"),
    "smsp__inst_executed_op_ldgsts.sum",
    "smsp__inst_executed_op_ldsm.sum",
)


class Refusal(Exception):
    """What was asked cannot be done; the text is one sentence."""


# ---------------------------------------------------------------- what the programs say


def json_lines(text):
    """The objects in a text that has one of them on a line, among other lines."""
    result = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                result.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise Refusal(f"a program printed a line that is no JSON ({error})") from error
    return result


def lab_counts(report):
    """Sums of a report of the watched lab over the lines of a kernel."""
    result = {"sectors_ld": 0, "sectors_st": 0, "wavefronts_ld": 0, "wavefronts_st": 0}
    for line in report["traffic"]:
        unit = "wavefronts" if line["memory"] == "shared" else "sectors"
        result[unit + ("_st" if line["access"] == "write" else "_ld")] += line[unit]
    return result


def lab_verdict(*reports):
    """How many findings reports of the watched lab have, and how often each kind was seen."""
    findings = [finding for report in reports for finding in report["findings"]]
    kinds = {}
    for finding in findings:
        kinds[finding["kind"]] = kinds.get(finding["kind"], 0) + finding["count"]
    return {"findings": len(findings), "kinds": kinds}


def parse_sanitizer(outcome):
    """How many errors and warnings one of compute-sanitizer's tools reports; "timeout"; or why it
    says nothing."""
    if outcome.status is None:
        return "timeout"
    text = outcome.output + "\n" + outcome.error
    race = re.search(
        r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)", text
    )
    if race:
        return {"errors": int(race[1]), "warnings": int(race[2])}
    summary = re.search(r"ERROR SUMMARY: (\d+) errors?", text)
    if summary:
        return {"errors": int(summary[1]), "warnings": 0}
    return {"failed": outcome.last_words()}


# ---------------------------------------------------------------- the work


class Machine:
    """Where the programs and tools are. With `dry` only those of the lab need to be there."""

    def __init__(self, build, dry):
        self.lesson = build / "04_tiled_matmul" / "04_tiled_matmul"
        self.broken_on_lab = build / "common" / "broken_on_lab"
        self.broken_on_gpu = build / "common" / "broken_on_gpu"
        for program in (self.lesson, self.broken_on_lab):
            if not program.exists():
                raise Refusal(f"{program} is missing; build the whole course with its tests first")
        if not dry and not self.broken_on_gpu.exists():
            raise Refusal(f"{self.broken_on_gpu} is missing; build with FA_GPU=REQUIRED")
        cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
        self.ncu = self.tool("ncu", dry, f"{cuda}/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
        self.sanitizer = self.tool(
            "compute-sanitizer",
            dry,
            f"{cuda}/bin/compute-sanitizer",
            f"{cuda}/compute-sanitizer/compute-sanitizer",
        )
        self.facts = {} if dry else self.ask(build, cuda)
        help_text = "" if dry else run([self.sanitizer, "--help"]).output
        self.options = {}
        for tool, option, value in (
            ("memcheck", "--report-api-errors", "no"),  # a call that fails because a kernel did
            ("initcheck", "--initcheck-address-space", "all"),  # newer versions: shared memory, too
        ):
            if dry or option in help_text:
                self.options[tool] = [option, value]

    @staticmethod
    def tool(name, dry, *patterns):
        found = [shutil.which(name)] + [p for g in patterns for p in sorted(glob.glob(g))[::-1]]
        found = [path for path in found if path]
        if found or dry:
            return found[0] if found else name
        raise Refusal(f"{name} is not installed here; it comes with the CUDA Toolkit")

    @staticmethod
    def ask(build, cuda):
        """Names and versions."""
        smi = shutil.which("nvidia-smi")
        query = "--query-gpu=name,driver_version"
        outcome = smi and run([smi, query, "--format=csv,noheader"])
        if not outcome or outcome.status != 0 or "," not in outcome.output:
            raise Refusal("there is no NVIDIA GPU here (nvidia-smi names none)")
        gpu, driver = outcome.output.splitlines()[0].rsplit(",", 1)
        cache = build / "CMakeCache.txt"
        nvcc = re.search(r"^FA_NVCC:\w+=(.*)$", cache.read_text() if cache.exists() else "", re.M)
        nvcc = (nvcc and nvcc[1]) or shutil.which("nvcc") or f"{cuda}/bin/nvcc"
        version = run([nvcc, "--version"]).output if os.path.exists(nvcc) else ""
        release = re.search(r"release [\d.]+, V([\d.]+)", version)
        return {
            "gpu": gpu.strip(),
            "driver": driver.strip(),
            "cuda": release[1] if release else "unknown",
        }

    # Commands.

    def lesson_on_lab(self, size):
        return [self.lesson, "--device", "cpu", "--section", "once", "--size", size]

    def lesson_on_gpu(self, size, name):
        return [
            self.lesson, "--device", "gpu", "--section", "once", "--size", size, "--kernel", name,
        ]  # fmt: skip

    def broken(self, name, version):
        return [self.broken_on_gpu, name] + (["--right"] if version == "right" else [])

    def counted(self, name, metrics):
        return [
            self.ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
            "--metrics", ",".join(metrics), *self.lesson_on_gpu(COUNT_SIZE, name),
        ]  # fmt: skip

    def watched(self, tool, command):
        return [self.sanitizer, "--tool", tool, *self.options.get(tool, []), *command]


def commit_of(root, given):
    """The commit of the sources."""
    if given:
        return given
    git = ["git", "-C", root]
    head = run([*git, "rev-parse", "HEAD"])
    if head.status != 0:
        return "unknown"
    changed = run([*git, "status", "--porcelain", "-uno", "--", ".", ":!docs/results"]).output
    return head.output.strip() + (" and changes" if changed.strip() else "")


def ask_lab(machine):
    """What the lab says: records of the lesson's kernels for both sizes, and of the broken ones."""
    result = []
    for command in (
        machine.lesson_on_lab(COUNT_SIZE),
        machine.lesson_on_lab(CHECK_SIZE),
        [machine.broken_on_lab],
    ):
        outcome = run(command)
        if outcome.status != 0:
            raise Refusal(f"{shlex.join(map(str, command))}: {outcome.last_words()}")
        records = json_lines(outcome.output)
        if not records or any("report" not in record for record in records):
            raise Refusal("this build has no watched lab; it needs Linux, and no FA_SANITIZE")
        result.append(records)
    return result


def file_of(kernel):
    """The name of a kernel's file, which several kernels of the lesson may share."""
    return kernel.split(",")[0]


def known_metrics(machine, name):
    """Of METRICS those that this ncu has for this GPU."""

    def values(metrics):
        outcome = run(machine.counted(name, metrics))
        launches = parse_ncu(outcome.output)
        found = launches[0]["metrics"] if launches else {}
        return [m for m in metrics if found.get(m) is not None], outcome

    known, outcome = values(METRICS)  # at once, if it takes them
    if not known:
        known = [metric for metric in METRICS if values([metric])[0]]
    if not known:
        raise Refusal(f"ncu counts nothing here: {outcome.last_words()}")
    return known


def count(machine, records):
    """The counts of the lab and of ncu for each kernel; ncu's processes run one after the other."""
    files = list(dict.fromkeys(file_of(record["kernel"]) for record in records))
    metrics = known_metrics(machine, files[0])
    result = []
    for number, name in enumerate(files, 1):
        print(f"ncu {number}/{len(files)}: {name}", file=sys.stderr)
        outcome = run(machine.counted(name, metrics))
        of_file = [record for record in records if name in record["kernel"]]
        # The same program launches in the same order.
        launches = parse_ncu(outcome.output)
        launched = [(r["kernel"], r["group"]) for r in json_lines(outcome.output)]
        expected = [(r["kernel"], r["group"]) for r in of_file]
        for i, record in enumerate(of_file):
            entry = {
                "kernel": record["kernel"],
                "group": record["group"],
                "size": record["size"],
                "lab": lab_counts(record["report"]),
            }
            if outcome.status is None:
                entry["ncu"] = "timeout"
            elif len(launches) == len(expected) and launched == expected:
                found = launches[i]["metrics"]  # and what ncu adds of itself
                entry["ncu"] = {metric: found.get(metric) for metric in metrics}
                entry["function"] = launches[i]["function"]
            else:
                entry["ncu"] = {"failed": outcome.last_words()}
            result.append(entry)
    return metrics, result


def verdict_tasks(machine, lesson_records, broken_records):
    """The kernels to check, with their commands."""
    result = []
    for name in dict.fromkeys(file_of(record["kernel"]) for record in lesson_records):
        reports = [r["report"] for r in lesson_records if name in r["kernel"]]
        entry = {"kernel": name, "version": "lesson", "lab": lab_verdict(*reports), "tools": {}}
        result.append((entry, machine.lesson_on_gpu(CHECK_SIZE, name)))
    for record in broken_records:
        entry = {
            "kernel": record["name"],
            "version": record["version"],
            "wrong": record["wrong"],
            "expected": record["kind"],
            "lab": lab_verdict(record["report"]),
            "tools": {},
        }
        result.append((entry, machine.broken(record["name"], record["version"])))
    return result


def run_sanitizers(machine, tasks):
    """Runs compute-sanitizer's tools on each kernel, several at once, and adds what they report."""
    jobs = [(entry, tool, command) for entry, command in tasks for tool in TOOLS]
    done = 0
    with concurrent.futures.ThreadPoolExecutor(SANITIZERS_AT_ONCE) as pool:
        futures = {
            pool.submit(run, machine.watched(tool, command)): (entry, tool)
            for entry, tool, command in jobs
        }
        for future in concurrent.futures.as_completed(futures):
            entry, tool = futures[future]
            entry["tools"][tool] = parse_sanitizer(future.result())
            done += 1
            if done % 20 == 0 or done == len(jobs):
                print(f"compute-sanitizer {done}/{len(jobs)}", file=sys.stderr)
    for entry, _ in tasks:  # in the order of the table, not of their ends
        entry["tools"] = {tool: entry["tools"][tool] for tool in TOOLS}
    return [entry for entry, _ in tasks]


def make_record(arguments):
    """The first form."""
    if not arguments.dry_run:  # better said before hours of work than after them
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        check_writable(arguments.output)
    machine = Machine(arguments.build.resolve(), arguments.dry_run)
    counted, checked, broken = ask_lab(machine)
    tasks = verdict_tasks(machine, checked, broken)
    if arguments.dry_run:
        for name in dict.fromkeys(file_of(r["kernel"]) for r in counted):
            print(shlex.join(map(str, machine.counted(name, METRICS))))
        for _, command in tasks:
            for tool in TOOLS:
                print(shlex.join(map(str, machine.watched(tool, command))))
        return
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    result = {
        **machine.facts,
        "commit": commit_of(ROOT, arguments.commit),
        "date": now.isoformat(),
        "command": shlex.join(["python3", "-m", "common.lab.fidelity", *sys.argv[1:]]),
        "tools": {
            "ncu": run([machine.ncu, "--version"]).last_words(),
            "compute-sanitizer": run([machine.sanitizer, "--version"]).last_words(),
            "options": machine.options,
        },
    }
    try:
        result["metrics"], result["counts"] = count(machine, counted)
    except Refusal as refusal:  # counters are often forbidden; the verdicts are worth having alone
        print(f"fidelity.py: {refusal}", file=sys.stderr)
        result["metrics"] = []
        result["counts"] = [
            {
                **{key: r[key] for key in ("kernel", "group", "size")},
                "lab": lab_counts(r["report"]),
                "ncu": {"failed": str(refusal)},
            }
            for r in counted
        ]
    result["verdicts"] = run_sanitizers(machine, tasks)
    write_file(arguments.output, compact(result))
    print(f"{arguments.output} is written.")


# ---------------------------------------------------------------- the record


def compact(result):
    """A record as JSON: a row per line, with ncu's counts in the order of `metrics`."""

    def row(entry):
        if "ncu" in entry and list(entry["ncu"]) == result["metrics"]:
            entry = {**entry, "ncu": list(entry["ncu"].values())}
        return "  " + json.dumps(entry)

    members = []
    for key, value in result.items():
        text = json.dumps(value)
        if key in ("counts", "verdicts"):
            text = "[\n" + ",\n".join(map(row, value)) + "\n ]"
        members.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def read_record(path):
    """What compact() wrote, with the names of ncu's counts beside them."""
    result = read(path)
    for entry in result["counts"]:
        if isinstance(entry["ncu"], list):
            entry["ncu"] = dict(zip(result["metrics"], entry["ncu"]))
    return result


# ---------------------------------------------------------------- tables


def ncu_counts(entry):
    """What ncu counted, by the lab's names; None where it did not."""
    metrics = entry["ncu"]
    if metrics == "timeout" or "failed" in metrics:
        metrics = {}
    return {
        "sectors_ld": metrics.get(SECTORS.format("ld")),  # with those of cp.async
        "sectors_st": metrics.get(SECTORS.format("st")),
        "wavefronts_ld": metrics.get(WAVEFRONTS.format("_op_ld")),
        "wavefronts_st": metrics.get(WAVEFRONTS.format("_op_st")),
    }


def counts_table(result):
    """Sectors of global memory and wavefronts of shared memory."""
    rows = [
        ["", "", ""] + ["wavefronts"] * 4,
        ["", "sectors", "sectors"] + ["of loads"] * 2 + ["of stores"] * 2,
        ["kernel"] + ["lab", "ncu"] * 3,
    ]
    for entry in result["counts"]:
        row = [entry["kernel"] + (", B^T" if entry["group"].endswith("_bt") else "")]
        lab, ncu = entry["lab"], ncu_counts(entry)
        for keys in (("sectors_ld", "sectors_st"), ("wavefronts_ld",), ("wavefronts_st",)):
            for side in (lab, ncu):
                values = [side[key] for key in keys]
                row.append("-" if None in values else str(sum(values)))
        rows.append(row)
    return "\n".join(aligned(rows, 3))


def cell(said):
    """What a tool said, in a few letters."""
    if said == "timeout":
        return said
    if "failed" in said:
        return "failed"
    return str(said["errors"]) + (f"+{said['warnings']}w" if said["warnings"] else "")


def verdicts_table(result):
    """Findings of the lab, by kind, and errors that the tools report; warnings are marked w."""
    rows = [["broken kernel", "the lab finds", *TOOLS]]
    for entry in result["verdicts"]:
        if entry["version"] != "broken":
            continue
        kinds = "+".join(entry["lab"]["kinds"]) or "nothing"
        rows.append([entry["kernel"], kinds, *(cell(entry["tools"][tool]) for tool in TOOLS)])
    for version, title in (("right", "right twins"), ("lesson", "lesson 04")):
        entries = [e for e in result["verdicts"] if e["version"] == version]
        of_lab = sum(e["lab"]["findings"] > 0 for e in entries)
        of_tools = [sum(cell(e["tools"][t]) != "0" for e in entries) for t in TOOLS]
        rows.append([f"{title} blamed, of {len(entries)}", str(of_lab), *map(str, of_tools)])
    return "\n".join(aligned(rows, 1, left=2))


def tables(result):
    """The second form's text."""
    sizes = sorted({entry["size"] for entry in result["counts"]})
    size = ", all sizes " + ", ".join(map(str, sizes)) if sizes else ""
    return (
        f"What kernels ask of memory{size}\n\n{counts_table(result)}\n\n"
        "What is said of broken kernels: errors that NVIDIA's tools report; w: warnings\n\n"
        f"{verdicts_table(result)}\n\n"
        f"({result['gpu']}, driver {result['driver']}, CUDA {result['cuda']},\n"
        f" commit {result['commit'][:12]}, {result['date'][:10]})\n"
    )


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="fidelity.py", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, help="the build directory")
    parser.add_argument("--output", type=pathlib.Path, help="the record to be written, JSON")
    parser.add_argument("--commit", help="of the sources, where git cannot say it")
    parser.add_argument("--dry-run", action="store_true", help="print the commands for the GPU")
    parser.add_argument("--table", type=pathlib.Path, help="print this record as tables")
    parsed = parser.parse_args(arguments)
    try:
        if parsed.table:
            print(tables(read_record(parsed.table)), end="")
        elif parsed.build and (parsed.output or parsed.dry_run):
            make_record(parsed)
        else:
            raise Refusal("give --build and --output, or --build and --dry-run, or --table")
    except (Refusal, Problem, OSError, ValueError, KeyError) as error:
        print(f"fidelity.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
