"""Grades an answer to an exercise, stage by stage: compiles it, runs each stage of the grader
beside the student's program, and says in words how that ended."""

import concurrent.futures
import contextlib
import dataclasses
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import tempfile

from common.classroom import catalogue, numbers, sandbox
from common.classroom.catalogue import Fault
from common.classroom.toolchain import scratch_folder
from common.data.files import write_file

RUN = sandbox.Limits()
LONGEST = 200_000  # bytes of a student's file
COMPILE_LINES = 14  # of a compiler's messages
ANSWER = re.compile(r"^\s*(?://|#)\s*answer:(.*)$", re.MULTILINE)
NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf(?:inity)?|nan)\b", re.I
)
# Keeps an access from the lab.
HIDING = re.compile(
    r"FA_UNWATCHED|\w*sanitize\w*|\b_mm\d*_\w+|\b__builtin_ia32\w+|\b_*asm\w*\s*\w*\s*\("
    r"|\b__builtin_(?!mem(?:cpy|move|set)\b)\w*(?:cpy|copy|zero|cat)\b"
)
OUTSIDE = re.compile(r"^\W*(?:include|import)\w*\W*?[\"<]\s*(/[^\">\n]*)", re.MULTILINE)
SPLICE = re.compile(r"\\[ \t\r\f\v]*\n")  # compilers join these lines
# What a linker misses or has twice; an error in the entry that comes before any other.
LINKER = re.compile(r"(?:undefined (?:reference to|symbol:)|multiple definition of) [^;\n]*")
ENTRY = re.compile(
    r"\A(?:(?!error:)[\s\S])*?^(?:\S*/)?entry\.cpp:\d+:\d+: error: (.*)", re.MULTILINE
)
# Addresses where a program was when it ended, from entry.cpp.
FRAMES = re.compile(r"^@frames((?: [0-9a-f]+)+)$", re.MULTILINE)
ASSERTION = re.compile(r"Assertion [`'](.*?)' failed", re.DOTALL)
REASONS = {
    signal.SIGSEGV: "it accessed memory that is not its own: an index out of range?",
    signal.SIGABRT: "it called abort(), or the C++ library did",
    signal.SIGILL: "an index lies beyond the end of an array",
    signal.SIGFPE: "it divided an integer by zero",
    signal.SIGXFSZ: "it printed or wrote more than a check may",
    signal.SIGBUS: "it accessed memory that is not mapped",
}


@dataclasses.dataclass
class StageResult:
    """How one stage ended."""

    name: str
    title: str
    points: float
    verdict: str = "not reached"  # or passed, refused, skipped
    message: str = ""
    notes: list = dataclasses.field(default_factory=list)
    drawing: str = ""

    @property
    def hidden(self):
        """Whether a teacher has added it: the student is told no more than whether it passes."""
        return self.title == catalogue.HIDDEN

    @property
    def passed(self):
        """Whether its points are given; what this machine cannot grade costs nothing."""
        return self.verdict in ("passed", "skipped")


def stages_of(exercise):
    """The stages of an exercise, none of them run."""
    titles = exercise.titles
    return [StageResult(n, titles.get(n, n), points) for n, points in exercise.points.items()]


def text_of(data):
    """The text of a student's file: of UTF-8, and of what editors on Windows write besides. Fault
    for one that is too long."""
    if len(data) > LONGEST:
        raise Fault(f"longer than {LONGEST} bytes, and no answer needs that")
    codes = ("utf-16",) if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252")
    for code in codes:
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode(code).replace("\r\n", "\n")
    return data.decode(codes[-1], "replace").replace("\r\n", "\n")


def side_by_side(work, items, jobs):
    """Yields (index, work(item)) of each item as it is done, by so many processes."""
    if jobs < 2:
        yield from ((at, work(item)) for at, item in enumerate(items))
        return
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(jobs, context) as pool:
        try:
            begun = {pool.submit(work, item): at for at, item in enumerate(items)}
            for done in concurrent.futures.as_completed(begun):
                yield begun[done], done.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise Fault("a process that grades was killed: is memory short? See --jobs") from error
        finally:
            pool.shutdown(cancel_futures=True)


# ---------------------------------------------------------------- the compiler


def compiler_says(output, scratch, shown, file):
    """The first lines of a compiler or linker that a student can use."""
    if re.search(r"error: .*(?:CPU time limit exceeded|Killed)|error: (?:CPU|Killed)", output):
        return "the compiler was stopped: it used too much time or memory"
    if unresolved := list(dict.fromkeys(LINKER.findall(output))):
        return "\n".join(unresolved[:COMPILE_LINES])
    if called := ENTRY.search(output):  # the student's file compiles, and is not what is asked for
        missing = called[1].replace("on_watched_lab", "FA_TARGET")
        says = f"{shown}{file} does not have what the check calls: {missing}\nDoes it keep the "
        says += "names, parameters and namespaces of the start, and close each brace?"
        return f"{says}\n{caller(output, scratch, shown)}".strip()
    lines = output.replace(f"{scratch}/student/", "student/").strip().split("\n")
    errors = [i for i, line in enumerate(lines) if "error:" in line] or [0]
    text = "\n".join(lines[errors[0] :][:COMPILE_LINES])
    return caller(output, scratch, shown) + renamed(text, scratch, shown)


def caller(output, scratch, shown):
    """The student's line that leads to an error in a library's template, "because of FILE:LINE:
    CODE", above it; empty when the error is in the student's file."""
    first = re.search(r"^(.*): (?:fatal )?error:", output, re.MULTILINE)
    if not first or "/student/" in first[1]:
        return ""
    at = re.compile(r"/student/([\w.]+):(\d+):\d+:")
    # GCC lists those who instantiate a template before the error, Clang behind it.
    met = at.search(output, 0, first.start()) or at.search(output, first.end())
    if not met:
        return ""
    code = (scratch / "student" / met[1]).read_text(encoding="utf-8").split("\n")
    return f"because of {shown}{met[1]}:{met[2]}: `{code[int(met[2]) - 1].strip()}`\n\n"


def renamed(text, scratch, shown):
    """A message with the student's own path in place of the copy's."""
    text = text.replace(f"{scratch}/", "").replace(f"{catalogue.ROOT}/", "")
    return re.sub(r"(?<![\w/.])(?:\.\./)*(?:tmp/[\w./-]*)?student/(?=[\w.]+)", shown, text)


# ---------------------------------------------------------------- one stage


def place(program, output, shown):
    """The line of the student's file where a program was, " at FILE:LINE"; empty when its addresses
    do not tell it."""
    frames = FRAMES.findall(output)
    if not frames or not shutil.which("addr2line"):
        return ""
    # All but the first are addresses to return to, one beyond the call.
    first, *others = (int(address, 16) for address in frames[-1].split())
    addresses = [f"{address:x}" for address in (first, *(max(a - 1, 0) for a in others))]
    words = ["addr2line", "-i", "-e", str(program), *addresses]
    lines = subprocess.run(words, capture_output=True, text=True).stdout
    found = re.search(r"/student/([\w.]+:[1-9]\d*)", lines)
    return f" at {shown}{found[1]}" if found else ""


def ended(status, output, where):
    """Why the student's program gave no result; None is a status that took too long."""
    if status is None:
        reason = "does it wait for something that never comes, or is this computer busy?"
        return f"it was still running after {RUN.clock} seconds by the clock{where}: {reason}"
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        reason = "an endless loop, or far too many iterations?"
        spent = f"{RUN.seconds} seconds of processor time"
        return f"it was still running after {spent}{where}: {reason}"
    if status < 0:
        reason = REASONS.get(-status, "for an unknown reason")
        if assertion := ASSERTION.search(output):
            library = "an Eigen" if "/Eigen/" in output else "an"
            reason = f"{library} assertion failed, `{assertion[1]}`: an index out of range?"
        names = {one.value: one.name for one in signal.Signals}
        return f"your program crashed ({names.get(-status, -status)}){where}: {reason}"
    words = FRAMES.sub("", output).strip().split("\n")[-1][:200]
    return f"it exited with status {status} before the check was complete" + (
        f"; its last output: {words}" if words else ""
    )


def said_by(command, files=()):
    """What a grader says: JSON in the last line that it prints; None when its time was over."""
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=files
    ) as grader:
        for file in files:
            os.close(file)
        try:
            text = grader.communicate(timeout=RUN.clock)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            grader.kill()
            return None
    try:
        return json.loads(text.strip().split("\n")[-1])
    except ValueError as error:
        raise Fault(f"{command[0]} ended with status {grader.returncode}: {text}") from error


def run_stage(toolchain, exercise, stage, scratch, shown, found):
    """Runs one stage of a grader beside the student's program; returns what the grader says.

    @param scratch with the program
    @param found   evidence(), where the exercise asks for it
    """
    grader, program = toolchain.grader(exercise), scratch / "program"
    limits = dataclasses.replace(RUN, readable=(*toolchain.system(), program))
    from_grader, to_student = os.pipe()
    from_student, to_grader = os.pipe()
    theirs, ours = (from_grader, to_grader), (to_student, from_student)
    # Each stage has a folder of its own, and nothing in it says which stage it is.
    with scratch_folder() as folder, tempfile.TemporaryFile() as output:
        with sandbox.started([program, *theirs], folder, limits, output, theirs) as student:
            for file in theirs:
                os.close(file)
            said = said_by([grader, stage, found, program, *ours], ours)
            if said and said["verdict"] == "ended":
                with contextlib.suppress(subprocess.TimeoutExpired):
                    student.wait(limits.seconds)
        text = sandbox.printed(output)
    where = place(program, text, shown)
    if said is None or said["verdict"] == "ended":
        message = ended(student.returncode if said else None, text, where)
        said = {"verdict": "refused", "message": message}
    elif said["verdict"] == "refused" and "more memory than a check" in said["message"]:
        said["message"] += f"{where}: an endless loop, or an array that is too large?"
    return said


def evidence(exercise, answer):
    """The numbers behind `answer:` in a student's file, and the lines of the start that whole ones
    mean."""
    numbers = NUMBER.findall(" ".join(ANSWER.findall(answer))[:1000])
    lines = exercise.start().split("\n")
    named = [int(word) for word in numbers if re.fullmatch(r"\d{1,6}", word)]
    words = " ".join(repr(float(number)) for number in numbers)
    return "\n".join([words, *(lines[n - 1] for n in named if 0 < n <= len(lines))])


# ---------------------------------------------------------------- an answer


def grade(toolchain, exercise, answer, stop=True, shown="", progress=lambda _words: None):
    """Grades an answer.

    @param answer the text of the student's file
    @param stop   at the first stage that refuses, as for students; else only what needs a right
        result is left out
    @param shown  what to call the folder of the student's file in messages, with its slash
    @param progress called with what is done next, in words
    """
    results = stages_of(exercise)
    if exercise.predicts:
        numbers.grade(questions(toolchain, exercise), exercise, answer, results)
        return results
    results[0].verdict = "refused"
    joined = SPLICE.sub("", answer)
    if outside := OUTSIDE.search(joined):
        results[0].message = f"it includes {outside[1]}: headers have no absolute paths"
        return results
    if exercise.machine == "lab" and (hiding := HIDING.search(joined)):
        results[0].message = f"'{hiding[0]}' keeps accesses from the lab, and no answer needs it"
        return results
    with scratch_folder() as scratch:
        (scratch / "student").mkdir()
        (scratch / "student" / exercise.file).write_text(answer, encoding="utf-8")
        progress("compiling your file")
        status, output = toolchain.compile(exercise, scratch)
        if status != 0:
            results[0].message = compiler_says(output, scratch, shown, exercise.file)
            return results
        results[0].verdict = "passed"
        progress("building this exercise's grader, once")
        toolchain.grader(exercise)
        # What a bug hunt asks for first is not needed for the rest.
        first = next(r for r in results[1:] if r.name != "found")
        for result in results[1:]:
            progress(f"checking: {result.title}")
            found = evidence(exercise, answer)
            said = run_stage(toolchain, exercise, result.name, scratch, shown, found)
            take(result, said, toolchain.watched or exercise.machine != "lab")
            result.message = renamed(result.message, scratch, shown)
            if not result.passed and (stop or result is first):
                break
    return results


def take(result, said, verdict_required):
    """Takes into a stage's result what its grader said."""
    result.verdict, result.message = said["verdict"], said["message"]
    result.notes, result.drawing = said.get("notes", []), said.get("drawing", "")
    if result.verdict == "skipped" and verdict_required:
        result.message = "the stage ended without a verdict, which is allowed only without a lab"
    if result.verdict != "passed" and (result.verdict != "skipped" or verdict_required):
        result.verdict = "refused"


def marks(toolchain, exercise, answer):
    """Grades an answer to the end, for its points. Stages that the start passes, and hidden ones,
    count only with another one: alone, they show no work."""
    results = grade(toolchain, exercise, answer, stop=False)
    alone = [r for r in results[1:] if r.name in exercise.start_passes or r.hidden]
    if not any(result.passed for result in results[1:] if result not in alone):
        for result in alone:
            if result.passed:
                result.verdict = "not reached"
                result.message = "the file passed this at the start: it counts with another stage"
    return results


def questions(toolchain, exercise):
    """The questions of predictions with the truth, which the grader counts, once; none where this
    machine cannot count."""
    grader = toolchain.grader(exercise)
    kept = grader.with_name(f"{grader.name}.json")
    if not kept.exists():
        said = said_by([grader, "questions", ""])
        if not said or said["verdict"] not in ("questions", "skipped"):
            raise Fault(f"the grader of {exercise.id} gives no answers: {said}")
        write_file(kept, json.dumps(said.get("questions", [])))
    return json.loads(kept.read_text(encoding="utf-8"))


def solution(toolchain, exercise):
    """The solution of any exercise."""
    if exercise.predicts and exercise.has_solution:
        return numbers.filled(exercise, numbers.truths(questions(toolchain, exercise)))
    return exercise.solution()


def wrong_answers(toolchain, exercise):
    """Typical wrong answers: name, description, stage that refuses, part of its message, text of
    the file."""
    if exercise.predicts:
        return numbers.wrong_answers(questions(toolchain, exercise), exercise)
    right = exercise.solution()
    return [(w.name, w.about, w.stage, w.says, w.apply(right)) for w in exercise.answers("wrong")]
