#include "common/classroom/prelude_cpu.hpp"
#include "student/descriptor.hpp"

FA_ENTRY(k, [](std::uint32_t base, int stage, int key, int column) {
  return std::uint64_t{student::k_descriptor(base, stage, key, column)};
});

FA_ENTRY(v, [](std::uint32_t base, int stage, int key, int column) {
  return std::uint64_t{student::v_descriptor(base, stage, key, column)};
});
