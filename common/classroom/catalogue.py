"""The exercises of the lessons: what there is, and the files that are generated from the lessons'
own code.

README.md says what lesson.json, task.md and exercise.cpp of an exercise hold.
"""

import difflib
import hashlib
import json
import pathlib
import re
import sys

from common.data.changes import read_changes
from common.data.records import aligned

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = re.compile(r"^\s*//!\s*\[([^\]]+)\]\s*$")
LISTING = re.compile(r"^(\s*)// listing: (\S+)$")
PIECE = re.compile(r"^// museum: (\w+)$")
STAGE = re.compile(r"^FA_(?:STAGE|PLAY)\((\w+)", re.MULTILINE)
HIDDEN = "hidden"  # the title of a stage that a teacher adds
STUDENT, ENTRIES = "#if defined(FA_STUDENT)", "#elif defined(FA_ENTRIES)"
GRADER, ANSWERS = "#elif defined(FA_GRADER)", "/* Other answers"
PARTS = re.compile(
    f"^({'|'.join(map(re.escape, (STUDENT, ENTRIES, GRADER, ANSWERS, '*/')))}).*\n", re.MULTILINE
)
LAB_NAMES = """using namespace fa::classroom;
using namespace fa::FA_TARGET;
static const bool fa_lines_from_grader = lines_from_grader();
"""
PUZZLE_ENTRY = """
FA_ENTRY(run, [](const std::string& puzzle) {{
  return fa::classroom::play(puzzle, fa::FA_TARGET::{});
}});
"""
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
REPAIRS = {"races": "right, and no findings", "traffic": "as asynchronous as it was"}


class Fault(Exception):
    """What is asked cannot be done, in one sentence."""


def listed(root, place, indent):
    """The lines between the two marks `//! [TAG]` of PATH, for place = PATH#TAG, indented anew."""
    path, _, tag = place.partition("#")
    lines = (root / path).read_text(encoding="utf-8").split("\n")
    marks = [i for i, line in enumerate(lines) if (m := MARK.match(line)) and m[1] == tag]
    if len(marks) != 2:
        raise Fault(f"{path} has {len(marks)} marks //! [{tag}]; there must be exactly two")
    inner = [line for line in lines[marks[0] + 1 : marks[1]] if not MARK.match(line)]
    code = [line for line in inner if line.strip() and line[0] != "#"]  # #pragma stays at the left
    width = min((len(line) - len(line.lstrip()) for line in code), default=0)
    return [indent + line[width:] if line in code else line.strip() for line in inner]


def filled(root, text, solution):
    """A student's file with the solution, or as it is at first. Lines `// listing: PATH#TAG` are
    replaced by that region of a lesson, and `// museum: NAME` by a piece's kernels, with its repair
    in the solution; of `#ifdef FA_SOLUTION`, `#else`, `#endif` one branch stays.

    @return the text, and the places that it lists
    """
    lines, places, keep = [], set(), None
    for line in text.split("\n"):
        if line == "#ifdef FA_SOLUTION":
            keep = solution
        elif keep is not None and line == "#else":
            keep = not keep
        elif keep is not None and line == "#endif":
            keep = None
        elif keep is False:
            continue
        elif piece := PIECE.match(line):
            from common.lab.museum import museum  # the site needs the list, and no lab

            lines += museum.kernels(piece[1], solution)
        elif listing := LISTING.match(line):
            places.add(listing[2])
            lines += listed(root, listing[2], listing[1])
        else:
            lines.append(line)
    return "\n".join(lines), places


def read_answers(text, name):
    """Reads the other answers of an exercise, a list as changes.py and README.md describe it.

    @return changes with `kind` (wrong, right, start), `name`, `about`, `stage` and `says`
    """
    answers = read_changes(text, name)
    for answer in answers:
        answer.name, _, answer.about = answer.what.partition(": ")
        answer.stage, _, answer.says = answer.mark.partition(": ")
        answer.kind = "wrong" if answer.says else answer.mark
        if answer.kind not in ("wrong", "right", "start") or not answer.about:
            raise Fault(
                f"{name}: '{answer.what}' needs a name and a description, and '@ {answer.mark}' "
                f"must be '@ STAGE: TEXT', '@ right' or '@ start'"
            )
    return answers


SETTINGS = ".classroom.json"  # of a class's copy: {"seed": "autumn", "solutions": false}


def settings_of(root):
    """The seed that chooses the variants of a class, and whether its copy has solutions."""
    try:
        found = json.loads((root / SETTINGS).read_text(encoding="utf-8"))
        return str(found["seed"]), bool(found["solutions"])
    except FileNotFoundError:
        return "", True
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Fault(f"{root / SETTINGS} is not as it should be: {error!r}") from error


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
        if self.kind == "repair":
            self.titles |= REPAIRS
        # True when the student's file holds numbers and no code.
        self.predicts = self.kind == "predict, then run"
        self.file = f"{folder.name}.{'cuh' if self.machine == 'lab' else 'hpp'}"
        if self.predicts:
            self.file = "answers.txt"
        opened = ("complete", "no number yet for") if self.predicts else about["start_fails"]
        self.start_fails = tuple(opened)  # the stage, and a part of its message
        self.start_passes = about.get("start_passes", [])  # stages besides compiling
        known, self.has_solution = settings_of(root)
        seed = known if seed is None else seed
        self.variant = variant_of(about.get("variants"), seed, self.id)
        self.defines = about.get("defines", [])
        self.defines += [f"-DFA_{name.upper()}={x}" for name, x in self.variant.items()]
        self.kernel = about.get("kernel")  # of a puzzle
        self.evidence = about.get("answer")  # of a bug hunt
        self.added = []  # files of take_hidden()

    def _text(self, name):
        text = (self.folder / name).read_text(encoding="utf-8")
        for word, value in self.variant.items():
            text = text.replace("{{" + word + "}}", str(value))
        return text

    def _part(self, which):
        """A branch of exercise.cpp, or the other answers; empty where it has none."""
        found = PARTS.split(self._text("exercise.cpp"))
        return dict(zip(found[1::2], found[2::2])).get(which, "")

    def _file(self, solution):
        """The student's file without the changes of its start, and the places that it lists."""
        text, places = filled(self.root, self._part(STUDENT), solution)
        answer = f"// answer: {self.evidence if solution else '?'}\n" if self.evidence else ""
        kind = "Puzzle" if self.kernel else "Exercise"
        head = (
            f"// {kind} {self.id}: see ./learn exercise start {self.id}\n{answer}#pragma once\n\n"
        )
        return head + text, places

    @property
    def entry(self):
        """What the grader calls: C++ with the student's file behind the includes at its top, unless
        it includes that file itself."""
        student, own = f'#include "student/{self.file}"\n', PUZZLE_ENTRY.format(self.kernel)
        if not self.kernel and not (own := self._part(ENTRIES)):
            raise Fault(f"{self.id}: exercise.cpp has no branch {ENTRIES}")
        if student not in own:
            own = re.sub(r"\A(?:#include .*\n)*", lambda top: top[0] + student, own)
        if self.machine == "lab":
            own = own.replace(student, student + LAB_NAMES)
        first = "launches" if self.machine == "lab" else "entry"
        return f'#include "common/classroom/{first}.hpp"\n{own}'

    def hidden(self):
        """The lessons' files that hold what the exercise asks for."""
        if self.predicts or not self.has_solution:
            return set()
        # What the start changes it may hold elsewhere, too.
        shown = set() if self.answers("start") else self._file(False)[1]
        return {ROOT / place.partition("#")[0] for place in self._file(True)[1] - shown}

    @property
    def grader(self):
        """The source of the grader."""
        return self.folder / "exercise.cpp"

    def take_hidden(self, folder):
        """Adds a teacher's stages, with a point each: FA_STAGE() in the files folder/ID/*.cpp."""
        self.added = sorted((folder / self.id).resolve().glob("*.cpp"))
        for path in self.added:
            stages, names = STAGE.findall(path.read_text(encoding="utf-8")), ", ".join(self.points)
            if self.predicts:
                raise Fault(f"{path}: {self.id} asks for numbers, which have no hidden tests")
            if not stages or set(stages) & set(self.points):
                raise Fault(f"{path}: it needs an FA_STAGE() with another name than {names}")
            self.points.update(dict.fromkeys(stages, 1))
            self.titles.update(dict.fromkeys(stages, HIDDEN))

    def task(self):
        """What to do, without the questions, which are in the student's file, and the hints."""
        text = self._text("task.md")
        if self.predicts:
            text = QUESTIONS.sub("", text)
        return HINT.sub("", text).strip() + "\n"

    def hints(self):
        """Three hints, from a nudge to nearly the answer."""
        return HINT.findall(self._text("task.md"))

    def start(self):
        """The student's file at first."""
        if self.predicts:
            questions = QUESTIONS.search(self._text("task.md"))
            if not questions:
                raise Fault(f"{self.id}: task.md has no block of questions 'name = ?'")
            return f"# Exercise {self.id}: see ./learn exercise start {self.id}\n{questions[1]}"
        text = self._file(False)[0]
        for change in self.answers("start"):
            text = change.apply(text)
        return text

    def solution(self):
        """The student's file with the solution; of questions without code grading.solution() knows
        it."""
        if not self.has_solution:
            raise Fault("this copy of the course was made without solutions; ask your teacher")
        return self._file(True)[0]

    def answers(self, kind):
        """The other answers of a kind; none for predictions, whose grader knows them: see
        numbers.wrong_answers()."""
        found = read_answers(self._part(ANSWERS), f"{self.id}/exercise.cpp")
        return [answer for answer in found if answer.kind == kind]

    def without_solution(self):
        """exercise.cpp for a copy without solutions."""
        text = self._text("exercise.cpp")
        if self.predicts:
            return text
        start = self.start().partition("#pragma once\n\n")[2]
        return text.replace(self._part(STUDENT), start).partition(ANSWERS)[0]

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


def unknown(name, exercises):
    """The fault of a name that no exercise has, with the three that are most like it."""

    def like(one):
        names = (one.id, one.folder.name)
        return max(difflib.SequenceMatcher(None, name, own).ratio() for own in names)

    near = ", ".join(one.id for one in sorted(exercises, key=like, reverse=True)[:3])
    return Fault(f"there is no exercise '{name}'; the nearest are {near}")


def choose(names, root=ROOT, seed=None):
    """The exercises that the names mean: an ID, its part after the lesson, a lesson; all of them
    for no names."""
    everything, chosen = exercises(root, seed), []
    for name in names:
        found = [e for e in everything if name in (e.id, e.folder.name)]
        found = found or [e for e in everything if f"{e.lesson}_".startswith(f"{name.zfill(2)}_")]
        if not found:
            raise unknown(name, everything)
        chosen += [e for e in found if e not in chosen]
    return chosen if names else everything


def table(names):
    """Prints the exercises as a table: all of them, or those of the lessons that are named."""
    chosen = choose(names)
    cells = [["exercise", "title", "kind", "minutes", "points"]]
    cells += [
        [one.id, one.title, one.kind, one.minutes, sum(one.points.values())] for one in chosen
    ]
    if len(chosen) > 1:
        sums = [sum(column) for column in list(zip(*cells[1:]))[3:]]
        cells.append([f"{len(chosen)} exercises", "", "", *sums])
    print("\n".join(aligned(cells, 1, 3)))


if __name__ == "__main__":
    table(sys.argv[1:])
