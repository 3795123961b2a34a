/// @file
/// One launch: the block of an item that is the last to leave its state merges all of them, and
/// the number of parts comes from a model of what they cost, split_count().
///
/// Source of the last block's merge: CUDA Programming Guide, "Memory Fence Functions".
#pragma once

#include "05_flash_forward/kernels/decode/02_packed_gqa.cuh"
#include "05_flash_forward/kernels/decode/split_count.hpp"

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
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, kDecodeBlocks)
    decode_one_launch(Attention<T> a, SplitStates states, unsigned* counters,
                      int parts) {
  const int part = blockIdx.x;
  const float exponent_scale = a.scale * kLog2E;
  const DecodeItem item = item_of_block<Tile>(a);
  attend_to_tiles<Tile>(a, item, part_of_tiles<Tile>(a, item, part, parts),
                        [&](int tile, T* k_tile, T* v_tile) {
                          load_kv_tile<Tile>(a, item, tile, k_tile, v_tile);
                        });
  //! [merge]
  for_rows_of_warp<Tile>(a, item, [&](int row, int query, int head) {
    const auto merged = merged_warps<Tile>(row, exponent_scale);
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
    const int row = state_row(a, item.batch, head, query);
    store_output(a, item.batch, head, query,
                 merge_row<Tile::d>(states, parts, row, exponent_scale,
                                    [](int i) { return i; }));
  });
  //! [merge]
}

/// Parts of each item's keys on this GPU, for a block on each SM, which suffices to keep the memory
/// busy: to fill the second places would double the states and gain nothing.
template <class Tile, class T>
int one_launch_parts(const Attention<T>& a) {
  return split_count(
      std::int64_t{a.batch} * a.kv_heads * row_tiles_of<Tile>(a),
      ceil_div(a.length_k, Tile::block_n), device_properties().sm_count,
      rows_per_key<Tile>(a));
}

/// Elements of a workspace.
struct DecodeWorkspaceSize {
  std::int64_t states;
  std::int64_t counters;
};
/// What launch_one_launch() needs.
template <int d, class T>
DecodeWorkspaceSize one_launch_workspace(const Attention<T>& a) {
  const int rows = numbered_rows(a);
  return with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    return DecodeWorkspaceSize{
        state_floats(one_launch_parts<Tile>(a), rows, d),
        std::int64_t{a.batch} * a.kv_heads * row_tiles_of<Tile>(a)};
  });
}

/// Launches the kernel.
/// @param a         with a head_dim of at most d
/// @param workspace of one_launch_workspace(), with counters that are 0
template <int d, class T>
void launch_one_launch(const Attention<T>& a, const Stream& stream,
                       const DecodeWorkspace& workspace) {
  with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    const int parts = one_launch_parts<Tile>(a);
    const int rows = numbered_rows(a);
    launch(stream, decode_one_launch<Tile, T>,
           {decode_grid<Tile>(a, parts), Tile::threads,
            decode_bytes<Tile, T>(), Tile::stages},
           a, states_at(workspace.states, parts, rows, d), workspace.counters,
           parts);
  });
}

FA_LAUNCH_16_BIT(decode, Attention, (const Stream&, const DecodeWorkspace&),
                 launch_one_launch, (64), (128));

FA_STEP_ROW(decode, 3) {
  return row("03_one_launch", "cost model, the last block merges", half{},
             bfloat16{})
      .needs(kNeedsMma)
      .no_dropout()
      .head_dims(HeadDims<64, 128>{})
      .tile(16, 64, 0, 3, 64)
      .tile(16, 64, 0, 3, 128)
      .shared_bytes(
          [](auto d) { return decode_bytes<DecodeTile<d, 1>, half>(); })
      .floats([](const auto& a, auto d) {
        return one_launch_workspace<d>(a).states;
      })
      .zeros([](const auto& a, auto d) {
        return one_launch_workspace<d>(a).counters;
      })
      .launch([](auto& a, auto d, auto& stream, float* states,
                 unsigned* counters) {
        launch_one_launch<d>(a, stream, {states, counters});
      });
}

}  // namespace fa::FA_TARGET
