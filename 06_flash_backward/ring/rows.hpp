/// @file
/// Lesson 06: the rows of a rank, taken from tensors of the whole sequence and put back.
#pragma once

#include "06_flash_backward/ring/layout.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::ring {

/// Calls visit(row as stored, position) for all positions.
template <class Visit>
void for_rows(const Ranges& ranges, Visit visit) {
  std::int64_t row = 0;
  for (const Range& range : ranges) {
    for (std::int64_t i = range.begin; i < range.end; ++i) visit(row++, i);
  }
}

/// Copies the rows of a rank from a whole tensor [batch, heads, length, columns].
template <class T>
void take_rows(View<const T, 4> whole, const Ranges& ranges, View<T, 4> own) {
  for_rows(ranges, [&](std::int64_t row, std::int64_t i) {
    copy(whole.narrow(2, i, i + 1), own.narrow(2, row, row + 1));
  });
}

/// Copies the rows of a rank into a whole tensor.
template <class T>
void put_rows(View<const T, 4> own, const Ranges& ranges, View<T, 4> whole) {
  for_rows(ranges, [&](std::int64_t row, std::int64_t i) {
    copy(own.narrow(2, row, row + 1), whole.narrow(2, i, i + 1));
  });
}

}  // namespace fa::ring
