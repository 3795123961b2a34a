/// @file
/// Work spread over the cores of the machine.
#pragma once

#include <cstdint>
#include <functional>

namespace fa {

/// The number of threads that parallel_for() uses: FA_THREADS from the environment, or the number of
/// cores where that is not set.
/// @throws std::invalid_argument when FA_THREADS is not a whole number from 1
int thread_count();

/// Calls `body(0)` to `body(count - 1)`, each once, in no fixed order and from several threads.
/// Calls must not depend on one another. Returns when all are done. The first exception thrown by a
/// call is thrown again here; calls that had not begun are then left out.
/// @param count number of calls, 0 or more
/// @param body  safe to call from several threads at once
/// @throws std::invalid_argument as thread_count()
void parallel_for(std::int64_t count,
                  const std::function<void(std::int64_t)>& body);

}  // namespace fa
