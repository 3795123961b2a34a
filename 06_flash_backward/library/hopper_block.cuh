/// @file
/// A block of keys of the Hopper kernels, for steps of the ladder, packed sequences and functors:
/// its shared memory, the thread that loads, MMA warpgroups with dQ one tile later, and threads that
/// store dQ or add to it.
#pragma once

#include <type_traits>

#include "06_flash_backward/kernels/hopper_backward.cuh"

namespace fa::FA_TARGET {

/// What a block keeps in shared memory. In the end k and v are room for dK and dV.
template <class Tile>
struct SpecializedBackwardShared {
  typename Tile::KvTile k[kKeyWarpgroups];
  typename Tile::KvTile v[kKeyWarpgroups];
  typename Tile::QTile q[Tile::stages];
  typename Tile::QTile d_o[Tile::stages];
  typename Tile::ScoreTile d_s[2];  ///< of this tile and the last
  float d_q[kKeyWarpgroups][Tile::d_q_part];
  float lse[Tile::stages][Tile::block_m];  ///< a.lse_base_2, LSE / ln 2
  float delta[Tile::stages][Tile::block_m];
  Pipeline<Tile::stages> q_pipe;       ///< of q and lse
  Pipeline<Tile::stages> d_o_pipe;     ///< of d_o and delta
  Mbarrier d_q_full[kKeyWarpgroups];   ///< a part of dQ is complete
  Mbarrier d_q_empty[kKeyWarpgroups];  ///< it has been read

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      q_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp releases
      d_o_pipe.init(4 * kKeyWarpgroups);
      for (int i = 0; i < kKeyWarpgroups; ++i) {
        d_q_full[i].init(4);
        d_q_empty[i].init(1);
      }
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// The producer thread. K is loaded with the first tile of Q, V with the first one of dO.
template <class Tile, class Maps, class Block>
__device__ void load_queries(SpecializedBackwardShared<Tile>& shared,
                             const Maps& maps, const Block& block) {
  constexpr int row_bytes = Tile::block_m * int{sizeof(float)};
  const auto& a = maps.a;
  int keys_bytes = sizeof shared.k;  // then 0
  const auto load_keys = [&](auto& tiles, const auto& map,
                             Mbarrier& barrier) {
    int key0 = block.key0;
#pragma unroll 1  // registers are few here
    for (auto& tile : tiles) {
      load_tile(tile, map, barrier, key0, block.kv_head, block.batch,
                CacheHint::kEvictFirst);
      key0 += kKeys;
    }
  };
  PipelineState<Tile::stages> at;
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = workspace_row(a, block, head, query0);
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

/// Sends a warpgroup's part of dQ to the thread that adds it.
/// @param parity of how often it was called before; with two stages, the stage
template <class Tile, class Shared>
__device__ void send_d_q(Shared& shared, QueryGradient<Tile>& d_q,
                         int warpgroup, int parity) {
  //! [send_tile]
  shared.d_q_empty[warpgroup].wait(parity ^ 1);
  with_d_q_part<Tile>(d_q, warpgroup, [&](auto& part) {
    store_accumulator(shared.d_q[warpgroup], part);
  });
  fence_async_proxy();  // TMA sees what this thread wrote
  __syncwarp();
  if (threadIdx.x % kWarp == 0) shared.d_q_full[warpgroup].arrive();
  //! [send_tile]
}

/// What a block keeps in shared memory: the above and a barrier for each tile of dS. When a phase
/// of it ends, both warpgroups have stored this tile and have read the other one.
template <class Tile>
struct DelayedBackwardShared : SpecializedBackwardShared<Tile> {
  Mbarrier d_s_full[2];

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      for (auto& barrier : d_s_full) barrier.init(4 * kKeyWarpgroups);
    }
    SpecializedBackwardShared<Tile>::init();
  }
};

/// Sends a warpgroup's part of dQ.
/// @param tile in the pipeline of Q; others also need its parity
template <class Tile>
__device__ void send_d_q(DelayedBackwardShared<Tile>& shared,
                         QueryGradient<Tile>& d_q, int warpgroup,
                         const PipelineState<2>& tile) {
  send_d_q<Tile>(shared, d_q, warpgroup, tile.stage);
}

/// Whether a warpgroup keeps its V in registers, as the left operand of dP^T = V dO^T. With 96
/// columns there is room; with 64 or 128, ptxas would move registers to memory.
template <class Tile>
constexpr bool kKeepsV = Tile::d == 96;

/// V of a warpgroup as left operands of 16 columns each, if kKeepsV.
template <class Tile>
using LeftV = std::uint32_t[kKeepsV<Tile> ? Tile::d / 16 : 1][4];

/// Loads a tile of 64 rows as left operands of 16 columns each. All threads of the warpgroup call
/// it.
template <class Tile, int parts>
__device__ void load_left_operand(std::uint32_t (&a)[parts][4], Tile& tile) {
  static_assert(Tile::rows == 64 && Tile::cols == 16 * parts, "whole rows");
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    ldmatrix_x4(a[i], tile.at(stmatrix_row(), 16 * i + stmatrix_column()));
  }
}
/// Issues D = A B^T and closes the group: issue_gemm_nt() with A in registers.
template <class B, int r, int parts>
__device__ void issue_gemm_rs_nt(float (&d)[r], std::uint32_t (&a)[parts][4],
                                 const B& b) {
  FA_STAMP(kIssueScores, 0);  // for a timeline
  wgmma_fence(d, a);
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    wgmma<typename B::Element>(d, a[i], b.by_rows(0, 16 * i), i > 0);
  }
  wgmma_commit(d, a);
}

/// An MMA warpgroup and its accumulators. The matmul of dS and K comes a tile later.
/// @tparam Shared what the block keeps in shared memory
template <class Tile, class Shared = DelayedBackwardShared<Tile>>
struct DelayedMmaWarpgroup {
  using T = typename Tile::T;
  static_assert(Tile::stages == 2, "as many as tiles of dS");
  Shared& shared;
  /// In shared memory; a persistent block gives those of a stage.
  const typename Tile::KvTile (&k)[kKeyWarpgroups];
  typename Tile::KvTile (&v)[kKeyWarpgroups];
  const AttentionGradient<T>& a;
  const int warpgroup;
  const int key0;         ///< its first key
  PipelineState<2> at{};  ///< of Q, dO and dS
  KeyGradient<Tile> d_k{};
  KeyGradient<Tile> d_v{};
  LeftV<Tile> v_operand{};

  /// Waits for a tile of dO. V has arrived with the block's first one.
  template <bool first>
  __device__ void wait_for_d_o() {
    shared.d_o_pipe.consumer_wait(at);
    if constexpr (first && kKeepsV<Tile>) {
      load_left_operand(v_operand, v[warpgroup]);
    }
  }
  /// Issues dP^T = V dO^T.
  __device__ void issue_d_p(TransposedScores<Tile>& d_p) {
    if constexpr (kKeepsV<Tile>) {
      issue_gemm_rs_nt(d_p, v_operand, shared.d_o[at.stage]);
    } else {
      issue_gemm_nt(d_p, v[warpgroup], shared.d_o[at.stage]);
    }
  }

  /// Waits until dS of the previous tile is complete, and that of the one before has been read.
  //! [wait_for_previous]
  __device__ void wait_for_previous_d_s() {
    // The previous tile has the other stage. It has the same parity if this
    // tile has stage 1, else the other one: parity changes after stage 1.
    shared.d_s_full[at.stage ^ 1].wait(at.parity ^ at.stage ^ 1);
  }
  //! [wait_for_previous]
  /// Issues dQ = dS K of the previous tile.
  __device__ void issue_previous_d_q(QueryGradient<Tile>& d_q) {
    issue_d_q<Tile>(d_q, shared.d_s[at.stage ^ 1], k, warpgroup);
  }

  /// Sends it to the thread that adds it.
  __device__ void send_previous_d_q(QueryGradient<Tile>& d_q) {
    send_d_q(shared, d_q, warpgroup,
             PipelineState<2>{at.stage ^ 1, at.parity ^ at.stage ^ 1});
  }

  /// A tile of queries, `first` of the block or not; masked if some of them do not see all keys.
  template <bool first>
  __device__ void step(int query0, bool masked) {
    TransposedScores<Tile> p, d_s;  // at first S^T and dP^T
    RoundedScores<Tile> p_operand, d_s_operand;
    QueryGradient<Tile> d_q;  // of the previous tile
    // S^T = K Q^T, dP^T = V dO^T
    shared.q_pipe.consumer_wait(at);
    issue_gemm_nt(p, k[warpgroup], shared.q[at.stage]);
    wait_for_d_o<first>();
    issue_d_p(d_s);
    // P = exp(scale S - LSE)
    wgmma_wait<1>(p);
    if (masked) apply_mask_transposed(p, a, query0, key0);
    recompute_probs(p, shared.lse[at.stage], a.scale * kLog2E);
    // dS = P * (dP - delta), elementwise
    wgmma_wait<0>(d_s);
    score_gradients(d_s, p, shared.delta[at.stage]);
    round_to_operand<T>(d_s_operand, d_s);
    round_to_operand<T>(p_operand, p);
    // dQ = dS K of the previous tile, dV += P^T dO, dK += dS^T Q
    //! [order]
    if constexpr (!first) wait_for_previous_d_s();
    store_d_s(shared.d_s[at.stage], d_s_operand, warpgroup * kKeys);
    if constexpr (!first) issue_previous_d_q(d_q);
    issue_gemm_rs(d_v, p_operand, shared.d_o[at.stage]);
    issue_gemm_rs(d_k, d_s_operand, shared.q[at.stage]);
    if constexpr (!first) {
      wgmma_wait<2>(d_q);
      send_previous_d_q(d_q);
    }
    fence_async_proxy();  // makes dS visible to wgmma
    __syncwarp();
    if (threadIdx.x % kWarp == 0) shared.d_s_full[at.stage].arrive();
    wgmma_wait<1>(d_v, p_operand);
    release_stage(shared.d_o_pipe, at);
    wgmma_wait<0>(d_k, d_s_operand);
    release_stage(shared.q_pipe, at);
    //! [order]
    at.advance();
  }

  /// All tiles of a block, in the order in which the producer loads them and the adding warps add:
  /// see for_each_m_block().
  template <class Block>
  __device__ void mainloop(const Block& block) {
    const int heads = query_heads(a, block).count;
    const int per_head = block.m_blocks.max - block.m_blocks.min;
    if (per_head <= 0) return;
    int m_block = block.m_blocks.start;
    const auto next = [&](auto first) {
      const int query0 = m_block * Tile::block_m;
      step<decltype(first)::value>(
          query0, visible_keys(a, query0) < block.key0 + Tile::block_n);
      if (++m_block == block.m_blocks.max) m_block = block.m_blocks.min;
    };
    next(std::true_type{});
    for (int i = 1; i < per_head * heads; ++i) next(std::false_type{});
    QueryGradient<Tile> d_q;  // of the last tile
    wait_for_previous_d_s();
    issue_previous_d_q(d_q);
    wgmma_wait<0>(d_q);
    send_previous_d_q(d_q);
  }
};

/// What an MMA warpgroup does for a block of keys: all tiles of queries, then dK and dV.
template <class Tile, class Shared, class Maps>
__device__ void compute_n_block(Shared& shared, const Maps& maps,
                                const NBlock& block, int warpgroup) {
  with_warpgroup<Tile>(warpgroup, [&](auto of) {
    const int key0 = block.key0 + of * kKeys;
    DelayedMmaWarpgroup<Tile, Shared> mma{shared, shared.k, shared.v,
                                          maps.a, of,       key0};
    mma.mainloop(block);
    epilogue<Tile>(shared, maps, block, mma.d_k, mma.d_v);
  });
}

/// A block with a producer warpgroup: a thread loads, others add to dQ, the MMA warpgroups compute.
/// @param add     add(part), by a thread for each warpgroup's parts of dQ, or for even and odd tiles
/// @param compute compute(warpgroup)
template <class Tile, class Shared, class Maps, class Block, class Add,
          class Compute>
__device__ void specialize_warps(Shared& shared, const Maps& maps,
                                 const Block& block, Add add,
                                 Compute compute) {
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    const int warp = threadIdx.x / kWarp % 4;
    if (threadIdx.x % kWarp != 0) return;
    if (warp == 0) load_queries(shared, maps, block);
    if (warp > 0 && warp <= kKeyWarpgroups) add(warp - 1);
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  compute(warpgroup);
}
/// As that, with dK and dV of compute_n_block().
template <class Tile, class Shared, class Maps, class Add>
__device__ void specialize_warps(Shared& shared, const Maps& maps,
                                 const NBlock& block, Add add) {
  specialize_warps<Tile>(shared, maps, block, add, [&](int warpgroup) {
    compute_n_block<Tile>(shared, maps, block, warpgroup);
  });
}

/// The semaphore of a warpgroup's part of a tile of d_q_accum; row is the tile's first in the
/// workspace.
template <class T>
__device__ unsigned* d_q_semaphore(const AttentionGradient<T>& a,
                                   std::int64_t row, int warpgroup) {
  return a.d_q_semaphores + row / kSemaphoreRows * 2 + warpgroup;
}

/// Row statistics, semaphores that are zero, and an accumulator that is zero only
/// for queries that see no key: for the others the first block stores.
/// @tparam d columns of d_q_accum, at least head_dim
template <int d, class T>
__device__ void preprocess_rows_and_semaphores(
    const AttentionGradient<T>& a, const RowBlock& block = row_block<d>()) {
  const auto store = [&](const auto& head, int row, int col, float delta) {
    const std::int64_t padded = head.padded_row + row;
    const int next_tile = (row / kSemaphoreRows + 1) * kSemaphoreRows;
    if (visible_keys(a, next_tile - 1) <= 0) {
      zero_d_q_accum<d>(a, padded, col);
    }
    if (col > 0) return;
    if (row % kSemaphoreRows < 2) {
      a.d_q_semaphores[padded / kSemaphoreRows * 2 + row % kSemaphoreRows] =
          0;
    }
    store_row_statistics(a, head, row, delta);
  };
  with_row_delta<d>(a, store, block);
}
/// What a semaphore is raised by when the first part is stored. Below it are the blocks that have
/// counted themselves.
constexpr unsigned kStored = 1u << 31;

/// A thread that stores a warpgroup's parts of dQ, or adds them to what another block has stored.
/// @param one_order whether each block goes up through its tiles, with one block of keys, as under
///                  the causal mask: then it may count itself before its part is complete
/// @return where the block's next parts are in its pipeline
template <class Tile, class Shared, class T, class Block>
__device__ PipelineState<1> store_or_reduce_d_q(Shared& shared,
                                                const AttentionGradient<T>& a,
                                                const Block& block,
                                                int warpgroup, bool one_order,
                                                PipelineState<1> at = {}) {
  const int bytes = d_q_bytes<Tile>(warpgroup);
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = workspace_row(a, block, head, query0);
    unsigned* const semaphore = d_q_semaphore(a, row, warpgroup);
    float* const to = d_q_accum_part<Tile>(a, row, warpgroup);
    //! [store_tile]
    // Before the part is complete: its matmul hides the latency.
    unsigned before = one_order ? atomic_add_acquire(semaphore, 1)
                                : load_acquire(semaphore);
    shared.d_q_full[warpgroup].wait(at.parity);
    // If blocks visit the tiles in several orders, a block counts itself only
    // when its part is complete, or two blocks could wait for each other.
    if (!one_order && before < kStored) {
      before = atomic_add_acquire(semaphore, 1);
    }
    const bool first = before == 0;
    if (first) {
      bulk_store(to, shared.d_q[warpgroup], bytes);
    } else {
      while (before < kStored) before = load_acquire(semaphore);
      fence_async_proxy_global();  // makes the first part visible to TMA
      bulk_add(to, shared.d_q[warpgroup], bytes);
    }
    bulk_commit();
    bulk_wait_read<0>();
    shared.d_q_empty[warpgroup].arrive();
    if (first) {
      bulk_wait<0>();  // the part is in global memory
      __threadfence();
      atomicAdd(semaphore, kStored);
    }
    //! [store_tile]
    at.advance();
  });
  return at;
}

}  // namespace fa::FA_TARGET
