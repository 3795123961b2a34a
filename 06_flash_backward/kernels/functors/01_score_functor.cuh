/// @file
/// The gradients of attention with a functor: step 06 with the tiles that the functor shows, and
/// its derivative. With S the scaled scores and S' = score(S),
///
///     P = exp(S' - LSE)      dS' = P * (dP - delta)      dS = dS' * score'(S)
///
/// elementwise. dS' is the gradient of an additive bias. A sink is a key whose value is 0, so its
/// dP is 0, and its gradient the sum of -P delta over the rows.
///
/// Source: Dong et al., FlexAttention, 2024, section 4; for delta, Dao, FlashAttention-2, ICLR
/// 2024, algorithm 2.
#pragma once

#include "06_flash_backward/kernels/sink_gradients.cuh"
#include "06_flash_backward/library/mma_block.cuh"
#include "common/attention/dual.cuh"
#include "common/attention/functor_instances.cuh"
#include "common/attention/visible_tiles.cuh"

namespace fa::FA_TARGET {

/// Masks the keys that a query does not see.
template <class Tile, class T, class Functor>
__device__ void mask_transposed(Scores<Tile>& s,
                                const AttentionGradient<T>& a,
                                const Functor& functor, int batch, int head,
                                int query0, int key0, int lane) {
#pragma unroll
  for (int j = 0; j < Tile::query_tiles; ++j) {
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = query0 + 8 * j + fragment_column(lane, e);
        const int key = key0 + 16 * i + fragment_row(lane, e);
        if (query >= a.length_q || key >= a.length_k ||
            !functor.visible(batch, head, query, key)) {
          s[i][j][e] = -INFINITY;
        }
      }
    }
  }
}

/// P^T = exp2(S'^T / ln 2 - LSE) and dS^T of queries 8 j to 8 j + 7.
/// @param s      S^T without the scale, -infinity where masked; P^T on return
/// @param d_p    dP^T; dS^T on return
/// @param lse    in base 2, of the tile's queries, as delta
template <class Tile, class T, class Functor>
__device__ void functor_gradients(Scores<Tile>& s, Scores<Tile>& d_p, int j,
                                  const AttentionGradient<T>& a,
                                  const Functor& functor, int batch, int head,
                                  const float* lse, const float* delta,
                                  int query0, int key0, int lane) {
  float lse_of[2], delta_of[2];
  load2(lse_of, lse + 8 * j + fragment_column(lane, 0));
  load2(delta_of, delta + 8 * j + fragment_column(lane, 0));
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float& x = s[i][j][e];
      float& g = d_p[i][j][e];
      const int row = query0 + 8 * j + fragment_column(lane, e);
      // P of a row beyond the last query is 0, whatever its scores.
      const int query = row < a.length_q ? row : a.length_q - 1;
      const int key = key0 + 16 * i + fragment_row(lane, e);
      if constexpr (Functor::changes_scores) {
        //! [changed_gradients]
        bool seen = x != -INFINITY;
        const float scaled = a.scale * x;
        if (seen) x = functor.score(scaled, batch, head, query, key);
        if constexpr (kWideScores<Functor>) seen = x != -INFINITY;
        x = exp2_approx(changed_exponent<Functor>(x, kLog2E, lse_of[e % 2]));
        g = x * (g - delta_of[e % 2]);
        if constexpr (Functor::has_gradient) {
          if (seen && row == query) {
            functor.add_gradient(g, batch, head, query, key);
          }
        }
        if (seen) g *= functor.derivative(scaled, batch, head, query, key);
        //! [changed_gradients]
      } else {
        x = exp2_approx(x * (a.scale * kLog2E) - lse_of[e % 2]);
        g = x * (g - delta_of[e % 2]);
      }
    }
  }
}

/// A tile of queries of a head; beyond the last head, none.
struct VisibleQueries {
  int head, query0;
  bool whole;
};

/// The first visible tile of a block of keys from one on, in this head or a later one of the group.
/// All lanes call it.
/// @param head    of the first tile
/// @param query0  its first query
/// @param heads   behind the last head of the group
template <class Tile, class T, class Functor>
__device__ VisibleQueries next_visible_queries(const AttentionGradient<T>& a,
                                               const Functor& functor,
                                               int batch, int head,
                                               int query0, int heads,
                                               int key0) {
  const int count = ceil_div(a.length_q, Tile::block_m);
  for (; head < heads; ++head, query0 = 0) {
    const VisibleTile tile =
        next_visible(query0 / Tile::block_m, count, [&](int index) {
          return tile_kind<Tile::block_m, Tile::block_n>(
              a, functor, batch, head, index * Tile::block_m, key0);
        });
    if (tile.index < count) {
      return {head, tile.index * Tile::block_m, tile.whole};
    }
  }
  return {heads, 0, false};
}

/// dK and dV, and additions to d_q_accum. A block owns keys and loops over the visible tiles of
/// queries.
/// @tparam Tile    a BackwardTile
/// @tparam Functor see score_functors.cuh
template <class Tile, class T, class Functor>
__global__ void __launch_bounds__(Tile::threads, Tile::warps == 4 ? 2 : 1)
    flash_backward_score_functor(AttentionGradient<T> a, Functor functor) {
  constexpr int d = Tile::d;
  T* const k_smem = dynamic_shared<T>();
  T* const v_smem = k_smem + Tile::kv_size;
  T* const q_smem = v_smem + Tile::kv_size;  // two of them
  T* const d_o_smem = q_smem + 2 * Tile::q_size;
  T* const ds_smem = d_o_smem + 2 * Tile::q_size;
  float* const lse_smem = reinterpret_cast<float*>(ds_smem + Tile::ds_size);
  float* const delta_smem = lse_smem + 2 * Tile::block_m;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp = thread / kWarp, warp_key = warp * Tile::warp_keys;
  const int key0 = blockIdx.x * Tile::block_n;
  const int kv_head = blockIdx.y, batch = blockIdx.z;
  const int end = (kv_head + 1) * group_size(a);  // of the group's heads
  const auto fetch = [&](const VisibleQueries& at, int stage) {
    const auto head = gradient_head(a, batch, at.head);
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem + stage * Tile::q_size, head.q, a.q_strides.row, at.query0,
        a.length_q, a.head_dim, thread);
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        d_o_smem + stage * Tile::q_size, head.d_o, a.d_o_strides.row,
        at.query0, a.length_q, a.head_dim, thread);
    if (thread < Tile::block_m / 4) {
      const std::int64_t row = head.padded_row + at.query0 + 4 * thread;
      const int to = stage * Tile::block_m + 4 * thread;
      cp_async16(lse_smem + to, a.lse_base_2 + row);
      cp_async16(delta_smem + to, a.delta + row);
    }
  };
  VisibleQueries next = next_visible_queries<Tile>(
      a, functor, batch, kv_head * group_size(a), 0, end, key0);
  if (next.head < end) {
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        k_smem, kv_rows(a.k, a.k_strides, batch, kv_head), a.k_strides.row,
        key0, a.length_k, a.head_dim, thread);
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        v_smem, kv_rows(a.v, a.v_strides, batch, kv_head), a.v_strides.row,
        key0, a.length_k, a.head_dim, thread);
    fetch(next, 0);
    cp_async_commit();
  }
  KeySums<Tile> d_k = {}, d_v = {};
  for (int stage = 0; next.head < end; stage = 1 - stage) {
    const T* const q_tile = q_smem + stage * Tile::q_size;
    const T* const d_o_tile = d_o_smem + stage * Tile::q_size;
    const float* const lse = lse_smem + stage * Tile::block_m;
    const float* const delta = delta_smem + stage * Tile::block_m;
    const VisibleQueries at = next;
    cp_async_wait<0>();
    __syncthreads();  // this tile is loaded, the last one has been read
    Scores<Tile> p = {}, d_s = {};
    // S^T = K Q^T
    multiply_k_q<d>(p, k_smem, q_tile, warp_key, lane, [](int) {});
    next = next_visible_queries<Tile>(a, functor, batch, at.head,
                                      at.query0 + Tile::block_m, end, key0);
    if (next.head < end) fetch(next, 1 - stage);
    cp_async_commit();
    if (!at.whole) {
      mask_transposed<Tile>(p, a, functor, batch, at.head, at.query0,
                            key0 + warp_key, lane);
    }
    // dP^T = V dO^T
    multiply_k_q<d>(d_s, v_smem, d_o_tile, warp_key, lane, [](int) {});
    PackedScores<Tile> d_s_packed;
    // P^T and dS^T of eight queries
    const auto finish_scores = [&](int j) {
      functor_gradients<Tile>(p, d_s, j, a, functor, batch, at.head, lse,
                              delta, at.query0, key0 + warp_key, lane);
      pack_scores<T, Tile>(d_s_packed, d_s, j);
      store_score_gradients<Tile>(ds_smem, d_s_packed, j, warp_key, lane);
    };
    finish_scores(0);
    finish_scores(1);
    // dV += P^T dO, overlapped with P^T and dS^T of its next operands
    multiply_p_d_o<d>(d_v, p, d_o_tile, lane, 0, [&](int part) {
      if (2 * part + 2 < Tile::query_tiles) {
        finish_scores(2 * part + 2);
        finish_scores(2 * part + 3);
      }
    });
    __syncthreads();  // all warps have stored dS
    // dK += dS^T Q
    multiply_p_d_o<d>(d_k, d_s_packed, q_tile, lane, 0, [](int) {});
    QuerySums<Tile> d_q = {};  // dQ = dS K
    multiply_ds_k<Tile>(d_q, ds_smem, k_smem, warp, lane);
    const std::int64_t row =
        gradient_head(a, batch, at.head).padded_row + at.query0;
    atomic_add_d_q<Tile>(a.d_q_accum + row * d, d_q, warp, lane);
  }
  store_key_sums<Tile>(kv_rows(a.d_k, a.d_k_strides, batch, kv_head),
                       a.d_k_strides.row, a, d_k, a.scale, key0 + warp_key, 0,
                       lane);
  store_key_sums<Tile>(kv_rows(a.d_v, a.d_v_strides, batch, kv_head),
                       a.d_v_strides.row, a, d_v, 1.0f, key0 + warp_key, 0,
                       lane);
}

/// The tile of the kernel: 32 keys and more, whose dK and dV one warp has.
template <int d>
using FunctorBackwardTile = SwizzledBackwardTile<d>;

/// Bytes of workspace for tiles that launch_backward_score_functor() needs for a functor with
/// needs_map.
template <int d, class T>
std::int64_t backward_functor_workspace(const Attention<T>& a) {
  using Tile = FunctorBackwardTile<d>;
  return tile_map_bytes(a, Tile::block_m, Tile::block_n);
}

/// Launches the kernels: row statistics, sinks where there are some, the gradients.
/// @param a     with a Workspace{d}; what the functor's add_gradient() adds to must be zeroed before; without d_sinks() there is no gradient of sinks
/// @param kinds of the device, backward_functor_workspace() bytes
template <int d, class T, class Functor>
void launch_backward_score_functor(const AttentionGradient<T>& a,
                                   const Functor& functor,
                                   const Stream& stream, TileKind* kinds) {
  using Tile = FunctorBackwardTile<d>;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  launch_sink_gradients(a, functor, stream);
  with_tile_kinds<Tile::block_m, Tile::block_n>(
      static_cast<const Attention<T>&>(a), functor, kinds, stream,
      [&](const auto& with_kinds) {
        using F = std::decay_t<decltype(with_kinds)>;
        launch(stream, flash_backward_score_functor<Tile, T, F>,
               {grid_of_keys(a, Tile::block_n), Tile::threads,
                swizzled_backward_bytes<Tile, T>(), kPipelineStages},
               a, with_kinds);
      });
  launch(stream, postprocess_d_q<Tile, T>, postprocess_launch<Tile>(a), a);
}

/// launch_backward_score_functor() with the functor of a spec.
template <int d, class T>
void launch_backward_functor(const AttentionGradient<T>& a,
                             const FunctorSpec& spec, const Stream& stream,
                             TileKind* kinds) {
  with_functor(spec, a.length_q, a.length_k, [&](const auto& functor) {
    launch_backward_score_functor<d>(a, functor, stream, kinds);
  });
}

FA_LAUNCH_16_BIT(backward_functor, AttentionGradient,
                 (const FunctorSpec&, const Stream&, TileKind*),
                 launch_backward_functor, (64), (128));

FA_STEP_ROW(backward_functor, 1) {
  return row("01_score_functor", "gradients of masks and scores by functors",
             half{}, bfloat16{})
      .without_functor("06_swizzled_pipeline")
      .needs(kNeedsMma)
      .no_dropout()
      .any_order()
      .head_dims(HeadDims<64, 128>{})
      .tile(32, 128, 2, 0, 64)
      .tile(64, 128, 2, 0, 128)
      .shared_bytes([](auto d) {
        return swizzled_backward_bytes<FunctorBackwardTile<d>, half>();
      })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .array(TileKind{},
             [](const auto& a, auto d) {
               return backward_functor_workspace<d>(a);
             })
      .launch([](auto& a, auto d, auto& stream, TileKind* kinds) {
        if (a.spec.dual) {
          const Masked<Window, WithDual<SoftCap>> functor(
              window_of(a.spec, a.length_k - a.length_q),
              WithDual<SoftCap>(SoftCap(a.spec.cap)));
          launch_backward_score_functor<d>(a, functor, stream, kinds);
        } else {
          launch_backward_functor<d>(a, a.spec, stream, kinds);
        }
      });
}

}  // namespace fa::FA_TARGET
