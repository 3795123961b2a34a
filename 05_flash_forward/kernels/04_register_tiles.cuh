/// @file
/// float32 as fast as its arithmetic allows. A warp owns 32 queries; each lane computes 8 x 8 scores and 8 rows of a
/// part of O, so that a loaded number serves eight multiplications. Weights go to the second product through shared
/// memory that only their own warp touches. Tiles of K and V are copied while the other of the two is used.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Sizes of flash_register_tiles().
/// @tparam head_dim columns: 32, 64, 128 or 256
/// @tparam small    for GPUs whose blocks have less shared memory: at most 99 KiB
template <int head_dim, bool small = false>
struct FloatTile {
  static constexpr int d = head_dim;  ///< columns
  static constexpr int rows =
      d == 256 || small ? 4 : 8;  ///< queries of a lane
  static constexpr int keys = !small     ? 8
                              : d == 256 ? 2
                              : d == 128 ? 4
                                         : 8;              ///< keys of a lane
  static constexpr int warps = small && d == 256 ? 2 : 4;  ///< of a block
  static constexpr int threads = 32 * warps;               ///< of a block
  static constexpr int warp_rows = 4 * rows;         ///< queries of a warp
  static constexpr int block_m = warps * warp_rows;  ///< queries of a block
  static constexpr int block_n = 8 * keys;           ///< keys of a tile
  static constexpr int ld = d + 4;                   ///< of Q, K and V
  static constexpr int p_ld = block_n + 8;           ///< of the weights
  static constexpr int q_size = block_m * ld;        ///< elements
  static constexpr int kv_size = block_n * ld;       ///< elements of K or V
  static constexpr int p_size = block_m * p_ld;      ///< elements
  /// Dynamic shared memory.
  static constexpr std::size_t shared_bytes =
      sizeof(float) * (q_size + 2 * kv_size + p_size);
};

/// Begins to copy rows of a matrix to a tile, with zeros outside of the matrix.
template <int rows, int d, int ld, int threads>
__device__ void copy_float_rows(float* tile, const float* matrix,
                                std::int64_t stride, int row0, int length,
                                int head_dim, int thread) {
  constexpr int per_row = d / 4, at_once = threads / per_row;
  static_assert(threads % per_row == 0 && rows % at_once == 0,
                "as many for each thread");
  const int row = thread / per_row, col = thread % per_row * 4;
  const float* from = matrix + (row0 + row) * stride + col;
#pragma unroll
  for (int i = 0; i < rows; i += at_once) {
    cp_async16(tile + (row + i) * ld + col, from + i * stride,
               row0 + row + i < length && col < head_dim);
  }
}

/// The sum over the eight lanes that share rows, given to each of them; bits 0, 2 and 3 of their numbers differ.
__device__ inline float sum_of_row(float value) {
  for (const int distance : {1, 4, 8}) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
/// The largest value of the lanes that share rows.
__device__ inline float max_of_row(float value) {
  for (const int distance : {1, 4, 8}) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// Attention in float32; a warp has 32 queries (16 with 256 columns), a lane 8 x 8 of its scores.
/// Launch: blocks of Tile::threads; grid of ceil(length_q / block_m) x heads x batch; Tile::shared_bytes.
/// @tparam Tile  a FloatTile
/// @tparam drops whether weights are dropped
//! [register_tiles]
template <class Tile, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, Tile::d <= 64 ? 2 : 1)
    flash_register_tiles(Attention<float> a) {
  constexpr int d = Tile::d;
  constexpr int rows = Tile::rows, keys = Tile::keys, fours = d / 32;
  float* const q_smem = dynamic_shared<float>();
  float* const k_smem = q_smem + Tile::q_size;
  float* const v_smem = k_smem + Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  // Bits 1 and 4 of a lane's number are its row, the others its column: pairs
  // of lanes share each load, which then takes two wavefronts.
  const int y = lane / 2 % 2 + lane / 16 * 2;
  const int x = lane % 2 + lane / 4 % 4 * 2;
  float* const p_smem =
      v_smem + Tile::kv_size + (warp_row + y) * Tile::p_ld;  // from row y
  const int block = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int query0 = block * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const int tiles =
      ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const int whole = visible_keys(a, query0) / Tile::block_n;  // seen by all
  const float exponent_scale = a.scale * kLog2E;
  const auto fetch = [&](float* tile, const float* matrix,
                         std::int64_t stride, int number) {
    copy_float_rows<Tile::block_n, d, Tile::ld, Tile::threads>(
        tile, matrix, stride, number * Tile::block_n, a.length_k, a.head_dim,
        thread);
    cp_async_commit();
  };
  if (tiles > 0) {
    copy_float_rows<Tile::block_m, d, Tile::ld, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    fetch(k_smem, head.k, a.k_strides.row, 0);
    fetch(v_smem, head.v, a.v_strides.row, 0);
  }
  float o[rows][4 * fours] = {}, m[rows], l[rows] = {};
#pragma unroll
  for (int i = 0; i < rows; ++i) m[i] = -INFINITY;
  for (int tile = 0; tile < tiles; ++tile) {
    const int key0 = tile * Tile::block_n;
    cp_async_wait<1>();
    __syncthreads();  // K is there
    float s[rows][keys] = {};
#pragma unroll 1
    for (int e = 0; e < d; e += 4) {  // S = Q K^T
      float4 q[rows];
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        q[i] = load4(q_smem + (warp_row + y + 4 * i) * Tile::ld + e);
      }
#pragma unroll
      for (int j = 0; j < keys; ++j) {
        const float4 k = load4(k_smem + (x + 8 * j) * Tile::ld + e);
#pragma unroll
        for (int i = 0; i < rows; ++i) {
          if constexpr (d <= 64) {
            s[i][j] += q[i].x * k.x;
            s[i][j] += q[i].y * k.y;
            s[i][j] += q[i].z * k.z;
            s[i][j] += q[i].w * k.w;
          } else {  // one more addition, and smaller rounding errors
            s[i][j] +=
                q[i].x * k.x + q[i].y * k.y + q[i].z * k.z + q[i].w * k.w;
          }
        }
      }
    }
    __syncthreads();  // nobody needs K any more
    if (tile + 1 < tiles) fetch(k_smem, head.k, a.k_strides.row, tile + 1);
    if (tile + 1 == tiles)
      cp_async_commit();  // an empty group keeps the count
    bool changed = false;
    float rescale[rows];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int query = query0 + warp_row + y + 4 * i;
      const int seen =
          tile < whole ? Tile::block_n : visible_keys(a, query) - key0;
      float largest = m[i];
#pragma unroll
      for (int j = 0; j < keys; ++j) {
        if (x + 8 * j >= seen) s[i][j] = -INFINITY;
        largest = fmaxf(largest, s[i][j]);
      }
      largest = max_of_row(largest);
      // -infinity - -infinity is no number: take 0 for the maximum of nothing
      const float offset =
          largest == -INFINITY ? 0.0f : __fmul_rn(largest, exponent_scale);
      // Both products are rounded: a maximum that stays is corrected by 1.
      rescale[i] = exp2_approx(__fmul_rn(m[i], exponent_scale) - offset);
      changed = changed || rescale[i] != 1;
      m[i] = largest;
      l[i] *= rescale[i];
#pragma unroll
      for (int j = 0; j < keys; ++j) {
        const float p = exp2_approx(s[i][j] * exponent_scale - offset);
        l[i] += p;
        float kept = p;
        if constexpr (has_dropout) {
          kept *= a.dropout.of_weight(head.index, query, key0 + x + 8 * j);
        }
        p_smem[4 * i * Tile::p_ld + x + 8 * j] = kept;
      }
    }
    if (__any_sync(kAllLanes, changed)) {
#pragma unroll
      for (int i = 0; i < rows; ++i) {
#pragma unroll
        for (int e = 0; e < 4 * fours; ++e) o[i][e] *= rescale[i];
      }
    }
    cp_async_wait<1>();
    __syncthreads();  // V is there, and so are the weights of this warp
#pragma unroll 1
    for (int key = 0; key < Tile::block_n; key += 4) {  // O += P V
      float p[rows][4];
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const float4 four = load4(p_smem + 4 * i * Tile::p_ld + key);
        p[i][0] = four.x;
        p[i][1] = four.y;
        p[i][2] = four.z;
        p[i][3] = four.w;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int c = 0; c < fours; ++c) {
          const float4 v =
              load4(v_smem + (key + j) * Tile::ld + 32 * c + 4 * x);
#pragma unroll
          for (int i = 0; i < rows; ++i) {
            o[i][4 * c] += p[i][j] * v.x;
            o[i][4 * c + 1] += p[i][j] * v.y;
            o[i][4 * c + 2] += p[i][j] * v.z;
            o[i][4 * c + 3] += p[i][j] * v.w;
          }
        }
      }
    }
    __syncthreads();  // nobody needs V any more
    if (tile + 1 < tiles) fetch(v_smem, head.v, a.v_strides.row, tile + 1);
    if (tile + 1 == tiles) cp_async_commit();
  }
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const float sum = sum_of_row(l[i]);
    const int query = query0 + warp_row + y + 4 * i;
    if (query >= a.length_q) continue;
    const float factor = sum == 0 ? 0 : 1 / sum;
    float* row = head.o + query * a.o_strides.row;
#pragma unroll
    for (int c = 0; c < fours; ++c) {
      const int col = 32 * c + 4 * x;
      if (col < a.head_dim) {
        store4(
            row + col,
            make_float4(factor * o[i][4 * c], factor * o[i][4 * c + 1],
                        factor * o[i][4 * c + 2], factor * o[i][4 * c + 3]));
      }
    }
    if (x == 0) head.lse[query] = log_sum(m[i] * a.scale, sum);
  }
}
//! [register_tiles]

}  // namespace fa::FA_TARGET
