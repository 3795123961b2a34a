"""Compiles graders and students' files, as CMake compiles the preludes: it has written how into the
build directory. A student's file is compiled in the sandbox."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

from common.classroom import catalogue, sandbox
from common.classroom.catalogue import Fault

COMPILE = sandbox.Limits(seconds=60, clock=300, memory=4096, file=512, starts_others=True)
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt", "/nix")
SYSTEM += ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
HEADERS = (".hpp", ".cuh", ".h", ".inc")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Of the classroom, what the student's side is compiled with.
SURFACE = ("wire", "entry", "launches")
# The files whose commands say how graders and entries are compiled.
COMPILED_ALIKE = {"cpu": "wire.cpp", "lab": "launches.cpp"}
# Functions of the C library that copy, fill or sort memory, unseen by the lab, as nm lists them.
UNSEEN = re.compile(
    r"\bU (?:__)?(w?mempcpy|wmem(?:cpy|move|set)|memccpy|memfrob|b(?:copy|zero)|explicit_bzero|swab"
    r"|(?:st[rp]|wc[sp])n?cpy|(?:str|wcs)n?cat|(?:str|wcs)l(?:cpy|cat)|v?sn?w?printf|qsort)"
    r"(?:_r|_chk)?\b"
)
FILL = "-ftrivial-auto-var-init=pattern"
# Warnings in the course's own code do not concern a student.
UNWANTED = re.compile(r"-Werror.*|-Winvalid-pch|-Wconversion|-Wshadow|-Wnon-virtual-dtor")


def everyone_may_read(path):
    """Whether every user can read a file."""
    return bool(os.stat(path).st_mode & 0o004) and all(
        os.stat(parent).st_mode & 0o001 for parent in path.parents
    )


@functools.cache
def headers_in(folder):
    """All headers in a folder of the course, in order."""
    return sorted(path for path in (catalogue.ROOT / folder).rglob("*") if path.suffix in HEADERS)


@functools.cache
def digest(path):
    """Of a file's content."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


@functools.cache
def headers():
    """The headers that students' files may include, those with solutions among them: none of
    graders and of tests."""
    folder = catalogue.ROOT / "common" / "classroom"
    found = [folder / f"{name}.hpp" for name in SURFACE]
    for path in headers_in("common"):
        if path.relative_to(catalogue.ROOT).parts[1] not in ("classroom", "testing"):
            found.append(path)
    for lesson in catalogue.ROOT.glob("[0-9][0-9]_*"):
        for path in headers_in(lesson.name):
            inner = path.relative_to(lesson).parts
            if inner[0] != "tests" and not (inner[0] == "exercises" and len(inner) > 2):
                found.append(path)
    return found


class Toolchain:
    """How graders are compiled: what CMake wrote into a build directory."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        described, compiled = self.build / "classroom/toolchain.json", "compile_commands.json"
        try:
            files = json.loads(described.read_text(encoding="utf-8"))
            commands = json.loads((self.build / compiled).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Fault(
                f"{self.build} is not a build of this course with the target classroom: {error}"
            ) from error
        files = {name: words.split(";") for name, words in files.items()}
        self.made_in = {files["build"][0]: self.build, files["root"][0]: catalogue.ROOT}
        self.objects = {k: self.here(files[k]) for k in ("grader", "entry", "lab_grader")}
        self.libraries, self.flags = {}, {}
        for machine, source in COMPILED_ALIKE.items():
            self.libraries[machine] = self.here(files[machine])
            found = [c for c in commands if c["file"].endswith(f"common/classroom/{source}")]
            if not found:
                raise Fault(f"{self.build / compiled} does not say how graders are compiled")
            words = self.here(shlex.split(found[0]["command"]))
            for option in ("-o", "-c"):
                del words[words.index(option) : words.index(option) + 2]
            self.flags[machine] = [word for word in words if not UNWANTED.fullmatch(word)]
        # A compiler that is not root cannot show what only root may read.
        self.readable = everyone_may_read(pathlib.Path(__file__).resolve())
        self.readable = self.readable and everyone_may_read(described)
        # Only without a watched lab may a stage be left without a verdict.
        self.watched = any("FA_LAB_WATCHED" in flag for flag in self.flags["lab"])
        self.cache = self.build / "classroom" / "graders"
        self.compiler = self.flags["cpu"][0]

    def here(self, words):
        """CMake's words with the paths of this clone, wherever it was when it was built."""
        found = []
        for word in words:
            for before, now in self.made_in.items():
                if inside := re.match(rf"(-I|){re.escape(before)}(/.*|)$", word):
                    word = f"{inside[1]}{now}{inside[2]}"
                    break
            found.append(word)
        return found

    def system(self, flags=()):
        """Paths outside of the course that a compiler reads, or a program."""
        found = [*SYSTEM, pathlib.Path(shutil.which(self.compiler) or "/").resolve().parents[1]]
        found += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
        found += [pathlib.Path(path).parent for path in self.libraries["lab"] if ".so" in path]
        for before, word in zip(flags, flags[1:]):
            if word.endswith((".hxx", ".pch")):  # compiled headers
                found.append(pathlib.Path(word).parent)
            elif before in ("-isystem", "-isysroot"):
                found.append(word)
            elif word.startswith("-I"):
                found.append(word[2:])
        found = {pathlib.Path(path).resolve() for path in found}
        return sorted(found - {catalogue.ROOT, *catalogue.ROOT.parents})

    def surface(self, exercise):
        """The course's headers that a student's file may include: all but those of graders, of
        tests, and the ones that hold what the exercise asks for."""
        needed, left = set(), [exercise.start(), exercise.entry]
        while left:  # what the start and the entry include, and what these include
            for name in INCLUDE.findall(left.pop()):
                path = catalogue.ROOT / name
                if path not in needed and path.is_file():
                    needed.add(path)
                    left.append(path.read_text(encoding="utf-8", errors="replace"))
        hidden = exercise.hidden() - needed
        return [path for path in headers() if path not in hidden]

    def compile(self, exercise, scratch):
        """Compiles the student's file, in scratch/student, with the exercise's entry and without
        the grader, into scratch/program; returns the compiler's status and what it prints."""
        flags, objects = self.flags[exercise.machine], self.linked(exercise.machine, "entry")
        may_read = [*self.surface(exercise), *self.system(flags), *objects]
        limits = dataclasses.replace(
            COMPILE,
            nobody=self.readable and everyone_may_read(exercise.grader),
            readable=tuple(may_read),
            writable=(scratch,),
        )
        entry, depends = scratch / "entry.cpp", scratch / "entry.d"
        entry.write_text(exercise.entry, encoding="utf-8")
        if limits.nobody and sandbox.is_root():
            os.chown(scratch, sandbox.NOBODY, sandbox.NOBODY)
        words = [*flags, *exercise.defines, f"-I{scratch}", "-MD", "-MF", depends]
        made, text = scratch / "entry.o", scratch / "entry.s"
        words += ["-S", "-o", text, entry] if FILL in flags else ["-c", "-o", made, entry]
        status, output = sandbox.run(words, scratch, limits)
        if status == 0 and (unwanted := foreign(depends, scratch, {*may_read, scratch})):
            return 1, f"error: your file includes {unwanted}, which it may not use"
        if status == 0 and FILL in flags:
            text.write_text(filled(text.read_text("latin-1")), "latin-1")
            words = [self.compiler, "-c", "-o", made, text]
            status, output = sandbox.run(words, scratch, limits)
        if status != 0:
            return status, output
        listed = ""
        if exercise.machine == "lab" and self.watched and shutil.which("nm"):
            listed = sandbox.run(["nm", "-u", made], scratch, limits)[1]
        if unseen := UNSEEN.search(listed):
            words = "keeps accesses from the lab: copy by assignments, or by memcpy()"
            return 1, f"error: {unseen[1]}() {words}"
        program = scratch / "program"
        done = sandbox.run(self.linking([made], objects, program), scratch, limits)
        if sandbox.is_root() and program.exists():  # no stage may change the program of the next
            os.chown(scratch, 0, 0)
            os.chown(program, 0, 0)
        return done

    def clangd(self):
        """The text of a file .clangd: what an editor must know of students' files."""
        parts = []
        for machine, suffix, header in (("cpu", "hpp", "entry"), ("lab", "cuh", "launches")):
            flags = self.flags[machine]
            header = str(catalogue.ROOT / f"common/classroom/{header}.hpp")
            kept = [word for word in flags if word.startswith(("-I", "-D", "-std="))]
            words = ["-xc++", *kept, "-include", header]
            pairs = zip(flags, flags[1:])
            words += [word for pair in pairs if pair[0] == "-isystem" for word in pair]
            add = json.dumps(words)  # lists of JSON are lists of YAML
            parts.append(f"If:\n  PathMatch: .*[.]{suffix}\nCompileFlags:\n  Add: {add}\n")
        return "---\n".join(parts)

    def linked(self, machine, kind):
        """Files that are linked with a grader, or with an entry."""
        of_labs = self.objects["lab_grader"] if (machine, kind) == ("lab", "grader") else []
        return [*self.objects[kind], *of_labs, *self.libraries[machine]]

    def linking(self, objects, libraries, program):
        """Links a program; without the flags: -fsanitize=thread would bring its own library."""
        return [self.compiler, "-pthread", "-o", program, *objects, *libraries]

    def grader(self, exercise):
        """The program of an exercise's grader. It holds no student's code and is kept."""
        kept = self.cache / f"{exercise.id}-{self.key(exercise)}"
        if kept.exists():
            return kept
        machine = "lab" if exercise.predicts and exercise.machine == "lab" else "cpu"
        with scratch_folder() as scratch:
            made, program = scratch / "grader.o", scratch / "grader"
            words = [*self.flags[machine], *exercise.defines, "-DFA_GRADER"]
            for path in (sources := [exercise.grader, *exercise.added])[:-1]:
                words += ["-include", path]
            words += ["-o", made, "-c", sources[-1]]
            linking = self.linking([made], self.linked(exercise.machine, "grader"), program)
            for command in (words, linking):
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
                if done.returncode != 0:
                    says = done.stderr.strip()[:2000]
                    raise Fault(f"the grader of {exercise.id} does not compile: {says}")
            self.cache.mkdir(parents=True, exist_ok=True)
            for old in self.cache.glob(f"{exercise.id}-*"):
                old.unlink(missing_ok=True)
            own = kept.with_name(f"{kept.name}.{os.getpid()}")
            shutil.copy2(program, own)
            own.replace(kept)
        return kept

    def key(self, exercise):
        """Changes with all that a grader is made of, and not with where that is."""
        key = hashlib.sha256()
        flags = repr([*sorted(self.flags.items()), exercise.defines])
        for folder in (self.build, catalogue.ROOT):
            flags = flags.replace(f"{folder}/", "").replace(str(folder), "")
        key.update(flags.encode())
        beside = [path for one in exercise.added[:1] for path in sorted(one.parent.rglob("*"))]
        parts = [
            exercise.grader,
            *filter(pathlib.Path.is_file, beside),
            *headers_in(exercise.lesson),
            *headers_in("common"),
            *itertools.chain(*map(headers_in, sorted(catalogue.ROOT.glob("*/exercises")))),
        ]
        for path in (*parts, *self.linked(exercise.machine, "grader")):
            key.update(digest(path))
        return key.hexdigest()[:16]


def filled(text):
    """The assembler text of a student's file with other fills of local variables than g++'s bytes
    0xfe: those are finite numbers, which a maximum hides, and a factor of 0. A float becomes
    infinite; 8 bytes are NaN as a double."""
    float_, double = "0x7f800000", "0x7ff000007f800000"
    for size, kind, fill in ((8, "quad", double), (4, "long", float_)):
        found = rf"(\t\.byte\t-2\n){{{size}}}|(\t\.long\t-16843010\n){{{size // 4}}}"
        text = re.sub(found, f"\t.{kind}\t{fill}\n", text)
    text = re.sub(r"(?<=[\t$])(-72340172838076674|0xfefefefefefefefe)\b", double, text)
    return re.sub(r"(?<=\$)(-16843010|0xfefefefe)\b", float_, text)


def foreign(depends, scratch, allowed):
    """The first file that a compilation has read and may not have, where the system lets it."""
    words = depends.read_text(encoding="utf-8", errors="replace").partition(":")[2]
    for word in re.split(r"(?<!\\)\s+", words.replace("\\\n", " ").strip()):
        path = pathlib.Path(os.path.realpath(os.path.join(scratch, word.replace("\\ ", " "))))
        if not {path, *path.parents} & allowed:
            return word
    return ""


@contextlib.contextmanager
def scratch_folder():
    """A folder that every user can read, and that goes away."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="classroom-")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder):
    """Removes a folder with all that is in it, however deep: shutil.rmtree() is recursive."""
    subprocess.run(["chmod", "-R", "u+rwx", str(folder)], stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", str(folder)], stderr=subprocess.DEVNULL)
