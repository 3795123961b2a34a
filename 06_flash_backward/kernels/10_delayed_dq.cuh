/// @file
/// dQ one tile later. dS of a tile goes to the other warpgroup through shared memory, and in step
/// 09 both wait for it at a barrier. Here its matmul with K is issued a tile later, together with
/// dV and dK of that tile. So the two warpgroups need not stay in step: one computes P and dS
/// while the other's matmuls run: DelayedMmaWarpgroup, which others use, too. Under the causal mask
/// the blocks with the most queries go first.
///
/// Source: the order of the matmuls is ours.
#pragma once

#include "06_flash_backward/kernels/09_warp_specialized.cuh"

namespace fa::FA_TARGET {

/// dK, dV, and additions to d_q_accum. A block owns keys and loops over the queries.
/// @tparam Tile HopperBackwardTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_delayed_dq(const __grid_constant__ TmaGradient<T> maps,
                              const TileScheduler scheduler) {
  const AttentionGradient<T>& a = maps.a;
  const NBlock block = longest_first_n_block<Tile>(a, blockIdx.x, scheduler);
  auto& shared = *dynamic_shared<DelayedBackwardShared<Tile>>();
  shared.init();
  specialize_warps<Tile>(shared, maps, block, [&](int part) {
    accumulate_d_q(shared, a, block, part);
  });
}

/// Launches the step.
/// @param a with a Workspace{d}
template <int d, class T>
void launch_backward_delayed_dq(const AttentionGradient<T>& a,
                                const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const TileScheduler scheduler = n_block_scheduler<Tile>(a);
  launch(stream, flash_backward_delayed_dq<Tile, T>,
         {grid_of_work(scheduler), kWarpgroup * (kKeyWarpgroups + 1),
          sizeof(DelayedBackwardShared<Tile>), Tile::stages},
         maps, scheduler);
  launch_tma_postprocess<Tile>(maps, stream);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_delayed_dq, (64), (128));

FA_STEP_ROW(backward, 10) {
  return row("10_delayed_dq", "dQ one tile later", half{}, bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<64, 128>{})
      .over_queries(HopperBackwardTileFor<half, 64>{}, 2)
      .over_queries(HopperBackwardTileFor<half, 128>{}, 2)
      .timeline(HeadDims<128>{}, 256, 256)
      .memory_is("4 N D + 8 N",
                 [](auto n, auto d) { return 4 * n * d + 8 * n; })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_delayed_dq<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
