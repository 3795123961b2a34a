/// @file
/// The same bits in every run, for some more time than rung 10 takes: blocks add to a tile of dQ
/// one after the other, always in the same order. A semaphore counts them. Blocks of the last keys
/// begin: under the causal mask they have the fewest queries, and a block seldom waits, since the
/// block before it in that order is one tile ahead. The head changes from block to
/// block, so that few blocks wait for one another. The first block stores its part: the
/// accumulator needs no zeros.
///
/// Source of the order: NVIDIA and FlashAttention's authors, deterministic backward pass of
/// FlashAttention-3.
#pragma once

#include "06_flash_backward/kernels/10_delayed_dq.cuh"

namespace fa::FA_TARGET {

/// A thread that adds a warpgroup's parts of dQ to the accumulator, in order.
/// @return where the block's next parts are in its pipeline
template <class Tile, class Shared, class T, class Block>
__device__ PipelineState<1> accumulate_d_q_in_order(
    Shared& shared, const AttentionGradient<T>& a, const Block& block,
    int warpgroup, PipelineState<1> at = {}) {
  const int bytes = d_q_bytes<Tile>(warpgroup);
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = workspace_row(a, block, head, query0);
    unsigned* const semaphore = d_q_semaphore(a, row, warpgroup);
    const auto rank =
        static_cast<unsigned>(accumulation_rank<Tile>(a, block, query0));
    //! [ordered_tile]
    float* const to = d_q_accum_part<Tile>(a, row, warpgroup);
    while (load_acquire(semaphore) != rank) {  // other blocks add before
    }
    shared.d_q_full[warpgroup].wait(at.parity);
    fence_async_proxy_global();  // makes their sums visible to TMA
    if (rank == 0) {
      bulk_store(to, shared.d_q[warpgroup], bytes);
    } else {
      bulk_add(to, shared.d_q[warpgroup], bytes);
    }
    bulk_commit();
    bulk_wait_read<0>();
    shared.d_q_empty[warpgroup].arrive();
    bulk_wait<0>();  // the sums are in global memory
    atomic_add_release(semaphore, 1);
    //! [ordered_tile]
    at.advance();
  });
  return at;
}

/// dK, dV, and ordered additions to d_q_accum: a block owns keys and loops over the queries.
/// @param shared of the block; its barriers are ready
template <class Tile, class T>
__device__ void ordered_dq_block(DelayedBackwardShared<Tile>& shared,
                                 const TmaGradient<T>& maps,
                                 const TileScheduler& scheduler) {
  const AttentionGradient<T>& a = maps.a;
  const WorkTile work = work_tile(blockIdx.x, scheduler);  // last keys first
  const NBlock block = n_block<Tile>(a, work.block, work.head, work.batch);
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    const int warp = threadIdx.x / kWarp % 4;
    if (threadIdx.x % kWarp != 0) return;
    if (warp == 0) load_queries(shared, maps, block);
    if (warp > 0 && warp <= kKeyWarpgroups) {
      accumulate_d_q_in_order<Tile>(shared, a, block, warp - 1);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  compute_n_block<Tile>(shared, maps, block, warpgroup);
}
/// The kernel.
/// @tparam Tile HopperBackwardTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_ordered_dq(const __grid_constant__ TmaGradient<T> maps,
                              const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<DelayedBackwardShared<Tile>>();
  shared.init();
  ordered_dq_block(shared, maps, scheduler);
}

/// Launches the rung.
/// @tparam d     64, 96 or 128, at least head_dim
/// @param a      with a Workspace{d, true}
/// @param stream where
template <int d, class T>
void launch_backward_ordered_dq(const AttentionGradient<T>& a,
                                const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_semaphores<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  // Several heads together: the order needs the last keys first.
  const TileScheduler scheduler = n_block_scheduler<Tile>(a, true);
  launch(stream, flash_backward_ordered_dq<Tile, T>,
         {grid_of_work(scheduler),
          {kWarpgroup * (kKeyWarpgroups + 1)},
          sizeof(DelayedBackwardShared<Tile>),
          Tile::stages},
         maps, scheduler);
  launch_tma_postprocess<Tile>(maps, stream);
}

}  // namespace fa::FA_TARGET
