/// @file
/// The ordered sums of dQ of rung 11 with two tiles in shared memory, for rungs 15 and 19. There a
/// thread adds a part, waits until the sum is in global memory, raises the semaphore and only then
/// asks for the next one: with 128 columns that takes longer than the matmuls of a tile. Here two
/// threads take turns, one for even tiles and one for odd ones, each with both parts of its tile.
#pragma once

#include "06_flash_backward/kernels/10_delayed_dq.cuh"

namespace fa::FA_TARGET {

/// What a block keeps in shared memory: rung 10's, and a second tile of dQ.
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

/// Sends a warpgroup's part of a tile to the thread that adds it: see rung 09.
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
//! [ordered_tiles]
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
//! [ordered_tiles]

/// dK, dV, and ordered additions to d_q_accum: as ordered_dq_block().
/// @param shared of the block; its barriers are ready
template <class Tile, class T>
__device__ void ordered_tiles_block(OrderedTilesShared<Tile>& shared,
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
    if (warp == 1 || warp == 2) {
      accumulate_tiles_in_order(shared, a, block, warp - 1);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  compute_n_block<Tile>(shared, maps, block, warpgroup);
}

}  // namespace fa::FA_TARGET
