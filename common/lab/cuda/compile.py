"""Compiles a CUDA file for the watched lab, and says in its lines why it does not compile."""

import json
import pathlib
import re
import subprocess
import threading

from common.lab.cuda import advice
from common.lab.cuda.tree import Tree

ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.M
)
UNDEFINED = re.compile(r"(?P<where>[^\s:]+(?::\d+)?):.*undefined reference to `(?P<name>[^'(<]+)")


class DoesNotCompile(Exception):
    """`lines` are for people: one for each construct, with its place."""

    def __init__(self, lines):
        super().__init__("\n".join(lines))
        self.lines = lines


def words_of(name, line):
    """The words of a line of a file."""
    try:
        lines = pathlib.Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return re.findall(r"\w+", lines[line - 1])
    except (OSError, IndexError):
        return []


class Compiler:
    """What CMake has built: libraries, flags, and the headers compiled once."""

    def __init__(self, build, root):
        self.folder = build / "cuda_lab"
        self.root = root
        tools = json.loads((self.folder / "toolchain.json").read_text())
        self.command = [tools["compiler"], *tools["flags"]]
        self.files = tools["files"]
        self.headers = root / "common/lab/cuda/include"

    def compile(self, paths, folder, include_folders=(), definitions=()):
        """Compiles files to one program in `folder`, and returns it."""
        tree = Tree(folder, include_folders)
        sources = [tree.add(path) for path in paths]
        options = [f"-I{self.headers}", f"-I{self.folder / 'include'}"]
        options += ["-include", str(self.folder / "prelude.hpp")]
        for path in dict.fromkeys(path.parent.resolve() for path in paths):
            options.append(f"-I{path}")
        options += [f"-I{place}" for place in include_folders]
        options += [f"-D{name}" for name in definitions]
        objects, failures = [], []

        def one(source):
            target = source.with_suffix(source.suffix + ".o")
            objects.append(str(target))
            run = subprocess.run(
                [*self.command, *options, "-x", "c++", "-c", str(source), "-o", str(target)],
                stderr=subprocess.PIPE, text=True, errors="replace",
            )  # fmt: skip
            if run.returncode != 0:
                failures.append(run.stderr)

        threads = [threading.Thread(target=one, args=[source]) for source in sources]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise DoesNotCompile([line for text in failures for line in self.errors(text)])
        program = folder / "program"
        wrapped = [f"-Wl,--wrap={name}" for name in ("_exit", "_Exit", "quick_exit", "clock")]
        run = subprocess.run(
            [self.command[0], "-no-pie", *sorted(objects), *self.files, *wrapped, "-pthread",
             "-lm", "-o", str(program)],
            stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        if run.returncode != 0:
            raise DoesNotCompile(self.undefined(run.stderr))
        return program

    def errors(self, text):
        """One line for each name or construct that the compiler refuses."""
        lines, seen, refused = [], set(), set()
        for found in ERROR.finditer(text):
            if self.headers.as_posix() in found["file"]:
                continue
            message = advice.of_error(found["text"])
            # What is declared with a refused type is not declared; that follows.
            unknown = re.match(r"['‘](\w+)['’] was not declared", message)
            if message in seen or (unknown and unknown[1] in refused):
                continue
            seen.add(message)
            if message != found["text"]:
                refused.update(words_of(found["file"], int(found["line"])))
            lines.append(f"{found['file']}:{found['line']}: {message}")
        return lines or [line for line in text.splitlines() if "error" in line][:5] or [text]

    def undefined(self, text):
        lines = [
            f"{name}: {advice.of_name(name) or 'it is declared and nowhere defined'}"
            for name in dict.fromkeys(found["name"] for found in UNDEFINED.finditer(text))
        ]
        return lines or text.splitlines()[:5]
