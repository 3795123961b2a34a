"""./learn exercise: where you are; list, start, check, watch, hint, reset, solution."""

import argparse
import contextlib
import difflib
import itertools
import json
import os
import pathlib
import select
import sys
import termios
import textwrap
import time
import tty

from common.classroom import catalogue, grading
from common.classroom.catalogue import Fault
from common.data.files import printable, write_file

WORK = "my_exercises"  # ignored by git, so an update leaves it alone


class Progress:
    """What the student has begun, passed and asked for; my_exercises/progress.json."""

    def __init__(self, root):
        self.path = root / WORK / "progress.json"
        self.of = {}
        try:
            self.of = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            kept = self.path.with_suffix(".damaged.json")
            self.path.replace(kept)
            print(f"{self.path} is damaged: it is kept as {kept.name}, and progress starts over.")

    def __getitem__(self, exercise):
        return self.of.setdefault(
            exercise.id, {"passed": False, "checks": 0, "hints": 0, "last": 0}
        )

    def save(self):
        """Writes the file, whole or not at all."""
        self.path.parent.mkdir(exist_ok=True)
        write_file(self.path, json.dumps(self.of, indent=1, sort_keys=True) + "\n")


class Student:
    """The commands. `toolchain` is a function, because not all of them need a build."""

    def __init__(self, root, toolchain):
        self.root, self.toolchain = root, toolchain
        self.all = catalogue.exercises(root)
        self.progress = Progress(root)

    def file(self, exercise):
        """The student's file."""
        return self.root / WORK / exercise.id / exercise.file

    def one(self, name):
        """The exercise that a name means; without a name the one that was worked on last."""
        if name:
            found = catalogue.choose([name], self.root)
            if len(found) > 1:
                raise Fault(f"name one of the exercises {', '.join(e.id for e in found)}")
            return found[0]
        begun = [e for e in self.all if self.file(e).exists()]
        if not begun:
            raise Fault("no exercise was begun; see ./learn exercise list")
        return max(begun, key=lambda e: self.progress[e]["last"])

    def begun(self, exercise):
        """The text of the student's file."""
        try:
            return grading.text_of(self.file(exercise).read_bytes())
        except FileNotFoundError:
            words = f"{exercise.id} was not begun; ./learn exercise start {exercise.id}"
            raise Fault(words) from None

    def next_open(self, exercise=None):
        """The first exercise after this one, or else of all, that is not passed."""
        at = [e.id for e in self.all].index(exercise.id) + 1 if exercise else 0
        others = self.all[at:] + self.all[:at]
        return next((e for e in others if not self.progress[e]["passed"]), None)

    def lessons(self):
        """(lesson, its exercises, how many are passed), in the order of the course."""
        for lesson, own in itertools.groupby(self.all, key=lambda exercise: exercise.lesson):
            own = list(own)
            yield lesson, own, sum(self.progress[e]["passed"] for e in own)

    def show_lesson(self, lesson, exercises, done):
        """Prints how far a lesson is, and after its last exercise what one can do."""
        print(f"  {lesson:<22} {bar(done, len(exercises), 12)}  {done} of {len(exercises)}")
        if done == len(exercises):
            path = self.root / lesson / "exercises" / "lesson.json"
            words = f"You can now {catalogue.read_lesson(path)['ability']}"
            print(textwrap.indent(textwrap.fill(words, 74), "    "))

    # ------------------------------------------------------------ commands

    def status(self):
        """Prints how far one is, what one was working on, and what comes next."""
        passed = [e for e in self.all if self.progress[e]["passed"]]
        print(f"{bar(len(passed), len(self.all), 40)}  {len(passed)} of {len(self.all)} exercises")
        for lesson in self.lessons():
            self.show_lesson(*lesson)
        begun = [e for e in self.all if self.file(e).exists() and e not in passed]
        print()
        if begun:
            now = max(begun, key=lambda e: self.progress[e]["last"])
            print(f"You are at {now.id}: {now.title} ({self.progress[now]['checks']} checks).")
            print(f"  Your file  {self.file(now).relative_to(self.root)}")
            print(f"  Continue   ./learn exercise watch {now.id}")
            print(f"  Stuck      ./learn exercise hint {now.id}")
        elif following := self.next_open():
            print(f"Next: {following.id}: {following.title}, about {following.minutes} minutes.")
            print(f"  Begin      ./learn exercise start {following.id}")
        else:
            print("All exercises are passed.")

    def list(self):
        """Prints all exercises by lesson."""
        for lesson, exercises, _done in self.lessons():
            print(f"\n{lesson}")
            for one in exercises:
                state = "begun" if self.file(one).exists() else ""
                state = "passed" if self.progress[one]["passed"] else state
                about = f"{one.kind:<18} {one.minutes:>3} min  {state:<7} {one.title}"
                print(f"  {one.id:<28} {about}")
        done = sum(self.progress[e]["passed"] for e in self.all)
        following = self.next_open()
        after = f"Next: ./learn exercise start {following.id}" if following else "That was all."
        print(f"\n{done} of {len(self.all)} passed. {after}")

    def start(self, name):
        """Makes the student's file, unless it is there, and prints the task."""
        exercise = self.one(name) if name else self.next_open()
        if exercise is None:
            raise Fault("all exercises are passed")
        file = self.file(exercise)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(exercise.start(), encoding="utf-8")
        self.tell_editors()
        self.progress[exercise]["last"] = time.time()
        self.progress.save()
        print(exercise.task())
        print(f"Your file:  {file.relative_to(self.root)}")
        print(f"Now:        ./learn exercise watch {exercise.id}     in a second terminal")
        print("            It checks whenever you save your file; check does it once.")
        print(f"Stuck:      ./learn exercise hint {exercise.id}")

    def tell_editors(self):
        """Writes my_exercises/.clangd, so that editors find what students' files include. Without a
        build nothing is known yet; the first check writes it."""
        with contextlib.suppress(Fault):
            write_file(self.root / WORK / ".clangd", self.toolchain().clangd())

    def check(self, name):
        """Grades the student's file; 0 when it passes."""
        exercise = self.one(name)
        answer = self.begun(exercise)
        self.tell_editors()
        began = time.monotonic()
        shown, tools = f"{WORK}/{exercise.id}/", self.toolchain()
        results = grading.grade(tools, exercise, answer, shown=shown, progress=show_progress)
        show_progress("")
        seconds = time.monotonic() - began
        passed = all(result.passed for result in results)
        state = self.progress[exercise]
        state["checks"] += 1
        state["last"] = time.time()
        state["passed"] = state["passed"] or passed
        self.progress.save()
        print(f"{exercise.id}: {exercise.title} ({seconds:.1f} s)")
        print_results(results)
        if passed:
            following = self.next_open(exercise)
            print(f"\nPassed. Compare with ours: ./learn exercise solution {exercise.id}")
            self.show_lesson(*next(own for own in self.lessons() if own[0] == exercise.lesson))
            if following:
                print(f"Next: ./learn exercise start {following.id}  ({following.title})")
        elif state["hints"] < 3:
            print(f"\nStuck? ./learn exercise hint {exercise.id}")
        return 0 if passed else 1

    def watch(self, name):
        """Checks whenever the file was saved, until it passes. On a terminal the next exercise
        follows; the key n goes on at once, h gives a hint, q ends."""
        exercise, seen = self.one(name), None
        self.begun(exercise)
        print(f"Watching {self.file(exercise).relative_to(self.root)}; end with Ctrl-C.")
        with keys() as pressed:
            while True:
                passed, before = False, seen
                with contextlib.suppress(FileNotFoundError):  # some editors remove it first
                    seen = self.file(exercise).stat().st_mtime_ns
                if seen != before:
                    print(f"\n---- {time.strftime('%H:%M:%S')}")
                    passed = self.check(exercise.id) == 0
                    if passed and not sys.stdin.isatty():
                        return 0
                    print("\nKeys: n next exercise, h hint, q quit", flush=True)
                key = pressed(0.2)
                if key == b"h":
                    self.hint(exercise.id)
                if passed or key == b"n":
                    if exercise := self.next_open(exercise):
                        print()
                        self.start(exercise.id)
                        seen = self.file(exercise).stat().st_mtime_ns
                if key == b"q" or not exercise:
                    return 0

    def hint(self, name):
        """Prints one more hint."""
        exercise = self.one(name)
        hints, state = exercise.hints(), self.progress[exercise]
        state["hints"] = min(state["hints"] + 1, len(hints))
        self.progress.save()
        for number, hint in enumerate(hints[: state["hints"]], 1):
            print(f"Hint {number} of {len(hints)}\n\n{hint}\n")
        if state["hints"] == len(hints):
            anyway = "" if state["passed"] else " --anyway"
            print(f"There are no more hints; ./learn exercise solution {exercise.id}{anyway}")

    def reset(self, name):
        """Starts over; the student's file is kept beside the new one."""
        exercise = self.one(name)
        file = self.file(exercise)
        self.begun(exercise)
        number = 1
        while (kept := file.with_name(f"{file.stem}.before_{number}{file.suffix}")).exists():
            number += 1
        file.replace(kept)
        file.write_text(exercise.start(), encoding="utf-8")
        print(f"{file.relative_to(self.root)} is as at first; yours is kept in {kept.name}.")

    def solution(self, name, anyway):
        """Shows the solution beside the student's own, after passing or when asked for twice."""
        exercise = self.one(name)
        if not self.progress[exercise]["passed"] and not anyway:
            print(f"{exercise.id} is not passed yet. To see the solution all the same:")
            print(f"  ./learn exercise solution {exercise.id} --anyway")
            return 1
        right = grading.solution(self.toolchain() if exercise.predicts else None, exercise)
        own = self.begun(exercise) if self.file(exercise).exists() else exercise.start()
        lines = difflib.unified_diff(own.splitlines(), right.splitlines(), "yours", "ours")
        print("\n".join(map(str.rstrip, lines)) or "Your file is identical to the solution.")


@contextlib.contextmanager
def keys():
    """A function that waits some seconds for a key; it returns none where there is no terminal."""
    if not sys.stdin.isatty():
        yield time.sleep
        return
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    tty.setcbreak(file, termios.TCSANOW)
    try:
        yield lambda seconds: os.read(file, 1) if select.select([file], [], [], seconds)[0] else b""
    finally:
        termios.tcsetattr(file, termios.TCSANOW, before)


def bar(done, of, width):
    """A bar of `width` characters."""
    full = width * done // of if of else 0
    return f"[{'#' * full}{'.' * (width - full)}]"


def show_progress(words):
    """What a check does now, in one line that goes away; only on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{words}{' ...' if words else ''}")
        sys.stderr.flush()


def print_results(results):
    """The stages, and what the first that refuses says."""
    drawn = [result for result in results if result.drawing]
    drawn = [result for result in drawn if not result.passed] or drawn
    if drawn:
        print("\n".join(f"  {line}".rstrip() for line in drawn[0].drawing.split("\n")))
    signs = {"passed": "ok", "refused": "NO", "skipped": "--", "not reached": "  "}
    for result in results:
        later = "  (not reached)" if result.verdict == "not reached" else ""
        print(f"  {signs[result.verdict]}  {result.title}{later}")
        for name, number in result.notes:
            print(f"        {name}: {number}")
        if result.verdict in ("refused", "skipped"):
            print(wrapped(result.message))


def wrapped(message):
    """A message as indented paragraphs; what is indented or has line numbers stays as it is."""
    lines = []
    for line in map(printable, message.expandtabs().split("\n")):
        if len(line) <= 90 or line.startswith(" ") or ": error:" in line or "|" in line:
            lines.append(line)
        else:
            lines += textwrap.wrap(line, 76)
    return "\n".join(f"        {line}".rstrip() for line in lines)


def main(arguments, root, toolchain):
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./learn exercise",
        description="Exercises in your own editor. Without a command: where you are.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("list", help="all exercises, and what you have passed")
    for word, text in (
        ("start", "make your file and print the task; without ID the next one"),
        ("check", "grade your file; without ID the one you worked on last"),
        ("watch", "check whenever you save, and go on with the next when you pass"),
        ("hint", "one hint more, of three"),
        ("reset", "start over; your old file is kept beside the new one"),
        ("solution", "compare yours with ours"),
    ):
        command = commands.add_parser(word, help=text)
        command.add_argument("name", nargs="?", metavar="ID")
        if word == "solution":
            command.add_argument("--anyway", action="store_true", help="before you have passed")
    words = vars(parser.parse_args(arguments))
    command = getattr(Student(pathlib.Path(root), toolchain), words.pop("command") or "status")
    return command(**words) or 0
