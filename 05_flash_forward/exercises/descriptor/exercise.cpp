#if defined(FA_STUDENT)
#include <cstdint>

namespace student {

constexpr int kKeys = 96;      // of a stage
constexpr int kColumns = 128;  // of a row, 2 bytes each

#ifdef FA_SOLUTION
/// Shared address of an element, before the swizzle.
inline std::uint32_t address_of(std::uint32_t base, int stage, int key, int column) {
  const int panel_bytes = kKeys * 128;
  const int offset = stage * (kColumns / 64) * panel_bytes + column / 64 * panel_bytes + key * 128 +
                     column % 64 * 2;
  return base + static_cast<std::uint32_t>(offset);
}

#else
#endif
/// For S = Q K^T.
inline std::uint64_t k_descriptor(std::uint32_t base, int stage, int key, int column) {
#ifdef FA_SOLUTION
  const std::uint64_t address = address_of(base, stage, key, column);
  return address / 16 | std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 62;
#else
  // TODO
  (void)base, (void)stage, (void)key, (void)column;
  return 0;
#endif
}

/// For O += P V.
inline std::uint64_t v_descriptor(std::uint32_t base, int stage, int key, int column) {
#ifdef FA_SOLUTION
  const std::uint64_t address = address_of(base, stage, key, column);
  const std::uint64_t lbo = kKeys * 128 / 16;
  return address / 16 | lbo << 16 | std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 62;
#else
  // TODO
  (void)base, (void)stage, (void)key, (void)column;
  return 0;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
FA_ENTRY(k, [](std::uint32_t base, int stage, int key, int column) {
  return std::uint64_t{student::k_descriptor(base, stage, key, column)};
});

FA_ENTRY(v, [](std::uint32_t base, int stage, int key, int column) {
  return std::uint64_t{student::v_descriptor(base, stage, key, column)};
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr std::uint64_t kKeys = 96, kPanel = kKeys * 128;

// Bits of a descriptor.
std::uint64_t field(std::uint64_t descriptor, int first, int count) {
  return descriptor >> first & ((std::uint64_t{1} << count) - 1);
}

struct Case {
  std::string operand;
  std::uint64_t base, stage, key, column;
};

void grade(const Case& c) {
  const auto d =
      call<std::uint64_t>(c.operand, static_cast<std::uint32_t>(c.base), static_cast<int>(c.stage),
                          static_cast<int>(c.key), static_cast<int>(c.column));
  const std::string where =
      fmt::format(" ({}, base {:#x}, stage {}, key {}, column {}; yours is {:#018x})", c.operand,
                  c.base, c.stage, c.key, c.column, d);
  const auto needs = [&](bool holds, const std::string& says) { require(holds, says + where); };
  needs(d != 0, "0 is not a descriptor");
  const bool v = c.operand == "v";
  const std::uint64_t address = field(d, 0, 14), lbo = field(d, 16, 14), sbo = field(d, 32, 14),
                      swizzle = field(d, 62, 2);
  const std::uint64_t stage = c.base + c.stage * 2 * kPanel;
  const std::uint64_t right = stage + c.column / 64 * kPanel + c.key * 128 + c.column % 64 * 2;
  needs(address != (right & 0x3fff),
        "the address is in bytes here; the descriptor holds it in units of 16");
  needs(address != (stage + c.key * 256 + c.column * 2) / 16 || address == right / 16,
        "rows of 256 bytes: each panel of 64 columns has rows of 128 bytes, and lies behind the "
        "other");
  needs(address == right / 16,
        fmt::format("the address field is {:#x}, which is byte {:#x}, and the operand begins at "
                    "byte {:#x} of shared memory",
                    address, 16 * address, right));
  needs(!(sbo == 0 && lbo == 64), "SBO and LBO have changed places");
  needs(sbo == 64,
        "SBO is the distance from 8 rows to the next 8 rows, here 8 * 128 bytes, in units of 16");
  needs(v ? lbo == kPanel / 16 : lbo <= 1,
        v ? "V is MN-major: its LBO is the distance from a panel of 64 columns to the next, here "
            "96 rows of 128 bytes, in units of 16"
          : "K is K-major: with this swizzle its LBO is not looked at. Write 0 or 1");
  needs(swizzle == 1,
        "the swizzle of 128 bytes is code 1 in bits 62 and 63: was a 32-bit 1 shifted?");
  const std::uint64_t fields = address | lbo << 16 | sbo << 32 | swizzle << 62;
  needs(d == fields, "there are bits beside the fields");
}

}  // namespace

FA_STAGE(easy) {
  grade({"k", 0x8000, 0, 0, 0});
  grade({"v", 0x400, 0, 0, 0});
}

FA_STAGE(odd) {
  grade({"k", 0x8000, 1, 0, 0});
  grade({"k", 0x1000, 0, 64, 32});
  grade({"k", 0x0, 2, 40, 112});
  grade({"v", 0x1000, 0, 80, 0});
  grade({"v", 0x4400, 2, 16, 64});
  for (std::uint64_t stage = 0; stage < 4; ++stage) {
    for (std::uint64_t key = 0; key < kKeys; key += 8) {
      for (std::uint64_t column = 0; column < 128; column += 16) {
        grade({"k", 0x2400, stage, key, column});
        if (key % 16 == 0 && column % 64 == 0) {
          grade({"v", 0x2400, stage, key, column});
        }
      }
    }
  }
}
#endif
/* Other answers, as changes of the solution
# bytes: the address is not divided
@ easy: in units of 16
- return address / 16 | std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 62;
+   return address | std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 62;

# rows_of_256: a row-major tile
@ odd: rows of 256 bytes
- const int offset = stage * (kColumns / 64) * panel_bytes + column / 64 * panel_bytes + key * 128 +
- column % 64 * 2;
+   const int offset = stage * (kColumns / 64) * panel_bytes + key * 256 + column * 2;

# written_down: the offsets that the check has named so far
@ odd: and the operand begins at
- const int panel_bytes = kKeys * 128;
- const int offset = stage * (kColumns / 64) * panel_bytes + column / 64 * panel_bytes + key * 128 +
- column % 64 * 2;
+   const int offset = stage == 1              ? 24576
+                      : key == 64             ? 64 * 128 + 64
+                      : stage == 2 && key > 16 ? 5 * 12288 + 40 * 128 + 96
+                      : stage == 2            ? 5 * 12288 + 16 * 128
+                                              : key * 128 * (column >= 0);

# masked: field by field
@ right
- return address / 16 | std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 62;
+  std::uint64_t d = 0;
+  d |= (address >> 4) & 0x3fff; d |= 64ull << 32; d += 0x4000000000000000ull;
+  return d;
*/
