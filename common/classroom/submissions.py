"""Finds what students have handed in: the files of exercises, anywhere below a student's folder and
in zip and tar archives there. Archives are read in memory and links are not followed, so no name in
a submission leads to another file.
"""

import dataclasses
import functools
import re
import stat
import sys
import tarfile
import time
import zipfile

from common.classroom.catalogue import Fault
from common.classroom.grading import LONGEST, text_of
from common.classroom.student import WORK
from common.data.files import printable

MOST, UNPACKED, DEEPEST = 10_000, 200_000_000, 20  # files, bytes of an archive, folders
ARCHIVE = re.compile(r"\.(zip|tar|tgz|tar\.(gz|bz2|xz))$", re.IGNORECASE)
# What the commands, editors and systems write beside answers.
ASIDE = re.compile(
    r"(.*/)?(\.[^./]|__MACOSX/|progress(\.damaged)?\.json|\w+\.before_\d+\.|compile_comm)"
)
# A second upload: "one_step (1).hpp", "one_step-1.hpp", "one_step copy 2.hpp".
COPY = re.compile(r"(?: ?\((\d+)\)|-(\d+)| copy ?(\d*))(?=\.\w+$|$)")
MANY = 20  # files beside my_exercises that are not an exercise's
UNKNOWN = "no exercise has a file of this name"
HEAD = re.compile(r"\W*(?:Exercise|Puzzle) (\d\d_\w+):")


@dataclasses.dataclass
class Submission:
    """What one student has handed in."""

    name: str
    answers: dict = dataclasses.field(default_factory=dict)  # ID -> text of the student's file
    times: dict = dataclasses.field(default_factory=dict)  # ID -> when it was last changed
    unread: list = dataclasses.field(default_factory=list)  # "NAME: WHY" of files


def in_archive(path, name):
    """As files_below(), of the files in an archive."""
    left = UNPACKED
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            for one in archive.infolist():
                if not one.is_dir():
                    when = time.mktime((*one.date_time, 0, 0, -1))
                    yield f"{name}/{one.filename}", when, lambda: archive.open(one)
        return
    with tarfile.open(path) as archive:
        for one in archive:
            if (left := left - one.size) < 0:
                raise Fault(f"it unpacks to more than {UNPACKED // 1_000_000} MB")
            if not one.isdir():
                opened = (lambda: archive.extractfile(one)) if one.isfile() else None
                yield f"{name}/{one.name}", one.mtime, opened


def files_below(top, unread):
    """(name, time of the last change, function that opens it) of each file in a folder or archive,
    also in archives in the folder; no function for links and devices."""
    left = [(top, top.name if top.is_file() else "")]
    while left:
        path, name = left.pop()
        mode, when = path.lstat().st_mode, path.lstat().st_mtime
        if stat.S_ISDIR(mode) and name.count("/") < DEEPEST:
            try:
                inner = sorted(path.iterdir(), reverse=True)
                left += [(one, f"{name}/{one.name}".lstrip("/")) for one in inner]
            except OSError as why:
                unread.append(f"{name}: {why.strerror}")
        elif stat.S_ISDIR(mode):
            unread.append(f"{name[:80]}...: more than {DEEPEST} folders in each other")
        elif stat.S_ISREG(mode) and ARCHIVE.search(name):
            try:
                yield from in_archive(path, name)
            except Exception as why:  # whatever an archive holds, the next one is read
                unread.append(f"{name}: {why or repr(why)}")
        elif not ASIDE.match(name):
            yield name, when, functools.partial(path.open, "rb") if stat.S_ISREG(mode) else None


def exercise_of(name, text, exercises):
    """The exercise that a file belongs to, by its folder, its first line or its name; None when
    several could be meant."""
    *folders, file = (COPY.sub("", part) for part in name.split("/"))
    alike = {one.id: one for one in exercises if one.file == file}
    head = HEAD.match(text)
    for told in (folders[-1:], [head[1]] if head else [], list(alike)):
        if len(told) == 1 and told[0] in alike:
            return alike[told[0]]
    return None


def read(name, folder, exercises):
    """Reads what a student has handed in. Of several files for an exercise the one in my_exercises
    is taken, then one in a folder with the exercise's ID, then the newest."""
    found, ranks, files = Submission(name), {}, {one.file for one in exercises}
    for count, (name, when, opened) in enumerate(files_below(folder, found.unread)):
        parts = [COPY.sub("", part) for part in name.split("/")]
        if count == MOST:
            found.unread.append(f"all after {MOST} files")
            break
        if ASIDE.match(name):
            continue
        try:
            if parts[-1] not in files:
                raise Fault(UNKNOWN)
            if opened is None:
                raise Fault("a link or a device")
            with opened() as file:
                text = text_of(file.read(LONGEST + 1))
            one = exercise_of(name, text, exercises)
            if one is None:
                raise Fault("several exercises have such a file; put it into a folder with the ID")
        except Exception as why:  # encrypted, damaged, unreadable
            found.unread.append(f"{name}: {why or repr(why)}")
            continue
        number = sum(int(part or 0) for copy in COPY.findall(name) for part in copy)
        rank = (WORK in parts, one.id in parts, when, number, name)
        if one.id in ranks:
            older, newer = sorted((rank, ranks[one.id]))
            found.unread.append(f"{older[-1]}: {newer[-1]} is taken instead")
        if rank >= ranks.get(one.id, rank):
            ranks[one.id] = rank
            found.answers[one.id], found.times[one.id] = text, when
    if len(found.unread) > MANY and any(rank[0] for rank in ranks.values()):  # a whole clone
        found.unread = [w for w in found.unread if WORK in w or not w.endswith(UNKNOWN)]
    return found


def report(submission, most=10):
    """Tells the teacher which files were not read."""
    for words in submission.unread[:most]:
        print(printable(f"{submission.name}: not read: {words}"), file=sys.stderr)
    if (more := len(submission.unread) - most) > 0:
        print(f"{printable(submission.name)}: not read: {more} more files", file=sys.stderr)


def students_in(folder, exercises, alone=False):
    """The submissions in a folder: itself, or those of several students.

    @param alone it is one student's, whatever its folders are called
    """
    own = {WORK, *(one.id for one in exercises), *(one.file for one in exercises)}
    inner = sorted(folder.iterdir()) if folder.is_dir() else []
    if not folder.is_dir() and not (folder.is_file() and ARCHIVE.search(folder.name)):
        raise Fault(f"'{folder}' is neither a folder with files of exercises nor an archive of one")
    name = folder.resolve().name
    if alone or not inner or any(COPY.sub("", ARCHIVE.sub("", p.name)) in own for p in inner):
        found = [read(ARCHIVE.sub("", name), folder, exercises)]
    else:
        found, others = [], Submission(name)
        for path in inner:
            if not path.is_symlink() and (path.is_dir() or ARCHIVE.search(path.name)):
                short = ARCHIVE.sub("", path.name)
                short = path.name if path.is_file() and (folder / short).exists() else short
                if not path.name.startswith("."):
                    found.append(read(short, path, exercises))
            elif not ASIDE.match(path.name):
                others.unread.append(f"{path.name}: neither a student's folder nor an archive")
        if others.unread:
            report(others)
    for one in found:
        report(one)
    return found
