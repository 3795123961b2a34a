"""The gate: the grader is tested harder than the students. For every exercise

    the start compiles, and fails where and because it is meant to
    the solution passes every stage, and so do at least two right answers in other styles, if the
    exercise asks for code
    every typical wrong answer is refused by its stage, with a message that names the misconception

    one mutant of the solution is refused

and a table says which stage caught what. With --mutants: every mutant of every solution
(mutants.py) is refused or listed as equivalent, most with a message that names a misconception.
With --hostile: no hostile submission (hostile.py) gets marks.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import os
import subprocess
import sys
import time

from common.classroom import batch, catalogue, grading, hostile, mutants, numbers, record, unset
from common.classroom.toolchain import Toolchain


def first_refusal(results):
    """The first stage that refused; None when all passed."""
    return next((result for result in results if result.verdict == "refused"), None)


def one_line(message):
    """The beginning of a message."""
    return " ".join(message.split())[:70]


def grade_cases(toolchain, batch_of):
    """Grades a batch of answers; returns rows of the table."""
    exercise, own = batch_of
    together = [answer for _, _, answer, stage, _ in own if stage != "compiles"]
    compile_together(toolchain, exercise, together)
    return [grade_case(toolchain, exercise, *case) for case in own]


def grade_case(toolchain, exercise, kind, name, answer, stage, says):
    """Grades one answer as the gate wants it; returns a row of the table."""
    began = time.monotonic()
    results = grading.grade(toolchain, exercise, answer, stop=kind != "start")
    refusal, passed = first_refusal(results), [r.name for r in results[1:] if r.passed]
    have = graded(toolchain, exercise) if kind == "solution" else []
    wanted = list(exercise.points)[1:]
    row = {
        "exercise": exercise.id,
        "answer": name,
        "kind": kind,
        "stage": refusal.name if refusal else "-",
        "message": refusal.message if refusal else "passes",
        "seconds": time.monotonic() - began,
        "fault": "",
    }
    if stage is None:
        if refusal:
            row["fault"] = f"must pass, and is refused: {refusal.message}"
        elif kind == "solution" and have != wanted:
            row["fault"] = f"lesson.json has the stages {wanted}, and the grader {have}"
    elif not refusal:
        row["fault"] = "must be refused" + f" by '{stage}'" * bool(stage) + ", and passes"
    elif stage and refusal.name != stage:
        row["fault"] = (
            f"must be refused by '{stage}', and is by '{refusal.name}': {refusal.message}"
        )
    elif kind == "start" and passed != exercise.start_passes:
        row["fault"] = f"start_passes is {exercise.start_passes}, and the start passes {passed}"
    elif " ".join(says.split()) not in " ".join(refusal.message.split()):
        row["fault"] = f"the message must hold '{says}'; it is: {refusal.message}"
    return row


def cases(toolchain, exercise):
    """All answers to an exercise with what must come of them; compiles its grader."""
    toolchain.grader(exercise)
    found = [
        ("start", "the start", exercise.start(), *exercise.start_fails),
        ("solution", "the solution", grading.solution(toolchain, exercise), None, ""),
    ]
    for name, _about, stage, says, answer in grading.wrong_answers(toolchain, exercise):
        found.append(("wrong", name, answer, stage, says))
    for name, answer in exercise.right_answers():
        found.append(("right", name, answer, None, ""))
    for mutant in mutants.sample(to_refuse(exercise), 1):
        found.append(("mutant", f"mutant {mutant.name}", mutant.text, "", ""))
    return found


BATCH = 40  # answers that are compiled together


def in_processes(jobs, toolchain, function, work):
    """function(toolchain, item) of each item of work, in its order, as they become ready."""
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(
        max(1, jobs), context, Worker.begin, (toolchain, function)
    ) as pool:
        yield from pool.map(Worker.run, work)


class Worker:
    """A process of in_processes(), which has what it needs from the one that began it."""

    @classmethod
    def begin(cls, toolchain, function):
        """Once for a process."""
        cls.toolchain, cls.function = toolchain, staticmethod(function)

    @classmethod
    def run(cls, item):
        """Of one item."""
        return cls.function(cls.toolchain, item)


def batches(groups):
    """(exercise, some of its items) for (exercise, items)."""
    for exercise, items in groups:
        for begin in range(0, len(items), BATCH):
            yield exercise, items[begin : begin + BATCH]


def compile_together(toolchain, exercise, answers, explain=True):
    """Compiles what grading.grade() then finds."""
    toolchain.made = {}
    if not exercise.predicts and len(answers) > 1:
        filled = (unset.filled(exercise, answer) for answer in answers if explain)
        answers = [*answers, *(text for text, names in filled if names)]
        toolchain.made = batch.programs(toolchain, exercise, answers)


def to_refuse(exercise):
    """Mutants of an exercise that compute something else. A test of the student's own may be
    another one and as good; predictions have no code."""
    if exercise.predicts or exercise.kind == "prove":
        return []
    equivalent = mutants.equivalent(exercise)
    return [m for m in mutants.mutants(exercise) if not m.keys & equivalent.keys()]


def few_styles(chosen):
    """Faults: exercises with code that have fewer than two right answers besides the solution."""
    counts = {e.id: len(e.right_answers()) for e in chosen if not e.predicts}
    return [
        f"{name} has {count} right answers in other styles; at least two are needed"
        for name, count in counts.items()
        if count < 2
    ]


def unlisted(root):
    """Faults: folders of exercises that the lesson's lesson.json does not have."""
    tasks = {task.parent for task in root.glob("[0-9][0-9]_*/exercises/*/task.md")}
    missing = tasks - {exercise.folder for exercise in catalogue.exercises(root)}
    return [f"{folder} is not listed in lesson.json" for folder in sorted(missing)]


def graded(toolchain, exercise):
    """The stages that an exercise's grader has, or its questions."""
    if exercise.predicts:
        return [question["name"] for question in numbers.questions(toolchain, exercise)]
    words = [str(toolchain.grader(exercise)), "--stages"]
    return subprocess.run(words, capture_output=True, text=True).stdout.split()


def read_options(arguments):
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="./learn classroom gate", description="Tests the grader itself."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="ID", help="only these exercises or lessons")
    add("--seed", help="the variants that a class with this seed has")
    add("--jobs", type=int, default=os.cpu_count() or 1)
    add("--messages", action="store_true", help="print the message of each refusal")
    add("--times", action="store_true", help="only print how long checks of each solution take")
    add(
        "--record",
        metavar="FILE",
        help="add the figures to this record, docs/results/exercises.json",
    )
    add("--mutants", action="store_true", help="only grade all mutants of the solutions")
    add("--hostile", action="store_true", help="only grade hostile submissions")
    return parser.parse_args(arguments)


def main(arguments, root, toolchain):
    """Runs the gate; returns 0 when all holds."""
    options = read_options(arguments)
    tools = toolchain()
    chosen = catalogue.choose(options.names, root, options.seed)
    if not all(exercise.has_solution() for exercise in chosen):
        print(
            "This copy of the course was made without solutions, so there is nothing to test with."
        )
        return 77
    if options.times:
        return print_times(tools, chosen, options)
    if options.mutants:
        return grade_mutants(tools, chosen, options)
    if options.hostile:
        return grade_hostile(tools, chosen, options)
    return grade_answers(tools, chosen, options, few_styles(chosen) + unlisted(root))


def grade_answers(tools, chosen, options, faults):
    """Grades all answers of the exercises; returns 0 when all is as it must be."""
    began = time.monotonic()
    work = list(zip(chosen, in_processes(options.jobs, tools, cases, chosen)))
    for exercise, own in work:
        if len(exercise.hints()) != 3:
            faults.append(f"{exercise.id} has {len(exercise.hints())} hints; three are needed")
        wrong = sum(case[0] == "wrong" for case in own)
        if wrong < 3:
            faults.append(f"{exercise.id} has {wrong} wrong answers; at least three are needed")
    graded_batches = in_processes(options.jobs, tools, grade_cases, batches(work))
    rows = [row for some in graded_batches for row in some]
    print_table(rows, options.messages)
    faults += [
        f"{row['exercise']}, {row['answer']}: {row['fault']}" for row in rows if row["fault"]
    ]

    def count(kind):
        own = [row for row in rows if row["kind"] == kind]
        return len(own), sum(not row["fault"] for row in own)

    wrong, caught = count("wrong")
    right, passed = count("right")
    with_code = [exercise for exercise in chosen if not exercise.predicts]
    least = min((len(exercise.right_answers()) for exercise in with_code), default=0)
    print(
        f"\n{len(chosen)} exercises, {wrong} wrong answers, {caught} of them refused for "
        f"the right reason."
    )
    print(
        f"{right} right answers in other styles to {len(with_code)} exercises with code, "
        f"{passed} of them accepted; at least {least} per exercise."
    )
    solutions = [row for row in rows if row["kind"] == "solution"]
    slowest = max(solutions, key=lambda row: row["seconds"])
    print(
        f"Slowest check of a solution: {slowest['exercise']}, {slowest['seconds']:.1f} s, "
        f"with {options.jobs} at a time; in all {time.monotonic() - began:.0f} s.",
        file=sys.stderr,
    )
    for exercise in chosen:
        own = [row for row in rows if row["exercise"] == exercise.id]
        kinds = {kind: [row for row in own if row["kind"] == kind] for kind in ("wrong", "right")}
        note(
            tools,
            options,
            exercise,
            wrong_graded=len(kinds["wrong"]),
            refused=sum(not row["fault"] for row in kinds["wrong"]),
            right_graded=len(kinds["right"]),
            accepted=sum(not row["fault"] for row in kinds["right"]),
        )
    for fault in faults:
        print(f"FAULT: {fault}")
    return 1 if faults else 0


def note(tools, options, exercise, **fields):
    """Adds figures of an exercise to the record, if one is wanted."""
    if options.record:
        record.note(options.record, tools.compiler, {exercise.id: fields})


LEAST_SPECIFIC = 0.8  # of the refused mutants


def grade_mutants(tools, chosen, options):
    """Grades mutants; returns 0 when all are refused or equivalent, and enough of them with a
    message that names something."""
    began, work = time.monotonic(), []
    for exercise in chosen:
        if exercise.predicts or exercise.kind == "prove":
            continue
        known = {key for mutant in mutants.mutants(exercise) for key in mutant.keys}
        for change in mutants.equivalent(exercise).keys() - known:
            print(f"FAULT: {exercise.id}/frame.txt: there is no mutant {change[0]} -> {change[1]}")
            return 1
        work.append((exercise, to_refuse(exercise)))
    list(in_processes(options.jobs, tools, Toolchain.grader, [exercise for exercise, _ in work]))
    compiled = []
    rows = itertools.chain.from_iterable(
        in_processes(options.jobs, tools, mutant_verdicts, batches(work))
    )
    for exercise, own in itertools.groupby(rows, key=lambda row: row[0]):
        own = [row for row in own if row[2] is None or row[2].name != "compiles"]
        print_mutants(exercise, own, options.messages)
        sys.stdout.flush()
        refused = sum(refusal is not None for _, _, refusal in own)
        note(tools, options, exercise, mutants=len(own), mutants_refused=refused)
        compiled += own
    accepted = [row for row in compiled if row[2] is None]
    refused = [row for row in compiled if row[2] is not None]
    specific = [row for row in refused if not mutants.is_default(row[2].message)]
    share = len(specific) / len(refused) if refused else 1
    print(
        f"\n{len(compiled)} mutants that compile, {len(refused)} refused, {share:.0%} of these "
        f"with a message that names something."
    )
    print(f"In all {time.monotonic() - began:.0f} s.", file=sys.stderr)
    for exercise, mutant, _ in accepted:
        print(f"FAULT: {exercise.id} accepts {mutant.name}")
    too_few = share < LEAST_SPECIFIC
    if too_few:
        print(f"FAULT: at least {LEAST_SPECIFIC:.0%} of the messages must name something")
    return 1 if accepted or too_few else 0


def mutant_verdicts(toolchain, batch_of):
    """What came of a batch of mutants: rows of exercise, mutant and what refused it."""
    exercise, own = batch_of
    compile_together(toolchain, exercise, [mutant.text for mutant in own], explain=False)
    return [
        (
            exercise,
            mutant,
            first_refusal(grading.grade(toolchain, exercise, mutant.text, explain=False)),
        )
        for mutant in own
    ]


def grade_hostile(tools, chosen, options):
    """Grades hostile submissions; returns 0 when none gets marks."""
    list(in_processes(options.jobs, tools, Toolchain.grader, chosen))
    work = [(exercise, name) for exercise in chosen for name in hostile.submissions(exercise)]
    rows = list(zip(work, in_processes(options.jobs, tools, hostile.passed, work)))
    for exercise in chosen:
        own = [passed for case, passed in rows if case[0] == exercise]
        refused = sum(not passed for passed in own)
        print(f"{exercise.id:<28} {len(own)} hostile submissions, {refused} refused")
        note(tools, options, exercise, hostile=len(own), hostile_refused=refused)
    faults = [(*case, passed) for case, passed in rows if passed]
    for exercise, name, passed in faults:
        print(f"FAULT: {exercise.id}: '{name}' passes {', '.join(passed)}")
    return 1 if faults else 0


def print_mutants(exercise, rows, messages):
    """A line for an exercise and, if wanted, two for each mutant that is refused."""
    if not rows:
        return
    refused = [(mutant, refusal) for _, mutant, refusal in rows if refusal]
    named = sum(not mutants.is_default(refusal.message) for _, refusal in refused)
    print(
        f"{exercise.id:<28} {len(rows):>4} mutants, {len(refused):>4} refused, "
        f"{named:>4} of them with a message that names something"
    )
    for mutant, refusal in refused if messages else ():
        print(f"    {mutant.name}\n        {refusal.name}: {one_line(refusal.message)}")


def print_times(tools, chosen, options):
    """How long the first check of an exercise takes, which compiles its grader, and a later one: of
    what runs longest, the solution; one at a time. Returns 0 when all pass."""
    failed = 0
    for exercise in chosen:
        answer = grading.solution(tools, exercise)
        for kept in tools.cache.glob(f"{exercise.id}-*"):
            kept.unlink()
        used = {}
        words = []
        for name in ("first", "later"):
            began, before = time.monotonic(), sum(os.times()[:4])
            refusal = first_refusal(grading.grade(tools, exercise, answer))
            used[f"{name}_seconds"] = round(sum(os.times()[:4]) - before, 2)
            words.append(
                f"{name} {time.monotonic() - began:4.1f} s, "
                f"of a processor {used[f'{name}_seconds']:4.1f} s"
            )
            failed += refusal is not None
        print(f"{exercise.id:<28} {'; '.join(words)}{'  FAULT: refused' if refusal else ''}")
        sys.stdout.flush()
        note(tools, options, exercise, **used)
    return 1 if failed else 0


def print_table(rows, messages):
    """Which stage refused which answer."""
    width = max(len(row["answer"]) for row in rows)
    width = min(width, 44)
    exercise = ""
    for row in rows:
        if row["exercise"] != exercise:
            exercise = row["exercise"]
            print(f"\n{exercise}")
        mark = "  FAULT" if row["fault"] else ""
        caught = "passes" if row["stage"] == "-" else row["stage"]
        print(f"  {row['answer'][:width]:<{width}}  {caught}{mark}")
        if messages and row["stage"] != "-":
            print(f"      {one_line(row['message'])}")
