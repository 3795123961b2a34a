// The watched lab and what runs beside the threads: each broken kernel is found at its line, with a sentence that says
// what is missing, and its right twin shows nothing.
#include <algorithm>
#include <set>
#include <stdexcept>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/gpu/tests/broken_hopper.cuh"
#include "common/lab/tests/marked_lines.hpp"
#include "common/lab/watch.hpp"
#include "common/testing/process.hpp"

namespace fa::on_watched_lab {
namespace {

using lab::Report;
using testing::contains;
using testing::in_one_line;
using testing::line_of;

std::string place_of(const std::string& mark) {
  return mark.empty() ? ""
                      : fmt::format("common/gpu/tests/broken_hopper.cuh:{}",
                                    line_of(FA_BROKEN_HOPPER, mark));
}

// What a launch threw, and what was found.
struct Seen {
  std::string error;
  Report report;
};
Seen watched(const BrokenHopperKernel& kernel, bool broken) {
  Seen result;
  const lab::Watch watch;
  try {
    kernel.run(broken);
  } catch (const std::runtime_error& error) {
    result.error = error.what();
  }
  result.report = watch.report();
  return result;
}

TEST_CASE("each broken kernel for Hopper is found, its right twin is not") {
  for (const BrokenHopperKernel& kernel : broken_hopper_kernels()) {
    CAPTURE(kernel.name);
    const Seen right = watched(kernel, false);
    CAPTURE(right.report.text());
    CHECK(right.error == "");
    CHECK(right.report.findings.empty());
    const Seen seen = watched(kernel, true);
    CAPTURE(seen.report.text());
    CAPTURE(seen.error);
    const std::string line = place_of(kernel.line),
                      other = place_of(kernel.other);
    if (kernel.kind == "deadlock") {
      CHECK(contains(seen.error, line));
      CHECK(contains(in_one_line(seen.error), kernel.says));
      continue;
    }
    // Some also hang; but before that they are found.
    CHECK(std::any_of(
        seen.report.findings.begin(), seen.report.findings.end(),
        [&](const lab::Finding& finding) {
          return finding.kind == kernel.kind && finding.where == line &&
                 finding.other == other &&
                 contains(finding.message, kernel.says);
        }));
  }
}

TEST_CASE("no two broken kernels for Hopper have the same name") {
  std::set<std::string> names;
  for (const auto& kernel : broken_kernels()) names.insert(kernel.name);
  for (const auto& kernel : broken_hopper_kernels()) {
    CAPTURE(kernel.name);
    CHECK(names.insert(kernel.name).second);
  }
}

}  // namespace
}  // namespace fa::on_watched_lab
