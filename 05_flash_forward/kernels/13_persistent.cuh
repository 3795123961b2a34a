/// @file
/// As many blocks as SMs, and each takes the next work that nobody has: while its consumers finish a block
/// of queries, its producer fetches for the next one. Under the causal mask the blocks with the most keys go first,
/// and only so many heads at a time that their K and V stay in the L2 cache.
#pragma once

#include "05_flash_forward/kernels/12_ping_pong.cuh"
#include "common/attention/tile_scheduler.cuh"

namespace fa::FA_TARGET {

/// What a block keeps in shared memory. Of Q there are two stages, too: the next one comes while O leaves.
template <class Tile>
struct PersistentShared {
  typename Tile::QTile q[Tile::q_stages][Tile::consumers];  ///< at the end O
  typename Tile::KvTile k[Tile::stages];                    ///< tiles of keys
  typename Tile::KvTile v[Tile::stages];                    ///< their values
  Pipeline<Tile::q_stages> q_pipe[Tile::consumers];  ///< of a consumer's q
  Pipeline<Tile::stages> k_pipe;                     ///< of k
  Pipeline<Tile::stages> v_pipe;                     ///< of v
  Pipeline<2> work_pipe;                             ///< of work
  WorkTile work[2];                                  ///< that comes next
};

/// Initialises a block's barriers; all threads call it.
template <class Tile>
__device__ void init_barriers(PersistentShared<Tile>& shared) {
  if (threadIdx.x == 0) {
    for (auto& pipe : shared.q_pipe) pipe.init(1);  // who stored O frees
    shared.k_pipe.init(4 * Tile::consumers);
    shared.v_pipe.init(4 * Tile::consumers);
    shared.work_pipe.init(4 * Tile::consumers);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are ready
}

/// Tiles of keys that a block of queries needs; one where it sees no key, so that all blocks are alike.
template <class Tile, class T>
__device__ int tiles_of(const Attention<T>& a, int block) {
  const int seen = visible_keys(a, block * Tile::block_m + Tile::block_m - 1);
  return seen > Tile::block_n ? ceil_div(seen, Tile::block_n) : 1;
}

/// Where the rings of the producer's thread stand.
template <class Tile>
struct LoadStates {
  PipelineState<Tile::q_stages> q;  ///< of Q
  PipelineState<Tile::stages> k;    ///< of K
  PipelineState<Tile::stages> v;    ///< of V
};

/// What the producer's thread does for one work. K goes a tile ahead of V: its scores come before the values.
/// @param shared the block's
/// @param maps   of the tensors
/// @param work   which
/// @param tiles  of keys that it needs, at least one
/// @param at     where the rings stand
//! [load_work_tile]
template <class Tile, class T>
__device__ void load_work_tile(PersistentShared<Tile>& shared,
                               const TmaAttention<T>& maps,
                               const WorkTile& work, int tiles,
                               LoadStates<Tile>& at) {
  const int kv_head = work.head / (maps.a.heads / maps.a.kv_heads);
  const auto fetch_q = [&](int i) {
    load_tile(shared.q[at.q.stage][i], maps.q,
              shared.q_pipe[i].producer_acquire(at.q, Tile::QTile::bytes),
              work.block * Tile::block_m + i * kQueries, work.head,
              work.batch, CacheHint::kEvictFirst);
  };
  const auto fetch_k = [&](int tile) {
    load_tile(shared.k[at.k.stage], maps.k,
              shared.k_pipe.producer_acquire(at.k, Tile::KvTile::bytes),
              tile * Tile::block_n, kv_head, work.batch,
              CacheHint::kEvictLast);
    at.k.advance();
  };
  fetch_q(0);
  fetch_k(tiles - 1);  // the first consumer can begin
#pragma unroll 1       // registers are few here
  for (int i = 1; i < Tile::consumers; ++i) fetch_q(i);
#pragma unroll 1
  for (int tile = tiles - 1; tile >= 0; --tile) {
    if (tile > 0) fetch_k(tile - 1);
    load_tile(shared.v[at.v.stage], maps.v,
              shared.v_pipe.producer_acquire(at.v, Tile::KvTile::bytes),
              tile * Tile::block_n, kv_head, work.batch,
              CacheHint::kEvictLast);
    at.v.advance();
  }
}
//! [load_work_tile]

/// All that the producer's thread does.
/// @param shared the block's
/// @param maps   of the tensors
/// @param scheduler
//! [draw]
template <class Tile, class T>
__device__ void producer_loop(PersistentShared<Tile>& shared,
                              const TmaAttention<T>& maps,
                              const TileScheduler& scheduler) {
  const int grid = gridDim.x, all = scheduler.total_heads * scheduler.blocks;
  PipelineState<2> at;
  LoadStates<Tile> places;
  for (int tile_index = blockIdx.x;; at.advance(), places.q.advance()) {
    // The next tile is drawn early: the fetches of this one hide the latency.
    const int next =
        maps.tile_counter == nullptr
            ? tile_index + grid
            : grid + static_cast<int>(atomicAdd(maps.tile_counter, 1u));
    const bool over = tile_index >= all;
    const WorkTile work =
        over ? WorkTile{-1, 0, 0} : work_tile(tile_index, scheduler);
    shared.work_pipe.empty[at.stage].wait(at.parity ^ 1);
    shared.work[at.stage] = work;
    shared.work_pipe.full[at.stage].arrive();
    if (over) {
      // A block draws for each work and once more. The last draw resets the
      // counter for the next launch.
      if (maps.tile_counter != nullptr && next == all + 2 * grid - 1) {
        *maps.tile_counter = 0;
      }
      return;
    }
    load_work_tile(shared, maps, work, tiles_of<Tile>(maps.a, work.block),
                   places);
    tile_index = next;
  }
}
//! [draw]

/// A consumer takes the block's next work.
/// @param shared the block's
/// @param at     where the ring of work stands
/// @param work   what it is
/// @return false when there is none
//! [next_work_tile]
template <class Tile>
__device__ bool next_work_tile(PersistentShared<Tile>& shared,
                               const PipelineState<2>& at, WorkTile& work) {
  shared.work_pipe.consumer_wait(at);
  const WorkTile& next = shared.work[at.stage];
  work = {warp_uniform(next.block), warp_uniform(next.head),
          warp_uniform(next.batch)};
  __syncwarp();  // all lanes have read it: a shuffle orders no memory
  if (threadIdx.x % kWarp == 0) shared.work_pipe.consumer_release(at);
  return work.block >= 0;
}
//! [next_work_tile]

/// O of the block before on its way to TMA, in the place of Q. Nobody waits for it before the next scores are begun,
/// unless there is one place only.
template <class Tile>
struct PendingStore {
  PersistentShared<Tile>& shared;      ///< the block's
  const int warpgroup;                 ///< whose
  PipelineState<Tile::q_stages> at{};  ///< of that Q
  bool is_own = false;                 ///< this thread waits for it

  /// O has been left.
  /// @param own  whether this thread waits for it
  /// @param q_at where it stands
  __device__ void left(bool own, const PipelineState<Tile::q_stages>& q_at) {
    is_own = own;
    at = q_at;
    if constexpr (Tile::q_stages == 1)
      release_q();  // the next Q needs it now
  }
  /// Lets Q come when TMA has read O, if that has not been done.
  //! [free_q]
  __device__ void release_q() {
    if (!is_own) return;
    bulk_wait_read<0>();
    shared.q_pipe[warpgroup].consumer_release(at);
    is_own = false;
  }
  //! [free_q]
};

/// What a block does.
/// @tparam Tile     HopperTile
/// @tparam patience of online_softmax()
/// @param maps  what is computed
/// @param scheduler
//! [persistent]
template <class Tile, int rescale_threshold, class T>
__device__ void persistent_block(const TmaAttention<T>& maps,
                                 const TileScheduler& scheduler) {
  auto& shared = *dynamic_shared<PersistentShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) producer_loop(shared, maps, scheduler);
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const Attention<T>& a = maps.a;
  PipelineState<2> at;
  PipelineState<Tile::q_stages> q_at;
  PipelineState<Tile::stages> k_at, v_at;
  if (warpgroup == Tile::consumers - 1)
    scheduler_barrier_arrive<Tile>(warpgroup);
  PendingStore<Tile> last{shared, warpgroup};
  for (;; at.advance(), q_at.advance()) {
    WorkTile work;
    if (!next_work_tile(shared, at, work)) break;
    const int query0 = work.block * Tile::block_m + warpgroup * kQueries;
    WarpgroupOutput<Tile> o = {};
    RowState rows = empty_row_state();
    auto& q = shared.q[q_at.stage][warpgroup];
    shared.q_pipe[warpgroup].consumer_wait(q_at);
    consume<Tile, rescale_threshold>(
        o, rows, shared, q, a, query0, tiles_of<Tile>(a, work.block), k_at,
        v_at, [&] { scheduler_barrier_sync<Tile>(warpgroup); },
        [&] { scheduler_barrier_arrive<Tile>(warpgroup); },
        [&] { last.release_q(); });
    last.left(
        write_output<Tile>(maps, o, rows, q, query0, work.head, work.batch),
        q_at);
  }
  last.release_q();
  if (warpgroup == 0)
    scheduler_barrier_sync<Tile>(warpgroup);  // the last one given
}
//! [persistent]

/// Launch: blocks of 128 x (consumers + 1); as many as SMs, or as work; sizeof(PersistentShared<Tile>).
/// maps.tile_counter points to a 0, and the launch leaves a 0 there; null: blocks take tiles in a fixed order.
/// @tparam Tile HopperTile
/// @param maps  what is computed
/// @param scheduler
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_persistent(const __grid_constant__ TmaAttention<T> maps,
                     const TileScheduler scheduler) {
  persistent_block<Tile, 0>(maps, scheduler);
}

}  // namespace fa::FA_TARGET
