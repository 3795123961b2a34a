// What tests of the lab say about its reports, and how they find lines of kernels: by the comment at
// their end.
#pragma once

#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "common/lab/progress.hpp"
#include "common/lab/watch.hpp"
#include "common/testing/process.hpp"

namespace fa::testing {

// A text whose lines may be broken anywhere, with one space between words.
inline std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

// The number of the line of a file of the repository that ends with a mark.
inline int line_of(const std::string& path, const std::string& mark) {
  std::ifstream file(FA_ROOT_DIRECTORY "/" + path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string comment = "// " + mark;
    if (line.size() > comment.size() &&
        line.compare(line.size() - comment.size(), comment.size(), comment) == 0) {
      return number;
    }
  }
  throw std::logic_error("no line of " + path + " is named " + mark);
}

// That line as the lab names it; nothing for no mark.
inline std::string place_of(const std::string& path, const std::string& mark) {
  return mark.empty() ? "" : path + ":" + std::to_string(line_of(path, mark));
}

// While it lives, the lab ends endless loops after a second.
struct ImpatientLab {
  ImpatientLab() { lab::longest_run = std::chrono::seconds(1); }
  ~ImpatientLab() { lab::longest_run = lab::kLongestRun; }
  ImpatientLab(const ImpatientLab&) = delete;
  ImpatientLab& operator=(const ImpatientLab&) = delete;
};

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
