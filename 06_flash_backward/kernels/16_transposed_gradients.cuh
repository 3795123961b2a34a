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

namespace fa::FA_TARGET {

/// What a block keeps in shared memory. In the end k and v are room for dK and dV.
template <class Tile>
struct TransposedShared {
  typename Tile::KTile k;
  typename Tile::VTile v;
  typename Tile::QTile q[Tile::stages];
  typename Tile::DOTile d_o[Tile::stages];
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
  const int key0;                ///< its first key
  float* d_q_to = nullptr;       ///< of the previous tile
  PipelineState<2> at{};         ///< of Q and dO
  TransposedSums<Tile, 3> sums;  ///< dV^T or dK^T

  /// Of dQ a warpgroup has 64 columns, from this one on.
  __device__ int wide_col() const { return 64 * warpgroup; }
  /// And 32 of the last 64, from this one on.
  __device__ int narrow_col() const { return 128 + 32 * warpgroup; }

  /// Issues dV^T += dO^T P, or dK^T += Q^T dS, of a tile.
  __device__ void issue_sums(int stage) {
    sums.issue(warpgroup == 0 ? shared->d_o[stage] : shared->q[stage],
               warpgroup == 0 ? shared->p : shared->d_s);
  }
  /// Issues some columns of dQ = dS K of the previous tile.
  template <int r>
  __device__ void issue_d_q(float (&d_q)[r], int col) {
    issue_d_q_columns(d_q, shared->d_s, shared->k, col);
  }
  /// Adds them to d_q_accum.
  template <int r>
  __device__ void add_d_q(const float (&d_q)[r], int col) {
    add_accumulator(d_q_to + col * Tile::block_m, d_q);
  }

  /// A tile of queries.
  template <bool first>
  __device__ void step(int query0, bool masked) {
    fence_address(shared);
    float p[Tile::keys / 2], d_s[Tile::keys / 2];
    std::uint32_t rounded_p[Tile::keys / 16][4],
        rounded_d_s[Tile::keys / 16][4];
    //! [step]
    // dQ = dS K of the previous tile in two parts, S = Q K^T, dV^T += dO^T P or
    // dK^T += Q^T dS of the previous tile
    float wide[32], narrow[16];
    if constexpr (!first) {
      issue_d_q(wide, wide_col());
      issue_d_q(narrow, narrow_col());
      wgmma_wait<1>(wide);
      add_d_q(wide, wide_col());
    }
    shared->q_pipe.consumer_wait(at);
    issue_gemm_nt(p, shared->q[at.stage], shared->k, warpgroup * Tile::keys);
    if constexpr (!first) {
      issue_sums(at.stage ^ 1);
      wgmma_wait<2>(narrow);
      add_d_q(narrow, narrow_col());
    }
    wgmma_wait<first ? 0 : 1>(p);
    // P = exp(scale S - LSE), while the sums are computed
    if (masked) apply_mask(p, a, query0, key0);
    recompute_prob_rows(p, row_pair(shared->lse[at.stage]).of,
                        a.scale * kLog2E);
    round_to_operand<T>(rounded_p, p);
    // dP = dO V^T
    shared->d_o_pipe.consumer_wait(at);
    issue_gemm_nt(d_s, shared->d_o[at.stage], shared->v,
                  warpgroup * Tile::keys);
    //! [step]
    if constexpr (!first) {
      sums.template wait<1>();
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
    float wide[32], narrow[16];
    issue_d_q(wide, wide_col());
    issue_d_q(narrow, narrow_col());
    issue_sums(at.stage ^ 1);
    wgmma_wait<1>(wide, narrow);
    add_d_q(wide, wide_col());
    add_d_q(narrow, narrow_col());
    sums.template wait<0>();
  }

  /// All tiles of a block.
  __device__ void mainloop(const NBlock& block) {
    const auto next = [&](auto first, int head, int query0, bool masked) {
      step<decltype(first)::value>(query0, masked);
      d_q_to = a.d_q_accum + workspace_row(a, block, head, query0) * Tile::d;
    };
    if (transposed_mainloop<Tile>(
            a, block, [] {}, next))
      finish();
  }
};

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
  mma.sums.store(has_d_v ? maps.d_v : maps.d_k, has_d_v ? 1 : a.scale,
                 has_d_v ? shared.v : shared.k, block, warpgroup);
}

/// Launches the step.
/// @param a with a Workspace{192}
template <class T>
void launch_backward_transposed(const AttentionGradient<T>& a,
                                const Stream& stream) {
  using Tile = TransposedTile<T>;
  constexpr int d = Tile::d;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const TileScheduler scheduler = n_block_scheduler<Tile>(a);
  launch(stream, flash_backward_transposed<Tile, T>,
         {grid_of_work(scheduler), kWarpgroup * (kKeyWarpgroups + 1),
          sizeof(TransposedShared<Tile>), Tile::stages},
         maps, scheduler);
  launch_postprocess_columns<Tile>(maps, stream);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_transposed);

FA_STEP_ROW(backward, 16) {
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
