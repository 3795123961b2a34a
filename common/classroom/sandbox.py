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
import time

PROC = os.path.isdir("/proc/self")
NOBODY = 65534  # the user of that name, as which programs run when the grader is root


@dataclasses.dataclass
class Limits:
    """What a program and its children may use together."""

    seconds: int = 5  # of processor time, of one process
    clock: int = 60  # seconds, for what waits: a busy machine takes long for little work
    memory: int = 3072  # MiB of address space of one process, and of memory of all
    file: int = 16  # MiB of one file; four times as much of all files
    processes: int = 32
    unprivileged: bool = True  # as another user when the grader is root
    readable: tuple = ()  # paths; of none, everything
    pause: float = 0.1  # seconds from one look at what all use to the next


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


def is_root():
    """Whether this process may become any user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def restore_owner(directory):
    """Makes root the owner again of a folder that another user worked in, and of what is directly
    in it."""
    if is_root():
        for path in (directory, *pathlib.Path(directory).iterdir()):
            os.chown(path, 0, 0, follow_symlinks=False)


def processes():
    """Numbers of all processes, as text; none where the system does not show them."""
    return [name for name in os.listdir("/proc") if name.isdigit()] if PROC else []


def end_stragglers(directory):
    """Ends what has left the process group and still works in the folder, where the system lets it
    leave."""
    for _ in range(100):
        found = False
        for process in processes():
            try:
                place = os.readlink(f"/proc/{process}/cwd")
                if place == str(directory) or place.startswith(f"{directory}/"):
                    os.kill(int(process), signal.SIGKILL)
                    found = True
            except OSError:
                continue  # it has ended, or belongs to another user
        if not found:
            return
        time.sleep(0.01)


def members(group):
    """Process number -> threads, of the processes of a group."""
    found, group = {}, str(group).encode()
    for process in processes():
        try:
            file = os.open(f"/proc/{process}/stat", os.O_RDONLY)  # there may be thousands
        except OSError:
            continue  # it has ended
        try:
            # After the name, which may hold anything: state, parent, group, ..., threads.
            about = os.read(file, 4096).rpartition(b")")[2].split()
            if about[2] == group:
                found[int(process)] = int(about[17])
        except (OSError, ValueError, IndexError):
            continue
        finally:
            os.close(file)
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
    own = members(group)
    if sum(own.values()) > limits.processes:
        return f"it started more than {limits.processes} processes or threads"
    if sum(map(memory_of, own)) > limits.memory << 20:
        return "it used more memory than a check may use"
    if size_of(directory) > limits.file << 22:
        return "its files are larger than a check may write"
    return ""


class Output:
    """The first of what a program prints, and the last, in which a crash says where it was. Read
    without a thread: a program may use up all that its user can have."""

    KEPT, LAST = 200_000, 8192

    def __init__(self, stream):
        self.fd, self.kept = stream.fileno(), b""
        os.set_blocking(self.fd, False)

    def read(self):
        """Takes what there is now; false when no more can come."""
        try:
            piece = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if len(self.kept) < self.KEPT:
            self.kept += piece
        else:
            last = (self.kept[self.KEPT :] + piece)[-self.LAST :]
            self.kept = self.kept[: self.KEPT] + last
        return bool(piece)

    def text(self):
        """What was kept, once the program has ended."""
        for _ in range(64):  # no more than a pipe holds
            before = len(self.kept)
            if not self.read() or len(self.kept) == before:
                break
        return self.kept.decode("utf-8", "replace")


def wait(process, directory, limits, output):
    """Waits until a process ends or exceeds what its group may use, and reads what it prints.

    @return (whether its time was over, the limit that was exceeded)
    """
    end = time.monotonic() + limits.clock
    looked = time.monotonic()
    try:
        ending = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # only Linux has it, and not every sandbox allows it
        ending = None
    try:
        watched = select.poll()
        watched.register(output.fd, select.POLLIN)
        if ending is not None:
            watched.register(ending, select.POLLIN)
        pause = limits.pause if ending is not None else 0.02
        while (now := time.monotonic()) < end:
            ready = dict(watched.poll(1000 * min(end - now, pause)))
            if output.fd in ready and not output.read():
                watched.unregister(output.fd)
            if ending in ready or (ending is None and process.poll() is not None):
                return False, ""
            if time.monotonic() - looked > limits.pause:
                if too_much := excess(process.pid, directory, limits):
                    return False, too_much
                looked = time.monotonic()
        return True, ""
    finally:
        if ending is not None:
            os.close(ending)


def started(words, **options):
    """subprocess.Popen(), tried again for ten seconds: the processes of an earlier submission may
    still be ending, and a user can have only so many."""
    end = time.monotonic() + 10
    while True:
        try:
            return subprocess.Popen(words, **options)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def protect():
    """Lets no other process read the memory of this one, which knows the secrets; and makes it the
    parent of what a program leaves behind: see reap()."""
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        except (OSError, AttributeError):
            pass


def reap(group):
    """Takes the status of a group's processes that were killed: a user can have only so many, those
    without a parent that asks among them, and what they have used of a processor is counted."""
    try:
        while os.waitpid(-group, 0):
            pass
    except ChildProcessError:
        pass


class Channel:
    """Where a program writes its one result: behind a secret, on a pipe of its own."""

    def __init__(self):
        self.secret = secrets.token_hex(16)
        secret_read, secret_write = os.pipe()
        self.result, result_write = os.pipe()
        os.write(secret_write, self.secret.encode())
        os.close(secret_write)
        os.set_blocking(self.result, False)
        self.of_program = [secret_read, result_write]

    def line(self):
        """The line that bore the secret, once the program has ended; empty unless it is one."""
        said = b""
        try:
            while piece := os.read(self.result, 65536):
                said += piece
        except BlockingIOError:
            pass
        os.close(self.result)
        begin = self.secret + " "
        lines = said.decode("utf-8", "replace").split("\n")
        lines = [line[len(begin) :] for line in lines if line.startswith(begin)]
        return lines[0] if len(lines) == 1 else ""


def run(confine, command, directory, limits, channel=False):
    """Runs a command in a folder.

    @param confine   path of the program of that name
    @param command   words; with a channel two file numbers are added
    @param directory the only place that it may write to
    @param channel   whether it gets a secret and a place to write its result to
    """
    directory = pathlib.Path(directory)
    protect()
    channel = Channel() if channel else None
    fds = channel.of_program if channel else []
    user = NOBODY if limits.unprivileged and is_root() else 0
    if user:
        os.chown(directory, user, user)
    readable = ":".join(map(str, limits.readable)) or "-"
    words = [confine, limits.seconds, limits.memory, limits.file, user, directory, readable]
    began = time.monotonic()
    with started(
        [str(word) for word in (*words, *command, *fds)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=quiet_environment(directory),
        pass_fds=fds,
        start_new_session=True,
    ) as process:
        output = Output(process.stdout)
        for fd in fds:
            os.close(fd)
        timed_out, exceeded = wait(process, directory, limits, output)
        try:  # the whole group, not only the first process
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
        reap(process.pid)
        end_stragglers(directory)
        seconds = time.monotonic() - began
        text = output.text()
    killed = process.returncode == -signal.SIGKILL and not exceeded and seconds > limits.seconds
    timed_out = timed_out or process.returncode == -signal.SIGXCPU or killed
    result = channel.line() if channel else ""
    return Outcome(process.returncode, timed_out, text, result, seconds, exceeded)


def layers(confine):
    """What this system offers, in words."""
    return subprocess.run([str(confine), "--layers"], capture_output=True, text=True).stdout.split(
        "\n"
    )[:-1]
