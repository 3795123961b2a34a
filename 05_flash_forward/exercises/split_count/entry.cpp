#include "common/classroom/prelude_cpu.hpp"
#include "student/split_count.hpp"

FA_ENTRY(split_count, [](double block, double part, std::int64_t units, std::int64_t tiles,
                         std::int64_t blocks) {
  return int{student::split_count({block, part}, units, tiles, blocks)};
});
