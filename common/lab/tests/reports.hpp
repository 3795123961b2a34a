// What tests of the watched lab say about its reports.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "common/lab/tests/marked_lines.hpp"
#include "common/lab/watch.hpp"
#include "common/testing/process.hpp"

namespace fa::testing {

// What is found in some work.
inline lab::Report watched(const std::function<void()>& work) {
  const lab::Watch watch;
  work();
  return watch.report();
}
// The same for work that must end with an error, and its message.
inline lab::Report failed(const std::function<void()>& work, std::string* message = nullptr) {
  const lab::Watch watch;
  const std::string says = message_of<std::runtime_error>(work);
  CHECK(says != "");
  if (message != nullptr) *message = says;
  return watch.report();
}
inline void check_clean(const lab::Report& report) {
  CAPTURE(report.text());
  CHECK(report.findings.empty());
}
// The only finding of a report: its kind, its line, and what it says.
inline void check_only(const lab::Report& report, const std::string& kind, const std::string& place,
                       const std::string& says) {
  CAPTURE(report.text());
  REQUIRE(report.findings.size() == 1);
  const lab::Finding& finding = report.findings[0];
  CHECK(finding.kind == kind);
  CHECK(finding.where == place);
  CHECK(contains(finding.message, says));
}

}  // namespace fa::testing
