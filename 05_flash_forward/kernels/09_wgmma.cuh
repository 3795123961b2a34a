/// @file
/// Hopper's matmuls and copies, in the order of rung 07: one thread issues TMA copies of the next
/// tiles, then all threads wait for the current ones, compute S = Q K^T by wgmma, the softmax, and
/// O += P V. K and V never pass through registers, and no thread computes an address.
#pragma once

#include "05_flash_forward/kernels/hopper_forward.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// Shared memory of a block.
template <class Tile>
struct WgmmaShared {
  typename Tile::QTile q[Tile::consumers];  // of each warpgroup; at the end O
  typename Tile::KTile k[Tile::stages];
  typename Tile::VTile v[Tile::stages];
  // A phase ends when Q, or K and V, have arrived.
  Mbarrier q_full;
  Mbarrier full[Tile::stages];
};

/// Attention in 16 bits. A warpgroup processes 64 queries.
/// @tparam Tile HopperTile with two stages
/// @tparam T    half or bfloat16
//! [wgmma]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::consumers)
    flash_wgmma(const __grid_constant__ TmaAttention<T> maps) {
  auto& shared = *dynamic_shared<WgmmaShared<Tile>>();
  const Attention<T>& a = maps.a;
  const int block = longest_first_m_block(a);
  const int head = blockIdx.y, batch = blockIdx.z;
  const int kv_head = kv_head_of(a, head);
  const int warpgroup = warpgroup_index();
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  const int tiles = key_tiles<Tile>(a, block);
  const auto load = [&](int step) {  // the last tile is the first step
    const int stage = step % 2, key0 = (tiles - 1 - step) * Tile::block_n;
    shared.full[stage].arrive_and_expect(Tile::KTile::bytes +
                                         Tile::VTile::bytes);
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
  __syncthreads();  // the barriers are initialised
  if (threadIdx.x == 0) {
    shared.q_full.arrive_and_expect(Tile::consumers * Tile::QTile::bytes);
    for (int i = 0; i < Tile::consumers; ++i) {
      load_tile(shared.q[i], maps.q, shared.q_full,
                block * Tile::block_m + i * kQueries, head, batch);
    }
    if (tiles > 0) load(0);
  }
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
  shared.q_full.wait(0);
  //! [mainloop]
  for (int step = 0; step < tiles; ++step) {
    const int stage = step % 2, key0 = (tiles - 1 - step) * Tile::block_n;
    if (threadIdx.x == 0 && step + 1 < tiles) load(step + 1);
    shared.full[stage].wait(step / 2 % 2);
    // S = Q K^T
    WarpgroupScores<Tile> s;
    issue_qk(s, shared.q[warpgroup], shared.k[stage]);
    wgmma_wait<0>(s);
    if (key0 + Tile::block_n > visible_keys(a, query0)) {
      apply_mask(s, a, query0, key0);
    }
    // P = exp2(scale (S - m))
    float rescale[2];
    if (online_softmax<true>(s, rows, rescale, a.scale * kLog2E)) {
      rescale_o(o, rescale);
    }
    WarpgroupProbs<Tile> p;
    round_to_operand<T>(p, s);
    // O += P V
    issue_pv(o, p, shared.v[stage]);
    wgmma_wait<0>(o, p);
    __syncthreads();  // all warps are done with this stage
  }
  //! [mainloop]
  if (write_output<Tile>(maps, o, rows, shared.q[warpgroup], query0, head,
                         batch)) {
    bulk_wait_read<0>();  // before the block ends
  }
}
//! [wgmma]

/// Launches the kernel with a block for each tile of queries.
/// @param a with a head_dim of at most 128, for which can_use_tma() holds
//! [launch]
template <class T>
void launch_wgmma(const Attention<T>& a, const Stream& stream) {
  using Tile = HopperTile128<T>;
  launch(stream, flash_wgmma<Tile, T>,
         {grid_of(a, Tile::block_m),
          {kWarpgroup * Tile::consumers},
          sizeof(WgmmaShared<Tile>),
          Tile::stages},
         tma_attention<Tile>(a));
}
//! [launch]

/// @cond compiled once for all who launch it: common/gpu/parts.hpp
FA_LAUNCH_16_BIT(forward_rungs, Attention, (const Stream&), launch_wgmma);
/// @endcond

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto forward_step(std::integral_constant<int, 9>, Row row) {
  return row("09_wgmma", "wgmma and TMA", half{}, bfloat16{})
      .hopper()
      .head_dims(HeadDims<128>{})
      .over_keys(HopperTile128<half>{}, 2)
      .timeline(HeadDims<128>{}, 256, 512)
      .launch([](auto& a, auto, auto& stream) { launch_wgmma(a, stream); });
}

}  // namespace fa::FA_TARGET
