#include "common/classroom/prelude_cpu.hpp"
#include "student/sliding_window.hpp"

FA_ENTRY(window, [](std::int64_t queries, std::int64_t keys, std::int64_t window) {
  const student::Window bounds{queries, keys, window};
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < queries; ++i) {
    result.push_back(bounds.first_key(i));
    result.push_back(bounds.end_key(i));
  }
  return result;
});
