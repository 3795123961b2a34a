/// @file
/// The function behind tensor_map() in the lab. Include tensor_map.cuh, not this file.
#pragma once

namespace fa::FA_TARGET {

template <class T>
TensorMap encode_tensor_map(const T* data, const std::array<std::int64_t, 4>& sizes,
                            const std::array<std::int64_t, 3>& strides, int box_rows,
                            int panel_bytes) {
  TensorMap map;
  map.data = reinterpret_cast<std::byte*>(const_cast<T*>(data));
  map.sizes = sizes;
  for (std::size_t i = 0; i < 3; ++i) {
    map.strides[i] = strides[i] * static_cast<std::int64_t>(sizeof(T));
  }
  map.rows = box_rows;
  map.row_bytes = panel_bytes;
  return map;
}

}  // namespace fa::FA_TARGET
