/// @file
/// For graders of kernels whose threads may wait for ever.
#pragma once

#include <string>

#include "common/classroom/lab.hpp"

namespace fa::classroom {

/// Calls an entry that launches; a deadlock is refused with this exercise's likely cause before the
/// lab's words.
/// @param likely    cause, one sentence
/// @param entry     its name
/// @param arguments of the entry
template <class... Arguments>
Launched call_waiting(const std::string& likely, const std::string& entry,
                      const Arguments&... arguments) {
  try {
    return call<Launched>(entry, arguments...);
  } catch (const Refused& refused) {
    const std::string why = refused.what();
    if (why.find("deadlock") == std::string::npos) throw;
    refuse("threads wait for ever: " + likely + "\n\n" + why);
  }
}

}  // namespace fa::classroom
