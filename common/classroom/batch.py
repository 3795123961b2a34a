"""Compiles several answers to an exercise as one program, for the gate: what they share is then
compiled once.

Each answer has names of its own. Kernels stand in a namespace inside of the lab's, `student` gets
a number, and so does a namespace around what the entry offers. The program offers the entries of
the one answer whose number stands in its file behind a mark. What a batch cannot hold is compiled
alone, as a student's file is: what does not compile, and answers whose lines for the preprocessor
are others than the solution's.
"""

import re

from common.classroom import unset
from common.classroom.toolchain import scratch_folder

MARK = b"answer of this program: "
DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
STUDENT = re.compile(r'^#include "student/.*\n', re.MULTILINE)
INCLUDE = re.compile(r'^#include "(.*)"$', re.MULTILINE)
NUMBERED = re.compile(r"\b(?:answer|student)_(\d+)\b")

HEAD = """
#include <cstdlib>
static const volatile char fa_number[] = "answer of this program: 000";
static int fa_chosen() {
  int number = 0;
  for (int i = 0; i < 3; ++i) number = 10 * number + fa_number[sizeof fa_number - 4 + i] - '0';
  return number;
}
#undef FA_ENTRY
#define FA_ENTRY(name, ...) \\
  [[maybe_unused]] static const auto* const fa_entry_##name = \\
      fa_chosen() == FA_ANSWER ? new ::fa::classroom::Entry(#name, +__VA_ARGS__) : nullptr
"""
ANSWER = """
namespace fa::{lab}::answer_{number} {{ using namespace fa::{lab}; }}
#undef FA_TARGET
#define FA_TARGET {lab}::answer_{number}
#define FA_ANSWER {number}
#define student student_{number}
#line 1 "student/{file}"
{answer}
namespace answer_{number} {{
#line {line} "entry.cpp"
{offers}
}}
#undef FA_ANSWER
#undef student
"""


def directives(text):
    """A file's lines for the preprocessor, without pragmas, which only a GPU's compiler needs."""
    found = (" ".join(line.split()) for line in DIRECTIVE.findall(text))
    return [line for line in found if not line.startswith("#pragma")]


def source(toolchain, exercise, answers):
    """The source of one program for several answers, numbered in their order."""
    before, after = STUDENT.split(exercise.entry)
    offers = INCLUDE.sub(lambda name: (exercise.root / name[1]).read_text(encoding="utf-8"), after)
    shared = "\n".join(directives(exercise.solution()))
    text = f"{before}\n{shared}\n{unset.FILL.replace('#line 1', '')}{HEAD}"
    for number, answer in enumerate(answers):
        text += ANSWER.format(
            lab="on_watched_lab" if toolchain.watched else "on_lab",
            number=number,
            file=exercise.file,
            answer=DIRECTIVE.sub("", answer.replace(unset.FILL, "")),
            line=before.count("\n") + 2,
            offers=DIRECTIVE.sub("", offers),
        )
    return text


def blamed(output):
    """Numbers of the answers with errors, as far as a compiler's messages tell them."""
    found, numbers = set(), []
    for line in output.split("\n"):
        numbers = NUMBERED.findall(line) or numbers  # "In function ..." stands above an error
        if " error: " in line:
            found.update(map(int, numbers))
    return found


def compiled(toolchain, exercise, answers):
    """Compiles answers that a batch can hold. When it does not compile, then those without errors;
    when the compiler does not say which these are, its halves."""
    with scratch_folder() as scratch:
        (scratch / "student").mkdir()
        batch = source(toolchain, exercise, answers)
        compilation = toolchain.compile(exercise, scratch, batch)
        if compilation.status == 0:
            program = (scratch / "program").read_bytes()
            at = program.index(MARK) + len(MARK)
            return {
                answer: b"%s%03d%s" % (program[:at], number, program[at + 3 :])
                for number, answer in enumerate(answers)
            }
    half = len(answers) // 2
    if half == 0:
        return {}
    parts = answers[:half], answers[half:]
    if faulty := blamed(compilation.output):
        parts = ([text for number, text in enumerate(answers) if number not in faulty],)
    return {k: v for part in parts if part for k, v in compiled(toolchain, exercise, part).items()}


def programs(toolchain, exercise, answers):
    """{answer: the bytes of its program} of those answers that can be compiled together."""
    solution = directives(exercise.solution())
    alike = [text for text in answers if directives(text.replace(unset.FILL, "")) == solution]
    return compiled(toolchain, exercise, alike) if alike else {}
