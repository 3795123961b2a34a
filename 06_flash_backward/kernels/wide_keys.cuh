/// @file
/// Rung 13, dK and dV: a block has 64 keys and lets the queries go by. One warpgroup has P and dV, another one dS and
/// dK: one sum of 64 x 256 is all that the registers of either hold. P goes from the first to the second through shared
/// memory.
#pragma once

#include "06_flash_backward/kernels/11_ordered_dq.cuh"

namespace fa::FA_TARGET {

/// Sizes of a kernel.
template <class Type>
struct WideTile {
  using T = Type;                              ///< half or bfloat16
  static constexpr int d = 256;                ///< columns
  static constexpr int block_m = kQueries;     ///< of a tile
  static constexpr int block_n = kKeys;        ///< of a tile
  static constexpr int stages = 2;             ///< of what goes by
  using QTile = SwizzledTile<T, block_m, d>;   ///< of Q or dO
  using KvTile = SwizzledTile<T, block_n, d>;  ///< of K or V
};
/// Queries of a block that owns queries: 64 for each warpgroup.
constexpr int kWideQueries = 2 * kQueries;
static_assert(kPaddedRows % kWideQueries == 0,
              "whole blocks in the workspace");

/// What a block that owns keys keeps in shared memory.
template <class Tile>
struct WideKeysShared {
  typename Tile::KvTile k[1];              ///< at the end dV
  typename Tile::KvTile v[1];              ///< at the end dK
  typename Tile::QTile q[Tile::stages];    ///< tiles of queries
  typename Tile::QTile d_o[Tile::stages];  ///< their dO
  /// P^T, on its way from one warpgroup to the other, as for_each_four() has it.
  float p[Tile::stages][Tile::block_m * Tile::block_n];
  float lse[Tile::stages][Tile::block_m];    ///< in base 2, of q
  float delta[Tile::stages][Tile::block_m];  ///< of d_o
  Pipeline<Tile::stages> q_pipe;             ///< of q and lse
  Pipeline<Tile::stages> d_o_pipe;           ///< of d_o and delta
  Mbarrier p_full[Tile::stages];             ///< P is handed over

  /// Initialises the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      q_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp frees
      d_o_pipe.init(4 * kKeyWarpgroups);
      for (auto& barrier : p_full) barrier.init(4);
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// The warpgroup that has P and dV.
template <class Tile>
struct WideValues {
  using T = typename Tile::T;       ///< half or bfloat16
  WideKeysShared<Tile>& shared;     ///< the block's
  const AttentionGradient<T>& a;    ///< what is computed
  const int key0;                   ///< the block's first key
  PipelineState<2> at{};            ///< of Q, dO and P
  PipelineState<2> last{};          ///< of the tile before
  KeyGradient<Tile> d_v{};          ///< sums of its keys
  RoundedScores<Tile> p_operand{};  ///< of the tile before

  /// This lane's part of P^T goes to the other warpgroup's lane of the same number. Its place is empty: Q of the stage
  /// was, and that warpgroup frees it later than it reads P.
  __device__ void hand_over(const TransposedScores<Tile>& p) {
    store_accumulator(shared.p[at.stage], p);
    __syncwarp();
    if (threadIdx.x % kWarp == 0) shared.p_full[at.stage].arrive();
  }

  /// A tile of queries: dV of the one before it, and P of this one.
  /// @param first  whether none was before it
  /// @param query0 the tile's first query
  /// @param hidden whether there is something to hide
  //! [values]
  __device__ void step(bool first, int query0, bool masked) {
    TransposedScores<Tile> p;  // at first S, turned
    if (!first) issue_gemm_rs(d_v, p_operand, shared.d_o[last.stage]);
    shared.q_pipe.consumer_wait(at);
    issue_gemm_nt(p, shared.k[0], shared.q[at.stage]);
    if (!first) {
      wgmma_wait<1>(d_v, p_operand);
      release_stage(shared.d_o_pipe, last);
    }
    wgmma_wait<0>(p);
    if (masked) apply_mask_transposed(p, a, query0, key0);
    recompute_probs(p, shared.lse[at.stage], a.scale * kLog2E);
    hand_over(p);
    release_stage(shared.q_pipe, at);
    round_to_operand<T>(p_operand, p);
    shared.d_o_pipe.consumer_wait(at);
    last = at;
    at.advance();
  }
  //! [values]

  /// Behind the last tile: its dV.
  __device__ void finish() {
    issue_gemm_rs(d_v, p_operand, shared.d_o[last.stage]);
    wgmma_wait<0>(d_v, p_operand);
  }
};

/// The warpgroup that has dS and dK.
template <class Tile>
struct WideKeys {
  using T = typename Tile::T;         ///< half or bfloat16
  WideKeysShared<Tile>& shared;       ///< the block's
  const AttentionGradient<T>& a;      ///< what is computed
  PipelineState<2> at{};              ///< of Q, dO and P
  PipelineState<2> last{};            ///< of the tile before
  KeyGradient<Tile> d_k{};            ///< sums of its keys
  RoundedScores<Tile> d_s_operand{};  ///< of the tile before

  /// This lane's part of P^T, when the other warpgroup has handed it over.
  __device__ void take_over(TransposedScores<Tile>& p) {
    shared.p_full[at.stage].wait(at.parity);
    load_accumulator(p, shared.p[at.stage]);
  }

  /// A tile of queries: dK of the one before it, and dS of this one.
  /// @param first whether none was before it
  //! [keys]
  __device__ void step(bool first, int /*query0*/, bool /*masked*/) {
    TransposedScores<Tile> p, d_s;  // d_s is dP at first, turned
    if (!first) issue_gemm_rs(d_k, d_s_operand, shared.q[last.stage]);
    shared.d_o_pipe.consumer_wait(at);
    issue_gemm_nt(d_s, shared.v[0], shared.d_o[at.stage]);
    if (!first) {
      wgmma_wait<1>(d_k, d_s_operand);
      release_stage(shared.q_pipe, last);
    }
    wgmma_wait<0>(d_s);
    take_over(p);
    score_gradients(d_s, p, shared.delta[at.stage]);
    __syncwarp();
    release_stage(shared.d_o_pipe, at);
    round_to_operand<T>(d_s_operand, d_s);
    shared.q_pipe.consumer_wait(at);
    last = at;
    at.advance();
  }
  //! [keys]

  /// Behind the last tile: its dK.
  __device__ void finish() {
    issue_gemm_rs(d_k, d_s_operand, shared.q[last.stage]);
    wgmma_wait<0>(d_k, d_s_operand);
  }
};

/// A warpgroup goes through the tiles of queries of a block of keys.
/// @param sums  WideValues or WideKeys
/// @param block of keys
template <class Tile, class Sums>
__device__ void sum_over_queries(Sums& sums, const KeyBlock& block) {
  const auto& a = sums.a;
  const int per_head = block.tiles.end - block.tiles.first;
  if (per_head <= 0) return;
  const int all = per_head * (a.heads / a.kv_heads);
  int tile = block.tiles.start;
#pragma unroll 1
  for (int i = 0; i < all; ++i) {
    const int query0 = tile * Tile::block_m;
    sums.step(i == 0, query0,
              visible_keys(a, query0) < block.key0 + Tile::block_n);
    if (++tile == block.tiles.end) tile = block.tiles.first;
  }
  sums.finish();
}

/// Writes what a warpgroup has summed up, through a tile that nobody else has read: see write_gradient().
template <class RowTile, int r>
__device__ void write_sums(const TensorMap& map, const float (&sums)[r],
                           float factor, RowTile& tile, int row0, int head,
                           int batch) {
  named_barrier_wait(1 + warpgroup_index(), kWarpgroup);  // all have read it
  write_gradient(map, sums, factor, tile, row0, head, batch);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory goes
  }
}

/// What a block that owns keys does: dK and dV.
/// @param maps  of the tensors
/// @param block of keys
//! [wide_keys]
template <class Tile, class T>
__device__ void wide_keys_block(const TmaGradient<T>& maps,
                                const KeyBlock& block) {
  auto& shared = *dynamic_shared<WideKeysShared<Tile>>();
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) {
      load_queries<Tile>(shared, maps, block);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  if (warpgroup == 0) {
    WideValues<Tile> sums{shared, maps.a, block.key0};
    sum_over_queries<Tile>(sums, block);
    write_sums(maps.d_v, sums.d_v, 1, shared.k[0], block.key0, block.head,
               block.batch);
  } else {
    WideKeys<Tile> sums{shared, maps.a};
    sum_over_queries<Tile>(sums, block);
    write_sums(maps.d_k, sums.d_k, maps.a.scale, shared.v[0], block.key0,
               block.head, block.batch);
  }
}
//! [wide_keys]

}  // namespace fa::FA_TARGET
