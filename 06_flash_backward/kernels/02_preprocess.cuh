/// @file
/// One sum for each row before the backward pass begins: delta, the row sum of dO * O, which equals
/// the row sum of P * dP but needs neither. With delta and LSE every element of P and dS can be
/// computed by itself: the baseline's passes over whole rows vanish, and dP is never written. One
/// row sum remains in float32: dividing by it takes the rounding error of LSE out of P.
///
/// Source: Dao, FlashAttention-2, ICLR 2024, algorithm 2.
#pragma once

#include "06_flash_backward/kernels/01_unfused.cuh"
#include "06_flash_backward/kernels/preprocess.cuh"

namespace fa::FA_TARGET {

namespace {  // several sources include these kernels

/// P = exp(scale Q K^T - LSE).
/// @param probs [batch, heads, length_q, length_k]
__global__ void probs_by_element(AttentionGradient<float> a, float* probs) {
  const int index = blockIdx.z;
  const auto h = head_of(a, index / a.heads, index % a.heads);
  const float s = matmul_element(
      rows_of(h.q, a.q_strides, a.length_q, a.head_dim),
      rows_of(h.k, a.k_strides, a.length_k, a.head_dim).transposed());
  float* const prob = own_score(a, probs);
  if (prob == nullptr) return;
  const int query = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int key = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  *prob =
      key < visible_keys(a, query) ? expf(a.scale * s - h.lse[query]) : 0.0f;
}

/// inv_row_sum = 1 / rowsum(P). LSE was rounded to float32, and it belongs to scores with other
/// rounding errors than these. So all elements of a row of P are off by a common factor, and so is
/// their sum. A warp owns a row.
/// @param probs [batch, heads, length_q, length_k]
__global__ void stored_row_sums(AttentionGradient<float> a,
                                const float* probs) {
  const int query = blockIdx.x * blockDim.y + threadIdx.y, index = blockIdx.z;
  if (query >= a.length_q) return;  // the whole warp
  const float* const row =
      probs + (std::int64_t{index} * a.length_q + query) * a.length_k;
  const int visible = visible_keys(a, query);
  float sum = 0;
  for (int j = threadIdx.x; j < visible; j += kWarp) sum += row[j];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) {
    const auto h = gradient_head(a, index / a.heads, index % a.heads);
    a.inv_row_sum[h.padded_row + query] = sum == 0 ? 0 : 1 / sum;
  }
}

/// dS = P * (dO V^T - delta), elementwise. P is stored after dropout, as the forward pass
/// multiplied it by V.
/// @param probs     [batch, heads, length_q, length_k]
/// @param gradients dS, likewise
__global__ void score_gradients_by_element(AttentionGradient<float> a,
                                           float* probs, float* gradients) {
  const int index = blockIdx.z;
  const auto h = gradient_head(a, index / a.heads, index % a.heads);
  const auto kv = head_of(a, index / a.heads, index % a.heads);
  const float d_p = matmul_element(
      rows_of(h.d_o, a.d_o_strides, a.length_q, a.head_dim),
      rows_of(kv.v, a.v_strides, a.length_k, a.head_dim).transposed());
  float* const prob = own_score(a, probs);
  if (prob == nullptr) return;
  const int query = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int key = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  //! [element]
  const float kept = a.dropout.of_weight(index, query, key);
  const std::int64_t row = h.padded_row + query;
  const float p = *prob * a.inv_row_sum[row];
  *own_score(a, gradients) = p * (kept * d_p - a.delta[row]);
  *prob = p * kept;
  //! [element]
}

}  // namespace

/// Launches the step.
/// @param a      with a Workspace{0}
/// @param scores device memory for P and dS: 2 score_count(a)
template <int d>
void launch_backward_preprocess(const AttentionGradient<float>& a,
                                float* scores, const Stream& stream) {
  const int heads = a.batch * a.heads;
  float* const probs = scores;
  float* const gradients = scores + score_count(a);
  const Launch of_scores = matmul_launch(a.length_q, a.length_k, heads);
  launch(stream, preprocess<d>, preprocess_launch<d>(a), a);
  launch(stream, probs_by_element, of_scores, a, probs);
  launch(stream, stored_row_sums, score_row_launch(a), a, probs);
  launch(stream, score_gradients_by_element, of_scores, a, probs, gradients);
  launch(stream, unfused_d_q, matmul_launch(a.length_q, a.head_dim, heads), a,
         gradients);
  launch(stream, unfused_d_k_d_v,
         matmul_launch(a.length_k, a.head_dim, a.batch * a.kv_heads), a,
         probs, gradients);
}

FA_STEP_ROW(backward, 2) {
  return row("02_preprocess", "LSE and delta, one sum of each row", float{})
      .slow()
      .head_dims(HeadDims<32, 64, 128, 256>{})
      .tile(kUnfusedGradientTile, kUnfusedGradientTile, 1, 1)
      .memory_is("8 N^2 + 8 N",
                 [](auto n, auto) { return 8 * n * n + 8 * n; })
      // O and dO for delta; of each element of P its row's LSE, sum and delta,
      // and P twice. P is written twice, dS, delta and the sums once.
      .reads("10 T N D + 5 N^2 + 2 N D",
             [](auto n, auto d) {
               return 10 * (n / kUnfusedGradientTile) * n * d + 5 * n * n +
                      2 * n * d;
             })
      .writes("3 N^2 + 3 N D + R + N",
              [](auto n, auto d) {
                return 3 * n * n + 3 * n * d + n +
                       ceil_div<decltype(n)>(n, kPaddedRows) * kPaddedRows;
              })
      .workspace([](auto&, auto) { return Workspace{0}; })
      .floats([](const auto& a, auto) { return 2 * score_count(a); })
      .launch([](auto& a, auto d, auto& stream, float* scores) {
        launch_backward_preprocess<d>(a, scores, stream);
      });
}

}  // namespace fa::FA_TARGET
