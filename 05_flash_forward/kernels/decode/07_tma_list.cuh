/// @file
/// Steps 04 and 05 on Hopper: a warp loads by TMA and does not stop where an item ends, so that the
/// first tiles of the next item arrive while this one is merged. wgmma computes 64 rows, most of
/// which may not exist: memory is the limit.
#pragma once

#include "05_flash_forward/kernels/decode/05_paged_kv.cuh"
#include "05_flash_forward/kernels/decode/06_wgmma.cuh"

namespace fa::FA_TARGET {

/// O /= l, for a warpgroup's rows.
template <class T, int r>
__device__ void store_output_rows(const Attention<T>& a,
                                  const DecodeItem& item, const float (&o)[r],
                                  const RowState& rows) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float l = warp_sum<4>(rows.l[h]);
    const float factor = l == 0 ? 0 : 1 / l;
    const int row = item.row0 + lane_row(h);
    if (row >= packed_rows(a)) continue;
    const int head = item.kv_head * group_size(a) + head_in_group(a, row);
    const int query = query_of_row(a, row);
    T* const to = a.o + item.batch * a.o_strides.batch +
                  head * a.o_strides.head + query * a.o_strides.row;
#pragma unroll
    for (int j = 0; j < r / 2; j += 2) {
      const int col = lane_column() + element_column(j);
      if (col < a.head_dim) {
        store_pair(to + col, pack2<T>(factor * row_element(o, h, j),
                                      factor * row_element(o, h, j + 1)));
      }
    }
    if (lane_column() == 0) {
      a.lse[state_row(a, item.batch, head, query)] =
          log_sum(a.scale * rows.m[h], l);
    }
  }
}

/// merge_row() for several rows, whose loads are in flight together.
template <int d, int count, class SlotOf>
__device__ void merge_rows(RowSplit<d> (&all)[count],
                           const SplitStates& states, int parts,
                           const int (&row)[count], float exponent_scale,
                           SlotOf slot_of) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int r = 0; r < count; ++r) all[r] = {-INFINITY, 0, {}};
  for (int part = lane; part < parts; part += kWarp) {
    const std::int64_t i = std::int64_t{slot_of(part)} * states.rows;
#pragma unroll
    for (int r = 0; r < count; ++r) {
      all[r].m = fmaxf(all[r].m, states.m[i + row[r]]);
    }
  }
#pragma unroll
  for (int r = 0; r < count; ++r) all[r].m = warp_max(all[r].m);
  for (int part0 = 0; part0 < parts; part0 += kWarp) {
    const bool exists = part0 + lane < parts;
    const std::int64_t i =
        std::int64_t{slot_of(exists ? part0 + lane : parts - 1)} *
        states.rows;
    float factor[count];
#pragma unroll
    for (int r = 0; r < count; ++r) {
      factor[r] =
          exists ? part_factor(states.m[i + row[r]], all[r].m, exponent_scale)
                 : 0;
      all[r].l += factor[r] * states.l[i + row[r]];
    }
    const int end = parts - part0 < kWarp ? parts - part0 : kWarp;
#pragma unroll 4
    for (int p = 0; p < end; ++p) {
      const std::int64_t of_part = __shfl_sync(kAllLanes, i, p);
#pragma unroll
      for (int r = 0; r < count; ++r) {
        const float* const o =
            states.o + (of_part + row[r]) * states.pitch + lane * (d / kWarp);
        const float f = __shfl_sync(kAllLanes, factor[r], p);
#pragma unroll
        for (int e = 0; e < d / kWarp; e += 2) {
          float pair[2];
          load2(pair, o + e);
          // Not 0 x infinity.
          all[r].o[e] += f == 0 ? 0 : f * pair[0];
          all[r].o[e + 1] += f == 0 ? 0 : f * pair[1];
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < count; ++r) all[r].l = warp_sum(all[r].l);
}

/// The same for a part of an item: leaves the state, and merges if it is the last.
template <class Tile, class T, int r>
__device__ void finish_rows(const Attention<T>& a, const ItemPart& part,
                            const EvenTiles& even, const SplitStates& states,
                            unsigned* counter, const float (&o)[r],
                            const RowState& rows) {
  const DecodeItem& item = part.item;
  if (part.begin == 0 && part.end == part.tiles) {
    store_output_rows(a, item, o, rows);
    return;
  }
  const std::int64_t first =
      std::int64_t{even.slot(even.own, part.first)} * states.rows;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float l = warp_sum<4>(rows.l[h]);
    const std::int64_t i = first + lane_row(h);
    if (item.row0 + lane_row(h) >= packed_rows(a)) continue;
#pragma unroll
    for (int j = 0; j < r / 2; j += 2) {
      store2(states.o + i * states.pitch + lane_column() + element_column(j),
             row_element(o, h, j), row_element(o, h, j + 1));
    }
    if (lane_column() == 0) {
      states.m[i] = rows.m[h];
      states.l[i] = l;
    }
  }
  const int first_block = even.block_of(part.first);
  const int parts =
      even.block_of(part.first + part.tiles - 1) - first_block + 1;
  const auto sync = [] { named_barrier_wait(1, kWarpgroup); };
  if (!last_to_arrive(counter, parts, sync)) return;
  const auto slot_of = [&](int i) {
    return even.slot(first_block + i, part.first);
  };
  constexpr int at_once = 4;
  const int left = packed_rows(a) - item.row0;
  const int count = left < Tile::block_m ? left : Tile::block_m;
  for (int row0 = threadIdx.x / kWarp * at_once; row0 < count;
       row0 += kWarpgroup / kWarp * at_once) {
    int own[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      own[i] = row0 + i < count ? row0 + i : count - 1;
    }
    RowSplit<Tile::d> merged[at_once];
    merge_rows(merged, states, parts, own, a.scale * kLog2E, slot_of);
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int packed = item.row0 + own[i];
      store_output(a, item.batch,
                   item.kv_head * group_size(a) + head_in_group(a, packed),
                   query_of_row(a, packed), merged[i]);
    }
  }
}

/// The warp that loads: a lane for each piece of a tile.
/// @param piece_rows of a box
template <class Tile, class T>
__device__ void load_list(WgmmaDecodeShared<Tile>& shared,
                          const TensorMap& k_map, const TensorMap& v_map,
                          const Attention<T>& a, const int* lengths_k,
                          const PagedKv& pages, int piece_rows) {
  using KvTile = typename Tile::KTile;
  const int lane = threadIdx.x % kWarp;
  const int pieces = Tile::block_n / piece_rows, row = lane * piece_rows;
  PipelineState<Tile::stages> at;
  for_each_part<Tile>(
      a, lengths_k, [&](const ItemPart& part, const EvenTiles&) {
        const int batch = part.item.batch;
        const auto find = [&](int tile) -> PagePiece {
          const int key = tile * Tile::block_n + row;
          if (pages.block_table == nullptr) return {batch, key};
          if (lane >= pieces || key >= part.keys) return {0, 0};
          const int page =
              pages.block_table[std::int64_t{batch} * pages.most_pages +
                                key / pages.page_size];
          return {page >= 0 && page < pages.cache_pages ? page : 0,
                  key % pages.page_size};
        };
        PagePiece piece = find(part.begin);
        for (int tile = part.begin; tile < part.end; ++tile, at.advance()) {
          if (lane == 0) {
            shared.pipe.producer_acquire(at, 2 * KvTile::bytes);
          }
          __syncwarp();
          if (lane < pieces) {
#pragma unroll
            for (int panel = 0; panel < KvTile::panels; ++panel) {
              const int to =
                  panel * KvTile::panel_size + row * KvTile::panel_cols;
              const int col = panel * KvTile::panel_cols;
              Mbarrier& full = shared.pipe.full[at.stage];
              tma_load(shared.k[at.stage].data + to, k_map, full, col,
                       piece.token, part.item.kv_head, piece.page,
                       CacheHint::kEvictFirst);
              tma_load(shared.v[at.stage].data + to, v_map, full, col,
                       piece.token, part.item.kv_head, piece.page,
                       CacheHint::kEvictFirst);
            }
          }
          piece = find(tile + 1);
        }
      });
}

/// Writes zeros to the rows of a tile from `first` on. All threads of a warpgroup call it; wgmma
/// may follow.
template <class KvTile>
__device__ void zero_rows(KvTile& tile, int first) {
  constexpr int chunks = KvTile::cols / 8;
  const int begin = first < 0 ? 0 : first;
  for (int i = begin * chunks + threadIdx.x; i < KvTile::rows * chunks;
       i += kWarpgroup) {
    store4(tile.at(i / chunks, i % chunks * 8), make_float4(0, 0, 0, 0));
  }
  fence_async_proxy();
  named_barrier_wait(1, kWarpgroup);
}

/// Attention of tiles of several items.
/// @tparam Tile a WgmmaDecodeTile
/// @param states as those of step 04, for Tile
//! [tma_list]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup + kWarp, 1)
    decode_tma_list(const __grid_constant__ TensorMap k_map,
                    const __grid_constant__ TensorMap v_map, Attention<T> a,
                    const int* lengths_k, PagedKv pages, int piece_rows,
                    SplitStates states, unsigned* counters) {
  constexpr int d = Tile::d;
  auto& shared = *dynamic_shared<WgmmaDecodeShared<Tile>>();
  if (threadIdx.x == 0) {
    shared.pipe.init(kWarpgroup / kWarp);
    fence_barrier_init();
  }
  __syncthreads();                  // the barriers are initialised
  if (threadIdx.x >= kWarpgroup) {  // the producer
    load_list<Tile>(shared, k_map, v_map, a, lengths_k, pages, piece_rows);
    return;
  }
  PipelineState<Tile::stages> at;
  for_each_part<Tile>(
      a, lengths_k, [&](const ItemPart& part, const EvenTiles& even) {
        Attention<T> own = a;  // this sequence
        own.length_k = part.keys;
        const DecodeItem& item = part.item;
        std::uint32_t q[d / 16][4];
        load_q_fragments<d>(q, a, item, item.row0 + threadIdx.x / kWarp * 16,
                            threadIdx.x % kWarp);
        const int unmasked =
            visible_keys(own, query_of_row(a, item.row0)) / Tile::block_n;
        WarpgroupOutput<Tile> o = {};
        RowState rows = empty_row_state();
        for (int tile = part.begin; tile < part.end; ++tile, at.advance()) {
          const int key0 = tile * Tile::block_n;
          shared.pipe.consumer_wait(at);
          // S = Q K^T
          WarpgroupScores<Tile> s;
          wgmma_fence(s, q);
#pragma unroll
          for (int kk = 0; kk < d; kk += 16) {
            wgmma<T>(s, q[kk / 16], shared.k[at.stage].by_rows(0, kk),
                     kk > 0);
          }
          wgmma_commit(s, q);
          wgmma_wait<0>(s, q);
          if (tile >= unmasked) mask_packed_rows(s, own, item.row0, key0);
          // P = exp2(scale (S - m))
          float rescale[2];
          if (online_softmax<true>(s, rows, rescale, a.scale * kLog2E)) {
            rescale_o(o, rescale);
          }
          WarpgroupProbs<Tile> p;
          round_to_operand<T>(p, s);
          if (key0 + Tile::block_n > part.keys) {  // not 0 x NaN
            zero_rows(shared.v[at.stage], part.keys - key0);
          }
          // O += P V
          issue_pv(o, p, shared.v[at.stage]);
          wgmma_wait<0>(o, p);
          if (threadIdx.x % kWarp == 0) shared.pipe.consumer_release(at);
        }
        finish_rows<Tile>(a, part, even, states, counters + part.counter, o,
                          rows);
      });
}
//! [tma_list]

/// Blocks of a launch.
template <class T>
int tma_list_blocks(const Attention<T>& a) {
  return a.kv_heads * std::max(1, device_properties().sm_count / a.kv_heads);
}

/// Floats of workspace that launch_tma_list() needs.
template <int d, class T>
DecodeWorkspaceSize tma_list_workspace(const Attention<T>& a) {
  using Tile = WgmmaDecodeTile<T, d>;
  return {state_floats(2 * tma_list_blocks(a), Tile::block_m, d),
          std::int64_t{a.batch} * a.kv_heads * row_tiles_of<Tile>(a)};
}

/// Whether TMA supports the strides of K and V.
template <class T>
bool can_use_tma_list(const Attention<T>& a, const PagedKv& pages) {
  const bool paged = pages.block_table != nullptr;
  const auto fits = [&](const RowStrides& strides) {
    const auto supported = [](int count, std::int64_t stride) {
      return count == 1 || (stride > 0 && is_tensor_map_stride(stride));
    };
    return supported(paged ? pages.cache_pages : a.batch, strides.batch) &&
           supported(a.kv_heads, strides.head) &&
           supported(paged ? pages.page_size : a.length_k, strides.row);
  };
  return fits(a.k_strides) && fits(a.v_strides);
}

/// Launches the kernel; see launch_paged_kv(). Without a block table as launch_even_tiles().
/// @param a for which can_use_tma_list() holds
template <int d, class T>
void launch_tma_list(const Attention<T>& a, const int* lengths_k,
                     const PagedKv& pages, const Stream& stream,
                     const DecodeWorkspace& workspace) {
  using Tile = WgmmaDecodeTile<T, d>;
  const bool paged = pages.block_table != nullptr;
  const int piece_rows = !paged || pages.page_size % 64 == 0 ? 64
                         : pages.page_size % 32 == 0         ? 32
                                                             : 16;
  const auto map_of = [&](const T* data, const RowStrides& strides) {
    return tensor_map(data,
                      {paged ? pages.cache_pages : a.batch, a.kv_heads,
                       paged ? pages.page_size : a.length_k, a.head_dim},
                      {strides.batch, strides.head, strides.row}, piece_rows);
  };
  const int blocks = tma_list_blocks(a);
  launch(stream, decode_tma_list<Tile, T>,
         {{static_cast<unsigned>(blocks)},
          {kWarpgroup + kWarp},
          sizeof(WgmmaDecodeShared<Tile>),
          Tile::stages},
         map_of(a.k, a.k_strides), map_of(a.v, a.v_strides), a, lengths_k,
         pages, piece_rows,
         states_at(workspace.states, 2 * blocks, Tile::block_m, d),
         workspace.counters);
}

}  // namespace fa::FA_TARGET
