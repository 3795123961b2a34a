/// @file
/// A parallel loop over the cores of the machine.
#pragma once

#include <cstdint>
#include <functional>

namespace fa {

/// The number of threads that parallel_for() uses: FA_THREADS from the environment, or else the
/// number of cores.
/// @throws std::invalid_argument when FA_THREADS is not an integer of at least 1
int thread_count();

/// Calls `body(0)` to `body(count - 1)`, each once, in no fixed order and from several threads, and
/// returns when all are done. Calls must not depend on one another. The first exception of a call
/// is rethrown here; calls that have not begun by then are skipped.
/// @param count number of calls, 0 or more
/// @param body  safe to call from several threads at once
/// @throws std::invalid_argument as thread_count()
void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body);

}  // namespace fa
