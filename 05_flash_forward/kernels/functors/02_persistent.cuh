/// @file
/// Functors in the persistent kernel of steps 14 and 15. Where a mask shows ranges of keys, the tiles
/// of keys of a warpgroup are a range, too: the producer computes them for each tile of queries, and
/// passes them to the consumers. Of other masks both ask for the kinds of tiles. A tile's scores are
/// changed first, and masked after that, in tiles that need a mask.
///
/// Source: Dong et al., FlexAttention, 2024, section 4; Shah et al., FlashAttention-3, NeurIPS 2024.
#pragma once

#include "05_flash_forward/library/hopper_kernel.cuh"
#include "common/attention/functor_instances.cuh"
#include "common/attention/visible_tiles.cuh"

namespace fa::FA_TARGET {

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

/// issue_gemm_nt() with a slope: S = Q K^T + slope (number of the key in its tile).
template <class Q, class K, class Ramp, int r>
__device__ void issue_sloped_qk(float (&s)[r], const Q& q, const K& k,
                                std::uint32_t (&slope)[4], const Ramp& ramp,
                                int k_row) {
  wgmma_fence(s, slope);
  multiply_nt(s, q, k, k_row);
  wgmma<bfloat16>(s, slope, ramp.by_rows(k_row, 0), true);
  wgmma_commit(s, slope);
}

/// The tiles of keys that a tile of queries sees: of a range from the last one on, or else from the
/// first one on. All lanes of a warp call it.
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
          visible_tiles(first_keys, last_keys, a.length_k, kHalfKeys);
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

/// A tile of a warpgroup, and its tiles of keys.
struct OwnFunctorTile : WorkTile {
  IndexRange block;  ///< those that the block loads
  KeyRange range;    ///< those that the warpgroup computes
};

/// A consumer reads the block's next tile: see next_work_tile().
template <class Tile>
__device__ bool next_functor_tile(FunctorShared<Tile>& shared,
                                  const PipelineState<1>& read, int warpgroup,
                                  OwnFunctorTile& tile) {
  shared.work_pipe.consumer_wait(read);
  const IndexRange& block = shared.key_tiles.block;
  const VisibleTiles& own = shared.key_tiles.warpgroup[warpgroup];
  tile.block = {warp_uniform(block.begin), warp_uniform(block.end)};
  const int begin = warp_uniform(own.begin), end = warp_uniform(own.end);
  KeyRange& range = tile.range;
  range.first = (end - 1) / 2;
  range.last = begin / 2;
  range.skipped = tile.block.end - 1 - range.first;
  range.skipped_after = range.last - tile.block.begin;
  range.first_half = end % 2 != 0;
  range.last_half = begin % 2 != 0 && range.last < range.first;
  const int whole_last = range.last + (range.last_half ? 1 : 0);
  range.edge = larger(warp_uniform(own.whole_end), whole_last);
  range.whole = larger(warp_uniform(own.whole_begin), whole_last);
  return next_work_tile(shared, read, tile);
}

/// The rows of a lane: which keys they see, of a mask that shows ranges.
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

/// The scores of a functor: a policy of hopper_mainloop().
template <class Tile, class T, class Functor>
struct FunctorScores {
  static constexpr KeyTiles tiles =
      Functor::shows_ranges ? KeyTiles::kRange : KeyTiles::kListed;
  static constexpr bool wide = kWideScores<Functor>;
  using Lane = decltype(lane_scores(std::declval<Attention<T>>(),
                                    std::declval<Functor>(), 0, 0, 0, 0));
  const VisibleKeys<Tile, T, Functor> keys;
  const FunctorShared<Tile>& shared;
  int query0;  ///< the warpgroup's first query
  KeyRange range;
  Lane lane;
  VisibleTile listed{};
  IndexRange seen[2] = {};
  float ramp = 0;  ///< what the tensor cores add from key to key
  std::uint32_t slope[4] = {};

  /// Of a warpgroup's rows.
  __device__ FunctorScores(const VisibleKeys<Tile, T, Functor>& the_keys,
                           const FunctorShared<Tile>& the_shared,
                           int warpgroup, const KeyRange& the_range)
      : keys(the_keys),
        shared(the_shared),
        query0(keys.work.block * Tile::block_m + warpgroup * kQueries),
        range(the_range),
        lane(lane_scores(keys.a, keys.functor, keys.work.batch,
                         keys.work.head, query0 + lane_row(0),
                         lane_column())) {
    if constexpr (Functor::has_slope) {
      if (keys.functor.is_gentle(keys.work.head)) ramp = lane.slope;
      slope_parts(slope, ramp);
    }
    if constexpr (Functor::shows_ranges) {
      rows_keys(seen, keys.a, keys.functor, keys.work.batch, query0);
    }
  }

  /// Of S / ln 2.
  __device__ float exponent_scale() const {
    return unit_of(keys.functor, keys.a.scale) * kLog2E;
  }
  /// Issues S = Q K^T for keys from a column of the tile on.
  template <class Q, class K, int r>
  __device__ void issue(float (&s)[r], const Q& q, const K& k, int column) {
    if constexpr (Functor::has_slope) {
      issue_sloped_qk(s, q, k, slope, shared.ramp, column);
    } else {
      issue_gemm_nt(s, q, k, column);
    }
  }
  /// S = score(scale S) / unit, and the mask.
  template <int r>
  __device__ void change(float (&s)[r], int key0, bool masked) {
    if constexpr (Functor::has_slope) {
      if (ramp == 0) change_scores(s, lane.at_keys(key0));  // rare
    } else if constexpr (Functor::changes_scores) {
      change_scores(s, lane.at_keys(key0));
    }
    if (!masked) return;
    if constexpr (Functor::shows_ranges) {
      mask_ranges(s, seen, key0 + lane_column());
    } else {
      mask_each(s, keys.a, keys.functor, keys.work.batch, keys.work.head,
                query0, key0);
    }
  }
  /// Whether a tile needs the mask.
  __device__ bool masks(int tile) const {
    if constexpr (!Functor::shows_ranges) return !listed.whole;
    return tile >= range.edge || tile < range.whole;
  }
  /// @{ KeyTiles::kListed.
  __device__ int first_tile() {
    listed = keys.first();
    return listed.index;
  }
  __device__ int next_tile() {
    listed = keys.next(listed);
    return listed.index;
  }
  __device__ bool exists(int) const { return keys.exists(listed); }
  /// @}

  /// What end_tile() undoes.
  struct Frame {
    float shift, m[2], shifted[2];
  };
  /// With a slope, scores are relative to the first key of their tile, and m
  /// to that of the first tile: here it follows the scores.
  __device__ Frame begin_tile(RowState& rows, int tile) const {
    Frame frame{};
    if constexpr (Functor::has_slope) {
      frame.shift =
          ramp * static_cast<float>((range.first - tile) * Tile::block_n);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        frame.m[h] = rows.m[h];
        frame.shifted[h] = rows.m[h] += frame.shift;
      }
    }
    return frame;
  }
  /// And back; where m has not grown it is what it was, to the last bit.
  __device__ void end_tile(RowState& rows, const Frame& frame) const {
    if constexpr (Functor::has_slope) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        rows.m[h] = rows.m[h] == frame.shifted[h] ? frame.m[h]
                                                  : rows.m[h] - frame.shift;
      }
    }
  }
  /// m as a score of the functor.
  template <class O>
  __device__ void end(O&, RowState& rows) const {
    if constexpr (Functor::has_slope) {
      const int first_key = range.first * Tile::block_n;
      auto of_row = lane.at_keys(first_key - lane_column());
      of_row.slope = ramp;
      rows.m[0] = of_row.score(rows.m[0], 0, 0);
      rows.m[1] = of_row.score(rows.m[1], 8, 0);
    }
  }
};

/// What fa_forward_functor() computes in flash_hopper(): attention with a functor.
/// @tparam Functor see score_functors.cuh
template <class T, class Functor>
struct FunctorWork {
  static_assert(Functor::shows_ranges || !Functor::has_slope,
                "a slope goes from each tile to the one before it");
  template <class Tile>
  using Shared = FunctorShared<Tile>;
  template <class Tile>
  using Own = OwnFunctorTile;
  TmaAttention<T> all;
  Functor functor;
  TileScheduler scheduler;
  unsigned* tile_counter;

  /// @{ As ForwardWork and PlainWork have it.
  template <class Tile>
  __device__ void prepare(FunctorShared<Tile>& shared) const {
    if constexpr (Functor::has_slope) write_ramp<Tile>(shared.ramp);
  }
  template <class Tile>
  __device__ void produce(FunctorShared<Tile>& shared) const {
    const int thread = threadIdx.x % kWarpgroup;
    if (thread < kWarp) load_functor_tiles(shared, all, functor);
    if (thread == kWarp) {
      schedule_functor_tiles(shared, all.a, functor, scheduler, tile_counter);
    }
  }
  template <class Tile>
  __device__ bool next(FunctorShared<Tile>& shared,
                       const PipelineState<1>& read, int warpgroup,
                       OwnFunctorTile& own) const {
    return next_functor_tile(shared, read, warpgroup, own);
  }
  /// @}
  /// The map of O, and the unit of m in place of the scale.
  struct Output {
    const TensorMap& o;
    Attention<T> a;
  };
  /// @{ As ForwardWork and PlainWork have it.
  __device__ Output maps(const WorkTile&) const {
    Output output{all.o, all.a};
    output.a.scale = unit_of(functor, all.a.scale);
    return output;
  }
  template <class Tile>
  __device__ FunctorScores<Tile, T, Functor> scores(
      FunctorShared<Tile>& shared, const Output&, int warpgroup,
      const OwnFunctorTile& own) const {
    return {VisibleKeys<Tile, T, Functor>{all.a, functor, own, own.block},
            shared, warpgroup, own.range};
  }
  __device__ RowState first_rows(const WorkTile& own) const {
    return first_row_state(functor, own.head, unit_of(functor, all.a.scale));
  }
  /// @}
};

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
        launch_hopper<Tile>(
            stream, persistent_blocks(scheduler),
            FunctorWork<T, F>{tma_attention<Tile>(a), with_kinds, scheduler,
                              tile_counter});
      });
}

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

FA_STEP_ROW(functor, 2) {
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
