/// @file
/// V transposed, for wgmma with operands of 8 bits: it sums over neighbours in memory of both
/// operands, and P V sums over keys. A kernel writes V^T before attention begins.
#pragma once

#include "05_flash_forward/kernels/persistent.cuh"

namespace fa::FA_TARGET {

/// Attention with Q, K and V of e4m3, of which each head has a scale, and O in bfloat16. The strides
/// are those of these tensors; the pointers q, k and v of the base are not used.
struct Fp8Attention : Attention<bfloat16> {
  const e4m3* q8;  ///< [batch, heads, length_q, head_dim], and so on
  const e4m3* k8;
  const e4m3* v8;
  // [batch, kv_heads]; those of Q are shared by the heads of a group.
  const float* q_descale;
  const float* k_descale;
  const float* v_descale;
  e4m3* v_transposed;  ///< workspace, transposed_size() elements
};

/// Keys that V^T has: a multiple of 16, zeros behind the last key.
inline int transposed_keys(const Fp8Attention& a) {
  return ceil_div(a.length_k, 16) * 16;
}
/// Elements of V^T, [batch, kv_heads, head_dim, transposed_keys()].
inline std::int64_t transposed_size(const Fp8Attention& a) {
  return std::int64_t{a.batch} * a.kv_heads * a.head_dim * transposed_keys(a);
}

/// Which key of each 16 stands at a place of V^T. Of P, an accumulator of wgmma, a lane has keys 2 t,
/// 2 t + 1, 2 t + 8 and 2 t + 9 in a row, t = lane % 4. As a left operand of 8 bits its four bytes
/// must be neighbours, 4 t to 4 t + 3. A matmul may sum in any order: P keeps its bytes where they
/// are, and V^T has the keys in their order.
//! [key_at]
__host__ __device__ constexpr int key_at(int place) {
  return place / 4 * 2 + place / 2 % 2 * 8 + place % 2;
}
//! [key_at]

/// Writes V^T. A thread transposes 16 keys and columns in registers: all loads and stores are of 16
/// bytes.
/// @tparam A   Fp8Attention
/// @param keys transposed_keys()
template <class A>
__global__ void __launch_bounds__(kWarpgroup)
    transpose_v(const A a, const int keys) {
  launch_dependents();
  const int pieces = a.head_dim / 16;
  const int index = blockIdx.x * kWarpgroup + threadIdx.x;
  const int column = index % pieces * 16, key0 = index / pieces * 16;
  if (key0 >= keys) return;
  const std::int64_t head = blockIdx.y, batch = blockIdx.z;
  const e4m3* const from =
      a.v8 + batch * a.v_strides.batch + head * a.v_strides.head + column;
  std::uint32_t rows[16][4] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int key = key0 + key_at(i);
    if (key >= a.length_k) continue;
    const float4 row = load4(from + key * a.v_strides.row);
    memcpy(rows[i], &row, sizeof row);
  }
  e4m3* const to =
      a.v_transposed +
      ((batch * a.kv_heads + head) * a.head_dim + column) * keys + key0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    std::uint32_t places[4] = {};
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const std::uint32_t byte = rows[j][i / 4] >> i % 4 * 8 & 0xff;
      places[j / 4] |= byte << j % 4 * 8;
    }
    store4(to + std::int64_t{i} * keys, as_float4(places));
  }
}

/// Launches it.
/// @param a with a head_dim that is a multiple of 16
inline void launch_transpose_v(const Fp8Attention& a, const Stream& stream) {
  const int keys = transposed_keys(a);
  const int threads = keys / 16 * (a.head_dim / 16);
  launch(stream, transpose_v<Fp8Attention>,
         {{static_cast<unsigned>(ceil_div(threads, kWarpgroup)),
           static_cast<unsigned>(a.kv_heads), static_cast<unsigned>(a.batch)},
          {kWarpgroup}},
         a, keys);
}

/// The TMA map of V^T.
struct TransposedMap {
  TensorMap map;
};

/// Loads columns of V^T from a key on as a tile.
template <class Tile>
__device__ void load_tile(Tile& tile, const TransposedMap& v,
                          Mbarrier& barrier, int key0, int kv_head, int batch,
                          CacheHint hint) {
  load_tile(tile, v.map, barrier, 0, kv_head, batch, hint, key0);
}

}  // namespace fa::FA_TARGET
