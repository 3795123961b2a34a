/// @file
/// The baseline: three kernels, one for each formula. S and P, length_q x length_k for each head,
/// go through global memory.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Rows and columns of a tile of a matmul.
constexpr int kUnfusedTile = 32;

namespace {  // several sources include these kernels

/// S = scale Q K^T. A block computes a tile of 32 x 32 scores, a thread one of them.
/// @param scores [batch, heads, length_q, length_k]
__global__ void unfused_scores(Attention<float> a, float* scores) {
  constexpr int tile = kUnfusedTile;
  __shared__ float q_smem[tile][tile], k_smem[tile][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y, index = blockIdx.z;
  const auto h = head_of(a, index / a.heads, index % a.heads);
  const int query = blockIdx.y * tile + y, key0 = blockIdx.x * tile;
  float sum = 0;
  for (int col0 = 0; col0 < a.head_dim; col0 += tile) {
    const int col = col0 + x, key = key0 + y;
    const bool inside = col < a.head_dim;
    q_smem[y][x] = inside && query < a.length_q
                       ? h.q[query * a.q_strides.row + col]
                       : 0.0f;
    k_smem[y][x] =
        inside && key < a.length_k ? h.k[key * a.k_strides.row + col] : 0.0f;
    __syncthreads();  // the tiles have arrived
    for (int kk = 0; kk < tile; ++kk) sum += q_smem[y][kk] * k_smem[x][kk];
    __syncthreads();  // all warps are done with the tiles
  }
  const int key = key0 + x;
  if (query < a.length_q && key < a.length_k) {
    scores[(std::int64_t{index} * a.length_q + query) * a.length_k + key] =
        a.scale * sum;
  }
}

/// P = softmax(S), in place, and LSE. A warp processes a row.
/// @param probs [batch, heads, length_q, length_k]: S before, P after
__global__ void unfused_probs(Attention<float> a, float* probs) {
  const int query = blockIdx.x * blockDim.y + threadIdx.y, index = blockIdx.z;
  if (query >= a.length_q) return;  // the whole warp
  float* row =
      probs + (std::int64_t{index} * a.length_q + query) * a.length_k;
  const int visible = visible_keys(a, query);
  float m = -INFINITY, l = 0;
  for (int j = threadIdx.x; j < visible; j += kWarp) m = fmaxf(m, row[j]);
  m = warp_max(m);
  for (int j = threadIdx.x; j < visible; j += kWarp) {
    l += exp_diff(row[j], m);
  }
  l = warp_sum(l);
  for (int j = threadIdx.x; j < a.length_k; j += kWarp) {
    row[j] = j < visible ? exp_diff(row[j], m) / l *
                               a.dropout.of_weight(index, query, j)
                         : 0.0f;
  }
  if (threadIdx.x == 0) {
    a.lse[std::int64_t{index} * a.length_q + query] = log_sum(m, l);
  }
}

/// O = P V. A block computes a tile of 32 x 32 elements of O, a thread one of them.
/// @param probs [batch, heads, length_q, length_k]
__global__ void unfused_output(Attention<float> a, const float* probs) {
  constexpr int tile = kUnfusedTile;
  __shared__ float p_smem[tile][tile], v_smem[tile][tile];
  const int x = threadIdx.x, y = threadIdx.y, index = blockIdx.z;
  const auto h = head_of(a, index / a.heads, index % a.heads);
  const int query = blockIdx.y * tile + y, col = blockIdx.x * tile + x;
  const float* row =
      probs + (std::int64_t{index} * a.length_q + query) * a.length_k;
  float sum = 0;
  for (int key0 = 0; key0 < a.length_k; key0 += tile) {
    const int key = key0 + y;
    p_smem[y][x] =
        query < a.length_q && key0 + x < a.length_k ? row[key0 + x] : 0.0f;
    v_smem[y][x] = key < a.length_k && col < a.head_dim
                       ? h.v[key * a.v_strides.row + col]
                       : 0.0f;
    __syncthreads();  // the tiles have arrived
    for (int kk = 0; kk < tile; ++kk) sum += p_smem[y][kk] * v_smem[kk][x];
    __syncthreads();  // all warps are done with the tiles
  }
  if (query < a.length_q && col < a.head_dim) {
    h.o[query * a.o_strides.row + col] = sum;
  }
}

}  // namespace

/// Elements of S, which is also P: the workspace of launch_unfused().
inline std::int64_t unfused_workspace(const Attention<float>& a) {
  return std::int64_t{a.batch} * a.heads * a.length_q * a.length_k;
}

/// Launches the three kernels.
/// @param workspace unfused_workspace() elements in global memory
inline void launch_unfused(const Attention<float>& a, const Stream& stream,
                           float* workspace) {
  const auto tiles = [](int size) {
    return static_cast<unsigned>(ceil_div(size, kUnfusedTile));
  };
  const auto heads = static_cast<unsigned>(a.batch * a.heads);
  const Size block(kUnfusedTile, kUnfusedTile);
  launch(stream, unfused_scores,
         {{tiles(a.length_k), tiles(a.length_q), heads}, block}, a,
         workspace);
  const auto rows = static_cast<unsigned>(ceil_div(a.length_q, 4));
  launch(stream, unfused_probs, {{rows, 1, heads}, {kWarp, 4}}, a, workspace);
  launch(stream, unfused_output,
         {{tiles(a.head_dim), tiles(a.length_q), heads}, block}, a,
         workspace);
}

FA_STEP_ROW(forward, 1) {
  return row("01_unfused", "three kernels, scores in global memory", float{})
      .slow()
      .tile(kUnfusedTile, kUnfusedTile, 0, 1)
      .memory_is("4 N^2", [](auto n, auto) { return 4 * n * n; })
      // Each of the tiles of a matmul reads rows of both operands; softmax
      // reads its row three times.
      .reads("4 N/32 N D + 3 N^2",
             [](auto n, auto d) {
               return 4 * (n / kUnfusedTile) * n * d + 3 * n * n;
             })
      .writes("2 N^2 + N D + N",
              [](auto n, auto d) { return 2 * n * n + n * d + n; })
      .floats([](const auto& a, auto) { return unfused_workspace(a); })
      .launch([](auto& a, auto, auto& stream, float* scores) {
        launch_unfused(a, stream, scores);
      });
}

}  // namespace fa::FA_TARGET
