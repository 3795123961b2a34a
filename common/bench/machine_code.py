"""Counts, in the machine code of Hopper kernels, which work overlaps with matmuls of wgmma.

    python3 -m common.bench.machine_code PROGRAM [--kernel TEXT] [--intervals] [--json FILE]
    python3 -m common.bench.machine_code PROGRAM --instructions [--kernel TEXT] [--json FILE]
    python3 -m common.bench.machine_code --table FILE [--kernel TEXT] [--intervals]

PROGRAM is a program, a library or a cubin with kernels for sm_90a. cuobjdump and nvdisasm
disassemble it: of the CUDA Toolkit, or of the PyPI packages nvidia-cuda-cuobjdump and
nvidia-cuda-nvdisasm. For each loop with matmuls the table counts the exponentials (MUFU.EX2) that
stand before and after the wait for matmuls that the warpgroup has issued: only those before it
overlap with them. --intervals adds, for each point where the warpgroup issues matmuls or waits, the
exponentials, maxima (FMNMX) and conversions to 16 bits (F2FP) up to the next one. What a branch may
skip, such as the rescale factors, does not count. The second form counts the instructions of whole
kernels, with their functors. The third form prints a record of either kind, and which compiler made
the code.

Exit status: 0 done, 2 could not be done, 77 cuobjdump or nvdisasm is missing.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from common.data.files import write_file
from common.data.records import Problem, aligned, read, text_of

COUNTED = {"MUFU.EX2": "exponentials", "FMNMX": "maxima", "F2FP": "conversions"}
ALONE = {"FMUL": "multiplications", "FFMA": "multiply-adds", "MUFU.TANH": "tanh"}  # whole kernels
MASKS = "FSEL"  # the instruction that replaces a masked score

SECTION = re.compile(r"^\.text\.(\w+):", re.MULTILINE)
LABEL = re.compile(r"^(\.L_\w+):")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([\w.]+)\s*(.*?)\s*;")
TARGET = re.compile(r"\((\.L_\w+)\)")
COMPILER = re.compile(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)")

Instruction = collections.namedtuple("Instruction", "address predicate name operands")


class Missing(Exception):
    """A tool that this machine lacks; the text is one sentence."""


# ---------------------------------------------------------------- the tools


def tool(name):
    """Where a tool of the CUDA Toolkit is."""
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    found = shutil.which(name) or shutil.which(name, path=f"{toolkit}/bin")
    if found is None:
        raise Missing(f"{name}, of the CUDA Toolkit, is not installed here")
    return found


def output_of(*command, folder=None):
    """What a command prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise Problem(f"{pathlib.Path(command[0]).name} ended with {done.returncode}: {words}")
    return done.stdout


def disassemble(program):
    """The machine code for sm_90a in a program, a library or a cubin, as text; and the version of
    the compiler that made it, which stands in a cubin."""
    nvdisasm = tool("nvdisasm")
    program = pathlib.Path(program).resolve()
    if not program.is_file():
        raise Problem(f"there is no file {program}")
    with tempfile.TemporaryDirectory() as folder:
        cubins = [program]
        if program.suffix != ".cubin":
            output_of(tool("cuobjdump"), "-xelf", "sm_90a", program, folder=folder)
            cubins = sorted(pathlib.Path(folder).glob("*.cubin"))
        text = "\n".join(output_of(nvdisasm, "-c", cubin) for cubin in cubins)
        versions = {found for cubin in cubins for found in COMPILER.findall(cubin.read_bytes())}
    return text, " and ".join(sorted(version.decode() for version in versions)) or "unknown"


# ---------------------------------------------------------------- machine code


def kernels_in(text):
    """{mangled name: lines} of the functions in disassembled code."""
    parts = SECTION.split(text)[1:]
    return {name: body.splitlines() for name, body in zip(parts[::2], parts[1::2])}


def readable(mangled):
    """The name of a kernel template and its numbers: flash_overlap<128, 128, 2, 2>."""
    names, rest = [], re.sub(r"^_ZN?", "", mangled)
    while size := re.match(r"\d+", rest):
        end = size.end() + int(size[0])
        names.append(rest[size.end() : end])
        rest = rest[end:]
    numbers = re.findall(r"Li(\d+)E", rest)
    if "10HopperTileI" in mangled and len(numbers) == 5 and numbers[4] == numbers[0]:
        numbers.pop()  # as many columns of V as of Q
    shown = f"<{', '.join(numbers)}>" if numbers else ""
    kind = "half " if "6__half" in rest else "bfloat16 " if "13__nv_bfloat16" in rest else ""
    tile = " mirrored" if "MirroredTile" in mangled else ""
    return f"{kind}{names[-1] if names else mangled}{shown}{tile}"


def functor(mangled):
    """The mask and the change of scores of a kernel with a functor: "Window, WithDual SoftCap"."""
    names, rest = [], mangled.partition("6MaskedI")[2].partition("Ev")[0]
    while size := re.search(r"\d+", rest):
        end = size.end() + int(size[0])
        names.append(rest[size.end() : end])
        rest = rest[end:]
    names = [name for name in names if name[:1].isupper()]
    return ", ".join([*names[:1], " ".join(names[1:])]) if names else ""


def parse(lines):
    """The instructions of a function, and {label: index of the instruction behind it}."""
    instructions, labels = [], {}
    for line in lines:
        if label := LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif found := INSTRUCTION.match(line):
            instructions.append(Instruction(int(found[1], 16), *found.groups()[1:]))
    return instructions, labels


def branches(instructions, labels):
    """(from, to) of the branches, as indices."""
    for i, instruction in enumerate(instructions):
        target = TARGET.search(instruction.operands)
        if instruction.name.startswith("BRA") and target and target[1] in labels:
            yield i, labels[target[1]]


def is_issue(instruction):
    """Whether it is the last matmul of a group."""
    return instruction.name.startswith("HGMMA") and "gsb0" in instruction.operands


def groups_left(instruction):
    """How many groups a wait leaves in flight; None for other instructions."""
    found = re.match(r"gsb0,\s*(0x[0-9a-f]+)", instruction.operands)
    return int(found[1], 16) if found and instruction.name == "WARPGROUP.DEPBAR.LE" else None


def main_loops(instructions, labels):
    """(first, last) of the innermost loops with matmuls."""
    issues = [i for i, instruction in enumerate(instructions) if is_issue(instruction)]
    # Code that seldom runs stands at the end of a kernel: its branches back look like long loops.
    loops = sorted(
        ((to, at) for at, to in branches(instructions, labels) if to <= at),
        key=lambda loop: loop[1] - loop[0],
    )
    inner = []
    for first, last in loops:
        has_matmuls = any(first <= i <= last for i in issues)
        if has_matmuls and not any(loop[0] <= last and first <= loop[1] for loop in inner):
            inner.append((first, last))
    return sorted(inner)


def count_loop(instructions, labels, first, last):
    """What stands between the points where a loop issues matmuls or waits for them.

    Returns whether the loop masks scores, and rows {"from", "in_flight", and the counts}. The
    groups in flight at the beginning are those that the iteration before leaves.
    """
    skipped = set()
    for at, to in branches(instructions, labels):
        if first <= at < to <= last and instructions[at].predicate:
            skipped.update(range(at + 1, to))
    rows, masks, in_flight = [], 0, 0
    for _ in range(2):  # the first pass only finds the groups in flight at the end
        rows = [{"from": "begin", "in_flight": in_flight, **dict.fromkeys(COUNTED.values(), 0)}]
        masks, issued = 0, 0
        for i in range(first, last + 1):
            instruction = instructions[i]
            left = groups_left(instruction)
            if is_issue(instruction):
                in_flight += 1
                issued += 1
                begins = f"issue {issued}"
            elif left is not None:
                in_flight = min(in_flight, left)
                begins = f"wait, {left} left"
            else:
                for name, what in COUNTED.items():
                    if i not in skipped and (instruction.name + ".").startswith(name + "."):
                        rows[-1][what] += 1
                masks += i not in skipped and instruction.name == MASKS
                continue
            zeros = dict.fromkeys(COUNTED.values(), 0)
            rows.append({"from": begins, "in_flight": in_flight, **zeros})
    exponentials = sum(row["exponentials"] for row in rows)
    return masks > 0 and 2 * masks >= exponentials, rows


def measure(text, wanted=""):
    """Rows of a record: a loop each, with exponentials, of kernels whose name has a text in it."""
    result = []
    for mangled, lines in kernels_in(text).items():
        if wanted not in readable(mangled):
            continue
        instructions, labels = parse(lines)
        for first, last in main_loops(instructions, labels):
            masked, intervals = count_loop(instructions, labels, first, last)
            if not any(row["exponentials"] for row in intervals):
                continue
            before = sum(row["exponentials"] for row in intervals if row["in_flight"])
            result.append(
                {
                    "kernel": readable(mangled),
                    "masked": masked,
                    "before": before,
                    "behind": sum(row["exponentials"] for row in intervals) - before,
                    "intervals": intervals,
                }
            )
    return sorted(result, key=lambda row: (row["kernel"], not row["masked"]))


def count(text, wanted=""):
    """Rows of a record: a kernel each, whose name has a text in it, and how many instructions it
    has."""
    result = []
    for mangled, lines in kernels_in(text).items():
        name = ": ".join(filter(None, (readable(mangled), functor(mangled))))
        if wanted in name:
            code = [i.name for i in parse(lines)[0] if i.name != "NOP"]
            of = {
                words: sum((i + ".").startswith(name + ".") for i in code)
                for name, words in ALONE.items()
            }
            result.append({"kernel": name, "instructions": len(code), **of})
    return sorted(result, key=lambda row: row["kernel"])


# ---------------------------------------------------------------- what is printed


def tables(rows, with_intervals):
    """A table of all loops, then, if wanted, the intervals of each; or a table of kernels."""
    if "instructions" in rows[0]:
        columns = ["kernel", "instructions", *ALONE.values()]
        cells = [columns, *([str(row[column]) for column in columns] for row in rows)]
        return "\n".join(["Instructions of kernels:", "", *aligned(cells, 1), ""])
    lines = [
        "Exponentials of a thread in an iteration, before and after the wait for matmuls:",
        "",
    ]
    width = max([len(row["kernel"]) for row in rows] + [len("kernel")])
    lines.append(f"{'kernel':{width}}  masked  before   after")
    lines.append("  ".join("-" * length for length in (width, 6, 6, 6)))
    for row in rows:
        masked = "yes" if row["masked"] else "no"
        lines.append(f"{row['kernel']:{width}}  {masked:6}  {row['before']:6}  {row['behind']:6}")
    for row in rows if with_intervals else []:
        lines += ["", row["kernel"] + (", masked" if row["masked"] else "")]
        lines.append("from          in flight  " + "  ".join(COUNTED.values()))
        lines.append("  ".join("-" * n for n in (12, 9, *map(len, COUNTED.values()))))
        for interval in row["intervals"]:
            counts = (f"{interval[what]:{len(what)}}" for what in COUNTED.values())
            place = f"{interval['from']:12}  {interval['in_flight']:9}  "
            lines.append(place + "  ".join(counts))
    return "\n".join(lines) + "\n"


def source(record):
    """Where the rows of a record are from, as the last line of its tables."""
    return f"(nvcc {record['compiler']}, for sm_90a, commit {record['commit'][:7]})"


def record_of(rows, program, compiler, commit):
    """The text of a record."""
    options = " --instructions" if "instructions" in rows[0] else ""
    version = re.search(r"V([\d.]+)", output_of(tool("nvdisasm"), "--version"))
    head = {
        "compiler": compiler,
        "disassembler": version[1] if version else "unknown",
        "commit": commit or "unknown",
        "command": f"python3 -m common.bench.machine_code {pathlib.Path(program).name}{options}",
    }
    return text_of(head, rows)


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="machine_code.py", description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", nargs="?", help="a program, a library or a cubin")
    parser.add_argument("--kernel", default="", help="only kernels with this text in their names")
    parser.add_argument("--intervals", action="store_true", help="print what stands where")
    parser.add_argument("--instructions", action="store_true", help="count those of whole kernels")
    parser.add_argument("--json", metavar="FILE", help="write a record")
    parser.add_argument("--commit", help="of the code, for the record")
    parser.add_argument("--table", metavar="FILE", help="print a record")
    parsed = parser.parse_args(arguments)
    try:
        if (parsed.program is None) == (parsed.table is None):
            raise Problem("give a program, or --table and a record")
        if parsed.table:
            record = read(parsed.table)
            rows = [row for row in record["measurements"] if parsed.kernel in row["kernel"]]
        else:
            text, compiler = disassemble(parsed.program)
            rows = (count if parsed.instructions else measure)(text, parsed.kernel)
        if not rows:
            what = "" if parsed.instructions else " has a loop with matmuls and exponentials"
            raise Problem(f"no such kernel for sm_90a{what or ' is there'}")
        print(tables(rows, parsed.intervals), end="")
        if parsed.table:
            print(source(record))
        if parsed.json:
            text = record_of(rows, parsed.program, compiler, parsed.commit)
            write_file(parsed.json, text)
    except Missing as error:
        print(f"machine_code.py: {error}", file=sys.stderr)
        return 77
    except (Problem, OSError) as error:
        print(f"machine_code.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
