/// @file
/// One launch: the block of an item that is the last to leave its state merges all of them, and
/// the number of parts comes from a model of what they cost, split_count().
///
/// Source of the last block's merge: CUDA Programming Guide, "Memory Fence Functions".
#pragma once

#include "05_flash_forward/kernels/decode/decode_tile.cuh"
#include "05_flash_forward/kernels/decode/split_count.hpp"
#include "common/attention/head_dim.cuh"

namespace fa::FA_TARGET {

/// Memory beside the tensors, of workspaces_of(): the states of parts, and for each item how many
/// of its parts have been left. Counters are 0 before a launch and after it.
struct DecodeWorkspace {
  float* states;
  unsigned* counters;
};

/// Whether this block is the last of `parts` blocks to leave a state: it sees those of the others,
/// and the counter is 0 again. All threads call it when they have stored theirs.
//! [last_to_arrive]
__device__ inline bool last_to_arrive(unsigned* counter, int parts) {
  __shared__ bool is_last;
  __syncthreads();  // all threads have stored their rows
  if (threadIdx.x == 0) {
    __threadfence();  // before the counter, for all of them
    const unsigned before = atomic_add_acquire(counter, 1);
    is_last = before + 1 == static_cast<unsigned>(parts);
    if (is_last) *counter = 0;
  }
  __syncthreads();  // is_last is set
  return is_last;
}
//! [last_to_arrive]

/// Attention of a part of the keys, for a tile of rows; the last of an item's blocks writes O.
/// @tparam Tile a DecodeTile
/// @tparam T    half or bfloat16
//! [one_launch]
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, kDecodeBlocks)
    decode_one_launch(Attention<T> a, SplitStates states, unsigned* counters,
                      int parts) {
  constexpr int d = Tile::d, stages = Tile::stages, keys = Tile::block_n;
  using Warp = typename Tile::Warp;
  T* const k_smem = dynamic_shared<T>();
  T* const v_smem = k_smem + stages * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp,
            warp = thread / kWarp;
  const auto item = item_of_block<Tile>(a);
  const int warp_row = item.row0 + warp % Tile::row_warps * 16;
  const int warp_key = warp / Tile::row_warps * Warp::block_n;
  const float exponent_scale = a.scale * kLog2E;
  //! [part]
  const int last_row = item.row0 + Tile::block_m - 1;
  const int tiles =
      ceil_div(visible_keys(a, query_of_row(a, last_row)), keys);
  const int unmasked = visible_keys(a, query_of_row(a, item.row0)) / keys;
  const int part = blockIdx.x;
  const int begin = static_cast<int>(std::int64_t{tiles} * part / parts);
  const int end = static_cast<int>(std::int64_t{tiles} * (part + 1) / parts);
  //! [part]
  const T* const k =
      a.k + item.batch * a.k_strides.batch + item.kv_head * a.k_strides.head;
  const T* const v =
      a.v + item.batch * a.v_strides.batch + item.kv_head * a.v_strides.head;
  //! [load]
  const auto load = [&](int tile) {
    if (tile < end) {
      const int at = (tile - begin) % stages * Tile::kv_size;
      copy_rows_async<keys, d, Tile::threads>(k_smem + at, k, a.k_strides.row,
                                              tile * keys, a.length_k,
                                              a.head_dim, thread);
      copy_rows_async<keys, d, Tile::threads>(v_smem + at, v, a.v_strides.row,
                                              tile * keys, a.length_k,
                                              a.head_dim, thread);
    }
    cp_async_commit();  // an empty group counts, too
  };
  //! [load]
#pragma unroll
  for (int i = 0; i < stages - 1; ++i) load(begin + i);
  std::uint32_t q[d / 16][4];
  load_q_fragments<d>(q, a, item, warp_row, lane);
  Accumulators<Warp, d> o = {};
  WarpRowState<Warp> state;
  init_row_state(state);
  const auto step = [&](int tile, auto edge) {
    constexpr bool masked = decltype(edge)::value;
    cp_async_wait<stages - 2>();
    __syncthreads();  // this tile has arrived, no warp reads the last one
    load(tile + stages - 1);
    const int at = (tile - begin) % stages * Tile::kv_size + warp_key * d;
    Accumulators<Warp, Warp::block_n> s = {};
    // S = Q K^T
    multiply_fragments_k<d>(s, q, k_smem + at, lane);
    if constexpr (masked) {
      mask_rows(s, a, warp_row, tile * keys + warp_key, lane);
    }
    // P = exp2(scale (S - m))
    softmax_step_base_2<Warp, masked>(s, o, state, exponent_scale);
    // O += P V
    multiply_p_v<d>(o, s, v_smem + at, lane);
  };
  int tile = begin;
  for (; tile < end && tile < unmasked; ++tile) step(tile, std::false_type{});
  for (; tile < end; ++tile) step(tile, std::true_type{});
  __syncthreads();  // no warp reads the tiles, whose place states take
  store_warp_state<Tile>(o, state, lane);
  __syncthreads();  // the states are complete
  //! [merge]
  const auto same = [](int i) { return i; };
  for_rows_of_warp<Tile>(a, item, [&](int row, int query, int head) {
    const auto merged = merge_row<d>(warp_states<Tile>(), Tile::key_warps,
                                     row, exponent_scale, same);
    if (parts == 1) {
      store_output(a, item.batch, head, query, merged);
    } else {
      store_state(states, part, state_row(a, item.batch, head, query),
                  merged);
    }
  });
  if (parts == 1) return;
  unsigned* const counter = counters + blockIdx.z * gridDim.y + blockIdx.y;
  if (!last_to_arrive(counter, parts)) return;
  for_rows_of_warp<Tile>(a, item, [&](int, int query, int head) {
    store_output(
        a, item.batch, head, query,
        merge_row<d>(states, parts, state_row(a, item.batch, head, query),
                     exponent_scale, same));
  });
  //! [merge]
}
//! [one_launch]

/// Parts of each item's keys on this GPU.
template <class Tile, class T>
int one_launch_parts(const Attention<T>& a) {
  return split_count(
      std::int64_t{a.batch} * a.kv_heads * row_tiles_of<Tile>(a),
      ceil_div(a.length_k, Tile::block_n),
      kDecodeBlocks * device_properties().sm_count);
}

/// Elements of a workspace.
struct DecodeWorkspaceSize {
  std::int64_t states;
  std::int64_t counters;
};
/// What launch_one_launch() needs.
template <int d, class T>
DecodeWorkspaceSize one_launch_workspace(const Attention<T>& a) {
  return with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    return DecodeWorkspaceSize{
        state_floats(one_launch_parts<Tile>(a),
                     std::int64_t{a.batch} * a.heads * a.length_q, d),
        std::int64_t{a.batch} * a.kv_heads * row_tiles_of<Tile>(a)};
  });
}

/// Launches the kernel.
/// @param a         with a head_dim of at most d
/// @param workspace of one_launch_workspace(), with counters that are 0
//! [launch]
template <int d, class T>
void launch_one_launch(const Attention<T>& a, const Stream& stream,
                       const DecodeWorkspace& workspace) {
  with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    const int parts = one_launch_parts<Tile>(a);
    const int rows = a.batch * a.heads * a.length_q;
    launch(stream, decode_one_launch<Tile, T>,
           {decode_grid<Tile>(a, parts),
            {Tile::threads},
            decode_bytes<Tile, T>(),
            Tile::stages},
           a, states_at(workspace.states, parts, rows, d), workspace.counters,
           parts);
  });
}
//! [launch]

}  // namespace fa::FA_TARGET
