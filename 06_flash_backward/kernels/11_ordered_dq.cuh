/// @file
/// The same bits in every run, for some more time than step 10 takes: blocks add to a tile of dQ
/// one after the other, always in the same order. A semaphore counts them. Blocks of the last keys
/// begin: under the causal mask they have the fewest queries, and a block seldom waits, since the
/// block before it in that order is one tile ahead. The head changes from block to
/// block, so that few blocks wait for one another. The first block stores its part: the
/// accumulator needs no zeros.
///
/// Source of the order: NVIDIA and FlashAttention's authors, deterministic backward pass of
/// FlashAttention-3.
#pragma once

#include "06_flash_backward/library/hopper_block.cuh"

namespace fa::FA_TARGET {

/// The kernel that computes them.
template <int d, class T>
__global__ void preprocess_semaphores(AttentionGradient<T> a) {
  preprocess_rows_and_semaphores<d>(a);
}

/// How many blocks add to a tile of queries before this one.
template <class Tile, class T>
__device__ int accumulation_rank(const Attention<T>& a, const NBlock& block,
                                 int query0) {
  const int visible = visible_keys(a, query0 + Tile::block_m - 1);
  return (visible - 1) / Tile::block_n - block.key0 / Tile::block_n;
}

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
  specialize_warps<Tile>(shared, maps, block, [&](int part) {
    accumulate_d_q_in_order<Tile>(shared, a, block, part);
  });
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

/// Launches the step.
/// @param a with a Workspace{d, true}
template <int d, class T>
void launch_backward_ordered_dq(const AttentionGradient<T>& a,
                                const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_semaphores<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  // Several heads together: the order needs the last keys first.
  const TileScheduler scheduler = n_block_scheduler<Tile>(a, true);
  launch(stream, flash_backward_ordered_dq<Tile, T>,
         {grid_of_work(scheduler), kWarpgroup * (kKeyWarpgroups + 1),
          sizeof(DelayedBackwardShared<Tile>), Tile::stages},
         maps, scheduler);
  launch_tma_postprocess<Tile>(maps, stream);
}

/// What a block keeps in shared memory in steps 15 and 19: step 10's, and a second tile of dQ. With
/// 128 columns the thread above takes longer for a part than the matmuls of a tile take. There two
/// threads take turns, one for even tiles and one for odd ones, each with both parts of its tile.
template <class Tile>
struct OrderedTilesShared : DelayedBackwardShared<Tile> {
  alignas(128) float odd_d_q[kKeyWarpgroups][Tile::d_q_part];
  Mbarrier d_q_tile_full[2];  ///< both parts of an even tile, or an odd one

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      for (auto& barrier : d_q_tile_full) barrier.init(4 * kKeyWarpgroups);
    }
    DelayedBackwardShared<Tile>::init();
  }
  /// The parts of an even tile, or of an odd one.
  __device__ float (*d_q_tile(int stage))[Tile::d_q_part] {
    return stage == 0 ? this->d_q : odd_d_q;
  }
};

/// Sends a warpgroup's part of a tile to the thread that adds it: see step 09.
template <class Tile>
__device__ void send_d_q(OrderedTilesShared<Tile>& shared,
                         QueryGradient<Tile>& d_q, int warpgroup,
                         const PipelineState<2>& tile) {
  shared.d_q_empty[tile.stage].wait(tile.parity ^ 1);
  with_d_q_part<Tile>(d_q, warpgroup, [&](auto& part) {
    store_accumulator(shared.d_q_tile(tile.stage)[warpgroup], part);
  });
  fence_async_proxy();  // TMA sees what this thread wrote
  __syncwarp();
  if (threadIdx.x % kWarp == 0) shared.d_q_tile_full[tile.stage].arrive();
}

/// A thread that adds even tiles of dQ to the accumulator, or odd ones, in order.
/// @param stage 0 or 1
template <class Tile, class T, class Block>
__device__ void accumulate_tiles_in_order(OrderedTilesShared<Tile>& shared,
                                          const AttentionGradient<T>& a,
                                          const Block& block, int stage) {
  const int bytes = d_q_bytes<Tile>(0) + d_q_bytes<Tile>(1);
  const float* const from = shared.d_q_tile(stage)[0];
  int index = 0, parity = 0;
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    if (index++ % 2 != stage) return;
    const std::int64_t row = workspace_row(a, block, head, query0);
    unsigned* const semaphore = d_q_semaphore(a, row, 0);
    const auto rank =
        static_cast<unsigned>(accumulation_rank<Tile>(a, block, query0));
    float* const to = d_q_accum_part<Tile>(a, row, 0);  // the other follows
    while (load_acquire(semaphore) != rank) {  // other blocks add before
    }
    shared.d_q_tile_full[stage].wait(parity);
    fence_async_proxy_global();  // makes their sums visible to TMA
    if (rank == 0) {
      bulk_store(to, from, bytes);
    } else {
      bulk_add(to, from, bytes);
    }
    bulk_commit();
    bulk_wait_read<0>();
    shared.d_q_empty[stage].arrive();
    bulk_wait<0>();  // the sums are in global memory
    atomic_add_release(semaphore, 1);
    parity ^= 1;
  });
}

/// dK, dV, and ordered additions to d_q_accum: as ordered_dq_block().
/// @param shared of the block; its barriers are ready
template <class Tile, class T>
__device__ void ordered_tiles_block(OrderedTilesShared<Tile>& shared,
                                    const TmaGradient<T>& maps,
                                    const TileScheduler& scheduler) {
  const AttentionGradient<T>& a = maps.a;
  const WorkTile work = work_tile(blockIdx.x, scheduler);  // last keys first
  const NBlock block = n_block<Tile>(a, work.block, work.head, work.batch);
  specialize_warps<Tile>(shared, maps, block, [&](int part) {
    accumulate_tiles_in_order(shared, a, block, part);
  });
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_ordered_dq, (64), (96), (128));

FA_STEP_ROW(backward, 11) {
  return row("11_ordered_dq", "the same bits, ordered accumulation", half{},
             bfloat16{})
      .hopper()
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
        launch_backward_ordered_dq<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
