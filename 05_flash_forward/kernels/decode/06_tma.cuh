/// @file
/// A producer warp, TMA and wgmma, for Hopper. The producer goes through the block's piece of the
/// list by itself: while the others end an item, the tiles of the next one arrive. A tile has 64
/// rows, and a cache that lies in one piece is one with a page for each sequence.
#pragma once

#include <numeric>

#include "05_flash_forward/kernels/decode/05_paged_kv.cuh"
#include "05_flash_forward/kernels/hopper_forward.cuh"

namespace fa::FA_TARGET {

/// Tile sizes: 64 rows and 64 keys. Two blocks fit on an SM.
template <class T, int head_dim>
struct TmaDecodeTile
    : HopperTile<T, head_dim, 64, 1, head_dim == 128 ? 3 : 6> {
  static constexpr int warps = kWarpgroup / kWarp;    // with rows
  static constexpr int threads = kWarpgroup + kWarp;  // and the producer
};

/// Shared memory of a block.
template <class Tile>
struct TmaDecodeShared {
  typename Tile::KTile k[Tile::stages];
  typename Tile::VTile v[Tile::stages];
  Pipeline<Tile::stages> pipe;  // of K and V together
};

/// A decode problem with the maps of its cache.
template <class T>
struct TmaDecode {
  TensorMap k;  ///< boxes of box_rows
  TensorMap v;
  Attention<T> a;
  PagedKv pages;  ///< without a table: a page for each sequence
  int box_rows;   ///< of one page: all of a tile's, or fewer
};

/// Where a lane's box of a tile begins: lane i has box i.
//! [find_box]
template <class Tile, class T>
__device__ PagePiece find_box(const TmaDecode<T>& in, const ItemPart& part,
                              int tile, int length_k) {
  const int lane = threadIdx.x % kWarp;
  const int key = tile * Tile::block_n + lane * in.box_rows;
  const PagedKv& pages = in.pages;
  if (pages.block_table == nullptr) return {part.item.batch, key};
  if (lane >= Tile::block_n / in.box_rows || key >= length_k) return {0, 0};
  const int page =
      pages.block_table[std::int64_t{part.item.batch} * pages.most_pages +
                        key / pages.page_size];
  return {page >= 0 && page < pages.cache_pages ? page : 0,
          key % pages.page_size};
}
//! [find_box]

/// The producer: copies the tiles of all parts of items, in the order in which they are used.
//! [produce]
template <class Tile, class T>
__device__ void load_decode_tiles(TmaDecodeShared<Tile>& shared,
                                  const TmaDecode<T>& in,
                                  const TileList<Tile, T>& list,
                                  const EvenTiles& even) {
  const int lane = threadIdx.x % kWarp;
  const bool has_box = lane < Tile::block_n / in.box_rows;
  PipelineState<Tile::stages> write;
  for_parts_of_block(
      list, even, [&](const Attention<T>& own, const ItemPart& part) {
        const auto find = [&](int tile) {
          return find_box<Tile>(in, part, tile, own.length_k);
        };
        PagePiece box = find(part.begin);
        for (int tile = part.begin; tile < part.end; ++tile) {
          if (lane == 0) {
            shared.pipe.producer_acquire(
                write, Tile::KTile::bytes + Tile::VTile::bytes);
          }
          __syncwarp();  // the stage is empty
          if (has_box) {
            Mbarrier& full = shared.pipe.full[write.stage];
            const int at = lane * in.box_rows * Tile::KTile::panel_cols;
#pragma unroll
            for (int panel = 0; panel < Tile::KTile::panels; ++panel) {
              const int col = panel * Tile::KTile::panel_cols;
              const int to = panel * Tile::KTile::panel_size + at;
              tma_load(shared.k[write.stage].data + to, in.k, full, col,
                       box.token, part.item.kv_head, box.page,
                       CacheHint::kEvictFirst);
              tma_load(shared.v[write.stage].data + to, in.v, full, col,
                       box.token, part.item.kv_head, box.page,
                       CacheHint::kEvictFirst);
            }
          }
          write.advance();
          box = find(tile + 1);
        }
      });
}
//! [produce]

/// Masks the scores of keys that packed rows do not see.
/// @param row0 the warpgroup's first row
template <class T, int r>
__device__ void mask_packed_rows(float (&s)[r], const Attention<T>& a,
                                 int row0, int key0) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = query_of_row(a, row0 + lane_row(h));
    const int visible = visible_keys(a, query) - key0 - lane_column();
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      if (element_column(i) >= visible) row_element(s, h, i) = -INFINITY;
    }
  }
}

/// Zeros in the rows of a tile behind the last key: what a cache has there may be NaN, and
/// 0 x NaN is NaN.
template <class VTile>
__device__ void clear_rows_from(VTile& v, int first) {
  constexpr int pieces = VTile::cols / 8;  // of 16 bytes, in a row
#pragma unroll 1
  for (int i = threadIdx.x; i < VTile::rows * pieces; i += kWarpgroup) {
    if (i / pieces >= first) {
      store4(v.at(i / pieces, i % pieces * 8), float4{0, 0, 0, 0});
    }
  }
  fence_async_proxy();  // wgmma sees the zeros
  named_barrier_wait(1, kWarpgroup);
}

/// S = Q K^T of 64 rows, with Q in registers.
template <int d, class KTile, int r>
__device__ void issue_q_k(float (&s)[r], std::uint32_t (&q)[d / 16][4],
                          const KTile& k) {
  wgmma_fence(s, q);
#pragma unroll
  for (int kk = 0; kk < d; kk += 16) {
    wgmma<typename KTile::Element>(s, q[kk / 16], k.by_rows(0, kk), kk > 0);
  }
  wgmma_commit(s, q);
}

/// The softmax state of 64 rows, in the registers of a warpgroup.
template <class Tile>
struct DecodeState {
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
};

/// Attention of an item's rows to the tiles of a part.
//! [attend_to_part]
template <class Tile, class T>
__device__ void attend_to_part(DecodeState<Tile>& state,
                               TmaDecodeShared<Tile>& shared,
                               const Attention<T>& a, const ItemPart& part,
                               PipelineState<Tile::stages>& read) {
  constexpr int d = Tile::d, keys = Tile::block_n;
  const int row0 = part.item.row0;
  const int unmasked = visible_keys(a, query_of_row(a, row0)) / keys;
  std::uint32_t q[d / 16][4];
  load_q_fragments<d>(q, a, part.item, row0 + threadIdx.x / kWarp * 16,
                      threadIdx.x % kWarp);
  const auto step = [&](int tile, auto edge) {
    constexpr bool masked = decltype(edge)::value;
    const int key0 = tile * keys;
    shared.pipe.consumer_wait(read);
    auto& v = shared.v[read.stage];
    // S = Q K^T
    WarpgroupScores<Tile> s;
    issue_q_k<d>(s, q, shared.k[read.stage]);
    wgmma_wait<0>(s, q);
    if constexpr (masked) {
      mask_packed_rows(s, a, row0, key0);
      if (key0 + keys > a.length_k) clear_rows_from(v, a.length_k - key0);
    }
    // P = exp2(scale (S - m))
    float rescale[2];
    if (online_softmax<masked>(s, state.rows, rescale, a.scale * kLog2E)) {
      rescale_o(state.o, rescale);
    }
    WarpgroupProbs<Tile> p;
    round_to_operand<T>(p, s);
    // O += P V
    issue_pv(state.o, p, v);
    wgmma_wait<0>(state.o, p);
    if (threadIdx.x % kWarp == 0) shared.pipe.consumer_release(read);
    read.advance();
  };
  const int plain_end = unmasked < part.end ? unmasked : part.end;
  int tile = part.begin;
  for (; tile < plain_end; ++tile) step(tile, std::false_type{});
  for (; tile < part.end; ++tile) step(tile, std::true_type{});
}
//! [attend_to_part]

/// Writes O and LSE of a part that is the whole item; else leaves its state.
/// @param slot of the state
//! [store_part]
template <class Tile, class T>
__device__ void store_part(const DecodeState<Tile>& state,
                           const Attention<T>& a, const ItemPart& part,
                           const SplitStates& states, int slot) {
  const DecodeItem& item = part.item;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float m = state.rows.m[h], l = warp_sum<4>(state.rows.l[h]);
    const int row = lane_row(h), packed = item.row0 + row;
    if (packed >= packed_rows(a)) continue;
    if (!part.is_whole()) {
      const std::int64_t at = std::int64_t{slot} * states.rows + row;
      float* const to = states.o + at * states.pitch + lane_column();
#pragma unroll
      for (int i = 0; i < Tile::d / 4; i += 2) {
        store2(to + element_column(i), row_element(state.o, h, i),
               row_element(state.o, h, i + 1));
      }
      if (lane_column() == 0) {
        states.m[at] = m;
        states.l[at] = l;
      }
      continue;
    }
    const int query = query_of_row(a, packed);
    const int head = item.kv_head * group_size(a) + head_in_group(a, packed);
    const float factor = l == 0 ? 0 : 1 / l;
    T* const to = a.o + item.batch * a.o_strides.batch +
                  head * a.o_strides.head + query * a.o_strides.row +
                  lane_column();
#pragma unroll
    for (int i = 0; i < Tile::d / 4; i += 2) {
      if (element_column(i) >= a.head_dim) continue;
      store_pair(to + element_column(i),
                 pack2<T>(factor * row_element(state.o, h, i),
                          factor * row_element(state.o, h, i + 1)));
    }
    if (lane_column() == 0) {
      a.lse[state_row(a, item.batch, head, query)] = log_sum(a.scale * m, l);
    }
  }
}
//! [store_part]

/// Attention of tiles of several items.
/// @tparam Tile a TmaDecodeTile
/// @tparam T    half or bfloat16
/// @param lengths_k keys of each sequence, at most a.length_k; null: all have a.length_k
/// @param states    for two parts of a tile of rows for each block
//! [decode_tma]
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, kDecodeBlocks)
    decode_tma(const __grid_constant__ TmaDecode<T> in, const int* lengths_k,
               SplitStates states, unsigned* counters) {
  auto& shared = *dynamic_shared<TmaDecodeShared<Tile>>();
  if (threadIdx.x == 0) {
    shared.pipe.init(Tile::warps);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are initialised
  const TileList<Tile, T> list{in.a, lengths_k};
  const EvenTiles even = divide_evenly(list);
  if (threadIdx.x >= kWarpgroup) {
    load_decode_tiles(shared, in, list, even);
    return;
  }
  PipelineState<Tile::stages> read;
  for_parts_of_block(
      list, even, [&](const Attention<T>& own, const ItemPart& part) {
        DecodeState<Tile> state;
        attend_to_part(state, shared, own, part, read);
        store_part(state, own, part, states,
                   even.slot(blockIdx.x, part.first));
        if (part.is_whole()) return;
        merge_if_last<Tile>(own, part, even, states,
                            counter_of(list, part, counters),
                            [] { named_barrier_wait(1, kWarpgroup); });
      });
}
//! [decode_tma]

/// Whether the kernel supports a problem: strides that TMA supports, and keys.
/// @param caches pages of the cache, or sequences
/// @param rows   of a page, or keys of a sequence
template <class T>
bool can_decode_with_tma(const Attention<T>& a, std::int64_t caches,
                         std::int64_t rows) {
  const auto fits = [&](const RowStrides& strides) {
    const auto supported = [](std::int64_t count, std::int64_t stride) {
      return count == 1 || (stride > 0 && is_tensor_map_stride(stride));
    };
    return supported(caches, strides.batch) &&
           supported(a.kv_heads, strides.head) &&
           supported(rows, strides.row);
  };
  return rows > 0 && fits(a.k_strides) && fits(a.v_strides);
}

/// Launches the kernel.
/// @param a         as launch_even_tiles() has it, or launch_paged_kv() with a table, for which
///                  can_decode_with_tma() holds
/// @param lengths_k in the memory of the device: keys of each sequence; null: all have length_k
/// @param pages     without a table: k and v are [batch, kv_heads, length_k, head_dim]
/// @param workspace of even_tiles_workspace(), with counters that are 0
/// @throws as launch_paged_kv() and tensor_map()
//! [launch]
template <int d, class T>
void launch_decode_tma(const Attention<T>& a, const int* lengths_k,
                       const PagedKv& pages, const Stream& stream,
                       const DecodeWorkspace& workspace) {
  using Tile = TmaDecodeTile<T, d>;
  const bool paged = pages.block_table != nullptr;
  if (paged) check_pages_of(a, pages);
  const int box_rows =
      paged ? std::gcd(pages.page_size, Tile::block_n) : Tile::block_n;
  const auto map = [&](const T* data, const RowStrides& strides) {
    return tensor_map(data,
                      {paged ? pages.cache_pages : a.batch, a.kv_heads,
                       paged ? pages.page_size : a.length_k, a.head_dim},
                      {strides.batch, strides.head, strides.row}, box_rows);
  };
  const int blocks = even_blocks();
  const int rows = std::min(packed_rows(a), Tile::block_m);
  launch(stream, decode_tma<Tile, T>,
         {{static_cast<unsigned>(blocks)},
          {Tile::threads},
          sizeof(TmaDecodeShared<Tile>),
          Tile::stages},
         TmaDecode<T>{map(a.k, a.k_strides), map(a.v, a.v_strides), a, pages,
                      box_rows},
         lengths_k, states_at(workspace.states, 2 * blocks, rows, d),
         workspace.counters);
}
//! [launch]

}  // namespace fa::FA_TARGET
