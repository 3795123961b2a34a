/// @file
/// Both products of attention in one kernel, without the softmax between them: O = (scale Q K^T) V. A tile
/// of scores is computed, used and forgotten; it never leaves the chip. Lesson 05 puts the softmax in.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Queries, and keys, of a tile of back_to_back_matmul().
constexpr int kBackToBackTile = 32;

/// O = scale Q K^T V of one head in float32, without a softmax. Launch: blocks of 32 x 8; ceil(length_q / 32) blocks.
/// @tparam d head_dim, a multiple of 32
/// @param q [length_q, d]
/// @param k [length_k, d]
/// @param v [length_k, d]
/// @param o [length_q, d]
/// @param length_q queries
/// @param length_k keys
/// @param scale    factor of the scores
//! [back_to_back_matmul]
template <int d>
__global__ void back_to_back_matmul(const float* q, const float* k,
                                    const float* v, float* o, int length_q,
                                    int length_k, float scale) {
  constexpr int tile = kBackToBackTile, rows = tile / 8, cols = d / 32;
  __shared__ float q_smem[tile][d], k_smem[tile][d + 1], v_smem[tile][d];
  __shared__ float s_smem[tile][tile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row0 = blockIdx.x * tile;
  const auto load = [&](const float* from, int first, int length, int row,
                        int col) {
    return first + row < length ? from[std::int64_t{first + row} * d + col]
                                : 0.0f;
  };
  for (int row = y; row < tile; row += 8) {
    for (int col = x; col < d; col += 32) {
      q_smem[row][col] = load(q, row0, length_q, row, col);
    }
  }
  float out[rows][cols] = {};
  for (int key0 = 0; key0 < length_k; key0 += tile) {
    for (int row = y; row < tile; row += 8) {
      for (int col = x; col < d; col += 32) {
        k_smem[row][col] = load(k, key0, length_k, row, col);
        v_smem[row][col] = load(v, key0, length_k, row, col);
      }
    }
    __syncthreads();                  // the tiles are there
    for (int r = 0; r < rows; ++r) {  // S = scale Q K^T
      float sum = 0;
      for (int l = 0; l < d; ++l) sum += q_smem[8 * r + y][l] * k_smem[x][l];
      s_smem[8 * r + y][x] = scale * sum;
    }
    __syncthreads();                  // the tile of scores is there
    for (int r = 0; r < rows; ++r) {  // O += S V
      for (int j = 0; j < tile; ++j) {
        const float s = s_smem[8 * r + y][j];
#pragma unroll
        for (int c = 0; c < cols; ++c) {
          out[r][c] += s * v_smem[j][32 * c + x];
        }
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) {
      const int row = row0 + 8 * r + y;
      if (row < length_q) o[std::int64_t{row} * d + 32 * c + x] = out[r][c];
    }
  }
}
//! [back_to_back_matmul]

}  // namespace fa::FA_TARGET
