"""Compiles a CUDA file for the watched lab, with what it includes, each rewritten by source.py; and
says in its lines why it does not compile."""

import json
import pathlib
import re
import shutil
import subprocess
import threading

from common.lab.cuda import advice
from common.lab.cuda.macros import Macros
from common.lab.cuda.source import Source, with_launches_as_written

ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.M
)
UNINITIALIZED = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):\d+: warning: (?P<text>.*) \[-W[a-z-]*uninitialized\]$", re.M
)
# Without any of these a .cpp file is C++ alone, which may use names of CUDA's for its own.
CUDA = re.compile(
    r"__(global|device|host|shared|constant)__|<<<|dim3|(cuda|cu|curand|device_|vector_)\w*"
    r"|cooperative_groups|mma|math_constants|thread(Idx|fence)|block(Idx|Dim)|(float|int|uint)[1-4]"
)
# What has clusters, or copies to shared memory that need its addresses.
HOPPER = re.compile(
    r"wgmma|mbarrier|cp\.async\.bulk|[Cc]luster_?[Dd]im|cluster_group|this_cluster|barrier\.cluster"
    r"|CUtensorMap|cuda/(barrier|ptx)"
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
MOST_SHARED = 48 * 1024  # static, of a kernel
THREAD_LOCAL = re.compile(
    r"^ *\d+: \w+ +(?P<size>\w+) TLS +\w+ +\w+ +\w+ (?P<function>.*)::(?P<name>\w+)(\[abi:\w+\])?$",
    re.M,
)
WRAPPED = ("_exit", "_Exit", "quick_exit", "abort", "clock")  # see end.cpp
UNDEFINED = re.compile(r"(?P<where>[^\s:]+(?::\d+)?):.*undefined reference to `(?P<name>[^'(<]+)")


class DoesNotCompile(Exception):
    """`lines` are for people: one for each construct, with its place."""

    def __init__(self, lines):
        super().__init__("\n".join(lines))
        self.lines = lines


class Tree:
    """A file and what it includes, rewritten into a folder."""

    def __init__(self, folder, include_folders, headers=()):
        self.folder, self.include_folders = folder, include_folders
        self.headers = headers  # folders of the lab's, in place of a toolkit's
        self.done, self.names = {}, set()
        self.marks = set()  # see Source
        self.statics = {}  # the same, with the file
        self.of_cuda = set()  # what uses CUDA, or includes such a file
        self.shows_text = self.launches_in_argument = False  # see Source
        self.hopper, self.macros = False, Macros()

    def look(self, paths):
        """Looks whether any of some files, or what they include, is written for Hopper."""
        seen, left = set(), [path.resolve() for path in paths]
        while left and not self.hopper:
            path = left.pop()
            if path not in seen:
                seen.add(path)
                text = path.read_text(encoding="utf-8", errors="surrogateescape")
                self.hopper = HOPPER.search(text) is not None
                inner = (self.find(path.parent, name) for name in INCLUDE.findall(text))
                left += [found.resolve() for found in inner if found]

    def add(self, path):
        """Rewrites a file and the files that it includes; where it is then."""
        path = path.resolve()
        if path in self.done:
            return self.done[path]
        target = self.folder / f"{len(self.done)}_{path.name}"
        self.done[path] = target
        source = Source(
            path.read_text(encoding="utf-8", errors="surrogateescape"), path, self.marks,
            self.hopper, self.macros,
        )  # fmt: skip
        if any(CUDA.fullmatch(source.text(k)) for k in range(len(source.real))):
            self.of_cuda.add(target)
        for k in range(len(source.real) - 2):
            if [source.text(k), source.text(k + 1)] != ["#", "include"]:
                continue
            named = source.token(k + 2)
            if source.token(k).directive and self.standard(source, k + 2):
                continue
            library = self.library(source, k + 2)
            if library:
                end = k + 3
                while source.same_directive(k, end):
                    end += 1
                source.replace(k, end, f'static_assert(false, "include: {library}");')
                continue
            if named.kind == "string" and named.directive:
                found = self.find(path.parent, named.text[1:-1])
                if found is not None:
                    inner = self.add(found)
                    named.text = named.out = f'"{inner}"'
                    if inner in self.of_cuda:
                        self.of_cuda.add(target)
        name = str(path).replace("\\", "\\\\").replace('"', '\\"')
        self.names |= source.device_names()
        body = source.rewrite(self.names)
        for variable, line in source.statics.items():
            self.statics.setdefault(variable, f"{path}:{line}")
        self.shows_text |= source.shows_text()
        self.launches_in_argument |= source.launches_in_argument
        first = ""
        if self.hopper and path.suffix == ".cu":
            first = (f"static const bool lab_hopper_{target.name.partition('_')[0]} = "
                     "::lab_cuda::kernels_have_clusters();\n")  # fmt: skip
        target.write_text(
            f'{first}#line 1 "{name}"\n{body}', encoding="utf-8", errors="surrogateescape"
        )
        return target

    def standard(self, source, k):
        """Whether the include at k names a header of libcu++ for C++'s own: it is replaced."""
        if [source.text(i) for i in range(k, k + 5)] != ["<", "cuda", "/", "std", "/"]:
            return False
        name = source.text(k + 5)
        target = self.folder / f"std_{name}"
        own = "cuda" if name in ("atomic", "barrier") else "lab_cuda"
        target.write_text(
            f"#include <{name}>\n#include <lab_cuda/scopes.h>\n"
            if own == "lab_cuda" else f"#include <cuda/{name}>\n"
        )  # fmt: skip
        source.replace(k, k + 7, f'"{target}"')
        return True

    def library(self, source, k):
        """A library of the CUDA Toolkit that the include at k names and the lab has not; else
        empty."""
        if source.text(k) == "<":
            end = k
            while source.text(end) != ">" and source.same_directive(k, end + 1):
                end += 1
            name = source.source(k + 1, end)
        else:
            name = source.text(k)[1:-1]
        own = any((folder / name).is_file() for folder in self.headers)
        return name if advice.of_toolkit(name) and not own else ""

    def find(self, folder, name):
        if not (folder / name).is_file() and any((own / name).is_file() for own in self.headers):
            return None
        for place in (folder, *self.include_folders):
            if (pathlib.Path(place) / name).is_file():
                return pathlib.Path(place) / name
        return None


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

    def compile(self, paths, folder, include_folders=(), definitions=(), standard=17):
        """Compiles files to one program in `folder`, and returns it. `standard` is that of C++."""
        headers = (self.headers, self.folder / "include")
        tree = Tree(folder, include_folders, headers)
        tree.marks.update(name.partition("=")[0] for name in definitions if "__" in name)
        tree.look(paths)
        sources = [tree.add(path) for path in paths]
        options = [f"-std=c++{standard}"] if standard > 17 else []
        options += [f"-I{place}" for place in headers]
        for path in dict.fromkeys(path.parent.resolve() for path in paths):
            options.append(f"-I{path}")
        options += [f"-I{place}" for place in include_folders]
        options += [f"-D{name}" for name in definitions]
        objects, failures, self.notes = [], [], []
        header = self.folder / "prelude.hpp"
        if standard > 17:  # clang refuses what was compiled for another one
            header = shutil.copy(header, folder / "lab_prelude.hpp")

        def one(source):
            target = source.with_suffix(source.suffix + ".o")
            prelude = ["-include", str(header)]
            command, run, language = [*self.command, *options], None, "c++"
            if source.suffix in (".cpp", ".cc", ".cxx", ".c") and source not in tree.of_cuda:
                prelude = ["-DLAB_CUDA_OF_HOST(name)="]
                if source.suffix == ".c":  # it may lack a return, or convert from void*
                    command, language = [w for w in command if not w.startswith("-std=")], "c"
            objects.append(str(target))
            if tree.shows_text and tree.launches_in_argument and language == "c++":
                run = subprocess.run(
                    [*command, *prelude, "-x", "c++", "-E", str(source)],
                    capture_output=True, text=True, errors="surrogateescape",
                )  # fmt: skip
                source = source.with_suffix(source.suffix + ".ii")
                source.write_text(with_launches_as_written(run.stdout), errors="surrogateescape")
                prelude, language = [], "c++-cpp-output"
            if run is None or run.returncode == 0:
                run = subprocess.run(
                    [*command, *prelude, "-x", language, "-c", str(source), "-o", str(target)],
                    stderr=subprocess.PIPE, text=True, errors="replace",
                )  # fmt: skip
            if run.returncode != 0:
                failures.append(run.stderr)
            self.notes += self.uninitialized(run.stderr)

        threads = [threading.Thread(target=one, args=[source]) for source in sources]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise DoesNotCompile([line for text in failures for line in self.errors(text)])
        too_large = self.too_much_shared(objects, tree.statics)
        if too_large:
            raise DoesNotCompile(too_large)
        program = folder / "program"
        wrapped = [f"-Wl,--wrap={name}" for name in WRAPPED]
        run = subprocess.run(
            [self.command[0], "-no-pie", *sorted(objects), *self.files, *wrapped, "-pthread",
             "-lm", "-o", str(program)],
            stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        if run.returncode != 0:
            raise DoesNotCompile(self.undefined(run.stderr))
        (folder / "device_names").write_text(" ".join(sorted(tree.names)))
        return program

    def too_much_shared(self, objects, places):
        """A line for each function with more static shared memory than nvcc allows."""
        run = subprocess.run(["readelf", "--syms", "--wide", "--demangle", *objects],
                             capture_output=True, text=True)  # fmt: skip
        arrays = {}  # of each function: name and size
        for found in THREAD_LOCAL.finditer(run.stdout):
            if found["name"] in places:
                arrays.setdefault(found["function"], {})[found["name"]] = int(found["size"], 0)
        lines = []
        for function, sizes in arrays.items():
            largest, total = max(sizes, key=sizes.get), sum(sizes.values())
            if total > MOST_SHARED:
                lines.append(
                    f"{places[largest]}: {function} uses too much static shared memory: {total} "
                    f"bytes, and nvcc allows {MOST_SHARED}; declare {largest} as extern "
                    f"__shared__ {largest}[], and ask for its bytes by cudaFuncSetAttribute("
                    "kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) and in the launch"
                )
        return lines

    def uninitialized(self, text):
        """What the compiler says of variables that are used before they are set, as findings."""
        return [
            {"kind": "uninitialized", "where": f"{found['file']}:{found['line']}", "other": "",
             "count": 1, "message": f"{found['text']}: set it first, to 0 before a sum"}
            for found in UNINITIALIZED.finditer(text)
            if self.headers.as_posix() not in found["file"] and "/usr/" not in found["file"]
        ]  # fmt: skip

    def errors(self, text):
        """One line for each name or construct that the compiler refuses; first those that say what
        to do."""
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
            plain = message == found["text"]
            if not plain:
                refused.update(words_of(found["file"], int(found["line"])))
            lines.append((plain, f"{found['file']}:{found['line']}: {message}"))
        lines = [line for _, line in sorted(lines, key=lambda line: line[0])]
        return lines or [line for line in text.splitlines() if "error" in line][:5] or [text]

    def undefined(self, text):
        lines = [
            f"{name}: {advice.of_name(name) or 'it is declared and nowhere defined'}"
            for name in dict.fromkeys(found["name"] for found in UNDEFINED.finditer(text))
        ]
        return lines or text.splitlines()[:5]
