/// @file
/// Consumers take turns on the tensor cores: while one multiplies, the others take their scores in. Without turns they
/// would all want the same units at the same time.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, section 3.1.
#pragma once

#include "05_flash_forward/kernels/11_overlap.cuh"

namespace fa::FA_TARGET {

/// The named barrier at which a consumer waits for its turn; those before it are of write_output().
template <class Tile>
__device__ int scheduler_barrier_id(int consumer) {
  return 1 + Tile::consumers + consumer;
}

/// Waits for this consumer's turn.
//! [turns]
template <class Tile>
__device__ void scheduler_barrier_sync(int consumer) {
  named_barrier_wait(scheduler_barrier_id<Tile>(consumer), 2 * kWarpgroup);
}
/// Gives the turn to the next consumer.
template <class Tile>
__device__ void scheduler_barrier_arrive(int consumer) {
  const int next = consumer + 1 == Tile::consumers ? 0 : consumer + 1;
  named_barrier_arrive(scheduler_barrier_id<Tile>(next), 2 * kWarpgroup);
}
//! [turns]

/// Launch: as flash_warp_specialized().
/// @tparam Tile HopperTile
//! [ping_pong]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_ping_pong(const __grid_constant__ TmaAttention<T> maps) {
  auto& shared = *dynamic_shared<SpecializedShared<Tile>>();
  const Attention<T>& a = maps.a;
  const int block = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int head = blockIdx.y, batch = blockIdx.z;
  const int tiles =
      ceil_div(visible_keys(a, block * Tile::block_m + Tile::block_m - 1),
               Tile::block_n);
  init_barriers(shared);
  if (warpgroup_index() == Tile::consumers) {  // the producer
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) {
      produce(shared, maps, block, head, batch, tiles);
    }
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const int warpgroup = warpgroup_index();
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
  PipelineState<Tile::stages> k_at, v_at;
  shared.q_full[warpgroup].wait(0);
  if (tiles > 0) {
    if (warpgroup == Tile::consumers - 1)
      scheduler_barrier_arrive<Tile>(warpgroup);
    consume<Tile>(
        o, rows, shared, shared.q[warpgroup], a, query0, tiles, k_at, v_at,
        [&] { scheduler_barrier_sync<Tile>(warpgroup); },
        [&] { scheduler_barrier_arrive<Tile>(warpgroup); }, [] {});
    if (warpgroup == 0)
      scheduler_barrier_sync<Tile>(warpgroup);  // the last one given
  }
  if (write_output<Tile>(maps, o, rows, shared.q[warpgroup], query0, head,
                         batch)) {
    bulk_wait_read<0>();  // before the block ends
  }
}
//! [ping_pong]

}  // namespace fa::FA_TARGET
