"""Changes to code that are written as a list: mutants of the lessons, answers to exercises.

    # what is changed, in words
    @ a mark: the file that is changed, or what must come of it
    - a line of the code, indentation aside, or several
    - ...                 stands for all lines up to the next one
    + what stands there instead

Lines - and + may follow again, for another place of the same file. A line @ above the words holds
for all changes that follow it and have none of their own.
"""

import dataclasses


@dataclasses.dataclass
class Change:
    """Some lines of a text, replaced."""

    what: str  # in words
    mark: str = ""
    hunks: list = dataclasses.field(default_factory=list)  # pairs: lines as they are, lines instead

    def apply(self, text):
        """The text with the lines replaced, each of which must stand there exactly once."""
        lines = text.split("\n")
        for before, after in self.hunks:
            stripped = [line.strip() for line in lines]
            places = [(i, end_of(before, stripped, i)) for i in range(len(lines))]
            places = [(begin, end) for begin, end in places if end is not None]
            if len(places) != 1:
                raise ValueError(
                    f"'{self.what}': its lines stand in the code {len(places)} times, not once"
                )
            lines[slice(*places[0])] = after
        return "\n".join(lines)


def end_of(before, lines, at):
    """Where the lines `before` end that begin at a place; None where others stand there."""
    skips = False
    for line in before:
        if line == "...":
            skips = True
            continue
        while skips and at < len(lines) and lines[at] != line:
            at += 1
        if at == len(lines) or lines[at] != line:
            return None
        at, skips = at + 1, False
    return at


def read_changes(text, name):
    """The changes of a list; `name` is the list's, for messages."""
    changes, mark, last = [], "", ""
    for number, line in enumerate(text.split("\n"), 1):
        kind, rest = line[:1], line[2:]
        if kind == "#":
            changes.append(Change(rest, mark))
        elif kind == "@" and last == "#":
            changes[-1].mark = rest.strip()
        elif kind == "@":
            mark = rest.strip()
        elif kind == "-" and changes:
            if last != "-":
                changes[-1].hunks.append(([], []))
            changes[-1].hunks[-1][0].append(rest.strip())
        elif kind == "+" and changes and changes[-1].hunks:
            changes[-1].hunks[-1][1].append(rest)
        elif line.strip():
            raise ValueError(f"{name}:{number}: a line begins with '# ', '@ ', '- ' or '+ '")
        last = kind
    for change in changes:
        if not (change.mark and change.hunks):
            raise ValueError(f"{name}: '{change.what}' needs a line '@ ' and a line '- CODE'")
    return changes
