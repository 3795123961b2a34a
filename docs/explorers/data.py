"""Writes the data of the explorers that show what programs of the course print.

    python3 -m docs.explorers.data [--check] [--programs BUILD] [NAME...]
    python3 -m docs.explorers.data --made FOLDER

Each NAME_data.js sets explorerData.NAME, so that a page may load it from a file. --check compares
instead of writing. The second form writes what follows from records or the shipped input alone, and
from the steps.json of lesson 03 in that folder; it is made with the site. Exit status: 0 done or in
step, 1 not in step, 2 could not be done.
"""

import argparse
import array
import ast
import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from common.data import records
from docs.theory import examples

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE.parent / "results"
FORWARD, BACKWARD = "05_flash_forward", "06_flash_backward"
# What the kinds of spans are, by lesson: matmuls have general names in the lab.
KINDS = {
    FORWARD: {"scores": "Q Kᵀ", "output": "P V", "work": "softmax", "store": "store of O"},
    BACKWARD: {
        "scores": "S, dP",
        "output": "dV, dK",
        "by columns": "dQ",
        "work": "P and dS",
        "store": "store of dK, dV",
        "bulk addition": "addition to dQ",
    },
}
WARPS = 4  # of a warpgroup


def joined(spans):
    """Spans [begin, end, kind] in order, those of one kind that touch or overlap as one."""
    result = []
    for begin, end, kind in sorted(spans):
        previous = next((one for one in reversed(result) if one[2] == kind), None)
        if previous and begin - previous[1] < 1 and (previous is result[-1] or begin < previous[1]):
            previous[1] = max(previous[1], end)
        else:
            result.append([begin, end, kind])
    return [[round(begin), round(end), kind] for begin, end, kind in result]


def lanes(spans, names):
    """[name, spans] of the copies, a warp of each warpgroup, and the matmuls; see
    common/lab/timeline.cpp."""

    def of(lane, warps=None):
        chosen = [s for s in spans if s["lane"] == lane and (warps is None or s["warp"] in warps)]
        words = names if warps is None or warps[0] // WARPS in multiply else {"work": "other work"}
        return joined((s["begin"], s["end"], words.get(s["kind"], s["kind"])) for s in chosen)

    multiply = sorted({s["warp"] // WARPS for s in spans if s["lane"] == "matmuls"})
    copies = [s for s in spans if s["lane"] == "copies"]
    produce = {s["warp"] // WARPS for s in copies if s["kind"] == "load"} - set(multiply)
    result = [["copies", of("copies")]]
    for group in sorted(produce):
        result.append(["producer", of("warps", [WARPS * group])])
    for i, group in enumerate(multiply):
        result.append([f"consumer {i}", of("warps", [WARPS * group])])
    result.append(["matmuls", of("matmuls")])
    return result


def span_of(event):
    """A span of a trace file; a microsecond there is a cycle."""
    place = {key: event["args"][key] for key in ("lane", "warp")}
    return {**place, "kind": event["name"], "begin": event["ts"], "end": event["ts"] + event["dur"]}


def pipeline(programs):
    """Timelines of the Hopper steps, from the records of their stamps."""
    result = []
    for lesson in (FORWARD, BACKWARD):
        with tempfile.TemporaryDirectory() as scratch:
            file = pathlib.Path(scratch, "timeline.json")
            stamps = RESULTS / f"h100_{lesson[:2]}_stamps.tsv"
            command = [programs / lesson / lesson, "--section", "timeline", "--json", file]
            command += ["--stamps", stamps]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
        for head in (event for event in events if event["ph"] == "M"):
            spans = [e for e in events if e["ph"] == "X" and e["pid"] == head["pid"]]
            result.append(
                {
                    "name": head["args"]["name"],
                    "lesson": lesson,
                    "cycles": round(head["args"]["cycles"]),
                    "peak": round(head["args"]["peak_cycles"]),
                    "lanes": lanes([span_of(event) for event in spans], KINDS[lesson]),
                }
            )
    return result


def roofline():
    """The peaks of the records' GPU, and what each step of lesson 05 reached without a mask."""
    matmul = records.read(RESULTS / "h200_04_tiled_matmul.json")
    float32, bfloat16, memory = examples.machine(matmul)
    result = [{"gpu": matmul["gpu"], "float32": float32, "bfloat16": bfloat16, "memory": memory}]
    for row in records.read(RESULTS / "h200_05_flash_forward.json")["measurements"]:
        found = re.fullmatch(r"(float32|bfloat16), D (64|128)", row["group"])
        if found:
            step = {"type": found[1], "dim": int(found[2])}
            result.append({**step, **{key: row[key] for key in ("kernel", "length", "tflops")}})
    return result


BROKEN = "common/gpu/tests/broken.cuh"
TRACED = ["02", "03", "04", "05", "06", "07", "08", "09", "11", "12"]  # of lesson 04
# What the name of a broken kernel's template argument stands for.
PENDING = {"copy_without_wait": "2", "one_wait_too_few": "1"}


def place(where):
    """(file from the root, line) of what the lab calls file:line."""
    found = re.search(r"((?:common|0\d_\w+)/[\w./]+):(\d+)$", where)
    if not found:
        raise ValueError(f"{where} is not a line of the course")
    return found[1], int(found[2])


def function(lines, number):
    """Numbers of the lines of the function around a line, without marks of listings."""
    first = last = number
    while not lines[first - 1].startswith(("__global__", "__device__", "inline ")):
        first -= 1
    if lines[first - 2].startswith("template"):
        first -= 1
    while lines[last - 1] != "}":
        last += 1
    return [n for n in range(first, last + 1) if not lines[n - 1].lstrip().startswith("//! [")]


def as_broken(numbered):
    """The lines that the broken version of a kernel runs, each with its number."""
    result, shift, skip = [], 0, None  # skip: the indent at which a branch that is not taken ends
    ends = []  # indents at which a branch that is taken ends
    for number, line in numbered:
        indent = len(line) - len(line.lstrip())
        if skip is not None:
            if indent == skip and line.strip() == "}":
                skip = None
                if ends and ends[-1] == indent:
                    ends.pop()
                    shift -= 2
            continue
        if re.match(r"\s*(template <bool broken>|if \(!broken\) .*;)", line):
            continue
        if re.match(r"\s*if \(broken( \|\| .*)?\) {", line):
            ends.append(indent)
            shift += 2
            continue
        if ends and indent == ends[-1] and line.strip() == "} else {":
            skip = indent
            continue
        if line.strip() == "} else if (!broken) {":
            skip, line = indent, line.replace(" else if (!broken) {", "")
            result.append([number, line[shift:]])
            continue
        line = re.sub(r" && \(broken \|\| [^)]*\)|broken && ", "", line)
        line = re.sub(r"broken \? ([^:]+) : [^;)]+", r"\1", line)
        result.append([number, re.sub(r"\s+//.*$", "", line[shift:])])
    return result


def report(name, words, text, ran, found):
    """An entry of the explorer of traces."""
    lines = text.splitlines()
    shown = {}
    for one in found["traffic"]:
        if place(one["where"])[0] == ran:
            shown.update(dict.fromkeys(function(lines, place(one["where"])[1])))
    numbered = [[number, lines[number - 1]] for number in sorted(shown)]
    if ran == BROKEN:
        numbered = as_broken(numbered)
        if name in PENDING:
            numbered = [
                [n, line.replace("pending", PENDING[name]).replace("if (1 < 2) ", "")]
                for n, line in numbered
                if not line.startswith("template")
            ]
            numbered = [one for one in numbered if "if (2 < 2)" not in one[1]]
        if any("broken" in line for _, line in numbered):
            raise ValueError(f"{name}: the lines of the broken version are not known")
    traffic = {}
    for one in found["traffic"]:
        file, line = place(one["where"])
        if file == ran:
            count = "sectors" if one["memory"] == "global" else "wavefronts"
            cell = traffic.setdefault((line, one["memory"]), [0, 0])
            cell[0] += one[count]
            cell[1] += one["ideal"]
    findings = [
        [place(f["where"])[1], place(f["other"])[1] if f["other"] else 0, f["kind"], f["message"]]
        for f in found["findings"]
    ]
    return {
        "name": name,
        "words": words,
        "file": ran,
        "lines": numbered,
        "traffic": [[line, memory, *cell] for (line, memory), cell in sorted(traffic.items())],
        "findings": findings,
    }


def traces(programs):
    """What the watched lab counts for steps of lesson 04, and finds in the broken kernels."""
    lesson = "04_tiled_matmul"
    result = []
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch, "trace.json")
        command = [programs / lesson / lesson, "--section", "trace", "--json", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        traced = json.loads(file.read_text(encoding="utf-8"))
    for one in traced:
        if one["kernel"][:2] in TRACED and not one["group"].startswith("C = A B^T"):
            size = " x ".join(str(n) for n in one["inputs"][0])
            ran = f"{lesson}/kernels/{one['kernel'].split(',')[0]}.cuh"
            text = (ROOT / ran).read_text(encoding="utf-8")
            words = f"{one['group']}, inputs of {size}"
            result.append(report(one["kernel"], words, text, ran, one))
    command = [programs / "common" / "broken_on_lab"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    text = (ROOT / BROKEN).read_text(encoding="utf-8")
    for one in map(json.loads, printed.splitlines()):
        result.append(report(one["name"], one["wrong"], text, BROKEN, one["report"]))
    return result


ORDERS = ("01_unfused", "02_flash_1", "03_flash_2")  # of lesson 05


def bytes_moved(programs):
    """What three orders of attention read and write as the lab counts it, and their times."""
    command = [programs / FORWARD / FORWARD, "--section", "traffic"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    rows = re.findall(rf"^({'|'.join(ORDERS)})((?: +\d+){{4}})", printed, re.MULTILINE)
    counted = [[name, *map(int, numbers.split())] for name, numbers in rows]
    record = records.read(RESULTS / "h200_05_flash_forward.json")
    length, dim, group = 4096, 64, "float32, D 64"
    timed = [
        one
        for one in record["measurements"]
        if (one["group"], one["length"]) == (group, length) and one["kernel"] in ORDERS
    ]
    tokens, columns = map(int, re.findall(r"= (\d+)", timed[0]["title"]))
    measured = {
        "gpu": record["gpu"],
        "length": length,
        "dim": dim,
        "sequences": tokens // length,
        "heads": columns // dim,
        "milliseconds": {one["kernel"]: one["milliseconds"] for one in timed},
    }
    return [measured, counted]


DATA = ROOT / "common/data/alice_minilm"
TOKENS = 24  # the first words of the text, up to the colon


def tensor(file):
    """(shape, float32 elements) of a .npy file of version 1.0."""
    blob = file.read_bytes()
    header, _, rest = blob[10:].partition(b"\n")
    shape = ast.literal_eval(header.decode())["shape"]
    return shape, array.array("f", rest)


def first(name):
    """(heads, head_dim, elements) of q or k, cut to the first tokens."""
    (_, heads, length, dim), every = tensor(DATA / f"{name}.npy")
    return heads, dim, [x for h in range(heads) for x in every[h * length * dim :][: TOKENS * dim]]


def alice():
    """q and k of the first tokens, as integers of 16 bits times a step."""
    tokens = (DATA / "tokens.txt").read_text(encoding="utf-8").split()
    result = {"tokens": tokens[:TOKENS], "steps": {}}
    for name in "qk":
        result["heads"], result["dim"], kept = first(name)
        step = max(map(abs, kept)) / 32767
        rounded = array.array("h", (round(x / step) for x in kept))
        result["steps"][name] = step
        result[name] = base64.b64encode(rounded.tobytes()).decode()
    return [result]


RING = HERE / "tests/ring.cpp"


def stages(programs):
    """What the warps of a ring of stages do in the lab, right and with one mistake, and what the
    lab says, with the lines of the kernel in place of their numbers."""
    lines = RING.read_text(encoding="utf-8").splitlines()

    def quoted(words):
        def line(match):
            return f'"{lines[int(match[1]) - 1].strip().rstrip(";")}"'

        return re.sub(rf"(?:[\w./-]*{RING.name}:|\bline )(\d+)", line, words)

    command = [programs / "docs" / "explorer_ring"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    result = json.loads(printed)
    for ring in result:
        error = re.split(r"\n  \d+ findings?:", ring.pop("error"))[0]
        says = [line.strip() for line in error.splitlines()]
        for one in ring.pop("report")["findings"]:
            where = " and ".join(filter(None, (one["where"], one["other"])))
            says.append(f"{one['kind']}: {where}: {one['message']}")
        ring["says"] = [quoted(words) for words in says or ["No findings."]]
    return result


MAKERS = {"stages": stages, "pipeline": pipeline, "traces": traces, "bytes": bytes_moved}


def text_of(name, value):
    """The script; a line for each entry."""
    lines = ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in value)
    return f"(window.explorerData = window.explorerData || {{}}).{name} = [\n{lines}\n];\n"


def write_made(folder):
    """The data that are not in the repository; steps.json is what lesson 03 saves of its steps."""
    made, steps = {"roofline": roofline(), "alice": alice()}, folder / "steps.json"
    if steps.is_file():
        made["stepper"] = [json.loads(steps.read_text(encoding="utf-8"))]
    for name, value in made.items():
        (folder / f"{name}_data.js").write_text(text_of(name, value), encoding="utf-8")


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Write the data of the explorers.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/learn"))
    parser.add_argument("--made", type=pathlib.Path, metavar="FOLDER", help="write the others")
    parser.add_argument("names", nargs="*", help="explorers; all without a name")
    options = parser.parse_args(arguments)
    old = []
    try:
        if options.made:
            write_made(options.made)
            return 0
        for name in options.names or MAKERS:
            file = HERE / f"{name}_data.js"
            text = text_of(name, MAKERS[name](options.programs.resolve()))
            if not options.check:
                file.write_text(text, encoding="utf-8")
            elif not file.is_file() or file.read_text(encoding="utf-8") != text:
                old.append(file.name)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        print(f"data.py: {error}", file=sys.stderr)
        return 2
    for name in old:
        print(f"{name} is out of date: python3 -m docs.explorers.data --programs BUILD")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
