/// @file
/// Tiled attention on the CPU: only a tile of scores exists at a time, so memory grows linearly
/// with the length.
///
/// Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning,
/// 2023, algorithm 1. There a thread block holds a tile in on-chip memory; here a core holds it in
/// its cache.
#pragma once

#include <cstdint>
#include <functional>

#include "01_naive_attention/attention.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::online {

/// The size of a tile. With head_dim 64, smaller tiles than the defaults were slower (the overhead
/// of each matmul dominates), and larger ones were not faster.
struct Tiles {
  std::int64_t block_m = 64;   ///< queries per tile, at least 1
  std::int64_t block_n = 128;  ///< keys per tile, at least 1
};

/// The number of query tiles in a problem: batch * heads * ceil(length_q / block_m).
/// @throws std::invalid_argument for a tile size below 1
std::int64_t tile_count(const AttentionShape& shape, const Tiles& tiles);

/// The stages of a tile of scores, in order.
enum class TileStage {
  kScored,    ///< S is computed; m, l and O do not include it yet
  kRescaled,  ///< S is replaced by P, m and l include it, and O is rescaled
  kAdded,     ///< P V is added to O
};

/// The state of one tile of scores, for observers. The views are valid during the call only.
template <class T>
struct TileMoment {
  /// @{ The stage that has just ended, the head, and the first query and key of the tile.
  TileStage stage;
  std::int64_t batch, head, query, key;
  /// @}
  /// [queries, keys]: S, or P after kRescaled, 0 for masked keys.
  View<const T, 2> s;
  /// @{ [queries]: running maxima, -infinity before the first key, and running sums of exp(S - m).
  View<const T, 1> m, l;
  /// @}
  /// [queries, head_dim], not divided by l.
  View<const T, 2> o;
};

/// An observer, called at each stage of each tile.
template <class T>
using TileWatch = std::function<void(const TileMoment<T>&)>;

/// Tiled attention with the options and errors of naive::forward(), threaded over tiles of queries.
/// The result does not depend on the number of threads.
/// Source: Dao, FlashAttention-2, ICLR 2024, algorithm 1.
///
/// In addition to its result it needs five tiles and two vectors per thread. With tiles of a fixed
/// size that is O(length) memory, where lesson 01 needs O(length_q * length_k).
/// @param q [batch, heads, length_q, head_dim], any strides
/// @param k [batch, kv_heads, length_k, head_dim], any strides
/// @param v [batch, kv_heads, length_k, head_dim], any strides
/// @param tiles sizes of the tiles; limited to the size of the problem
/// @param tile_done called after each of the tile_count() query tiles, from several threads at
///   once; an exception ends the work and is rethrown here
/// @param watch likewise, called at each stage of each tile of scores that is computed
/// @throws std::invalid_argument as naive::forward(), and for a tile size below 1
template <class T>
naive::Forward<T> tiled_forward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                                const AttentionOptions& options = {}, const Tiles& tiles = {},
                                const std::function<void()>& tile_done = {},
                                const TileWatch<T>& watch = {});

}  // namespace fa::online
