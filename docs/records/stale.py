"""Which figures were measured before their kernel changed: python3 -m docs.records.stale [OPTION].

A record keeps hashes of the kernels that it timed, sm_90a_kernels.json in docs/results those of the
tree. They are of the PTX without names, comments, the numbers of registers and the places of
parameters. Another nvcc writes other PTX, so its hashes are not compared.

Without an option: the rows whose kernel has changed. --tree lists the kernels of the tree anew,
--check compares them with the list, --record FILE... hashes those of a record's commit, which must
be in the history. --measure FOLDER times what has changed since records of this GPU with a build's
programs, and merges the rows. Exit status: 0, 1 where the list is not of this tree, 2 for what
cannot be done, 77 where nvcc is of another version.
"""

import argparse
import collections
import contextlib
import functools
import hashlib
import io
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile

from common.bench.peers import FIXED_ORDER, OURS, OURS_SAME_BITS
from common.bench.program import first_line
from common.data.files import write_file
from common.data.records import COMMIT, Problem, aligned, program, read, renamed, text_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/results"
LIST = RESULTS / "sm_90a_kernels.json"
LADDERS = {  # folder of steps: what includes and launches them all
    "05_flash_forward/kernels": "src/backend.cuh",
    "05_flash_forward/kernels/decode": "src/decode.cuh",
    "05_flash_forward/kernels/fp8": "src/fp8_kernels.cuh",
    "05_flash_forward/kernels/functors": "src/functors.cuh",
    "06_flash_backward/kernels": "src/backend.cuh",
    "06_flash_backward/kernels/functors": "src/functors.cuh",
}
COMPILE = "nvcc -std=c++17 -arch=compute_90a -ptx -w -I. --expt-relaxed-constexpr".split()
COMPILE += "-isystem /usr/include/eigen3 -isystem /usr/local/include/eigen3 -x cu".split()
# Steps that the C interface runs from lesson 05's library.
LIBRARY = ("14_lazy_rescaling", "15_warpgroup_tiles", "16_mirrored_tiles")
STEPS = re.compile(r"fa_steps\((\w+) (\S+)(?: WITH ([^)]+))?\)")
BOUNDS = r"(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?"
GLOBAL = re.compile(rf"__global__\s+void\s+{BOUNDS}(\w+)\(")
ENTRY = re.compile(r"^(?:\.visible |\.weak )?\.entry (\w+)", re.M)
LEFT_OUT = re.compile(r"//.*|^\s*\.(?:reg|loc|file|pragma|param|visible|weak|global)\b.*", re.M)
PARAMETER = re.compile(r"mov\.[bu]64\s+(%rd\d+), \w+_param_\d+;")
LOADED = re.compile(r"(\bld\.param.*)\[(.*)\]")
# What is numbered in the order in which it appears.
NAMED = re.compile(r"%[a-z]+\d+|\w*_Z\w+|__local_depot\d+|\$L\w+")


def hashes(ptx):
    """{mangled name: hash} of the kernels of PTX."""
    found, parts = {}, ENTRY.split(ptx)
    for name, code in zip(parts[1::2], parts[2::2]):
        if places := "|".join(PARAMETER.findall(code)):
            code = re.sub(rf"(\badd\.s64\s+%rd\d+, (?:{places})), \d+;", r"\1", code)
        code = LOADED.sub(lambda m: f"{m[1]}_Z{re.sub(r'[^0-9a-z]', '_', m[2])}", code)
        order = {}
        code = NAMED.sub(lambda m: f"%{order.setdefault(m[0], len(order))}", LEFT_OUT.sub("", code))
        found[name] = hashlib.sha256(" ".join(code.split()).encode()).hexdigest()[:8]
    return found


def kernels_of(root, folder):
    """{step: the kernels that its file names, or what it includes without a number does}. Those of
    the lesson's library are `library`; in a ladder of their own folder all steps may run them."""
    lesson = (root / folder).parents[folder.count("/") - 1]
    texts = {p: re.sub("//.*", "", p.read_text("utf-8")) for p in lesson.rglob("*.cuh")}
    known = {name for text in texts.values() for name in GLOBAL.findall(text)}

    def named(*paths):
        return known & set(re.findall(r"\w+", " ".join(texts.get(path, "") for path in paths)))

    library, found = named(*lesson.glob("library/*.cuh")), {}
    for path in (root / folder).glob("[0-9]*.cuh"):
        others = [root / name for name in re.findall(r'#include "(.*)"', texts[path])]
        near = [p for p in others if not p.name[0].isdigit() and p.parent.name != "library"]
        found[path.stem] = named(path, *near) or named(path, *others)
    if folder.endswith("/kernels"):
        return found | {f"{lesson.name}/library": library}
    return {step: kernels | library for step, kernels in found.items()}


def of_ladder(root, folder):
    """{step: hashes} of a ladder's kernels of today, as they are in a tree or were in an older one;
    under the folder's name those of all. A kernel has one for each instance, or -NAME for none."""
    lesson = (root / folder).parents[folder.count("/") - 1]
    with tempfile.TemporaryDirectory() as temporary:
        written = pathlib.Path(temporary, "steps")
        written.mkdir()
        for name, of, more in STEPS.findall((lesson / "CMakeLists.txt").read_text("utf-8")):
            files = sorted((lesson / of).glob("[0-9]*.cuh"))
            lines = ["#pragma once", f"inline constexpr int k{name}Steps = {len(files)};"]
            lines += [f'#include "{lesson / of / path}"' for path in (*files, *more.split())]
            (written / f"{name.lower()}.cuh").write_text("\n".join(lines) + "\n")
        command = [*COMPILE, f"-I{temporary}", lesson / LADDERS[folder], "-o", f"{written}/ptx"]
        done = subprocess.run(command, cwd=root, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Problem(f"nvcc cannot compile {command[-3]}: {done.stderr[:500]}")
        entries = hashes((written / "ptx").read_text("utf-8"))
    found = {}
    for step, kernels in kernels_of(ROOT, folder).items():
        own = set()
        for name in kernels:
            word = f"{len(name)}{name}"
            own |= {code for entry, code in entries.items() if word in entry} or {f"-{name}"}
        if root != ROOT or any(code[0] != "-" for code in own):
            found[step] = " ".join(sorted(own))
    return found | {folder: " ".join(sorted({*" ".join(found.values()).split()}))}


@functools.cache
def of_commit(commit, folder):
    """The same of a commit in the history."""
    git("merge-base", "--is-ancestor", commit, "HEAD")
    with tempfile.TemporaryDirectory() as root:
        tarfile.open(fileobj=io.BytesIO(git("archive", commit))).extractall(root)
        return of_ladder(pathlib.Path(root), folder)


def git(*arguments):
    """What git prints; a Problem where it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise Problem(f"git {' '.join(arguments)}: {done.stderr.decode() or 'no'}")
    return done.stdout


def compiler():
    """The version of nvcc, such as 13.0.88; "none" without one."""
    with contextlib.suppress(OSError):
        text = subprocess.run(["nvcc", "--version"], stdout=subprocess.PIPE, check=True).stdout
        return re.search(rb"\bV([\d.]+)", text)[1].decode()
    return "none"


@functools.cache
def tree():
    """The list of the tree's kernels: {"compiler": version, lesson: {kernel: hashes}}."""
    return read(LIST)


def kernel_of(record, row):
    """The kernel that a row of a record timed: a step, a folder, or what no ladder has."""
    name, words = row.get("kernel", "").partition(",")[0], program(record).split(".")
    ours = row.get("backend") in (OURS, OURS_SAME_BITS, FIXED_ORDER)
    if name in LIBRARY and "interface" in words or (ours and not name and words[-1] == "example"):
        return f"{words[0]}/library"
    return name if name or not ours else f"{words[0]}/kernels/{words[-1]}"


def state(record, row):
    """Why a figure of this row may be old; "" where its kernel is as it was, or in no ladder. More
    instances or fewer are no change."""
    kernel, of_record, of_tree = kernel_of(record, row), record.get("kernels", {}), tree()
    now = {*of_tree.get(program(record)[:2], {}).get(kernel, "").split()}
    if now and (kernel not in of_record or of_record["compiler"] != of_tree["compiler"]):
        return f"not compared with {kernel}: the record has no hash by nvcc {of_tree['compiler']}"
    then = {*of_record[kernel].split()} if now else now
    return "" if then <= now or now <= then else f"measured before a change of {kernel}"


def old_rows():
    """Yields (path, record, {(kernel, why): number of rows}) of what may be old."""
    for path in sorted(RESULTS.glob("h*.json")):
        record = read(path)
        rows = [(kernel_of(record, r), state(record, r)) for r in record.get("measurements", ())]
        if found := collections.Counter(row for row in rows if row[1]):
            yield path, record, found


def table():
    """Lines of a table of what may be old: records, and numbers of steps."""
    cells = [["record", "rows before a change", "of", "rows not compared", "with"]]
    for path, _, found in old_rows():
        cells.append([path.stem])
        for words in ("measured", "not"):
            those = {kernel: n for (kernel, why), n in found.items() if why.startswith(words)}
            names = (k.rpartition("/")[2] if "/" in k else k[:2] for k in sorted(those))
            cells[-1] += [sum(those.values()) or "-", " ".join(names) or "-"]
    title = f"Figures that may be old, by kernels compiled with nvcc {tree()['compiler']}"
    return [title, *aligned(cells, 1)]


def put_hashes(path, commit="", kernels=()):
    """Puts hashes of kernels into a record's head, else of what it timed and has none of: as they
    are at a commit, else at that of the record."""
    raw = json.loads(path.read_text("utf-8"))
    record, commit = renamed(raw), commit or raw["commit"].split()[0]
    if not COMMIT.fullmatch(commit):
        raise Problem(f"{path} is not of a commit: {commit}")
    found, version = dict(record.get("kernels", {})), compiler()
    if found.get("compiler") != version:
        found = {"compiler": version}
    timed = {*kernels} or {kernel_of(record, r) for r in record["measurements"]} - found.keys()
    for folder in LADDERS:
        steps = {path.stem for path in (ROOT / folder).glob("[0-9]*.cuh")}
        known = timed & {*steps, folder, folder.replace("/kernels", "/library")}
        if known and folder[:2] == program(record)[:2]:
            found |= {k: code for k, code in of_commit(commit, folder).items() if k in known}
    rows = raw.pop("measurements")
    write_file(path, text_of({**raw, "kernels": dict(sorted(found.items()))}, rows))


def measure(build):
    """Times on this GPU what has changed since its records were made."""
    commit = git("describe", "--always", "--dirty", "--abbrev=12").decode().strip()
    if not COMMIT.fullmatch(commit):
        raise Problem(f"a record needs a commit, and the tree is {commit}")
    gpu = first_line("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    for path, record, found in old_rows():
        name, *options = shlex.split(record["command"].partition(";")[0])
        if record["gpu"] != gpu or not (build / name / name).is_file():
            print(f"{path.name}: not measured here; {record['gpu']}: {record['command']}")
            continue
        raw, new, measured = json.loads(path.read_text("utf-8")), build / "bench/stale.json", set()
        for kernel in sorted({kernel for kernel, _ in found}):
            command = [build / name / name, *options, "--kernel", kernel, "--results", new]
            done = subprocess.run(command, check=False)
            rows = {} if done.returncode else {point_of(r): r for r in read(new)["measurements"]}
            of_kernel = [r for r in record["measurements"] if kernel_of(record, r) == kernel]
            if not {point_of(row) for row in of_kernel} <= rows.keys():
                print(f"{path.name}: {kernel} is not timed at all points of the record any more")
                continue
            raw["measurements"] = [rows.get(point_of(renamed(r)), r) for r in raw["measurements"]]
            measured.add(kernel)
        if measured:
            raw |= {"commit": f"{raw['commit']} and {commit}", "date": read(new)["date"]}
            rows = raw.pop("measurements")
            write_file(path, text_of(raw, rows))
            put_hashes(path, commit, measured)


def point_of(row):
    """What tells the rows of a ladder apart."""
    return tuple(row.get(field) for field in ("group", "kernel", "length", "size"))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tree", action="store_true")
    which.add_argument("--check", action="store_true")
    which.add_argument("--record", type=pathlib.Path, nargs="+", metavar="FILE")
    which.add_argument("--measure", type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        if options.check and compiler() != tree()["compiler"]:
            print(f"not checked with nvcc {compiler()}; the list is of {tree()['compiler']}")
            return 77
        if options.tree or options.check:
            found = {"compiler": compiler()}
            for folder in LADDERS:
                found.setdefault(folder[:2], {}).update(of_ladder(ROOT, folder))
            if options.tree:
                write_file(LIST, json.dumps(found, indent=1, sort_keys=True) + "\n")
            elif found != tree():
                print("The list is not of this tree: python3 -m docs.records.stale --tree")
                return 1
        elif options.measure:
            measure(options.measure)
        elif not options.record:
            print("\n".join(table()))
        for path in options.record or ():
            put_hashes(path)
    except (Problem, OSError) as problem:
        print(f"stale.py: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
