"""Compiles graders and students' files, as CMake compiles the preludes."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import tempfile
import threading

from common.classroom import catalogue, sandbox
from common.classroom.catalogue import Fault

COMPILE = sandbox.Limits(
    seconds=60, clock=300, memory=4096, file=512, unprivileged=False, pause=0.5
)
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/nix", "/dev/urandom")
HEADERS = (".hpp", ".cuh", ".h", ".inc")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Of the classroom, what the student's side is compiled with.
SURFACE = ("wire", "entry", "seen", "launches", "prelude_cpu", "prelude_lab")
# The files whose commands say how graders and entries are compiled.
COMPILED_ALIKE = {"cpu": "wire.cpp", "lab": "launches.cpp"}
# Warnings in the course's own code do not concern a student.
UNWANTED = re.compile(r"-Werror.*|-Winvalid-pch|-Wconversion|-Wshadow|-Wnon-virtual-dtor")


def everyone_may_read(path):
    """Whether every user can read a file."""
    return bool(os.stat(path).st_mode & 0o004) and all(
        os.stat(parent).st_mode & 0o001 for parent in path.parents
    )


@functools.lru_cache
def headers_in(folder):
    """All headers in a folder of the course, in order."""
    return sorted(path for path in (catalogue.ROOT / folder).rglob("*") if path.suffix in HEADERS)


@functools.cache
def digest(path):
    """Of a file's content."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


@functools.lru_cache(maxsize=1)
def headers():
    """The course's headers that students' files may include, those with solutions among them."""
    root = catalogue.ROOT
    found = [root / "common" / "classroom" / f"{name}.hpp" for name in SURFACE]
    for folder in sorted((root / "common").iterdir()):
        if folder.name not in ("classroom", "testing") and folder.is_dir():
            found += [path for path in folder.rglob("*") if path.suffix in HEADERS]
    for lesson in root.glob("[0-9][0-9]_*"):
        for path in lesson.rglob("*"):
            inner = path.relative_to(lesson).parts
            of_graders = inner[0] == "exercises" and len(inner) > 2
            if path.suffix in HEADERS and inner[0] != "tests" and not of_graders:
                found.append(path)
    return found


class Toolchain:
    """How graders are compiled: what CMake wrote into a build directory."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        try:
            files = json.loads(
                (self.build / "classroom" / "toolchain.json").read_text(encoding="utf-8")
            )
            commands = json.loads(
                (self.build / "compile_commands.json").read_text(encoding="utf-8")
            )
        except (OSError, ValueError) as error:
            raise Fault(
                f"{self.build} is not a build of this course with the target classroom: {error}"
            ) from error
        self.made_in = {files["build"]: self.build, files["root"]: catalogue.ROOT}
        self.confine, self.libraries, self.flags = self.here(files["confine"]), {}, {}
        self.objects = {k: self.all_here(files[k]) for k in ("grader", "entry", "lab_grader")}
        for machine in ("cpu", "lab"):
            self.libraries[machine] = self.all_here(files[machine])
            source = f"common/classroom/{COMPILED_ALIKE[machine]}"
            found = [c for c in commands if c["file"].endswith(source)]
            if not found:
                raise Fault(
                    f"{self.build}/compile_commands.json does not say how graders are compiled"
                )
            words = self.all_here(shlex.split(found[0]["command"]))
            where = [i for i, word in enumerate(words) if word in ("-o", "-c")]
            for i in sorted(where, reverse=True):
                del words[i : i + 2]
            self.flags[machine] = [word for word in words if not UNWANTED.fullmatch(word)]
        # A compiler that is not root cannot show what only root may read.
        self.readable = everyone_may_read(pathlib.Path(__file__).resolve()) and everyone_may_read(
            self.build / "classroom" / "toolchain.json"
        )
        # Only without a watched lab may a stage be left without a verdict.
        self.watched = any("FA_LAB_WATCHED" in flag for flag in self.flags["lab"])
        self.cache = self.build / "classroom" / "graders"

        self.compiler = self.flags["cpu"][0]
        # Where it is, it takes a third of the default's time.
        self.linker = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []
        self.lock, self.locks = threading.Lock(), {}
        self.made = {}  # answer -> its program, of what was compiled before; see batch.py

    def here(self, word):
        """A word of CMake's with the paths of this clone, wherever it was when it was built."""
        for before, now in self.made_in.items():
            if found := re.match(rf"(-I|){re.escape(before)}(/.*|)$", word):
                return f"{found[1]}{now}{found[2]}"
        return word

    def all_here(self, words):
        """The same for several."""
        return [self.here(word) for word in words]

    def system(self, flags):
        """Paths outside of the course that a compiler reads, or a program."""
        found = list(SYSTEM)
        compiler = pathlib.Path(shutil.which(self.compiler) or self.compiler).resolve()
        found.append(compiler.parent.parent)
        found += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
        for before, word in zip(flags, flags[1:]):
            if before in ("-isystem", "-include", "-isysroot"):
                path = pathlib.Path(word)
                found.append(path.parent if before == "-include" else path)
            elif word.startswith("-I"):
                found.append(word[2:])
        found = {pathlib.Path(path).resolve() for path in found}
        root = catalogue.ROOT
        return sorted(path for path in found if path not in (root, *root.parents))

    def surface(self, exercise):
        """The course's headers that a student's file may include: all but those of graders, of
        tests, and the ones that hold what the exercise asks for."""
        hidden = exercise.hidden() - self.needed(exercise)
        return [path for path in headers() if path not in hidden]

    def needed(self, exercise):
        """Files of the course that the start and the entry include, and what these include."""
        met, left = set(), [exercise.start(), exercise.entry]
        while left:
            for name in INCLUDE.findall(left.pop()):
                path = catalogue.ROOT / name
                if path not in met and path.is_file():
                    met.add(path)
                    left.append(path.read_text(encoding="utf-8", errors="replace"))
        return met

    def compile(self, exercise, scratch, source=None):
        """Compiles the student's file, in scratch/student, with the exercise's entry and
        without the grader.

        @param source in place of the entry
        @return the sandbox's outcome; the program is scratch/program
        """
        flags = self.flags[exercise.machine]
        surface, system = self.surface(exercise), self.system(flags)
        limits = dataclasses.replace(
            COMPILE,
            unprivileged=self.readable and everyone_may_read(exercise.grader),
            readable=(*system, *surface, *self.linked(exercise.machine, "entry")),
        )
        entry, depends = scratch / "entry.cpp", scratch / "entry.d"
        entry.write_text(source or exercise.entry, encoding="utf-8")
        compilation = sandbox.run(
            self.confine,
            [*flags, *exercise.defines, f"-I{scratch}", "-MD", "-MF", depends]
            + ["-o", scratch / "entry.o", "-c", entry],
            scratch,
            limits,
        )
        if compilation.status != 0:
            return compilation
        if unwanted := self.foreign(depends, scratch, {*surface, *system}):
            compilation.status = 1
            compilation.output = f"error: your file includes {unwanted}, which it may not use"
            return compilation
        linking = self.link(
            [scratch / "entry.o"], exercise.machine, "entry", scratch / "program", scratch, limits
        )
        linking.seconds += compilation.seconds
        sandbox.restore_owner(scratch)  # no stage may change the program of the next
        return linking

    def shared(self):
        """Folders of shared libraries that programs are linked with."""
        return {pathlib.Path(path).parent for path in self.libraries["lab"] if ".so" in path}

    def linked(self, machine, kind):
        """Files that are linked with a grader, or with an entry."""
        of_labs = self.objects["lab_grader"] if (machine, kind) == ("lab", "grader") else []
        return [*self.objects[kind], *of_labs, *self.libraries[machine]]

    def link(self, objects, machine, kind, program, scratch, limits):
        """Links a program; without the flags: -fsanitize=thread would bring its own library."""
        words = ["-pthread", "-o", program, *objects, *self.linked(machine, kind)]
        linking = sandbox.run(self.confine, [self.compiler, *self.linker, *words], scratch, limits)
        if linking.status and self.linker:
            # gold ends at a library that is a link to nowhere; the default looks further.
            linking = sandbox.run(self.confine, [self.compiler, *words], scratch, limits)
            if linking.status == 0:
                self.linker = []
        return linking

    def foreign(self, depends, scratch, allowed):
        """The first file that a compilation has read and may not have, where the system lets it."""
        try:
            text = depends.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "what cannot be listed"
        words = text.partition(":")[2].replace("\\\n", " ")
        for word in re.split(r"(?<!\\)\s+", words.strip()):
            path = pathlib.Path(os.path.realpath(os.path.join(scratch, word.replace("\\ ", " "))))
            inside = {path, *path.parents}
            if not inside & (allowed | {scratch}):
                return word
        return ""

    def grader(self, exercise):
        """The program of an exercise's grader. It holds no student's code and is kept."""
        with self.lock:
            lock = self.locks.setdefault(exercise.id, threading.Lock())
        with lock:
            key = self.key(exercise)
            kept = self.cache / f"{exercise.id}-{key}"
            if kept.exists():
                return kept
            machine = "lab" if exercise.predicts and exercise.machine == "lab" else "cpu"
            limits = dataclasses.replace(COMPILE, unprivileged=False)
            with scratch_folder() as scratch:
                made = sandbox.run(
                    self.confine,
                    [*self.flags[machine], *exercise.defines]
                    + ["-o", scratch / "grader.o", "-c", exercise.grader],
                    scratch,
                    limits,
                )
                if made.status == 0:
                    made = self.link(
                        [scratch / "grader.o"],
                        exercise.machine,
                        "grader",
                        scratch / "grader",
                        scratch,
                        limits,
                    )
                if made.status != 0:
                    raise Fault(
                        f"the grader of {exercise.id} does not compile: "
                        f"{made.output.strip()[:2000]}"
                    )
                self.cache.mkdir(parents=True, exist_ok=True)
                for old in self.cache.glob(f"{exercise.id}-*"):
                    old.unlink(missing_ok=True)
                own = kept.with_name(f"{kept.name}.{os.getpid()}")
                shutil.copy2(scratch / "grader", own)
                own.chmod(0o755)
                own.replace(kept)
            return kept

    def key(self, exercise):
        """Changes with all that a grader is made of, and not with where that is."""
        key = hashlib.sha256()
        flags = repr([*sorted(self.flags.items()), exercise.defines])
        for folder in (self.build, catalogue.ROOT):
            flags = flags.replace(f"{folder}/", "").replace(str(folder), "")
        key.update(flags.encode())
        parts = [exercise.grader, *headers_in(exercise.lesson), *headers_in("common")]
        for path in (*parts, *self.linked(exercise.machine, "grader")):
            key.update(digest(path))
        return key.hexdigest()[:16]


@contextlib.contextmanager
def scratch_folder():
    """A folder that goes away, even when it was filled with what cannot be removed at once."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="classroom-")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for parent, names, _files in os.walk(
            folder
        ):  # from the top: what may not be listed is made so first
            for name in names:
                inner = os.path.join(parent, name)
                if not os.path.islink(inner):  # the mode of what it leads to is not ours
                    with contextlib.suppress(OSError):
                        os.chmod(inner, 0o700)
        shutil.rmtree(folder, ignore_errors=True)
