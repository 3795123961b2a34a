"""Runs one stage of a grader, and says in words how the student's program ended."""

import dataclasses
import json
import re
import shutil
import signal
import subprocess

from common.classroom import sandbox

RUN = sandbox.Limits()


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


def stages_of(exercise):
    """The stages of an exercise, none of them run."""
    return [
        StageResult(name, exercise.titles.get(name, name), points, "not reached")
        for name, points in exercise.points.items()
    ]


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
    if outcome.timed_out and outcome.seconds >= limits.clock:
        reason = "does it wait for something that never comes, or is this computer busy?"
        return f"it was still running after {limits.clock} seconds by the clock{where}: {reason}"
    if outcome.timed_out or status == -signal.SIGXCPU:
        reason = "an endless loop, or far too many iterations?"
        spent = f"{limits.seconds} seconds of processor time"
        return f"it was still running after {spent}{where}: {reason}"
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
