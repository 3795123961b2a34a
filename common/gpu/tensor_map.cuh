/// @file
/// The host's part of TMA: how a tensor lies in memory. For hopper.cuh's kernels.
#pragma once

#include <array>

#include "common/gpu/hopper.cuh"
#include "common/gpu/launch.cuh"

#if defined(__CUDACC__)
#include <cudaTypedefs.h>
#endif

namespace fa::FA_TARGET {

#if defined(__CUDACC__)

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
      sizeof(T) == 1            ? CU_TENSOR_MAP_DATA_TYPE_UINT8
      : std::is_same_v<T, half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
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

#else

/// A map without checks.
template <class T, std::size_t rank>
TensorMap encode_tensor_map(const T* data, const std::array<std::int64_t, rank>& sizes,
                            const std::array<std::int64_t, rank - 1>& strides, int box_rows,
                            int panel_bytes) {
  TensorMap map;
  map.data = reinterpret_cast<std::byte*>(const_cast<T*>(data));
  map.sizes.fill(1);
  std::copy_backward(sizes.begin(), sizes.end(), map.sizes.end());
  std::copy_backward(strides.begin(), strides.end(), map.strides.end());
  for (std::int64_t& stride : map.strides) stride *= static_cast<std::int64_t>(sizeof(T));
  map.box = {1, 1, 1, box_rows, panel_bytes / int{sizeof(T)}};
  map.element_bytes = sizeof(T);
  map.swizzle_bytes = panel_bytes;
  return map;
}

#endif

/// Whether this device can run kernels with hopper.cuh: a Hopper GPU, with code for sm_90a; or the
/// lab.
inline bool has_hopper() {
  return can_run(device_properties(), kNeedsHopper);
}

/// Whether TMA supports such a distance between rows, heads or sequences of elements: a multiple of
/// 16 bytes, below 2^40 bytes.
/// @param stride in elements
constexpr bool is_tensor_map_stride(std::int64_t stride, int element_bytes = 2) {
  return stride >= 0 && stride * element_bytes % 16 == 0 &&
         stride < (std::int64_t{1} << 40) / element_bytes;
}

/// A map whose box has so many rows, of the second last size, and the columns of a panel. Throws
/// as tensor_map().
template <class T, std::size_t rank>
TensorMap checked_tensor_map(const T* data, const std::array<std::int64_t, rank>& sizes,
                             std::array<std::int64_t, rank - 1> strides, int box_rows,
                             int panel_bytes) {
  static_assert(sizeof(T) <= 2, "elements of 16 or 8 bits");
  constexpr int element_bytes = sizeof(T), together = 16 / element_bytes;
  for (const std::int64_t size : sizes) {
    if (size < 1 || size > std::int64_t{1} << 32) {
      throw std::invalid_argument(
          fmt::format("a tensor {} x {} x {} x {} for TMA; allowed are sizes from 1 to 2^32",
                      sizes[rank - 4], sizes[rank - 3], sizes[rank - 2], sizes[rank - 1]));
    }
  }
  if (box_rows < 1 || box_rows > 256) {
    throw std::invalid_argument(
        fmt::format("a box of {} rows for TMA; allowed are 1 to 256", box_rows));
  }
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) {
    throw std::invalid_argument(
        "a tensor for TMA begins at an address that is not a multiple of 16");
  }
  for (std::size_t i = 0; i + 1 < rank; ++i) {
    if (sizes[i] == 1) strides[i] = together;  // not used, but TMA wants one
    if (!is_tensor_map_stride(strides[i], element_bytes)) {
      throw std::invalid_argument(
          fmt::format("rows {} elements apart for TMA; allowed are multiples of {} below 2^{}",
                      strides[i], together, 41 - element_bytes));
    }
  }
  return encode_tensor_map<T>(data, sizes, strides, box_rows, panel_bytes);
}

/// A map of a tensor [batch, heads, rows, cols]. Its box is what one copy moves: so many rows of a
/// head, and the columns of a panel, swizzled.
/// @tparam T       half, bfloat16 or, with 16 for 8 in what follows, e4m3
/// @param data     element 0, at a multiple of 16 bytes
/// @param sizes    batch, heads, rows, cols; each at least 1
/// @param strides  from a sequence to the next, from a head, from a row, in elements; multiples of
///                 8. That of a size of 1 is not used.
/// @param box_rows 1 to 256
/// @param panel_bytes of a row of the box: kPanelBytes or kNarrowPanelBytes
/// @throws std::invalid_argument for what TMA does not support
/// @throws std::runtime_error where the driver has no TMA
template <class T>
TensorMap tensor_map(const T* data, const std::array<std::int64_t, 4>& sizes,
                     const std::array<std::int64_t, 3>& strides, int box_rows,
                     int panel_bytes = kPanelBytes) {
  return checked_tensor_map<T, 4>(data, sizes, strides, box_rows, panel_bytes);
}

/// kRaggedRows times this is 2^64 elements. A distance between tokens that ragged_map() supports is
/// smaller.
constexpr std::int64_t kRaggedWrap = std::int64_t{1} << 34;

/// A map of a tensor [tokens, heads, cols] of sequences, packed one behind another, in which each
/// sequence has an end of its own. Index `end` of the second dimension moves all kRaggedRows rows by
/// as many tokens, so that the last row is the one before token `end`; the first dimension, whose
/// only index is kRaggedRows, moves them back by kRaggedRows tokens, in 64 bits that wrap.
/// @param strides from a token to the next, from a head, as in tensor_map()
/// @throws as tensor_map()
///
/// Source: the ragged descriptors of Triton, triton/tools/ragged_tma.py.
template <class T>
RaggedMap ragged_map(const T* data, const std::array<std::int64_t, 3>& sizes,
                     const std::array<std::int64_t, 2>& strides, int box_rows) {
  const auto [tokens, heads, cols] = sizes;
  const std::int64_t row = tokens == 1 ? 8 : strides[0];
  RaggedMap result;
  result.map =
      checked_tensor_map<T, 5>(data, {kRaggedRows + 1, tokens + 1, heads, kRaggedRows, cols},
                               {kRaggedWrap - row, row, strides[1], row}, box_rows, kPanelBytes);
  return result;
}

/// The same of a matrix [rows, cols].
/// @param ld from a row to the next, in elements, a multiple of 8
template <class T>
TensorMap tensor_map(const T* data, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                     int box_rows, int panel_bytes = kPanelBytes) {
  return tensor_map(data, {1, 1, rows, cols}, {0, 0, ld}, box_rows, panel_bytes);
}

}  // namespace fa::FA_TARGET
