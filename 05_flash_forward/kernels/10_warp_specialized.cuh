/// @file
/// Warp specialization: a producer warpgroup that only loads, and consumer warpgroups that only
/// compute. The producer runs ahead by as many tiles as there are stages and gives its registers to
/// the consumers. A pair of barriers for each stage replaces __syncthreads().
#pragma once

#include "05_flash_forward/kernels/hopper_forward.cuh"

namespace fa::FA_TARGET {

/// The loop of a consumer warpgroup over the tiles of keys, from the last one on: adds to O and to
/// the state of its rows.
template <class Tile, class T>
__device__ void warp_specialized_mainloop(WarpgroupOutput<Tile>& o,
                                          RowState& rows,
                                          SpecializedShared<Tile>& shared,
                                          const Attention<T>& a, int query0,
                                          int tiles, int warpgroup) {
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  const float exponent_scale = a.scale * kLog2E;
  const bool releases = threadIdx.x % kWarp == 0;
  const auto& q = shared.q[warpgroup];
  PipelineState<Tile::stages> read;
  //! [step]
  const auto step = [&](int tile, auto edge) {
    constexpr bool masked = decltype(edge)::value;
    // S = Q K^T, not scaled
    WarpgroupScores<Tile> s;
    shared.k_pipe.consumer_wait(read);
    issue_qk(s, q, shared.k[read.stage]);
    wgmma_wait<0>(s);
    if (releases) shared.k_pipe.consumer_release(read);
    if constexpr (masked) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    // P = exp2(exponent_scale (S - m))
    float rescale[2];
    if (online_softmax<masked>(s, rows, rescale, exponent_scale)) {
      rescale_o(o, rescale);
    }
    WarpgroupProbs<Tile> p;
    round_to_operand<T>(p, s);
    // O += P V
    shared.v_pipe.consumer_wait(read);
    issue_pv(o, p, shared.v[read.stage]);
    wgmma_wait<0>(o, p);
    if (releases) shared.v_pipe.consumer_release(read);
    read.advance();
  };
  //! [step]
  int tile = tiles - 1;  // the edge first
  for (; tile >= unmasked_tiles; --tile) step(tile, std::true_type{});
  for (; tile >= 0; --tile) step(tile, std::false_type{});
}

/// The producer: a thread loads Q, and K and V of all tiles.
template <class Tile, class T>
__device__ void produce(SpecializedShared<Tile>& shared,
                        const TmaAttention<T>& maps, int block, int head,
                        int batch, int tiles) {
  //! [produce]
  setmaxnreg_dec<kProducerRegisters<Tile>>();
  if (threadIdx.x % kWarpgroup != 0) return;
  const int kv_head = kv_head_of(maps.a, head);
  for (int i = 0; i < Tile::consumers; ++i) {
    shared.q_full[i].arrive_and_expect(Tile::QTile::bytes);
    load_tile(shared.q[i], maps.q, shared.q_full[i],
              block * Tile::block_m + i * kQueries, head, batch);
  }
  PipelineState<Tile::stages> write;
  for (int tile = tiles - 1; tile >= 0; --tile, write.advance()) {
    const int key0 = tile * Tile::block_n;
    load_tile(shared.k[write.stage], maps.k,
              shared.k_pipe.producer_acquire(write, Tile::KTile::bytes), key0,
              kv_head, batch);
    load_tile(shared.v[write.stage], maps.v,
              shared.v_pipe.producer_acquire(write, Tile::VTile::bytes), key0,
              kv_head, batch);
  }
  //! [produce]
}

/// Attention in 16 bits. A consumer warpgroup processes 64 queries.
/// @tparam Tile a HopperTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_warp_specialized(const __grid_constant__ TmaAttention<T> maps) {
  auto& shared = *dynamic_shared<SpecializedShared<Tile>>();
  const Attention<T>& a = maps.a;
  const int block = longest_first_m_block(a);
  const int head = blockIdx.y, batch = blockIdx.z;
  const int tiles = key_tiles<Tile>(a, block);
  init_barriers(shared);
  if (warpgroup_index() == Tile::consumers) {
    produce(shared, maps, block, head, batch, tiles);
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const int warpgroup = warpgroup_index();
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
  shared.q_full[warpgroup].wait(0);
  warp_specialized_mainloop<Tile>(o, rows, shared, a, query0, tiles,
                                  warpgroup);
  if (write_output<Tile>(maps, o, rows, shared.q[warpgroup], query0, head,
                         batch)) {
    bulk_wait_read<0>();  // before the block ends
  }
}

/// Launches the kernel with a block for each tile of queries.
/// @param a with a head_dim of at most 128, for which can_use_tma() holds
template <class T>
void launch_warp_specialized(const Attention<T>& a, const Stream& stream) {
  using Tile = HopperTile128<T>;
  launch(stream, flash_warp_specialized<Tile, T>,
         {grid_of(a, Tile::block_m), kWarpgroup * (Tile::consumers + 1),
          sizeof(SpecializedShared<Tile>), Tile::stages},
         tma_attention<Tile>(a));
}

FA_LAUNCH_16_BIT(forward_steps, Attention, (const Stream&),
                 launch_warp_specialized);

FA_STEP_ROW(forward, 10) {
  return row("10_warp_specialized", "a producer warpgroup", half{},
             bfloat16{})
      .hopper()
      .head_dims(HeadDims<128>{})
      .over_keys(HopperTile128<half>{}, 2)
      .timeline(HeadDims<128>{}, 256, 512)
      .launch([](auto& a, auto, auto& stream) {
        launch_warp_specialized(a, stream);
      });
}

}  // namespace fa::FA_TARGET
