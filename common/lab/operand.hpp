/// @file
/// Operands of tensor cores in shared memory, and a matmul: what wgmma and tcgen05.mma
/// share.
///
/// Source: NVIDIA, PTX ISA, sections on the matrix descriptors of wgmma and of tcgen05.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/lab/bulk_copy.hpp"
#include "common/lab/lab_thread.hpp"
#include "common/lab/wgmma.hpp"

namespace fa::lab {

inline constexpr int kDepth = 16;  ///< of a matmul, along K
inline constexpr int kRows = 16;   ///< of a matmul, computed together

/// An operand in shared memory as its descriptor says.
class Operand {
 public:
  static constexpr std::size_t kChunk = 16;  ///< bytes that a swizzle leaves together
  /// @param shared,shared_bytes dynamic shared memory of the block
  Operand(const std::byte* shared, std::size_t shared_bytes, std::uint64_t descriptor,
          WgmmaType type, bool mn_major, const SourceLocation& location)
      : shared_(shared),
        shared_bytes_(shared_bytes),
        size_(bytes_of(type)),
        address_((descriptor & 0x3fff) << 4),
        leading_((descriptor >> 16 & 0x3fff) << 4),
        stride_((descriptor >> 32 & 0x3fff) << 4),
        panel_bytes_(descriptor >> 62 == 0 ? kChunk : 256 >> (descriptor >> 62)),
        mn_major_(mn_major),
        location_(location) {
    // Without a swizzle a panel is as wide as a chunk: rows of K are `leading` apart, and of M and
    // N `stride`.
    if (descriptor >> 62 == 0 && mn_major) std::swap(leading_, stride_);
  }
  /// The 16 bytes with element (i, k), (i, k + 1) and so on; or, transposed, (i, k), (i + 1, k) and
  /// so on.
  const std::byte* chunk(std::size_t i, std::size_t k) const {
    const std::size_t cols = panel_bytes_ / size_;
    const std::size_t offset = mn_major_ ? address_ + i / cols * leading_ + k / 8 * stride_ +
                                               k % 8 * panel_bytes_ + size_ * (i % cols)
                                         : address_ + i / 8 * stride_ + i % 8 * panel_bytes_ +
                                               k / cols * leading_ + size_ * (k % cols);
    const std::size_t at = swizzled(offset, static_cast<int>(panel_bytes_));
    if (at + kChunk > shared_bytes_) {
      fail(location_,
           "a matmul reads byte {} of the dynamic shared memory, which has {}; the launch asks for "
           "too "
           "little, or a descriptor is wrong",
           at, shared_bytes_);
    }
    return shared_ + at;
  }
  /// Visits all chunks of rows first to first + count, with i and k of each.
  template <class Visit>
  void for_chunks(std::size_t first, std::size_t count, Visit visit) const {
    const std::size_t together = kChunk / size_, depth = 32 / size_;
    const std::size_t step_i = mn_major_ ? together : 1, step_k = mn_major_ ? 1 : together;
    for (std::size_t i = 0; i < count; i += step_i) {
      for (std::size_t k = 0; k < depth; k += step_k) {
        visit(chunk(first + i, k), i, k);
      }
    }
  }
  /// Its elements: element (first + i, k) at to[k * distance + i].
  template <class T>
  void fetch(std::size_t first, std::size_t count, float* to, std::size_t distance) const {
    for_chunks(first, count, [&](const std::byte* from, std::size_t i, std::size_t k) {
      float elements[kChunk / sizeof(T)];
      widen<T>(from, elements);
      float* at = to + k * distance + i;
      const std::size_t step = mn_major_ ? 1 : distance;
      for (const float element : elements) {
        *at = element;
        at += step;
      }
    });
  }

 private:
  const std::byte* shared_;
  std::size_t shared_bytes_;
  std::size_t size_;  // bytes of an element
  std::size_t address_, leading_, stride_, panel_bytes_;
  bool mn_major_;
  SourceLocation location_;
};

/// tile += A B, summed in the order of k, for 16 rows of A. cols is a multiple of `together`.
template <std::size_t together, std::size_t depth = kDepth>
void multiply(const float* a, const float* b, std::size_t cols, float* tile) {
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t first = 0; first < cols; first += together) {
      float sum[together];
      float* const at = tile + row * cols + first;
      std::memcpy(sum, at, sizeof sum);
      for (std::size_t k = 0; k < depth; ++k) {
        const float operand = a[k * kRows + row];
        const float* const of_b = b + k * cols + first;
        for (std::size_t i = 0; i < together; ++i) sum[i] += operand * of_b[i];
      }
      std::memcpy(at, sum, sizeof sum);
    }
  }
}

}  // namespace fa::lab
