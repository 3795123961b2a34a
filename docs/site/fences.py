"""Fenced blocks of Markdown."""

import re

FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>.*)$")


class Fence:
    """A fenced block; `first` and `last` are the numbers of its opening and closing lines."""

    def __init__(self, first, match):
        self.first, self.last = first, None  # None: it is never closed
        self.indent, self.mark = match["indent"], match["mark"]

    def closed_by(self, line):
        """Would this line close the block?"""
        text = line.strip()
        return set(text) == {self.mark[0]} and len(text) >= len(self.mark)


def fences_of(lines):
    """({first line: Fence}, the numbers of the lines inside of fences and of long comments)."""
    fences, inside = {}, set()
    fence = comment = None
    for i, line in enumerate(lines):
        if fence or comment:
            inside.add(i)
        if fence and fence.closed_by(line):
            fence.last, fence = i, None
        elif comment:
            comment = "-->" not in line
        elif not fence and (match := FENCE.match(line)):
            if match["mark"][0] == "~" or "`" not in match["info"]:
                fence = fences[i] = Fence(i, match)
        elif not fence and line.lstrip().startswith("<!--"):
            comment = "-->" not in line
    return fences, inside
