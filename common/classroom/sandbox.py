"""Runs a program that is not trusted: in its own folder, with limits, without a way to the grader.

The layers are in confine.cpp. Here are the limit of wall-clock time, the end of the whole process
group, and the channel on which the one true result comes.
"""

import ctypes
import dataclasses
import os
import pathlib
import secrets
import select
import signal
import subprocess
import sys
import threading
import time

STRANGER = 65534  # the user "nobody", as whom programs run when the grader is root


@dataclasses.dataclass
class Limits:
    """What a program and all that it starts may use together."""

    seconds: int = 5  # of processor time, of one process; twice as much, and 5, by the clock
    memory: int = 3072  # MiB of address space of one process, and of memory of all
    file: int = 16  # MiB of one file; four times as much of all files
    processes: int = 32
    stranger: bool = True  # not as root
    readable: tuple = ()  # paths; of none, everything


@dataclasses.dataclass
class Outcome:
    """How a program ended."""

    status: int  # exit status, or minus the number of a signal
    timed_out: bool
    output: str  # standard output and error, the first of it
    result: str  # the line that bore the secret; empty without one
    seconds: float
    exceeded: str = ""  # the limit of all processes that it exceeded, in words


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


def members(group):
    """Process numbers of a process group."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat", encoding="utf-8", errors="replace") as file:
                    # After the name, which may hold anything: state, parent, group.
                    if int(file.read().rpartition(")")[2].split()[2]) == group:
                        found.append(int(entry.name))
            except (OSError, ValueError, IndexError):
                continue  # it has ended
    return found


def memory_of(process):
    """Bytes of memory that a process uses, what it shares with others by its part."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        with open(f"/proc/{process}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def size_of(directory, most=4096):
    """Bytes of the files in a folder; without an end for more than `most` of them."""
    total, count, folders = 0, 0, [str(directory)]
    while folders:
        try:
            for entry in os.scandir(folders.pop()):
                count += 1
                if count > most:
                    return float("inf")
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total


def excess(group, directory, limits):
    """Which limit all processes of a group exceed together, in words."""
    processes = members(group) if os.path.isdir("/proc/self") else []
    if len(processes) > limits.processes:
        return f"it started more than {limits.processes} processes"
    if sum(map(memory_of, processes)) > limits.memory << 20:
        return "it used more memory than a check may use"
    if size_of(directory) > limits.file << 22:
        return "its files are larger than a check may write"
    return ""


def wait(process, directory, limits):
    """Waits until a process ends or exceeds what its group may use.

    @return (whether its time was over, the limit that was exceeded)
    """
    end = time.monotonic() + 2 * limits.seconds + 5
    try:
        ending = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # only Linux has it, and not every sandbox allows it
        ending = None
    try:
        watched = select.poll()
        if ending is not None:
            watched.register(ending, select.POLLIN)
        while (left := end - time.monotonic()) > 0:
            pause = min(left, 0.1)
            if ending is not None and watched.poll(1000 * pause):
                return False, ""
            if ending is None:
                try:
                    process.wait(pause)
                    return False, ""
                except subprocess.TimeoutExpired:
                    pass
            if too_much := excess(process.pid, directory, limits):
                return False, too_much
        return True, ""
    finally:
        if ending is not None:
            os.close(ending)


class Collector(threading.Thread):
    """Reads all that a program prints, and keeps the first of it."""

    KEPT = 200_000

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.kept = stream, b""
        self.start()

    def run(self):
        """Reads to the end."""
        try:
            while piece := os.read(self.stream.fileno(), 1 << 16):
                if len(self.kept) < self.KEPT:
                    self.kept += piece
                else:
                    # What a crash says comes last.
                    self.kept = self.kept[: self.KEPT] + (self.kept[self.KEPT :] + piece)[-8192:]
        except (OSError, ValueError):
            pass

    def text(self):
        """What was kept, once the program has ended."""
        self.join(2)
        return self.kept.decode("utf-8", "replace")


def protect():
    """Lets no other process read the memory of this one, which knows the secrets."""
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
        except (OSError, AttributeError):
            pass


def run(confine, command, directory, limits, channel=False):
    """Runs a command in a folder.

    @param confine   path of the program of that name
    @param command   words; with a channel two file numbers are added
    @param directory the only place that it may write to
    @param channel   whether it is told a secret and where to write its result
    """
    directory = pathlib.Path(directory)
    protect()
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
        ":".join(map(str, limits.readable)) or "-",
    ]
    began = time.monotonic()
    with subprocess.Popen(
        start + words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=quiet_environment(directory),
        pass_fds=fds,
        start_new_session=True,
    ) as process:
        output = Collector(process.stdout)
        for fd in fds:
            os.close(fd)
        timed_out, exceeded = wait(process, directory, limits)
        try:  # the whole group, not only the first process
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
        end_stragglers(directory)
        seconds = time.monotonic() - began
        text = output.text()
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
        or (process.returncode == -signal.SIGKILL and not exceeded and seconds > limits.seconds)
    )
    return Outcome(process.returncode, timed_out, text, result, seconds, exceeded)


def layers(confine):
    """What this system offers, in words."""
    return subprocess.run([str(confine), "--layers"], capture_output=True, text=True).stdout.split(
        "\n"
    )[:-1]
