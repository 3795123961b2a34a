/// @file
/// 192 columns of Q and K and 128 of V and dO, as multi-head latent attention has them, without
/// padding. A block owns 96 keys, and dK and dV are computed transposed, as in rung 16: each is the
/// work of one warpgroup. dV has two accumulators of 64 columns, dK three; so the warpgroup of dV
/// computes 128 columns of dQ, and the other one 64. With fewer columns of V and dO, shared memory
/// has room for a tile of dQ, which TMA adds to global memory, as in rungs 09 to 12.
///
/// Source: the authors of FlashAttention-3, its backward pass for a head dimension of 192, for the
/// 96 keys and the transposed dK and dV.
#pragma once

#include "06_flash_backward/kernels/16_transposed_gradients.cuh"

namespace fa::FA_TARGET {

/// Sizes of the kernel.
template <class Type>
struct LatentTile {
  using T = Type;
  static constexpr int d = 192;    ///< columns of Q and K
  static constexpr int d_v = 128;  ///< columns of V and dO
  static constexpr int block_m = kQueries;
  static constexpr int block_n = 96;
  static constexpr int stages = 2;
  static constexpr int keys = block_n / kKeyWarpgroups;  ///< of a warpgroup
  static constexpr int part = 64;  ///< columns of a part of dQ
  static constexpr int d_q_parts = d / part;
  static constexpr int d_q_part = block_m * part;  ///< elements
  using QTile = SwizzledTile<T, block_m, d>;
  using DOTile = SwizzledTile<T, block_m, d_v>;
  using KvTile = SwizzledTile<T, block_n, d>;  ///< of K
  using VTile = SwizzledTile<T, block_n, d_v>;
  using ScoreTile = SwizzledTile<T, block_m, block_n>;  ///< of P or dS
};

/// What a block keeps in shared memory. In the end k and v are room for dK and dV.
template <class Tile>
struct LatentShared {
  typename Tile::KvTile k;
  typename Tile::VTile v;
  typename Tile::QTile q[Tile::stages];
  typename Tile::DOTile d_o[Tile::stages];
  typename Tile::ScoreTile p;
  typename Tile::ScoreTile d_s;
  float d_q[Tile::d_q_parts][Tile::d_q_part];
  float lse[Tile::stages][Tile::block_m];
  float delta[Tile::stages][Tile::block_m];
  Pipeline<Tile::stages> q_pipe;        ///< of q and lse
  Pipeline<Tile::stages> d_o_pipe;      ///< of d_o and delta
  Mbarrier d_q_full[Tile::d_q_parts];   ///< a part of dQ is complete
  Mbarrier d_q_empty[Tile::d_q_parts];  ///< it has been read

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      q_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp releases
      d_o_pipe.init(4 * kKeyWarpgroups);
      for (int i = 0; i < Tile::d_q_parts; ++i) {
        d_q_full[i].init(4);
        d_q_empty[i].init(1);
      }
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// The producer thread. K is loaded with the first tile of Q, V with the first one of dO.
template <class Tile, class T>
__device__ void load_latent_queries(LatentShared<Tile>& shared,
                                    const TmaGradient<T>& maps,
                                    const NBlock& block) {
  constexpr int row_bytes = Tile::block_m * int{sizeof(float)};
  const AttentionGradient<T>& a = maps.a;
  bool first = true;
  PipelineState<Tile::stages> at;
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = workspace_row(a, block, head, query0);
    Mbarrier& q_full = shared.q_pipe.producer_acquire(
        at,
        (first ? Tile::KvTile::bytes : 0) + Tile::QTile::bytes + row_bytes);
    if (first) {
      load_tile(shared.k, maps.k, q_full, block.key0, block.kv_head,
                block.batch, CacheHint::kEvictFirst);
    }
    load_tile(shared.q[at.stage], maps.q, q_full, query0, head, block.batch,
              CacheHint::kEvictLast);
    bulk_load(shared.lse[at.stage], a.lse_base_2 + row, row_bytes, q_full);
    Mbarrier& d_o_full = shared.d_o_pipe.producer_acquire(
        at,
        (first ? Tile::VTile::bytes : 0) + Tile::DOTile::bytes + row_bytes);
    if (first) {
      load_tile(shared.v, maps.v, d_o_full, block.key0, block.kv_head,
                block.batch, CacheHint::kEvictFirst);
    }
    load_tile(shared.d_o[at.stage], maps.d_o, d_o_full, query0, head,
              block.batch, CacheHint::kEvictLast);
    bulk_load(shared.delta[at.stage], a.delta + row, row_bytes, d_o_full);
    first = false;
    at.advance();
  });
}

/// A part of a tile of d_q_accum.
/// @param row of the workspace: the tile's first
template <class Tile, class T>
__device__ float* latent_d_q_part(const AttentionGradient<T>& a,
                                  std::int64_t row, int part) {
  return a.d_q_accum + row * Tile::d + part * Tile::d_q_part;
}

/// A thread that adds a part of each tile of dQ to the accumulator.
template <class Tile, class T>
__device__ void accumulate_latent_d_q(LatentShared<Tile>& shared,
                                      const AttentionGradient<T>& a,
                                      const NBlock& block, int part) {
  PipelineState<1> at;
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = workspace_row(a, block, head, query0);
    shared.d_q_full[part].wait(at.parity);
    bulk_add(latent_d_q_part<Tile>(a, row, part), shared.d_q[part],
             Tile::d_q_part * int{sizeof(float)});
    bulk_commit();
    bulk_wait_read<0>();
    shared.d_q_empty[part].arrive();
    at.advance();
  });
}

/// A warpgroup: warpgroup 0 has dV, warpgroup 1 has dK.
template <class Tile, int warpgroup>
struct LatentWarpgroup {
  using T = typename Tile::T;
  /// Of 64 columns, in dV or dK.
  static constexpr int chunks = (warpgroup == 0 ? Tile::d_v : Tile::d) / 64;
  /// Its parts of dQ: the first one, and how many.
  static constexpr int first_part = warpgroup == 0 ? 0 : 2;
  static constexpr int parts = warpgroup == 0 ? 2 : 1;
  LatentShared<Tile>* shared;
  const AttentionGradient<T>& a;
  const int key0;                           ///< its first key
  PipelineState<2> at{};                    ///< of Q and dO
  PipelineState<1> d_q_at{};                ///< of the parts of dQ
  float sums[chunks][Tile::block_n / 2]{};  ///< dV^T or dK^T

  using Part = float[Tile::part / 2];

  /// Issues this warpgroup's keys of a matmul of queries and keys.
  template <int r, class A, class B>
  __device__ void issue_scores(float (&s)[r], const A& rows, const B& keys) {
    wgmma_fence(s);
#pragma unroll
    for (int col = 0; col < A::cols; col += 16) {
      wgmma<T>(s, rows.by_rows(0, col),
               keys.by_rows(warpgroup * Tile::keys, col), col > 0);
    }
    wgmma_commit(s);
  }
  /// Issues dV^T += dO^T P, or dK^T += Q^T dS, of a tile.
  __device__ void issue_sums(int stage) {
    if constexpr (warpgroup == 0) {
      issue_sums(shared->d_o[stage], shared->p);
    } else {
      issue_sums(shared->q[stage], shared->d_s);
    }
  }
  /// The same with dO and P, or with Q and dS.
  template <class A>
  __device__ void issue_sums(const A& left,
                             const typename Tile::ScoreTile& right) {
    fence_sums();
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
#pragma unroll
      for (int row = 0; row < Tile::block_m; row += 16) {
        wgmma<T>(sums[c], left.by_columns(row, 64 * c),
                 right.by_columns(row, 0), true);
      }
    }
    if constexpr (chunks == 2) {
      wgmma_commit(sums[0], sums[1]);
    } else {
      wgmma_commit(sums[0], sums[1], sums[2]);
    }
  }
  /// wgmma_fence() for the accumulators of dV or dK.
  __device__ void fence_sums() {
    if constexpr (chunks == 2) {
      wgmma_fence(sums[0], sums[1]);
    } else {
      wgmma_fence(sums[0], sums[1], sums[2]);
    }
  }
  /// wgmma_wait() for them.
  template <int pending>
  __device__ void wait_for_sums() {
    if constexpr (chunks == 2) {
      wgmma_wait<pending>(sums[0], sums[1]);
    } else {
      wgmma_wait<pending>(sums[0], sums[1], sums[2]);
    }
  }
  /// Issues a part of dQ = dS K of the previous tile.
  __device__ void issue_d_q(Part& d_q, int part) {
    wgmma_fence(d_q);
#pragma unroll
    for (int key = 0; key < Tile::block_n; key += 16) {
      wgmma<T>(d_q, shared->d_s.by_rows(0, key),
               shared->k.by_columns(key, Tile::part * part), key > 0);
    }
    wgmma_commit(d_q);
  }
  /// Sends it to the thread that adds it.
  __device__ void send_d_q(const Part& d_q, int part) {
    shared->d_q_empty[part].wait(d_q_at.parity ^ 1);
    store_accumulator(shared->d_q[part], d_q);
    fence_async_proxy();  // TMA sees what this thread wrote
    __syncwarp();
    if (threadIdx.x % kWarp == 0) shared->d_q_full[part].arrive();
  }

  /// A tile of queries.
  /// @tparam first whether it is the first one
  template <bool first>
  __device__ void step(int query0, bool masked) {
    fence_address(shared);
    float p[Tile::keys / 2], d_s[Tile::keys / 2];
    std::uint32_t rounded_p[Tile::keys / 16][4],
        rounded_d_s[Tile::keys / 16][4];
    // dQ = dS K of the previous tile, S = Q K^T, dV^T += dO^T P or
    // dK^T += Q^T dS of the previous tile
    Part d_q[parts];
    if constexpr (!first) {
#pragma unroll
      for (int i = 0; i < parts; ++i) issue_d_q(d_q[i], first_part + i);
      if constexpr (parts == 2) {
        wgmma_wait<1>(d_q[0]);
        send_d_q(d_q[0], first_part);
      }
    }
    shared->q_pipe.consumer_wait(at);
    issue_scores(p, shared->q[at.stage], shared->k);
    if constexpr (!first) {
      issue_sums(at.stage ^ 1);
      wgmma_wait<2>(d_q[parts - 1]);
      send_d_q(d_q[parts - 1], first_part + parts - 1);
      d_q_at.advance();
    }
    wgmma_wait<first ? 0 : 1>(p);
    // P = exp2(S - LSE), while the sums are computed
    if (masked) apply_mask_rows(p, a, query0, key0);
    recompute_prob_rows(p, row_pair(shared->lse[at.stage]).of,
                        a.scale * kLog2E);
    round_to_operand<T>(rounded_p, p);
    // dP = dO V^T
    shared->d_o_pipe.consumer_wait(at);
    issue_scores(d_s, shared->d_o[at.stage], shared->v);
    if constexpr (!first) {
      wait_for_sums<1>();
      release_stage(shared->q_pipe, {at.stage ^ 1, 0});
      release_stage(shared->d_o_pipe, {at.stage ^ 1, 0});
      wait_for_warpgroups();  // both have read P and dS
    }
    store_scores(shared->p, rounded_p, warpgroup * Tile::keys);
    // dS = P * (dP - delta), elementwise
    wgmma_wait<0>(d_s);
    score_gradient_rows(d_s, p, row_pair(shared->delta[at.stage]).of);
    round_to_operand<T>(rounded_d_s, d_s);
    store_scores(shared->d_s, rounded_d_s, warpgroup * Tile::keys);
    wait_for_d_s();
    at.advance();
  }

  /// After the last tile: its dQ, dK and dV.
  __device__ void finish() {
    fence_address(shared);
    Part d_q[parts];
#pragma unroll
    for (int i = 0; i < parts; ++i) issue_d_q(d_q[i], first_part + i);
    issue_sums(at.stage ^ 1);
#pragma unroll
    for (int i = 0; i < parts; ++i) {
      wgmma_wait<1>(d_q[i]);
      send_d_q(d_q[i], first_part + i);
    }
    wait_for_sums<0>();
  }

  /// All tiles of a block.
  __device__ void mainloop(const NBlock& block) {
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
#pragma unroll 1
    for (int i = 1; i < per_head * (a.heads / a.kv_heads); ++i) {
      next(std::false_type{});
    }
    finish();
  }

  /// Stores dV or dK through a tile that no warpgroup reads any more.
  template <class RowTile>
  __device__ void store(const TensorMap& map, float factor, RowTile& tile,
                        const NBlock& block) {
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      float scaled[Tile::block_n / 2];
#pragma unroll
      for (int i = 0; i < Tile::block_n / 2; ++i) {
        scaled[i] = factor * sums[c][i];
      }
      std::uint32_t rounded[Tile::block_n / 16][4];
      round_to_operand<T>(rounded, scaled);
      store_d_s(tile, rounded, 64 * c);
    }
    fence_async_proxy();  // TMA sees what this thread wrote
    named_barrier_wait(1 + warpgroup, kWarpgroup);
    if (threadIdx.x % kWarpgroup != 0) return;
    store_tile(map, tile, block.key0, block.kv_head, block.batch);
    bulk_commit();
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
};

/// dK, dV, and additions to d_q_accum.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_latent(const __grid_constant__ TmaGradient<T> maps,
                          const TileScheduler scheduler) {
  const AttentionGradient<T>& a = maps.a;
  const NBlock block = longest_first_n_block<Tile>(a, blockIdx.x, scheduler);
  auto& shared = *dynamic_shared<LatentShared<Tile>>();
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    const int warp = threadIdx.x / kWarp % 4;
    if (threadIdx.x % kWarp != 0) return;
    if (warp == 0) {
      load_latent_queries(shared, maps, block);
    } else {
      accumulate_latent_d_q(shared, a, block, warp - 1);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  // Each warpgroup has code of its own: see with_warpgroup().
  if (warpgroup == 0) {
    LatentWarpgroup<Tile, 0> mma{&shared, a, block.key0};
    mma.mainloop(block);
    wait_for_warpgroups();  // both have read V
    mma.store(maps.d_v, 1, shared.v, block);
  } else {
    LatentWarpgroup<Tile, 1> mma{&shared, a, block.key0 + Tile::keys};
    mma.mainloop(block);
    wait_for_warpgroups();  // both have read K
    mma.store(maps.d_k, a.scale, shared.k, block);
  }
}

/// dQ = scale d_q_accum, rounded: a warpgroup for each part.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::d_q_parts)
    postprocess_latent(const __grid_constant__ TmaGradient<T> maps) {
  using PartTile = SwizzledTile<T, Tile::block_m, Tile::part>;
  auto& tiles = *dynamic_shared<PartTile[Tile::d_q_parts]>();
  const AttentionGradient<T>& a = maps.a;
  const int part = warpgroup_index();
  const int query0 = blockIdx.x * Tile::block_m;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  float x[Tile::part / 2];
  load_accumulator(x,
                   latent_d_q_part<Tile>(a, head.padded_row + query0, part));
  store_gradient(maps.d_q, x, a.scale, tiles[part], query0, blockIdx.y,
                 blockIdx.z, Tile::part * part);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
}

/// Launches these kernels.
/// @param a      with 192 and 128 columns and a Workspace{192}
/// @param stream where
template <class T>
void launch_backward_latent(const AttentionGradient<T>& a,
                            const Stream& stream) {
  using Tile = LatentTile<T>;
  constexpr int d = Tile::d;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const TileScheduler scheduler =
      n_block_scheduler<Tile>(a, HeadsTogether::kCausal);
  launch(stream, flash_backward_latent<Tile, T>,
         {grid_of_work(scheduler),
          {kWarpgroup * (kKeyWarpgroups + 1)},
          sizeof(LatentShared<Tile>),
          Tile::stages},
         maps, scheduler);
  launch(
      stream, postprocess_latent<Tile, T>,
      {grid_of(a, Tile::block_m),
       {kWarpgroup * Tile::d_q_parts},
       Tile::d_q_parts * sizeof(SwizzledTile<T, Tile::block_m, Tile::part>)},
      maps);
}

}  // namespace fa::FA_TARGET
