/// @file
/// The workspace of a backward pass, for the host: how large it is and what lies where.
#pragma once

#include "06_flash_backward/kernels/gradient.cuh"

namespace fa::FA_TARGET {

/// What kernels need beside delta and lse_base_2 or inv_row_sum.
struct Workspace {
  int d_q_columns;               ///< of d_q_accum; 0: there is none
  bool d_q_semaphores = false;   ///< and tile_counter
  std::int64_t d_kv_floats = 0;  ///< of d_kv_parts
};

/// Floats that the backward pass needs beside its inputs and results.
template <class T>
std::int64_t workspace_floats(const Attention<T>& a, const Workspace& what) {
  const std::int64_t rows = std::int64_t{a.batch} * a.heads * padded_rows(a);
  return rows * (2 + what.d_q_columns) + what.d_kv_floats +
         (what.d_q_semaphores ? rows / kSemaphoreRows * 2 + 1 : 0);
}

/// Tells the kernels where their workspace is.
/// @param a      on return with its pointers
/// @param floats device memory for workspace_floats(a, what), at a multiple of 16 bytes
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
  float* const accum = floats + 2 * rows;
  a.d_q_accum = what.d_q_columns > 0 ? accum : nullptr;
  float* const parts = accum + rows * what.d_q_columns;
  a.d_kv_parts = what.d_kv_floats > 0 ? parts : nullptr;
  a.d_q_semaphores =
      what.d_q_semaphores
          ? reinterpret_cast<unsigned*>(parts + what.d_kv_floats)
          : nullptr;
  a.tile_counter = what.d_q_semaphores
                       ? a.d_q_semaphores + rows / kSemaphoreRows * 2
                       : nullptr;
}

}  // namespace fa::FA_TARGET
