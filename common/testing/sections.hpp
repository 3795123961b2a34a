/// @file
/// For tests: the program of the lesson that is tested, and the sections `trace` and `timeline` that
/// programs with kernels have.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

namespace fa::testing {

/// The program, as a command.
inline const std::string kProgram = FA_PROGRAM;

/// The section `trace` with these arguments.
inline Outcome traced(const std::string& arguments) {
  return run(kProgram + " --device cpu --section trace " + arguments);
}
/// Whether it traced something: builds without the watched lab have nothing to trace.
inline bool is_traced(const Outcome& outcome) {
  return !contains(outcome.output, "This build has no watched lab");
}

/// Runs the section `trace` and checks its report and its drawing.
/// @param arguments of the section
/// @param check     what else is expected: check(output, json, svg)
template <class Check>
void check_trace(const std::string& arguments, Check check) {
  const TemporaryDirectory directory;
  const auto json = directory.path() / "trace.json";
  const auto svg = directory.path() / "banks.svg";
  const auto result = traced(arguments + " --json " + quoted(json) + " --svg " + quoted(svg));
  CAPTURE(result.output);
  CAPTURE(result.error);
  CHECK(result.status == 0);
  if (!is_traced(result)) return;
  CHECK(contains(result.output, json.string()));
  CHECK(contains(result.output, svg.string()));
  CHECK(python_says("all(k[\"findings\"] == [] and k[\"wavefronts\"] == "
                    "sum(t[\"wavefronts\"] for t in k[\"traffic\"]) for k in "
                    "json.load(open(file)))",
                    json) == "True\n");
  CHECK(python_says("xml.dom.minidom.parse(file).documentElement.tagName == \"svg\"", svg) ==
        "True\n");
  check(result.output, json, svg);
}

/// Runs section timeline and checks the order of operations that it prints.
/// @param step    and its problem in words
/// @param lines   that it prints
/// @param without a step without asynchronous operations
inline void check_operations(const std::string& step, const std::string& problem,
                             const std::vector<std::string>& lines, const std::string& without) {
  const std::string section = kProgram + " --device cpu --section timeline --kernel ";
  const auto result = run(section + step);
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(contains(result.output, step + ", " + problem));
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(contains(result.output, line + "\n"));
  }
  // Independent of the number of threads.
  CHECK(run("FA_THREADS=3 " + section + step).output == result.output);
  CHECK(contains(run(section + without).output, without + " has none"));
  // Without stamps there is no trace file.
  const TemporaryDirectory directory;
  const auto file = directory.path() / "drawing";
  CHECK(contains(refusal(section + step + " --json " + quoted(file)), "needs stamps"));
}

}  // namespace fa::testing
