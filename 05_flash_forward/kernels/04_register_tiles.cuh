/// @file
/// Register blocking for float32. A warp owns 32 queries; each lane computes 8 x 8 scores and 8
/// rows of a part of O, so that each loaded element serves eight multiplications. P goes to the
/// second matmul through shared memory that only its own warp uses. K is copied during P V, V
/// during Q K^T.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Tile sizes of flash_register_tiles().
/// @tparam head_dim columns: 32, 64, 128 or 256
/// @tparam small    for GPUs whose blocks have at most 99 KiB of shared memory
template <int head_dim, bool small = false>
struct FloatTile {
  static constexpr int d = head_dim;
  // Queries and keys of a lane.
  static constexpr int rows = d == 256 || small ? 4 : 8;
  static constexpr int keys = !small ? 8 : d == 256 ? 2 : d == 128 ? 4 : 8;
  static constexpr int warps = small && d == 256 ? 2 : 4;
  static constexpr int threads = 32 * warps;
  static constexpr int warp_rows = 4 * rows;  // queries of a warp
  static constexpr int block_m = warps * warp_rows;
  static constexpr int block_n = 8 * keys;
  // Row strides of Q, K and V, and of P: padded against bank conflicts.
  static constexpr int ld = d + 4;
  static constexpr int p_ld = block_n + 8;
  // Elements of the tiles in shared memory.
  static constexpr int q_size = block_m * ld;
  static constexpr int kv_size = block_n * ld;
  static constexpr int p_size = block_m * p_ld;
  static constexpr std::size_t shared_bytes =
      sizeof(float) * (q_size + 2 * kv_size + p_size);
};

/// Issues copies of rows of a matrix to a tile, with zeros outside of the matrix.
template <int rows, int d, int ld, int threads>
__device__ void copy_float_rows(float* tile, const float* matrix,
                                std::int64_t stride, int row0, int length,
                                int head_dim, int thread) {
  constexpr int per_row = d / 4, at_once = threads / per_row;
  static_assert(threads % per_row == 0 && rows % at_once == 0,
                "all threads copy the same number of pieces");
  const int row = thread / per_row, col = thread % per_row * 4;
  const float* from = matrix + (row0 + row) * stride + col;
#pragma unroll
  for (int i = 0; i < rows; i += at_once) {
    cp_async16(tile + (row + i) * ld + col, from + i * stride,
               row0 + row + i < length && col < head_dim);
  }
}

/// The sum over the eight lanes that share rows, in each of them; bits 0, 2 and 3 of their indices
/// differ.
__device__ inline float sum_of_row(float value) {
  for (const int distance : {1, 4, 8}) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
/// The largest value of these lanes.
__device__ inline float max_of_row(float value) {
  for (const int distance : {1, 4, 8}) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// Attention in float32. A warp processes Tile::warp_rows queries, a lane rows x keys of its
/// scores.
/// @tparam Tile a FloatTile
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
  // Bits 1 and 4 of the lane's index are its row, the others its column:
  // pairs of lanes share each load, which then takes two wavefronts.
  const int y = lane / 2 % 2 + lane / 16 * 2;
  const int x = lane % 2 + lane / 4 % 4 * 2;
  float* const p_smem =
      v_smem + Tile::kv_size + (warp_row + y) * Tile::p_ld;  // its row y
  const int block = longest_first_m_block(a);
  const int query0 = block * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const int tiles =
      ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  const float exponent_scale = a.scale * kLog2E;
  const auto load = [&](float* tile, const float* matrix, std::int64_t stride,
                        int index) {
    copy_float_rows<Tile::block_n, d, Tile::ld, Tile::threads>(
        tile, matrix, stride, index * Tile::block_n, a.length_k, a.head_dim,
        thread);
    cp_async_commit();
  };
  if (tiles > 0) {
    copy_float_rows<Tile::block_m, d, Tile::ld, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    load(k_smem, head.k, a.k_strides.row, 0);
    load(v_smem, head.v, a.v_strides.row, 0);
  }
  float o[rows][4 * fours] = {}, m[rows], l[rows] = {};
#pragma unroll
  for (int i = 0; i < rows; ++i) m[i] = -INFINITY;
  for (int tile = 0; tile < tiles; ++tile) {
    const int key0 = tile * Tile::block_n;
    cp_async_wait<1>();
    __syncthreads();  // K has arrived
    //! [scores]
    float s[rows][keys] = {};
    // S = Q K^T
#pragma unroll 1
    for (int kk = 0; kk < d; kk += 4) {
      float4 q[rows];
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        q[i] = load4(q_smem + (warp_row + y + 4 * i) * Tile::ld + kk);
      }
#pragma unroll
      for (int j = 0; j < keys; ++j) {
        const float4 k = load4(k_smem + (x + 8 * j) * Tile::ld + kk);
#pragma unroll
        for (int i = 0; i < rows; ++i) {
          if constexpr (d <= 64) {
            s[i][j] += q[i].x * k.x;
            s[i][j] += q[i].y * k.y;
            s[i][j] += q[i].z * k.z;
            s[i][j] += q[i].w * k.w;
          } else {  // wide heads: short chains round less
            s[i][j] +=
                q[i].x * k.x + q[i].y * k.y + q[i].z * k.z + q[i].w * k.w;
          }
        }
      }
    }
    //! [scores]
    __syncthreads();  // all warps are done with K
    if (tile + 1 < tiles) load(k_smem, head.k, a.k_strides.row, tile + 1);
    if (tile + 1 == tiles)
      cp_async_commit();  // an empty group keeps the count
    bool changed = false;
    float rescale[rows];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int query = query0 + warp_row + y + 4 * i;
      const int visible = tile < unmasked_tiles
                              ? Tile::block_n
                              : visible_keys(a, query) - key0;
      float m_new = m[i];
#pragma unroll
      for (int j = 0; j < keys; ++j) {
        if (x + 8 * j >= visible) s[i][j] = -INFINITY;
        m_new = fmaxf(m_new, s[i][j]);
      }
      m_new = max_of_row(m_new);
      // P = exp2(exponent_scale (S - m)). With all keys masked m is
      // -infinity, and -infinity - -infinity would be NaN: subtract 0.
      const float offset =
          m_new == -INFINITY ? 0.0f : __fmul_rn(m_new, exponent_scale);
      // Both products are rounded: where m stays, the rescale factor is 1.
      rescale[i] = exp2_approx(__fmul_rn(m[i], exponent_scale) - offset);
      changed = changed || rescale[i] != 1;
      m[i] = m_new;
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
    __syncthreads();  // V has arrived, and this warp has written P
                      // O += P V
#pragma unroll 1
    for (int key = 0; key < Tile::block_n; key += 4) {
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
    __syncthreads();  // all warps are done with V
    if (tile + 1 < tiles) load(v_smem, head.v, a.v_strides.row, tile + 1);
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

/// Launches the kernel with a block for each tile of queries.
/// @tparam Tile FloatTile with at least head_dim columns
template <class Tile>
void launch_register_tiles(const Attention<float>& a, const Stream& stream) {
  const auto kernel = a.dropout.threshold > 0
                          ? flash_register_tiles<Tile, true>
                          : flash_register_tiles<Tile, false>;
  launch(stream, kernel,
         {grid_of(a, Tile::block_m), Tile::threads, Tile::shared_bytes}, a);
}

FA_LAUNCH_FLOAT(forward_float, Attention, (const Stream&),
                launch_register_tiles, (FloatTile<32>), (FloatTile<64>),
                (FloatTile<128>), (FloatTile<256>), (FloatTile<64, true>),
                (FloatTile<128, true>), (FloatTile<256, true>));

FA_STEP_ROW(forward, 4) {
  return row("04_register_tiles", "8 x 8 scores per lane", float{})
      .needs(kNeedsCpAsync)
      .head_dims(HeadDims<32, 64, 128, 256>{})
      .over_keys(FloatTile<64>{}, 1)
      .over_keys(FloatTile<256>{}, 1)
      .shared_bytes(
          [](auto d) { return FloatTile<d, (d > 32)>::shared_bytes; })
      .launch([](auto& a, auto d, auto& stream) {
        if (FloatTile<d>::shared_bytes <= device_properties().shared_bytes) {
          launch_register_tiles<FloatTile<d>>(a, stream);
        } else {
          launch_register_tiles<FloatTile<d, (d > 32)>>(a, stream);
        }
      });
}

}  // namespace fa::FA_TARGET
