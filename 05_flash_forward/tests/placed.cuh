/// @file
/// What the tests of C interfaces share: tensors in memory of the device, in any layout, problems
/// as the interface is told them, and which problems those are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/tests/problems.hpp"
#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/tensor/random.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each test program includes this

// Distances in [batch, heads, length, head_dim]; rows are `pitch` elements apart.
inline fa_strides strides_of(const Shape<4>& shape, flash::Layout layout,
                             std::int64_t pitch) {
  const std::int64_t all = shape[1] * shape[2] * pitch;
  return layout == flash::Layout::kHeadsFirst
             ? fa_strides{all, shape[2] * pitch, pitch}
             : fa_strides{all, pitch, shape[1] * pitch};
}

// A tensor in memory of the device, in any layout.
template <class H>
struct Placed {
  Placed(const Shape<4>& of, flash::Layout layout, std::int64_t row_pitch)
      : shape(of),
        pitch(row_pitch),
        strides(strides_of(of, layout, pitch)),
        host({of[0] * of[1] * of[2] * pitch}),
        device(host.count()) {
    // What lies between rows is NaN, of inputs as well.
    std::memset(static_cast<void*>(host.data()), 0xff,
                sizeof(H) * static_cast<std::size_t>(host.count()));
  }
  std::int64_t at(const Shape<4>& index) const {
    return index[0] * strides.batch + index[1] * strides.head +
           index[2] * strides.row + index[3];
  }
  void write(const Tensor<float, 4>& values) {
    for_each_index(shape, [&](const Shape<4>& index) {
      host(at(index)) = static_cast<H>(values.view()[index]);
    });
    device.upload(host.data());
  }
  Tensor<float, 4> read() {
    device.download(host.data());
    Tensor<float, 4> result(shape);
    for_each_index(shape, [&](const Shape<4>& index) {
      result.view()[index] = static_cast<float>(host(at(index)));
    });
    return result;
  }
  // Whether the elements between rows, in what read() has got, are as they were: all bytes 0xff.
  // Only bytes are looked at, because arithmetic may change a NaN.
  bool gaps_are_poison() const {
    for (std::int64_t i = 0; i < host.count(); ++i) {
      std::uint16_t half_word = 0;
      std::memcpy(&half_word, host.data() + i, sizeof half_word);
      if (i % pitch >= shape[3] && half_word != 0xffff) return false;
    }
    return true;
  }
  // Tells an interface where it lies.
  template <class Pointer>
  void give(Pointer& pointer, fa_strides& to) {
    pointer = device.data();
    to = strides;
  }
  Shape<4> shape;
  std::int64_t pitch;
  fa_strides strides;
  Tensor<H, 1> host;
  DeviceBuffer<H> device;
};

// Sizes, type and options of a problem: all but pointers, strides and the stream.
inline fa_attention attention_of(const flash::Problem& problem) {
  const AttentionShape& s = problem.shape;
  fa_attention a{};
  a.size = sizeof a;
  a.batch = s.batch;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads;
  a.length_q = s.length_q;
  a.length_k = s.length_k;
  a.head_dim = s.head_dim;
  a.head_dim_v = problem.head_dim_v.value_or(s.head_dim);
  a.type = problem.type == flash::Type::kFloat32   ? FA_TYPE_FLOAT32
           : problem.type == flash::Type::kFloat16 ? FA_TYPE_FLOAT16
                                                   : FA_TYPE_BFLOAT16;
  a.causal = problem.causal ? 1 : 0;
  a.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  a.dropout = problem.dropout;
  a.seed = problem.seed;
  return a;
}

// Problems for check(problem, gap), where `gap` elements lie between rows: all types in both
// layouts, with groups of heads, causal or not.
template <class Check>
void check_layouts(Check check) {
  for (const flash::Type type : flash::kTypes) {
    for (const flash::Layout layout :
         {flash::Layout::kHeadsFirst, flash::Layout::kLengthFirst}) {
      for (const bool causal : {false, true}) {
        flash::Problem problem =
            flash::problem_of(type, {2, 4, 2, 70, 75, 40}, causal);
        problem.layout = layout;
        check(problem, 0);
      }
    }
  }
}
// Problems with gaps between rows.
template <class Check>
void check_gaps(Check check) {
  for (const flash::Type type : flash::kTypes) {
    flash::Problem problem =
        flash::problem_of(type, {2, 2, 1, 33, 40, 24}, true);
    check(problem, 8);
    problem.layout = flash::Layout::kLengthFirst;
    check(problem, 16);
  }
}
// Problems with 192 columns of q and k and 128 of v and o: odd lengths, groups of heads, with and
// without dropout, in both layouts; with gaps between rows, too.
template <class Check>
void check_head_dim_v(Check check) {
#if defined(__CUDACC__)
  const AttentionShape shape{2, 4, 2, 67, 133, 192};
#else
  const AttentionShape shape{1, 2, 1, 9, 19, 192};
#endif
  for (const flash::Type type : flash::kTypes) {
    for (const bool causal : {false, true}) {
      flash::Problem problem = flash::problem_of(type, shape, causal);
      problem.head_dim_v = 128;
      check(problem, 0);
      problem.layout = flash::Layout::kLengthFirst;
      check(problem, 8);
      problem.dropout = 0.17;
      problem.seed = 7;
      check(problem, 0);
    }
  }
}
// Problems with dropout.
template <class Check>
void check_dropout(Check check) {
  for (const flash::Type type : flash::kTypes) {
    flash::Problem problem =
        flash::problem_of(type, {2, 2, 1, 40, 70, 64}, true);
    problem.dropout = 0.17;
    problem.seed = 0x123456789abcdef;
    check(problem, 0);
  }
}

// What interfaces are told of a tensor, and a reference that says whether they may take it.
struct StrideProblem {
  Shape<4> shape;
  std::int64_t element_bytes;
  std::uintptr_t address;
  fa_strides strides;
  bool nested;  // each used stride is at least what the smaller ones span

  // Whether kernels can use it: row by row, in 128 bits.
  bool usable(bool written) const {
    __extension__ typedef __int128 Wide;
    const Wide most_offset = std::numeric_limits<std::int64_t>::max(),
               most_address = std::numeric_limits<std::uintptr_t>::max();
    std::vector<Wide> rows;
    for_each_index(Shape<3>{shape[0], shape[1], shape[2]},
                   [&](const Shape<3>& at) {
                     rows.push_back(Wide{at[0]} * strides.batch +
                                    Wide{at[1]} * strides.head +
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

// Strides as programs have them, in any order of dimensions and with gaps, and strides as only a
// mistake makes them: that overlap, that are as large as they can be and larger, and that wrap
// around.
inline StrideProblem random_strides(std::uint64_t seed,
                                    std::uint64_t number) {
  std::uint64_t drawn = number << 8;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random_bits(seed, drawn++) %
                                     static_cast<std::uint64_t>(n));
  };
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  StrideProblem s{};
  s.shape = {1 + below(4), 1 + below(4), 1 + below(4), 8 + 8 * below(3)};
  s.element_bytes = 2 + 2 * below(2);
  s.address = below(2) == 0 ? 4096 : ~std::uintptr_t{0xffff};
  const std::int64_t multiple = 16 / s.element_bytes;
  std::int64_t* const of[] = {&s.strides.batch, &s.strides.head,
                              &s.strides.row};
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

}  // namespace
}  // namespace fa::FA_TARGET
