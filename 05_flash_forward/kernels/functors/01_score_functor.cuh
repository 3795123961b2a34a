/// @file
/// A mask and a change of the scores of one's own, by a functor that is compiled into the kernel.
/// It is step 08 with two questions: which tiles of keys, and which scores. A tile that the functor
/// skips is neither loaded nor multiplied; only a tile that is partly masked asks for each score.
///
/// Source: Dong et al., FlexAttention, 2024, section 4.
#pragma once

#include "05_flash_forward/library/mma_loop.cuh"
#include "common/attention/functor_instances.cuh"
#include "common/attention/visible_tiles.cuh"

namespace fa::FA_TARGET {

/// Masks the scores of a warp by a functor, those of keys beyond the last one, too.
/// @param s      Q K^T: [i][j] is of queries 16 i and keys 8 j
/// @param query0 the warp's first query; a row beyond the last one is not stored, and may have any
///               scores
template <class T, class Functor, int row_tiles, int key_tiles>
__device__ void mask_scores(float (&s)[row_tiles][key_tiles][4],
                            const Attention<T>& a, const Functor& functor,
                            int batch, int head, int query0, int key0,
                            int lane) {
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
    for (int j = 0; j < key_tiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = query0 + 16 * i + fragment_row(lane, e);
        const int key = key0 + 8 * j + fragment_column(lane, e);
        if (key >= a.length_k || query >= a.length_q ||
            !functor.visible(batch, head, query, key)) {
          s[i][j][e] = -INFINITY;
        }
      }
    }
  }
}

/// S = score(scale S), but for masked scores.
template <class T, class Functor, int row_tiles, int key_tiles>
__device__ void change_scores(float (&s)[row_tiles][key_tiles][4],
                              const Attention<T>& a, const Functor& functor,
                              int batch, int head, int query0, int key0,
                              int lane) {
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
    for (int j = 0; j < key_tiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = query0 + 16 * i + fragment_row(lane, e);
        const int query = row < a.length_q ? row : a.length_q - 1;
        const int key = key0 + 8 * j + fragment_column(lane, e);
        float& x = s[i][j][e];
        if (x != -INFINITY) {
          x = functor.score(a.scale * x, batch, head, query, key);
        }
      }
    }
  }
}

/// The state of the online softmax after a sink: a key whose value is 0.
/// @param sink its logit, in the units of the scores
template <class Tile>
__device__ void add_sink(WarpRowState<Tile>& state, float sink, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      state.m[i][h] = sink;
      state.l[i][h] = lane % 4 == 0 ? 1.0f : 0.0f;  // four lanes share a row
    }
  }
}

/// Attention in 16 bits with a functor. A warp processes Tile::warp_rows queries.
/// @tparam Tile    a ForwardTile
/// @tparam Functor see score_functors.cuh
template <class Tile, class T, class Functor>
__global__ void __launch_bounds__(Tile::threads, 2)
    flash_score_functor(Attention<T> a, Functor functor) {
  constexpr int d = Tile::d;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  // Where a mask is like the causal one, the last blocks have the most keys.
  const int query0 = (gridDim.x - 1 - blockIdx.x) * Tile::block_m;
  const int head_index = blockIdx.y, batch = blockIdx.z;
  const auto head = head_of(a, batch, head_index);
  //! [scale]
  // The scale of the scores that the softmax is given.
  const float scale = Functor::changes_scores ? 1.0f : a.scale;
  //! [scale]
  const int count = ceil_div(a.length_k, Tile::block_n);
  const auto load = [&](const VisibleTile& tile, int stage) {
    const int key0 = tile.index * Tile::block_n, at = stage * Tile::kv_size;
    if (tile.index < count) {
      copy_rows_async<Tile::block_n, d, Tile::threads>(
          k_smem + at, head.k, a.k_strides.row, key0, a.length_k, a.head_dim,
          thread);
      copy_rows_async<Tile::block_n, d, Tile::threads>(
          v_smem + at, head.v, a.v_strides.row, key0, a.length_k, a.head_dim,
          thread);
    }
    cp_async_commit();
  };
  //! [tiles]
  const auto kind_of = [&](int tile) {
    return tile_kind<Tile::block_m, Tile::block_n>(
        a, functor, batch, head_index, query0, tile * Tile::block_n);
  };
  VisibleTile tile = next_visible(0, count, kind_of);
  //! [tiles]
  if (tile.index < count) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    load(tile, 0);
  }
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  if constexpr (Functor::has_sink) {
    add_sink<Tile>(state, functor.sink(head_index) / scale, lane);
  }
  //! [loop]
  for (int stage = 0; tile.index < count; stage = 1 - stage) {
    const VisibleTile now = tile;
    cp_async_wait<0>();
    __syncthreads();  // arrived; no warp still reads the stage load() fills
    tile = next_visible(now.index + 1, count, kind_of);
    load(tile, 1 - stage);
    const int key0 = now.index * Tile::block_n, at = stage * Tile::kv_size;
    Accumulators<Tile, Tile::block_n> s = {};
    // S = Q K^T
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    if (!now.whole) {
      mask_scores(s, a, functor, batch, head_index, query0 + warp_row, key0,
                  lane);
    }
    // S = score(scale S)
    if constexpr (Functor::changes_scores) {
      change_scores(s, a, functor, batch, head_index, query0 + warp_row, key0,
                    lane);
    }
    // P = exp2(exponent_scale (S - m))
    softmax_step_base_2<Tile, true, kWideScores<Functor>>(s, o, state,
                                                          scale * kLog2E);
    // O += P V
    multiply_p_v<d>(o, s, v_smem + at, lane);
  }
  //! [loop]
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {  // m of scaled scores
    state.m[i][0] *= scale;
    state.m[i][1] *= scale;
  }
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}

/// The tile for a head dimension. It has fewer keys than that of step 08: the functor, and which
/// tile comes next, need registers, too.
template <int d>
using FunctorTile = ForwardTile<d, d == 128 ? 48 : 64, 4, 32>;

/// Bytes of workspace that launch_score_functor() needs for a functor with needs_map.
template <int d, class T>
std::int64_t score_functor_workspace(const Attention<T>& a) {
  using Tile = FunctorTile<d>;
  return tile_map_bytes(a, Tile::block_m, Tile::block_n);
}

/// Launches the kernel, for a mask without a rule after the one that maps its tiles.
/// @param a         with a head_dim of at most d
/// @param workspace of the device, score_functor_workspace() bytes
template <int d, class T, class Functor>
void launch_score_functor(const Attention<T>& a, const Functor& functor,
                          const Stream& stream, TileKind* workspace) {
  using Tile = FunctorTile<d>;
  with_tile_kinds<Tile::block_m, Tile::block_n>(
      a, functor, workspace, stream, [&](const auto& with_kinds) {
        using F = std::decay_t<decltype(with_kinds)>;
        launch(stream, flash_score_functor<Tile, T, F>,
               {grid_of(a, Tile::block_m), Tile::threads,
                pipeline_bytes<Tile, T>(), kPipelineStages},
               a, with_kinds);
      });
}

/// launch_score_functor() with the functor of a spec.
template <int d, class T>
void launch_functor(const Attention<T>& a, const FunctorSpec& spec,
                    const Stream& stream, TileKind* workspace) {
  with_functor(spec, a.length_q, a.length_k, [&](const auto& functor) {
    launch_score_functor<d>(a, functor, stream, workspace);
  });
}

FA_LAUNCH_16_BIT(functor, Attention,
                 (const FunctorSpec&, const Stream&, TileKind*),
                 launch_functor, (64), (128));

FA_STEP_ROW(functor, 1) {
  return row("01_score_functor", "masks and scores by functors", half{},
             bfloat16{})
      .without_functor("08_edge_masks")
      .needs(kNeedsMma)
      .no_dropout()
      .head_dims(HeadDims<64, 128>{})
      .tile(128, 64, 0, 2, 64)
      .tile(128, 48, 0, 2, 128)
      .shared_bytes(
          [](auto d) { return pipeline_bytes<FunctorTile<d>, half>(); })
      .array(TileKind{}, [](const auto& a,
                            auto d) { return score_functor_workspace<d>(a); })
      .launch([](auto& a, auto d, auto& stream, TileKind* kinds) {
        launch_functor<d>(a, a.spec, stream, kinds);
      });
}

}  // namespace fa::FA_TARGET
