/// @file
/// Both matmuls of attention in one kernel, without the softmax between them: O = (scale Q K^T) V.
/// A tile of scores is computed, used and discarded; it never leaves the SM. Lesson 05 adds the
/// softmax.
#pragma once

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// Queries, and keys, of a tile of back_to_back_matmul().
constexpr int kBackToBackTile = 32;

/// O = scale Q K^T V of one head in float32, without a softmax.
/// @tparam head_dim a multiple of 32
/// @param q         [length_q, head_dim]
/// @param k         [length_k, head_dim]
/// @param v         [length_k, head_dim]
/// @param o         [length_q, head_dim]
template <int head_dim>
__global__ void back_to_back_matmul(const float* q, const float* k,
                                    const float* v, float* o, int length_q,
                                    int length_k, float scale) {
  constexpr int tile = kBackToBackTile;
  constexpr int thread_m = tile / 8, thread_n = head_dim / 32;
  __shared__ float q_smem[tile][head_dim];
  __shared__ float k_smem[tile][head_dim + 1], v_smem[tile][head_dim];
  __shared__ float s_smem[tile][tile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row0 = blockIdx.x * tile;
  const auto load = [&](const float* from, int first, int length, int row,
                        int col) {
    return first + row < length
               ? from[std::int64_t{first + row} * head_dim + col]
               : 0.0f;
  };
  for (int row = y; row < tile; row += 8) {
    for (int col = x; col < head_dim; col += 32) {
      q_smem[row][col] = load(q, row0, length_q, row, col);
    }
  }
  float acc[thread_m][thread_n] = {};
  for (int key0 = 0; key0 < length_k; key0 += tile) {
    for (int row = y; row < tile; row += 8) {
      for (int col = x; col < head_dim; col += 32) {
        k_smem[row][col] = load(k, key0, length_k, row, col);
        v_smem[row][col] = load(v, key0, length_k, row, col);
      }
    }
    __syncthreads();  // the tiles are complete
    //! [two_matmuls]
    for (int i = 0; i < thread_m; ++i) {  // S = scale Q K^T
      float s = 0;
      for (int kk = 0; kk < head_dim; ++kk) {
        s += q_smem[8 * i + y][kk] * k_smem[x][kk];
      }
      s_smem[8 * i + y][x] = scale * s;
    }
    __syncthreads();                      // the tile of scores is complete
    for (int i = 0; i < thread_m; ++i) {  // O += S V
      for (int key = 0; key < tile; ++key) {
        const float s = s_smem[8 * i + y][key];
#pragma unroll
        for (int j = 0; j < thread_n; ++j) {
          acc[i][j] += s * v_smem[key][32 * j + x];
        }
      }
    }
    //! [two_matmuls]
    __syncthreads();  // all threads are done with the tiles
  }
  for (int i = 0; i < thread_m; ++i) {
    for (int j = 0; j < thread_n; ++j) {
      const int row = row0 + 8 * i + y;
      if (row < length_q) {
        o[std::int64_t{row} * head_dim + 32 * j + x] = acc[i][j];
      }
    }
  }
}

/// Launches back_to_back_matmul() for a head_dim of 64: a block for each tile of queries.
inline void launch_back_to_back_matmul(const float* q, const float* k,
                                       const float* v, float* o, int length_q,
                                       int length_k) {
  const Size block(32, 8);
  const Size grid(ceil_div(length_q, kBackToBackTile));
  const float scale = 0.125f;  // 1 / sqrt(head_dim)
  launch(back_to_back_matmul<64>, {grid, block}, q, k, v, o, length_q,
         length_k, scale);
}

FA_STEP_ROW(tiled, 18) {
  return row("18_back_to_back_matmul", "both matmuls, scores never stored")
      .tile(kBackToBackTile, kBackToBackTile)
      .two_matmuls(launch_back_to_back_matmul);
}

}  // namespace fa::FA_TARGET
