/// @file
/// What launches of kernels with tiles of queries share: the grid, and the head dimension that a
/// kernel is compiled for.
#pragma once

#include <type_traits>

#include "common/attention/attention.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// Blocks that cover all queries of all heads, block_m queries each.
template <class T>
Size grid_of(const Attention<T>& a, int block_m) {
  return {static_cast<unsigned>(ceil_div(a.length_q, block_m)),
          static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)};
}

/// Calls work(std::integral_constant<int, d>) with the smallest d, of least, 2 least, 4 least ...
/// most, that is not less than head_dim.
/// @param head_dim at most `most`
template <int least, int most, class Work>
auto with_head_dim(std::int64_t head_dim, Work work) {
  if constexpr (least < most) {
    if (head_dim > least) {
      return with_head_dim<2 * least, most>(head_dim, work);
    }
  }
  return work(std::integral_constant<int, least>{});
}

}  // namespace fa::FA_TARGET
