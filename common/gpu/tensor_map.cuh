/// @file
/// The host's part of TMA: how a tensor lies in memory. For hopper.cuh's kernels.
#pragma once

#include <array>

#include "common/gpu/hopper.cuh"
#include "common/gpu/launch.cuh"

#if defined(__CUDACC__)
#include "common/gpu/tensor_map_cuda.cuh"
#else
#include "common/gpu/tensor_map_lab.hpp"
#endif

namespace fa::FA_TARGET {

/// Whether this device can run kernels with hopper.cuh: a Hopper GPU, with code for sm_90a; or the
/// lab.
inline bool has_hopper() {
  return can_run(device_properties(), kNeedsHopper);
}

/// Whether TMA supports such a distance between rows, heads or sequences of 16-bit elements: a
/// multiple of 16 bytes, below 2^40 bytes.
/// @param stride in elements
constexpr bool is_tensor_map_stride(std::int64_t stride) {
  return stride >= 0 && stride % 8 == 0 && stride < std::int64_t{1} << 39;
}

/// A map of a tensor [batch, heads, rows, cols] of 16-bit elements. Its box is what one copy moves:
/// so many rows of a head, and the columns of a panel, swizzled.
/// @tparam T       half or bfloat16
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
                     std::array<std::int64_t, 3> strides, int box_rows,
                     int panel_bytes = kPanelBytes) {
  static_assert(sizeof(T) == 2, "half or bfloat16");
  for (const std::int64_t size : sizes) {
    if (size < 1 || size > std::int64_t{1} << 32) {
      throw std::invalid_argument(
          fmt::format("a tensor {} x {} x {} x {} for TMA; allowed are sizes from 1 to 2^32",
                      sizes[0], sizes[1], sizes[2], sizes[3]));
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
  for (std::size_t i = 0; i < 3; ++i) {
    if (sizes[i] == 1) strides[i] = 8;  // not used, but TMA wants one
    if (!is_tensor_map_stride(strides[i])) {
      throw std::invalid_argument(fmt::format(
          "rows {} elements apart for TMA; allowed are multiples of 8 below 2^39", strides[i]));
    }
  }
  return encode_tensor_map<T>(data, sizes, strides, box_rows, panel_bytes);
}

/// The same of a matrix [rows, cols].
/// @param ld from a row to the next, in elements, a multiple of 8
template <class T>
TensorMap tensor_map(const T* data, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                     int box_rows, int panel_bytes = kPanelBytes) {
  return tensor_map(data, {1, 1, rows, cols}, {0, 0, ld}, box_rows, panel_bytes);
}

}  // namespace fa::FA_TARGET
