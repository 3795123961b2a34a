/// @file
/// For graders of kernels whose threads may wait forever.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/classroom/lab.hpp"

namespace fa::classroom {

/// Calls an entry that launches and returns what the launch threw beside its result. What the lab
/// found before a deadlock is reported first, then this exercise's likely cause and the lab's
/// words.
/// @param reasons   for findings
/// @param likely    the likely cause of a deadlock, for the message
/// @param entry     its name
/// @param arguments of the entry
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
