/// @file
/// For graders of kernels: what the lab saw as counts, and findings as refusals. Where there is no
/// watched lab, results are graded and the rest is skipped.
#pragma once

#include <string>
#include <vector>

#include "common/classroom/grader.hpp"
#include "common/classroom/seen.hpp"

namespace fa::classroom {

/// Skips the stage where nothing was watched.
inline void needs_watching(const Seen& seen) {
  if (!seen.watched) {
    skip("this machine has no watched lab, which needs Linux");
  }
}

/// True when a finding of a kind was made: see lab::Finding::kind.
inline bool found(const Seen& seen, const std::string& kind) {
  for (const lab::Finding& finding : seen.report.findings) {
    if (finding.kind == kind) return true;
  }
  return false;
}

/// What to tell who made a finding of some kind.
using Reason = std::pair<std::string, std::string>;

/// Refuses when the lab found something: the reason of the first kind that was found, and then the
/// lab's own words.
/// @param seen    of a launch
/// @param reasons kind and misconception, in the order in which they are tried
inline void require_no_findings(const Seen& seen, const std::vector<Reason>& reasons = {}) {
  if (seen.report.findings.empty()) return;
  const lab::Finding& first = seen.report.findings.front();
  std::string why = "the lab found what a GPU would not tell you";
  if (first.kind == "race") {
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

/// check() for what a kernel wrote: a mistake that explains the result comes first, then what the
/// lab found, then where the numbers differ.
/// @param seen      of the launch
/// @param reasons   as for require_no_findings()
/// @param out       the student's
/// @param reference as many numbers
/// @param tolerance largest difference that is allowed
/// @param mistakes  tried in their order
/// @param where     the case
inline void check_result(const Seen& seen, const std::vector<Reason>& reasons, const Table& out,
                         const std::vector<double>& reference, double tolerance,
                         const std::vector<Mistake>& mistakes, const std::string& where) {
  if (agree(out.values, reference, tolerance)) {
    // What lands beside a matrix may leave the result as it is, and end the next launch.
    if (found(seen, "out of bounds")) require_no_findings(seen, reasons);
    return;
  }
  for (const Mistake& mistake : mistakes) {
    if (agree(out.values, mistake.result, tolerance)) {
      refuse(mistake.says + " (case: " + where + ")");
    }
  }
  require_no_findings(seen, reasons);
  check(out, reference, tolerance, {}, where);
}

}  // namespace fa::classroom
