/// @file
/// Warps that only fetch, warps that only add, and warps that compute. One thread brings tiles of Q and dO as stages
/// become empty; two others add to dQ what the warpgroups hand over, so that nobody who computes waits for atomics.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, appendix B.
#pragma once

#include "06_flash_backward/kernels/hopper.cuh"

namespace fa::FA_TARGET {

/// Registers of the threads that fetch and add. Three warpgroups have 3 x 168.
template <class Tile>
constexpr int kBackwardProducerRegisters = Tile::d == 64 ? 40 : 24;
/// Registers of the threads that compute.
template <class Tile>
constexpr int kBackwardConsumerRegisters =
    (3 * 168 - kBackwardProducerRegisters<Tile>) / 2;
/// What a block keeps in shared memory.
template <class Tile>
struct BackwardShared {
  typename Tile::KvTile k[kKeyWarpgroups];    ///< at the end dK
  typename Tile::KvTile v[kKeyWarpgroups];    ///< at the end dV
  typename Tile::QTile q[Tile::stages];       ///< tiles of queries
  typename Tile::QTile d_o[Tile::stages];     ///< their dO
  typename Tile::ScoreTile d_s[2];            ///< of this tile and the last
  float d_q[kKeyWarpgroups][Tile::d_q_part];  ///< handed over
  float lse[Tile::stages][Tile::block_m];     ///< in base 2, of q
  float delta[Tile::stages][Tile::block_m];   ///< of d_o
  Pipeline<Tile::stages> q_pipe;              ///< of q and lse
  Pipeline<Tile::stages> d_o_pipe;            ///< of d_o and delta
  Mbarrier d_s_full[2];                ///< dS is there, of both warpgroups
  Mbarrier d_q_full[kKeyWarpgroups];   ///< a part is handed over
  Mbarrier d_q_empty[kKeyWarpgroups];  ///< it has been read

  /// Initialises the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      q_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp frees
      d_o_pipe.init(4 * kKeyWarpgroups);
      for (auto& barrier : d_s_full) barrier.init(4 * kKeyWarpgroups);
      for (int i = 0; i < kKeyWarpgroups; ++i) {
        d_q_full[i].init(4);
        d_q_empty[i].init(1);
      }
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// What the thread that fetches does. K comes with the first tile of Q, V with the first one of dO.
/// @tparam Shared BackwardShared, or WideKeysShared of rung 13
/// @param shared the block's
/// @param maps   of the tensors
/// @param block  of keys
//! [fetch]
template <class Tile, class Shared, class T>
__device__ void load_queries(Shared& shared, const TmaGradient<T>& maps,
                             const KeyBlock& block) {
  constexpr int row_bytes = Tile::block_m * int{sizeof(float)};
  const AttentionGradient<T>& a = maps.a;
  int keys_bytes = sizeof shared.k;  // then 0
  const auto load_keys = [&](auto& tiles, const TensorMap& map,
                             Mbarrier& barrier) {
    int key0 = block.key0;
#pragma unroll 1  // registers are few here
    for (auto& tile : tiles) {
      load_tile(tile, map, barrier, key0, block.head, block.batch,
                CacheHint::kEvictFirst);
      key0 += kKeys;
    }
  };
  PipelineState<Tile::stages> at;
  for_each_tile<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = row_of_tile(a, block, head, query0);
    const int bytes = keys_bytes + Tile::QTile::bytes + row_bytes;
    Mbarrier& q_full = shared.q_pipe.producer_acquire(at, bytes);
    if (keys_bytes > 0) load_keys(shared.k, maps.k, q_full);
    load_tile(shared.q[at.stage], maps.q, q_full, query0, head, block.batch,
              CacheHint::kEvictLast);
    bulk_load(shared.lse[at.stage], a.lse_base_2 + row, row_bytes, q_full);
    Mbarrier& d_o_full = shared.d_o_pipe.producer_acquire(at, bytes);
    if (keys_bytes > 0) load_keys(shared.v, maps.v, d_o_full);
    load_tile(shared.d_o[at.stage], maps.d_o, d_o_full, query0, head,
              block.batch, CacheHint::kEvictLast);
    bulk_load(shared.delta[at.stage], a.delta + row, row_bytes, d_o_full);
    keys_bytes = 0;
    at.advance();
  });
}
//! [fetch]

/// What a thread that adds does.
/// @param shared    the block's
/// @param a         what is computed
/// @param block     of keys
/// @param warpgroup whose parts of dQ it adds
//! [add]
template <class Tile, class T>
__device__ void add_d_q_parts(BackwardShared<Tile>& shared,
                              const AttentionGradient<T>& a,
                              const KeyBlock& block, int warpgroup) {
  constexpr int bytes = Tile::d_q_part * int{sizeof(float)};
  PipelineState<1> at;
  for_each_tile<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = row_of_tile(a, block, head, query0);
    shared.d_q_full[warpgroup].wait(at.parity);
    bulk_add(d_q_part<Tile>(a, row, warpgroup), shared.d_q[warpgroup], bytes);
    bulk_commit();
    bulk_wait_read<0>();
    shared.d_q_empty[warpgroup].arrive();
    at.advance();
  });
}
//! [add]

/// A warpgroup hands its part of dQ over.
/// @param shared    the block's
/// @param d_q       this lane's part
/// @param warpgroup this one
/// @param parity    of how often it did
//! [hand_over]
template <class Tile>
__device__ void hand_over(BackwardShared<Tile>& shared,
                          const QueryGradient<Tile>& d_q, int warpgroup,
                          int parity) {
  shared.d_q_empty[warpgroup].wait(parity ^ 1);
  store_accumulator(shared.d_q[warpgroup], d_q);
  fence_async_proxy();  // TMA sees what this thread wrote
  __syncwarp();
  if (threadIdx.x % kWarp == 0) shared.d_q_full[warpgroup].arrive();
}
//! [hand_over]

/// This warp is done with a stage.
template <int stages>
__device__ void release_stage(Pipeline<stages>& pipe,
                              const PipelineState<stages>& at) {
  if (threadIdx.x % kWarp == 0) pipe.consumer_release(at);
}

/// What the warps behind those that compute do.
/// @param shared the block's
/// @param maps   of the tensors
/// @param block  of keys
/// @param add    add(warpgroup) adds what that one hands over
template <class Tile, class T, class Add>
__device__ void serve(BackwardShared<Tile>& shared,
                      const TmaGradient<T>& maps, const KeyBlock& block,
                      Add add) {
  const int warp = threadIdx.x / kWarp % 4;
  if (threadIdx.x % kWarp != 0) return;
  if (warp == 0) load_queries<Tile>(shared, maps, block);
  if (warp > 0 && warp <= kKeyWarpgroups) add(warp - 1);
}

/// dK, dV and the sums of dQ. Launch: blocks of 384; grid of ceil(length_k / block_n) x kv_heads x batch;
/// sizeof(BackwardShared<Tile>); after preprocess() with d_q_sum, and before write_tma_d_q().
/// @tparam Tile HopperBackwardTile
/// @param maps  what is computed
//! [warp_specialized]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_specialized(const __grid_constant__ TmaGradient<T> maps) {
  auto& shared = *dynamic_shared<BackwardShared<Tile>>();
  shared.init();
  const AttentionGradient<T>& a = maps.a;
  const KeyBlock block =
      key_block<Tile>(a, blockIdx.x, blockIdx.y, blockIdx.z);
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    serve(shared, maps, block,
          [&](int of) { add_d_q_parts(shared, a, block, of); });
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  const int key0 = block.key0 + warpgroup * kKeys;
  KeyGradient<Tile> d_k = {}, d_v = {};
  PipelineState<2> at;  // of Q, dO and dS
  const auto step = [&](int query0, bool masked) {
    TransposedScores<Tile> p, d_s;  // at first S and dP, turned
    RoundedScores<Tile> p_operand, d_s_operand;
    QueryGradient<Tile> d_q;
    auto& d_s_smem = shared.d_s[at.stage];
    shared.q_pipe.consumer_wait(at);
    issue_gemm_nt(p, shared.k[warpgroup], shared.q[at.stage]);
    shared.d_o_pipe.consumer_wait(at);
    issue_gemm_nt(d_s, shared.v[warpgroup], shared.d_o[at.stage]);
    wgmma_wait<1>(p);
    if (masked) apply_mask_transposed(p, a, query0, key0);
    recompute_probs(p, shared.lse[at.stage], a.scale * kLog2E);
    wgmma_wait<0>(d_s);
    score_gradients(d_s, p, shared.delta[at.stage]);
    round_to_operand<T>(p_operand, p);
    round_to_operand<T>(d_s_operand, d_s);
    //! [order]
    store_d_s(d_s_smem, d_s_operand, warpgroup * kKeys);
    issue_gemm_rs(d_v, p_operand, shared.d_o[at.stage]);
    wait_for_d_s();
    issue_d_q<Tile>(d_q, d_s_smem, shared.k, warpgroup);
    wgmma_wait<1>(d_v, p_operand);
    release_stage(shared.d_o_pipe, at);
    issue_gemm_rs(d_k, d_s_operand, shared.q[at.stage]);
    wgmma_wait<1>(d_q);
    hand_over(shared, d_q, warpgroup, at.stage);
    wgmma_wait<0>(d_k, d_s_operand);
    release_stage(shared.q_pipe, at);
    //! [order]
    at.advance();
  };
  for_each_tile<Tile>(a, block, [&](int /*head*/, int query0) {
    step(query0, visible_keys(a, query0) < block.key0 + Tile::block_n);
  });
  write_key_gradients<Tile>(shared, maps, block, d_k, d_v);
}
//! [warp_specialized]

}  // namespace fa::FA_TARGET
