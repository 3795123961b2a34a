/// @file
/// Split-KV (Flash-Decoding): with one query for each head there are too few blocks for a GPU, so
/// the keys are divided among blocks, too. Each block leaves the softmax state of its part, and a
/// second kernel merges the parts of each row.
///
/// Source: Dao, Haziza, Massa, Sizov, Flash-Decoding for long-context inference, 2023; the merge:
/// Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, section 3.1.
#pragma once

#include <algorithm>

#include "05_flash_forward/kernels/decode/split_state.cuh"

namespace fa::FA_TARGET {

/// Keys of a part, at least: for fewer the merge costs more than the part.
constexpr int kLeastKeys = 128;

/// 16 bytes of a row as floats.
template <class T>
__device__ void load_eight(float (&to)[8], const T* from) {
  static_assert(sizeof(T) == 2, "half or bfloat16");
  const float4 bytes = load4(from);
  T eight[8];
  memcpy(static_cast<void*>(eight), &bytes, sizeof bytes);
#pragma unroll
  for (int e = 0; e < 8; ++e) to[e] = to_float(eight[e]);
}

/// The state of a part of the keys of one query. Neighbouring lanes, 16 bytes each, read a row of K
/// or V, and the block reads several rows at once.
/// @tparam d at least head_dim
/// @tparam T half or bfloat16
template <int d, class T>
__global__ void __launch_bounds__(kSplitThreads)
    decode_split_kv(Attention<T> a, SplitStates states, int parts) {
  constexpr int lanes = d / 8, keys = kSplitThreads / lanes;
  __shared__ __align__(16) float memory[keys * (d + 2)];
  const int part = blockIdx.x, head = blockIdx.y;
  const int batch = blockIdx.z / a.length_q, query = blockIdx.z % a.length_q;
  const int own_key = threadIdx.x / lanes, col = threadIdx.x % lanes * 8;
  const auto h = head_of(a, batch, head);
  const float exponent_scale = a.scale * kLog2E;
  const std::int64_t visible = visible_keys(a, query);
  const int begin = static_cast<int>(visible * part / parts);
  const int end = static_cast<int>(visible * (part + 1) / parts);
  //! [split_loop]
  float q[8] = {}, m = -INFINITY, l = 0, o[8] = {};
  const bool has_columns = col < a.head_dim;
  if (has_columns) load_eight(q, h.q + query * a.q_strides.row + col);
  for (int key0 = begin; key0 < end; key0 += keys) {
    const int key = key0 + own_key;
    const bool inside = key < end && has_columns;
    float k[8] = {}, v[8] = {};
    if (inside) {
      load_eight(k, h.k + key * a.k_strides.row + col);
      load_eight(v, h.v + key * a.v_strides.row + col);
    }
    float dot = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) dot += q[e] * k[e];
    dot = warp_sum<lanes>(dot);
    const float x = key < end ? dot : -INFINITY;
    const float m_new = fmaxf(m, x);
    const float rescale = part_factor(m, m_new, exponent_scale);
    const float p = part_factor(x, m_new, exponent_scale);
    m = m_new;
    l = l * rescale + p;
#pragma unroll
    for (int e = 0; e < 8; ++e) o[e] = o[e] * rescale + p * v[e];
  }
  //! [split_loop]
  // The states of the block's rows of lanes, which are parts of its part.
  const SplitStates own = states_at(memory, keys, 1, d);
  float* const row = own.o + own_key * d + col;
  store4(row, make_float4(o[0], o[1], o[2], o[3]));
  store4(row + 4, make_float4(o[4], o[5], o[6], o[7]));
  if (col == 0) {
    own.m[own_key] = m;
    own.l[own_key] = l;
  }
  __syncthreads();  // the states are complete
  if (threadIdx.x >= kWarp) return;
  const auto same = [](int i) { return i; };
  store_state(states, part, state_row(a, batch, head, query),
              merge_row<d>(own, keys, 0, exponent_scale, same));
}

/// Parts into which the keys are split so that there are blocks for all SMs.
/// @param units          what has a block for each part
/// @param keys           of a sequence
/// @param blocks_at_once of the whole GPU
inline int parts_for_all_sms(std::int64_t units, int keys,
                             int blocks_at_once) {
  const std::int64_t most = std::max(1, keys / kLeastKeys);
  return static_cast<int>(
      std::clamp<std::int64_t>(blocks_at_once / units, 1, most));
}

/// Parts of each row's keys here: four blocks for each SM.
template <class T>
int split_kv_parts(const Attention<T>& a) {
  return parts_for_all_sms(std::int64_t{a.batch} * a.heads * a.length_q,
                           a.length_k, 4 * device_properties().sm_count);
}

/// Floats of workspace that launch_split_kv() needs.
template <int d, class T>
std::int64_t split_kv_workspace(const Attention<T>& a) {
  return state_floats(split_kv_parts(a), numbered_rows(a), d);
}

/// Launches both kernels.
/// @param a with a head_dim of at most d
template <int d, class T>
void launch_split_kv(const Attention<T>& a, const Stream& stream,
                     float* workspace) {
  const int parts = split_kv_parts(a), rows = numbered_rows(a);
  const SplitStates states = states_at(workspace, parts, rows, d);
  const auto count = [](int n) { return static_cast<unsigned>(n); };
  launch(stream, decode_split_kv<d, T>,
         {{count(parts), count(a.heads), count(a.batch * a.length_q)},
          {kSplitThreads}},
         a, states, parts);
  launch_merge_parts<d>(a, states, parts, stream);
}

FA_STEP_ROW(decode, 1) {
  return row("01_split_kv", "keys split among blocks", half{}, bfloat16{})
      .no_dropout()
      .head_dims(HeadDims<64, 128>{})
      .tile(1, 8, 0, 1, 64)
      .tile(1, 8, 0, 1, 128)
      .floats([](const auto& a, auto d) { return split_kv_workspace<d>(a); })
      .launch([](auto& a, auto d, auto& stream, float* states) {
        launch_split_kv<d>(a, stream, states);
      });
}

}  // namespace fa::FA_TARGET
