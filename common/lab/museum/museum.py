"""The museum of bugs: runs its pieces and their right twins in the watched lab, or under
compute-sanitizer on a GPU, and writes its page.

    ./learn lab --museum [NAME...]                     the table of what the lab finds
    python3 -m common.lab.museum.museum --json FILE    the same as a record: record.json
    python3 -m common.lab.museum.museum --gpu FILE     a record of compute-sanitizer, on sm_90
    python3 -m common.lab.museum.museum --page         writes ../museum.md below its first part

A piece is a .cu file: a comment with its title, what it does, `---`, what was wrong and where that
was reported; then the program, which is right where FIXED is defined. labels.txt says what is to be
found.

Exit status: 0 every verdict is as labels.txt says, 1 one is not, 2 bad use.
"""

import argparse
import concurrent.futures
import datetime
import difflib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import types

from common.data import records
from common.lab import suite
from common.lab.cuda import lab
from common.lab.cuda.compile import Compiler

FOLDER = pathlib.Path(__file__).parent
PAGE, RECORD = FOLDER.parent / "museum.md", FOLDER / "record.json"
RESULTS = lab.ROOT / "docs/results"
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
RUNS = 5  # of each program alone on a GPU
SECONDS = 20  # after which a program on a GPU hangs; under a tool three times as many
SHARED = re.compile(r"__shared__ (?:__align__\(\d+\) )?([\w:]+) (\w+)(\[.*\]);")
SUMMARY = re.compile(
    r"ERROR SUMMARY: (?P<errors>\d+) error"
    r"|RACECHECK SUMMARY: \d+ hazards? displayed \((?P<races>\d+) errors?, (?P<warnings>\d+) w"
)


class Piece:
    """A file of the museum with its label."""

    def __init__(self, label, missed, section):
        self.file, self.name = label.name, pathlib.PurePath(label.name).stem
        self.label, self.missed, self.section = label, missed, section
        head, self.body = split((FOLDER / label.name).read_text())
        self.title, *rest = head
        at = rest.index("---")
        self.task = " ".join(rest[:at]).strip()
        self.answer, _, self.report = " ".join(rest[at + 1 :]).strip().partition(" Report: ")

    def where(self):
        """The label in words, with the text of the lines."""
        lines = (FOLDER / self.file).read_text().splitlines()
        kinds = []
        for kind, numbers in self.label.lines.items():
            each = (f"line {number}, `{lines[number - 1].strip()}`" for number in sorted(numbers))
            kinds.append(f"{kind.replace('-', ' ')} at {' and '.join(each)}")
        return "; ".join(kinds)

    def source(self):
        """A link to the report, and when it was written."""
        url, _, date = self.report.partition(" ")
        name = (
            url.removeprefix("https://github.com/").replace("/pull/", "#").replace("/issues/", "#")
        )
        return f"[{name.replace('/blob/master/', ': ')}]({url}), {date.strip('()')}"

    def expected(self):
        """The label, as one word for each kind: race@15+20."""
        return ", ".join(
            f"{kind}@{'+'.join(map(str, sorted(lines)))}"
            for kind, lines in self.label.lines.items()
        )

    def code(self, fixed):
        """Its program without the other branch of FIXED."""
        forms = re.compile(r"#if(n?)def FIXED\n(.*?)(?:#else\n(.*?))?#endif\n", re.S)
        text = "".join(f"{line}\n" for line in self.body)
        text = forms.sub(lambda m: (m[2] if (m[1] == "") == fixed else m[3]) or "", text)
        return text.splitlines()

    def change(self):
        """What makes it right."""
        lines = difflib.unified_diff(self.code(False), self.code(True), n=1, lineterm="")
        return [
            "..." if line.startswith("@@") else line for line in itertools.islice(lines, 3, None)
        ]


def split(text):
    """A file's first comment, line by line, and its program."""
    lines = text.splitlines()
    head = list(itertools.takewhile(lambda line: line.startswith("//"), lines))
    body = [line for line in lines[len(head) :] if not line.startswith("#include")]
    while body and not body[0]:
        del body[0]
    return [line[3:] for line in head], body


def kernels(name, fixed):
    """The kernels of a piece for an exercise; arrays for copies and tensor cores lie behind
    shared(), in dynamic shared memory."""
    code, places = pieces([name])[0].code(fixed), itertools.count(step=1024)
    text = "\n".join(code[: code.index("int main() {") - 1])
    if "BULK_" in text or "WGMMA" in text:
        text = SHARED.sub(lambda m: f"auto& {m[2]} = shared<{m[1]}{m[3]}>({next(places)});", text)
    return ["namespace fa::FA_TARGET {", "", *text.split("\n"), "", "}  // namespace fa::FA_TARGET"]


def pieces(names=()):
    """All pieces in the order of labels.txt, or those with some names."""
    found, section = [], ""
    for line in (FOLDER / "labels.txt").read_text().splitlines():
        words, _, comment = line.partition("#")
        if words.strip():
            missed = comment.strip().removeprefix("missed: ")
            found.append(Piece(suite.read_labels(line)[0], missed, section))
        else:
            section = comment.strip()
    unknown = set(names) - {piece.name for piece in found}
    if unknown:
        raise suite.BadLabels(f"there is no piece {', '.join(sorted(unknown))}")
    return [piece for piece in found if not names or piece.name in names]


# ---------------------------------------------------------------- the lab


def in_the_lab(piece, compiler):
    """A row of the record: what the lab says of a piece and its twin."""
    said = []
    for label, names in ((piece.label, []), (suite.Label(piece.file, ["none"]), ["FIXED"])):
        options = types.SimpleNamespace(folders=[], definitions=names, seconds=20)
        findings = suite.run_file(compiler, FOLDER, label, options)
        if isinstance(findings, str):
            raise suite.BadLabels(f"{piece.file}: {findings}")
        said.append(list(suite.verdicts(label, findings)))
    verdicts, twin = said
    found = all(verdict == "found" for _, verdict in verdicts)
    false = sorted({kind for kind, verdict in verdicts if verdict == "false"})
    return {
        "piece": piece.name,
        "expected": piece.expected(),
        "lab": "found" if found else "missed",
        "false": false,
        "twin": sorted(kind for kind, _ in twin),
    }


def as_known(piece, row):
    """Whether the lab does what labels.txt says."""
    right = "missed" if piece.missed else "found"
    return row["lab"] == right and not row["false"] and not row["twin"]


def run_lab(chosen, build, jobs):
    compiler = Compiler(build.resolve(), lab.ROOT)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda piece: in_the_lab(piece, compiler), chosen))


# ---------------------------------------------------------------- a GPU


def command(words, seconds):
    """The output and the status of a command; None where it hangs."""
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        return process.communicate(timeout=seconds)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # and what it has started
        return process.communicate()[0], None


def tool(program, name):
    """What a tool says of a program; "hangs" where it does not end."""
    text, status = command(["compute-sanitizer", "--tool", name, program], 3 * SECONDS)
    return "hangs" if status is None else said(text)


def said(text):
    """What a tool's output says: "3" errors, "1w" warnings, "" for nothing."""
    found = list(SUMMARY.finditer(text))
    if not found:
        raise suite.BadLabels(f"compute-sanitizer has printed no summary:\n{text}")
    errors = int(found[-1]["errors"] or found[-1]["races"] or 0)
    warnings = int(found[-1]["warnings"] or 0)
    return "+".join([str(errors)] * (errors > 0) + [f"{warnings}w"] * (warnings > 0))


def on_gpu(piece, scratch):
    """A row for a piece and one for its twin."""
    rows = []
    for fixed in (False, True):
        program = str(pathlib.Path(scratch, piece.name + "_fixed" * fixed))
        text, status = command(
            ["nvcc", "-gencode", "arch=compute_90a,code=sm_90a", "-std=c++17", "-lineinfo",
             *["-DFIXED"] * fixed, "-o", program, str(FOLDER / piece.file)], 300,
        )  # fmt: skip
        if status != 0:
            raise suite.BadLabels(f"{piece.file} does not compile:\n{text}")
        ends = [command([program], SECONDS)[1] for _ in range(RUNS)]
        row = {"piece": piece.name, "fixed": fixed, "runs": RUNS, "right": ends.count(0),
               "hangs": ends.count(None)}  # fmt: skip
        rows.append(row | {name: tool(program, name) for name in TOOLS})
    return rows


def first_line(*words):
    return (command(words, 60)[0].splitlines() or ["unknown"])[-1].strip()


def run_gpu(chosen, jobs, commit):
    missing = [name for name in ("nvcc", "compute-sanitizer") if shutil.which(name) is None]
    if missing:
        raise suite.BadLabels(f"{' and '.join(missing)} must be in PATH")
    query = ("nvidia-smi", "--format=csv,noheader", "-i", "0")
    version = re.search(r"V([\d.]+)", command(["nvcc", "--version"], 60)[0])
    head = {
        "gpu": first_line(*query, "--query-gpu=name"),
        "driver": first_line(*query, "--query-gpu=driver_version"),
        "toolkit": version[1] if version else "unknown",
        "commit": commit or first_line("git", "describe", "--always", "--dirty", "--abbrev=12"),
        "date": datetime.date.today().isoformat(),
        "command": "python3 -m common.lab.museum.museum " + " ".join(sys.argv[1:]),
    }
    with tempfile.TemporaryDirectory() as scratch:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            rows = pool.map(lambda piece: on_gpu(piece, scratch), chosen)
            return records.text_of(head, itertools.chain(*rows))


def gpu_record():
    """The record of a GPU; None where there is none."""
    found = sorted(RESULTS.glob("h*_museum.json"))
    return records.read(found[-1]) if found else None


# ---------------------------------------------------------------- what is shown


def table(rows):
    """The verdicts as lines of cells, the first one with headings."""
    record = gpu_record()
    gpu = {(row["piece"], row["fixed"]): row for row in record["measurements"]} if record else {}
    cells = [["piece", "what is wrong, at which line", "the lab", "its right twin"]]
    if gpu:
        cells[0] += ["its result on a GPU", *TOOLS]
    for row in rows:
        twin = ", ".join(row["twin"]) or "clean"
        cells.append([row["piece"], row["expected"], row["lab"], twin])
        seen = gpu.get((row["piece"], False))
        if gpu and seen:
            hangs = f", {seen['hangs']} hang" if seen["hangs"] else ""
            cells[-1].append(f"right {seen['right']} of {seen['runs']}{hangs}")
            cells[-1] += [seen[name] or "-" for name in TOOLS]
        elif gpu:
            cells[-1] += ["?"] * (1 + len(TOOLS))
    if gpu:
        twins = [row for (_, fixed), row in gpu.items() if fixed]
        blamed = [sum(row[name] != "" for row in twins) for name in TOOLS]
        wrong = sum(row["right"] < row["runs"] for row in twins)
        by_lab = sum(row["twin"] != [] for row in rows)
        cells.append([f"twins blamed, of {len(rows)}", "", by_lab, "", f"wrong: {wrong}", *blamed])
    return cells


def summary(rows):
    found = sum(row["lab"] == "found" for row in rows)
    clean = sum(not row["twin"] for row in rows)
    return (f"{len(rows)} pieces: the lab finds {found} at their lines, and has no finding for "
            f"{clean} of the {len(rows)} right twins.")  # fmt: skip


def sentences(text):
    """One a line."""
    return re.sub(r"(?<=[.?:]) (?=[A-Z*`<])", "\n", text)


def page():
    """The text of the page, from the files and the records."""
    rows = records.read(RECORD)["measurements"]
    repairs = {}  # links to the exercises that repair a piece
    for path in sorted(lab.ROOT.glob("*/exercises/*/exercise.cpp")):
        task = path.parent.relative_to(lab.ROOT)
        for name in re.findall(r"^// museum: (\w+)$", path.read_text(), re.M):
            repairs[name] = f"[{str(task)[:3]}{task.name}](../../{task}/task.md)"
    lines, section = [PAGE.read_text().partition("\n## ")[0]], ""
    for number, piece in enumerate(pieces(), 1):
        if piece.section != section:
            section = piece.section
            lines += [f"## {section}", ""]
        lines += [f"### {number}. {piece.title}", "", sentences(piece.task), ""]
        lines += ["```cpp", *piece.code(False), "```", ""]
        if piece.name in repairs:
            lines += [f"Repair it: exercise {repairs[piece.name]}.", ""]
        answer = re.sub(r"https://([^\s)]+[\w/])", r"<https://\1>", piece.answer)
        lines += ["<details><summary>Answer</summary>", "", sentences(answer), ""]
        lines += ["```diff", *piece.change(), "```", ""]
        seen = f"does not find it: {piece.missed}" if piece.missed else f"reports: {piece.where()}"
        lines += [f"Reported in {piece.source()}.", f"The lab {seen}.", "", "</details>", ""]
    head, *cells = [[str(cell) for cell in line] for line in table(rows)]
    lines += ["## What tools say", "", f"{summary(rows)}"]
    lines += [f"`{piece.name}` is missed: {piece.missed}." for piece in pieces() if piece.missed]
    record = gpu_record()
    if record:
        lines.append("Columns of compute-sanitizer: errors, w: warnings.")
    lines += ["", *(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells)), ""]
    if record:
        lines += ["```text", *records.source_lines(record), "```", ""]
    lines += ["---", "", "[The lab](README.md) · [Course](../../README.md)", ""]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="./learn lab --museum",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="pieces; without one all")
    parser.add_argument("--build", type=pathlib.Path, default=lab.ROOT / "build/learn")
    parser.add_argument("--json", type=pathlib.Path, help="write a record to this file")
    parser.add_argument("--gpu", type=pathlib.Path, help="write a GPU's record to this file")
    parser.add_argument("--commit", help="of the code, for that record")
    parser.add_argument("--page", action="store_true", help="write the page")
    parser.add_argument("--check", action="store_true", help="also compare page and record")
    parser.add_argument("-j", type=int, default=os.cpu_count(), help="pieces at a time")
    options = parser.parse_args(arguments)
    try:
        if options.page:
            PAGE.write_text(page())
            return 0
        chosen = pieces(options.names)
        if options.gpu:
            options.gpu.write_text(run_gpu(chosen, options.j, options.commit))
            return 0
        rows = run_lab(chosen, options.build, options.j)
    except (suite.BadLabels, OSError, ValueError) as error:
        print(f"museum: {error}", file=sys.stderr)
        return 2
    if options.json:
        options.json.write_text(records.text_of({}, rows))
    print("\n".join(records.aligned(table(rows), 1, len(table(rows)[0]))))
    print(f"\n{summary(rows)}")
    wrong = [piece.name for piece, row in zip(chosen, rows) if not as_known(piece, row)]
    if wrong:
        print(f"Not as labels.txt says: {', '.join(wrong)}.")
    if options.check:
        if json.loads(RECORD.read_text())["measurements"] != rows:
            wrong.append("record.json is not what the lab says now; write it by --json")
        if PAGE.read_text() != page():
            wrong.append("museum.md is not what --page writes")
        print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
