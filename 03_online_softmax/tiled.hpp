/// @file
/// Attention by tiles on the CPU: the scores of a few queries against a few keys are computed, used and
/// forgotten, so that memory grows with the length and not with its square.
///
/// Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning, 2023,
/// algorithm 1. There a thread block works on a tile in on-chip memory; here a core does, in its cache.
#pragma once

#include <cstdint>
#include <functional>

#include "01_naive_attention/attention.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::online {

/// How large a tile is. Measured with head_dim 64, smaller tiles than the defaults were slower (they spend
/// their time on starting products), and larger ones were no faster.
struct Tiles {
  std::int64_t block_m = 64;   ///< queries in a tile, at least 1
  std::int64_t block_n = 128;  ///< keys in a tile, at least 1
};

/// The number of query tiles in a problem: batch * heads * ceil(length_q / block_m).
/// @throws std::invalid_argument for a tile size below 1
std::int64_t tile_count(const AttentionShape& shape, const Tiles& tiles);

/// What happens to a tile of scores, in this order.
enum class TileStage {
  kScored,  ///< S is computed; m, l and O are still those of the keys before
  kRescaled,  ///< S has become P, m and l include it, and O is multiplied by the corrections
  kAdded,     ///< P V is added to O
};

/// The work on one tile of scores, for onlookers. The views are good during the call only.
template <class T>
struct TileMoment {
  TileStage stage;     ///< what has just been done
  std::int64_t batch;  ///< of the tile
  std::int64_t head;   ///< the query head
  std::int64_t query;  ///< the first query
  std::int64_t key;    ///< the first key
  View<const T, 2>
      s;  ///< [queries, keys], S; from rescaled on P, 0 for hidden keys
  View<const T, 1>
      m;  ///< [queries], running maxima; -infinity before the first key
  View<const T, 1> l;  ///< [queries], running sums of exp(S - m)
  View<const T, 2> o;  ///< [queries, head_dim], not yet divided by l
};

/// Is called at each stage of each tile.
template <class T>
using TileWatch = std::function<void(const TileMoment<T>&)>;

/// Attention with the answers, the options and the refusals of naive::forward(), by tiles and threaded
/// over tiles of queries. The result does not depend on the number of threads.
/// Source: Dao, FlashAttention-2, ICLR 2024, algorithm 1.
///
/// Beyond its result it holds, per thread, five tiles and two vectors: for tiles of a fixed size that is
/// O(length) memory in total, where lesson 01 has O(length_q * length_k).
/// @param q [batch, heads, length_q, head_dim], any strides
/// @param k [batch, kv_heads, length_k, head_dim], any strides
/// @param v [batch, kv_heads, length_k, head_dim], any strides
/// @param options scale, mask and dropout
/// @param tiles sizes of the tiles; larger ones than the problem are cut to it
/// @param tile_done called after each of the tile_count() query tiles, from several threads at once; what
///   it throws ends the work and is thrown again here
/// @param watch called at each stage of each tile of scores that is computed, likewise
/// @throws std::invalid_argument as naive::forward(), and for a tile size below 1
template <class T>
naive::Forward<T> tiled_forward(View<const T, 4> q, View<const T, 4> k,
                                View<const T, 4> v,
                                const AttentionOptions& options = {},
                                const Tiles& tiles = {},
                                const std::function<void()>& tile_done = {},
                                const TileWatch<T>& watch = {});

}  // namespace fa::online
