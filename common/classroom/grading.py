"""Grades an answer to an exercise, stage by stage."""

import ast
import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import operator
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading

from common.classroom import catalogue, sandbox
from common.classroom.catalogue import Fault
from common.cli.files import write_file

COMPILE = sandbox.Limits(seconds=60, memory=4096, file=512, stranger=False)
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/nix", "/dev/urandom")
HEADERS = (".hpp", ".cuh", ".h", ".inc")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Of the classroom, what the student's side is compiled with.
SURFACE = ("wire", "entry", "seen", "launches", "puzzle", "prelude_cpu", "prelude_lab")
RUN = sandbox.Limits()
COMPILE_LINES = 14  # of a compiler's messages
# Warnings in the course's own code do not concern a student.
UNWANTED = re.compile(r"-Werror.*|-Winvalid-pch|-Wconversion|-Wshadow|-Wnon-virtual-dtor")


@dataclasses.dataclass
class StageResult:
    """How one stage ended."""

    name: str
    title: str
    points: float
    verdict: str  # passed, refused, skipped, or not reached
    message: str = ""
    notes: list = dataclasses.field(default_factory=list)
    seconds: float = 0
    drawing: str = ""

    @property
    def passed(self):
        """Whether its points are given; what this machine cannot grade costs nothing."""
        return self.verdict in ("passed", "skipped")


def everyone_may_read(path):
    """Whether every user can read a file."""
    return bool(os.stat(path).st_mode & 0o004) and all(
        os.stat(parent).st_mode & 0o001 for parent in path.parents
    )


@functools.lru_cache(maxsize=1)
def headers():
    """The course's headers that students' files may include, those with solutions among them."""
    root = catalogue.ROOT
    found = [root / "common" / "classroom" / f"{name}.hpp" for name in SURFACE]
    for folder in sorted((root / "common").iterdir()):
        if folder.name not in ("classroom", "testing") and folder.is_dir():
            found += [path for path in folder.rglob("*") if path.suffix in HEADERS]
    for lesson in root.glob("[0-9][0-9]_*"):
        for path in lesson.rglob("*"):
            inner = path.relative_to(lesson).parts
            of_graders = inner[0] == "exercises" and len(inner) > 2
            if path.suffix in HEADERS and inner[0] != "tests" and not of_graders:
                found.append(path)
    return found


class Toolchain:
    """How graders are compiled: what CMake wrote into a build directory."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        try:
            files = json.loads(
                (self.build / "classroom" / "toolchain.json").read_text(encoding="utf-8")
            )
            commands = json.loads(
                (self.build / "compile_commands.json").read_text(encoding="utf-8")
            )
        except (OSError, ValueError) as error:
            raise Fault(
                f"{self.build} is not a build of this course with the target classroom: {error}"
            ) from error
        self.confine, self.libraries, self.flags = files["confine"], {}, {}
        self.objects = {kind: files[kind] for kind in ("grader", "entry", "lab_grader")}
        for machine in ("cpu", "lab"):
            self.libraries[machine] = files[machine]
            found = [
                c for c in commands if c["file"].endswith(f"common/classroom/prelude_{machine}.cpp")
            ]
            if not found:
                raise Fault(
                    f"{self.build}/compile_commands.json does not say how graders are compiled"
                )
            words = shlex.split(found[0]["command"])
            where = [i for i, word in enumerate(words) if word in ("-o", "-c")]
            for i in sorted(where, reverse=True):
                del words[i : i + 2]
            self.flags[machine] = [word for word in words if not UNWANTED.fullmatch(word)]
        # A compiler that is not root cannot show what only root may read.
        self.readable = everyone_may_read(pathlib.Path(__file__).resolve()) and everyone_may_read(
            self.build / "classroom" / "toolchain.json"
        )
        # Only without a watched lab may a stage be left without a verdict.
        self.watched = any("FA_LAB_WATCHED" in flag for flag in self.flags["lab"])
        self.cache = self.build / "classroom" / "graders"

        self.compiler = self.flags["cpu"][0]
        self.lock, self.locks = threading.Lock(), {}

    def system(self, flags):
        """Paths outside of the course that a compiler reads, or a program."""
        found = list(SYSTEM)
        compiler = pathlib.Path(shutil.which(self.compiler) or self.compiler).resolve()
        found.append(compiler.parent.parent)
        found += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
        for before, word in zip(flags, flags[1:]):
            if before in ("-isystem", "-include", "-isysroot"):
                path = pathlib.Path(word)
                found.append(path.parent if before == "-include" else path)
            elif word.startswith("-I"):
                found.append(word[2:])
        found = {pathlib.Path(path).resolve() for path in found}
        root = catalogue.ROOT
        return sorted(path for path in found if path not in (root, *root.parents))

    def surface(self, exercise):
        """The course's headers that a student's file may include: all but those of graders, of
        tests, and the ones that hold what the exercise asks for."""
        hidden = exercise.hidden() - self.needed(exercise)
        return [path for path in (*headers(), exercise.entry.resolve()) if path not in hidden]

    def needed(self, exercise):
        """Files of the course that the start and entry.cpp include, and what these include."""
        met, left = set(), [exercise.start(), exercise.entry.read_text(encoding="utf-8")]
        while left:
            for name in INCLUDE.findall(left.pop()):
                path = catalogue.ROOT / name
                if path not in met and path.is_file():
                    met.add(path)
                    left.append(path.read_text(encoding="utf-8", errors="replace"))
        return met

    def compile(self, exercise, scratch):
        """Compiles the student's file, in scratch/student, with the exercise's entry.cpp and
        without the grader.

        @return the sandbox's outcome; the program is scratch/program
        """
        flags = self.flags[exercise.machine]
        surface, system = self.surface(exercise), self.system(flags)
        limits = dataclasses.replace(
            COMPILE,
            stranger=self.readable and everyone_may_read(exercise.entry),
            readable=(*system, *surface, *self.linked(exercise.machine, "entry")),
        )
        source, depends = exercise.entry, scratch / "entry.d"
        compilation = sandbox.run(
            self.confine,
            [*flags, *exercise.defines, f"-I{scratch}", "-MD", "-MF", depends]
            + ["-o", scratch / "entry.o", "-c", source],
            scratch,
            limits,
        )
        if compilation.status != 0:
            return compilation
        if stranger := self.foreign(depends, scratch, {*surface, *system}):
            compilation.status = 1
            compilation.output = f"error: your file includes {stranger}, which it may not use"
            return compilation
        linking = self.link(
            [scratch / "entry.o"], exercise.machine, "entry", scratch / "program", scratch, limits
        )
        linking.seconds += compilation.seconds
        sandbox.take_back(scratch)  # no stage may change the program of the next
        return linking

    def shared(self):
        """Folders of shared libraries that programs are linked with."""
        return {pathlib.Path(path).parent for path in self.libraries["lab"] if ".so" in path}

    def linked(self, machine, kind):
        """Files that are linked with a grader, or with an entry."""
        of_labs = self.objects["lab_grader"] if (machine, kind) == ("lab", "grader") else []
        return [*self.objects[kind], *of_labs, *self.libraries[machine]]

    def link(self, objects, machine, kind, program, scratch, limits):
        """Links a program; without the flags: -fsanitize=thread would bring its own library."""
        words = [self.compiler, "-o", program, *objects, *self.linked(machine, kind), "-pthread"]
        return sandbox.run(self.confine, words, scratch, limits)

    def foreign(self, depends, scratch, allowed):
        """The first file that a compilation has read and may not have, where the system lets it."""
        try:
            text = depends.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "what cannot be listed"
        words = text.partition(":")[2].replace("\\\n", " ")
        for word in re.split(r"(?<!\\)\s+", words.strip()):
            path = pathlib.Path(os.path.realpath(os.path.join(scratch, word.replace("\\ ", " "))))
            inside = {path, *path.parents}
            if not inside & (allowed | {scratch}):
                return word
        return ""

    def grader(self, exercise):
        """The program of an exercise's grader. It holds no student's code and is kept."""
        with self.lock:
            lock = self.locks.setdefault(exercise.id, threading.Lock())
        with lock:
            key = self.key(exercise)
            kept = self.cache / f"{exercise.id}-{key}"
            if kept.exists():
                return kept
            machine = "lab" if exercise.predicts and exercise.machine == "lab" else "cpu"
            limits = dataclasses.replace(COMPILE, stranger=False)
            with scratch_folder() as scratch:
                made = sandbox.run(
                    self.confine,
                    [*self.flags[machine], *exercise.defines]
                    + ["-o", scratch / "grader.o", "-c", exercise.grader],
                    scratch,
                    limits,
                )
                if made.status == 0:
                    made = self.link(
                        [scratch / "grader.o"],
                        exercise.machine,
                        "grader",
                        scratch / "grader",
                        scratch,
                        limits,
                    )
                if made.status != 0:
                    raise Fault(
                        f"the grader of {exercise.id} does not compile: "
                        f"{made.output.strip()[:2000]}"
                    )
                self.cache.mkdir(parents=True, exist_ok=True)
                for old in self.cache.glob(f"{exercise.id}-*"):
                    old.unlink(missing_ok=True)
                own = kept.with_name(f"{kept.name}.{os.getpid()}")
                shutil.copy2(scratch / "grader", own)
                own.chmod(0o755)
                own.replace(kept)
            return kept

    def key(self, exercise):
        """Changes with all that a grader is made of."""
        key = hashlib.sha256()
        flags = [*sorted(self.flags.items()), exercise.defines]
        for part in (exercise.grader.read_bytes(), repr(flags).encode()):
            key.update(part)
        parts = [*self.linked(exercise.machine, "grader")]
        for folder in (exercise.lesson, "common"):
            parts += sorted(
                path for path in (catalogue.ROOT / folder).rglob("*") if path.suffix in HEADERS
            )
        for path in parts:
            key.update(f"{path} {os.stat(path).st_mtime_ns}".encode())
        return key.hexdigest()[:16]


@contextlib.contextmanager
def scratch_folder():
    """A folder that goes away, even when it was filled with what cannot be removed at once."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="classroom-")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for parent, names, _files in os.walk(
            folder
        ):  # from the top: what may not be listed is made so first
            for name in names:
                inner = os.path.join(parent, name)
                if not os.path.islink(inner):  # the mode of what it leads to is not ours
                    with contextlib.suppress(OSError):
                        os.chmod(inner, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


def compiler_says(outcome, scratch, shown):
    """The first lines of a compiler that a student can use."""
    if outcome.timed_out:
        return "the compiler did not finish within its time limit"
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
    text = text.replace(f"{scratch}/student/", "student/").replace(f"{catalogue.ROOT}/", "")
    return re.sub(r"(?<![\w/.])(?:\.\./)*(?:tmp/[\w./-]*)?student/(?=[\w.]+)", shown, text)


FRAMES = re.compile(r"^@frames((?: [0-9a-f]+)+)$", re.MULTILINE)
ASSERTION = re.compile(r"Assertion [`'](.*?)' failed", re.DOTALL)


def place(program, output, shown):
    """The line of the student's file where a program was, " at FILE:LINE", from the addresses that
    entry.cpp prints; empty when they do not tell it."""
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


def ended(status, outcome, limits, program, shown):
    """Why the student's program gave no result.

    @param status how it ended: its exit status, or minus the number of a signal
    @param outcome of the grader, with what both have printed
    """
    if outcome.exceeded:
        return outcome.exceeded
    where = place(program, outcome.output, shown)
    if outcome.timed_out or status == -signal.SIGXCPU:
        reason = "an endless loop, or far too many iterations?"
        return f"it was still running after {limits.seconds} seconds{where}: {reason}"
    output = FRAMES.sub("", outcome.output).strip()
    reasons = {
        signal.SIGSEGV: "it accessed memory that is not its own: an index out of range?",
        signal.SIGABRT: "it called abort(), or the C++ library did",
        signal.SIGILL: "an index lies beyond the end of an array",
        signal.SIGFPE: "it divided an integer by zero",
        signal.SIGXFSZ: "it wrote a file that is larger than allowed",
        signal.SIGKILL: "it was killed: too much memory or too much time",
        signal.SIGBUS: "it accessed memory that is not mapped",
    }
    if status < 0:
        reason = reasons.get(-status, "for an unknown reason")
        if assertion := ASSERTION.search(output):
            library = "an Eigen" if "/Eigen/" in output else "an"
            reason = f"{library} assertion failed, `{assertion[1]}`: an index out of range?"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"your program crashed ({name}){where}: {reason}"
    words = output.split("\n")[-1][:200]
    return f"it exited with status {status} before the check was complete" + (
        f"; its last output: {words}" if words else ""
    )


ANSWER = re.compile(r"^\s*(?://|#)\s*answer:(.*)$", re.MULTILINE)


def evidence(exercise, answer):
    """What stands behind `answer:` in a student's file, and the lines of the start that its whole
    numbers mean."""
    given = " ".join(text.strip() for text in ANSWER.findall(answer))[:1000].replace("?", "")
    lines = exercise.start().split("\n")
    named = [int(word) for word in re.findall(r"(?<![\w.-])\d{1,6}(?![\w.])", given)]
    return "\n".join([given, *(lines[n - 1] for n in named if 0 < n <= len(lines))])


def run_stage(toolchain, exercise, folder, stage, program="", shown="", limits=RUN, found=""):
    """Runs one stage; returns what its grader said, and for how long it ran.

    @param program of the student
    @param found   evidence(), where the exercise asks for it
    """
    grader = toolchain.grader(exercise)
    limits = dataclasses.replace(
        limits, readable=(*toolchain.system([]), grader, program or folder, *toolchain.shared())
    )
    command = [grader, "--stage", stage, program or "-", found]
    outcome = sandbox.run(toolchain.confine, command, folder, limits, channel=True)
    try:
        said = json.loads(outcome.result)
        status = said["verdict"].partition("ended ")[2]
    except (ValueError, KeyError, AttributeError):
        said, status = {}, str(outcome.status)
    if status:
        message = ended(int(status), outcome, limits, program, shown)
        said = {"verdict": "refused", "message": message, "notes": []}
    elif said["verdict"] == "refused" and "more memory than a check" in said["message"]:
        where = place(program, outcome.output, shown)
        said["message"] += f"{where}: an endless loop, or an array that is too large?"
    return said, outcome.seconds


# Tokens that end what a comment could seem to begin in, and comments.
PIECES = re.compile(
    r"""(\b\d[\w.']*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL
)
# Keeps an access from the lab.
HIDING = re.compile(r"FA_UNWATCHED|\w*sanitize\w*")


def code_of(text):
    """A file without its comments; as it is where a raw string could hold what looks like one."""
    return text if 'R"' in text else PIECES.sub(lambda piece: piece[1] or " ", text)


def grade(toolchain, exercise, answer, stop=True, shown=None, inspect=None, progress=None):
    """Grades an answer.

    @param answer the text of the student's file
    @param stop   at the first stage that refuses, as for students; else only what needs a right
        result is left out
    @param shown  what to call the folder of the student's file in messages, with its slash
    @param inspect called with the path of the compiled grader, before the stages are run
    @param progress called with what is done next, in words
    """
    progress = progress or (lambda _words: None)
    shown = "" if shown is None else shown
    if exercise.predicts:
        return grade_numbers(toolchain, exercise, answer)
    results = [
        StageResult(name, exercise.titles.get(name, name), points, "not reached")
        for name, points in exercise.points.items()
    ]
    if exercise.machine == "lab" and (hiding := HIDING.search(code_of(answer))):
        results[0].verdict = "refused"
        results[0].message = f"'{hiding[0]}' keeps accesses from the lab, and no answer needs it"
        return results
    with scratch_folder() as scratch:
        (scratch / "student").mkdir()
        (scratch / "student" / exercise.file).write_text(answer, encoding="utf-8")
        progress("compiling your file")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            # At the same time: the first check of an exercise compiles both.
            grader = pool.submit(toolchain.grader, exercise)
            outcome = toolchain.compile(exercise, scratch)
            results[0].seconds = outcome.seconds
            if outcome.status != 0:
                results[0].verdict = "refused"
                results[0].message = compiler_says(outcome, scratch, shown)
                return results
            results[0].verdict = "passed"
            if not grader.done():
                progress("building this exercise's grader, once")
            grader.result()
        if inspect:
            inspect(toolchain.grader(exercise))
        for result in results[1:]:
            folder = (
                scratch / f"work_{result.name}"
            )  # each its own: what a stage leaves may not be removable
            folder.mkdir()
            progress(f"checking: {result.title}")
            said, result.seconds = run_stage(
                toolchain,
                exercise,
                folder,
                result.name,
                scratch / "program",
                shown,
                found=evidence(exercise, answer),
            )
            result.verdict, result.notes = said["verdict"], said.get("notes", [])
            result.drawing = said.get("drawing", "")
            result.message = renamed(said.get("message", ""), scratch, shown)
            if result.verdict == "skipped" and (toolchain.watched or exercise.machine != "lab"):
                result.verdict = "refused"
                result.message = (
                    "the stage ended without a verdict, which is allowed only without a lab"
                )
            if result.verdict not in ("passed", "refused", "skipped"):
                result.verdict = "refused"
            # What a bug hunt asks for first is not needed for the rest.
            first = next(r for r in results[1:] if r.name != "found")
            if not result.passed and (stop or result is first):
                break
    return results


# ---------------------------------------------------------------- numbers

FUNCTIONS = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "ln": math.log,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
}
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def number_of(text):
    """The number that an answer means: digits, or an expression such as 4 * 64^2 or sqrt(2)."""

    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            return FUNCTIONS[node.func.id](value(node.args[0]))
        raise ValueError(text)

    if len(text) > 200:
        raise ValueError("too long")
    # 1,179,648 and 1 179 648 and 1'179'648 are one number each.
    text = re.sub(r"(?<=\d)[,_' ](?=\d{3}(?:\D|$))", "", text.strip()).replace("^", "**")
    try:
        result = value(ast.parse(text.strip(), mode="eval").body)
    except (
        SyntaxError,
        ArithmeticError,
        LookupError,
        TypeError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ValueError(str(error)) from error
    if isinstance(result, complex) or not math.isfinite(result):
        raise ValueError(text)
    return result


def read_numbers(text):
    """name -> number, or None for what cannot be read as a number, of a file of answers."""
    numbers = {}
    for line in text.split("\n")[:1000]:
        name, equals, rest = line.partition("#")[0].partition("=")
        if equals:
            try:
                numbers[name.strip()] = number_of(rest)
            except ValueError:
                numbers[name.strip()] = None
    return numbers


def is_open(text, name):
    """Whether nothing but the start's question mark stands behind a name of a file of answers."""
    given = re.search(rf"^\s*{re.escape(name)}\s*=([^#\n]*)", text, re.MULTILINE)
    return not given or given[1].strip() in ("", "?")


def questions(toolchain, exercise):
    """The questions with the truth, which the grader counts. It holds no student's code and is
    kept."""
    kept = toolchain.cache / f"{exercise.id}-{toolchain.key(exercise)}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    with scratch_folder() as folder:
        said, _ = run_stage(toolchain, exercise, folder, "questions")
    if said["verdict"] == "skipped":
        return []
    if said["verdict"] != "questions":
        raise Fault(f"the grader of {exercise.id} gives no answers: {said['message']}")
    write_file(kept, json.dumps(said["questions"]))
    return said["questions"]


def near(number, truth, within):
    """Whether a number is right, up to a share of it."""
    return number == truth or abs(number - truth) <= within * abs(truth)


def grade_numbers(toolchain, exercise, answer):
    """Grades a file of answers: a stage for each question."""
    results = [
        StageResult(name, exercise.titles.get(name, name), points, "not reached")
        for name, points in exercise.points.items()
    ]
    numbers = read_numbers(answer)
    missing = [name for name in exercise.points if numbers.get(name) is None]
    missing = [name for name in missing if name != "complete"]
    if missing:
        results[0].verdict = "refused"
        open_ = [name for name in missing if is_open(answer, name)]
        results[0].message = (
            f"no number yet for: {', '.join(open_)}"
            if open_
            else f"cannot read the number of: {', '.join(missing)}"
        ) + "; write digits or a small expression such as 4 * 64^2"
        return results
    results[0].verdict = "passed"
    asked = {question["name"]: question for question in questions(toolchain, exercise)}
    for result in results[1:]:
        if not asked:
            result.verdict, result.message = (
                "skipped",
                "this machine has no watched lab, which needs Linux",
            )
            continue
        question, number = asked[result.name], numbers[result.name]
        if near(number, question["truth"], question["within"]):
            result.verdict = "passed"
            continue
        result.verdict = "refused"
        more = "too large" if number > question["truth"] else "too small"
        sizes = ", with the task's own sizes" if exercise.variant else ""
        result.message = f"{number:.10g} is {more}; think again{sizes}"
        for value, says in question["mistakes"]:
            if near(number, value, question["within"]):
                result.message = says
                break
    return results


def digits(number):
    """A number as one would type it."""
    return str(int(number)) if number == int(number) else repr(number)


def filled(exercise, numbers):
    """The file of answers with these numbers."""
    lines = []
    for line in exercise.start().split("\n"):
        name = line.partition("#")[0].partition("=")[0].strip()
        lines.append(f"{name} = {digits(numbers[name])}" if name in numbers else line)
    return "\n".join(lines)


def solution(toolchain, exercise):
    """The solution of any exercise."""
    if not exercise.predicts:
        return exercise.solution()
    if not exercise.has_solution():
        raise Fault("this copy of the course was made without solutions; ask your teacher")
    return filled(exercise, {q["name"]: q["truth"] for q in questions(toolchain, exercise)})


def wrong_answers(toolchain, exercise):
    """Typical wrong answers: name, description, stage that refuses, part of its message, text of
    the file."""
    if not exercise.predicts:
        right = exercise.solution()
        return [(w.name, w.about, w.stage, w.says, w.text(right)) for w in exercise.wrong_answers()]
    asked = questions(toolchain, exercise)
    truth = {question["name"]: question["truth"] for question in asked}
    return [
        (
            f"{q['name']} = {digits(value)}",
            says,
            q["name"],
            says,
            filled(exercise, {**truth, q["name"]: value}),
        )
        for q in asked
        for value, says in q["mistakes"]
    ]
