/// @file
/// Functors in the persistent kernel of steps 14 and 15. Where a mask shows ranges of keys, the tiles
/// of keys of a warpgroup are a range, too: the producer computes them for each tile of queries, and
/// passes them to the consumers. Of other masks both ask for the kinds of tiles. A tile's scores are
/// changed first, and masked after that, in tiles that need a mask.
///
/// Source: Dong et al., FlexAttention, 2024, section 4; Shah et al., FlashAttention-3, NeurIPS 2024.
#pragma once

#include "05_flash_forward/library/hopper_loop.cuh"
#include "common/attention/functor_instances.cuh"
#include "common/attention/visible_tiles.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// Keys of half a tile.
template <class Tile>
constexpr int kHalfKeys = Tile::block_n / 2;

/// The tiles of keys that a block loads for a tile of queries, and those of a warpgroup.
template <class Tile>
struct FunctorTiles {
  IndexRange block;
  /// Here begin and end count halves of tiles.
  VisibleTiles warpgroup[Tile::consumers];
};

/// The indices of a tile's keys, 0 to block_n - 1, in its first three columns, and else 0: a product
/// with the slope's parts is a term that grows from key to key.
template <class Tile>
using KeyRamp = SwizzledTile<bfloat16, Tile::block_n, 16, kNarrowPanelBytes>;

/// What a block keeps in shared memory: step 14's, and the tiles of keys of a tile of queries.
template <class Tile>
struct FunctorShared : PersistentShared<Tile> {
  FunctorTiles<Tile> key_tiles;
  KeyRamp<Tile> ramp;  // of a functor with a slope
};

/// Writes a ramp; all threads of the block call it, before init_barriers().
template <class Tile>
__device__ void write_ramp(KeyRamp<Tile>& ramp) {
  static_assert(Tile::block_n <= 256, "bfloat16 has whole numbers up to 256");
  for (int key = threadIdx.x; key < Tile::block_n; key += blockDim.x) {
#pragma unroll
    for (int col = 0; col < 16; ++col) {
      ramp.at(key, col / 8 * 8)[col % 8] =
          from_float<bfloat16>(col < 3 ? static_cast<float>(key) : 0);
    }
  }
  fence_async_proxy();  // wgmma sees it after the next barrier
}

/// The left operand for a ramp: all rows have the slope in three parts of 8 bits each, so that none
/// is lost.
//! [slope_parts]
__device__ inline void slope_parts(std::uint32_t (&a)[4], float slope) {
  float parts[4] = {};
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    parts[i] = __uint_as_float(__float_as_uint(slope) & 0xffff0000);
    slope -= parts[i];
  }
  const int t = threadIdx.x % 4;  // this lane has columns 2 t and 2 t + 1
  a[0] = t == 0   ? pack2<bfloat16>(parts[0], parts[1])
         : t == 1 ? pack2<bfloat16>(parts[2], parts[3])
                  : 0;
  a[1] = a[0];
  a[2] = a[3] = 0;
}
//! [slope_parts]

/// issue_gemm_nt() with a slope: S = Q K^T + slope (number of the key in its tile).
//! [issue_sloped_qk]
template <class Q, class K, class Ramp, int r>
__device__ void issue_sloped_qk(float (&s)[r], const Q& q, const K& k,
                                std::uint32_t (&slope)[4], const Ramp& ramp,
                                int k_row) {
  wgmma_fence(s, slope);
  multiply_nt(s, q, k, k_row);
  wgmma<bfloat16>(s, slope, ramp.by_rows(k_row, 0), true);
  wgmma_commit(s, slope);
}
//! [issue_sloped_qk]

/// The tiles of keys that a tile of queries sees: of a range from the last one on, or else from the
/// first one on. All lanes of a warp call it.
//! [visible_keys]
template <class Tile, class T, class Functor>
struct VisibleKeys {
  const Attention<T>& a;
  const Functor& functor;
  WorkTile work;
  IndexRange range;  ///< of a mask without ranges: all tiles

  /// The first one. There is always one: each tile of queries takes the same
  /// steps.
  __device__ VisibleTile first() const {
    if constexpr (Functor::shows_ranges) return {range.end - 1, false};
    const VisibleTile tile = find(0);
    return exists(tile) ? tile : VisibleTile{0, false};
  }
  /// The one after a tile; exists() is false for it after the last one.
  __device__ VisibleTile next(const VisibleTile& tile) const {
    if constexpr (Functor::shows_ranges) return {tile.index - 1, false};
    return find(tile.index + 1);
  }
  /// Whether a tile is one of them.
  __device__ bool exists(const VisibleTile& tile) const {
    // One comparison: of two, nvcc 13.0 makes a loop that ends after a tile.
    return Functor::shows_ranges ? range.begin <= tile.index
                                 : tile.index < range.end;
  }

 private:
  __device__ VisibleTile find(int begin) const {
    return next_visible(begin, range.end, [&](int tile) {
      return tile_kind<Tile::block_m, Tile::block_n>(
          a, functor, work.batch, work.head, work.block * Tile::block_m,
          tile * Tile::block_n);
    });
  }
};
//! [visible_keys]

/// The tiles of keys of a tile of queries: one at least for each warpgroup, which is masked where no
/// key is visible.
template <class Tile, class T, class Functor>
__device__ FunctorTiles<Tile> functor_tiles(const Attention<T>& a,
                                            const Functor& functor,
                                            const WorkTile& work) {
  FunctorTiles<Tile> tiles = {};
  if constexpr (!Functor::shows_ranges) {
    tiles.block = {0, ceil_div(a.length_k, Tile::block_n)};
  } else {
    tiles.block = {kUnlimited, 0};
    const int query0 = work.block * Tile::block_m;
#pragma unroll
    for (int i = 0; i < Tile::consumers; ++i) {
      const int first = smaller(query0 + i * kQueries, a.length_q - 1);
      const int last = smaller(first + kQueries, a.length_q) - 1;
      const IndexRange first_keys = functor.keys(work.batch, first);
      const IndexRange last_keys = functor.keys(work.batch, last);
      const VisibleTiles halves =
          visible_tiles(first_keys, last_keys, a.length_k, kHalfKeys<Tile>);
      const VisibleTiles whole =
          visible_tiles(first_keys, last_keys, a.length_k, Tile::block_n);
      tiles.warpgroup[i] = {halves.begin, halves.end, whole.whole_begin,
                            whole.whole_end};
      if (halves.begin == halves.end) continue;
      tiles.block.begin = smaller(tiles.block.begin, whole.begin);
      tiles.block.end = larger(tiles.block.end, whole.end);
    }
    if (tiles.block.end == 0) tiles.block = {0, 1};
#pragma unroll
    for (int i = 0; i < Tile::consumers; ++i) {
      VisibleTiles& own = tiles.warpgroup[i];
      const int end = 2 * tiles.block.end;
      if (own.begin == own.end) own = {end - 2, end, 0, 0};
    }
  }
  return tiles;
}

/// The producer's warp loads Q, and K and V of the visible tiles. K is a tile ahead of V.
//! [load_visible]
template <class Tile, class T, class Functor>
__device__ void load_visible(FunctorShared<Tile>& shared,
                             const TmaAttention<T>& maps,
                             const VisibleKeys<Tile, T, Functor>& keys,
                             ProducerState<Tile>& write) {
  const bool loads = threadIdx.x % kWarp == 0;
  const WorkTile& work = keys.work;
  const int kv_head = kv_head_of(maps.a, work.head);
  const auto load_q = [&](int i) {
    if (!loads) return;
    load_tile(shared.q[write.q.stage][i], maps.q,
              shared.q_pipe[i].producer_acquire(write.q, Tile::QTile::bytes),
              work.block * Tile::block_m + i * kQueries, work.head,
              work.batch, CacheHint::kEvictFirst);
  };
  const auto load_k = [&](int tile) {
    if (loads) {
      load_tile(shared.k[write.k.stage], maps.k,
                shared.k_pipe.producer_acquire(write.k, Tile::KTile::bytes),
                tile * Tile::block_n, kv_head, work.batch,
                CacheHint::kEvictLast);
    }
    write.k.advance();
  };
  VisibleTile tile = keys.first();
  load_q(0);
  load_k(tile.index);  // warpgroup 0 can start
#pragma unroll 1       // the producer has few registers
  for (int i = 1; i < Tile::consumers; ++i) load_q(i);
#pragma unroll 1
  while (keys.exists(tile)) {
    const VisibleTile next = keys.next(tile);
    if (keys.exists(next)) load_k(next.index);
    if (loads) {
      load_tile(shared.v[write.v.stage], maps.v,
                shared.v_pipe.producer_acquire(write.v, Tile::VTile::bytes),
                tile.index * Tile::block_n, kv_head, work.batch,
                CacheHint::kEvictLast);
    }
    write.v.advance();
    tile = next;
  }
}
//! [load_visible]

/// schedule_tiles() that passes the tiles of keys, too.
template <class Tile, class T, class Functor>
__device__ void schedule_functor_tiles(FunctorShared<Tile>& shared,
                                       const Attention<T>& a,
                                       const Functor& functor,
                                       const TileScheduler& scheduler,
                                       unsigned* tile_counter) {
  const TileCounter counter{tile_counter,
                            scheduler.total_heads * scheduler.blocks};
  PipelineState<1> state;
  int tile_index = blockIdx.x;
  for (; tile_index < counter.tiles; tile_index = counter.next(tile_index)) {
    const WorkTile work = work_tile(tile_index, scheduler);
    const FunctorTiles<Tile> tiles = functor_tiles<Tile>(a, functor, work);
    shared.key_tiles = tiles;
    pass_tile(shared, state, work);
  }
  pass_tile(shared, state, {-1, 0, 0});
  counter.finish(tile_index);
}

/// The loop of the warp that loads; for a mask that shows ranges, of its first lane only.
template <class Tile, class T, class Functor>
__device__ void load_functor_tiles(FunctorShared<Tile>& shared,
                                   const TmaAttention<T>& maps,
                                   const Functor& functor) {
  const bool leads = threadIdx.x % kWarp == 0;
  if (Functor::shows_ranges && !leads) return;
  PipelineState<1> read;
  ProducerState<Tile> write;
  for (;; read.advance(), write.q.advance()) {
    shared.work_pipe.consumer_wait(read);
    const WorkTile work = shared.work;
    const IndexRange block = shared.key_tiles.block;
    if constexpr (!Functor::shows_ranges) __syncwarp();  // all have read them
    if (leads) shared.work_pipe.consumer_release(read);
    if (work.block < 0) return;
    load_visible(shared, maps,
                 VisibleKeys<Tile, T, Functor>{maps.a, functor, work, block},
                 write);
  }
}

/// The tiles of keys of a consumer warpgroup, from the last one on.
struct WarpgroupTiles {
  IndexRange block;  ///< those that the block loads
  int first, last;   ///< that it computes, of a mask that shows ranges
  int whole_begin, whole_end;
  bool first_half;  ///< of the first one its first half suffices
  bool last_half;   ///< of the last one, if it is another, its second half

  /// Whether a tile needs a mask.
  __device__ bool masks(const VisibleTile& tile) const {
    const bool in_range = whole_begin <= tile.index && tile.index < whole_end;
    return !tile.whole && !in_range;
  }
};

/// A consumer reads the block's next tile: see next_work_tile().
/// @param tiles on return its tiles of keys
template <class Tile>
__device__ bool next_functor_tile(FunctorShared<Tile>& shared,
                                  const PipelineState<1>& read, int warpgroup,
                                  WorkTile& work, WarpgroupTiles& tiles) {
  shared.work_pipe.consumer_wait(read);
  const IndexRange& block = shared.key_tiles.block;
  const VisibleTiles& own = shared.key_tiles.warpgroup[warpgroup];
  const int begin = warp_uniform(own.begin), end = warp_uniform(own.end);
  tiles = {{warp_uniform(block.begin), warp_uniform(block.end)},
           (end - 1) / 2,
           begin / 2,
           warp_uniform(own.whole_begin),
           warp_uniform(own.whole_end),
           end % 2 != 0,
           begin % 2 != 0};
  return next_work_tile(shared, read, work);
}

/// The rows of a lane: which keys they see, of a mask that shows ranges.
/// @param query0 the warpgroup's first query
/// @param seen   on return, by row
template <class T, class Functor>
__device__ void rows_keys(IndexRange (&seen)[2], const Attention<T>& a,
                          const Functor& functor, int batch, int query0) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    // A row beyond the last query is not stored: it may have any scores.
    const int query = smaller(query0 + lane_row(h), a.length_q - 1);
    seen[h] = functor.keys(batch, query);
    seen[h].end = smaller(seen[h].end, a.length_k);
  }
}

/// Which elements of a lane's row in an accumulator of wgmma lie in a range of columns: bit i is
/// that of element i. Bits that are constants of the compiled code become predicates, seven with one
/// instruction; a comparison for each element and bound takes more.
/// @param columns from the lane's first one on
__device__ inline std::uint32_t elements_in(const IndexRange& columns) {
  const auto before = [](int column) {  // the elements before a column
    const int count =
        larger(column, 0) / 8 * 2 + smaller(larger(column, 0) % 8, 2);
    return static_cast<std::uint32_t>(
        (std::uint64_t{1} << smaller(count, 32)) - 1);
  };
  return before(columns.end) & ~before(columns.begin);
}

/// Masks the scores of a lane that lie outside of ranges.
/// @param s      an accumulator of wgmma
/// @param seen   by the lane's two rows
/// @param column of the lane's first score, as the ranges count
template <int r>
__device__ void mask_ranges(float (&s)[r], const IndexRange (&seen)[2],
                            int column) {
  static_assert(r <= 64, "a bit for each element of a row");
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const std::uint32_t visible =
        elements_in({seen[h].begin - column, seen[h].end - column});
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      if ((visible >> i & 1) == 0) row_element(s, h, i) = -INFINITY;
    }
  }
}

/// Masks the scores of keys that a query does not see, of a mask without ranges.
/// @param key0 a multiple of 32
template <class T, class Functor, int r>
__device__ void mask_each(float (&s)[r], const Attention<T>& a,
                          const Functor& functor, int batch, int head,
                          int query0, int key0) {
  if constexpr (Functor::has_words) {
#pragma unroll
    for (int i = 0; i < r / 8; ++i) {  // 32 keys of a row
      const int h = i % 2, key = key0 + i / 2 * 32;
      const int query = query0 + lane_row(h), keys = a.length_k - key;
      std::uint32_t seen = query < a.length_q && keys > 0
                               ? functor.word(batch, head, query, key)
                               : 0;
      if (keys < 32) seen &= (1u << larger(keys, 0)) - 1;
      seen >>= lane_column();
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if ((seen >> element_column(j) & 1) == 0) {
          row_element(s, h, i / 2 * 8 + j) = -INFINITY;
        }
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < r; ++i) {
      const int query = query0 + lane_row(element_row(i));
      const int key =
          key0 + lane_column() + element_column(i / 4 * 2 + i % 2);
      if (query >= a.length_q || key >= a.length_k ||
          !functor.visible(batch, head, query, key)) {
        s[i] = -INFINITY;
      }
    }
  }
}

/// S = score(scale S) / unit, for all scores of a lane.
/// @param lane see LaneScores
//! [change_scores]
template <class Lane, int r>
__device__ void change_scores(float (&s)[r], const Lane& lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      float& x = row_element(s, h, i);
      x = lane.score(x, 8 * h, element_column(i));
    }
  }
}
//! [change_scores]

/// P of a part of a tile of keys, from a column on, rounded; that of the others is 0.
template <class T, int column, int parts, int r>
__device__ void set_probs(std::uint32_t (&p)[parts][4], const float (&s)[r]) {
  constexpr int first = column / 16, count = r / 8;
#pragma unroll
  for (int i = 0; i < parts; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (i < first || first + count <= i) p[i][j] = 0;
    }
  }
  round_to_operand<T>(reinterpret_cast<std::uint32_t(&)[count][4]>(p[first]),
                      s);
}

/// The state of the rows before the first key: after a sink, where there is one.
/// @param scale of the scores that the softmax is given
template <class Functor>
__device__ RowState first_row_state(const Functor& functor, int head,
                                    float scale) {
  if constexpr (Functor::has_sink) {
    const float m = functor.sink(head) / scale;
    const float l = lane_column() == 0 ? 1.0f : 0.0f;  // four lanes share it
    return {{m, m}, {l, l}};
  } else {
    return empty_row_state();
  }
}

/// What the epilogue needs: the map of O, and a scale for m.
template <class T>
struct FunctorOutput {
  const TensorMap& o;
  Attention<T> a;
};

/// The loop of a consumer warpgroup over its tiles of keys, as in step 15: adds to O and to the state
/// of its rows.
//! [mainloop]
template <class Tile, class T, class Functor>
__device__ void functor_mainloop(WarpgroupOutput<Tile>& o, RowState& rows,
                                 FunctorShared<Tile>& shared,
                                 ConsumerState<Tile>& read,
                                 const VisibleKeys<Tile, T, Functor>& keys,
                                 const WarpgroupTiles& tiles, float scale,
                                 PendingStore<Tile>& last_store,
                                 int warpgroup) {
  constexpr int scores = Tile::block_n / 2;  // of a lane
  const Attention<T>& a = keys.a;
  const Functor& functor = keys.functor;
  const int batch = keys.work.batch, head = keys.work.head;
  const int query0 = keys.work.block * Tile::block_m + warpgroup * kQueries;
  const bool releases = threadIdx.x % kWarp == 0;
  const auto& q = shared.q[read.q.stage][warpgroup];
  const auto release_k = [&] {
    if (releases) shared.k_pipe.consumer_release(read.k);
    read.k.advance();
  };
  const auto release_v = [&] {
    if (releases) shared.v_pipe.consumer_release(read.v);
    read.v.advance();
  };
  WarpgroupProbs<Tile> p;
  float rescale[2];
  const auto scores_of_lane =
      lane_scores(a, functor, batch, head, query0 + lane_row(0),
                  Functor::has_slope ? 0 : lane_column());
  constexpr bool wide = kWideScores<Functor>;
  float ramp = 0;  // what the tensor cores add from key to key
  std::uint32_t slope[4];
  if constexpr (Functor::has_slope) {
    if (functor.is_gentle(head)) ramp = scores_of_lane.slope;
    slope_parts(slope, ramp);
  }
  IndexRange seen[2] = {};
  VisibleTile tile{tiles.first, false};
  if constexpr (Functor::shows_ranges) {
    rows_keys(seen, a, functor, batch, query0);
  } else {
    tile = keys.first();
  }
  // S = score(scale S) / unit, and the mask, for keys from a column on
  const auto change = [&](auto& s, int column, bool masked) {
    const int key0 = tile.index * Tile::block_n + column;
    if constexpr (Functor::has_slope) {
      if (ramp == 0) {  // rare
        change_scores(s, scores_of_lane.at_keys(key0 + lane_column()));
      }
    } else if constexpr (Functor::changes_scores) {
      change_scores(s, scores_of_lane.at_keys(key0));
    }
    if (!masked) return;
    if constexpr (Functor::shows_ranges) {
      mask_ranges(s, seen, key0 + lane_column());
    } else {
      mask_each(s, a, functor, batch, head, query0, key0);
    }
  };
  const auto issue_scores = [&](auto& s, int column) {
    const auto& k = shared.k[read.k.stage];
    if constexpr (Functor::has_slope) {
      issue_sloped_qk(s, q, k, slope, shared.ramp, column);
    } else {
      issue_gemm_nt(s, q, k, column);
    }
  };
  // Tiles that only the other warpgroup needs.
  const auto skip = [&](int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      shared.k_pipe.consumer_wait(read.k);
      __syncwarp();  // all lanes have seen the phase
      release_k();
      scheduler_barrier_sync<Tile>(warpgroup);
      scheduler_barrier_arrive<Tile>(warpgroup);
      shared.v_pipe.consumer_wait(read.v);
      __syncwarp();
      release_v();
    }
  };
  // The first tile, of which r scores of a lane can be visible: there is no P V beside its S.
  const auto first = [&](auto count) {
    constexpr int r = decltype(count)::value;
    float s[r];
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_scores(s, 0);
    scheduler_barrier_arrive<Tile>(warpgroup);
    last_store.release_q();
    wgmma_wait<0>(s);
    release_k();
    change(s, 0, tiles.masks(tile));
    loop_online_softmax<true, wide>(s, rows, rescale, scale);
    set_probs<T, 0>(p, s);
  };
  //! [step]
  const auto step = [&](auto edge, auto count) {
    constexpr bool masked = decltype(edge)::value;
    constexpr int r = decltype(count)::value;
    constexpr int column = r == scores ? 0 : Tile::block_n / 2;
    float s[r];
    // S = Q K^T
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_scores(s, column);
    // O += P V of the tile before
    shared.v_pipe.consumer_wait(read.v);
    issue_pv(o, p, shared.v[read.v.stage]);
    scheduler_barrier_arrive<Tile>(warpgroup);
    wgmma_wait<1>(s);  // S has been computed, P V is in flight
    release_k();
    // S = score(scale S) / unit
    change(s, column, masked && (Functor::shows_ranges || !tile.whole));
    // P = exp2(scale (S - m))
    //! [frame]
    // Scores are relative to this tile's first key, m to the first tile's.
    const float m[2] = {rows.m[0], rows.m[1]};
    const float shift =
        ramp * static_cast<float>((tiles.first - tile.index) * Tile::block_n);
    const float shifted[2] = {m[0] + shift, m[1] + shift};
    if constexpr (Functor::has_slope) {
      rows.m[0] = shifted[0];
      rows.m[1] = shifted[1];
    }
    const bool rescaled =
        loop_online_softmax<masked, wide>(s, rows, rescale, scale);
    if constexpr (Functor::has_slope) {  // as it was, where it did not grow
      rows.m[0] = rows.m[0] == shifted[0] ? m[0] : rows.m[0] - shift;
      rows.m[1] = rows.m[1] == shifted[1] ? m[1] : rows.m[1] - shift;
    }
    //! [frame]
    wgmma_wait<0>(o, p);
    release_v();
    set_probs<T, column>(p, s);
    fence_operand(p);  // among the exponentials, not after the branch
    if (rescaled) rescale_o(o, rescale);
  };
  //! [step]
  constexpr std::integral_constant<int, scores> whole_tile;
  constexpr std::integral_constant<int, scores / 2> half_tile;
  constexpr std::true_type with_mask;
  constexpr std::false_type without;
  if constexpr (Functor::shows_ranges) {
    skip(tiles.block.end - 1 - tiles.first);
    if (tiles.first_half) {
      first(half_tile);
    } else {
      first(whole_tile);
    }
    const bool last_half = tiles.last_half && tiles.last < tiles.first;
    const int last = tiles.last + (last_half ? 1 : 0);
    const int edge = larger(tiles.whole_end, last);
    const int whole = larger(tiles.whole_begin, last);
    int& t = tile.index;
    for (--t; t >= edge; --t) step(with_mask, whole_tile);
    for (; t >= whole; --t) step(without, whole_tile);
    for (; t >= last; --t) step(with_mask, whole_tile);
    if (last_half) step(with_mask, half_tile);
  } else {
    first(whole_tile);
    for (tile = keys.next(tile); keys.exists(tile); tile = keys.next(tile)) {
      step(with_mask, whole_tile);
    }
  }
  // O += P V of the last tile
  shared.v_pipe.consumer_wait(read.v);
  issue_pv(o, p, shared.v[read.v.stage]);
  wgmma_wait<0>(o, p);
  release_v();
  if constexpr (Functor::shows_ranges) skip(tiles.last - tiles.block.begin);
  if constexpr (Functor::has_slope) {  // m in the scores of the functor
    auto lane = scores_of_lane.at_keys(tiles.first * Tile::block_n);
    lane.slope = ramp;
    rows.m[0] = lane.score(rows.m[0], 0, 0);
    rows.m[1] = lane.score(rows.m[1], 8, 0);
  }
}
//! [mainloop]

/// Attention in 16 bits with a functor. A consumer warpgroup processes 64 queries of each tile.
/// @tparam Tile    a HopperTile
/// @tparam T       half or bfloat16
/// @tparam Functor see score_functors.cuh
//! [persistent]
template <class Tile, class T, class Functor>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_persistent_functor(const __grid_constant__ TmaAttention<T> maps,
                             const __grid_constant__ Functor functor,
                             const TileScheduler scheduler,
                             unsigned* tile_counter) {
  static_assert(Functor::shows_ranges || !Functor::has_slope,
                "a slope goes from each tile to the one before it");
  auto& shared = *dynamic_shared<FunctorShared<Tile>>();
  if constexpr (Functor::has_slope) write_ramp<Tile>(shared.ramp);
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {  // the producer
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    const int thread = threadIdx.x % kWarpgroup;
    if (thread < kWarp) load_functor_tiles(shared, maps, functor);
    if (thread == kWarp) {
      schedule_functor_tiles(shared, maps.a, functor, scheduler,
                             tile_counter);
    }
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const Attention<T>& a = maps.a;
  const float unit = unit_of(functor, a.scale);
  FunctorOutput<T> output{maps.o, a};
  output.a.scale = unit;
  ConsumerState<Tile> read;
  if (warpgroup == Tile::consumers - 1) {
    scheduler_barrier_arrive<Tile>(warpgroup);  // warpgroup 0 is first
  }
  PendingStore<Tile> last_store{shared, warpgroup};
  WorkTile work;
  WarpgroupTiles tiles;
  for (; next_functor_tile(shared, read.work, warpgroup, work, tiles);
       read.next_tile()) {
    const int query0 = work.block * Tile::block_m + warpgroup * kQueries;
    WarpgroupOutput<Tile> o = {};
    RowState rows = first_row_state(functor, work.head, unit);
    shared.q_pipe[warpgroup].consumer_wait(read.q);
    functor_mainloop(
        o, rows, shared, read,
        VisibleKeys<Tile, T, Functor>{a, functor, work, tiles.block}, tiles,
        unit * kLog2E, last_store, warpgroup);
    last_store.issued(
        write_output<Tile>(output, o, rows, shared.q[read.q.stage][warpgroup],
                           query0, work.head, work.batch),
        read.q);
  }
  last_store.release_q();
  if (warpgroup == 0) {
    scheduler_barrier_sync<Tile>(warpgroup);  // the last arrival
  }
}
//! [persistent]

/// Bytes of workspace for tiles that launch_persistent_functor() needs for a functor with
/// needs_map.
template <class T>
std::int64_t persistent_functor_workspace(const Attention<T>& a) {
  using Tile = HopperTile128<T>;
  return tile_map_bytes(a, Tile::block_m, Tile::block_n);
}

/// Launches the kernel with a block for each SM, or for each tile of queries if these are fewer.
/// @param a            with a head_dim of at most 128, for which can_use_tma() holds
/// @param kinds        of the device, persistent_functor_workspace() bytes
/// @param tile_counter as in launch_persistent()
//! [launch]
template <class T, class Functor>
void launch_persistent_functor(const Attention<T>& a, const Functor& functor,
                               const Stream& stream, TileKind* kinds,
                               unsigned* tile_counter) {
  using Tile = HopperTile128<T>;
  // The order of a causal mask: the last tiles of queries, which may have the most keys, first.
  Attention<T> ordered = a;
  ordered.causal = !std::is_same_v<Functor, AllKeys>;
  const TileScheduler scheduler = tile_scheduler(ordered, Tile::block_m);
  with_tile_kinds<Tile::block_m, Tile::block_n>(
      a, functor, kinds, stream, [&](const auto& with_kinds) {
        using F = std::decay_t<decltype(with_kinds)>;
        launch(stream, flash_persistent_functor<Tile, T, F>,
               {{persistent_blocks(scheduler)},
                {kWarpgroup * (Tile::consumers + 1)},
                sizeof(FunctorShared<Tile>),
                Tile::stages},
               tma_attention<Tile>(a), with_kinds, scheduler, tile_counter);
      });
}
//! [launch]

/// launch_persistent_functor() with the functor of a spec.
template <class T>
void launch_functor_persistent(const Attention<T>& a, const FunctorSpec& spec,
                               const Stream& stream, TileKind* kinds,
                               unsigned* tile_counter) {
  with_functor(spec, a.length_q, a.length_k, [&](const auto& functor) {
    launch_persistent_functor(a, functor, stream, kinds, tile_counter);
  });
}

FA_LAUNCH_16_BIT(persistent_functor, Attention,
                 (const FunctorSpec&, const Stream&, TileKind*, unsigned*),
                 launch_functor_persistent);

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto functor_step(std::integral_constant<int, 2>, Row row) {
  return row("02_persistent", "functors in persistent blocks", bfloat16{})
      .without_functor("14_lazy_rescaling")
      .hopper()
      .head_dims(HeadDims<128>{})
      .tile(128, 128, 0, 2, 128)
      .persistent()
      .array(TileKind{}, [](const auto& a,
                            auto) { return persistent_functor_workspace(a); })
      .tile_counter()
      .launch([](auto& a, auto, auto& stream, TileKind* kinds,
                 unsigned* tile_counter) {
        launch_functor_persistent(a, a.spec, stream, kinds, tile_counter);
      });
}

}  // namespace fa::FA_TARGET
