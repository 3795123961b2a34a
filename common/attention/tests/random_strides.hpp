/// @file
/// Random strides for tests of C interfaces, and a reference that says which are allowed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/tensor/random.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::attention {

/// A tensor as an interface gets it, and a reference that says whether it may accept it.
struct StrideProblem {
  struct Strides {
    std::int64_t batch, head, row;
  };
  Shape<4> shape;
  std::int64_t element_bytes;
  std::uintptr_t address;
  Strides strides;
  bool nested;  // each used stride is at least what the smaller ones span

  // Whether kernels can use it: row by row, in 128 bits.
  bool usable(bool written) const {
    __extension__ typedef __int128 Wide;
    const Wide most_offset = std::numeric_limits<std::int64_t>::max(),
               most_address = std::numeric_limits<std::uintptr_t>::max();
    std::vector<Wide> rows;
    for_each_index(Shape<3>{shape[0], shape[1], shape[2]}, [&](const Shape<3>& at) {
      rows.push_back(Wide{at[0]} * strides.batch + Wide{at[1]} * strides.head +
                     Wide{at[2]} * strides.row);
    });
    for (const Wide row : rows) {
      const Wide end = (row + shape[3]) * element_bytes;
      if (row < 0 || row * element_bytes % 16 != 0 || end > most_offset ||
          end > most_address - address) {
        return false;
      }
    }
    std::sort(rows.begin(), rows.end());
    for (std::size_t i = 1; written && i < rows.size(); ++i) {
      if (rows[i] - rows[i - 1] < shape[3]) return false;
    }
    return true;
  }
};

/// Strides as programs have them, in any order of dimensions and with gaps, and strides as only a
// mistake makes them: that overlap, that are as large as they can be and larger, and that wrap
// around.
inline StrideProblem random_strides(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t drawn = number << 8;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random_bits(seed, drawn++) % static_cast<std::uint64_t>(n));
  };
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  StrideProblem s{};
  s.shape = {1 + below(4), 1 + below(4), 1 + below(4), 8 + 8 * below(3)};
  s.element_bytes = 2 + 2 * below(2);
  s.address = below(2) == 0 ? 4096 : ~std::uintptr_t{0xffff};
  const std::int64_t multiple = 16 / s.element_bytes;
  std::int64_t* const of[] = {&s.strides.batch, &s.strides.head, &s.strides.row};
  s.nested = below(2) == 0;
  if (s.nested) {
    std::size_t order[] = {0, 1, 2};
    std::swap(order[0], order[below(3)]);
    std::swap(order[1], order[1 + below(2)]);
    std::int64_t span = s.shape[3];
    for (const std::size_t dimension : order) {
      *of[dimension] = span + (below(2) == 0 ? 0 : multiple * below(9));
      *of[dimension] += (multiple - *of[dimension] % multiple) % multiple;
      if (s.shape[dimension] == 1) {
        *of[dimension] = below(2) == 0 ? -1 : most;  // is not used
      } else {
        span += *of[dimension] * (s.shape[dimension] - 1);
      }
    }
    return s;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t steps = std::max<std::int64_t>(1, s.shape[i] - 1);
    switch (below(8)) {
      case 0:
        *of[i] = std::int64_t{1} << below(63);
        break;
      case 1:  // near the last that fits, if it is alone
        *of[i] = (most / s.element_bytes - s.shape[3]) / steps;
        *of[i] += multiple * (below(5) - 2) - *of[i] % multiple;
        break;
      case 2:
        *of[i] = most - 15 - 16 * below(4);
        break;
      case 3:
        *of[i] = below(5) - 2;
        break;
      default:
        *of[i] = multiple * below(16);
    }
  }
  return s;
}

}  // namespace fa::attention
