/// @file
/// Whether two tensors share memory, from their addresses, sizes and strides.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fa::attention {

/// Rows of bytes without gaps, at the address plus an index times the stride of each dimension. The
/// last byte lies less than 2^63 bytes behind the address, and has an address.
struct MemoryRegion {
  /// One of up to three.
  struct Dimension {
    std::uint64_t stride;  ///< in bytes
    std::uint64_t count;   ///< at least 1; the stride of a dimension of 1 may be anything
  };
  const char* name;
  std::uintptr_t address;
  std::uint64_t row_bytes;
  std::array<Dimension, 3> dimensions{{{0, 1}, {0, 1}, {0, 1}}};

  /// From the address to the first row that lies furthest from it.
  std::uint64_t last_row() const {
    std::uint64_t bytes = 0;
    for (const Dimension& of : dimensions) {
      if (of.count > 1) bytes += of.stride * (of.count - 1);
    }
    return bytes;
  }
};

/// Searches for a sum of strides, each taken 0 to `steps` times, in an interval.
class StrideSum {
 public:
  /// No strides.
  StrideSum() = default;
  /// Adds the strides of a region.
  void add(const MemoryRegion& region) {
    for (const MemoryRegion::Dimension& of : region.dimensions) {
      if (of.count > 1 && of.stride > 0) terms_.push_back({of.stride, of.count - 1, 0, 0});
    }
  }
  /// Whether a sum lies in [low, high].
  /// @param width of the interval before it was cut at 0
  bool reaches(std::uint64_t low, std::uint64_t high, std::uint64_t width) {
    std::sort(terms_.begin(), terms_.end(),
              [](const Term& x, const Term& y) { return x.stride < y.stride; });
    std::uint64_t most = 0, gap = 0;
    for (Term& term : terms_) {
      term.smaller = most;
      term.gap = gap;
      if (term.stride > most) gap = std::max(gap, term.stride - most);
      most += term.stride * term.steps;
    }
    terms_.push_back({0, 0, most, gap});
    width_ = width;
    return search(terms_.size() - 1, low, high);
  }

 private:
  // A stride; and of the sums of the smaller ones, the largest, and how far neighbours are apart at
  // most.
  struct Term {
    std::uint64_t stride, steps, smaller, gap;
  };
  // With the first `count` terms.
  bool search(std::size_t count, std::uint64_t low, std::uint64_t high) {
    const std::uint64_t most = terms_[count].smaller;
    if (low > most || searched_ == kMaxSearched) return false;
    // An interval that reaches beyond an end has that end, which is a sum.
    if (low == 0 || high >= most || terms_[count].gap <= width_) return true;
    ++searched_;
    const auto& [stride, steps, smaller, gap] = terms_[count - 1];
    const std::uint64_t first = low > smaller ? (low - smaller + stride - 1) / stride : 0;
    const std::uint64_t last = std::min(steps, high / stride);
    for (std::uint64_t i = first; i <= last; ++i) {
      const std::uint64_t taken = i * stride;
      if (search(count - 1, low > taken ? low - taken : 0, high - taken)) return true;
    }
    return false;
  }

  // Layouts of programs need a few dozen steps. Strides that let rows overlap could need any number.
  static constexpr int kMaxSearched = 100000;
  std::vector<Term> terms_;  // after reaches() with one more, for all of them
  std::uint64_t width_ = 0;
  int searched_ = 0;
};

/// Whether two regions share a byte. Rows that interleave do not, such as those of Q, K and V in
/// one tensor.
/// @return false, too, where rows of one region overlap each other so that the search would not end
inline bool overlap(const MemoryRegion& x, const MemoryRegion& y) {
  if (x.address > y.address) return overlap(y, x);
  if (x.row_bytes == 0 || y.row_bytes == 0) return false;
  const std::uint64_t between = y.address - x.address;
  if (between >= x.last_row() + x.row_bytes) return false;
  // A row of x begins at a sum of strides, and one of y at `between` plus a sum. Counted from the
  // last row of y backwards, both are on one side, and only the rows' lengths on the other.
  StrideSum sum;
  sum.add(x);
  sum.add(y);
  const std::uint64_t apart = between + y.last_row();
  return sum.reaches(apart < x.row_bytes ? 0 : apart - (x.row_bytes - 1), apart + (y.row_bytes - 1),
                     x.row_bytes + y.row_bytes - 1);
}

}  // namespace fa::attention
