// Work spread over threads: each index once, errors come back, FA_THREADS is obeyed.
#include "common/parallel/parallel_for.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

using namespace fa;
using fa::testing::Threads;

namespace {

// True when `wanted` calls run at the same time.
bool run_together(int wanted) {
  std::atomic<int> arrived{0};
  std::atomic<bool> together{true};
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  parallel_for(wanted, [&](std::int64_t) {
    ++arrived;
    while (arrived < wanted) {
      if (std::chrono::steady_clock::now() > give_up) {
        together = false;
        return;
      }
      std::this_thread::yield();
    }
  });
  return together;
}

}  // namespace

TEST_CASE("every index is called once") {
  for (const int threads : {1, 2, 7}) {
    const Threads setting(threads);
    for (std::int64_t count : {0, 1, 2, 6, 7, 8, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      std::atomic<int> outside{0};
      parallel_for(count, [&](std::int64_t i) {
        if (i < 0 || i >= count) {
          ++outside;
        } else {
          ++calls[static_cast<std::size_t>(i)];
        }
      });
      CHECK(outside == 0);
      for (const auto& times : calls) CHECK(times == 1);
    }
  }
}

TEST_CASE("FA_THREADS says how many threads work") {
  for (const int count : {1, 5}) {
    const Threads setting(count);
    CHECK(thread_count() == count);
    CHECK(run_together(count));
    std::mutex mutex;
    std::set<std::thread::id> seen;
    parallel_for(500, [&](std::int64_t) {
      const std::lock_guard<std::mutex> lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    CHECK(seen.size() <= static_cast<std::size_t>(count));
    if (count == 1) CHECK(*seen.begin() == std::this_thread::get_id());
  }
}

TEST_CASE("an FA_THREADS that is not an integer of at least 1 is refused") {
  for (const std::string wanted : {"0", "-3", "four", "4x", " 4", "1.5", "99999999999999999999"}) {
    const Threads setting(wanted);
    const auto why = testing::message_of<std::invalid_argument>([] { thread_count(); });
    CHECK(testing::contains(why, "FA_THREADS is '" + wanted + "'"));
    CHECK_THROWS_AS(parallel_for(2, [](std::int64_t) {}), std::invalid_argument);
  }
}

TEST_CASE("an exception comes back to the caller and stops the rest") {
  const Threads setting(4);
  std::atomic<int> calls{0};
  CHECK(testing::message_of<std::runtime_error>([&] {
          parallel_for(100000, [&](std::int64_t i) {
            ++calls;
            if (i == 5) throw std::runtime_error("index 5");
            std::this_thread::sleep_for(std::chrono::microseconds(100));
          });
        }) == "index 5");
  CHECK(calls < 100000);
  // Of several, one comes back; it need not be a std::exception.
  CHECK_THROWS_AS(parallel_for(100, [](std::int64_t i) { throw i; }), std::int64_t);
}

TEST_CASE("a call may itself call parallel_for") {
  const Threads setting(3);
  std::atomic<int> calls{0};
  parallel_for(4, [&](std::int64_t) {
    parallel_for(5, [&](std::int64_t) { parallel_for(6, [&](std::int64_t) { ++calls; }); });
  });
  CHECK(calls == 4 * 5 * 6);
}
