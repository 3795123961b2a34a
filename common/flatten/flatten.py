"""Writes a step of a ladder as one CUDA file, which nvcc compiles without the repository.

    python3 -m common.flatten.flatten [LESSON [STEP]] [--out FILE]    for example: 05 08

Without a step it lists those that there are. The file is build/flatten/LESSON/STEP.cu, or FILE. It
holds what the step uses of the course, each source's part below a line that names it, in the order
in which the sources include each other; in place of common/gpu's launches those of host.cuh; and
the lesson's src/one_file.cu, whose main() fills inputs, launches, and compares with plain loops.

A source is split into its definitions. Beginning at main(), a definition is kept when a kept one
names it. Only brackets, comments and strings are parsed: .clang-format fixes how the rest looks.

Exit status: 0 the file is written, 2 there is no such step or no place for it.
"""

import argparse
import functools
import os
import pathlib
import re
import shutil
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOST = "common/flatten/host.cuh"
REPLACED = {
    "common/gpu/launch.cuh": [HOST],
    "common/gpu/tensor_map.cuh": ["common/gpu/hopper.cuh", HOST],
}
WIDTH = 78
# Conditions that are known here: the file is for nvcc, without timestamps.
KNOWN = {
    "defined(__CUDACC__)": True,
    "defined(__CUDACC__) && defined(FA_STAMPS)": False,
    "defined(FA_STAMPS)": False,
    "defined(FA_LAB_WATCHED)": False,
}
# A parameter or a local variable: its type, its name, and what may follow.
LOCAL = (
    r"(?:\b(?:auto|bool|class|double|float|int|unsigned|[A-Z]\w*)|std::[\w:]+|>)"
    r"(?: (?:const)?[&*]*|[&*]+(?: const)?) *(\(&)?\b(?!k[A-Z])([a-z]\w*)\b(?(1)\)) *"
    r"(?:\[[^\]]*\] *)*(?:[;,){:(]|=[^=])"
)


# ---------------------------------------------------------------- sources


@dataclass(eq=False)
class Item:
    """A definition with its comment: its text, and the names that it defines and uses."""

    text: str
    names: set = field(init=False)
    uses: set = field(init=False)

    def __post_init__(self):
        code = blank(self.text)
        self.names = defined_names(code)
        words = re.findall(r"(?<![\w.])(?<!->)(?<!std::)[A-Za-z_]\w*", code)
        self.uses = set(words) - self.names - {found[2] for found in re.finditer(LOCAL, code)}


@dataclass
class Source:
    """A file's description, what it includes of the system, and its parts in their order:
    definitions, and names of the course's files that it includes."""

    description: list
    system: list
    parts: list


def without_lab(text):
    """As nvcc takes it without options, without what the lab and timelines need: places of calls
    and timestamps."""
    text = re.sub(r",?\s*SourceLocation(?: \w+)? = (?:caller_location\(\)|\{\})", "", text)
    text = re.sub(r",\s*location\b(?=[,)])|(?<=\()location(?=\))", "", text)
    text = re.sub(r"^ *FA_STAMP\([^;]*\);[^\n\\]*\n", "", text, flags=re.M)
    text = re.sub(r"^ *///? @param +location .*\n", "", text, flags=re.M)
    # The course is compiled with --expt-relaxed-constexpr.
    functions = r"(?<!__device__ )\bconstexpr (?=[\w:]+(?:<[^;()]*>)?[&*]* \w+\()"
    text = re.sub(functions, "__host__ __device__ constexpr ", text)
    text = re.sub(r"\bstd::(min|max)\(", r"\1(", text)
    return re.sub(r"(::)?\bfa::FA_TARGET::", "fa::", text)


def blank(text):
    """`text` with spaces in place of comments and strings."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])\''
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S)


def without_known_branches(text):
    """`text` without the directives that KNOWN decides, and without what they leave out."""
    kept = []
    conditions = []  # for each open #if: whether it is known, applies here, applied before
    for line in text.split("\n"):
        directive, _, condition = re.sub(r"#\s*", "#", line.strip()).partition(" ")
        if directive == "#if":
            value = KNOWN.get(condition)
            conditions.append([value is not None, value is not False, bool(value)])
        if conditions and directive in ("#elif", "#else"):
            known, _, before = conditions[-1]
            applies = not known or (not before and KNOWN.get(condition, True))
            conditions[-1] = [known, applies, before or applies]
        known = (
            directive in ("#if", "#elif", "#else", "#endif") and conditions and conditions[-1][0]
        )
        if not known and all(applies for _, applies, _ in conditions):
            kept.append(line)
        if conditions and directive == "#endif":
            conditions.pop()
    return "\n".join(kept)


def end_of_directive(code, at):
    """The end of the line of a directive, with the lines that continue it."""
    return re.compile(r"(?:[^\n]*\\\n)*[^\n]*\n?").match(code, at).end()


def end_of_conditional(code, at):
    """The end of an #if with all of its branches."""
    depth = 0
    for found in re.compile(r"^[ ]*#[ ]*(if|endif)[^\n]*\n?", re.M).finditer(code, at):
        depth += 1 if found[1] == "if" else -1
        if depth == 0:
            return found.end()
    raise ValueError("an #if without its #endif")


def end_of_definition(code, at):
    """The end of the definition that begins at `at`, in blank()ed code."""
    depth = 0
    while at < len(code):
        c = code[at]
        if c == "#" and not code[:at].rpartition("\n")[2].strip():
            at = end_of_directive(code, at)
            continue
        depth += (c in "([{") - (c in ")]}")
        at += 1
        if depth == 0 and (c == ";" or (c == "}" and not re.match(r"\s*[;,)=]", code[at:]))):
            break
    return at


def without_template(code):
    """A definition without `template <...>` in front."""
    while found := re.match(r"\s*template\s*<", code):
        at, depth = found.end(), 1
        while depth:
            depth += (code[at] == "<") - (code[at] == ">" and code[at - 1] not in "-")
            depth += {"(": 100, ")": -100}.get(code[at], 0)  # `>` in parentheses compares
            at += 1
        code = code[at:]
    return code


def defined_names(code):
    """Names that a definition, or a directive, defines."""
    macros = set(re.findall(r"^\s*#\s*define\s+(\w+)", code, re.M))
    if macros or code.lstrip().startswith("#"):
        return macros
    attribute = r"\b(__launch_bounds__|__align__|alignas|__attribute__)\s*\((\([^()]*\)|[^()])*\)"
    head = without_template(re.sub(attribute, "", code))
    kinds = r"(?:using|struct|enum class|class|enum) +(?!namespace)"
    if found := re.match(rf"\s*(?:static |inline |constexpr )*{kinds}(\w+)", head):
        return {found[1]}
    if re.match(r"\s*(static_assert|using)\b", head):
        return set()
    # The name of a function stands before its parameters, that of a variable before its value.
    found = re.search(r"\b(?!decltype|auto\b)([A-Za-z_]\w*)\s*(?:\(|=[^=]|;|\[|\{)", head)
    return {found[1]} if found else set()


@functools.cache  # the steps of a ladder share most of their sources
def split(text):
    """The Source of a file's text."""
    text = without_known_branches(text)
    described = re.search(r"/// @file\n((?:/// .*\n)*)", text)  # the first paragraph
    description = [line[4:] for line in described[1].splitlines()] if described else []
    text = without_lab(text)
    text = re.sub(r"/// @file\n(?:///.*\n)*", "", text)
    text = re.sub(
        r"^ *//! \[\w+\]\n|^/// @(end)?cond.*\n|^ *// clang-format .*\n", "", text, flags=re.M
    )
    source, code = Source(description, [], []), blank(text)
    at = begin = 0  # where code is read; where the comment of the next definition begins
    while at < len(code):
        if code[at].isspace():
            at += 1
            if text[at - 1 : at + 1] == "\n\n":
                begin = at + 1
        elif found := re.compile(r"(?:inline )?namespace\b[\w: ]*\{|\}[^\n]*").match(code, at):
            at = begin = found.end()
            begin = text.find("\n", at) + 1  # without the comment that ends a namespace
        elif found := re.compile(r'#\s*include\s*(["<])([^">]+)[^\n]*').match(text, at):
            (source.parts if found[1] == '"' else source.system).append(found[2])
            at = begin = found.end()
        elif code.startswith("#pragma", at):
            at = begin = end_of_directive(code, at)
        else:
            if re.compile(r"#\s*if").match(code, at):
                at = end_of_conditional(code, at)
            elif code[at] == "#":
                at = end_of_directive(code, at)
            else:
                at = end_of_definition(code, at)
                at = re.compile(r"[ ]*(//[^\n]*)?").match(text, at).end()  # a comment behind it
            source.parts.append(Item(text[begin:at].strip("\n")))
            begin = at
    return source


# ---------------------------------------------------------------- steps


def lessons():
    """Lessons whose steps can be written, by number."""
    return {
        path.parts[-3][:2]: path.parts[-3] for path in sorted(ROOT.glob("0*_*/src/one_file.cu"))
    }


def steps(lesson):
    """Names of a lesson's steps."""
    return sorted(path.stem for path in (ROOT / lesson / "kernels").glob("[0-9]*.cuh"))


def find_lesson(lesson):
    """The full name of a lesson, given that or its number."""
    for number, name in lessons().items():
        if lesson in (name, number, number.lstrip("0")):
            return name
    raise LookupError(f"lesson '{lesson}' has no steps; allowed are {', '.join(lessons())}")


def find_step(lesson, step):
    """The full names of a lesson and a step, given those or their numbers."""
    lesson = find_lesson(lesson)
    for name in steps(lesson):
        if step in (name, name[:2], name[:2].lstrip("0")):
            return lesson, name
    raise LookupError(f"{lesson} has no step '{step}'; allowed are {', '.join(steps(lesson))}")


def program_of(lesson, step):
    """The text of the lesson's one_file.cu with the launch of one step in it."""
    text = (ROOT / lesson / "src" / "one_file.cu").read_text(encoding="utf-8")
    names = set(re.findall(r"//! \[(\w+)\]", text))
    if step not in names:
        raise LookupError(f"{lesson}/src/one_file.cu does not launch {step}")
    for name in names:
        part = rf"^ *//! \[{name}\]\n(.*?)^ *//! \[{name}\]\n"
        text = re.sub(part, r"\1" if name == step else "", text, flags=re.M | re.S)
    return text


class Course:
    """The definitions of some files and of what they include, in an order in which they compile."""

    def __init__(self):
        self.sources = {}
        self.items = []  # (path, Item)

    def read(self, path, text=None):
        """Adds a file, or what replaces it; each file once."""
        if path in REPLACED:
            for name in REPLACED[path]:
                self.read(name)
        elif path not in self.sources:
            if text is None:
                text = (ROOT / path).read_text(encoding="utf-8")
            self.sources[path] = split(text)
            for part in self.sources[path].parts:
                if isinstance(part, Item):
                    self.items.append((path, part))
                else:
                    self.read(part)

    def needed(self):
        """The (path, Item) that main() needs."""
        by_name = {}
        for _, item in self.items:
            for name in item.names - {"FA_TARGET"}:
                by_name.setdefault(name, []).append(item)
        todo, kept = list(by_name["main"]), set()
        while todo:
            item = todo.pop()
            if item not in kept:
                kept.add(item)
                todo += [other for name in item.uses for other in by_name.get(name, [])]
                for prefix in re.findall(r"\b(\w+) *##", item.text):  # what `prefix##number` makes
                    made = [name for name in by_name if re.fullmatch(rf"{prefix}\d+", name)]
                    todo += [other for name in made for other in by_name[name]]
        return [(path, item) for path, item in self.items if item in kept]


def heading(path, description):
    """The lines above what is taken from a file; the description stands there once."""
    lines = [f"// ---- {path} ".ljust(WIDTH, "-"), *("// " + line for line in description)]
    return "\n".join(line.rstrip() for line in lines)


def flatten(lesson, step, program=None):
    """The text of the file for a step, given full names, and a program in place of its own."""
    course, main = Course(), f"{lesson}/src/one_file.cu"
    course.read(f"{lesson}/kernels/{step}.cuh")
    course.read(main, program or program_of(lesson, step))
    system, parts, inside, before = {"cstddef", "cstdint"}, [], False, None
    descriptions = {path: source.description for path, source in course.sources.items()}
    for path, item in course.needed():
        system.update(name for name in course.sources[path].system if not name.startswith("fmt/"))
        if path != before:
            parts.append(heading(path, descriptions.pop(path, [])))
            before = path
        wanted = not blank(item.text).lstrip().startswith("#") and "main" not in item.names
        if wanted != inside:
            parts.append("namespace fa {" if wanted else "}  // namespace fa")
            inside = wanted
        parts.append(item.text)
    sm = "90a" if any("FA_HOPPER_ASM" in part for part in parts) else "80"
    title = (
        f"// Step {step} of lesson {lesson} in one file, written by ./learn flatten.\n"
        f"//   nvcc -arch=sm_{sm} {step}.cu -o {step} && ./{step}"
    )
    includes = "\n".join(f"#include <{name}>" for name in sorted(system))
    return with_contents(title, "\n\n".join([includes, *parts]) + "\n", f"kernels/{step}.cuh")


def with_contents(title, text, own):
    """A file's title, its contents by line, and its text; `own` is the part to read first."""
    parts = {}
    for number, line in enumerate(text.split("\n")):
        if found := re.match(r"// ---- (\S+) -", line):
            parts.setdefault(found[1], number)
    above = len(title.split("\n")) + len(parts) + 2  # lines before the text
    rows = [
        f"// {number + above + 1:5}  {path}{'  <- begin here' if path.endswith(own) else ''}"
        for path, number in parts.items()
    ]
    return "\n".join([title, "//", *rows, "", text])


def find_nvcc():
    """The path of nvcc or None: on PATH, in CUDA_HOME, or from common/cmake/fetch_nvcc.sh."""
    folders = [os.environ.get("CUDA_HOME", "/usr/local/cuda"), ROOT / "build" / "nvcc"]
    candidates = [
        shutil.which("nvcc"),
        *(pathlib.Path(folder) / "bin" / "nvcc" for folder in folders),
    ]
    return next((str(path) for path in candidates if path and os.access(path, os.X_OK)), None)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lesson", nargs="?", help="number or name")
    parser.add_argument("step", nargs="?", help="number or name")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="the file to write")
    given = parser.parse_args(arguments)
    try:
        if given.step is None:
            chosen = [given.lesson] if given.lesson else lessons()
            for name in chosen:
                lesson = find_lesson(name)
                print(*(f"{lesson[:2]} {step}" for step in steps(lesson)), sep="\n")
            return 0
        lesson, step = find_step(given.lesson, given.step)
        text = flatten(lesson, step)
        out = given.out or ROOT / "build" / "flatten" / lesson / f"{step}.cu"
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except (LookupError, OSError) as error:
        print(f"learn: {error}", file=sys.stderr)
        return 2
    print(f"{out}: {len(text.splitlines())} lines")
    sm = re.search(r"-arch=\w+", text)[0]
    print(f"Compile and run it: nvcc {sm} {out} -o {out.with_suffix('')} && {out.with_suffix('')}")
    if not sm.endswith("90a"):  # the lab has wgmma and TMA as functions, not as PTX
        print(f"Without a GPU: ./learn lab {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
