/// @file
/// The baseline: a kernel for each formula. P and dS, length_q x length_k of each head, go through
/// global memory.
#pragma once

#include "06_flash_backward/kernels/gradient.cuh"

namespace fa::FA_TARGET {

/// Side of the tiles of the matmuls.
constexpr int kUnfusedGradientTile = 32;

/// A matrix in global memory: its element (0, 0), the strides of a row and of a column, its sizes.
struct Elements {
  const float* first;
  std::int64_t row;
  std::int64_t column;
  int rows;
  int columns;

  /// An element, 0 outside.
  __device__ float at(int i, int j) const {
    return i < rows && j < columns ? first[i * row + j * column] : 0.0f;
  }
  /// The same elements with rows for columns.
  __device__ Elements transposed() const {
    return {first, column, row, columns, rows};
  }
};

/// Element (row, col) of A B for each thread of a block of 32 x 32, row from blockIdx.y and col
/// from blockIdx.x. All threads of the block call it.
__device__ inline float matmul_element(const Elements& a, const Elements& b) {
  constexpr int tile = kUnfusedGradientTile;
  // One column of padding: B may be read and written along columns.
  __shared__ float a_smem[tile][tile + 1], b_smem[tile][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * tile + y, col = blockIdx.x * tile + x;
  float sum = 0;
  for (int kk0 = 0; kk0 < a.columns; kk0 += tile) {
    a_smem[y][x] = a.at(row, kk0 + x);
    b_smem[y][x] = b.at(kk0 + y, col);
    __syncthreads();  // the tiles are loaded
    for (int kk = 0; kk < tile; ++kk) sum += a_smem[y][kk] * b_smem[kk][x];
    __syncthreads();  // all threads have read the tiles
  }
  return sum;
}

/// Rows of a head as a matrix, [length, head_dim].
__device__ inline Elements rows_of(const float* first,
                                   const RowStrides& strides, int length,
                                   int head_dim) {
  return {first, strides.row, 1, length, head_dim};
}

/// A head's P or dS, [length_q, length_k].
template <class T>
__device__ Elements scores_of(const Attention<T>& a, const float* scores,
                              int index) {
  return {scores + std::int64_t{index} * a.length_q * a.length_k, a.length_k,
          1, a.length_q, a.length_k};
}

/// Where this thread's element of a head's scores is, or null outside of them. See
/// matmul_element().
template <class T>
__device__ float* own_score(const Attention<T>& a, float* scores) {
  const int query = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int key = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  if (query >= a.length_q || key >= a.length_k) return nullptr;
  return scores +
         (std::int64_t{blockIdx.z} * a.length_q + query) * a.length_k + key;
}

namespace {  // several sources include these kernels

/// S = scale Q K^T.
/// @param scores [batch, heads, length_q, length_k]
__global__ void unfused_backward_scores(AttentionGradient<float> a,
                                        float* scores) {
  const int index = blockIdx.z;
  const auto h = head_of(a, index / a.heads, index % a.heads);
  const float s = matmul_element(
      rows_of(h.q, a.q_strides, a.length_q, a.head_dim),
      rows_of(h.k, a.k_strides, a.length_k, a.head_dim).transposed());
  float* const score = own_score(a, scores);
  if (score != nullptr) *score = a.scale * s;
}

/// dP = dO V^T, with 0 for dropped probabilities.
/// @param prob_gradients [batch, heads, length_q, length_k]
__global__ void unfused_prob_gradients(AttentionGradient<float> a,
                                       float* prob_gradients) {
  const int index = blockIdx.z;
  const auto h = gradient_head(a, index / a.heads, index % a.heads);
  const auto kv = head_of(a, index / a.heads, index % a.heads);
  const float d_p = matmul_element(
      rows_of(h.d_o, a.d_o_strides, a.length_q, a.head_dim),
      rows_of(kv.v, a.v_strides, a.length_k, a.head_dim).transposed());
  float* const gradient = own_score(a, prob_gradients);
  if (gradient == nullptr) return;
  *gradient =
      d_p * a.dropout.of_weight(
                index, blockIdx.y * kUnfusedGradientTile + threadIdx.y,
                blockIdx.x * kUnfusedGradientTile + threadIdx.x);
}

/// P = softmax(S) and dS = P * (dP - rowsum(P * dP)), both in place. A warp owns a row. P is stored
/// after dropout, as the forward pass multiplied it by V.
/// @param probs     [batch, heads, length_q, length_k]; scores before
/// @param gradients dS; dP before
//! [rows]
__global__ void unfused_score_gradients(AttentionGradient<float> a,
                                        float* probs, float* gradients) {
  const int query = blockIdx.x * blockDim.y + threadIdx.y, index = blockIdx.z;
  if (query >= a.length_q) return;  // the whole warp
  const std::int64_t row =
      (std::int64_t{index} * a.length_q + query) * a.length_k;
  float* const p = probs + row;
  float* const d_s = gradients + row;
  const int visible = visible_keys(a, query);
  float m = -INFINITY, l = 0, sum = 0;
  for (int j = threadIdx.x; j < visible; j += kWarp) m = fmaxf(m, p[j]);
  m = warp_max(m);
  for (int j = threadIdx.x; j < visible; j += kWarp) l += expf(p[j] - m);
  l = warp_sum(l);
  for (int j = threadIdx.x; j < visible; j += kWarp) {
    sum += expf(p[j] - m) / l * d_s[j];
  }
  sum = warp_sum(sum);
  for (int j = threadIdx.x; j < a.length_k; j += kWarp) {
    const float prob = j < visible ? expf(p[j] - m) / l : 0.0f;
    d_s[j] = prob * (d_s[j] - sum);
    p[j] = prob * a.dropout.of_weight(index, query, j);
  }
}
//! [rows]

/// dQ = scale dS K.
__global__ void unfused_d_q(AttentionGradient<float> a,
                            const float* score_gradients) {
  const int index = blockIdx.z;
  const auto h = gradient_head(a, index / a.heads, index % a.heads);
  const auto kv = head_of(a, index / a.heads, index % a.heads);
  const float d_q =
      matmul_element(scores_of(a, score_gradients, index),
                     rows_of(kv.k, a.k_strides, a.length_k, a.head_dim));
  const int query = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int col = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  if (query < a.length_q && col < a.head_dim) {
    h.d_q[query * a.d_q_strides.row + col] = a.scale * d_q;
  }
}

/// dV = P^T dO and dK = scale dS^T Q, summed over the query heads that share a key head.
__global__ void unfused_d_k_d_v(AttentionGradient<float> a,
                                const float* probs,
                                const float* score_gradients) {
  const int batch = blockIdx.z / a.kv_heads,
            kv_head = blockIdx.z % a.kv_heads;
  const int group = group_size(a);
  float d_k = 0, d_v = 0;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const auto h = gradient_head(a, batch, head);
    d_v +=
        matmul_element(scores_of(a, probs, h.index).transposed(),
                       rows_of(h.d_o, a.d_o_strides, a.length_q, a.head_dim));
    d_k += matmul_element(scores_of(a, score_gradients, h.index).transposed(),
                          rows_of(h.q, a.q_strides, a.length_q, a.head_dim));
  }
  const int key = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int col = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  if (key >= a.length_k || col >= a.head_dim) return;
  kv_rows(a.d_k, a.d_k_strides, batch,
          kv_head)[key * a.d_k_strides.row + col] = a.scale * d_k;
  kv_rows(a.d_v, a.d_v_strides, batch,
          kv_head)[key * a.d_v_strides.row + col] = d_v;
}

}  // namespace

/// Blocks of 32 x 32 that cover a [rows, columns] matrix of each head.
inline Launch matmul_launch(int rows, int columns, int heads) {
  constexpr int tile = kUnfusedGradientTile;
  return {{static_cast<unsigned>(ceil_div(columns, tile)),
           static_cast<unsigned>(ceil_div(rows, tile)),
           static_cast<unsigned>(heads)},
          {tile, tile}};
}

/// A warp for each row of the scores, 4 in a block.
inline Launch score_row_launch(const AttentionGradient<float>& a) {
  return {{static_cast<unsigned>(ceil_div(a.length_q, 4)), 1,
           static_cast<unsigned>(a.batch * a.heads)},
          {32, 4}};
}

/// Elements of the scores of all heads.
inline std::int64_t score_count(const Attention<float>& a) {
  return std::int64_t{a.batch} * a.heads * a.length_q * a.length_k;
}

/// Launches the baseline.
/// @param a      what is computed; needs no workspace
/// @param scores device memory for P and dS: 2 score_count(a)
inline void launch_backward_unfused(const AttentionGradient<float>& a,
                                    float* scores, const Stream& stream) {
  const int heads = a.batch * a.heads;
  float* const probs = scores;
  float* const gradients = scores + score_count(a);
  const Launch of_scores = matmul_launch(a.length_q, a.length_k, heads);
  launch(stream, unfused_backward_scores, of_scores, a, probs);
  launch(stream, unfused_prob_gradients, of_scores, a, gradients);
  launch(stream, unfused_score_gradients, score_row_launch(a), a, probs,
         gradients);
  launch(stream, unfused_d_q, matmul_launch(a.length_q, a.head_dim, heads), a,
         gradients);
  launch(stream, unfused_d_k_d_v,
         matmul_launch(a.length_k, a.head_dim, a.batch * a.kv_heads), a,
         probs, gradients);
}

FA_STEP_ROW(backward, 1) {
  return row("01_unfused", "a kernel for each formula", float{})
      .slow()
      .tile(kUnfusedGradientTile, kUnfusedGradientTile, 1, 1)
      .memory_is("8 N^2", [](auto n, auto) { return 8 * n * n; })
      // Five matmuls read T tiles of both operands for each tile; the kernel
      // for rows reads S four times and dP twice, and writes both.
      .reads("10 T N D + 6 N^2",
             [](auto n, auto d) {
               return 10 * (n / kUnfusedGradientTile) * n * d + 6 * n * n;
             })
      .writes("4 N^2 + 3 N D",
              [](auto n, auto d) { return 4 * n * n + 3 * n * d; })
      .floats([](const auto& a, auto) { return 2 * score_count(a); })
      .launch([](auto& a, auto, auto& stream, float* scores) {
        launch_backward_unfused(a, scores, stream);
      });
}

}  // namespace fa::FA_TARGET
