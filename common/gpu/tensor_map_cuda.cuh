/// @file
/// The function behind tensor_map() on a GPU. Include tensor_map.cuh, not this file.
#pragma once

#include <cudaTypedefs.h>

namespace fa::FA_TARGET {

/// The driver's function, which is looked up while the program runs: nothing is linked with the
/// driver.
/// @throws std::runtime_error where the driver does not have it
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  static const auto encoder = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    FA_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                             cudaEnableDefault, &result));
#else
    FA_CUDA(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result));
#endif
    if (result != cudaDriverEntryPointSuccess || found == nullptr) {
      throw std::runtime_error(
          "the NVIDIA driver has no tensor maps; it must be that of CUDA 12 or newer");
    }
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  return encoder;
}

/// A map without checks.
template <class T, std::size_t rank>
TensorMap encode_tensor_map(const T* data, const std::array<std::int64_t, rank>& sizes,
                            const std::array<std::int64_t, rank - 1>& strides, int box_rows,
                            int panel_bytes) {
  // TMA counts from the fastest index on.
  cuuint64_t extents[rank], bytes[rank - 1];
  for (std::size_t i = 0; i < rank; ++i) {
    extents[i] = static_cast<cuuint64_t>(sizes[rank - 1 - i]);
  }
  for (std::size_t i = 0; i + 1 < rank; ++i) {
    bytes[i] = static_cast<cuuint64_t>(strides[rank - 2 - i]) * sizeof(T);
  }
  const cuuint32_t box[5] = {static_cast<cuuint32_t>(panel_bytes / int{sizeof(T)}),
                             static_cast<cuuint32_t>(box_rows), 1, 1, 1};
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  TensorMap map;
  const CUresult status = tensor_map_encoder()(
      &map,
      std::is_same_v<T, half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      rank, const_cast<T*>(data), extents, bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      panel_bytes == kPanelBytes ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw std::runtime_error(fmt::format(
        "a tensor {} x {} x {} x {}, strides {}, {}, {}: the driver makes no "
        "map of it, error {}",
        sizes[rank - 4], sizes[rank - 3], sizes[rank - 2], sizes[rank - 1], strides[rank - 4],
        strides[rank - 3], strides[rank - 2], static_cast<int>(status)));
  }
  return map;
}

}  // namespace fa::FA_TARGET
