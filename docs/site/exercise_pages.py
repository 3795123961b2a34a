"""The page of an exercise on the site: what lesson.json says about it, what the student writes and
the file to begin with, around the words of its task.md."""

import pathlib
import re

from common.classroom import catalogue
from docs.site import chapters, check_exercises, navigation

# The head of a function with a body, or of a structure with a base, whose members may be to write.
HEAD = re.compile(
    r"^ *(?P<head>(?:template <[^\n]*>\n *)?(?!(?:if|for|while|switch|return|else)\b)"
    r"(?:[A-Za-z_](?:[\w:<>,*&\[\] ]*[\w&*>])? [*&]?\w+\([^;{}]*\)(?: const)?"
    r"|struct \w+ : \w+)) \{$",
    re.MULTILINE,
)
RUNS_ON = {"cpu": "on the CPU", "lab": "a kernel, on the CPU in the lab"}
HINTS = "<details><summary>Hint 1</summary>"


def signatures(start):
    """The heads of what a student writes, which is what holds a TODO; in a program that
    is complete, the last one."""
    heads = list(HEAD.finditer(start))
    places = [match.start() for match in re.finditer("TODO", start)] or [len(start)]
    found = []
    for place in places:
        before = [match["head"] for match in heads if match.start() < place]
        found += before[-1:]
    return [unindented(head) for head in dict.fromkeys(found)]


def unindented(head):
    """A head without the indentation that its first line had."""
    first, *rest = head.split("\n")
    inner = first.startswith("template") and rest
    gap = len(rest[0]) - len(rest[0].lstrip()) if inner else 0
    return "\n".join([first, *(line[gap:] for line in rest)])


def facts(exercise):
    """Kind, time, points, and where it runs."""
    words = [
        exercise.kind,
        f"{exercise.minutes} minutes",
        f"{sum(exercise.points.values())} points",
        RUNS_ON[exercise.machine],
    ]
    return (
        '<p class="exercise-facts">' + "".join(f"<span>{word}</span> " for word in words) + "</p>"
    )


def fenced(language, text):
    """A listing."""
    return f"```{language}\n{text.rstrip()}\n```"


def stages(exercise):
    """What the check looks at, with points."""
    rows = [f"| {exercise.titles[name]} | {points} |" for name, points in exercise.points.items()]
    return "\n".join(["| The check, stage by stage | points |", "| --- | ---: |", *rows])


def page(root, path, source):
    """The Markdown of a task's page on the site, of that of its task.md."""
    folder = root / pathlib.PurePosixPath(path).parent
    exercise = next(e for e in catalogue.exercises(root) if e.folder == folder)
    for word, value in exercise.variant.items():
        source = source.replace("{{" + word + "}}", str(value))
    heading, _, text = source.partition("\n")
    text = linked(root, exercise, text)
    task, mark, hints = text.partition(HINTS)
    asked_by = navigation.asked(root)[path]
    parts = [
        heading,
        facts(exercise),
        f"Read [{chapters.numbered_title(root, asked_by)}](/{asked_by}) first.",
    ]
    if not exercise.predicts:
        parts += ["You write:", fenced("cpp", "\n\n".join(signatures(exercise.start())))]
    parts += ["## The task", task.strip()]
    commands = "\n".join(f"./learn exercise {verb} {exercise.id}" for verb in ("start", "check"))
    parts += ["## Your file", fenced("sh", commands)]
    if exercise.predicts:
        parts.append("`start` makes a file with these questions; put a number behind each `=`.")
    else:
        parts += [f"`start` makes `{exercise.file}`:", fenced("cpp", exercise.start())]
    parts.append(stages(exercise))
    if mark:
        parts += ["## Hints", mark + hints]
    return "\n\n".join(parts) + "\n"


def linked(root, exercise, text):
    """The text with links to the other exercises that it names."""
    pages = catalogue.task_pages(root)
    pages.pop(exercise.id)
    if not pages:
        return text
    lines = text.split("\n")
    pattern = check_exercises.names(pages)
    for number, line, _ in check_exercises.page_lines(lines, pattern, lambda id: "/" + pages[id]):
        lines[number] = line
    return "\n".join(lines)
