"""The exercises on pages: each that a page names is a link, `03_merge` is [`03_merge`](its
task.md); and the page of an exercise on the site, which has what lesson.json says about it, what
the student writes and the file to begin with, around the words of its task.md.

A name may stand as it is in a listing, in what a program prints, in a comment, and in the
summary of a folded answer, where a click opens the answer. A task names its own exercise in its
title, and others as a terminal shows them; the site links those.

    python3 -m docs.site.check exercises --root .            prints what is not linked
    python3 -m docs.site.check exercises --root . --write    links it
"""

import os
import pathlib
import re

from common.classroom import catalogue
from docs.site import navigation
from docs.site.excerpts import fences_of, read_lines
from docs.site.sync_pages import END, GENERATED

COMMAND = r"\./learn exercise \w+ "
DOUBLED = re.compile(r"# \d\d_(\w+): \1\b[^:]*: ", re.IGNORECASE)
LINK = r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)|<a [^>]*>.*?</a>"
SKIPPED = re.compile(r"\s*(?:#|<summary|<details><summary|<!--)")


def names(ids):
    """What finds a link, a piece of code, or the bare name of an exercise."""
    one = "|".join(sorted(map(re.escape, ids), key=len, reverse=True))
    bare = rf"(?<![\w/.-])(?P<bare>{one})(?![\w/-]|\.\w)"
    code = rf"`(?P<code>(?:{COMMAND})?(?P<id>{one}))`"
    return re.compile(rf"{LINK}|{code}|(?P<other>`+)(?:(?!(?P=other)).)*(?P=other)|{bare}")


def with_links(line, pattern, address):
    """(the line with links, the names that had none). address(ID) is where a link leads."""
    found = []

    def link(match):
        name = match["id"] or match["bare"]
        if not name:
            return match[0]
        found.append(name)
        return f"[`{match['code'] or name}`]({address(name)})"

    return pattern.sub(link, line), found


def page_lines(lines, pattern, address):
    """Yields (number of the line from 0, line with links, names that had none)."""
    _, inside = fences_of(lines)
    printed = False
    for number, line in enumerate(lines):
        if number in inside or SKIPPED.match(line):
            printed = bool(GENERATED.match(line)) or (printed and not END.match(line))
        elif not printed:
            new, found = with_links(line, pattern, address)
            if found:
                yield number, new, found


def changes(root):
    """Yields (page, [(number, new line, names)]) for each page with names that are not linked."""
    pages = catalogue.task_pages(root)
    if not pages:
        return
    pattern = names(pages)
    for page in navigation.pages(root):
        if page in pages.values():
            continue

        def address(name, page=page):
            return os.path.relpath(pages[name], os.path.dirname(page)).replace(os.sep, "/")

        if found := list(page_lines(read_lines(root / page), pattern, address)):
            yield page, found


def faults(root):
    """Checks that pages link the exercises that they name, and that a title says its name once."""
    for page, found in changes(root):
        for number, _, missing in found:
            yield f"{page}:{number + 1}: not linked: {', '.join(missing)}."
    for page in (pages := catalogue.task_pages(root)).values():
        title = read_lines(root / page)[0]
        if DOUBLED.match(title):
            yield f"{page}:1: the title repeats its name: {title}"
    return f"{len(pages)} exercises"


def write(root):
    """Checks the same, and links what is not linked."""
    for page, found in changes(root):
        path = root / page
        lines = path.read_bytes().decode("utf-8").split("\n")
        for number, new, _ in found:
            lines[number] = new
        path.write_bytes("\n".join(lines).encode("utf-8"))
        print(f"{page}: {len(found)} lines written")
    return (yield from faults(root))


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
        f"Read [{navigation.numbered_title(root, asked_by)}](/{asked_by}) first.",
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
    pattern = names(pages)
    for number, line, _ in page_lines(lines, pattern, lambda id: "/" + pages[id]):
        lines[number] = line
    return "\n".join(lines)
