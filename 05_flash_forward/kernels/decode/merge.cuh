/// @file
/// Merges O and LSE of two disjoint sets of keys: lesson 03's merge, of results that are complete. With
/// it a prefix that sequences share is read once for all of them.
#pragma once

#include "05_flash_forward/kernels/decode/split_state.cuh"

namespace fa::FA_TARGET {

/// O and LSE of the same queries for other keys.
template <class T>
struct OtherKeys {
  const T* o;        ///< [batch, heads, length_q, head_dim]
  const float* lse;  ///< [batch, heads, length_q]
  RowStrides o_strides;
  RowStrides lse_strides;
};

/// Makes of a's O and LSE those of both sets of keys; a warp has a row. A set of which the row sees no
/// key has an LSE of -infinity, and what its O holds does not matter.
template <class T>
__global__ void __launch_bounds__(kSplitThreads)
    merge_outputs(Attention<T> a, OtherKeys<T> other, std::int64_t rows) {
  const std::int64_t row =
      std::int64_t{blockIdx.x} * (kSplitThreads / kWarp) +
      threadIdx.x / kWarp;
  if (row >= rows) return;
  const auto at = [&](const RowStrides& strides) {
    return row / a.length_q / a.heads * strides.batch +
           row / a.length_q % a.heads * strides.head +
           row % a.length_q * strides.row;
  };
  const float lse = a.lse[row], other_lse = other.lse[at(other.lse_strides)];
  const float m = fmaxf(lse, other_lse);
  const float l = exp_diff(lse, m) + exp_diff(other_lse, m);
  const auto share = [&](float x) { return l == 0 ? 0 : exp_diff(x, m) / l; };
  const float factor = share(lse), other_factor = share(other_lse);
  T* const o = a.o + at(a.o_strides);
  const T* const other_o = other.o + at(other.o_strides);
  for (int col = 2 * (threadIdx.x % kWarp); col < a.head_dim;
       col += 2 * kWarp) {
    float sum[2];
    for (int e = 0; e < 2; ++e) {  // not 0 x NaN
      sum[e] = factor == 0 ? 0 : factor * to_float(o[col + e]);
      if (other_factor != 0) {
        sum[e] += other_factor * to_float(other_o[col + e]);
      }
    }
    store_pair(o + col, pack2<T>(sum[0], sum[1]));
  }
  __syncwarp();  // all lanes have read LSE
  if (threadIdx.x % kWarp == 0) a.lse[row] = log_sum(m, l);
}

/// Launches the kernel.
template <class T>
void launch_merge_outputs(const Attention<T>& a, const OtherKeys<T>& other,
                          const Stream& stream) {
  const std::int64_t rows = all_rows(a);
  const auto blocks = ceil_div<std::int64_t>(rows, kSplitThreads / kWarp);
  launch(stream, merge_outputs<T>,
         {static_cast<unsigned>(blocks), {kSplitThreads}}, a, other, rows);
}

}  // namespace fa::FA_TARGET
