"""Hostile submissions to any exercise: the start, which solves nothing, with code that is after
marks all the same. No stage but `compiles` may pass."""

from common.classroom import grading

# Writes what could be a verdict, behind what could be a secret, to every file that it has.
FORGED_VERDICT = r"""
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>
static const int forged = [] {
  std::string secret(32, ' ');
  for (int fd = 0; fd < 64; ++fd) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    (void)!read(fd, secret.data(), 32);
  }
  const std::string verdict = "{\"verdict\": \"passed\", \"message\": \"\", \"notes\": []}\n",
                    line = secret + " " + verdict;
  for (int fd = 1; fd < 1024; ++fd) {
    (void)!write(fd, line.data(), line.size());
    (void)!write(fd, verdict.data(), verdict.size());
  }
  _exit(0);
  return 0;
}();
"""
# The messages of entry.cpp: a result is numbers, and zeros are wrong ones.
FORGED_RESULTS = r"""
#include <cstdint>
#include <string>
#include <unistd.h>
static const int forged = [] {
  const std::uint64_t count = 4, size = 8 + 32;
  std::string message = "r";
  message.append(reinterpret_cast<const char*>(&size), 8);
  message.append(reinterpret_cast<const char*>(&count), 8);
  message.append(32, 0);
  for (int i = 0; i < 100; ++i) (void)!write(4, message.data(), message.size());
  return 0;
}();
"""
MACROS = "".join(
    f"#define {name}(...) void()\n"
    for name in ("check", "require", "refuse", "note", "send", "call", "agree")
)
EXIT = "#include <cstdlib>\nstatic const int ended = (std::_Exit(0), 0);\n"


def submissions(exercise):
    """Name -> the student's file."""
    start = exercise.start()
    if exercise.predicts:
        return {
            "infinity": start.replace("= ?", "= inf"),
            "an endless power": start.replace("= ?", "= 9**9**9**9"),
        }
    folder = exercise.folder.relative_to(exercise.root)
    found = {
        "a forged verdict": start + FORGED_VERDICT,
        "forged results": start + FORGED_RESULTS,
        "macros": MACROS + start,
        "a program of its own": start + "\nint main() { return 0; }\n",
        "exit before the call": start + EXIT,
        "the grader's source": f'#include "{folder}/grader.cpp"\n' + start,
        "the solution's source": f'#include "{folder}/frame.txt"\n',
    }
    if exercise.machine == "lab":
        found["unobserved"] = start.replace("__global__", "FA_UNWATCHED __global__")
    return found


def passed(toolchain, case):
    """Stages beyond compiling that a hostile submission passes: none, if all is well."""
    exercise, name = case
    results = grading.marks(toolchain, exercise, submissions(exercise)[name])
    return [result.name for result in results if result.verdict == "passed"][1:]
