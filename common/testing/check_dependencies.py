"""Fails on a dependency that docs/contributing.md, section "Dependencies", forbids.

    python3 -m common.testing.check_dependencies [--root DIRECTORY]

Reads every #include and #if in C++ and CUDA, and every import in Python. Exit status: 0 no rule is
broken, 1 at least one is, 2 there is nothing to check.
"""

import argparse
import ast
import pathlib
import re
import sys

GPU, LAB, ATTENTION = "common/gpu", "common/lab", "common/attention"
USES, LOST, ASKS, PATH = "a file that is found", "one that is not", "#if", "a change of sys.path"
BACKEND = re.compile(r"\b(__CUDA\w*|__NVCC__|CUDART_VERSION|FA_(LAB|CUDA|GPU)\w*)\b")
# Name, the statements that it is about, what it says, and whether it forbids `b` in the file `a`.
RULES = [
    ("root", LOST, "an include begins at the repository's root", lambda a, b: True),
    ("lesson", USES, "a lesson uses common and earlier lessons only",
     lambda a, b: lesson(a) and not under(b, "common") and not 0 < lesson(b) <= lesson(a)),
    ("common", USES, "common uses no lesson and nothing of docs",
     lambda a, b: under(a, "common") and not under(b, "common")),
    ("foundation", USES, "common/tensor and common/check use neither common/gpu nor common/lab",
     lambda a, b: under(a, "common/tensor", "common/check") and under(b, GPU, LAB)),
    ("surface", USES, "common/gpu uses common/lab only in its half for the lab, *_lab.hpp",
     lambda a, b: under(a, GPU) and under(b, LAB) and not a.endswith("_lab.hpp")),
    ("kernel", USES, "a kernel uses common/gpu, common/attention and its own lesson's kernels only",
     lambda a, b: kernels(a) not in ("", kernels(b)) and not under(b, GPU, ATTENTION)),
    ("step", USES, "a numbered kernel uses earlier numbers only",
     lambda a, b: kernels(a) == kernels(b) and 0 < step(a) <= step(b)),
    ("backend", ASKS, "only common/gpu, tests and the classroom's lab ask which backend it is",
     lambda a, b: not under(a, GPU) and "/tests/" not in a
     and a != "common/classroom/launches.cpp" and BACKEND.search(b)),
    # The test of optional packages hides modules by a path.
    ("path", PATH, "Python modules are named from the repository's root",
     lambda a, b: a != "common/testing/tests/optional_test.py"),
]  # fmt: skip


def under(path, *folders):
    return path.startswith(tuple(folder + "/" for folder in folders))


def lesson(path):
    """The number of the lesson that `path` is in, or 0."""
    return int(path[:2]) if re.match(r"0\d_\w+/", path) else 0


def kernels(path):
    """The lesson whose kernels, or library of kernels, have `path`, or ""."""
    found = re.match(r"(0\d_\w+/)(kernels|library)/", path)
    return found[1] if found else ""


def step(path):
    """The number of a kernel, or 0 for a file that several share."""
    found = re.match(r"0\d_\w+/kernels/(\d\d)_", path)
    return int(found[1]) if found else 0


def source_files(root):
    """The files to read, named from the root: C++, CUDA, Python, and what students begin with."""
    for folder in sorted(root.iterdir()):
        if not re.match(r"build(-|$)|my_exercises$|\.", folder.name):
            for path in sorted(folder.rglob("*.*")):
                name = path.relative_to(root).as_posix()
                if re.search(r"\.(cpp|hpp|h|cu|cuh|py)$|/exercises/\w+/frame\.txt$", name):
                    yield name


def read_cpp(root, name):
    """Yields (line, kind of statement, text, file that is included or condition)."""
    text = (root / name).read_text(encoding="utf-8")
    line = first = ""
    for number, part in enumerate(text.splitlines(), 1):
        line, first = (line + part, first) if line else (part, number)
        if line.endswith("\\"):
            line = line[:-1] + " "
            continue
        used = re.match(r'\s*#\s*include\s*(["<])([^">]+)', line)
        if used and (root / used[2]).is_file():
            yield first, USES, f"includes {used[2]}", used[2]
        # The build writes the files that are excepted here.
        elif (
            used and used[1] == '"' and not re.match(r"student/|steps/|kernel_lines\.hpp$", used[2])
        ):
            yield first, LOST, f"includes {used[2]}", used[2]
        elif re.match(r"\s*#\s*(el)?if", line):
            yield first, ASKS, " ".join(line.split()), line
        line = ""


def module_file(root, module):
    """The file of a module, a folder of modules with "/" at its end, or "" for what is not ours."""
    path = root.joinpath(*module.split("."))
    for file in (path.with_name(path.name + ".py"), path / "__init__.py"):
        if file.is_file():
            return file.relative_to(root).as_posix()
    return path.relative_to(root).as_posix() + "/" if path.is_dir() else ""


def imported(root, name, node):
    """Yields the files that the import `node` of the file `name` uses."""
    if isinstance(node, ast.Import):
        modules = [[alias.name] for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        package = name.split("/")[: -node.level] if node.level else []
        base = ".".join(package + ([node.module] if node.module else []))
        modules = [[f"{base}.{alias.name}", base] for alias in node.names]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
        "importlib.import_module", "import_module", "__import__"
    ):  # fmt: skip
        modules = [[a.value] for a in node.args[:1] if isinstance(a, ast.Constant)]
    else:
        return
    beside = name.rpartition("/")[0].replace("/", ".")
    for choices in modules:
        files = [module_file(root, module) for module in choices]
        files += [module_file(root, f"{beside}.{module}") for module in choices]
        yield from [file for file in files if file][:1]


def read_python(root, name):
    """Yields (line, kind of statement, text, file that is imported)."""
    for node in ast.walk(ast.parse((root / name).read_bytes(), name)):
        for file in imported(root, name, node):
            yield node.lineno, USES, f"imports {file}", file
        changes = isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path"
        if isinstance(node, ast.ImportFrom) and node.module == "sys":
            changes = "path" in [alias.name for alias in node.names]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            changes = re.fullmatch("PYTHONPATH=?", node.value)
        if changes:
            yield node.lineno, PATH, "uses sys.path or PYTHONPATH", ""


def check(root):
    """Returns how many files were read, and a message for each place that breaks a rule."""
    names, broken = list(source_files(root)), set()
    for name in names:
        read = read_python if name.endswith(".py") else read_cpp
        for line, kind, text, what in read(root, name):
            for order, (rule, about, says, forbids) in enumerate(RULES):
                if kind == about and forbids(name, what):
                    broken.add((order, name, line, f"{text}: {says} [{rule}]"))
    return len(names), [f"{name}:{line}: {text}" for _, name, line, text in sorted(broken)]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, metavar="DIRECTORY",
                        default=pathlib.Path(__file__).resolve().parents[2])  # fmt: skip
    files, broken = check(parser.parse_args(arguments).root.resolve())
    print(*broken, f"{files} files, {len(broken)} forbidden dependencies", sep="\n")
    return 2 if not files else 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
