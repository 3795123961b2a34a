/// @file
/// Lesson 06, ring attention on GPUs: kernels that merge what a part of a problem gives into the
/// results of all parts. Sums are float32; a part's O, dQ, dK and dV have the 16-bit type of the
/// kernels that compute them.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Elements of a row that a thread handles: 16 bytes of a 16-bit type.
constexpr int kRowElements = 8;

/// Where the rows of a part are among those of a rank: of each head, `count` rows from `first` on.
struct PartRows {
  std::int64_t heads;     ///< in all sequences
  std::int64_t rows;      ///< of a rank, for each head
  std::int64_t first;     ///< row of the rank
  std::int64_t count;     ///< rows of the part
  std::int64_t head_dim;  ///< a multiple of kRowElements

  /// The rank's row that is row `row` of the part, counted over all heads.
  __host__ __device__ std::int64_t of(std::int64_t row) const {
    return row / count * rows + first + row % count;
  }
};

/// The row of a thread, counted over all heads.
__device__ inline std::int64_t own_row() {
  return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
}

/// A thread's elements of a row, as float32.
struct RowElements {
  float x[kRowElements];
};
/// @{ Loads and stores such elements, of float32 or of 16 bits.
__device__ inline RowElements load_row(const float* address) {
  RowElements result;
#pragma unroll
  for (int half_row = 0; half_row < 2; ++half_row) {
    const float4 four = load4(address + 4 * half_row);
    result.x[4 * half_row] = four.x;
    result.x[4 * half_row + 1] = four.y;
    result.x[4 * half_row + 2] = four.z;
    result.x[4 * half_row + 3] = four.w;
  }
  return result;
}
template <class T>
__device__ RowElements load_row(const T* address) {
  const float4 all = load4(address);
  T elements[kRowElements];
  memcpy(&elements, &all, sizeof all);
  RowElements result;
#pragma unroll
  for (int i = 0; i < kRowElements; ++i) result.x[i] = to_float(elements[i]);
  return result;
}
__device__ inline void store_row(float* address, const RowElements& row) {
#pragma unroll
  for (int i = 0; i < kRowElements; i += 4) {
    store4(address + i, make_float4(row.x[i], row.x[i + 1], row.x[i + 2], row.x[i + 3]));
  }
}
template <class T>
__device__ void store_row(T* address, const RowElements& row) {
  std::uint32_t words[kRowElements / 2];
#pragma unroll
  for (int i = 0; i < kRowElements / 2; ++i) {
    words[i] = pack2<T>(row.x[2 * i], row.x[2 * i + 1]);
  }
  store4(address, as_float4(words));
}
/// @}

/// Merges a part's normalised O and its LSE into those of the rows so far. Where `lse_sum` is
/// -infinity, `o_sum` is not read.
/// @param o, lse of the part, without gaps
template <class T>
__global__ void merge_part(PartRows part, const T* o, const float* lse, float* o_sum,
                           float* lse_sum) {
  const std::int64_t row = own_row();
  const bool exists = row < part.heads * part.count;
  const std::int64_t to = exists ? part.of(row) : 0;
  const float before = exists ? lse_sum[to] : -INFINITY;
  const float added = exists ? lse[row] : -INFINITY;
  __syncthreads();  // all threads of the row have read its LSE
  if (!exists || added == -INFINITY) return;
  const float m = fmaxf(before, added);
  const float l_before = exp_diff(before, m), l_added = expf(added - m);
  const float l = l_before + l_added;
  const int col = threadIdx.x * kRowElements;
  RowElements sum{};  // zeros
  float* const at = o_sum + to * part.head_dim + col;
  if (before != -INFINITY) sum = load_row(at);
  const RowElements x = load_row(o + row * part.head_dim + col);
#pragma unroll
  for (int i = 0; i < kRowElements; ++i) {
    sum.x[i] = (l_before * sum.x[i] + l_added * x.x[i]) / l;
  }
  store_row(at, sum);
  if (threadIdx.x == 0) lse_sum[to] = m + logf(l);
}

/// Adds a part's gradients, without gaps, to sums.
template <class T>
__global__ void add_part(PartRows part, const T* gradient, float* sums) {
  const std::int64_t row = own_row();
  if (row >= part.heads * part.count) return;
  const int col = threadIdx.x * kRowElements;
  float* const at = sums + part.of(row) * part.head_dim + col;
  RowElements sum = load_row(at);
  const RowElements x = load_row(gradient + row * part.head_dim + col);
#pragma unroll
  for (int i = 0; i < kRowElements; ++i) sum.x[i] += x.x[i];
  store_row(at, sum);
}

/// Rounds sums to the type of a result; zeros where a row has seen no key.
/// @param lse of each row, or null: all rows have sums
template <class T>
__global__ void round_rows(std::int64_t rows, std::int64_t head_dim, const float* sums,
                           const float* lse, T* result) {
  const std::int64_t row = own_row();
  if (row >= rows) return;
  const std::int64_t at = row * head_dim + threadIdx.x * kRowElements;
  RowElements sum{};  // zeros
  if (lse == nullptr || lse[row] != -INFINITY) sum = load_row(sums + at);
  store_row(result + at, sum);
}

/// The LSE of a part's rows, without gaps.
__global__ void copy_lse(PartRows part, const float* lse, float* of_part) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row < part.heads * part.count) of_part[row] = lse[part.of(row)];
}

/// Sets elements to a value.
__global__ void fill(float* to, std::int64_t count, float value) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) to[i] = value;
}

/// Launches a kernel for rows of all heads: a block has as many threads in x as a row needs.
template <class Kernel, class... Arguments>
void launch_rows(const Stream& stream, std::int64_t rows, std::int64_t head_dim, Kernel* kernel,
                 Arguments... arguments) {
  if (rows == 0) return;
  constexpr unsigned threads = 256;
  const auto columns = static_cast<unsigned>(head_dim / kRowElements);
  const unsigned side = threads / columns;
  const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(rows, side));
  launch(stream, kernel, {{blocks}, {columns, side}}, arguments...);
}

/// Launches a kernel with a thread for each element.
template <class Kernel, class... Arguments>
void launch_flat(const Stream& stream, std::int64_t count, Kernel* kernel, Arguments... arguments) {
  if (count == 0) return;
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(count, threads));
  launch(stream, kernel, {{blocks}, {threads}}, arguments...);
}

}  // namespace fa::FA_TARGET
