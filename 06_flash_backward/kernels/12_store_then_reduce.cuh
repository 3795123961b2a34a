/// @file
/// No zeros for the accumulator of dQ, and no order: the first block at a tile stores its part, and
/// the others add to it, so zeros need neither be written nor read. Without a mask all blocks of a
/// head would reach its first tile at once; each begins with another tile. The thread that stores or
/// adds is store_or_reduce_d_q(), which others use, too.
///
/// Source: the idea is ours.
#pragma once

#include "06_flash_backward/kernels/11_ordered_dq.cuh"

namespace fa::FA_TARGET {

/// The block of keys for a place in the order of step 11 or of step 12.
template <class Tile, bool ordered, class T>
__device__ NBlock scheduled_n_block(const Attention<T>& a, int tile_index,
                                    const TileScheduler& scheduler) {
  if constexpr (!ordered)
    return spread_n_block<Tile>(a, tile_index, scheduler);
  const WorkTile work = work_tile(tile_index, scheduler);
  return n_block<Tile>(a, work.block, work.head, work.batch);
}

/// dK, dV, and d_q_accum: a block owns keys and loops over the queries.
/// @param shared of the block; its barriers are ready
template <class Tile, class T>
__device__ void store_then_reduce_block(DelayedBackwardShared<Tile>& shared,
                                        const TmaGradient<T>& maps,
                                        const TileScheduler& scheduler) {
  const AttentionGradient<T>& a = maps.a;
  const NBlock block = spread_n_block<Tile>(a, blockIdx.x, scheduler);
  specialize_warps<Tile>(shared, maps, block, [&](int part) {
    store_or_reduce_d_q<Tile>(shared, a, block, part, a.causal);
  });
}
/// The kernel.
/// @tparam Tile HopperBackwardTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_store_then_reduce(
        const __grid_constant__ TmaGradient<T> maps,
        const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<DelayedBackwardShared<Tile>>();
  shared.init();
  store_then_reduce_block(shared, maps, scheduler);
}

/// Launches the step.
/// @param a with a Workspace{d, true}
template <int d, class T>
void launch_backward_store_then_reduce(const AttentionGradient<T>& a,
                                       const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_semaphores<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const TileScheduler scheduler = n_block_scheduler<Tile>(a);
  launch(stream, flash_backward_store_then_reduce<Tile, T>,
         {grid_of_work(scheduler), kWarpgroup * (kKeyWarpgroups + 1),
          sizeof(DelayedBackwardShared<Tile>), Tile::stages},
         maps, scheduler);
  launch_tma_postprocess<Tile>(maps, stream);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_store_then_reduce, (64), (96), (128));

FA_STEP_ROW(backward, 12) {
  return row("12_store_then_reduce", "the first stores, no zeros", half{},
             bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<64, 96, 128>{})
      .over_queries(HopperBackwardTileFor<half, 64>{}, 2)
      .over_queries(HopperBackwardTileFor<half, 96>{}, 2)
      .over_queries(HopperBackwardTileFor<half, 128>{}, 2)
      .timeline(HeadDims<128>{}, 256, 256)
      .memory_is("4 N D + 8 N + N / 8 + 4",
                 [](auto n, auto d) { return 4 * n * d + 8 * n + n / 8 + 4; })
      .workspace([](auto&, auto d) {
        return Workspace{d, true};
      })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_store_then_reduce<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
