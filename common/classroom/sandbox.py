"""How a program that is not trusted is isolated: the compiler with a student's file, and the
student's own program. All of it is in this file. Between fork() and exec() a process gives up what
the program must not have:

    limits     processor time, memory, the size of a file
    the user   nobody, where the grader is root
    Landlock   only the files that are named can be read or written; no TCP
    seccomp    no sockets, no signals to others, no memory of others, no other processes, no say in
               when others run, nothing that outlives the process

Each layer stands for itself, and what a system does not have is left out; layers() says what there
is. Landlock and seccomp are system calls of Linux without a function in the C library.
"""

import contextlib
import ctypes
import dataclasses
import errno
import os
import platform
import resource
import signal
import stat
import struct
import subprocess
import sys
import tempfile

LINUX = sys.platform.startswith("linux")
NOBODY = 65534  # a user without any rights
libc = ctypes.CDLL(None, use_errno=True)

# Landlock's rights, as bits.
WRITE_FILE, READ_FILE, READ_FOLDER, TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
MAKE_AND_REMOVE, LINK = sum(1 << bit for bit in range(4, 13)), 1 << 13


def calls(text):
    """{name: (number on x86-64, number on arm64)} of system calls."""
    words = text.split()
    return {name: (int(a), int(b)) for name, a, b in zip(words[::3], words[1::3], words[2::3])}


# What seccomp refuses: other processes and the network; then what outlives a process.
REFUSED = calls("""
    socket 41 198  ptrace 101 117  process_vm_readv 310 270  process_vm_writev 311 271
    tkill 200 130  rt_sigqueueinfo 129 138  rt_tgsigqueueinfo 297 240  setsid 112 157
    setpgid 109 154  unshare 272 97  pidfd_send_signal 424 424  pidfd_open 434 434
    pidfd_getfd 438 438  io_uring_setup 425 425  setpriority 141 140  ioprio_set 251 30
    shmget 29 194  msgget 68 186  semget 64 190  mq_open 240 180  add_key 248 217  keyctl 250 219
""")
CLONE, CLONE3 = (56, 220), (435, 435)  # start threads, and processes unless the first is told so
FORK, VFORK = 57, 58  # of x86-64 only
CLONE_THREAD = 1 << 16
# Allowed for the process itself: 0 is kill()'s own group, and prlimit64()'s caller.
ONLY_ITSELF = calls("kill 62 129  tgkill 234 131  prlimit64 302 261  sched_setaffinity 203 122")
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, number for BPF


@dataclasses.dataclass
class Limits:
    """What a program may use."""

    seconds: int = 5  # of processor time, of each process
    clock: int = 60  # seconds, for what waits: a busy machine takes long for little work
    memory: int = 3072  # MiB of address space, of each process
    file: int = 16  # MiB of each file, and of what it prints
    starts_others: bool = False  # processes; threads are its own
    nobody: bool = True  # as that user where the grader is root
    readable: tuple = ()  # paths of files, and of folders with their contents
    writable: tuple = ()  # paths, besides /dev/null


def is_root():
    """Whether this process may become any user."""
    return os.geteuid() == 0


def syscall(number, *arguments):
    """A system call; numbers are as wide as registers."""
    wide = [ctypes.c_long(x) if isinstance(x, int) else x for x in arguments]
    return libc.syscall(ctypes.c_long(number), *wide)


def landlock_version():
    """0 or less where there is none."""
    return syscall(444, None, 0, 1) if LINUX else 0


def restrict_files(readable, writable):
    """Landlock: nothing but these paths can be read or written."""
    version = landlock_version()
    if version < 1:
        return
    reads = READ_FILE | READ_FOLDER
    writes = WRITE_FILE | MAKE_AND_REMOVE | LINK * (version >= 2) | TRUNCATE * (version >= 3)
    network = scope = 3  # TCP; abstract sockets and signals
    attributes = struct.pack("=QQQ", reads | writes, network, scope)
    rules = syscall(444, attributes, 24 if version >= 6 else 16 if version >= 4 else 8, 0)
    paths = [(path, reads) for path in readable]
    paths += [(path, reads | writes) for path in (*writable, "/dev/null")]
    for path, allowed in paths:
        with contextlib.suppress(OSError):  # what is not there cannot be read
            opened = os.open(path, os.O_PATH)
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                allowed &= WRITE_FILE | READ_FILE | TRUNCATE
            syscall(445, rules, 1, struct.pack("=Qi", allowed, opened), 0)
            os.close(opened)
    syscall(446, rules, 0)
    os.close(rules)


def refuse_system_calls(starts_others):
    """seccomp: a filter that the kernel runs before each system call."""
    if not LINUX or platform.machine() not in MACHINES:
        return
    column, machine = MACHINES[platform.machine()]
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of BPF
    number, architecture, first_argument = 0, 4, 16  # where it finds them
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    code = [(load, 0, 0, architecture), (equal, 1, 0, machine), (give, 0, 0, refuse)]
    code += [(load, 0, 0, number)]
    if machine == MACHINES["x86_64"][1]:  # the same calls by the numbers of x32
        code += [(at_least, 0, 1, 0x40000000), (give, 0, 0, refuse)]
    refused = {call[column]: refuse for call in REFUSED.values()}
    if not starts_others:
        code += [(equal, 0, 4, CLONE[column]), (load, 0, 0, first_argument)]
        code += [(any_bit, 0, 1, CLONE_THREAD), (give, 0, 0, allow), (give, 0, 0, refuse)]
        refused[CLONE3[column]] = 0x00050000 | errno.ENOSYS  # the C library then takes clone()
        if column == 0:
            refused.update({FORK: refuse, VFORK: refuse})
    for call, answer in refused.items():
        code += [(equal, 0, 1, call), (give, 0, 0, answer)]
    for call in ONLY_ITSELF.values():
        code += [(equal, 0, 5, call[column]), (load, 0, 0, first_argument)]
        code += [(equal, 2, 0, os.getpid()), (equal, 1, 0, 0)]
        code += [(give, 0, 0, refuse), (give, 0, 0, allow)]
    fcntl, second_argument = (72, 25)[column], 24  # F_SETOWN and F_SETOWN_EX aim a signal
    code += [(equal, 0, 5, fcntl), (load, 0, 0, second_argument), (equal, 1, 0, 8)]
    code += [(equal, 0, 1, 15), (give, 0, 0, refuse), (give, 0, 0, allow), (give, 0, 0, allow)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
    libc.prctl(22, 2, struct.pack("HP", len(code), ctypes.addressof(text)), 0, 0)  # SET_SECCOMP


def limit(what, most, grace=0):
    """Sets a limit, which the system may have lower already."""
    known = resource.getrlimit(what)[1]
    highest = most + grace if known == resource.RLIM_INFINITY else min(most + grace, known)
    with contextlib.suppress(ValueError, OSError):  # macOS knows no limit of memory
        resource.setrlimit(what, (min(most, highest), highest))


def confine(limits):
    """Gives up what a program must not have; for a process that becomes this program at once."""
    if LINUX:
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    restrict_files(limits.readable, limits.writable)
    limit(resource.RLIMIT_CPU, limits.seconds, grace=2)  # first a signal that says where it was
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, limits.file << 20)
    limit(resource.RLIMIT_NOFILE, 1024)
    if not limits.starts_others and not LINUX:  # there it counts threads, too
        limit(resource.RLIMIT_NPROC, 0)
    refuse_system_calls(limits.starts_others)
    limit(resource.RLIMIT_AS, limits.memory << 20)


@contextlib.contextmanager
def started(command, folder, limits, output, files=()):
    """Starts a program in a folder; at the end it is killed, with all that it has started.

    @param output a file for all that it prints
    @param files  numbers of open files that it has besides
    """
    if LINUX:  # not even the same user may then open this process's files by /proc
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    user = {}
    if limits.nobody and is_root():
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    paths = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
    own = {"LC_ALL": "C.UTF-8", "TERM": "dumb", "TMPDIR": str(folder), "HOME": str(folder)}
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**paths, **own},
        pass_fds=files,
        start_new_session=True,
        preexec_fn=lambda: confine(limits),
        **user,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def printed(output, most=200_000):
    """The first of what a program has printed into a file, and the last, where a crash says why."""
    size = output.seek(0, os.SEEK_END)
    output.seek(0)
    text = output.read(most)
    output.seek(max(most, size - 8192))
    return (text + output.read()).decode("utf-8", "replace")


def run(command, folder, limits):
    """Runs a program to its end; returns its exit status, or minus the number of the signal that
    ended it, and what it printed."""
    with tempfile.TemporaryFile() as output:
        with started(command, folder, limits, output) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(limits.clock)
        return process.returncode, printed(output)


def layers():
    """What this system offers, in words."""
    found = ["limits of time, memory and file sizes"]
    if is_root():
        found.append("another user than root")
    if landlock_version() >= 1:
        found.append("no writing, no reading of the course (Landlock)")
    if LINUX and platform.machine() in MACHINES:
        libc.prctl(22, 2, None, 0, 0)
        if ctypes.get_errno() == errno.EFAULT:  # it knows filters, and wants one
            found.append("no network, no other processes (seccomp)")
    return found
