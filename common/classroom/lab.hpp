/// @file
/// For graders of kernels: what the lab saw as counts, and findings as refusals. Where there is no
/// watched lab, results are graded and the rest is skipped.
#pragma once

#include <string>
#include <utility>
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

/// True when a finding of a kind was made: see lab::Finding::kind. Stores of the same value count
/// as races: in an exercise each thread has an element of its own. "blocks" are the races of which
/// both stores stand at one line and are of two blocks, "bytes" the copies that bring more bytes
/// than their mbarrier expects.
bool found(const Seen& seen, const std::string& kind);

/// A kind of finding, and the message for it.
using Reason = std::pair<std::string, std::string>;

/// The reason for "blocks", where no two blocks share an element; it stands before that for "race".
Reason own_elements();

/// The reason for "bytes"; it stands before those for what follows from it.
Reason expected_bytes();

/// Refuses when the lab found something: the reason of the first kind that was found, and then the
/// lab's own words. Reasons are tried in their order.
void require_no_findings(const Seen& seen, const std::vector<Reason>& reasons = {});

/// Skips the stage where nothing was watched, and refuses findings as require_no_findings() does.
void require_no_races(const Seen& seen, const std::vector<Reason>& reasons = {});

/// False for "nothing was written" of a launch that has written: a kernel can store NaN, too.
bool explains(const std::string& says, const Seen& seen);

/// True when check_result() would refuse with nothing but the numbers that differ.
bool unexplained(const Seen& seen, const Table& out, const std::vector<double>& reference,
                 double tolerance, const std::vector<Mistake>& mistakes);

/// check() for what a kernel wrote: a mistake that explains the result comes first, then what the
/// lab found, then where the numbers differ. The parameters are those of both functions.
void check_result(const Seen& seen, const std::vector<Reason>& reasons, const Table& out,
                  const std::vector<double>& reference, double tolerance,
                  const std::vector<Mistake>& mistakes, const std::string& where);

/// For kernels whose threads may wait forever: calls an entry that launches and returns what the
/// launch threw beside its result. What the lab found before a deadlock is reported first, then
/// this exercise's likely cause and the lab's words.
/// @param likely    the likely cause of a deadlock, for the message
template <class... Arguments>
Launched call_waiting(const std::vector<Reason>& reasons, const std::string& likely,
                      const std::string& entry, const Arguments&... arguments) {
  const auto [launched, error] = call<std::pair<Launched, std::string>>(entry, arguments...);
  if (error.empty()) return launched;
  require_no_findings(launched.seen, reasons);
  if (error.find("deadlock") == std::string::npos) {
    refuse("the launch failed: " + error);
  }
  refuse("threads wait forever: " + likely + "\n\n" + error);
}

}  // namespace fa::classroom
