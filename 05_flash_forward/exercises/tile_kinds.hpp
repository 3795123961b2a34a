/// @file
/// A mask as graders ask a student's functor for it.
#pragma once

#include <algorithm>
#include <vector>

#include "common/attention/score_functors.cuh"

namespace fa::classroom {

/// Where tiles and queries lie, and the size of a tile.
struct Mask {
  int reach;               ///< of the mask, in keys
  int length_q, length_k;  ///< of the matrix of scores
  int block_m, block_n;    ///< queries and keys of a tile
};

/// Whether each query sees each key, row by row.
template <class Functor>
std::vector<int> visible_pairs(const Mask& m, const Functor& functor) {
  std::vector<int> result;
  for (int query = 0; query < m.length_q; ++query) {
    for (int key = 0; key < m.length_k; ++key) result.push_back(functor.visible(0, 0, query, key));
  }
  return result;
}

/// The kind of each tile, row by row: 0 skipped, 1 partial, 2 whole.
template <class Functor>
std::vector<int> tile_kinds(const Mask& m, const Functor& functor) {
  std::vector<int> result;
  for (int query0 = 0; query0 < m.length_q; query0 += m.block_m) {
    for (int key0 = 0; key0 < m.length_k; key0 += m.block_n) {
      result.push_back(static_cast<int>(
          functor.tile_kind({0, 0, query0, std::min(query0 + m.block_m, m.length_q) - 1, key0,
                             std::min(key0 + m.block_n, m.length_k) - 1})));
    }
  }
  return result;
}

}  // namespace fa::classroom
