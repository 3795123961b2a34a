/// @file
/// Persistent blocks: one for each SM, which takes blocks of keys until none is left. While its MMA
/// warpgroups store dK and dV of one, its producers load K, V, Q and dO of the next. In a short
/// sequence a block of keys has few tiles of queries, and to start and end takes as long as they.
#pragma once

#include "06_flash_backward/kernels/11_ordered_dq.cuh"
#include "06_flash_backward/kernels/12_store_then_reduce.cuh"

namespace fa::FA_TARGET {

/// Stages of K and V: the next ones are loaded while dK and dV are stored from the place of the
/// last ones. With 128 columns there is no room for both.
constexpr int kKvStages = 2;

/// What a block keeps in shared memory: step 10's, with pipelines of K, V and of work.
template <class Tile>
struct PersistentBackwardShared {
  typename Tile::KvTile k[kKvStages][kKeyWarpgroups];
  typename Tile::KvTile v[kKvStages][kKeyWarpgroups];
  typename Tile::QTile q[Tile::stages];
  typename Tile::QTile d_o[Tile::stages];
  typename Tile::ScoreTile d_s[2];
  float d_q[kKeyWarpgroups][Tile::d_q_part];
  float lse[Tile::stages][Tile::block_m];
  float delta[Tile::stages][Tile::block_m];
  Pipeline<Tile::stages> q_pipe;
  Pipeline<Tile::stages> d_o_pipe;
  Mbarrier d_q_full[kKeyWarpgroups];
  Mbarrier d_q_empty[kKeyWarpgroups];
  Mbarrier d_s_full[2];
  Pipeline<kKvStages> k_pipe;
  Pipeline<kKvStages> v_pipe;
  Pipeline<2> work_pipe;  ///< from the thread that has the tile scheduler
  NBlock work[2];         ///< batch < 0: none is left

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      q_pipe.init(4 * kKeyWarpgroups);
      d_o_pipe.init(4 * kKeyWarpgroups);
      for (int i = 0; i < kKeyWarpgroups; ++i) {
        d_q_full[i].init(4);
        d_q_empty[i].init(1);
        d_s_full[i].init(4 * kKeyWarpgroups);
      }
      k_pipe.init(kKeyWarpgroups);  // the threads that store dK, dV
      v_pipe.init(kKeyWarpgroups);
      // Warps that multiply, threads that add to dQ, and the one that loads K.
      work_pipe.init(4 * kKeyWarpgroups + kKeyWarpgroups + 1);
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// Sends a warpgroup's part of dQ as in step 10.
template <class Tile>
__device__ void send_d_q(PersistentBackwardShared<Tile>& shared,
                         QueryGradient<Tile>& d_q, int warpgroup,
                         const PipelineState<2>& tile) {
  send_d_q<Tile>(shared, d_q, warpgroup, tile.stage);
}

/// The state of the pipelines of K, V and work, which advance with each block of keys, from their
/// count.
__device__ inline PipelineState<2> state_at(int count) {
  return {count % 2, count / 2 % 2};
}

/// The thread with the tile scheduler: takes blocks of keys, tells the others, and loads Q and dO.
template <class Tile, bool ordered, class T>
__device__ void schedule_and_load(PersistentBackwardShared<Tile>& shared,
                                  const TmaGradient<T>& maps,
                                  const TileScheduler& scheduler) {
  constexpr int row_bytes = Tile::block_m * int{sizeof(float)};
  constexpr int bytes = Tile::QTile::bytes + row_bytes;
  const AttentionGradient<T>& a = maps.a;
  const int blocks = scheduler.total_heads * scheduler.blocks;
  PipelineState<Tile::stages> at;
  for (PipelineState<2> work;; work.advance()) {
    //! [take]
    // The last tiles of queries are still in the pipelines.
    const int index = static_cast<int>(atomicAdd(a.tile_counter, 1u));
    NBlock block{0, 0, -1, {}};
    if (index < blocks) {
      block = scheduled_n_block<Tile, ordered>(a, index, scheduler);
    }
    shared.work_pipe.empty[work.stage].wait(work.parity ^ 1);
    shared.work[work.stage] = block;
    shared.work_pipe.full[work.stage].arrive();
    if (block.batch < 0) return;
    //! [take]
    for_each_m_block<Tile>(a, block, [&](int head, int query0) {
      const std::int64_t row = workspace_row(a, block, head, query0);
      Mbarrier& q_full = shared.q_pipe.producer_acquire(at, bytes);
      load_tile(shared.q[at.stage], maps.q, q_full, query0, head, block.batch,
                CacheHint::kEvictLast);
      bulk_load(shared.lse[at.stage], a.lse_base_2 + row, row_bytes, q_full);
      Mbarrier& d_o_full = shared.d_o_pipe.producer_acquire(at, bytes);
      load_tile(shared.d_o[at.stage], maps.d_o, d_o_full, query0, head,
                block.batch, CacheHint::kEvictLast);
      bulk_load(shared.delta[at.stage], a.delta + row, row_bytes, d_o_full);
      at.advance();
    });
  }
}

/// Calls visit(block, count) for each block of keys that the thread with the scheduler has taken.
template <class Tile, class Visit>
__device__ void for_each_n_block(PersistentBackwardShared<Tile>& shared,
                                 Visit visit) {
  for (int count = 0;; ++count) {
    const PipelineState<2> at = state_at(count);
    shared.work_pipe.consumer_wait(at);
    const NBlock block = shared.work[at.stage];
    shared.work_pipe.consumer_release(at);
    if (block.batch < 0) return;
    visit(block, count);
  }
}

/// The thread that loads K and V.
template <class Tile, class T>
__device__ void load_keys_and_values(PersistentBackwardShared<Tile>& shared,
                                     const TmaGradient<T>& maps) {
  for_each_n_block(shared, [&](const NBlock& block, int count) {
    const auto at = state_at(count);
    const auto load = [&](auto& tiles, const TensorMap& map, auto& pipe) {
      Mbarrier& full = pipe.producer_acquire(at, sizeof tiles);
      int key0 = block.key0;
#pragma unroll 1  // registers are few here
      for (auto& tile : tiles) {
        load_tile(tile, map, full, key0, block.kv_head, block.batch,
                  CacheHint::kEvictFirst);
        key0 += kKeys;
      }
    };
    load(shared.k[at.stage], maps.k, shared.k_pipe);
    load(shared.v[at.stage], maps.v, shared.v_pipe);
  });
}

/// What the main loop needs of a block of keys, in registers; all lanes take part.
__device__ inline NBlock warp_uniform_block(const NBlock& block) {
  const MBlocks& m = block.m_blocks;
  return {warp_uniform(block.key0),
          0,
          0,
          {warp_uniform(m.min), warp_uniform(m.max), warp_uniform(m.start)}};
}

/// An MMA warpgroup computes dK and dV of its keys in a block of keys, and stores them.
/// @param work  in shared memory: registers are few
/// @param count of blocks before
template <class Tile, class T>
__device__ void process_n_block(PersistentBackwardShared<Tile>& shared,
                                const TmaGradient<T>& maps,
                                const NBlock& work, int count, int warpgroup,
                                PipelineState<2>& at) {
  const auto kv = state_at(count);
  auto& k = shared.k[kv.stage];
  auto& v = shared.v[kv.stage];
  shared.k_pipe.consumer_wait(kv);
  shared.v_pipe.consumer_wait(kv);
  const NBlock block = warp_uniform_block(work);
  DelayedMmaWarpgroup<Tile, PersistentBackwardShared<Tile>> mma{
      shared, k, v, maps.a, warpgroup, block.key0 + warpgroup * kKeys, at};
  mma.mainloop(block);
  at = mma.at;
  //! [release]
  const int key0 = work.key0 + warpgroup * kKeys;
  store_gradient(maps.d_v, mma.d_v, 1, v[warpgroup], key0, work.kv_head,
                 work.batch);
  named_barrier_wait(kDSBarrier, kKeyWarpgroups * kWarpgroup);
  store_gradient(maps.d_k, mma.d_k, maps.a.scale, k[warpgroup], key0,
                 work.kv_head, work.batch);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<1>();
    shared.v_pipe.consumer_release(kv);
    bulk_wait_read<0>();
    shared.k_pipe.consumer_release(kv);
  }
  //! [release]
}

/// dK, dV, and d_q_accum, for blocks of keys until none is left.
/// @tparam ordered whether blocks add to dQ in the order of step 11, or as in step 12
/// @param  shared  of the block; its barriers are ready
template <class Tile, bool ordered, class T>
__device__ void persistent_block(PersistentBackwardShared<Tile>& shared,
                                 const TmaGradient<T>& maps,
                                 const TileScheduler& scheduler) {
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    const int warp = threadIdx.x / kWarp % 4;
    if (threadIdx.x % kWarp != 0) return;
    if (warp == 0) schedule_and_load<Tile, ordered>(shared, maps, scheduler);
    if (warp > 0 && warp <= kKeyWarpgroups) {
      PipelineState<1> at;
      for_each_n_block(shared, [&](const NBlock& block, int /*count*/) {
        at = ordered ? accumulate_d_q_in_order<Tile>(shared, maps.a, block,
                                                     warp - 1, at)
                     // The next block of keys begins at lower tiles.
                     : store_or_reduce_d_q<Tile>(shared, maps.a, block,
                                                 warp - 1, false, at);
      });
    }
    if (warp > kKeyWarpgroups) load_keys_and_values(shared, maps);
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  //! [loop]
  PipelineState<2> at;
  for (int count = 0;; ++count) {
    const PipelineState<2> work = state_at(count);
    shared.work_pipe.consumer_wait(work);
    const NBlock& block = shared.work[work.stage];
    if (warp_uniform(block.batch) < 0) return;
    process_n_block(shared, maps, block, count, warpgroup, at);
    __syncwarp();  // all lanes have read the block
    if (threadIdx.x % kWarp == 0) shared.work_pipe.consumer_release(work);
  }
  //! [loop]
}
/// The kernel.
/// @tparam Tile HopperBackwardTile
template <class Tile, bool ordered, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_persistent(const __grid_constant__ TmaGradient<T> maps,
                              const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<PersistentBackwardShared<Tile>>();
  shared.init();
  persistent_block<Tile, ordered>(shared, maps, scheduler);
}

/// What step 11 computes of each row, and a tile counter that is zero.
/// @tparam d columns of d_q_accum, at least head_dim
template <int d, class T>
__device__ void preprocess_rows_and_counter(const AttentionGradient<T>& a) {
  preprocess_rows_and_semaphores<d>(a);
  if (blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x == 0) {
    *a.tile_counter = 0;
  }
}
/// The kernel that computes them.
template <int d, class T>
__global__ void preprocess_persistent(AttentionGradient<T> a) {
  preprocess_rows_and_counter<d>(a);
}

/// A block for each SM, or for each tile of work if these are fewer.
inline Size persistent_grid(const TileScheduler& scheduler) {
  return {std::min(grid_of_work(scheduler).x,
                   static_cast<unsigned>(device_properties().sm_count))};
}

/// Whether blocks of keys have so few tiles of queries that persistent blocks are faster: on an
/// H200 with 64 columns up to 8192 queries under the causal mask, or else 2048.
template <class T>
bool prefers_persistent_blocks(const AttentionGradient<T>& a) {
  const std::int64_t queries = std::int64_t{a.length_q} * group_size(a);
  return a.head_dim <= 64 && queries <= (a.causal ? 8192 : 2048);
}

/// Launches the step.
/// @tparam ordered whether every run gives the same bits, as in step 11
/// @param a        with a Workspace{64, true}, head_dim at most 64
template <bool ordered, class T>
void launch_backward_persistent(const AttentionGradient<T>& a,
                                const Stream& stream) {
  constexpr int d = 64;
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_persistent<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const TileScheduler scheduler = n_block_scheduler<Tile>(a, ordered);
  launch(stream, flash_backward_persistent<Tile, ordered, T>,
         {persistent_grid(scheduler), kWarpgroup * (kKeyWarpgroups + 1),
          sizeof(PersistentBackwardShared<Tile>), Tile::stages},
         maps, scheduler);
  launch_tma_postprocess<Tile>(maps, stream);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_persistent, (false));

FA_STEP_ROW(backward, 14) {
  return row("14_persistent", "persistent blocks", half{}, bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<64>{})
      .over_queries(HopperBackwardTileFor<half, 64>{}, 2)
      .memory_is("4 N D + 8 N + N / 8 + 4",
                 [](auto n, auto d) { return 4 * n * d + 8 * n + n / 8 + 4; })
      .workspace([](auto&, auto d) {
        return Workspace{d, true};
      })
      .launch([](auto& a, auto, auto& stream) {
        launch_backward_persistent<false>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
