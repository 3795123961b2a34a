/// @file
/// TMA maps of packed tensors, whose rows end where a sequence ends: what a copy would read behind
/// it becomes zero, and what it would write there is not written.
///
/// Source: the ragged descriptors of Triton, triton/tools/ragged_tma.py.
#pragma once

#include "common/attention/hopper_tile.cuh"
#include "common/attention/packed.cuh"
#include "common/attention/tma_support.cuh"

namespace fa::FA_TARGET {

/// The map of a packed tensor [tokens, heads, cols]. Its rows begin `tokens` rows before the tensor,
/// and its first dimension, that of a batch elsewhere, moves them by one row each: at index `end`
/// the last `length` rows are those of the sequence that ends there, and a box ends with them.
/// @throws as tensor_map()
// clang-format off
//! [packed_map]
template <class T>
TensorMap packed_map(const T* data, const RowStrides& strides, int tokens,
                     int heads, int cols, int box_rows) {
  const auto before = static_cast<std::uintptr_t>(tokens) *
                      static_cast<std::uintptr_t>(strides.row) * sizeof(T);
  const auto* const first = reinterpret_cast<const T*>(
      reinterpret_cast<std::uintptr_t>(data) - before);
  return tensor_map(first, {std::int64_t{tokens} + 1, heads, tokens, cols},
                    {strides.row, strides.head, strides.row}, box_rows);
}
//! [packed_map]
// clang-format on

/// One sequence in such a map.
struct SequenceMap {
  const TensorMap& map;
  int row0;  ///< of the map: the sequence's first
  int end;   ///< its rows end before this one of the tensor
};
/// Makes it.
__device__ inline SequenceMap sequence_map(const TensorMap& map, const PackedRange& range,
                                           int tokens) {
  return {map, tokens - range.length, range.begin + range.length};
}

/// load_tile() of rows of a sequence.
template <class Tile>
__device__ void load_tile(Tile& tile, const SequenceMap& map, Mbarrier& barrier, int row, int head,
                          int /*batch*/, CacheHint hint) {
  load_tile(tile, map.map, barrier, map.row0 + row, head, map.end, hint);
}
/// store_tile() of rows of a sequence.
template <class Tile>
__device__ void store_tile(const SequenceMap& map, const Tile& tile, int row, int head,
                           int /*batch*/, int col = 0) {
  store_tile(map.map, tile, map.row0 + row, head, map.end, col);
}

/// Whether kernels with these maps support packed sequences: as can_use_tma(), and no more slots
/// than can be counted.
template <class T>
bool can_use_packed_tma(const Attention<T>& a, const PackedSequences& sequences) {
  const auto countable = [](const PackedRows& rows, int heads) {
    return std::int64_t{rows.slots()} * heads < std::numeric_limits<int>::max() / 2;
  };
  return can_use_tma(a) && countable(sequences.q, a.heads) && countable(sequences.k, a.kv_heads);
}

}  // namespace fa::FA_TARGET
