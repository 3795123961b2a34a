/// @file
/// The memory that the backward pass needs beside its inputs and results, and what fills it.
#pragma once

#include "06_flash_backward/kernels/02_preprocess.cuh"
#include "common/attention/grid.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// What kernels need beside delta and one more number for each row: LSE in base 2, in float32 inv_row_sum.
struct Workspace {
  int columns;                  ///< of the sums of dQ; 0: there are none
  bool d_q_semaphores = false;  ///< whether there are counters for them
};

/// Floats that the backward pass needs beside its inputs and results.
/// @param a    with its sizes
/// @param what is needed
template <class T>
std::int64_t workspace_floats(const Attention<T>& a, const Workspace& what) {
  const std::int64_t rows = std::int64_t{a.batch} * a.heads * padded_rows(a);
  return rows * (2 + what.columns) +
         (what.d_q_semaphores ? rows / kSemaphoreRows * 2 : 0);
}

/// Tells the kernels where their workspace is.
/// @param a      on return with its pointers
/// @param floats memory of the device for workspace_floats(a, what), at a multiple of 16 bytes
/// @param what   is needed
template <class T>
void set_workspace(AttentionGradient<T>& a, float* floats,
                   const Workspace& what) {
  static_assert(sizeof(unsigned) == sizeof(float), "they share a buffer");
  const std::int64_t rows = std::int64_t{a.batch} * a.heads * padded_rows(a);
  a.delta = floats;
  float* const second = floats + rows;
  constexpr bool is_float = sizeof(T) == sizeof(float);
  a.lse_base_2 = is_float ? nullptr : second;
  a.inv_row_sum = is_float ? second : nullptr;
  float* const sums = floats + 2 * rows;
  a.d_q_sum = what.columns > 0 ? sums : nullptr;
  a.d_q_semaphores =
      what.d_q_semaphores
          ? reinterpret_cast<unsigned*>(sums + rows * what.columns)
          : nullptr;
}

/// The sizes of a launch whose blocks cover all keys of all key and value heads, block_n keys each.
template <class T>
Size grid_of_keys(const Attention<T>& a, int block_n) {
  return {static_cast<unsigned>(ceil_div(a.length_k, block_n)),
          static_cast<unsigned>(a.kv_heads), static_cast<unsigned>(a.batch)};
}

/// Launches preprocess().
/// @tparam d columns of d_q_sum, at least head_dim
template <int d, class T>
void launch_preprocess(const AttentionGradient<T>& a, const Stream& stream) {
  constexpr int rows = kPreprocessThreads / (d / 8);
  launch(stream, preprocess<d, T>,
         {{static_cast<unsigned>(ceil_div(padded_rows(a), rows)),
           static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)},
          {kPreprocessThreads}},
         a);
}

}  // namespace fa::FA_TARGET
