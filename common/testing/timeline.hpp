/// @file
/// For tests: what `--section timeline` of a lesson's program prints, draws and writes.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

namespace fa::testing {

/// What is expected of a rung's time line.
struct ExpectedTimeline {
  std::string rung;                ///< its name
  std::string problem;             ///< the words behind it
  std::vector<std::string> lanes;  ///< rows of the table
  std::vector<std::string> kinds;  ///< of spans, among others
  std::string without;             ///< a rung that has no time line
};

/// Runs the section and checks what it prints, draws and writes.
/// @param program  as a command
/// @param expected of it
inline void check_timeline(const std::string& program,
                           const ExpectedTimeline& expected) {
  const TemporaryDirectory directory;
  const auto json = directory.path() / "timeline.json";
  const auto svg = directory.path() / "timeline.svg";
  const std::string section =
      program + " --device cpu --section timeline --kernel ";
  const auto result = run(section + expected.rung + " --json " +
                          quoted(json) + " --svg " + quoted(svg));
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(contains(result.output, "a model, not a measurement"));
  CHECK(contains(result.output, expected.rung + ", " + expected.problem));
  for (const std::string& lane : expected.lanes) {
    CHECK(contains(result.output, "\n" + lane + "  "));
  }
  for (const std::string& kind : expected.kinds) {
    CHECK(python_says("any(s[\"kind\"] == \"" + kind +
                          "\" for s in json.load(open(file))[0][\"spans\"])",
                      json) == "True\n");
  }
  CHECK(python_says("xml.dom.minidom.parse(file).documentElement.tagName == "
                    "\"svg\"",
                    svg) == "True\n");
  // The drawing alone, for the pages; the same whatever threads the machine has.
  const auto alone =
      run("FA_THREADS=3 " + section + expected.rung + " --svg -");
  CHECK(alone.output == file_bytes(svg));
  CHECK(contains(run(section + expected.without).output,
                 expected.without + " has none"));
}

}  // namespace fa::testing
