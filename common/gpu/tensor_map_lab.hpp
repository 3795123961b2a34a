/// @file
/// The function behind tensor_map() in the lab. Include tensor_map.cuh, not this file.
#pragma once

namespace fa::FA_TARGET {

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
  map.rows = box_rows;
  map.row_bytes = panel_bytes;
  return map;
}

}  // namespace fa::FA_TARGET
