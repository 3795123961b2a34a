"""Times a step with changes, one at a time and one after the other; most take back an idea of it.

    python3 -m common.bench.ablations [LESSON[/STEP]...] [--json FILE] [--commit ID]
    python3 -m common.bench.ablations [LESSON[/STEP]...] --table FILE

The changes are to the one file of a step (./learn flatten), listed in its lesson's
src/ablations.txt: each alone, and all up to it. Every variant is compiled by nvcc, checked as the
step is, and timed by check_and_time() in src/one_file.cu. The second form prints a record.

Exit status: 0 done, 2 a variant is wrong or cannot be compiled, 77 nvcc or a GPU is missing.
"""

import concurrent.futures
import os
import pathlib
import re
import statistics
import sys
import tempfile

from common.bench import recorder
from common.bench.recorder import compiled, run
from common.data.changes import Change, read_changes
from common.data.records import Problem, aligned, source_lines
from common.flatten import flatten

OPTIONS = ("-O3", "--expt-relaxed-constexpr")
ROUNDS = 3  # of all variants: what drifts, such as the clock, drifts for all
TIME = re.compile(r"^(\w+): ([\d.]+) ms$", re.MULTILINE)  # what a program prints


def timed(lesson, step):
    """The step's one file with a main() that also times."""
    program = flatten.program_of(lesson, step)
    return flatten.flatten(
        lesson, step, re.sub(r"return check(_\w+)?<", "return check_and_time<", program)
    )


def find_steps(text):
    """[(lesson, step)] of LESSON/STEP, such as 05/08; of LESSON all that have ablations."""
    lesson, slash, step = text.partition("/")
    if slash:
        return [flatten.find_step(lesson, step)]
    found = [(name, step) for name, step in ideas() if lesson in (name, name[:2])]
    if not found:
        raise Problem(f"'{text}' is neither LESSON/STEP nor a lesson with ablations")
    return found


def ideas():
    """{(lesson, step): the changes that take its ideas back}."""
    found = {}
    for path in sorted(flatten.ROOT.glob("0*/src/ablations.txt")):
        for change in read_changes(path.read_text(encoding="utf-8"), path.name):
            found.setdefault((path.parents[1].name, change.mark), []).append(change)
    return found


def variants(lesson, step):
    """{(what is taken back, alone or with all before it): text}; nothing is taken back in ""."""
    text, taken_back = timed(lesson, step), ideas().get((lesson, step))
    if taken_back is None:
        raise Problem(f"{lesson}/src/ablations.txt says nothing of {step}")
    found = {("", "alone"): text}
    for number, idea in enumerate(taken_back):
        found[idea.what, "alone"] = idea.apply(text)
        hunks = [hunk for before in taken_back[: number + 1] for hunk in before.hunks]
        found[idea.what, "so far"] = Change(idea.what, hunks=hunks).apply(text)
    return found


def points(steps):
    """Of all steps that have ablations without steps."""
    return {
        f"{lesson}/{step}": {"lesson": lesson[:2], "step": step}
        for lesson, step in steps or ideas()
    }


def measure(nvcc, names):
    """Rows of the record."""
    for name in names:
        yield measure_step(*name.split("/"), nvcc)


def measure_step(lesson, step, nvcc):
    """A row for each variant."""
    texts = variants(lesson, step)
    with tempfile.TemporaryDirectory() as folder:

        def build(number, text):
            return compiled(nvcc, text, pathlib.Path(folder, str(number)), *OPTIONS)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            different = dict.fromkeys(texts.values())  # the first alone is all up to it, too
            built = dict(zip(different, pool.map(build, range(len(different)), different)))
        programs = {variant: built[text] for variant, text in texts.items()}
        times = {variant: [] for variant in texts}
        for _ in range(ROUNDS):
            for variant, program in programs.items():
                found = TIME.findall(run(program))
                times[variant].append({f"{name}_ms": float(ms) for name, ms in found})
    return [
        {
            "what": "ablation",
            "lesson": lesson[:2],
            "step": step,
            "taken_back": what,
            "order": order,
            **{
                name: round(statistics.median(one[name] for one in times[what, order]), 4)
                for name in times[what, order][0]
            },
        }
        for what, order in texts
    ]


def table(record, wanted):
    """Lines of a record's tables, of all its steps or of those (lesson, step) that are wanted."""
    lines = []
    steps = dict.fromkeys((row["lesson"], row["step"]) for row in record["measurements"])
    for lesson, step in steps:
        if wanted and not any(lesson == name[:2] and step == other for name, other in wanted):
            continue
        times = {
            (row["taken_back"], row["order"]): row
            for row in record["measurements"]
            if (row["lesson"], row["step"]) == (lesson, step)
        }
        whole = times["", "alone"]
        names = [field.removesuffix("_ms") for field in whole if field.endswith("_ms")]
        cells = [["change", *names, *(f"with all above: {name}" for name in names)]]
        for what in dict.fromkeys(what for what, _ in times if what):
            both = (times[what, "alone"], times[what, "so far"])
            ratios = [
                f"{one[f'{name}_ms'] / whole[f'{name}_ms']:.2f}" for one in both for name in names
            ]
            cells.append([what, *ratios])
        lines += [
            f"Times as long as {step} of lesson {lesson}: "
            + ", ".join(f"{whole[f'{name}_ms']:.3f} ms {name}" for name in names),
            *aligned(cells, 1),
            "",
        ]
    return lines + source_lines(record)


def main(arguments):
    return recorder.main(arguments, "ablations", points, measure, table, steps_of=find_steps)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
