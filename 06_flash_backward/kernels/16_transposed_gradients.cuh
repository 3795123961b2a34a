/// @file
/// Head dimensions from 129 to 192 with five matmuls in place of seven. dK and dV of 128 keys do
/// not fit in the registers of two warpgroups, those of 96 keys do. 96 is not a multiple of the 64
/// rows of wgmma, but 192 columns are: so dK and dV are computed transposed, each by one warpgroup,
/// as three accumulators of 64 columns x 96 keys. Each warpgroup computes P and dS for half of the
/// keys, and both read all of them from shared memory. The previous tile is added to dK and dV
/// while P and dS of this one are computed. Shared memory has no room for a tile of dQ: each lane
/// adds its part to global memory.
///
/// Source: the authors of FlashAttention-3, its backward pass for a head dimension of 192, which
/// has three warpgroups, for the 96 keys and the transposed dK and dV.
#pragma once

#include "06_flash_backward/kernels/wide_backward.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// Sizes of the kernel.
template <class Type>
struct TransposedTile {
  using T = Type;
  static constexpr int d = kTransposedColumns;
  static constexpr int block_m = kQueries;
  static constexpr int block_n = 96;
  static constexpr int box_keys = block_n;  ///< see TmaGradient
  static constexpr int stages = 2;
  static constexpr int keys = block_n / kKeyWarpgroups;  ///< of a warpgroup
  static constexpr int chunks = d / 64;       ///< of 64 columns, in dK and dV
  using QTile = SwizzledTile<T, block_m, d>;  ///< of Q or dO
  using KvTile = SwizzledTile<T, block_n, d>;           ///< of K or V
  using ScoreTile = SwizzledTile<T, block_m, block_n>;  ///< of P or dS
  // Of dQ a warpgroup has 64 columns, and 32 of the last 64.
  static constexpr int wide_part = 64;
  static constexpr int narrow_part = 32;
  static constexpr int d_q_part = block_m * d / kKeyWarpgroups;
};

/// What a block keeps in shared memory. In the end k and v are room for dK and dV.
template <class Tile>
struct TransposedShared {
  typename Tile::KvTile k;
  typename Tile::KvTile v;
  typename Tile::QTile q[Tile::stages];
  typename Tile::QTile d_o[Tile::stages];
  typename Tile::ScoreTile p;
  typename Tile::ScoreTile d_s;
  float lse[Tile::stages][Tile::block_m];
  float delta[Tile::stages][Tile::block_m];
  Pipeline<Tile::stages> q_pipe;    ///< of q and lse
  Pipeline<Tile::stages> d_o_pipe;  ///< of d_o and delta

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      q_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp releases
      d_o_pipe.init(4 * kKeyWarpgroups);
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// A warpgroup: warpgroup 0 has dV, warpgroup 1 has dK.
template <class Tile>
struct TransposedWarpgroup {
  using T = typename Tile::T;
  TransposedShared<Tile>* shared;
  const AttentionGradient<T>& a;
  const int warpgroup;
  const int key0;                                 ///< its first key
  float* d_q_to = nullptr;                        ///< of the previous tile
  PipelineState<2> at{};                          ///< of Q and dO
  float sums[Tile::chunks][Tile::block_n / 2]{};  ///< dV^T or dK^T

  /// The first columns of its parts of dQ.
  __device__ int wide_col() const { return Tile::wide_part * warpgroup; }
  /// The first of its other columns.
  __device__ int narrow_col() const {
    return kKeyWarpgroups * Tile::wide_part + Tile::narrow_part * warpgroup;
  }

  /// Issues this warpgroup's part of a matmul of queries and keys.
  template <int r, class A, class B>
  __device__ void issue_scores(float (&s)[r], const A& rows, const B& keys) {
    FA_STAMP(kIssueScores, 0);
    wgmma_fence(s);
#pragma unroll
    for (int kk = 0; kk < Tile::d; kk += 16) {
      wgmma<T>(s, rows.by_rows(0, kk),
               keys.by_rows(warpgroup * Tile::keys, kk), kk > 0);
    }
    wgmma_commit(s);
  }
  /// Issues dV^T += dO^T P, or dK^T += Q^T dS, of a tile.
  //! [issue_sums]
  __device__ void issue_sums(int stage) {
    const auto& left = warpgroup == 0 ? shared->d_o[stage] : shared->q[stage];
    const auto& right = warpgroup == 0 ? shared->p : shared->d_s;
    wgmma_fence(sums[0], sums[1], sums[2]);
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
      for (int kk = 0; kk < Tile::block_m; kk += 16) {
        wgmma<T>(sums[c], left.by_columns(kk, 64 * c),
                 right.by_columns(kk, 0), true);
      }
    }
    wgmma_commit(sums[0], sums[1], sums[2]);
  }
  //! [issue_sums]
  /// Issues some columns of dQ = dS K of the previous tile.
  template <int r>
  __device__ void issue_d_q(float (&d_q)[r], int col) {
    FA_STAMP(kIssueByColumns, 0);
    wgmma_fence(d_q);
#pragma unroll
    for (int kk = 0; kk < Tile::block_n; kk += 16) {
      wgmma<T>(d_q, shared->d_s.by_rows(0, kk), shared->k.by_columns(kk, col),
               kk > 0);
    }
    wgmma_commit(d_q);
  }
  /// Adds them to d_q_accum, from an element of the warpgroup's part on.
  template <int r>
  __device__ void add_d_q(const float (&d_q)[r], int first) {
    for_each_four<r>([&](int place, int i) {
      atomic_add4(d_q_to + first + place,
                  make_float4(d_q[i], d_q[i + 1], d_q[i + 2], d_q[i + 3]));
    });
  }

  /// A tile of queries.
  /// @tparam first whether it is the first one
  template <bool first>
  __device__ void step(int query0, bool masked) {
    fence_address(shared);
    float p[Tile::keys / 2], d_s[Tile::keys / 2];
    std::uint32_t rounded_p[Tile::keys / 16][4],
        rounded_d_s[Tile::keys / 16][4];
    //! [step]
    // dQ = dS K of the previous tile in two parts, S = Q K^T, dV^T += dO^T P or
    // dK^T += Q^T dS of the previous tile
    float wide[Tile::wide_part / 2], narrow[Tile::narrow_part / 2];
    if constexpr (!first) {
      issue_d_q(wide, wide_col());
      issue_d_q(narrow, narrow_col());
      wgmma_wait<1>(wide);
      add_d_q(wide, 0);
    }
    shared->q_pipe.consumer_wait(at);
    issue_scores(p, shared->q[at.stage], shared->k);
    if constexpr (!first) {
      issue_sums(at.stage ^ 1);
      wgmma_wait<2>(narrow);
      add_d_q(narrow, Tile::wide_part * Tile::block_m);
    }
    wgmma_wait<first ? 0 : 1>(p);
    // P = exp(scale S - LSE), while the sums are computed
    if (masked) apply_mask(p, a, query0, key0);
    recompute_prob_rows(p, row_pair(shared->lse[at.stage]).of,
                        a.scale * kLog2E);
    round_to_operand<T>(rounded_p, p);
    // dP = dO V^T
    shared->d_o_pipe.consumer_wait(at);
    issue_scores(d_s, shared->d_o[at.stage], shared->v);
    //! [step]
    if constexpr (!first) {
      wgmma_wait<1>(sums[0], sums[1], sums[2]);
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
    float wide[Tile::wide_part / 2], narrow[Tile::narrow_part / 2];
    issue_d_q(wide, wide_col());
    issue_d_q(narrow, narrow_col());
    issue_sums(at.stage ^ 1);
    wgmma_wait<1>(wide, narrow);
    add_d_q(wide, 0);
    add_d_q(narrow, Tile::wide_part * Tile::block_m);
    wgmma_wait<0>(sums[0], sums[1], sums[2]);
  }

  /// All tiles of a block.
  __device__ void mainloop(const NBlock& block) {
    const int group = group_size(a);
    const int per_head = block.m_blocks.max - block.m_blocks.min;
    if (per_head <= 0) return;
    int m_block = block.m_blocks.start, head = block.kv_head * group;
    const auto next = [&](auto first) {
      const int query0 = m_block * Tile::block_m;
      step<decltype(first)::value>(
          query0, visible_keys(a, query0) < block.key0 + Tile::block_n);
      d_q_to = a.d_q_accum + workspace_row(a, block, head, query0) * Tile::d +
               warpgroup * Tile::d_q_part;
      if (++m_block == block.m_blocks.max) m_block = block.m_blocks.min;
      if (m_block == block.m_blocks.start) ++head;
    };
    next(std::true_type{});
#pragma unroll 1
    for (int i = 1; i < per_head * group; ++i) next(std::false_type{});
    finish();
  }
};

/// Stores a warpgroup's dV or dK.
template <class Tile, class T>
__device__ void store_transposed(
    const TensorMap& map,
    const float (&sums)[Tile::chunks][Tile::block_n / 2], float factor,
    typename Tile::KvTile& tile, const NBlock& block) {
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    float scaled[Tile::block_n / 2];
#pragma unroll
    for (int i = 0; i < Tile::block_n / 2; ++i)
      scaled[i] = factor * sums[c][i];
    std::uint32_t rounded[Tile::block_n / 16][4];
    round_to_operand<T>(rounded, scaled);
    store_d_s(tile, rounded, 64 * c);
  }
  fence_async_proxy();  // TMA sees what this thread wrote
  named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
  if (threadIdx.x % kWarpgroup != 0) return;
  store_tile(map, tile, block.key0, block.kv_head, block.batch);
  bulk_commit();
  bulk_wait_read<0>();  // before the block's shared memory is freed
}

/// dK, dV, and additions to d_q_accum.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_transposed(const __grid_constant__ TmaGradient<T> maps,
                              const TileScheduler scheduler) {
  const AttentionGradient<T>& a = maps.a;
  const NBlock block = longest_first_n_block<Tile>(a, blockIdx.x, scheduler);
  auto& shared = *dynamic_shared<TransposedShared<Tile>>();
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) {
      load_wide_queries<Tile>(shared, maps, block);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  TransposedWarpgroup<Tile> mma{&shared, a, warpgroup,
                                block.key0 + warpgroup * Tile::keys};
  mma.mainloop(block);
  wait_for_warpgroups();  // both have read K and V
  const bool has_d_v = warpgroup == 0;
  store_transposed<Tile, T>(has_d_v ? maps.d_v : maps.d_k, mma.sums,
                            has_d_v ? 1 : a.scale,
                            has_d_v ? shared.v : shared.k, block);
}

/// dQ = scale d_q_accum, rounded.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* kKeyWarpgroups)
    postprocess_transposed(const __grid_constant__ TmaGradient<T> maps) {
  auto& tile = *dynamic_shared<typename Tile::QTile>();
  const AttentionGradient<T>& a = maps.a;
  const int warpgroup = warpgroup_index();
  const int query0 = blockIdx.x * Tile::block_m;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const float* const from = a.d_q_accum +
                            (head.padded_row + query0) * Tile::d +
                            warpgroup * Tile::d_q_part;
  const int row = stmatrix_row();
  float x[(Tile::wide_part + Tile::narrow_part) / 2];
  load_accumulator(x, from);
#pragma unroll
  for (int col = 0; col < Tile::wide_part + Tile::narrow_part; col += 16) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = pack2<T>(a.scale * x[col / 2 + 2 * i],
                          a.scale * x[col / 2 + 2 * i + 1]);
    }
    const int first = col < Tile::wide_part
                          ? warpgroup * Tile::wide_part + col
                          : 2 * Tile::wide_part +
                                warpgroup * Tile::narrow_part + col -
                                Tile::wide_part;
    stmatrix_x4(tile.at(row, first + stmatrix_column()), pairs);
  }
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x != 0) return;
  store_tile(maps.d_q, tile, query0, blockIdx.y, blockIdx.z);
  bulk_commit();
  bulk_wait_read<0>();
}

/// Launches the step.
/// @param a      with a Workspace{192}
/// @param stream where
template <class T>
void launch_backward_transposed(const AttentionGradient<T>& a,
                                const Stream& stream) {
  using Tile = TransposedTile<T>;
  constexpr int d = Tile::d;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const TileScheduler scheduler = n_block_scheduler<Tile>(a);
  launch(stream, flash_backward_transposed<Tile, T>,
         {grid_of_work(scheduler),
          {kWarpgroup * (kKeyWarpgroups + 1)},
          sizeof(TransposedShared<Tile>),
          Tile::stages},
         maps, scheduler);
  launch(stream, postprocess_transposed<Tile, T>,
         {grid_of(a, Tile::block_m),
          {kWarpgroup * kKeyWarpgroups},
          sizeof(typename Tile::QTile)},
         maps);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_transposed);

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto backward_step(std::integral_constant<int, 16>, Row row) {
  return row("16_transposed_gradients", "dK and dV transposed, 96 keys",
             half{}, bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<kTransposedColumns>{})
      .from(kWideHeads)
      .over_queries(TransposedTile<half>{}, TransposedTile<half>::stages)
      .timeline(HeadDims<kTransposedColumns>{}, 256, 256)
      .memory_is("776 N", [](auto n, auto d) { return (4 * d + 8) * n; })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .launch([](auto& a, auto, auto& stream) {
        launch_backward_transposed(a, stream);
      });
}

}  // namespace fa::FA_TARGET
