/// @file
/// TMA maps of packed tensors, whose rows end where a sequence ends: what a copy would read behind
/// it becomes zero, and what it would write there is not written.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "common/attention/hopper_tile.cuh"
#include "common/attention/packed.cuh"
#include "common/attention/tma_support.cuh"

namespace fa::FA_TARGET {

/// One sequence in a map of packed ones.
struct SequenceMap {
  const RaggedMap& map;
  int row0;  ///< of the map: the sequence's first
  int end;   ///< its rows end before this one of the tensor
};
/// Makes it.
__device__ inline SequenceMap sequence_map(const RaggedMap& map, const PackedRange& range) {
  return {map, kRaggedRows - range.length, range.begin + range.length};
}

/// load_tile() of rows of a sequence.
template <class Tile>
__device__ void load_tile(Tile& tile, const SequenceMap& map, Mbarrier& barrier, int row, int head,
                          int /*batch*/, CacheHint hint) {
#pragma unroll
  for (int panel = 0; panel < Tile::panels; ++panel) {
    tma_load(tile.data + panel * Tile::panel_size, map.map, barrier, panel * Tile::panel_cols,
             map.row0 + row, head, map.end, hint);
  }
}
/// store_tile() of rows of a sequence.
template <class Tile>
__device__ void store_tile(const SequenceMap& map, const Tile& tile, int row, int head,
                           int /*batch*/, int col = 0) {
#pragma unroll
  for (int panel = 0; panel < Tile::panels; ++panel) {
    tma_store(map.map, tile.data + panel * Tile::panel_size, col + panel * Tile::panel_cols,
              map.row0 + row, head, map.end);
  }
}

/// Whether the maps support the distances between tokens.
inline bool has_ragged_strides(int tokens, std::initializer_list<RowStrides> strides) {
  return tokens == 1 || std::all_of(strides.begin(), strides.end(),
                                    [](const RowStrides& of) { return of.row < kRaggedWrap; });
}
/// Whether kernels with these maps support packed sequences: as can_use_tma(), with distances
/// between tokens that the maps support, and no more slots than can be counted.
template <class T>
bool can_use_packed_tma(const Attention<T>& a, const PackedSequences& sequences) {
  const auto countable = [](const PackedRows& rows, int heads) {
    return std::int64_t{rows.slots()} * heads < std::numeric_limits<int>::max() / 2;
  };
  return can_use_tma(a) && has_ragged_strides(a.length_q, {a.q_strides, a.o_strides}) &&
         has_ragged_strides(a.length_k, {a.k_strides, a.v_strides}) &&
         countable(sequences.q, a.heads) && countable(sequences.k, a.kv_heads);
}

}  // namespace fa::FA_TARGET
