"""Runs a suite of labelled CUDA files in the watched lab, and counts its right and wrong verdicts.

    python3 -m common.lab.suite FOLDER LABELS [options]

FOLDER has the files. LABELS is a text file: a line for each file that is to run, with its name in
FOLDER and what is wrong with it:

    # a comment
    scan.cu            none
    broken/scan.cu     race                 a finding of this kind is expected, no other
    broken/tile.cu     race@18 ?unwritten   in line 18; others of the kind `unwritten` may come
    broken/guard.cu    out-of-bounds

Spaces in kinds are written as `-`. `none`: no finding is expected. For each kind a file counts
once: it was found where it was expected, missed, or a false alarm. A file that does not compile
counts for no kind; it is listed.

A labelled file may be another one with a mistake put in: FOLDER/edits.txt, where it exists, is a
list in the form of common/data/changes.py, `# NEW FILE: what is wrong` and `@ FILE`.

Exit status: 0 every verdict is right, 1 one is not or a file does not compile, 2 bad use.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from common.data import records
from common.data.changes import read_changes
from common.lab.cuda import lab
from common.lab.cuda.compile import Compiler, DoesNotCompile


class BadLabels(Exception):
    pass


class Label:
    """What is expected of a file."""

    def __init__(self, name, words):
        self.name, self.lines, self.allowed = name, {}, set()
        for word in words:
            if word.startswith("?"):
                self.allowed.add(word[1:])
            elif word != "none":
                kind, _, line = word.partition("@")
                self.lines.setdefault(kind, set()).update([int(line)] if line else [])
        if not words or ("none" in words and len(words) > 1):
            raise BadLabels(f"{name}: a line has `none` or the kinds that are expected")


def read_labels(text):
    """The labels of a file, in its order."""
    labels = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            labels.append(Label(words[0], words[1:]))
    if not labels:
        raise BadLabels("no file is labelled")
    return labels


def with_edited_files(folder, scratch):
    """FOLDER; where it has edits, a copy in `scratch` with the files that they make."""
    if not (folder / "edits.txt").is_file():
        return folder
    copy = shutil.copytree(folder, pathlib.Path(scratch, "suite"))
    for change in read_changes((copy / "edits.txt").read_text(), folder / "edits.txt"):
        text = change.apply((copy / change.mark).read_text())
        (copy / change.what.partition(":")[0]).write_text(text)
    return copy


def verdicts(label, findings):
    """(kind, verdict) of a file; a verdict is "found", "missed" or "false"."""
    lines = {}
    for finding in findings:
        kind = finding["kind"].replace(" ", "-")
        for where in (finding["where"], finding["other"]):
            lines.setdefault(kind, set()).add(where.rpartition(":")[2])
    for kind, expected in label.lines.items():
        found = kind in lines and all(str(line) in lines[kind] for line in expected)
        yield kind, "found" if found else "missed"
    for kind in sorted(lines):
        note = kind in (name.replace(" ", "-") for name in lab.NOTES)
        if kind not in label.lines and kind not in label.allowed and not note:
            yield kind, "false"


def run_file(compiler, folder, label, options):
    """The findings of a file; a text where there are none because it does not compile."""
    path = folder / label.name
    with tempfile.TemporaryDirectory(prefix="lab-") as scratch:
        try:
            program = compiler.compile(
                [path], pathlib.Path(scratch), options.folders, options.definitions
            )
        except DoesNotCompile as error:
            return str(error)
        nowhere = subprocess.DEVNULL
        result = lab.run(program, [], path.parent, options.seconds, nowhere, nowhere)
    if not result.report or (not label.lines and not result.findings and result.status):
        return f"no report: {lab.end_of(result)}" if not result.report else lab.end_of(result)
    return result.findings


def table(files):
    """By kind, in how many files it was found, missed and a false alarm."""
    counts = collections.Counter(tuple(verdict) for file in files for verdict in file["verdicts"])
    cells = [("finding", "found", "missed", "false alarms")]
    for kind in sorted({kind for kind, _ in counts}):
        cells.append((kind, *(counts[kind, verdict] for verdict in ("found", "missed", "false"))))
    silent = [f for f in files if f["expected"] == [] and f["error"] is None]
    quiet = sum(not f["verdicts"] for f in silent)
    silence = f"{len(files)} files; of {len(silent)} without a mistake, {quiet} had no finding."
    return "\n".join([*records.aligned(cells, 1), "", silence])


def run_suite(options, folder, labels, compiler):
    """Runs the files and prints a line for each. Returns rows for a record."""
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        runs = pool.map(lambda label: run_file(compiler, folder, label, options), labels)
        for label, findings in zip(labels, runs):
            error = findings if isinstance(findings, str) else None
            found = [] if error else list(verdicts(label, findings))
            results.append({"file": label.name, "expected": sorted(label.lines),
                            "verdicts": found, "error": error})  # fmt: skip
            wrong = [f"{verdict} {kind}" for kind, verdict in found if verdict != "found"]
            text = ": ".join([label.name, *filter(None, [", ".join(wrong), error])])
            print(f"{'NO' if wrong or error else 'ok'}  {text}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(
        prog="python3 -m common.lab.suite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=pathlib.Path, help="the files")
    parser.add_argument("labels", type=pathlib.Path, help="what is wrong with them")
    parser.add_argument("--build", type=pathlib.Path, default=lab.ROOT / "build/learn",
                        help="where `./learn lab` was built; without one build/learn")  # fmt: skip
    parser.add_argument("--json", type=pathlib.Path, help="write a record to this file")
    parser.add_argument("--seconds", type=int, default=20, help="time limit for each file")
    parser.add_argument("-j", type=int, default=os.cpu_count(), help="files at a time")
    parser.add_argument("-I", dest="folders", action="append", default=[], type=pathlib.Path)
    parser.add_argument("-D", dest="definitions", action="append", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lab-") as scratch:
        try:
            labels = read_labels(options.labels.read_text())
            folder = with_edited_files(options.folder, scratch)
            absent = [label.name for label in labels if not (folder / label.name).is_file()]
            if absent:
                raise BadLabels(f"there is no file {options.folder / absent[0]}")
            compiler = Compiler(options.build.resolve(), lab.ROOT)
        except (BadLabels, OSError, ValueError) as error:
            print(f"suite: {error}", file=sys.stderr)
            return 2
        results = run_suite(options, folder, labels, compiler)
    if options.json:
        options.json.write_text(records.text_of({}, results))
    print("\n" + table(results))
    return any(f["error"] or any(v != "found" for _, v in f["verdicts"]) for f in results)


if __name__ == "__main__":
    sys.exit(main())
