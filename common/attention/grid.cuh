/// @file
/// How many blocks the kernels with tiles of queries are launched in.
#pragma once

#include "common/attention/attention.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// Blocks that cover all queries of all heads, block_m queries each.
template <class T>
Size grid_of(const Attention<T>& a, int block_m) {
  return {static_cast<unsigned>(ceil_div(a.length_q, block_m)),
          static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)};
}

}  // namespace fa::FA_TARGET
