/// @file
/// Chunks of queries on Hopper: 64 rows are those of wgmma, so that a warpgroup reads a tile of K and
/// V from shared memory once, not once in each warp. One block on an SM, with a warp that loads by
/// TMA; half as many parts as blocks of step 02, so half as many states. Two warpgroups alternate:
/// while one computes exponentials, the other one multiplies. The kernel that merges the states of
/// parts is already there when the last of them is written.
#pragma once

#include "05_flash_forward/kernels/decode/03_one_launch.cuh"
#include "05_flash_forward/kernels/hopper_forward.cuh"
#include "common/attention/tma_support.cuh"

namespace fa::FA_TARGET {

/// Warpgroups of a block, with every second tile each.
constexpr int kDecodeWarpgroups = 2;

/// 64 rows, 32 keys of a stage, and stages of 64 KiB: with more on the way the memory was slower.
template <class T, int d>
using WgmmaDecodeTile = HopperTile<T, d, 32, 1, d == 128 ? 4 : 8>;

/// Shared memory of a block.
template <class Tile>
struct WgmmaDecodeShared {
  typename Tile::KTile k[Tile::stages];
  typename Tile::VTile v[Tile::stages];
  Pipeline<Tile::stages> pipe;               // of K and V
  float state[Tile::d / 2 + 4][kWarpgroup];  // see leave_state()
};

/// Leaves the states of a warpgroup's rows to the other one: of each lane O, m and l.
template <int r>
__device__ void leave_state(float (*state)[kWarpgroup], const float (&o)[r],
                            const RowState& rows) {
  const int lane = threadIdx.x % kWarpgroup;
#pragma unroll
  for (int i = 0; i < r; ++i) state[i][lane] = o[i];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    state[r + h][lane] = rows.m[h];
    state[r + 2 + h][lane] = rows.l[h];
  }
}

/// Merges what leave_state() left in the same lane of the other warpgroup with this one's states.
template <int r>
__device__ void merge_state(float (&o)[r], RowState& rows,
                            const float (*state)[kWarpgroup],
                            float exponent_scale) {
  const int lane = threadIdx.x % kWarpgroup;
  float others[r];
#pragma unroll
  for (int i = 0; i < r; ++i) others[i] = state[i][lane];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float m = state[r + h][lane], largest = fmaxf(rows.m[h], m);
    const float of_own = part_factor(rows.m[h], largest, exponent_scale);
    const float of_other = part_factor(m, largest, exponent_scale);
    rows.m[h] = largest;
    rows.l[h] = of_own * rows.l[h] + of_other * state[r + 2 + h][lane];
#pragma unroll
    for (int j = 0; j < r / 2; ++j) {
      row_element(o, h, j) = of_own * row_element(o, h, j) +
                             of_other * row_element(others, h, j);
    }
  }
}

/// mask_rows() of a warpgroup.
template <template <class> class A, class T, int r>
__device__ void mask_packed_rows(float (&s)[r], const A<T>& a, int row0,
                                 int key0) {
  const int lane_key = key0 + lane_column();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = query_of_row(a, row0 + lane_row(h));
    const KeyInterval visible = visible_range(a, query);
    const int begin = visible.begin - lane_key, end = visible.end - lane_key;
#pragma unroll
    for (int i0 = 0; i0 < r / 2; i0 += 8) {  // 32 keys
      const unsigned bits = draft_bits(a, query, key0 + 4 * i0);
#pragma unroll
      for (int i = i0; i < i0 + 8; ++i) {
        const int col = element_column(i);
        if (col < begin || col >= end ||
            (bits >> (col % 32 + lane_column()) & 1) == 0) {
          row_element(s, h, i) = -INFINITY;
        }
      }
    }
  }
}

/// Leaves what a lane has of its row h as that of a part.
/// @param row of the states
/// @param l   of all lanes of the row
template <int r>
__device__ void store_lane_state(const SplitStates& states, int part, int row,
                                 const float (&o)[r], int h, float m,
                                 float l) {
  const std::int64_t i = std::int64_t{part} * states.rows + row;
#pragma unroll
  for (int j = 0; j < r / 2; j += 2) {
    store2(states.o + i * states.pitch + lane_column() + element_column(j),
           row_element(o, h, j), row_element(o, h, j + 1));
  }
  if (lane_column() == 0) {
    states.m[i] = m;
    states.l[i] = l;
  }
}

/// Leaves the states of a warpgroup's rows as those of a part.
template <class T, int r>
__device__ void store_packed_rows(const SplitStates& states, int part,
                                  const Attention<T>& a,
                                  const DecodeItem& item, const float (&o)[r],
                                  const RowState& rows) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float l = warp_sum<4>(rows.l[h]);
    const int row = item.row0 + lane_row(h);
    if (row >= packed_rows(a)) continue;
    const int head = item.kv_head * group_size(a) + head_in_group(a, row);
    store_lane_state(states, part,
                     state_row(a, item.batch, head, query_of_row(a, row)), o,
                     h, rows.m[h], l);
  }
}

/// The states of a part of the keys, for 64 rows.
/// @tparam Tile a WgmmaDecodeTile
template <class Tile, class T>
__global__ void __launch_bounds__(kDecodeWarpgroups* kWarpgroup + kWarp, 1)
    decode_wgmma(const __grid_constant__ TensorMap k_map,
                 const __grid_constant__ TensorMap v_map, Attention<T> a,
                 SplitStates states, int parts) {
  constexpr int d = Tile::d;
  static_assert(Tile::stages % kDecodeWarpgroups == 0,
                "a stage is always of the same warpgroup");
  auto& shared = *dynamic_shared<WgmmaDecodeShared<Tile>>();
  launch_dependents();
  const DecodeItem item = item_of_block<Tile>(a);
  const int part = blockIdx.x;
  const int end = part_of_tiles<Tile>(a, item, part, parts).end;
  if (threadIdx.x == 0) {
    shared.pipe.init(kWarpgroup / kWarp);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are initialised
  PipelineState<Tile::stages> at;
  const int warpgroup = warpgroup_index();
  if (warpgroup == kDecodeWarpgroups) {  // the producer
    if (threadIdx.x % kWarpgroup != 0) return;
    for (int tile = part; tile < end; tile += parts, at.advance()) {
      const int key0 = tile * Tile::block_n;
      Mbarrier& full = shared.pipe.producer_acquire(
          at, Tile::KTile::bytes + Tile::VTile::bytes);
      load_tile(shared.k[at.stage], k_map, full, key0, item.kv_head,
                item.batch);
      load_tile(shared.v[at.stage], v_map, full, key0, item.kv_head,
                item.batch);
    }
    return;
  }
  std::uint32_t q[d / 16][4];
  load_q_fragments<d>(q, a, item, item.row0 + threadIdx.x / kWarp % 4 * 16,
                      threadIdx.x % kWarp);
  const int unmasked =
      visible_keys(a, query_of_row(a, item.row0)) / Tile::block_n;
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
  //! [loop]
  if (warpgroup == 1) at.advance();
  for (int tile = part + warpgroup * parts; tile < end;
       tile += kDecodeWarpgroups * parts) {
    shared.pipe.consumer_wait(at);
    // S = Q K^T
    WarpgroupScores<Tile> s;
    wgmma_fence(s, q);
#pragma unroll
    for (int kk = 0; kk < d; kk += 16) {
      wgmma<T>(s, q[kk / 16], shared.k[at.stage].by_rows(0, kk), kk > 0);
    }
    wgmma_commit(s, q);
    wgmma_wait<0>(s, q);
    if (tile >= unmasked) {
      mask_packed_rows(s, a, item.row0, tile * Tile::block_n);
    }
    // P = exp2(exponent_scale (S - m))
    float rescale[2];
    if (online_softmax<true>(s, rows, rescale, a.scale * kLog2E)) {
      rescale_o(o, rescale);
    }
    WarpgroupProbs<Tile> p;
    round_to_operand<T>(p, s);
    // O += P V
    issue_pv(o, p, shared.v[at.stage]);
    wgmma_wait<0>(o, p);
    if (threadIdx.x % kWarp == 0) shared.pipe.consumer_release(at);
    at.advance();  // over the other warpgroup's tile
    at.advance();
  }
  //! [loop]
  if (warpgroup == 1) {
    leave_state(shared.state, o, rows);
    named_barrier_arrive(1, kDecodeWarpgroups * kWarpgroup);
    return;
  }
  named_barrier_wait(1, kDecodeWarpgroups * kWarpgroup);
  merge_state(o, rows, shared.state, a.scale * kLog2E);
  store_packed_rows(states, part, a, item, o, rows);
}

/// Parts of each item's keys on this GPU.
template <class Tile, class T>
int decode_wgmma_parts(const Attention<T>& a) {
  return split_count(
      std::int64_t{a.batch} * a.kv_heads * row_tiles_of<Tile>(a),
      ceil_div(a.length_k, Tile::block_n), device_properties().sm_count,
      rows_per_key<Tile>(a));
}

/// Floats of workspace that launch_decode_wgmma() needs.
template <int d, class T>
std::int64_t decode_wgmma_workspace(const Attention<T>& a) {
  const int rows = numbered_rows(a);
  return state_floats(decode_wgmma_parts<WgmmaDecodeTile<T, d>>(a), rows, d);
}

/// Launches both kernels.
/// @param a with a head_dim of at most d, for which can_use_tma() holds
template <int d, class T>
void launch_decode_wgmma(const Attention<T>& a, const Stream& stream,
                         float* workspace) {
  using Tile = WgmmaDecodeTile<T, d>;
  const int parts = decode_wgmma_parts<Tile>(a);
  const int rows = numbered_rows(a);
  const SplitStates states = states_at(workspace, parts, rows, d);
  launch(stream, decode_wgmma<Tile, T>,
         {decode_grid<Tile>(a, parts), kDecodeWarpgroups * kWarpgroup + kWarp,
          sizeof(WgmmaDecodeShared<Tile>), Tile::stages},
         map_of_keys(a, a.k, a.k_strides, a.head_dim, Tile::block_n),
         map_of_keys(a, a.v, a.v_strides, a.head_dim, Tile::block_n), a,
         states, parts);
  launch_merge_parts<d>(a, states, parts, stream, true);
}

FA_LAUNCH_16_BIT(decode, Attention, (const Stream&, float*),
                 launch_decode_wgmma, (64), (128));

FA_STEP_ROW(decode, 6) {
  return row("06_wgmma", "64 rows: wgmma and TMA", half{}, bfloat16{})
      .needs(kNeedsHopper)
      .no_dropout()
      .head_dims(HeadDims<64, 128>{})
      .floats(
          [](const auto& a, auto d) { return decode_wgmma_workspace<d>(a); })
      .launch([](auto& a, auto d, auto& stream, float* states) {
        launch_decode_wgmma<d>(a, stream, states);
      });
}

}  // namespace fa::FA_TARGET
