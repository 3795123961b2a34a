"""Runs a whole CUDA file in the watched lab.

    ./learn lab [options] FILE.cu [FILE...] [-- arguments of the program]
    ./learn lab --museum [NAME...]    the museum of bugs: what the lab finds in its pieces

Exit status: 0 no findings, and the program returned 0; 1 findings, or the program failed; 2 bad
use, or the file does not compile.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from common.lab.cuda.compile import Compiler, DoesNotCompile

ROOT = pathlib.Path(__file__).resolve().parents[3]
SECONDS = 60
NOTES = ("same value", "uninitialized")  # CUDA says what happens: they make no program fail
# Options of nvcc that change nothing here, with a value behind them, and without.
VALUED = re.compile(
    r"-(arch|gencode|code|o|ccbin|t|l|L|x|X(compiler|ptxas|linker|nvlink)|maxrregcount)"
    r"|--(gpu-architecture|gpu-code|generate-code|output-file|compiler-(options|bindir)|threads"
    r"|ptxas-options|linker-options|maxrregcount|library(-path)?|optimize|default-stream|x)"
)
ALONE = re.compile(
    r"-(O\w*|g|G|w|pg|W.*|f.*|m.*|lineinfo|dc|dlto|dopt|rdc=.*|l.+|L.+|extended-lambda"
    r"|(use|prec|ftz|expt|restrict).*)"
    r"|--(debug|device-debug|generate-line-info|extended-lambda|restrict|relocatable-device-code"
    r"|(use_fast|expt|prec|ftz|fmad|resource-usage|ptxas|extra-device)[\w-]*)(=.*)?"
)
OWN_VALUED = ("-I", "-D", "--seconds", "--sample")  # a value may look like an option
PLACE = re.compile(r"^(?:[a-z][a-z ]*: |  and )(.+):(\d+)$", re.M)  # of a finding
STANDARD = re.compile(r"--?std(?:=|$)(?:\w+\+\+(?P<year>\w+))?")


def without_nvcc(words):
    """Options without those of nvcc that change nothing here, and the standard of C++."""
    own, standard, left = [], 17, list(words)
    while left:
        word = left.pop(0)
        found = STANDARD.fullmatch(word)
        if found:
            year = found["year"] or (left.pop(0).rpartition("+")[2] if left else "")
            standard = max(17, int(year)) if year.isdigit() and int(year) < 90 else 17
        elif word in OWN_VALUED:
            own += [word, *left[:1]]
            del left[:1]
        elif VALUED.fullmatch(word):
            del left[:1]
        elif not (VALUED.fullmatch(word.partition("=")[0]) or ALONE.fullmatch(word)):
            own.append(word)
    return own, standard


class Result:
    """What a run gave: the report of end.cpp, the program's own status, and its output."""

    def __init__(self, report, status, output=""):
        self.report, self.status, self.output = report, status, output

    @property
    def findings(self):
        return self.report["findings"] if self.report else []

    @property
    def kinds(self):
        return sorted({finding["kind"] for finding in self.findings})


def run(program, arguments, folder, seconds, output, errors=None, sample=0):
    """Runs a program; `output` and `errors` are where its two streams go. `sample`: about so many
    blocks of each launch are watched, 0: all."""
    report = program.parent / "report.json"
    environment = {**os.environ, "LAB_CUDA_REPORT": str(report), "LAB_CUDA_SECONDS": str(seconds),
                   "LAB_CUDA_SAMPLE": str(sample)}  # fmt: skip
    names = program.parent / "device_names"
    environment["LAB_CUDA_DEVICE_NAMES"] = names.read_text() if names.exists() else ""
    process = subprocess.Popen(
        [str(program), *arguments], cwd=folder, env=environment, stdout=output, stderr=errors,
        text=True, errors="replace",
    )  # fmt: skip
    try:
        text = process.communicate(timeout=10 * seconds + 60)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        text = process.communicate()[0]
    except KeyboardInterrupt:
        process.kill()
        raise
    result = json.loads(report.read_text()) if report.exists() else None
    return Result(result, process.returncode, text or "")


def end_of(result):
    """How the program ended, in a sentence; empty where it returned 0."""
    if result.report and result.report["end"]:
        return result.report["end"]
    if result.status < 0:
        return f"the program was ended by {signal.Signals(-result.status).name}"
    return f"the program ended with status {result.status}" if result.status else ""


def shorter(report, folder):
    """The report with names of files as they are seen from a folder."""
    if report is None:
        return None
    inside = [str(folder)]
    if ROOT in folder.parents:  # files of the repository are named from its root
        inside = [str(ROOT), str(folder.relative_to(ROOT))]
    text = json.dumps(report, ensure_ascii=False)
    for name in inside:
        text = text.replace(json.dumps(f"{name}/", ensure_ascii=False)[1:-1], "")
    return json.loads(text)


def with_source(text, folder):
    """Findings, with the line of the source behind each place."""

    def place_and_line(place):
        for path in (base / place[1] for base in (folder, ROOT)):
            if path.is_file():
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                found = lines[int(place[2]) - 1 : int(place[2])]
                return "\n      ".join([place[0], *(line.strip() for line in found)])
        return place[0]

    return PLACE.sub(place_and_line, text)


def words_of(text):
    """Without marks, which differ where a message stands in a line of its own."""
    return " ".join(re.findall(r"\w+", text))


def text_of(result, counts, folder):
    """The report for people."""
    report = result.report
    if report is None:
        return f"No report: {end_of(result) or 'the program ended in an unknown way'}.\n"
    lines = [with_source(report["text"] if counts else report["findings_text"], folder)]
    for note in (f for f in report["findings"] if f["kind"] == "uninitialized"):
        lines.append(f"\nnote: {note['where']}: {note['message']}\n")
    for launch, why in (text.split(" ended early: ", 1) for text in report["failures"]):
        known = any(words_of(why).endswith(words_of(f["message"])) for f in report["findings"])
        lines.append(f"\n{launch} ended early: {'see the finding above.' if known else why}\n")
    end = end_of(result)
    if end:
        lines.append(f"\n{end[0].upper()}{end[1:]}.\n")
    if report["watched_blocks"] < report["blocks"]:
        lines.append(
            f"\nWatched {report['watched_blocks']} of {report['blocks']} blocks; all have run. Of "
            "the others only bounds were checked.\n"
        )
    if report["launches"] == 0:
        lines.append("\nNo kernel was launched.\n")
    if report["cpu_times"]:
        lines.append(
            "\nTimes of events are those of this CPU in the watched lab; they say nothing about a "
            "GPU.\n"
        )
    return "".join(lines)


def parser():
    result = argparse.ArgumentParser(
        prog="./learn lab",
        description="Runs a CUDA file in the watched lab. Options of nvcc "
        "may stand in the command: -std is passed on, the others change nothing.",
    )
    result.add_argument("files", nargs="+", metavar="FILE", help="CUDA or C++, one with a main()")
    result.add_argument("--counts", action="store_true", help="also count accesses, line by line")
    result.add_argument(
        "--json",
        action="store_true",
        help="the report as JSON on the standard output; the program's own goes to standard error",
    )
    result.add_argument(
        "--seconds",
        type=int,
        default=SECONDS,
        help=f"time limit, of the CPU; without one {SECONDS}",
    )
    result.add_argument(
        "--sample",
        type=int,
        default=0,
        metavar="N",
        help="watch about N blocks of each launch; all blocks run",
    )
    result.add_argument("--museum", action="store_true", help="run the museum of bugs instead")
    result.add_argument("-I", dest="folders", action="append", default=[], metavar="FOLDER")
    result.add_argument("-D", dest="definitions", action="append", default=[], metavar="NAME")
    return result


def main(arguments):
    build, folder = pathlib.Path(arguments[0]), pathlib.Path(arguments[1])
    own, passed = arguments[2:], []
    if "--museum" in own:
        from common.lab.museum import museum  # which needs this module

        own.remove("--museum")
        return museum.main(["--build", str(build), *own])
    if "--" in own:
        at = own.index("--")
        own, passed = own[:at], own[at + 1 :]
    own, standard = without_nvcc(own)
    options = parser().parse_intermixed_args(own)
    paths = [folder / name for name in options.files]
    for path in paths:
        if not path.is_file():
            print(f"learn: there is no file {path}", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory(prefix="lab-") as scratch:
        try:
            compiler = Compiler(build, ROOT)
            program = compiler.compile(
                paths, pathlib.Path(scratch), [folder / name for name in options.folders],
                options.definitions, standard,
            )  # fmt: skip
        except DoesNotCompile as error:
            for line in error.lines:
                print(line.replace(f"{folder}/", ""), file=sys.stderr)
            return 2
        sys.stdout.flush()
        output = sys.stderr if options.json else None
        result = run(program, passed, folder, options.seconds, output, sample=options.sample)
    if result.report:
        result.report["findings"] += compiler.notes
    result.report = shorter(result.report, folder)
    if options.json:
        print(json.dumps(result.report))
    else:
        print(f"\n{'-' * 30} the lab {'-' * 30}\n{text_of(result, options.counts, folder)}", end="")
    wrong = [finding for finding in result.findings if finding["kind"] not in NOTES]
    return 0 if result.report and not wrong and result.status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
