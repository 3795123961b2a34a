"""A record that is written after each point: a run that is cut leaves what it has measured, and the
same command goes on from there."""

import pathlib
import subprocess
import time

from common.bench.command import BEGAN, POINTS_MISSING, Failure
from common.data import records
from common.data.files import check_writable, write_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAY_DIFFER = ("command", "date")  # between runs of one record, whose head names the last one


def add_options(parser):
    """The options of a program that writes a record."""
    words = "the record to write, or to go on with: what it has is not measured again"
    parser.add_argument("--json", metavar="FILE", help=words)
    parser.add_argument("--again", action="store_true", help="measure again what the record has")
    words = "begin nothing that would end later; the exit status is then 3"
    parser.add_argument("--limit", type=float, metavar="SECONDS", help=words)
    parser.add_argument("--commit", metavar="ID", help="of the code, for a copy without git")


def first_line(*command):
    """What a command prints first; "unknown" when it prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return (done.stdout.splitlines() or ["unknown"])[0].strip()


def commit_of(args):
    """The commit that --commit names, or git."""
    describe = ("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12")
    return args.commit or first_line(*describe)


def read(path):
    """A record whose measurements are rows; None where there is no file."""
    if not pathlib.Path(path).exists() or pathlib.Path(path).stat().st_size == 0:
        return None
    record = records.read(path)
    rows = record.get("measurements")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise records.Problem(f"{path} is not a record: it has no measurements")
    return record


def check_same(path, old, head):
    """A Failure where a record that is to go on is of something else."""
    rest = f"; --again begins {path} anew"
    if records.program(old) != records.program(head):
        raise Failure(f"{path} is not a record of {records.program(head)}{rest}")
    for field, value in head.items():
        if field not in MAY_DIFFER and old.get(field) != value:
            raise Failure(f"{path} has another {field}: {old.get(field)}, not {value}{rest}")
    if head["commit"] == "unknown" or head["commit"].endswith("-dirty"):
        raise Failure(f"{path} may be of other code: {head['commit']} names no commit{rest}")


def is_of(row, point):
    return point.items() <= row.items()


class Record:
    """A point is a dictionary: fields that its rows have, and no other ones do."""

    def __init__(self, args, head):
        """args: of add_options()."""
        self.path, self.again, self.limit = args.json, args.again, args.limit
        self.head, self.rows, self.missing, self.longest = head, [], [], 0.0
        if not self.path:
            return
        check_writable(self.path)
        try:
            old = read(self.path)
            if old:
                check_same(self.path, old, head)
                self.rows = old["measurements"]
        except (Failure, records.Problem):
            if not self.again:
                raise

    def of(self, point):
        """The rows of a point."""
        return [row for row in self.rows if is_of(row, point)]

    def has(self, point):
        """Whether a point need not be measured."""
        return bool(self.of(point)) and not self.again

    def left(self, points):
        """The names of {name: point} that are to be measured, one at a time: the caller put()s a
        point before it takes the next one. None begins after the limit."""
        for name, point in points.items():
            if self.has(point):
                continue
            begin = time.monotonic()
            if self.limit and begin - BEGAN + self.longest > self.limit:
                self.missing.append(name)
                continue
            yield name
            self.longest = max(self.longest, time.monotonic() - begin)

    def put(self, point, rows):
        """Writes the file with these rows of a point, in place of those that it had."""
        self.rows = [row for row in self.rows if not is_of(row, point)] + rows
        if self.path:
            write_file(self.path, records.text_of(self.head, self.rows))

    def status(self, good=True):
        """The exit status; prints the points that are missing."""
        if self.missing:
            print(f"Missing, since {self.limit:g} s have passed: {', '.join(self.missing)}.")
            print("The same command, without --again, goes on where --json names its record.")
        return 1 if not good else POINTS_MISSING if self.missing else 0
