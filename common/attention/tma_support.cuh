/// @file
/// Which problems the Hopper kernels of lessons 05 and 06 support, and with which head dimension.
#pragma once

#include <limits>

#include "common/attention/hopper_tile.cuh"

namespace fa::FA_TARGET {

/// Whether the Hopper kernels support a problem: 16-bit elements, no dropout, positive strides that
/// TMA supports, and no more tiles than the tile counter can count.
template <class T>
bool can_use_tma(const Attention<T>& a) {
  const auto fits = [&](const RowStrides& strides, int heads, int rows) {
    const auto supported = [](int count, std::int64_t stride) {
      return count == 1 || (stride > 0 && is_tensor_map_stride(stride));
    };
    return supported(a.batch, strides.batch) && supported(heads, strides.head) &&
           supported(rows, strides.row);
  };
  const std::int64_t tiles =
      std::int64_t{a.batch} * a.heads * ceil_div<std::int64_t>(a.length_q, kQueries);
  return sizeof(T) == 2 && a.dropout.threshold == 0 && fits(a.q_strides, a.heads, a.length_q) &&
         fits(a.o_strides, a.heads, a.length_q) && fits(a.k_strides, a.kv_heads, a.length_k) &&
         fits(a.v_strides, a.kv_heads, a.length_k) && tiles < std::numeric_limits<int>::max() / 2;
}

}  // namespace fa::FA_TARGET
