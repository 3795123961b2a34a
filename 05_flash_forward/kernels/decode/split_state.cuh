/// @file
/// The softmax states (m, l, O) of parts of the keys, and their merge: lesson 03's, with the scale
/// folded into exponentials of base 2.
#pragma once

#include <limits>
#include <stdexcept>

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Rows of queries at most: kernels for decoding number them by ints, and those
/// that a last tile or block has beyond them.
constexpr std::int64_t kMostRows = std::numeric_limits<int>::max() - 256;

/// Attention as servers ask for it while they decode.
template <class T>
struct DecodeAttention : Attention<T> {
  int window = 0;  ///< keys up to its own position that a query sees; 0: all
  int part_keys = 0;  ///< of each part, a multiple of kPartKeys; 0: as fills
                      ///< the GPU best
  /// [heads]: logits of a further key for each head, whose value is 0; null:
  /// none
  const float* sinks = nullptr;
  /// [batch, length_q, ceil(length_q / 32)]: bit j shows a query draft key j,
  /// of the last length_q keys; null: all are visible
  const std::uint32_t* tree = nullptr;
  int first_key = 0;  ///< of an item; keys before it are not read
};

/// A part has a multiple of so many keys: whole tiles of all kernels.
constexpr int kPartKeys = 128;

/// Keys that a query sees at most.
template <class T>
int most_visible_keys(const DecodeAttention<T>& a) {
  return a.window > 0 && a.window < a.length_k ? a.window : a.length_k;
}

/// Rows of queries of all heads.
template <class T>
std::int64_t all_rows(const Attention<T>& a) {
  return std::int64_t{a.batch} * a.heads * a.length_q;
}
/// The same, as kernels number them.
/// @throws std::invalid_argument for more than kMostRows
template <class T>
int numbered_rows(const Attention<T>& a) {
  if (all_rows(a) > kMostRows) {
    throw std::invalid_argument(
        fmt::format("batch * heads * length_q is {}; kernels for decoding "
                    "allow 1 to {}",
                    all_rows(a), kMostRows));
  }
  return static_cast<int>(all_rows(a));
}

/// States in memory, for `rows` rows and several parts of the keys of each.
struct SplitStates {
  float* o;  ///< [parts, rows, pitch]: sum of exp(scale (x - m)) v
  float* m;  ///< [parts, rows]: the largest score x = q k, not scaled
  float* l;  ///< [parts, rows]: sum of exp(scale (x - m))
  int rows;
  int pitch;  ///< elements from a row of o to the next
};

/// Floats that hold states.
inline std::int64_t state_floats(std::int64_t parts, std::int64_t rows,
                                 int pitch) {
  return parts * rows * (pitch + 2);
}
/// States in memory that has state_floats().
__host__ __device__ inline SplitStates states_at(float* memory,
                                                 std::int64_t parts, int rows,
                                                 int pitch) {
  float* const m = memory + parts * rows * pitch;
  return {memory, m, m + parts * rows, rows, pitch};
}

/// What a sum of exponentials is multiplied by when its maximum becomes `largest` instead of m:
/// exp(scale (m - largest)), and 0 for a sum of no keys. It is the rescale factor of
/// softmax_step_base_2(), bit by bit.
__device__ inline float part_factor(float m, float largest,
                                    float exponent_scale) {
  if (m == -INFINITY) return 0;  // also when both are: no NaN
  return exp2_approx(__fmul_rn(m, exponent_scale) -
                     __fmul_rn(largest, exponent_scale));
}

/// A row's state, whose O is spread over a warp: a lane has d / 32 columns side by side.
template <int d>
struct RowSplit {
  float m;
  float l;
  float o[d / kWarp];
};

/// The state of all parts of a row's keys: lesson 03's merge, with the maximum of all parts first.
/// A warp calls it, and each lane gets m and l.
/// @tparam at_once rows of O that are loaded before the first is needed; those beyond the last part
///                 are loaded, but not used
/// @param  slot_of where the state of a part is: slot_of(part)
template <int d, int at_once = 8, class SlotOf>
__device__ RowSplit<d> merge_row(const SplitStates& states, int parts,
                                 int row, float exponent_scale,
                                 SlotOf slot_of) {
  const int lane = threadIdx.x % kWarp;
  const auto index = [&](int part) {
    return std::int64_t{slot_of(part)} * states.rows + row;
  };
  float o[at_once][d / kWarp / 2][2];
  const auto load_o = [&](std::int64_t i, int first) {
#pragma unroll
    for (int p = 0; p < at_once; ++p) {
      const float* const row_of_part =
          states.o + __shfl_sync(kAllLanes, i, first + p) * states.pitch;
#pragma unroll
      for (int e = 0; e < d / kWarp / 2; ++e) {
        load2(o[p][e], row_of_part + lane * (d / kWarp) + 2 * e);
      }
    }
  };
  RowSplit<d> all = {-INFINITY, 0, {}};
  // m, l and O of the first parts are in flight at the same time.
  std::int64_t i = index(lane < parts ? lane : parts - 1);
  float m = states.m[i], l = states.l[i];
  load_o(i, 0);
  all.m = m;
  for (int part = lane + kWarp; part < parts; part += kWarp) {
    all.m = fmaxf(all.m, states.m[index(part)]);
  }
  all.m = warp_max(all.m);
  //! [merge_loop]
  for (int part0 = 0; part0 < parts; part0 += kWarp) {
    const int own = part0 + lane;
    if (part0 > 0) {
      i = index(own < parts ? own : parts - 1);
      m = states.m[i];
      l = states.l[i];
    }
    const float factor =
        own < parts ? part_factor(m, all.m, exponent_scale) : 0;
    all.l += factor * l;
    const int end = parts - part0 < kWarp ? parts - part0 : kWarp;
    for (int first = 0; first < end; first += at_once) {
      if (part0 + first > 0) load_o(i, first);
#pragma unroll
      for (int p = 0; p < at_once; ++p) {
        const float of_part = __shfl_sync(kAllLanes, factor, first + p);
#pragma unroll
        for (int e = 0; e < d / kWarp; ++e) {
          // Not 0 x infinity.
          all.o[e] += of_part == 0 ? 0 : of_part * o[p][e / 2][e % 2];
        }
      }
    }
  }
  all.l = warp_sum(all.l);
  //! [merge_loop]
  return all;
}

/// Leaves a row's state as that of a part; a warp calls it.
template <int d>
__device__ void store_state(const SplitStates& states, int slot, int row,
                            const RowSplit<d>& state) {
  const int lane = threadIdx.x % kWarp;
  const std::int64_t i = std::int64_t{slot} * states.rows + row;
  float* const o = states.o + i * states.pitch + lane * (d / kWarp);
#pragma unroll
  for (int e = 0; e < d / kWarp; e += 2) {
    store2(o + e, state.o[e], state.o[e + 1]);
  }
  if (lane == 0) {
    states.m[i] = state.m;
    states.l[i] = state.l;
  }
}

/// The row of a query of a head among all of them, which is where its LSE is.
template <class T>
__device__ int state_row(const Attention<T>& a, int batch, int head,
                         int query) {
  return (batch * a.heads + head) * a.length_q + query;
}

/// O /= l: writes a query's row of O, and LSE; a warp calls it.
template <int d, class T>
__device__ void store_output(const Attention<T>& a, int batch, int head,
                             int query, const RowSplit<d>& state) {
  const int lane = threadIdx.x % kWarp;
  const float factor = state.l == 0 ? 0 : 1 / state.l;
  T* const row = a.o + batch * a.o_strides.batch + head * a.o_strides.head +
                 query * a.o_strides.row;
#pragma unroll
  for (int e = 0; e < d / kWarp; e += 2) {
    const int col = lane * (d / kWarp) + e;
    if (col < a.head_dim) {
      store_pair(row + col,
                 pack2<T>(factor * state.o[e], factor * state.o[e + 1]));
    }
  }
  if (lane == 0) {
    a.lse[state_row(a, batch, head, query)] =
        log_sum(a.scale * state.m, state.l);
  }
}

/// A row's m and l with the sink of its head, if there are sinks.
/// @return what O is multiplied by
template <class T>
__device__ float add_sink(const DecodeAttention<T>& a, int head, float& m,
                          float& l) {
  if (a.sinks == nullptr) return 1;
  const float sink = a.sinks[head] / a.scale, largest = fmaxf(m, sink);
  const float factor = part_factor(m, largest, a.scale * kLog2E);
  l = factor * l + part_factor(sink, largest, a.scale * kLog2E);
  m = largest;
  return factor;
}
/// store_output() with the sink.
template <int d, class T>
__device__ void store_output(const DecodeAttention<T>& a, int batch, int head,
                             int query, RowSplit<d> state) {
  const float factor = add_sink(a, head, state.m, state.l);
#pragma unroll
  for (float& o : state.o) o *= factor;
  store_output<d, T>(static_cast<const Attention<T>&>(a), batch, head, query,
                     state);
}

/// Threads of a block that splits keys, or merges.
constexpr int kSplitThreads = 128;

/// Merges the parts of each row; a warp has one row.
/// @tparam A an Attention or a DecodeAttention
template <int d, int at_once, class A>
__global__ void __launch_bounds__(kSplitThreads)
    merge_parts(A a, SplitStates states, int parts) {
  grid_dependency_wait();  // for the states
  const int row = blockIdx.x * (kSplitThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= states.rows) return;
  const int query = row % a.length_q, head = row / a.length_q % a.heads;
  store_output(a, row / a.length_q / a.heads, head, query,
               merge_row<d, at_once>(states, parts, row, a.scale * kLog2E,
                                     [](int part) { return part; }));
}

/// Launches it.
/// @param with_pdl behind a kernel that calls launch_dependents(), before the states are complete
template <int d, class A>
void launch_merge_parts(const A& a, const SplitStates& states, int parts,
                        const Stream& stream, bool with_pdl = false) {
  const int blocks = ceil_div(states.rows, kSplitThreads / kWarp);
  Launch merge{static_cast<unsigned>(blocks), kSplitThreads};
  merge.with_pdl = with_pdl;
  const auto launch_for = [&](auto at_once) {
    launch(stream, merge_parts<d, decltype(at_once)::value, A>, merge, a,
           states, parts);
  };
  if (parts <= 2) return launch_for(std::integral_constant<int, 2>{});
  if (parts <= 8) return launch_for(std::integral_constant<int, 8>{});
  launch_for(std::integral_constant<int, 16>{});
}

}  // namespace fa::FA_TARGET
