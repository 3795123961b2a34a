"""A CUDA file and what it includes, each rewritten by source.py."""

import pathlib

from common.lab.cuda import advice
from common.lab.cuda.source import Source


class Tree:
    """A file and what it includes, rewritten into a folder."""

    def __init__(self, folder, include_folders):
        self.folder, self.include_folders = folder, include_folders
        self.done = {}

    def add(self, path):
        """Rewrites a file and the files that it includes; where it is then."""
        path = path.resolve()
        if path in self.done:
            return self.done[path]
        target = self.folder / f"{len(self.done)}_{path.name}"
        self.done[path] = target
        source = Source(path.read_text(encoding="utf-8", errors="surrogateescape"), path)
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
                    named.text = named.out = f'"{self.add(found)}"'
        name = str(path).replace("\\", "\\\\").replace('"', '\\"')
        body = source.rewrite()
        target.write_text(f'#line 1 "{name}"\n{body}', encoding="utf-8", errors="surrogateescape")
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
        """A library of the CUDA Toolkit that the include at k names; else empty."""
        if source.text(k) == "<":
            end = k
            while source.text(end) != ">" and source.same_directive(k, end + 1):
                end += 1
            name = source.source(k + 1, end)
        else:
            name = source.text(k)[1:-1]
        return name if advice.of_toolkit(name) else ""

    def find(self, folder, name):
        for place in (folder, *self.include_folders):
            if (pathlib.Path(place) / name).is_file():
                return pathlib.Path(place) / name
        return None
