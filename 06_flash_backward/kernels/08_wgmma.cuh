/// @file
/// Hopper's products and copies. Two warpgroups have 64 keys each; tiles of Q and dO come by TMA, and all five products
/// are wgmma: S^T and dP^T from shared memory, dV and dK with P^T and dS^T in registers, dQ from dS in shared memory.
/// Everything in one order, and dQ by atomics, as before.
#pragma once

#include "06_flash_backward/kernels/hopper.cuh"

namespace fa::FA_TARGET {

/// What a block keeps in shared memory.
template <class Tile>
struct WgmmaBackwardShared {
  typename Tile::KvTile k[kKeyWarpgroups];  ///< at the end dK
  typename Tile::KvTile v[kKeyWarpgroups];  ///< at the end dV
  typename Tile::QTile q;                   ///< a tile of queries
  typename Tile::QTile d_o;                 ///< their dO
  typename Tile::ScoreTile d_s;             ///< of all keys of the block
  float lse[Tile::block_m];                 ///< in base 2, of q
  float delta[Tile::block_m];               ///< of d_o
  Mbarrier keys;                            ///< k and v are there
  Mbarrier queries;                         ///< a tile of queries is there
};

/// A warpgroup adds its part of dQ to the sums.
/// @param to  the part, see d_q_part()
/// @param d_q this lane's
//! [add_part]
template <class Tile>
__device__ void add_part(float* to, const QueryGradient<Tile>& d_q) {
  for_each_four<Tile::d_q_columns / 2>([&](int at, int i) {
    atomic_add4(to + at,
                make_float4(d_q[i], d_q[i + 1], d_q[i + 2], d_q[i + 3]));
  });
}
//! [add_part]

/// dK, dV and the sums of dQ. Launch: blocks of 256; grid of ceil(length_k / block_n) x kv_heads x batch;
/// sizeof(WgmmaBackwardShared<Tile>); after preprocess() with d_q_sum, and before write_tma_d_q().
/// @tparam Tile HopperBackwardTile with one stage
/// @param maps  what is computed
//! [wgmma]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* kKeyWarpgroups, 1)
    flash_backward_wgmma(const __grid_constant__ TmaGradient<T> maps) {
  auto& shared = *dynamic_shared<WgmmaBackwardShared<Tile>>();
  const AttentionGradient<T>& a = maps.a;
  const KeyBlock block =
      key_block<Tile>(a, blockIdx.x, blockIdx.y, blockIdx.z);
  const int warpgroup = warpgroup_index();
  const int key0 = block.key0 + warpgroup * kKeys;
  if (threadIdx.x == 0) {
    shared.keys.init(1);
    shared.queries.init(1);
    fence_barrier_init();
    shared.keys.arrive_and_expect(2 * kKeyWarpgroups * Tile::KvTile::bytes);
    for (int i = 0; i < kKeyWarpgroups; ++i) {
      const int key = block.key0 + i * kKeys;
      load_tile(shared.k[i], maps.k, shared.keys, key, block.head,
                block.batch);
      load_tile(shared.v[i], maps.v, shared.keys, key, block.head,
                block.batch);
    }
  }
  __syncthreads();  // the barriers are ready
  shared.keys.wait(0);
  KeyGradient<Tile> d_k = {}, d_v = {};
  int parity = 0;
  for_each_tile<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = row_of_tile(a, block, head, query0);
    if (threadIdx.x == 0) {
      constexpr int row_bytes = Tile::block_m * int{sizeof(float)};
      shared.queries.arrive_and_expect(2 * Tile::QTile::bytes +
                                       2 * row_bytes);
      load_tile(shared.q, maps.q, shared.queries, query0, head, block.batch);
      load_tile(shared.d_o, maps.d_o, shared.queries, query0, head,
                block.batch);
      bulk_load(shared.lse, a.lse_base_2 + row, row_bytes, shared.queries);
      bulk_load(shared.delta, a.delta + row, row_bytes, shared.queries);
    }
    shared.queries.wait(parity);
    parity ^= 1;
    TransposedScores<Tile> p, d_s;  // at first S and dP, turned
    issue_gemm_nt(p, shared.k[warpgroup], shared.q);
    issue_gemm_nt(d_s, shared.v[warpgroup], shared.d_o);
    wgmma_wait<0>(p, d_s);
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
    issue_gemm_rs(d_v, p_operand, shared.d_o);  // P^T dO
    issue_gemm_rs(d_k, d_s_operand, shared.q);  // dS^T Q
    QueryGradient<Tile> d_q;
    issue_d_q<Tile>(d_q, shared.d_s, shared.k, warpgroup);
    wgmma_wait<0>(d_v, p_operand, d_k, d_s_operand, d_q);
    add_part<Tile>(d_q_part<Tile>(a, row, warpgroup), d_q);
    __syncthreads();  // nobody reads these tiles any more
  });
  write_key_gradients<Tile>(shared, maps, block, d_k, d_v);
}
//! [wgmma]

}  // namespace fa::FA_TARGET
