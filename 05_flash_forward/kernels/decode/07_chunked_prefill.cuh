/// @file
/// Chunked prefill: prompts, chunks of prompts and single queries of many sequences in one launch, on
/// the loop of the library. The rows of an item are the queries of all heads of a group. Pages and
/// the ends of sequences are boxes of TMA: a box holds as much of a tile as lies in one page, and ends
/// with its sequence, so that nothing is copied by threads but Q. Persistent blocks take the items
/// from a list, longest sequences first, that the mask and the lengths in memory make.
///
/// Sources: Shah et al., FlashAttention-3, NeurIPS 2024; Agrawal et al., Taming throughput-latency
/// tradeoff in LLM inference with Sarathi-Serve, OSDI 2024.
#pragma once

#include <numeric>

#include "05_flash_forward/kernels/decode/05_paged_kv.cuh"
#include "05_flash_forward/kernels/decode/06_wgmma.cuh"
#include "05_flash_forward/library/hopper_loop.cuh"
#include "common/attention/packed.cuh"
#include "common/attention/score_functors.cuh"
#include "common/attention/tma_support.cuh"

namespace fa::FA_TARGET {

/// 128 rows and keys; a warpgroup has 64 of the rows. Where a sequence has no more than these one
/// warpgroup suffices, and more and smaller stages keep more of the memory busy.
template <class T, int d, int warpgroups = 2>
using ChunkTile =
    std::conditional_t<warpgroups == 1, HopperTile<T, d, 64, 1, 6>,
                       HopperTile<T, d, 128, 2, d == 64 ? 3 : 2>>;

/// Keys of a window, at least: a box of K has no fewer rows of one page.
constexpr int kLeastWindow = kPageMultiple;

/// Where queries and keys of each sequence are, in the memory of the device.
struct ChunkSequences {
  int count;
  /// [count + 1]: rows of Q, whose batch is 1; null: each sequence has length_q
  const int* cu_seqlens_q;
  const int* lengths_k;  ///< [count]; null: each sequence has length_k
  PagedKv pages;         ///< without a block_table: none
  int parts = 0;         ///< of each item's keys; 0: chunk_parts() chooses
};

/// A block's work: 128 rows of a head of K and V, and a part of the keys that they see.
struct ChunkItem {
  int sequence = -1;  ///< negative: no item is left
  int batch = 0;      ///< of Q and O; 0 where sequences are packed
  int query0 = 0;     ///< the sequence's first row of Q, in this batch
  int length_q = 0, length_k = 0;  ///< of the sequence
  int kv_head = 0;
  int row0 = 0;  ///< the first of the item's rows
  int part = 0;
};

/// The attention of an item's sequence. Its q and o are those of all sequences.
template <class Tile, class T>
__device__ DecodeAttention<T> attention_of_item(DecodeAttention<T> a,
                                                const ChunkItem& item) {
  a.length_q = item.length_q;
  return attention_of_rows(a, item.sequence, item.length_k, item.row0,
                           Tile::block_m);
}

/// A map of K or V whose boxes lie in a page each. Pages are rows of one tensor.
struct PageMap {
  RaggedMap map;
  TensorMap from_key;  ///< [keys, heads, rows from a key on, columns]
  int rows;            ///< from a page to the next
};

/// What the kernel is given.
template <class T>
struct ChunkWork {
  DecodeAttention<T> a;  ///< k and v as decode_paged_kv() has them
  ChunkSequences sequences;
  PageMap k, v;
  int box_rows;
  int parts;               ///< of each item's keys
  int items;               ///< at most, of all parts
  unsigned* item_counter;  ///< 0 before and after the launch
  SplitStates states;      ///< of parts that are merged; o is null: none
};

/// Shared memory of a block.
template <class Tile>
struct ChunkShared : PersistentShared<Tile> {
  ChunkItem item;
};

/// Reads the block's next item; all lanes of a warp call it.
/// @return false when none is left
template <class Tile>
__device__ bool next_item(ChunkShared<Tile>& shared, PipelineState<1>& read,
                          ChunkItem& item) {
  shared.work_pipe.consumer_wait(read);
  const ChunkItem& next = shared.item;
  item = {warp_uniform(next.sequence), warp_uniform(next.batch),
          warp_uniform(next.query0),   warp_uniform(next.length_q),
          warp_uniform(next.length_k), warp_uniform(next.kv_head),
          warp_uniform(next.row0),     warp_uniform(next.part)};
  __syncwarp();  // all lanes have read it
  if (threadIdx.x % kWarp == 0) shared.work_pipe.consumer_release(read);
  read.advance();
  return item.sequence >= 0;
}

/// An item's tiles of keys: its part of those that its rows see.
template <class Tile, class T>
__device__ StridedTiles tiles_of_item(const DecodeAttention<T>& own,
                                      const ChunkItem& item, int parts) {
  const int keys = keys_of_some_row(own, item.row0, Tile::block_m).end;
  const int first = own.first_key / Tile::block_n;
  const int end = larger(first, ceil_div(keys, Tile::block_n));
  const auto begin = [&](int part) {
    if (own.part_keys > 0) {  // of a fixed size, wherever the window begins
      const std::int64_t key = std::int64_t{part} * own.part_keys;
      const auto tile = static_cast<int>(key / Tile::block_n);
      return smaller(larger(first, tile), end);
    }
    return first + static_cast<int>(std::int64_t{end - first} * part / parts);
  };
  return {begin(item.part), begin(item.part + 1), 1};
}

/// Finds items in the list of a launch, at places that grow. Sequences with more keys come first, by
/// the binary logarithm of their tiles; a warp looks at 32 at once.
template <class Tile, class T>
struct ItemList {
  const ChunkWork<T>& work;
  int level;       // log2 of the tiles of the sequences that are next
  int first = 0;   // of 32 sequences
  int before = 0;  // items of those that came before

  /// From the sequences that have the most keys.
  __device__ explicit ItemList(const ChunkWork<T>& of)
      : work(of), level(level_of(of.a.length_k)) {}
  /// The level of a sequence with so many keys.
  __device__ static int level_of(int keys) {
    return 31 - __clz(ceil_div(keys, Tile::block_n) | 1);
  }
  /// The lane's sequence, as the item of its first rows.
  __device__ ChunkItem sequence(int index) const {
    const ChunkSequences& s = work.sequences;
    if (index >= s.count) return {};
    PackedRange rows{0, work.a.length_q};
    if (s.cu_seqlens_q != nullptr) {
      rows = PackedRows{s.cu_seqlens_q, s.count, rows.length}.range(index);
    }
    return {index, s.cu_seqlens_q == nullptr ? index : 0, rows.begin,
            rows.length, keys_of_sequence(work.a, s.lengths_k, index)};
  }
  /// The item at a place; there is none behind the last one. A warp calls it.
  __device__ ChunkItem find(int place) {
    for (; level >= 0; --level, first = 0) {
      for (; first < work.sequences.count; first += kWarp) {
        const int lane = threadIdx.x % kWarp;
        ChunkItem item = sequence(first + lane);
        const int units = work.a.kv_heads * work.parts;
        const int blocks =
            ceil_div(item.length_q * group_size(work.a), Tile::block_m);
        const bool counts =
            item.sequence >= 0 && level_of(item.length_k) == level;
        if (!__any_sync(kAllLanes, counts)) continue;
        const int own = counts ? blocks * units : 0;
        int until = own;  // items up to this sequence and with it
#pragma unroll
        for (int distance = 1; distance < kWarp; distance *= 2) {
          const int other = __shfl_up_sync(kAllLanes, until, distance);
          if (lane >= distance) until += other;
        }
        const unsigned behind =
            __ballot_sync(kAllLanes, place < before + until);
        if (behind == 0) {
          before += __shfl_sync(kAllLanes, until, kWarp - 1);
          continue;
        }
        const int found = __ffs(static_cast<int>(behind)) - 1;
        const auto of_found = [&](int x) {
          return __shfl_sync(kAllLanes, x, found);
        };
        const WorkTile tile = tile_of_sequence(
            place - before - of_found(until - own), of_found(blocks), units,
            work.a.causal, 4 * gridDim.x);
        return {first + found,
                of_found(item.batch),
                of_found(item.query0),
                of_found(item.length_q),
                of_found(item.length_k),
                tile.head / work.parts,
                tile.block * Tile::block_m,
                tile.head % work.parts};
      }
    }
    return {};
  }
};

/// The warp that takes items from the list and passes them on.
template <class Tile, class T>
__device__ void schedule_items(ChunkShared<Tile>& shared,
                               const ChunkWork<T>& work) {
  const TileCounter counter{work.item_counter, work.items};
  const bool passes = threadIdx.x % kWarp == 0;
  ItemList<Tile, T> list(work);
  PipelineState<1> state;
  const auto pass = [&](const ChunkItem& item) {
    if (!passes) return;
    shared.item = item;
    shared.work_pipe.full[0].arrive();
    if (item.sequence < 0) return;  // the last one
    shared.work_pipe.empty[0].wait(state.parity);
    state.advance();
  };
  int place = blockIdx.x;
  while (place < counter.tiles) {
    const ChunkItem item = list.find(place);
    if (item.sequence >= 0) pass(item);
    place = __shfl_sync(kAllLanes, passes ? counter.next(place) : 0, 0);
  }
  pass({});
  if (passes) counter.finish(place);
}

/// A warp that loads K, or V. Each lane copies a panel of a run of rows that lie in one page.
template <class Tile, class T, class Tiles, class Pipe>
__device__ void load_pages(ChunkShared<Tile>& shared,
                           const ChunkWork<T>& work, const PageMap& map,
                           Tiles& tiles_smem, Pipe& pipe) {
  const PagedKv& pages = work.sequences.pages;
  constexpr int panels = Tile::KTile::panels;
  const int lane = threadIdx.x % kWarp;
  const int row = lane / panels * work.box_rows, panel = lane % panels;
  PipelineState<1> read;
  PipelineState<Tile::stages> at;
  ChunkItem item;
  while (next_item(shared, read, item)) {
    const auto own = attention_of_item<Tile>(work.a, item);
    const StridedTiles tiles = tiles_of_item<Tile>(own, item, work.parts);
    // The page of the lane's run; page 0 where it has no keys.
    const auto page_of = [&](int tile) {
      if (pages.block_table == nullptr) return item.sequence;
      const int key = tile * Tile::block_n + row;
      if (key < 0 || key >= item.length_k) return 0;
      const int page =
          pages.block_table[std::int64_t{item.sequence} * pages.most_pages +
                            key / pages.page_size];
      return page >= 0 && page < pages.cache_pages ? page : 0;
    };
    int page = page_of(tiles.end - 1);
    for (int tile = tiles.end - 1; tile >= tiles.begin; --tile) {
      const int next_page = page_of(tile - 1);  // before it is needed
      pipe.empty[at.stage].wait(at.parity ^ 1);
      if (lane == 0) {
        pipe.full[at.stage].arrive_and_expect(Tile::KTile::bytes);
      }
      __syncwarp();  // the bytes are expected
      if (row < Tile::block_n) {
        const int key = tile * Tile::block_n + row;
        // Of the run; the others become 0.
        const int rows =
            smaller(larger(item.length_k - key, 0), work.box_rows);
        const int before = larger(own.first_key - key, 0);
        const int from = page * map.rows + key % pages.page_size;
        auto* const to =
            tiles_smem[at.stage].at(row, 0) + panel * Tile::KTile::panel_size;
        const int col = panel * Tile::KTile::panel_cols;
        if (before > 0) {
          tma_load(to, map.from_key, pipe.full[at.stage], col, -before,
                   item.kv_head, from + before, CacheHint::kEvictNormal);
        } else {
          tma_load(to, map.map, pipe.full[at.stage], col, kRaggedRows - rows,
                   item.kv_head, from + rows, CacheHint::kEvictNormal);
        }
      }
      at.advance();
      page = next_page;
    }
  }
}

/// The warp that loads Q: rows of different heads and queries, by cp.async.
template <class Tile, class T>
__device__ void load_rows_of_q(ChunkShared<Tile>& shared,
                               const ChunkWork<T>& work) {
  const Attention<T>& a = work.a;
  const int lane = threadIdx.x % kWarp;
  PipelineState<1> read;
  PipelineState<kQueryStages<Tile>> write;
  ChunkItem item;
  for (; next_item(shared, read, item); write.advance()) {
    const auto own = attention_of_item<Tile>(work.a, item);
    const auto offset_of = [&](int row) {  // in Q, of its first element
      const int head = item.kv_head * group_size(a) + head_in_group(a, row);
      return item.batch * a.q_strides.batch + head * a.q_strides.head +
             (item.query0 + query_of_row(a, row)) * a.q_strides.row;
    };
#pragma unroll 1
    for (int row0 = 0; row0 < Tile::block_m; row0 += kWarp) {
      const int warpgroup = row0 / kQueries;
      auto& pipe = shared.q_pipe[warpgroup];
      if (row0 % kQueries == 0) {
        pipe.empty[write.stage].wait(write.parity ^ 1);
      }
      auto& q = shared.q[write.stage][warpgroup];
      const std::int64_t own_offset = offset_of(item.row0 + row0 + lane);
#pragma unroll
      for (int i = 0; i < kWarp; i += 8) {  // four lanes have a row
        const int row = i + lane / 4;
        const std::int64_t offset = __shfl_sync(kAllLanes, own_offset, row);
        const bool exists = item.row0 + row0 + row < packed_rows(own);
#pragma unroll
        for (int piece = 0; piece < Tile::d; piece += 32) {
          const int col = piece + lane % 4 * 8;
          const bool inside = exists && col < a.head_dim;
          cp_async16(q.at(row0 % kQueries + row, col),
                     a.q + (inside ? offset + col : 0), inside);
        }
      }
      if (row0 % kQueries + kWarp < kQueries) continue;
      cp_async_commit();
      cp_async_wait<0>();
      fence_async_proxy();
      __syncwarp();  // all lanes' copies have arrived
      if (lane == 0) pipe.full[write.stage].arrive();
    }
  }
}

/// CausalScores of packed rows; `query0` is the warpgroup's first one.
template <class T>
struct PackedRowScores : CausalScores<T, KeyTiles::kOwn> {
  const DecodeAttention<T>& own;
  KeyInterval whole;  ///< that all rows see
  /// As in CausalScores. With a window a tile may be whole although it comes late.
  template <int r>
  __device__ void change(float (&s)[r], int key0, bool masked) {
    if (!masked || (whole.begin <= key0 && key0 + 2 * r <= whole.end)) return;
    mask_packed_rows(s, own, this->query0, key0);
  }
};

/// The scores of a warpgroup's rows: of the tiles that the block loads it computes those that its own
/// rows see.
template <class Tile, class T>
__device__ PackedRowScores<T> chunk_scores(const DecodeAttention<T>& own,
                                           int row0,
                                           const StridedTiles& tiles) {
  const int visible = keys_of_some_row(own, row0, kQueries).end;
  const int needed = ceil_div(visible, Tile::block_n);
  KeyRange range{};
  range.last = tiles.begin;
  range.first = (needed < tiles.end ? needed : tiles.end) - 1;
  if (range.first < tiles.begin) range.first = tiles.begin - 1;  // none
  range.skipped = tiles.end - 1 - range.first;
  range.first_half = visible - range.first * Tile::block_n <= kHalfKeys;
  const KeyInterval whole = keys_of_all_rows(own, row0, kQueries);
  const bool windowed = whole.begin > tiles.begin * Tile::block_n;
  const int edge = windowed ? 0 : whole.end / Tile::block_n;
  // A part may begin behind the edge: all of its tiles are masked then.
  range.edge = larger(edge, tiles.begin);
  return {{own, row0, range}, own, whole};
}

/// Writes O and LSE of a warpgroup's rows, or their states.
template <class Tile, class T>
__device__ void finish_rows(const ChunkWork<T>& work,
                            const DecodeAttention<T>& own,
                            const ChunkItem& item, int row0,
                            const WarpgroupOutput<Tile>& o, RowState& rows) {
  const DecodeAttention<T>& a = work.a;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float l = warp_sum<4>(rows.l[h]);
    const int row = row0 + lane_row(h);
    const bool exists = row < packed_rows(own);
    const int head = item.kv_head * group_size(a) + head_in_group(a, row);
    const int query = item.query0 + query_of_row(a, row);
    const int of_state = exists ? state_row(a, item.batch, head, query) : 0;
    if (work.states.o != nullptr) {
      if (exists) {
        store_lane_state(work.states, item.part, of_state, o, h, rows.m[h],
                         l);
      }
      continue;
    }
    const float factor = add_sink(a, head, rows.m[h], l);
    if (exists && lane_column() == 0) {
      a.lse[of_state] =
          l == 0 ? -INFINITY : rows.m[h] * a.scale + log_approx(l);
    }
    T* const to = a.o + item.batch * a.o_strides.batch +
                  head * a.o_strides.head + query * a.o_strides.row;
    store_row<Tile::d>(exists ? to : nullptr, o, h,
                       l == 0 ? 0 : factor * inverse_approx(l), a.head_dim);
  }
}

/// Attention of all sequences. A consumer warpgroup processes 64 rows of each item.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    decode_chunks(const __grid_constant__ ChunkWork<T> work) {
  auto& shared = *dynamic_shared<ChunkShared<Tile>>();
  launch_dependents();
  init_barriers(shared, 3);  // K, V and Q
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {  // the producer
    if constexpr (Tile::consumers > 1) {
      // Addresses of rows and pages take more registers than those of tiles.
      setmaxnreg_dec<kProducerRegisters<Tile> + 16>();
    }
    const int warp = warp_uniform(threadIdx.x / kWarp % 4);
    if (warp == 0) load_pages(shared, work, work.k, shared.k, shared.k_pipe);
    if (warp == 1) schedule_items(shared, work);
    if (warp == 2) load_pages(shared, work, work.v, shared.v, shared.v_pipe);
    if (warp == 3) load_rows_of_q(shared, work);
    return;
  }
  if constexpr (Tile::consumers > 1) {
    setmaxnreg_inc<kConsumerRegisters<Tile> - 8>();
  }
  ConsumerState<Tile> read;
  if (warpgroup == Tile::consumers - 1) {
    scheduler_barrier_arrive<Tile>(warpgroup);  // warpgroup 0 is first
  }
  NoStore no_store;
  ChunkItem item;
  for (; next_item(shared, read.work, item); read.q.advance()) {
    const auto own = attention_of_item<Tile>(work.a, item);
    const int row0 = item.row0 + warpgroup * kQueries;
    auto scores = chunk_scores<Tile>(
        own, row0, tiles_of_item<Tile>(own, item, work.parts));
    WarpgroupOutput<Tile> o = {};
    RowState rows = empty_row_state();
    auto& q_pipe = shared.q_pipe[warpgroup];
    q_pipe.consumer_wait(read.q);
    hopper_mainloop<Tile>(o, rows, shared, read, scores, no_store, warpgroup);
    named_barrier_wait(1 + warpgroup, kWarpgroup);  // no wgmma reads Q
    if (threadIdx.x % kWarpgroup == 0) q_pipe.consumer_release(read.q);
    finish_rows<Tile>(work, own, item, row0, o, rows);
  }
  if (warpgroup == 0) {
    scheduler_barrier_sync<Tile>(warpgroup);  // takes up the last arrival
  }
}

/// K or V as rows of one tensor, in which pages, or sequences, lie.
struct PageRows {
  std::int64_t row;    ///< elements from a row to the next
  std::int64_t apart;  ///< rows from a page to the next
  std::int64_t count;  ///< of all rows
};
/// Those of a tensor with so many pages.
inline PageRows page_rows(const RowStrides& strides, std::int64_t pages,
                          std::int64_t rows_of_page) {
  if (pages == 1)
    return {rows_of_page == 1 ? 8 : strides.row, 0, rows_of_page};
  const std::int64_t row = rows_of_page == 1 ? strides.batch : strides.row;
  const std::int64_t apart = row > 0 ? strides.batch / row : 0;
  return {row, apart, (pages - 1) * apart + rows_of_page};
}
/// The same of a problem's K or V.
template <class T>
PageRows page_rows(const Attention<T>& a, const ChunkSequences& sequences,
                   const RowStrides& strides) {
  const PagedKv& pages = sequences.pages;
  return pages.block_table == nullptr
             ? page_rows(strides, sequences.count, a.length_k)
             : page_rows(strides, pages.cache_pages, pages.page_size);
}

/// Items of all sequences, at most.
template <class Tile, class T>
std::int64_t chunk_items(const Attention<T>& a,
                         const ChunkSequences& sequences) {
  const std::int64_t rows = std::int64_t{a.length_q} * group_size(a);
  const std::int64_t tiles =
      sequences.cu_seqlens_q == nullptr
          ? sequences.count * ceil_div<std::int64_t>(rows, Tile::block_m)
          : rows / Tile::block_m + sequences.count;
  return tiles * a.kv_heads;
}

/// Parts into which the keys of each item are split: one, as in FlashAttention-3, where items fill
/// 0.8 of the SMs, since states of many rows cost more than the end of a wave.
template <class Tile, class T>
int chunk_parts(const DecodeAttention<T>& a,
                const ChunkSequences& sequences) {
  if (sequences.parts > 0) return sequences.parts;
  if (a.part_keys > 0) return ceil_div(a.length_k, a.part_keys);
  const std::int64_t items = chunk_items<Tile>(a, sequences);
  if (10 * items >= 8 * device_properties().sm_count) return 1;
  const auto rows = static_cast<double>(all_rows(a));
  return split_count(items, ceil_div(most_visible_keys(a), Tile::block_n),
                     device_properties().sm_count,
                     rows / static_cast<double>(items * Tile::block_n));
}

/// Calls work(Tile{}) with the tile for a problem: with packed queries always the same one, since the
/// host knows only how many all sequences have.
template <int d, class T, class Work>
auto with_chunk_tile(const Attention<T>& a, const ChunkSequences& sequences,
                     Work work) {
  return sequences.cu_seqlens_q == nullptr && packed_rows(a) <= kQueries
             ? work(ChunkTile<T, d, 1>{})
             : work(ChunkTile<T, d>{});
}

/// Whether the kernel supports a problem: distances that TMA supports, whole rows from a page to the
/// next, and no more rows and items than ints number.
/// @param a with a batch of 1 where the queries are packed
template <int d, class T>
bool can_chunk(const DecodeAttention<T>& a, const ChunkSequences& sequences) {
  const auto fits = [&](const RowStrides& strides) {
    const PageRows rows = page_rows(a, sequences, strides);
    return rows.row > 0 && rows.row < kRaggedWrap &&
           is_tensor_map_stride(rows.row) &&
           (rows.apart == 0 || strides.batch % rows.row == 0) &&
           (a.kv_heads == 1 ||
            (strides.head > 0 && is_tensor_map_stride(strides.head))) &&
           rows.count < std::numeric_limits<int>::max() - 256;
  };
  const int parts =
      a.part_keys == 0 ? kMostParts : ceil_div(a.length_k, a.part_keys);
  return a.dropout.threshold == 0 && fits(a.k_strides) && fits(a.v_strides) &&
         all_rows(a) <= kMostRows &&
         (a.window == 0 || a.window >= kLeastWindow) &&
         chunk_items<ChunkTile<T, d, 1>>(a, sequences) <=
             std::numeric_limits<int>::max() / 2 / parts;
}

/// What launch_chunks() needs, whatever lengths and pages say.
template <int d, class T>
DecodeWorkspaceSize chunks_workspace(const DecodeAttention<T>& a,
                                     const ChunkSequences& sequences) {
  const int parts = with_chunk_tile<d>(a, sequences, [&](auto tile) {
    return chunk_parts<decltype(tile)>(a, sequences);
  });
  // Parts of a fixed size leave states even where a call has only one.
  const bool merged = parts > 1 || a.part_keys > 0;
  return {merged ? state_floats(parts, all_rows(a), d) : 0, 1};
}

/// launch_chunks() with a tile.
template <class Tile, class T>
void launch_chunk_tiles(const DecodeAttention<T>& a,
                        const ChunkSequences& sequences, const Stream& stream,
                        const DecodeWorkspace& workspace) {
  constexpr int d = Tile::d;
  ChunkSequences own = sequences;
  if (own.pages.block_table == nullptr) own.pages.page_size = 1 << 30;
  // A box that begins with a window must not end with a sequence, too.
  const bool narrow = a.window > 0 && a.window < Tile::block_n;
  const int box_rows =
      std::gcd(own.pages.page_size, narrow ? kLeastWindow : Tile::block_n);
  const auto map = [&](const T* data, const RowStrides& strides) {
    const PageRows rows = page_rows(a, sequences, strides);
    return PageMap{
        ragged_map(data, {rows.count, a.kv_heads, a.head_dim},
                   {rows.row, strides.head}, box_rows),
        tensor_map(data, {rows.count, a.kv_heads, box_rows, a.head_dim},
                   {rows.row, strides.head, rows.row}, box_rows),
        static_cast<int>(rows.apart)};
  };
  const int parts = chunk_parts<Tile>(a, sequences);
  const int rows = numbered_rows(a);
  const auto items =
      static_cast<int>(parts * chunk_items<Tile>(a, sequences));
  const bool merged = chunks_workspace<d>(a, sequences).states > 0;
  const SplitStates states =
      merged ? states_at(workspace.states, parts, rows, d) : SplitStates{};
  const int blocks = std::min(items, device_properties().sm_count);
  launch(stream, decode_chunks<Tile, T>,
         {static_cast<unsigned>(blocks), kWarpgroup * (Tile::consumers + 1),
          sizeof(ChunkShared<Tile>), Tile::stages},
         ChunkWork<T>{a, own, map(a.k, a.k_strides), map(a.v, a.v_strides),
                      box_rows, parts, items, workspace.counters, states});
  if (merged) launch_merge_parts<d>(a, states, parts, stream, true);
}

/// Launches the kernel, and the merge if there are several parts.
/// @param a         for which can_chunk() holds, with a head_dim of at most d
/// @param workspace of chunks_workspace(), with a counter that is 0
template <int d, class T>
void launch_chunks(const DecodeAttention<T>& a,
                   const ChunkSequences& sequences, const Stream& stream,
                   const DecodeWorkspace& workspace) {
  with_chunk_tile<d>(a, sequences, [&](auto tile) {
    launch_chunk_tiles<decltype(tile)>(a, sequences, stream, workspace);
  });
}

FA_LAUNCH_16_BIT(decode, DecodeAttention,
                 (const ChunkSequences&, const Stream&,
                  const DecodeWorkspace&),
                 launch_chunks, (64), (128));

FA_STEP_ROW(decode, 7) {
  return row
      .paged()("07_chunked_prefill", "pages by TMA, persistent wgmma", half{},
               bfloat16{})
      .needs(kNeedsHopper)
      .no_dropout()
      .head_dims(HeadDims<64, 128>{})
      .lengths()
      .floats([](const auto& a, auto d) {
        return chunks_workspace<d>(a, a.sequences).states;
      })
      .zeros([](const auto&, auto) { return 1; })
      .launch([](auto& a, auto d, auto& stream, float* states,
                 unsigned* counter) {
        launch_chunks<d>(a, a.sequences, stream, {states, counter});
      });
}

}  // namespace fa::FA_TARGET
