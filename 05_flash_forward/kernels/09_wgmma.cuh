/// @file
/// Hopper's products and copies, in the order of rung 07: one thread sends for the next tiles, all wait for theirs,
/// multiply, take the scores in, multiply again. K and V are never in registers, and no thread computes an address.
#pragma once

#include "05_flash_forward/kernels/hopper.cuh"

namespace fa::FA_TARGET {

/// What a block keeps in shared memory.
template <class Tile>
struct WgmmaShared {
  typename Tile::QTile
      q[Tile::consumers];                 ///< of each warpgroup; at the end O
  typename Tile::KvTile k[Tile::stages];  ///< tiles of keys
  typename Tile::KvTile v[Tile::stages];  ///< their values
  Mbarrier q_full;                        ///< Q is there
  Mbarrier full[Tile::stages];            ///< K and V are there
};

/// Launch: blocks of 128 x consumers; grid of ceil(length_q / block_m) x heads x batch; sizeof(WgmmaShared<Tile>).
/// @tparam Tile HopperTile with two stages
//! [wgmma]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::consumers)
    flash_wgmma(const __grid_constant__ TmaAttention<T> maps) {
  auto& shared = *dynamic_shared<WgmmaShared<Tile>>();
  const Attention<T>& a = maps.a;
  const int block = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int head = blockIdx.y, batch = blockIdx.z;
  const int kv_head = head / (a.heads / a.kv_heads);
  const int warpgroup = warpgroup_index();
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  const int tiles =
      ceil_div(visible_keys(a, block * Tile::block_m + Tile::block_m - 1),
               Tile::block_n);
  const auto fetch = [&](int step) {  // the last tile is the first step
    const int stage = step % 2, key0 = (tiles - 1 - step) * Tile::block_n;
    shared.full[stage].arrive_and_expect(2 * Tile::KvTile::bytes);
    load_tile(shared.k[stage], maps.k, shared.full[stage], key0, kv_head,
              batch);
    load_tile(shared.v[stage], maps.v, shared.full[stage], key0, kv_head,
              batch);
  };
  if (threadIdx.x == 0) {
    shared.q_full.init(1);
    for (Mbarrier& full : shared.full) full.init(1);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are ready
  if (threadIdx.x == 0) {
    shared.q_full.arrive_and_expect(Tile::consumers * Tile::QTile::bytes);
    for (int i = 0; i < Tile::consumers; ++i) {
      load_tile(shared.q[i], maps.q, shared.q_full,
                block * Tile::block_m + i * kQueries, head, batch);
    }
    if (tiles > 0) fetch(0);
  }
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
  shared.q_full.wait(0);
  for (int step = 0; step < tiles; ++step) {
    const int stage = step % 2, key0 = (tiles - 1 - step) * Tile::block_n;
    if (threadIdx.x == 0 && step + 1 < tiles) fetch(step + 1);
    shared.full[stage].wait(step / 2 % 2);
    WarpgroupScores<Tile> s;
    issue_qk(s, shared.q[warpgroup], shared.k[stage]);
    wgmma_wait<0>(s);
    if (key0 + Tile::block_n > visible_keys(a, query0)) {
      apply_mask(s, a, query0, key0);
    }
    float rescale[2];
    if (online_softmax<true>(s, rows, rescale, a.scale * kLog2E)) {
      rescale_o(o, rescale);
    }
    WarpgroupProbs<Tile> p;
    round_to_operand<T>(p, s);
    issue_pv(o, p, shared.v[stage]);
    wgmma_wait<0>(o, p);
    __syncthreads();  // nobody reads this stage any more
  }
  if (write_output<Tile>(maps, o, rows, shared.q[warpgroup], query0, head,
                         batch)) {
    bulk_wait_read<0>();  // before the block ends
  }
}
//! [wgmma]

}  // namespace fa::FA_TARGET
