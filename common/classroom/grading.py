"""Grades an answer to an exercise, stage by stage."""

import concurrent.futures
import re

from common.classroom import catalogue, numbers, sandbox, unset
from common.classroom.stage import run_stage, stages_of
from common.classroom.toolchain import scratch_folder

COMPILE_LINES = 14  # of a compiler's messages
# What GCC and Clang print when the system has ended a process that they had started.
ENDED_COMPILER = re.compile(
    r"error: (?:unable to execute command: )?(?:CPU time limit exceeded|Killed)"
    r"(?: signal terminated program|$)",
    re.MULTILINE,
)


def compiler_says(outcome, scratch, shown):
    """The first lines of a compiler that a student can use."""
    if outcome.exceeded:
        return f"the compiler was stopped: {outcome.exceeded}"
    ended = ENDED_COMPILER.search(outcome.output)
    if outcome.timed_out or ended and "CPU" in ended[0]:
        return "the compiler did not finish within its time limit"
    if ended:
        return "the compiler was stopped: it used too much memory or reached its time limit"
    lines = []
    for line in outcome.output.replace(f"{scratch}/student/", "student/").split("\n"):
        if "error:" in line or lines:
            lines.append(line)
    lines = lines or outcome.output.strip().split("\n")
    text = "\n".join(lines[:COMPILE_LINES])
    return f"it does not compile{caller(outcome.output, scratch, shown)}:\n\n" + renamed(
        text, scratch, shown
    )


def caller(output, scratch, shown):
    """The student's line that leads to an error in a library's template, ", because of FILE:LINE:
    CODE"; empty when the error is in the student's file."""
    first = re.search(r"^(.*): (?:fatal )?error:", output, re.MULTILINE)
    if not first or "/student/" in first[1]:
        return ""
    at = re.compile(r"/student/([\w.]+):(\d+):\d+:")
    # GCC lists those who instantiate a template before the error, Clang behind it.
    met = at.search(output, 0, first.start()) or at.search(output, first.end())
    if not met:
        return ""
    code = (scratch / "student" / met[1]).read_text(encoding="utf-8").split("\n")
    return f", because of {shown}{met[1]}:{met[2]}: `{code[int(met[2]) - 1].strip()}`"


def renamed(text, scratch, shown):
    """A message with the student's own path in place of the copy's."""
    text = text.replace(f"{scratch}/", "").replace(f"{catalogue.ROOT}/", "")
    return re.sub(r"(?<![\w/.])(?:\.\./)*(?:tmp/[\w./-]*)?student/(?=[\w.]+)", shown, text)


ANSWER = re.compile(r"^\s*(?://|#)\s*answer:(.*)$", re.MULTILINE)


def evidence(exercise, answer):
    """What stands behind `answer:` in a student's file, and the lines of the start that its whole
    numbers mean."""
    given = " ".join(text.strip() for text in ANSWER.findall(answer))[:1000].replace("?", "")
    lines = exercise.start().split("\n")
    named = [int(word) for word in re.findall(r"(?<![\w.-])\d{1,6}(?![\w.])", given)]
    return "\n".join([given, *(lines[n - 1] for n in named if 0 < n <= len(lines))])


# Tokens that end what a comment could seem to begin in, and comments.
PIECES = re.compile(
    r"""(\b\d[\w.']*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL
)
# Keeps an access from the lab.
HIDING = re.compile(r"FA_UNWATCHED|\w*sanitize\w*")


def code_of(text):
    """A file without its comments, its continued lines joined, so that names are whole; with its
    comments where a raw string could hold what looks like one."""
    text = re.sub(r"\\[ \t]*\n", "", text)
    return text if 'R"' in text else PIECES.sub(lambda piece: piece[1] or " ", text)


def one_thread():
    """For what is done at the same time."""
    return concurrent.futures.ThreadPoolExecutor(1)


def compiled(toolchain, exercise, answer, scratch):
    """Compiles a text of the student's file; returns the sandbox's outcome."""
    (scratch / "student").mkdir()
    (scratch / "student" / exercise.file).write_text(answer, encoding="utf-8")
    if made := toolchain.made.get(answer):
        (scratch / "program").write_bytes(made)
        (scratch / "program").chmod(0o755)
        return sandbox.Outcome(0, False, "", "", 0)
    return toolchain.compile(exercise, scratch)


def compile_answer(toolchain, exercise, answer, scratch, result, progress):
    """Compiles the student's file, and at the same time the grader, which is compiled once.
    `result` is the stage's."""
    progress("compiling your file")
    with one_thread() as pool:
        grader = pool.submit(toolchain.grader, exercise)
        outcome = compiled(toolchain, exercise, answer, scratch)
        result.seconds = outcome.seconds
        if outcome.status == 0:
            if not grader.done():
                progress("building this exercise's grader, once")
            grader.result()
    result.verdict = "refused" if outcome.status else "passed"
    return outcome


def take(result, said, verdict_required):
    """Takes into a stage's result what its grader said."""
    result.verdict, result.message = said["verdict"], said.get("message", "")
    result.notes, result.drawing = said.get("notes", []), said.get("drawing", "")
    if result.verdict == "skipped" and verdict_required:
        result.message = "the stage ended without a verdict, which is allowed only without a lab"
    if result.verdict != "passed" and (result.verdict != "skipped" or verdict_required):
        result.verdict = "refused"


def grade(toolchain, exercise, answer, stop=True, shown="", progress=None, explain=True):
    """Grades an answer.

    @param answer the text of the student's file
    @param stop   at the first stage that refuses, as for students; else only what needs a right
        result is left out
    @param shown  what to call the folder of the student's file in messages, with its slash
    @param progress called with what is done next, in words
    @param explain whether a refusal may become one that names a variable without a value
    """
    progress = progress or (lambda _words: None)
    if exercise.predicts:
        return numbers.grade(toolchain, exercise, answer)
    results = stages_of(exercise)
    if exercise.machine == "lab" and (hiding := HIDING.search(code_of(answer))):
        results[0].verdict = "refused"
        results[0].message = f"'{hiding[0]}' keeps accesses from the lab, and no answer needs it"
        return results
    filled, names = unset.filled(exercise, answer)
    with scratch_folder() as scratch, scratch_folder() as other, one_thread() as pool:

        def fill():
            return pool.submit(compiled, toolchain, exercise, filled, other)

        # At the same time as the answer: it is needed for all that compile.
        filling = fill() if names and explain else None
        outcome = compile_answer(toolchain, exercise, answer, scratch, results[0], progress)
        if not results[0].passed:
            results[0].message = compiler_says(outcome, scratch, shown)
            return results
        run_stages(toolchain, exercise, answer, scratch, results, stop, shown, progress)
        if names and (explain or all(result.passed for result in results)):
            if (filling or fill()).result().status == 0:
                refuse_unset(toolchain, exercise, answer, results, shown, names, other)
    return results


def marks(toolchain, exercise, answer):
    """Grades an answer to the end, for its points. Stages that the start passes count only with
    another one: alone, they show no work."""
    results = grade(toolchain, exercise, answer, stop=False)
    alone = [result for result in results[1:] if result.name in exercise.start_passes]
    if not any(result.passed for result in results[1:] if result not in alone):
        for result in alone:
            if result.passed:
                result.verdict = "not reached"
                result.message = "the file passed this at the start: it counts with another stage"
    return results


def run_stages(toolchain, exercise, answer, scratch, results, stop, shown, progress):
    """Runs all stages but the first, which has compiled the student's program."""
    for result in results[1:]:
        # Each its own: what a stage leaves may not be removable.
        folder = scratch / f"work_{result.name}"
        folder.mkdir()
        progress(f"checking: {result.title}")
        found, program = evidence(exercise, answer), scratch / "program"
        said, result.seconds = run_stage(
            toolchain, exercise, folder, result.name, program, shown, found=found
        )
        take(result, said, toolchain.watched or exercise.machine != "lab")
        result.message = renamed(result.message, scratch, shown)
        # What a bug hunt asks for first is not needed for the rest.
        first = next(r for r in results[1:] if r.name != "found")
        if not result.passed and (stop or result is first):
            return


def differing_stage(toolchain, exercise, scratch, results, shown):
    """The first of the stages that ends otherwise with another program."""
    for result in results:
        folder = scratch / f"work_{result.name}"
        folder.mkdir()
        program = scratch / "program"
        said, _seconds = run_stage(toolchain, exercise, folder, result.name, program, shown)
        message = renamed(said.get("message", ""), scratch, shown)
        if (said["verdict"], message) != (result.verdict, result.message):
            return result
    return None


def refuse_unset(toolchain, exercise, answer, results, shown, names, scratch):
    """Refuses an answer whose result depends on a local variable that was never set: it may be
    right by chance, and what it is says nothing.

    @param names   of the variables that the answer declares without a value
    @param scratch with the program in which all of them have one
    """
    refused = [result for result in results if result.verdict == "refused"]
    # Counts and findings change with the stores that set the variables.
    others = ("found", "races", "traffic")
    tried = [result for result in refused[:1] or results[1:] if result.name not in others]
    differing = differing_stage(toolchain, exercise, scratch, tried, shown)
    for name in names if differing else ():
        if len(names) > 1:
            filled, _ = unset.filled(exercise, answer, name)
            with scratch_folder() as own:
                if compiled(toolchain, exercise, filled, own).status != 0:
                    continue
                differing = differing_stage(toolchain, exercise, own, tried, shown)
        if differing:
            differing.verdict = "refused"
            differing.message = (
                f"the result depends on {name}, which is read before it has a value: set it where "
                f"it is declared; without, it holds whatever was in its register or memory before"
            )
            return


def solution(toolchain, exercise):
    """The solution of any exercise."""
    return numbers.solution(toolchain, exercise) if exercise.predicts else exercise.solution()


def wrong_answers(toolchain, exercise):
    """Typical wrong answers: name, description, stage that refuses, part of its message, text of
    the file."""
    if exercise.predicts:
        return numbers.wrong_answers(toolchain, exercise)
    right = exercise.solution()
    return [(w.name, w.about, w.stage, w.says, w.apply(right)) for w in exercise.answers("wrong")]
