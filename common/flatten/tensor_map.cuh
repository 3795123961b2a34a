/// @file
/// The maps of TMA in a step in one file. It replaces what common/gpu has for the same names.
#pragma once

#include <array>
#include <cudaTypedefs.h>

#include "common/flatten/host.cuh"
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

/// The map by which TMA finds boxes of a tensor [batch, heads, rows, cols] of 16-bit elements.
/// @param strides    from a sequence to the next, from a head, from a row, in elements
/// @param box_rows   rows that one copy moves; its columns are those of a swizzled panel
/// @param row_bytes  bytes of a row of the panel, 128 or 64
template <class T>
CUtensorMap tensor_map(const T* data, const std::array<std::int64_t, 4>& sizes,
                       std::array<std::int64_t, 3> strides, int box_rows, int row_bytes = 128) {
  void* encode = nullptr;  // the driver's function: nothing links with it
  cudaDriverEntryPointQueryResult found;
  FA_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                           cudaEnableDefault, &found));
  cuuint64_t extents[4], bytes[3];  // the fastest index first
  for (int i = 0; i < 4; ++i) {
    extents[i] = static_cast<cuuint64_t>(sizes[3 - i]);
  }
  for (int i = 0; i < 3; ++i) {
    const std::int64_t stride = sizes[2 - i] == 1 ? 8 : strides[2 - i];
    bytes[i] = static_cast<cuuint64_t>(stride) * sizeof(T);
  }
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(row_bytes) / 2,
                             static_cast<cuuint32_t>(box_rows), 1, 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(encode)(
      &map,
      std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      4, const_cast<T*>(data), extents, bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuTensorMapEncodeTiled: error %d\n", status);
    std::exit(2);
  }
  return map;
}

/// The same of a matrix [rows, cols].
/// @param ld from a row to the next, in elements
template <class T>
CUtensorMap tensor_map(const T* data, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                       int box_rows, int row_bytes = 128) {
  return tensor_map(data, {1, 1, rows, cols}, {0, 0, ld}, box_rows, row_bytes);
}

}  // namespace fa::FA_TARGET
