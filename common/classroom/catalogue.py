"""The exercises of the lessons: what there is, and the files that are generated from the lessons'
own code.

NN_lesson/exercises/lesson.json lists the exercises of a lesson in their order, with title, kind,
minutes, machine, the stages and their points. Each is a folder NN_lesson/exercises/NAME with

    task.md      what to do, and why; three hints, folded, at the end; before them, in a block of
                 text, the questions whose answers are numbers
    frame.txt    the student's file with its holes, see Frame; right and wrong answers follow below
                 a line `//@ answers`, see read_answers(); none where the student's file holds
                 numbers
    grader.cpp   the stages; above them, between `#ifdef FA_ENTRIES` and `#else`, what they call,
                 which is compiled with the student's file; not where that holds numbers, and not
                 for puzzles, which share PUZZLE_ENTRY

An exercise may have variants: values for {{name}} in its texts and -DFA_NAME=value for its grader.
The first is the course's own; a class has those that its seed chooses, see seed_of().

Nothing of a solution is written twice: where a lesson has the code, the frame takes it from there.
"""

import hashlib
import json
import pathlib
import re

from common.data.changes import read_changes

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = re.compile(r"^\s*//!\s*\[(?P<tag>[^\]]+)\]\s*$")
DIRECTIVE = re.compile(
    r"^(?P<indent>\s*)//@ (?P<word>from|hole|solution|start|end)(?: (?P<what>\S+))?\s*$"
)
ENTRIES = re.compile(r"^#ifdef FA_ENTRIES.*?\n(.*?)^#else.*?\n", re.MULTILINE | re.DOTALL)
LAB_NAMES = """using namespace fa::classroom;
using namespace fa::FA_TARGET;
static const bool fa_lines_from_grader = lines_from_grader();
"""
PUZZLE_ENTRY = """
FA_ENTRY(run, [](const std::string& puzzle) {{
  return fa::classroom::play(puzzle, fa::FA_TARGET::{});
}});
"""
ANSWERS = "//@ answers\n"  # in frame.txt, between the frame and other answers
QUESTIONS = re.compile(r"^```text\n(.*?^\w+ = \?\n)```\n+", re.MULTILINE | re.DOTALL)
HINT = re.compile(
    r"^<details><summary>Hint \d</summary>\n+(.*?)\n+</details>\n*", re.MULTILINE | re.DOTALL
)
TITLES = {
    "compiles": "it compiles",
    "complete": "every question has a number",
    "found": "evidence of the bug",
    "easy": "right on easy sizes",
    "odd": "right on odd sizes",
    "races": "no races",
    "traffic": "within the traffic budget",
}


class Fault(Exception):
    """What is asked cannot be done, in one sentence."""


def region(root, place):
    """The lines between the two marks `//! [TAG]` of PATH, for place = PATH#TAG; inner marks
    stay."""
    path, _, tag = place.partition("#")
    try:
        lines = (root / path).read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise Fault(f"{path} cannot be read: {error.strerror}") from error
    marks = [i for i, line in enumerate(lines) if (m := MARK.match(line)) and m["tag"] == tag]
    if len(marks) != 2:
        raise Fault(f"{path} has {len(marks)} marks //! [{tag}]; there must be exactly two")
    return lines[marks[0] + 1 : marks[1]]


def indented(lines, indent):
    """The lines with their common indentation replaced."""
    widths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    shared = min(widths, default=0)
    return [indent + line[shared:] if line.strip() else "" for line in lines]


class Frame:
    """A student's file with holes. Its directives:

    //@ from PATH#TAG     takes a marked region of a source file ...
    //@ hole INNER        ... in which the marked region INNER is replaced, in the student's file,
    by the lines                 lines up to the next directive; without a hole the region is given
    as it is //@ end //@ solution          for what no lesson has: lines of the solution ... lines
    //@ start             ... and what stands there instead in the student's file lines //@ end
    """

    def __init__(self, root, text, name):
        self.solution, self.start = [], []
        self.sources = set()  # files whose lines are left out
        source, holes, hole, mode, indent = None, {}, None, None, ""
        for number, line in enumerate(text.split("\n"), 1):
            match = DIRECTIVE.match(line)
            if line.lstrip().startswith("//@") and not match:
                raise Fault(f"{name}:{number}: no such directive: {line.strip()}")
            if not match:
                if mode is None:
                    self.solution.append(line)
                    self.start.append(line)
                elif mode == "hole":
                    holes[hole].append(line)
                elif mode in ("solution", "start"):
                    getattr(self, mode).append(line)
                elif line.strip():
                    raise Fault(f"{name}:{number}: only a hole may stand in a region")
                continue
            word, what = match["word"], match["what"]
            if word == "from":
                source, holes, mode, indent = region(root, what), {}, "from", match["indent"]
                where = what
            elif word == "hole":
                hole, mode = what, "hole"
                holes[hole] = []
            elif word in ("solution", "start"):
                mode = word
            else:
                if source is not None:
                    self._take(source, holes, indent, where)
                source, mode = None, None
        if mode is not None:
            raise Fault(f"{name}: '//@ end' is missing at the end")

    def _take(self, source, holes, indent, where):
        if holes:
            self.sources.add(where.partition("#")[0])
        solution, start, inside = [], [], None
        if holes and where.partition("#")[2] in holes:  # the whole region
            self.solution += indented([line for line in source if not MARK.match(line)], indent)
            self.start += indented(next(iter(holes.values())), indent)
            return
        met = set()
        for line in source:
            mark = MARK.match(line)
            if mark and mark["tag"] in holes:
                if inside is None:
                    inside = mark["tag"]
                    met.add(inside)
                    width = len(line) - len(line.lstrip())
                    start += indented(holes[inside], " " * width)
                else:
                    inside = None
            elif not mark:
                solution.append(line)
                if inside is None:
                    start.append(line)
        if met != set(holes):
            raise Fault(f"{where} has no region {', '.join(set(holes) - met)}")
        self.solution += indented(solution, indent)
        self.start += indented(start, indent)


def read_answers(text, name):
    """Reads the answers of frame.txt, a list as changes.py describes it. What is changed is the
    solution; the answer is

    # name: what is wrong, in words
    @ stage: what the message of the stage that refuses it must hold

    # name: in which style it is right
    @ right

    @return changes with `kind` (wrong or right), `name`, `about`, `stage` and `says`
    """
    answers = read_changes(text, name)
    for answer in answers:
        answer.name, _, answer.about = answer.what.partition(": ")
        answer.stage, _, answer.says = answer.mark.partition(": ")
        answer.kind = "wrong" if answer.says else answer.mark
        if answer.kind not in ("wrong", "right") or not answer.about:
            raise Fault(
                f"{name}: '{answer.what}' needs a name and a description, and '@ {answer.mark}' "
                f"must be '@ STAGE: TEXT' or '@ right'"
            )
    return answers


SEED = ".classroom.json"  # in the root of a class's copy: {"seed": "autumn"}


def seed_of(root):
    """The word that chooses the variants of a class; empty for the course itself."""
    try:
        return str(json.loads((root / SEED).read_text(encoding="utf-8"))["seed"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Fault(f"{root / SEED} is not as it should be: {error!r}") from error


def variant_of(variants, seed, name):
    """One of several variants: the first without a seed, else one that seed and name choose."""
    if not variants or not seed:
        return variants[0] if variants else {}
    number = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:4], "big")
    return variants[number % len(variants)]


class Exercise:
    """One exercise."""

    def __init__(self, folder, about, root=ROOT, seed=None):
        """Of what lesson.json says about it."""
        self.folder, self.root = folder, root
        self.lesson = folder.parents[1].name
        self.id = f"{self.lesson[:2]}_{folder.name}"
        self.title, self.kind, self.minutes = about["title"], about["kind"], about["minutes"]
        self.machine = about["machine"]
        self.points = about["stages"]  # stage -> points, in their order
        self.titles = {**TITLES, **about.get("titles", {})}
        # True when the student's file holds numbers and no code.
        self.predicts = self.kind == "predict, then run"
        self.file = f"{folder.name}.{'cuh' if self.machine == 'lab' else 'hpp'}"
        if self.predicts:
            self.file = "answers.txt"
        opened = ("complete", "no number yet for") if self.predicts else about["start_fails"]
        self.start_fails = tuple(opened)  # the stage, and a part of its message
        self.start_passes = about.get("start_passes", [])  # stages besides compiling
        seed = seed_of(root) if seed is None else seed
        self.variant = variant_of(about.get("variants"), seed, self.id)
        self.defines = about.get("defines", [])
        self.defines += [f"-DFA_{name.upper()}={x}" for name, x in self.variant.items()]
        self.kernel = about.get("kernel")  # of a puzzle

    def __eq__(self, other):
        return isinstance(other, Exercise) and self.folder == other.folder

    def __hash__(self):
        return hash(self.folder)

    def _text(self, name):
        try:
            text = (self.folder / name).read_text(encoding="utf-8")
        except OSError as error:
            raise Fault(f"{self.id}: {name} cannot be read: {error.strerror}") from error
        for word, value in self.variant.items():
            text = text.replace("{{" + word + "}}", str(value))
        return text

    def _frame(self):
        text = self._text("frame.txt").partition(ANSWERS)[0]
        return Frame(self.root, text, f"{self.id}/frame.txt")

    @property
    def entry(self):
        """What the grader calls: C++ with the student's file behind the includes at its top, unless
        it includes that file itself."""
        student, own = f'#include "student/{self.file}"\n', PUZZLE_ENTRY.format(self.kernel)
        if not self.kernel:
            found = ENTRIES.search(self.grader.read_text(encoding="utf-8"))
            if not found:
                raise Fault(f"{self.id}: grader.cpp has no lines from #ifdef FA_ENTRIES to #else")
            own = found[1]
        if student not in own:
            own = re.sub(r"\A(?:#include .*\n)*", lambda top: top[0] + student, own)
        if self.machine == "lab":
            own = own.replace(student, student + LAB_NAMES)
        return f'#include "common/classroom/prelude_{self.machine}.hpp"\n{own}'

    def hidden(self):
        """The lessons' files that hold what the exercise asks for."""
        if self.predicts or not self.has_solution():
            return set()
        return {ROOT / path for path in self._frame().sources}

    @property
    def grader(self):
        """The source of the grader."""
        return self.folder / "grader.cpp"

    def task(self):
        """What to do, without the questions, which are in the student's file, and the hints."""
        text = self._text("task.md")
        if self.predicts:
            text = QUESTIONS.sub("", text)
        return HINT.sub("", text).strip() + "\n"

    def hints(self):
        """Three hints, from a nudge to nearly the answer."""
        return HINT.findall(self._text("task.md"))

    def has_solution(self):
        """False in a copy that was made without."""
        return not (self.folder / "start.txt").exists()

    def start(self):
        """The student's file at first."""
        if self.predicts:
            questions = QUESTIONS.search(self._text("task.md"))
            if not questions:
                raise Fault(f"{self.id}: task.md has no block of questions 'name = ?'")
            return f"# Exercise {self.id}: see ./learn exercise start {self.id}\n{questions[1]}"
        if not self.has_solution():
            return self._text("start.txt")
        return "\n".join(self._frame().start)

    def solution(self):
        """The student's file with the solution; of questions without code grading.solution() knows
        it."""
        if not self.has_solution():
            raise Fault("this copy of the course was made without solutions; ask your teacher")
        return "\n".join(self._frame().solution)

    def answers(self, kind):
        """The answers of frame.txt that are wrong, or right; none for predictions, whose grader
        knows them: see numbers.wrong_answers()."""
        if self.predicts:
            return []
        frame, _, answers = self._text("frame.txt").partition(ANSWERS)
        above = "\n" * (frame.count("\n") + 1)  # messages count the lines of the file
        found = read_answers(above + answers, f"{self.id}/frame.txt")
        return [answer for answer in found if answer.kind == kind]

    def right_answers(self):
        """Right answers in other styles than the solution's: name and text of the file."""
        solution = "" if self.predicts else self.solution()
        return [(answer.name, answer.apply(solution)) for answer in self.answers("right")]


def read_lesson(path):
    """What a lesson.json holds: `ability`, and `exercises`, name -> what Exercise() takes."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fault(f"{path} is not as it should be: {error!r}") from error


def exercises(root=ROOT, seed=None):
    """All exercises, in the order of the course.

    @param seed of a class; that of the root if none is given
    """
    found = []
    for path in sorted(root.glob("[0-9][0-9]_*/exercises/lesson.json")):
        for name, about in read_lesson(path)["exercises"].items():
            try:
                found.append(Exercise(path.parent / name, about, root, seed))
            except (KeyError, TypeError) as error:
                raise Fault(f"{path}: '{name}' is not as it should be: {error!r}") from error
    return found


def task_pages(root=ROOT):
    """{ID: the page of the task, relative to the root}, in the order of the course."""
    return {e.id: f"{e.folder.relative_to(root).as_posix()}/task.md" for e in exercises(root)}


def choose(names, root=ROOT, seed=None):
    """The exercises that the names mean: an ID, its part after the lesson, a lesson; all of them
    for no names."""
    everything, chosen = exercises(root, seed), []
    for name in names:
        number = name.lstrip("0")[:1].rjust(2, "0") if name[:2].strip("0123456789") == "" else None
        found = [e for e in everything if name in (e.id, e.folder.name)]
        if not found and number and name in (number, number[1:], *(e.lesson for e in everything)):
            found = [e for e in everything if e.lesson.startswith(number)]
        if not found:
            raise Fault(
                f"there is no exercise '{name}'; there are {', '.join(e.id for e in everything)}"
            )
        chosen += [e for e in found if e not in chosen]
    return chosen if names else everything
