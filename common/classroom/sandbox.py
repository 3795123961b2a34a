"""Runs a program that is not trusted: in its own folder, with limits, without a way to the grader.

The layers are in confine.cpp. Here are the limit of wall-clock time, the end of the whole process
group, and the channel on which the one true result comes.
"""

import dataclasses
import os
import pathlib
import secrets
import select
import signal
import subprocess
import tempfile
import time

STRANGER = 65534  # the user "nobody", as whom programs run when the grader is root


@dataclasses.dataclass
class Limits:
    """What a program may use."""

    seconds: int = 20  # of processor time; as much again, and 5, by the clock
    memory: int = 3072  # MiB of address space
    file: int = 16  # MiB of one file
    stranger: bool = True  # not as root


@dataclasses.dataclass
class Outcome:
    """How a program ended."""

    status: int  # exit status, or minus the number of a signal
    timed_out: bool
    output: str  # standard output and error, the first of it
    result: str  # the line that bore the secret; empty without one
    seconds: float


def quiet_environment(directory):
    """No secrets of the grader, no colours, no other language; temporary files in the folder that
    may be written."""
    keep = ("PATH", "LD_LIBRARY_PATH")
    own = {"LC_ALL": "C.UTF-8", "TERM": "dumb", "TMPDIR": str(directory), "HOME": str(directory)}
    return {**{k: os.environ[k] for k in keep if k in os.environ}, **own}


def take_back(directory):
    """Makes root the owner again of a folder that a stranger worked in, and of what is directly in
    it."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        for path in (directory, *pathlib.Path(directory).iterdir()):
            os.chown(path, 0, 0, follow_symlinks=False)


def end_stragglers(directory):
    """Ends what has left the process group and still works in the folder, where the system lets it
    leave."""
    for _ in range(100):
        found = False
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                place = os.readlink(entry / "cwd")
                if place == str(directory) or place.startswith(f"{directory}/"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
            except OSError:
                continue  # it has ended, or belongs to another user
        if not found:
            return
        time.sleep(0.01)


def wait(process, seconds):
    """Waits as process.wait(seconds) does, which naps up to 50 ms at a time: many steps of a check
    take less."""
    try:
        ending = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # only Linux has it, and not every sandbox allows it
        process.wait(seconds)
        return
    try:
        watched = select.poll()
        watched.register(ending, select.POLLIN)
        watched.poll(1000 * seconds)
    finally:
        os.close(ending)
    process.wait(0)


def run(confine, command, directory, limits, channel=False):
    """Runs a command in a folder.

    @param confine   path of the program of that name
    @param command   words; with a channel two file numbers are added
    @param directory the only place that it may write to
    @param channel   whether it is told a secret and where to write its result
    """
    directory = pathlib.Path(directory)
    secret = secrets.token_hex(16)
    words = [str(word) for word in command]
    fds = []
    if channel:
        secret_read, secret_write = os.pipe()
        result_read, result_write = os.pipe()
        os.write(secret_write, secret.encode())
        os.close(secret_write)
        os.set_blocking(result_read, False)
        fds = [secret_read, result_write]
        words += [str(fd) for fd in fds]
    stranger = STRANGER if limits.stranger and hasattr(os, "geteuid") and os.geteuid() == 0 else 0
    if stranger:
        os.chown(directory, stranger, stranger)
    start = [
        str(confine),
        str(limits.seconds),
        str(limits.memory),
        str(limits.file),
        str(stranger),
        str(directory),
    ]
    began, timed_out = time.monotonic(), False
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            start + words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=quiet_environment(directory),
            pass_fds=fds,
            start_new_session=True,
        )
        for fd in fds:
            os.close(fd)
        try:
            wait(process, 2 * limits.seconds + 5)
        except subprocess.TimeoutExpired:
            timed_out = True
        try:  # the whole group, not only the first process
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
        end_stragglers(directory)
        seconds = time.monotonic() - began
        output.seek(0)
        text = output.read(200_000).decode("utf-8", "replace")
    result = ""
    if channel:
        said = b""
        try:
            while piece := os.read(result_read, 65536):
                said += piece
        except BlockingIOError:
            pass
        os.close(result_read)
        lines = [
            line
            for line in said.decode("utf-8", "replace").split("\n")
            if line.startswith(secret + " ")
        ]
        if len(lines) == 1:
            result = lines[0][len(secret) + 1 :]
    timed_out = (
        timed_out
        or process.returncode == -signal.SIGXCPU
        or (process.returncode == -signal.SIGKILL and seconds > limits.seconds)
    )
    return Outcome(process.returncode, timed_out, text, result, seconds)


def layers(confine):
    """What this system offers, in words."""
    return subprocess.run([str(confine), "--layers"], capture_output=True, text=True).stdout.split(
        "\n"
    )[:-1]
