/// @file
/// What the kernels with TMA and wgmma share. Steps 08 to 12, 14, 15 and 19 have two warpgroups with
/// 64 keys each and transposed scores: P^T and dS^T are left operands of wgmma in registers, and
/// only dS goes through shared memory.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, section 3 and appendix B.
#pragma once

#include "06_flash_backward/kernels/preprocess.cuh"
#include "common/attention/hopper_tile.cuh"
#include "common/attention/tile_scheduler.cuh"

namespace fa::FA_TARGET {

/// Keys of a warpgroup: the rows of wgmma.
constexpr int kKeys = 64;
/// Warpgroups of a block that issue matmuls.
constexpr int kKeyWarpgroups = 2;

/// Registers of a producer thread, in blocks of three warpgroups with 3 x 168 for a thread of each.
template <class Tile>
constexpr int kBackwardProducerRegisters = Tile::d == 64 ? 40 : 24;
/// Registers of a thread that issues matmuls: what the producer leaves.
template <class Tile>
constexpr int kBackwardConsumerRegisters =
    (3 * 168 - kBackwardProducerRegisters<Tile>) / 2;

/// The gradients of attention with the maps of its tensors. Boxes have block_m rows for q and d_o,
/// kQueries for d_q, Tile::box_keys for the others.
template <class T, class Map = TensorMap>
struct TmaGradient {
  Map q;
  Map d_o;
  Map k;
  Map v;
  Map d_k;
  Map d_v;
  Map d_q;
  AttentionGradient<T> a;
};

/// Sizes of a kernel.
/// @tparam head_dim    columns, at least those of the inputs: 64, 96 or 128
/// @tparam queries     of a tile: 64 or 128
/// @tparam stage_count tiles of Q, and of dO, in shared memory
template <class Type, int head_dim, int queries, int stage_count>
struct HopperBackwardTile {
  using T = Type;
  static constexpr int d = head_dim;
  static constexpr int block_m = queries;
  static constexpr int block_n = kKeys * kKeyWarpgroups;
  static constexpr int box_keys = kKeys;  ///< of K or V that a copy moves
  static constexpr int stages = stage_count;
  // Of dQ a warpgroup has 64 rows: of tiles with 128 its own, of tiles with 64 columns in panels of
  // 64, the second warpgroup the rest. d_q_part elements at most.
  static constexpr int d_q_columns = block_m == 64 ? 64 : d;
  static constexpr int last_d_q_columns = block_m == 64 ? d - 64 : d;
  static constexpr int d_q_part = kQueries * d_q_columns;
  using QTile = SwizzledTile<T, block_m, d>;  ///< of Q or dO
  using KvTile = SwizzledTile<T, kKeys, d>;   ///< of a warpgroup's K or V
  using ScoreTile = SwizzledTile<T, block_m, block_n>;  ///< of dS
  static_assert(block_m == 64 || block_m == 128, "dQ has two equal parts");
  static_assert(kPaddedRows % block_m == 0, "whole tiles in the workspace");
};

/// The tile of steps 08 to 12 for a head dimension, 64, 96 or 128: as many scores as a thread has
/// registers for.
template <class T, int d, int stages = 2>
using HopperBackwardTileFor =
    HopperBackwardTile<T, d, d == 64 ? 128 : 64, stages>;

/// A warpgroup as a constant. By default nvcc converts std::integral_constant on the host only.
template <int index>
struct ConstantWarpgroup {
  /// The warpgroup.
  __device__ constexpr operator int() const { return index; }
};

/// Calls work(warpgroup). Where the two parts of dQ differ in size the warpgroup is a constant, so
/// that each has code of its own: around branches on it ptxas would wait for each matmul.
template <class Tile, class Work>
__device__ void with_warpgroup(int warpgroup, Work work) {
  if constexpr (Tile::last_d_q_columns == Tile::d_q_columns) {
    work(warpgroup);
  } else if (warpgroup == 0) {
    work(ConstantWarpgroup<0>{});
  } else {
    work(ConstantWarpgroup<1>{});
  }
}

/// The named barrier of dS; those before it belong to store_gradient().
constexpr int kDSBarrier = 1 + kKeyWarpgroups;

/// S^T or dP^T of a warpgroup: this lane's part of 64 x block_m.
template <class Tile>
using TransposedScores = float[Tile::block_m / 2];
/// The same, rounded, as left operands of 16 queries each.
template <class Tile>
using RoundedScores = std::uint32_t[Tile::block_m / 16][4];
/// Sums of dK or dV of a warpgroup: this lane's part of 64 x d.
template <class Tile>
using KeyGradient = float[Tile::d / 2];
/// This lane's part of a warpgroup's part of dQ.
template <class Tile>
using QueryGradient = float[Tile::d_q_columns / 2];
/// Calls work(part) with the registers that a warpgroup uses of its part of dQ.
template <class Tile, class Work>
__device__ void with_d_q_part(QueryGradient<Tile>& d_q, int warpgroup,
                              Work work) {
  constexpr int last = Tile::last_d_q_columns / 2;
  if (last == Tile::d_q_columns / 2 || warpgroup == 0) {
    work(d_q);
  } else {
    work(reinterpret_cast<float(&)[last]>(d_q));
  }
}
/// Bytes of a warpgroup's part of dQ.
template <class Tile>
__device__ int d_q_bytes(int warpgroup) {
  return kQueries * int{sizeof(float)} *
         (warpgroup == 0 ? Tile::d_q_columns : Tile::last_d_q_columns);
}
/// A warpgroup's part of dQ in 16 bits, which TMA stores.
template <class Tile>
using QueryGradientPart =
    SwizzledTile<typename Tile::T, kQueries, Tile::d_q_columns>;

/// Tiles of queries min <= m_block < max; the loop begins at start, and min follows max - 1.
struct MBlocks {
  int min;
  int max;
  int start;
};

/// A block of keys, and in each query head of its group the tiles of queries that see it.
struct NBlock {
  int key0;
  int kv_head;
  int batch;
  MBlocks m_blocks;
};
/// The block with keys from index * block_n on.
template <class Tile, class T>
__device__ NBlock n_block(const Attention<T>& a, int index, int kv_head,
                          int batch) {
  const int key0 = index * Tile::block_n;
  const int min = first_query(a, key0) / Tile::block_m;
  return {
      key0, kv_head, batch, {min, ceil_div(a.length_q, Tile::block_m), min}};
}

/// A tile's first row in the workspace.
template <class T>
__device__ std::int64_t workspace_row(const AttentionGradient<T>& a,
                                      const NBlock& block, int head,
                                      int query0) {
  return std::int64_t{block.batch * a.heads + head} * padded_rows(a) + query0;
}

/// Neighbouring query heads.
struct QueryHeads {
  int first;
  int count;
};
/// Those that a block of keys goes through: all of its group.
template <class T>
__device__ QueryHeads query_heads(const Attention<T>& a,
                                  const NBlock& block) {
  const int group = group_size(a);
  return {block.kv_head * group, group};
}

/// Calls visit(head, query0) for each tile of queries of a block of keys, in order.
template <class Tile, class T, class Block, class Visit>
__device__ void for_each_m_block(const Attention<T>& a, const Block& block,
                                 Visit visit) {
  const QueryHeads heads = query_heads(a, block);
  const MBlocks& m_blocks = block.m_blocks;
  if (m_blocks.min >= m_blocks.max) return;
  for (int i = 0; i < heads.count; ++i) {
    int m_block = m_blocks.start;
#pragma unroll 1  // registers may be few
    do {
      visit(heads.first + i, m_block * Tile::block_m);
      if (++m_block == m_blocks.max) m_block = m_blocks.min;
    } while (m_block != m_blocks.start);
  }
}

/// The block of keys for a place in an order in which those with the most queries come first.
template <class Tile, class T>
__device__ NBlock longest_first_n_block(const Attention<T>& a, int tile_index,
                                        const TileScheduler& scheduler) {
  const WorkTile work = work_tile(tile_index, scheduler);
  // The scheduler begins with the last block, which has the most keys where
  // blocks are of queries. Of keys the first one has the most queries.
  const int index = scheduler.heads_together == 0
                        ? work.block
                        : scheduler.blocks - 1 - work.block;
  return n_block<Tile>(a, index, work.head, work.batch);
}

/// The block of keys for a place in the order. Without a mask each block of a head begins with
/// another tile of queries.
template <class Tile, class T>
__device__ NBlock spread_n_block(const Attention<T>& a, int tile_index,
                                 const TileScheduler& scheduler) {
  NBlock block = longest_first_n_block<Tile>(a, tile_index, scheduler);
  if (!a.causal) {
    block.m_blocks.start = static_cast<int>(std::int64_t{block.key0} *
                                            block.m_blocks.max / a.length_k);
  }
  return block;
}

/// The order of blocks of keys. Under the causal mask those with the most queries come first, in
/// groups of heads: two blocks for each SM, but where memory limits no more heads than have their
/// Q, dO and d_q_accum in an eighth of the L2 cache.
/// @param ordered for blocks that wait for one another: such small groups in any case; without a
///                mask of two thirds of the cache
/// @param sms     that share a block of keys
template <class Tile, class T>
TileScheduler n_block_scheduler(const AttentionGradient<T>& a,
                                bool ordered = false, int sms = 1) {
  const int heads = a.batch * a.kv_heads,
            blocks = ceil_div(a.length_k, Tile::block_n);
  if (!a.causal && !ordered) return {blocks, a.kv_heads, heads, 0};
  const DeviceProperties gpu = device_properties();
  const std::int64_t row_bytes =
      2 * sizeof(T) + (a.d_q_accum != nullptr ? sizeof(float) : 0);
  const std::int64_t bytes = row_bytes * group_size(a) * a.length_q * Tile::d;
  const std::int64_t fit = ordered || limited_by_memory(a, gpu)
                               ? static_cast<std::int64_t>(gpu.l2_bytes) *
                                     (a.causal ? 3 : 16) / 24 / bytes
                               : heads;
  return {blocks, a.kv_heads, heads,
          heads_of_group(heads, blocks, 2 * gpu.sm_count / sms, fit)};
}

/// A block for each tile of work, in one row.
inline Size grid_of_work(const TileScheduler& scheduler) {
  return {static_cast<unsigned>(scheduler.total_heads) *
          static_cast<unsigned>(scheduler.blocks)};
}

/// Masks, in S^T, the keys of a warpgroup, from key0 on, that a query of the tile does not see. Rows
/// beyond length_q have P = 0 in any case.
template <class T, int r>
__device__ void apply_mask_transposed(float (&s)[r], const Attention<T>& a,
                                      int query0, int key0) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int key = key0 + lane_row(h);
    const int first = key < a.length_k ? first_query(a, key) : a.length_q;
    const int masked = first - query0 - lane_column();
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      if (element_column(i) < masked) row_element(s, h, i) = -INFINITY;
    }
  }
}

/// P^T = exp2(scale S^T - LSE) in place of S^T; scale is that of the scores / ln 2.
template <int r>
__device__ void recompute_probs(float (&s)[r], const float* lse_base_2,
                                float scale) {
#pragma unroll
  for (int j = 0; j < r / 4; ++j) {
    float lse[2];  // of two neighbouring queries
    load2(lse, lse_base_2 + 8 * j + lane_column());
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = row_element(s, h, 2 * j + e);
        x = exp2_approx(x * scale - lse[e]);
      }
    }
  }
}

/// dS^T = P^T * (dP^T - delta), elementwise, in place of dP^T.
template <int r>
__device__ void score_gradients(float (&d_p)[r], const float (&p)[r],
                                const float* delta) {
#pragma unroll
  for (int j = 0; j < r / 4; ++j) {
    float sum[2];
    load2(sum, delta + 8 * j + lane_column());
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = row_element(d_p, h, 2 * j + e);
        x = row_element(p, h, 2 * j + e) * (x - sum[e]);
      }
    }
  }
}

/// The row of a tile of 64 rows and 16 columns whose address this lane gives to ldmatrix_x4() and
/// stmatrix_x4().
__device__ inline int stmatrix_row() {
  return threadIdx.x / kWarp % 4 * 16 + threadIdx.x % kWarp % 16;
}
/// Its column.
__device__ inline int stmatrix_column() {
  return threadIdx.x % kWarp / 16 * 8;
}

/// Stores dS of a warpgroup to a tile block_m x block_n in shared memory: stmatrix transposes dS^T.
/// @param key the warpgroup's first in the block
template <class ScoreTile, int parts>
__device__ void store_d_s(ScoreTile& to, const std::uint32_t (&d_s)[parts][4],
                          int key) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
  const int query = lane / 16 * 8 + lane % 8;
  const int col = key + 16 * warp + lane / 8 % 2 * 8;
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    stmatrix_x4_transposed(to.at(16 * i + query, col), d_s[i]);
  }
}

/// This warp has read a stage.
template <int stages>
__device__ void release_stage(Pipeline<stages>& pipe,
                              const PipelineState<stages>& at) {
  if (threadIdx.x % kWarp == 0) pipe.consumer_release(at);
}

/// Issues a warpgroup's part of dQ = dS K and closes the group.
template <class Tile>
__device__ void issue_d_q(QueryGradient<Tile>& d_q,
                          const typename Tile::ScoreTile& d_s,
                          const typename Tile::KvTile (&k)[kKeyWarpgroups],
                          int warpgroup) {
  constexpr bool by_columns = Tile::block_m == 64;
  const int row = by_columns ? 0 : 64 * warpgroup;
  const int col = by_columns ? Tile::d_q_columns * warpgroup : 0;
  with_d_q_part<Tile>(d_q, warpgroup, [&](auto& part) {
    FA_STAMP(kIssueByColumns, 0);  // for a timeline
    wgmma_fence(part);
#pragma unroll
    for (int kk = 0; kk < Tile::block_n; kk += 16) {
      wgmma<typename Tile::T>(part, d_s.by_rows(row, kk),
                              k[kk / kKeys].by_columns(kk % kKeys, col),
                              kk > 0);
    }
    wgmma_commit(part);
  });
}

/// Calls visit(at, i) for each four registers of a warpgroup's accumulator, from register i on.
/// Their place is `at` in an array [registers / 4][thread of the warpgroup][4]: so a warp accesses
/// 512 consecutive bytes at once.
template <int registers, class Visit>
__device__ void for_each_four(Visit visit) {
  const int own = threadIdx.x % kWarpgroup * 4;
#pragma unroll
  for (int i = 0; i < registers; i += 4) visit(own + i * kWarpgroup, i);
}
/// Writes this lane's part of an accumulator to such an array, at a multiple of 16 bytes.
template <int r>
__device__ void store_accumulator(float* to, const float (&x)[r]) {
  for_each_four<r>([&](int at, int i) {
    store4(to + at, make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
  });
}
/// Adds it to such an array instead, while other blocks may add as well.
template <int r>
__device__ void add_accumulator(float* to, const float (&x)[r]) {
  for_each_four<r>([&](int at, int i) {
    atomic_add4(to + at, make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
  });
}
/// Reads what store_accumulator() wrote in the same thread of another warpgroup or block.
template <int r>
__device__ void load_accumulator(float (&x)[r], const float* from) {
  for_each_four<r>([&](int at, int i) {
    const float4 four = load4(from + at);
    x[i] = four.x;
    x[i + 1] = four.y;
    x[i + 2] = four.z;
    x[i + 3] = four.w;
  });
}

/// A warpgroup's part of a tile of d_q_accum. The tiles of a head follow one another, each with
/// its two parts; a part lies as for_each_four() says.
/// @param row of the workspace: the tile's first
template <class Tile, class T>
__device__ float* d_q_accum_part(const AttentionGradient<T>& a,
                                 std::int64_t row, int warpgroup) {
  return a.d_q_accum + row * Tile::d + warpgroup * Tile::d_q_part;
}

/// Rounds 64 rows, multiplied by the factor, writes them to a tile in shared memory, which wgmma
/// does not read any more, and has TMA store them at row0 and col0. All threads of the warpgroup
/// call it.
template <class RowTile, class Map, int r>
__device__ void store_gradient(const Map& map, const float (&x)[r],
                               float factor, RowTile& tile, int row0,
                               int head, int batch, int col0 = 0) {
  static_assert(RowTile::rows == 64 && RowTile::cols >= 2 * r,
                "a warpgroup has 64 rows");
  const int row = stmatrix_row(), first_col = stmatrix_column();
#pragma unroll
  for (int col = 0; col < 2 * r; col += 16) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = pack2<typename RowTile::Element>(
          factor * x[col / 2 + 2 * i], factor * x[col / 2 + 2 * i + 1]);
    }
    stmatrix_x4(tile.at(row, col + first_col), pairs);
  }
  fence_async_proxy();  // TMA sees what this thread wrote
  named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
  if (threadIdx.x % kWarpgroup != 0) return;
  store_tile(map, tile, row0, head, batch, col0);
  bulk_commit();
}

/// Makes dS of both warpgroups visible to wgmma. All threads of both call it.
__device__ inline void wait_for_d_s() {
  fence_async_proxy();
  named_barrier_wait(kDSBarrier, kKeyWarpgroups * kWarpgroup);
}

/// Stores a warpgroup's dV and, when both warpgroups have read K, its dK.
template <class Tile, class Shared, class Maps>
__device__ void epilogue(Shared& shared, const Maps& maps,
                         const NBlock& block, const KeyGradient<Tile>& d_k,
                         const KeyGradient<Tile>& d_v) {
  const int warpgroup = warpgroup_index();
  const int key0 = block.key0 + warpgroup * kKeys;
  store_gradient(maps.d_v, d_v, 1, shared.v[warpgroup], key0, block.kv_head,
                 block.batch);
  named_barrier_wait(kDSBarrier, kKeyWarpgroups * kWarpgroup);
  store_gradient(maps.d_k, d_k, maps.a.scale, shared.k[warpgroup], key0,
                 block.kv_head, block.batch);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
}

/// dQ = scale d_q_accum, rounded, for a tile of queries: each warpgroup a part, as the registers of
/// wgmma held it.
template <class Tile, class Maps>
__device__ void postprocess_tile(const Maps& maps, int query0, int head_index,
                                 int batch) {
  auto& tiles = *dynamic_shared<QueryGradientPart<Tile>[kKeyWarpgroups]>();
  const auto& a = maps.a;
  const int warpgroup = warpgroup_index();
  const auto head = gradient_head(a, batch, head_index);
  constexpr bool by_columns = Tile::block_m == 64;
  QueryGradient<Tile> d_q;
  with_d_q_part<Tile>(d_q, warpgroup, [&](auto& part) {
    load_accumulator(
        part, d_q_accum_part<Tile>(a, head.padded_row + query0, warpgroup));
    store_gradient(maps.d_q, part, a.scale, tiles[warpgroup],
                   query0 + (by_columns ? 0 : kQueries * warpgroup),
                   head_index, batch,
                   by_columns ? Tile::d_q_columns * warpgroup : 0);
  });
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
}
/// The same for a block of tma_postprocess_launch().
template <class Tile, class T>
__device__ void postprocess_m_block(const TmaGradient<T>& maps) {
  postprocess_tile<Tile>(maps, blockIdx.x * Tile::block_m, blockIdx.y,
                         blockIdx.z);
}
/// The kernel that does so.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* kKeyWarpgroups)
    postprocess_tma_d_q(const __grid_constant__ TmaGradient<T> maps) {
  postprocess_m_block<Tile>(maps);
}

/// The launch of postprocess_tma_d_q().
template <class Tile, class T>
Launch tma_postprocess_launch(const AttentionGradient<T>& a) {
  return {grid_of(a, Tile::block_m), kWarpgroup * kKeyWarpgroups,
          kKeyWarpgroups * sizeof(QueryGradientPart<Tile>)};
}
/// Launches it.
template <class Tile, class T>
void launch_tma_postprocess(const TmaGradient<T>& maps,
                            const Stream& stream) {
  launch(stream, postprocess_tma_d_q<Tile, T>,
         tma_postprocess_launch<Tile>(maps.a), maps);
}

/// Gradients with tensor maps for a kernel with HopperBackwardTile, PairTile ... Where v has fewer
/// columns than a tile, TMA fills the tile with zeros, and does not store what lies beyond them.
template <class Tile, class T>
TmaGradient<T> tma_gradient(const AttentionGradient<T>& a) {
  const int d = a.head_dim, columns_v = a.head_dim_v;
  constexpr int keys = Tile::box_keys;
  return {map_of_queries(a, a.q, a.q_strides, d, Tile::block_m),
          map_of_queries(a, a.d_o, a.d_o_strides, columns_v, Tile::block_m),
          map_of_keys(a, a.k, a.k_strides, d, keys),
          map_of_keys(a, a.v, a.v_strides, columns_v, keys),
          map_of_keys<T>(a, a.d_k, a.d_k_strides, d, keys),
          map_of_keys<T>(a, a.d_v, a.d_v_strides, columns_v, keys),
          map_of_queries<T>(a, a.d_q, a.d_q_strides, d, kQueries),
          a};
}

}  // namespace fa::FA_TARGET
