/// @file
/// Appends to a cache: copies the keys and values of new tokens to their places, in pages or not;
/// those of a cache in 8 bits are divided by their scale and rounded.
/// Where these are is read from the memory of the device, so that one CUDA graph serves all steps
/// of a generation.
#pragma once

#include "05_flash_forward/kernels/decode/05_paged_kv.cuh"

namespace fa::FA_TARGET {

/// Threads of a block that appends.
constexpr int kAppendThreads = 256;

/// New rows [batch, kv_heads, length, columns], and the cache that they go to. Elements have four
/// bytes, whatever the type is; columns and strides that are used are multiples of 4.
struct NewRows {
  const float* from;
  float* to;
  RowStrides from_strides;
  RowStrides to_strides;  ///< with pages, batch is from a page to the next
  int columns;            ///< of `from`
  const float* scales;    ///< of a cache in 8 bits, as EightBitCache has them
  bool per_head;
};

/// The codes of 16 elements, by their quotients with a scale: 16 bytes.
template <class T>
__device__ float4 quantized(const float* from, float scale) {
  std::uint32_t codes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float two[2];
    load2(two, from + 2 * i);
    T x[4];
    memcpy(static_cast<void*>(x), two, sizeof two);
    codes[i] = pack4<e4m3>(to_float(x[0]) / scale, to_float(x[1]) / scale,
                           to_float(x[2]) / scale, to_float(x[3]) / scale);
  }
  return as_float4(codes);
}

/// A thread writes 16 bytes of a row of K, and of V. The new tokens are the last ones of each
/// sequence.
/// @tparam T         half or bfloat16 for a cache in 8 bits; void: rows are copied as they are
/// @param length_new of the new rows
/// @param length_k   the most keys of a sequence; what lengths_k has out of range counts as the
///                   nearest length that is allowed
/// @param lengths_k  with the new tokens; null: all have length_k
/// @param pages      without a block_table: none
template <class T>
__global__ void __launch_bounds__(kAppendThreads)
    append_rows(NewRows k, NewRows v, int length_new, int length_k,
                const int* lengths_k, PagedKv pages) {
  constexpr int each = std::is_void_v<T> ? 4 : 8;  // for 16 bytes
  const int columns = k.columns > v.columns ? k.columns : v.columns;
  const std::int64_t index =
      std::int64_t{blockIdx.x} * kAppendThreads + threadIdx.x;
  const auto row = static_cast<int>(index / (columns / each));
  const int col = static_cast<int>(index % (columns / each)) * each;
  const int head = blockIdx.y, batch = blockIdx.z;
  //! [append]
  int keys = lengths_k == nullptr ? length_k : lengths_k[batch];
  keys = keys < 0 ? 0 : keys < length_k ? keys : length_k;
  const int key = keys - length_new + row;  // its place in the sequence
  if (row >= length_new || key < 0) return;
  int page_or_batch = batch, token = key;
  if (pages.block_table != nullptr) {
    page_or_batch = pages.block_table[std::int64_t{batch} * pages.most_pages +
                                      key / pages.page_size];
    token = key % pages.page_size;
    if (page_or_batch < 0 || page_or_batch >= pages.cache_pages) return;
  }
  //! [append]
  const auto copy = [&](const NewRows& rows) {
    if (col >= rows.columns) return;
    const RowStrides &from = rows.from_strides, &to = rows.to_strides;
    float* const place = rows.to + page_or_batch * to.batch + head * to.head +
                         token * to.row + col * 4 / each;
    const float* const own = rows.from + batch * from.batch +
                             head * from.head + row * from.row + col;
    if constexpr (std::is_void_v<T>) {
      store4(place, load4(own));
    } else {
      const std::int64_t i = std::int64_t{page_or_batch} * gridDim.y + head;
      store4(place, quantized<T>(own, rows.scales[rows.per_head ? i : 0]));
    }
  };
  copy(k);
  copy(v);
}

/// Launches the kernel.
/// @tparam T of append_rows()
template <class T>
void launch_append(const NewRows& k, const NewRows& v, int batch,
                   int kv_heads, int length_new, int length_k,
                   const int* lengths_k, const PagedKv& pages,
                   const Stream& stream) {
  const std::int64_t threads =
      std::int64_t{length_new} *
      (std::max(k.columns, v.columns) / (std::is_void_v<T> ? 4 : 8));
  launch(stream, append_rows<T>,
         {{static_cast<unsigned>(
               ceil_div<std::int64_t>(threads, kAppendThreads)),
           static_cast<unsigned>(kv_heads), static_cast<unsigned>(batch)},
          {kAppendThreads}},
         k, v, length_new, length_k, lengths_k, pages);
}

}  // namespace fa::FA_TARGET
