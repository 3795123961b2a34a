/// @file
/// The tiles of scores that a functor does not skip: the loop over them, and a map of their kinds
/// for masks that have no rule.
#pragma once

#include "common/attention/attention.cuh"
#include "common/attention/score_functors.cuh"

namespace fa::FA_TARGET {

/// The kind of a tile of block_m queries and block_n keys, some of which may not exist.
/// @param query0 its first query, which exists
/// @param key0   its first key, which exists
template <int block_m, int block_n, class T, class Functor>
__host__ __device__ TileKind tile_kind(const Attention<T>& a, const Functor& functor, int batch,
                                       int head, int query0, int key0) {
  const int query1 = query0 + block_m - 1, key1 = key0 + block_n - 1;
  const bool ragged = key1 >= a.length_k;
  const TileKind kind =
      functor.tile_kind({batch, head, query0, query1 < a.length_q ? query1 : a.length_q - 1, key0,
                         ragged ? a.length_k - 1 : key1});
  return ragged && kind == TileKind::kWhole ? TileKind::kPartial : kind;
}

/// A tile of a row or column of tiles, and whether it needs no mask.
struct VisibleTile {
  int index;
  bool whole;
};

/// The first tile from `begin` on that is not skipped; its index is `count` where there is none. A
/// warp asks for the kinds of 32 tiles at once, one for each lane. All lanes call it.
/// @param count   of the tiles in the row or column
/// @param kind_of a tile's kind: kind_of(index)
template <class KindOf>
__device__ VisibleTile next_visible(int begin, int count, KindOf kind_of) {
  for (; begin < count; begin += kWarp) {
    const int index = begin + static_cast<int>(threadIdx.x) % kWarp;
    const TileKind kind = index < count ? kind_of(index) : TileKind::kSkipped;
    const bool is_visible = kind != TileKind::kSkipped;
    const unsigned visible = __ballot_sync(kAllLanes, is_visible);
    const unsigned whole = __ballot_sync(kAllLanes, kind == TileKind::kWhole);
    if (visible != 0) {
      const int lane = __ffs(static_cast<int>(visible)) - 1;
      return {begin + lane, (whole >> lane & 1) != 0};
    }
  }
  return {count, false};
}

/// The tiles of keys that a tile of queries sees, or the tiles of queries that see a tile of keys.
struct VisibleTiles {
  int begin, end;
  int whole_begin, whole_end;  ///< those that need no mask
};
/// Those of a mask that shows ranges.
/// @param first  range of the first query or key of the tile, and last that of its last one
/// @param length of all keys or queries in the ranges
/// @param block  of them in a tile
__device__ inline VisibleTiles visible_tiles(const IndexRange& first, const IndexRange& last,
                                             int length, int block) {
  const int begin = larger(first.begin, 0) / block;
  const int end = ceil_div(larger(smaller(last.end, length), 0), block);
  return {begin, larger(begin, end), ceil_div(larger(last.begin, 0), block),
          smaller(first.end, length) / block};
}

/// The scores of a tile that a lane has: see LaneScores.
/// @param query the lane's first, and key its first key
template <class T, class Functor>
__device__ auto lane_scores(const Attention<T>& a, const Functor& functor, int batch, int head,
                            int query, int key) {
  if constexpr (Functor::folds_constants) {
    return functor.lane(a.scale, batch, head, query, key, a.length_q - 1, a.length_k - 1);
  } else {
    return LaneScores<Functor>{functor, a.scale, batch,          head,
                               query,   key,     a.length_q - 1, a.length_k - 1};
  }
}

/// The kinds of all tiles of a problem, [batch, heads, tiles of queries, tiles of keys].
struct TileMap {
  TileKind* kinds;
  int heads;  ///< 1 for a mask that is the same for all
  int block_m, block_n;
  int rows, columns;  ///< tiles of queries, of keys

  /// Where a tile's kind is.
  __host__ __device__ std::int64_t at(int batch, int head, int row, int column) const {
    return ((std::int64_t{batch} * heads + smaller(head, heads - 1)) * rows + row) * columns +
           column;
  }
};

/// A functor with the kinds of its tiles from a map.
template <class Functor>
struct Mapped : Functor {
  TileMap map;
  /// A functor, and the map of its tiles.
  __host__ __device__ Mapped(const Functor& functor, const TileMap& the_map)
      : Functor(functor), map(the_map) {}
  /// From the map.
  __host__ __device__ TileKind tile_kind(const ScoreTile& t) const {
    return map
        .kinds[map.at(t.batch, t.head, t.first_query / map.block_m, t.first_key / map.block_n)];
  }
};

/// Warps of a block of fill_tile_map(), which have a tile each.
constexpr int kMapWarps = 4;

/// Asks a mask for the scores of each tile, once for each launch.
template <int block_m, int block_n, class T, class Functor>
__global__ void fill_tile_map(Attention<T> a, Functor functor, TileMap map) {
  const int tile = blockIdx.x * kMapWarps + threadIdx.x / kWarp;
  if (tile >= map.rows * map.columns) return;  // the whole warp
  const int row = tile / map.columns, column = tile % map.columns;
  const int head = blockIdx.y, batch = blockIdx.z;
  constexpr int together = 8;  // queries whose loads are in flight at once
  bool any = false, all = true;
  for (int first = 0; first < block_m; first += together) {
#pragma unroll
    for (int i = 0; i < together * block_n / kWarp; ++i) {
      const int at = i * kWarp + threadIdx.x % kWarp;
      const int query = row * block_m + first + at / block_n;
      const int key = column * block_n + at % block_n;
      if (query >= a.length_q || key >= a.length_k) continue;
      const bool visible = functor.visible(batch, head, query, key);
      any = any || visible;
      all = all && visible;
    }
    any = __any_sync(kAllLanes, any);
    all = __all_sync(kAllLanes, all);
    if (any && !all) break;
  }
  if (threadIdx.x % kWarp == 0) {
    map.kinds[map.at(batch, head, row, column)] = all   ? TileKind::kWhole
                                                  : any ? TileKind::kPartial
                                                        : TileKind::kSkipped;
  }
}

/// The map of a problem's tiles, in memory for batch * heads * rows * columns kinds.
template <class T>
TileMap tile_map_of(const Attention<T>& a, int block_m, int block_n, TileKind* kinds, int heads) {
  return {
      kinds, heads, block_m, block_n, ceil_div(a.length_q, block_m), ceil_div(a.length_k, block_n)};
}

/// Bytes of memory for the map of a problem's tiles.
template <class T>
std::int64_t tile_map_bytes(const Attention<T>& a, int block_m, int block_n) {
  const TileMap map = tile_map_of(a, block_m, block_n, nullptr, a.heads);
  return std::int64_t{a.batch} * a.heads * map.rows * map.columns;
}

/// Calls launch_kernel(functor) with a functor that has a tile_kind(): the given one, or, with a
/// map that is filled first, one for a mask without a rule.
/// @param kinds memory of the device for tile_map_bytes(); unused by other functors
template <int block_m, int block_n, class T, class Functor, class LaunchKernel>
void with_tile_kinds(const Attention<T>& a, const Functor& functor, TileKind* kinds,
                     const Stream& stream, LaunchKernel launch_kernel) {
  check_mask<Functor>();
  check_scores<Functor>();
  if constexpr (Functor::needs_map) {
    const TileMap map =
        tile_map_of(a, block_m, block_n, kinds, Functor::differs_by_head ? a.heads : 1);
    launch(stream, fill_tile_map<block_m, block_n, T, Functor>,
           {{static_cast<unsigned>(ceil_div(map.rows * map.columns, kMapWarps)),
             static_cast<unsigned>(map.heads), static_cast<unsigned>(a.batch)},
            {kMapWarps * kWarp}},
           a, functor, map);
    launch_kernel(Mapped<Functor>(functor, map));
  } else {
    launch_kernel(functor);
  }
}

}  // namespace fa::FA_TARGET
