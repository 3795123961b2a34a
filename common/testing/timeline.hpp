/// @file
/// For tests: the output, drawing and JSON of `--section timeline`.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

namespace fa::testing {

/// The expected timeline of a rung.
struct ExpectedTimeline {
  /// @{ The rung and its problem; rows of the table and some kinds of spans; a rung without a
  /// timeline.
  std::string rung, problem;
  std::vector<std::string> lanes, kinds;
  std::string without;
  /// @}
};

/// Runs the section and checks what it prints, draws and writes.
/// @param program  as a command
/// @param expected of it
inline void check_timeline(const std::string& program, const ExpectedTimeline& expected) {
  const TemporaryDirectory directory;
  const auto json = directory.path() / "timeline.json";
  const auto svg = directory.path() / "timeline.svg";
  const std::string section = program + " --device cpu --section timeline --kernel ";
  const auto result =
      run(section + expected.rung + " --json " + quoted(json) + " --svg " + quoted(svg));
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(contains(result.output, "a model, not a measurement"));
  CHECK(contains(result.output, expected.rung + ", " + expected.problem));
  for (const std::string& lane : expected.lanes) {
    CHECK(contains(result.output, "\n" + lane + "  "));
  }
  for (const std::string& kind : expected.kinds) {
    CHECK(python_says(
              "any(s[\"kind\"] == \"" + kind + "\" for s in json.load(open(file))[0][\"spans\"])",
              json) == "True\n");
  }
  CHECK(python_says("xml.dom.minidom.parse(file).documentElement.tagName == "
                    "\"svg\"",
                    svg) == "True\n");
  // The drawing alone, for the pages; independent of the number of threads.
  const auto alone = run("FA_THREADS=3 " + section + expected.rung + " --svg -");
  CHECK(alone.output == file_bytes(svg));
  CHECK(contains(run(section + expected.without).output, expected.without + " has none"));
}

}  // namespace fa::testing
