/// @file
/// Warps that only fetch, and warps that only compute. The producer runs ahead by as many tiles as there are stages
/// and gives its registers to the consumers; nobody waits for all threads of the block any more.
#pragma once

#include "05_flash_forward/kernels/hopper.cuh"

namespace fa::FA_TARGET {

/// Registers of a producer's thread.
template <class Tile>
constexpr int kProducerRegisters = Tile::consumers == 3 ? 32 : 40;
/// Registers of a consumer's thread: all of 64 Ki together.
template <class Tile>
constexpr int kConsumerRegisters = Tile::consumers == 3 ? 160 : 232;

/// What a block keeps in shared memory.
template <class Tile>
struct SpecializedShared {
  typename Tile::QTile
      q[Tile::consumers];                 ///< of each consumer; at the end O
  typename Tile::KvTile k[Tile::stages];  ///< tiles of keys
  typename Tile::KvTile v[Tile::stages];  ///< their values
  Mbarrier q_full[Tile::consumers];       ///< a consumer's Q is there
  Pipeline<Tile::stages> k_pipe;          ///< of k
  Pipeline<Tile::stages> v_pipe;          ///< of v
};

/// Initialises a block's barriers; all threads call it.
template <class Tile>
__device__ void init_barriers(SpecializedShared<Tile>& shared) {
  if (threadIdx.x == 0) {
    for (Mbarrier& full : shared.q_full) full.init(1);
    // Each warp of the consumers frees: it knows of its own products only.
    shared.k_pipe.init(4 * Tile::consumers);
    shared.v_pipe.init(4 * Tile::consumers);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are ready
}

/// What the producer's thread does for a block of queries: Q, then K and V from the last tile on.
//! [produce]
template <class Tile, class T>
__device__ void produce(SpecializedShared<Tile>& shared,
                        const TmaAttention<T>& maps, int block, int head,
                        int batch, int tiles) {
  const int kv_head = head / (maps.a.heads / maps.a.kv_heads);
  for (int i = 0; i < Tile::consumers; ++i) {
    shared.q_full[i].arrive_and_expect(Tile::QTile::bytes);
    load_tile(shared.q[i], maps.q, shared.q_full[i],
              block * Tile::block_m + i * kQueries, head, batch);
  }
  PipelineState<Tile::stages> at;
  for (int tile = tiles - 1; tile >= 0; --tile, at.advance()) {
    const int key0 = tile * Tile::block_n;
    load_tile(shared.k[at.stage], maps.k,
              shared.k_pipe.producer_acquire(at, Tile::KvTile::bytes), key0,
              kv_head, batch);
    load_tile(shared.v[at.stage], maps.v,
              shared.v_pipe.producer_acquire(at, Tile::KvTile::bytes), key0,
              kv_head, batch);
  }
}
//! [produce]

/// Launch: blocks of 128 x (consumers + 1); grid of ceil(length_q / block_m) x heads x batch;
/// sizeof(SpecializedShared<Tile>).
/// @tparam Tile HopperTile
//! [warp_specialized]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_warp_specialized(const __grid_constant__ TmaAttention<T> maps) {
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
  const int whole = visible_keys(a, query0) / Tile::block_n;  // seen by all
  const float scale = a.scale * kLog2E;
  const auto& q = shared.q[warpgroup];
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
  PipelineState<Tile::stages> at;
  const auto step = [&](int tile, auto edge) {
    constexpr bool masked = decltype(edge)::value;
    WarpgroupScores<Tile> s;
    shared.k_pipe.consumer_wait(at);
    issue_qk(s, q, shared.k[at.stage]);
    wgmma_wait<0>(s);
    if (threadIdx.x % kWarp == 0) shared.k_pipe.consumer_release(at);
    if constexpr (masked) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    float rescale[2];
    if (online_softmax<masked>(s, rows, rescale, scale)) {
      rescale_o(o, rescale);
    }
    WarpgroupProbs<Tile> p;
    round_to_operand<T>(p, s);
    shared.v_pipe.consumer_wait(at);
    issue_pv(o, p, shared.v[at.stage]);
    wgmma_wait<0>(o, p);
    if (threadIdx.x % kWarp == 0) shared.v_pipe.consumer_release(at);
    at.advance();
  };
  shared.q_full[warpgroup].wait(0);
  int tile = tiles - 1;  // the edge first
  for (; tile >= whole; --tile) step(tile, std::true_type{});
  for (; tile >= 0; --tile) step(tile, std::false_type{});
  if (write_output<Tile>(maps, o, rows, shared.q[warpgroup], query0, head,
                         batch)) {
    bulk_wait_read<0>();  // before the block ends
  }
}
//! [warp_specialized]

}  // namespace fa::FA_TARGET
