/// @file
/// Hopper's matmuls and copies. Two warpgroups have 64 keys each. Tiles of Q and dO arrive by TMA,
/// and all five matmuls are wgmma: S^T and dP^T from shared memory, dV and dK with P^T and dS^T in
/// registers, dQ with dS in shared memory. All steps run one after the other, and dQ is
/// accumulated by atomics, as before.
#pragma once

#include "06_flash_backward/kernels/hopper_backward.cuh"

namespace fa::FA_TARGET {

/// What a block keeps in shared memory. In the end k and v are room for dK and dV.
template <class Tile>
struct WgmmaBackwardShared {
  typename Tile::KvTile k[kKeyWarpgroups];
  typename Tile::KvTile v[kKeyWarpgroups];
  typename Tile::QTile q;
  typename Tile::QTile d_o;
  typename Tile::ScoreTile d_s;
  float lse[Tile::block_m];
  float delta[Tile::block_m];
  Mbarrier kv_full;       ///< k and v are loaded
  Mbarrier queries_full;  ///< q, d_o, lse and delta are loaded
};

/// dK, dV, and additions to d_q_accum. A block owns keys and loops over the queries.
/// @tparam Tile HopperBackwardTile with one stage
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* kKeyWarpgroups, 1)
    flash_backward_wgmma(const __grid_constant__ TmaGradient<T> maps) {
  auto& shared = *dynamic_shared<WgmmaBackwardShared<Tile>>();
  const AttentionGradient<T>& a = maps.a;
  const NBlock block = n_block<Tile>(a, blockIdx.x, blockIdx.y, blockIdx.z);
  const int warpgroup = warpgroup_index();
  const int key0 = block.key0 + warpgroup * kKeys;
  if (threadIdx.x == 0) {
    shared.kv_full.init(1);
    shared.queries_full.init(1);
    fence_barrier_init();
    shared.kv_full.arrive_and_expect(2 * kKeyWarpgroups *
                                     Tile::KvTile::bytes);
    for (int i = 0; i < kKeyWarpgroups; ++i) {
      const int key = block.key0 + i * kKeys;
      load_tile(shared.k[i], maps.k, shared.kv_full, key, block.kv_head,
                block.batch);
      load_tile(shared.v[i], maps.v, shared.kv_full, key, block.kv_head,
                block.batch);
    }
  }
  __syncthreads();  // the barriers are ready
  shared.kv_full.wait(0);
  KeyGradient<Tile> d_k = {}, d_v = {};
  int parity = 0;
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = workspace_row(a, block, head, query0);
    if (threadIdx.x == 0) {
      constexpr int row_bytes = Tile::block_m * int{sizeof(float)};
      shared.queries_full.arrive_and_expect(2 * Tile::QTile::bytes +
                                            2 * row_bytes);
      load_tile(shared.q, maps.q, shared.queries_full, query0, head,
                block.batch);
      load_tile(shared.d_o, maps.d_o, shared.queries_full, query0, head,
                block.batch);
      bulk_load(shared.lse, a.lse_base_2 + row, row_bytes,
                shared.queries_full);
      bulk_load(shared.delta, a.delta + row, row_bytes, shared.queries_full);
    }
    shared.queries_full.wait(parity);
    parity ^= 1;
    //! [tile_step]
    TransposedScores<Tile> p, d_s;  // at first S^T and dP^T
    // S^T = K Q^T, dP^T = V dO^T
    issue_gemm_nt(p, shared.k[warpgroup], shared.q);
    issue_gemm_nt(d_s, shared.v[warpgroup], shared.d_o);
    wgmma_wait<0>(p, d_s);
    // P = exp(scale S - LSE), dS = P * (dP - delta), elementwise
    if (visible_keys(a, query0) < block.key0 + Tile::block_n) {
      apply_mask_transposed(p, a, query0, key0);
    }
    recompute_probs(p, shared.lse, a.scale * kLog2E);
    score_gradients(d_s, p, shared.delta);
    RoundedScores<Tile> p_operand, d_s_operand;
    round_to_operand<T>(p_operand, p);
    round_to_operand<T>(d_s_operand, d_s);
    store_d_s(shared.d_s, d_s_operand, warpgroup * kKeys);
    wait_for_d_s();
    // dV += P^T dO, dK += dS^T Q, dQ = dS K
    issue_gemm_rs(d_v, p_operand, shared.d_o);
    issue_gemm_rs(d_k, d_s_operand, shared.q);
    QueryGradient<Tile> d_q;
    issue_d_q<Tile>(d_q, shared.d_s, shared.k, warpgroup);
    wgmma_wait<0>(d_v, p_operand, d_k, d_s_operand, d_q);
    add_accumulator(d_q_accum_part<Tile>(a, row, warpgroup), d_q);
    __syncthreads();  // all threads have read the tiles
    //! [tile_step]
  });
  epilogue<Tile>(shared, maps, block, d_k, d_v);
}

/// Launches the step.
/// @param a with a Workspace{d}
template <int d, class T>
void launch_backward_wgmma(const AttentionGradient<T>& a,
                           const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d, 1>;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  launch(stream, flash_backward_wgmma<Tile, T>,
         {grid_of_keys(a, Tile::block_n), kWarpgroup * kKeyWarpgroups,
          sizeof(WgmmaBackwardShared<Tile>), Tile::stages},
         maps);
  launch_tma_postprocess<Tile>(maps, stream);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_wgmma, (64), (128));

FA_STEP_ROW(backward, 8) {
  return row("08_wgmma", "Hopper's matmuls and copies", half{}, bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<64, 128>{})
      .over_queries(HopperBackwardTileFor<half, 64, 1>{}, 1)
      .over_queries(HopperBackwardTileFor<half, 128, 1>{}, 1)
      .timeline(HeadDims<128>{}, 256, 256)
      .copies({"K", "V", "Q", "dO", "dV", "dK"})
      .memory_is("4 N D + 8 N",
                 [](auto n, auto d) { return 4 * n * d + 8 * n; })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_wgmma<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
