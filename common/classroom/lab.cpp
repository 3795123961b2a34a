#include "common/classroom/lab.hpp"

#include <algorithm>

#include "common/lab/sites.hpp"

namespace fa::classroom {
namespace {

// The function with number 0: lines of the student's program, which may start no other.
const Function lines = known([](const std::string& bytes) {
  const auto addresses = unpacked<std::string>(bytes);
  require(addresses.find_first_not_of("0123456789abcdefx ") == std::string::npos, "no addresses");
  return packed(lab::addr2line(student_program(), addresses));
});

bool is_race(const lab::Finding& finding) {
  return finding.kind == "race" || finding.kind == "same value";
}

// Whether a finding is of a kind that reasons can be for.
bool is_of(const lab::Finding& finding, const std::string& kind) {
  const auto says = [&](const char* words) {
    return finding.message.find(words) != std::string::npos;
  };
  if (kind == "race") return is_race(finding);
  if (kind == "blocks") {
    return is_race(finding) && finding.where == finding.other && says(" writes what ") &&
           says(" of block ") && says(" has written");
  }
  if (kind == "bytes") return finding.kind == "copy" && says("to an mbarrier that expects");
  return finding.kind == kind;
}

}  // namespace

bool found(const Seen& seen, const std::string& kind) {
  const auto& findings = seen.report.findings;
  return std::any_of(findings.begin(), findings.end(),
                     [&](const lab::Finding& finding) { return is_of(finding, kind); });
}

Reason own_elements() {
  return {"blocks",
          "two blocks write the same element at the same line: each block must have elements of "
          "its own. Does an index lack what tells the blocks apart?"};
}

Reason expected_bytes() {
  return {"bytes",
          "an mbarrier expects another number of bytes than the copies bring: arrive_and_expect() "
          "announces those of all copies of its phase"};
}

void require_no_findings(const Seen& seen, const std::vector<Reason>& reasons) {
  if (seen.report.findings.empty()) return;
  const lab::Finding& first = seen.report.findings.front();
  std::string why = "the lab found what a GPU would not tell you";
  if (is_race(first)) {
    why = first.other == first.where || first.other.empty()
              ? "several threads use the same element where each should have its own"
              : "two threads use the same element, and nothing orders them";
  } else if (first.kind == "out of bounds") {
    why = "an index lies outside of the array";
  } else if (first.kind == "unwritten") {
    why = "an element is read that no thread has written";
  } else if (first.kind == "barrier") {
    why = "not all threads of the block come to a barrier";
  }
  for (const auto& [kind, says] : reasons) {
    if (found(seen, kind)) {
      why = says;
      break;
    }
  }
  refuse(why + "\n\n" + seen.report.findings_text());
}

void require_no_races(const Seen& seen, const std::vector<Reason>& reasons) {
  needs_watching(seen);
  require_no_findings(seen, reasons);
}

bool explains(const std::string& says, const Seen& seen) {
  const auto stores = [](const lab::LineTraffic& line) { return line.write && !line.shared; };
  return says.rfind("nothing was written", 0) != 0 ||
         std::none_of(seen.report.traffic.begin(), seen.report.traffic.end(), stores);
}

bool unexplained(const Seen& seen, const Table& out, const std::vector<double>& reference,
                 double tolerance, const std::vector<Mistake>& mistakes) {
  const bool explained = std::any_of(mistakes.begin(), mistakes.end(), [&](const Mistake& mistake) {
    return agree(out.values, mistake.result, tolerance) && explains(mistake.says, seen);
  });
  return !explained && seen.report.findings.empty() && !agree(out.values, reference, tolerance) &&
         recognised(out, reference, tolerance).empty();
}

void check_result(const Seen& seen, const std::vector<Reason>& reasons, const Table& out,
                  const std::vector<double>& reference, double tolerance,
                  const std::vector<Mistake>& mistakes, const std::string& where) {
  if (agree(out.values, reference, tolerance)) {
    // What lands beside a matrix may leave the result as it is, and end the next launch.
    if (found(seen, "out of bounds")) require_no_findings(seen, reasons);
    return;
  }
  for (const Mistake& mistake : mistakes) {
    if (agree(out.values, mistake.result, tolerance) && explains(mistake.says, seen)) {
      refuse(mistake.says + " (case: " + where + ")");
    }
  }
  require_no_findings(seen, reasons);
  check(out, reference, tolerance, {}, where);
}

}  // namespace fa::classroom
