/// @file
/// wgmma: matmuls that a warp issues, and that run until their group is waited for.
///
/// One reads its operands at the latest moment that a GPU allows: when its group is waited for.
/// Source: NVIDIA, PTX ISA, section on wgmma.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <type_traits>
#include <vector>

#include "common/gpu/device.hpp"
#include "common/lab/thread.hpp"
#include "common/tensor/dtype.hpp"

namespace fa::lab {

/// What one lane brings to a wgmma of its warp.
struct WgmmaLane {
  float* sums = nullptr;             ///< its accumulators
  const std::uint32_t* a = nullptr;  ///< its part of A; null: A is in shared memory
};

/// The type of the elements of wgmma's operands.
enum class WgmmaType { kHalf, kBFloat16, kE4m3, kE5m2, kTf32 };

/// A float32 of which tensor cores read the upper 19 bits.
struct Tf32 {
  std::uint32_t bits;  ///< all of it
};
/// Calls a function with an element of a type.
template <class Function>
auto with_type(WgmmaType type, Function function) {
  switch (type) {
    case WgmmaType::kHalf:
      return function(half{});
    case WgmmaType::kBFloat16:
      return function(bfloat16{});
    case WgmmaType::kE4m3:
      return function(e4m3{});
    case WgmmaType::kE5m2:
      return function(e5m2{});
    default:
      return function(Tf32{});
  }
}
/// Bytes of an element.
inline std::size_t bytes_of(WgmmaType type) {
  return with_type(type, [](auto element) { return sizeof element; });
}

/// The matmul of a 64 x k and a k x n matrix, of which a warp computes 16 rows; a row of an operand
/// has 32 bytes.
struct WgmmaShape {
  int sums = 0;                           ///< registers of a lane for its accumulators
  WgmmaType type = WgmmaType::kBFloat16;  ///< of the operands
  bool mn_major_a = false;                ///< neighbours in memory are of one column of A
  bool mn_major_b = false;                ///< neighbours in memory are of one row of B
  bool adds = false;                      ///< to the accumulators; else to 0
  bool negates = false;                   ///< the products
  std::uint64_t a = 0;                    ///< descriptor, where A is in shared memory
  std::uint64_t b = 0;                    ///< descriptor
  WgmmaType type_b = type;                ///< where B has another one
  bool half_sums = false;                 ///< two float16 in a register, else a float32
  /// n
  std::size_t cols() const { return static_cast<std::size_t>(half_sums ? 4 * sums : 2 * sums); }
};

/// The wgmma operations that a warp has in flight.
class WgmmaQueue {
 public:
  /// What is fixed while a block runs.
  struct Setting {
    const std::byte* shared = nullptr;  ///< dynamic, what descriptors count from
    std::size_t shared_bytes = 0;       ///< of it
    int first_row = 0;                  ///< of the 64 that are this warp's
    int first_thread = 0;               ///< the number of lane 0
  };
  /// Issues one: its accumulators are NaN from now on.
  /// @throws std::runtime_error for an operand that is not in dynamic shared memory
  void begin(const Setting& setting, const WgmmaShape& shape,
             const std::array<WgmmaLane, kWarpSize>& lanes, const SourceLocation& location);
  /// Commits the group of those issued since the last commit.
  void commit();
  /// Computes all groups but the `pending` youngest, and writes their accumulators.
  void wait(const Setting& setting, std::size_t pending);
  /// Forgets all.
  void clear();
  /// The oldest one that is in no group; null: none.
  const SourceLocation* uncommitted() const;
  /// The oldest one in a group that was not waited for; null: none.
  const SourceLocation* unfinished() const;
  /// Groups that have ended so far.
  std::uint32_t ended() const { return ended_; }

 private:
  // Accumulators of a warp: 16 rows.
  struct Sums {
    std::array<float*, kWarpSize> lanes;
    std::vector<float> tile;
    std::size_t cols;
    bool half;
    int in_flight = 0;    // operations that add to them
    SourceLocation last;  // of these
  };
  struct Wgmma {
    WgmmaShape shape;
    std::array<const std::uint32_t*, kWarpSize> a;
    Sums* sums;
    SourceLocation location;
    std::vector<std::uint32_t> a_before;  // with an observer
  };
  void compute(const Setting& setting, const Wgmma& wgmma) const;
  void note_uses(const Setting& setting, const Wgmma& wgmma) const;
  static void check(const Sums& sums);
  static void check(const Wgmma& wgmma);

  std::vector<Wgmma> open_;
  std::deque<std::vector<Wgmma>> groups_;
  std::list<Sums> sums_;
  std::uint32_t committed_ = 0, ended_ = 0;
};

/// Converts n numbers of type T, half or bfloat16, of which the compiler computes several at once.
template <class T, std::size_t n>
void widen_16_bits(const void* from, float (&to)[n]) {
  std::uint16_t numbers[n];
  std::memcpy(numbers, from, sizeof numbers);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t x = numbers[i];
    std::uint32_t bits = x << 16;
    if constexpr (std::is_same_v<T, half>) {
      // Moved to its place in a float32, the exponent is too small by the difference of the biases.
      const std::uint32_t moved = (x & 0x7fff) << 13;
      float value;
      std::memcpy(&value, &moved, sizeof value);
      value *= 0x1p112f;
      std::memcpy(&bits, &value, sizeof bits);
      bits |= (x & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;  // infinity and NaN
      bits |= (x & 0x8000) << 16;
    }
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

/// For operands of tensor cores: converts n numbers of type T.
template <class T, std::size_t n>
void widen(const void* from, float (&to)[n]) {
  if constexpr (std::is_same_v<T, Tf32>) {
    std::uint32_t bits[n];
    std::memcpy(bits, from, sizeof bits);
    for (std::uint32_t& each : bits) each &= ~0x1fffu;
    std::memcpy(to, bits, sizeof bits);
  } else if constexpr (sizeof(T) == 1) {
    static const auto values = [] {
      std::array<float, 256> all;
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<float>(T::from_code(static_cast<std::uint8_t>(i)));
      }
      return all;
    }();
    std::uint8_t codes[n];
    std::memcpy(codes, from, sizeof codes);
    for (std::size_t i = 0; i < n; ++i) to[i] = values[codes[i]];
  } else {
    widen_16_bits<T>(from, to);
  }
}

}  // namespace fa::lab
