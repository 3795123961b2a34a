#include "common/parallel/parallel_for.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace fa {

int thread_count() {
  const char* const wanted = std::getenv("FA_THREADS");
  if (wanted != nullptr && *wanted != '\0') {
    const char* const end = wanted + std::strlen(wanted);
    int count = 0;
    const auto [stop, error] = std::from_chars(wanted, end, count);
    if (error == std::errc() && stop == end && count >= 1) return count;
    throw std::invalid_argument(std::string("FA_THREADS is '") + wanted +
                                "'; it must be an integer of at least 1");
  }
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  // Each thread takes the next index, which balances uneven work.
  std::atomic<std::int64_t> next{0};
  std::exception_ptr first_error;
  std::mutex error_mutex;
  const auto worker = [&] {
    for (std::int64_t i; (i = next.fetch_add(1)) < count;) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(error_mutex);
        if (!first_error) first_error = std::current_exception();
        next.store(count);
      }
    }
  };
  const auto threads = std::min<std::int64_t>(thread_count(), count);
  std::vector<std::thread> helpers;
  try {
    for (std::int64_t i = 1; i < threads; ++i) helpers.emplace_back(worker);
  } catch (const std::exception&) {
    // The system refuses more threads: the running ones do all the work.
  }
  worker();  // the calling thread works too
  for (std::thread& helper : helpers) helper.join();
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace fa
