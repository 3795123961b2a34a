/// @file
/// Lesson 06, ring attention on GPUs: kernels that merge what a part of a problem gives into the
/// results of all parts. Sums are float32; a part's O, dQ, dK and dV have the 16-bit type of the
/// kernels that compute them.
#pragma once

#include "06_flash_backward/ring/rank.hpp"
#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Elements of a row that a thread handles: 16 bytes of a 16-bit type.
constexpr int kRowElements = 8;

using ring::PartRows;
using ring::Sums;

/// The part's row that is row `row` of the rank, both counted over all heads, fewer than 2^32; -1
/// for none.
__device__ inline std::int64_t row_of_part(const PartRows& part, std::int64_t row) {
  // A division of 64 bits would take as long as all else that a thread does.
  const auto index = static_cast<std::uint32_t>(row);
  const auto length = static_cast<std::uint32_t>(part.rows);
  const std::int64_t head = index / length, own = index % length - part.first;
  return own < 0 || own >= part.count ? -1 : head * part.count + own;
}

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

/// @{ Loads a thread's elements of the sums, zeros before the first part, and stores them.
template <class T>
__device__ RowElements load_sums(const Sums<T>& sums, std::int64_t at) {
  return sums.first ? RowElements{} : load_row(sums.sums + at);
}
template <class T>
__device__ void store_sums(const Sums<T>& sums, std::int64_t at, const RowElements& row) {
  if (sums.result != nullptr) {
    store_row(sums.result + at, row);
  } else {
    store_row(sums.sums + at, row);
  }
}
/// @}
/// Whether a row that the part does not have changes all the same.
template <class T>
__device__ bool all_rows(const Sums<T>& sums) {
  return sums.first || sums.result != nullptr;
}

/// Merges a part's normalised O and its LSE into those of a rank's rows. Where `lse_sum` is
/// -infinity, the sum so far is not read.
/// @param o, lse of the part, without gaps
template <class T>
__global__ void merge_part(PartRows part, const T* o, const float* lse, Sums<T> o_sum,
                           float* lse_sum) {
  const std::int64_t row = own_row();
  const std::int64_t rows = part.heads * part.rows;
  const std::int64_t of_part = row < rows ? row_of_part(part, row) : -1;
  const bool idle = row >= rows || (of_part < 0 && !all_rows(o_sum));
  const float l1 = idle || o_sum.first ? -INFINITY : lse_sum[row];
  const float l2 = of_part < 0 ? -INFINITY : lse[of_part];
  __syncthreads();  // all threads of the row have read its LSE
  if (idle) return;
  const float m = fmaxf(l1, l2);
  const float l = exp_diff(l1, m) + exp_diff(l2, m), scale = l == 0 ? 0 : 1 / l;
  const float w1 = scale * exp_diff(l1, m), w2 = scale * exp_diff(l2, m);
  const int col = threadIdx.x * kRowElements;
  const std::int64_t at = row * part.head_dim + col;
  RowElements sum{}, x{};  // zeros
  if (l1 != -INFINITY) sum = load_sums(o_sum, at);
  if (l2 != -INFINITY) x = load_row(o + of_part * part.head_dim + col);
#pragma unroll
  for (int i = 0; i < kRowElements; ++i) {
    sum.x[i] = w1 * sum.x[i] + w2 * x.x[i];
  }
  store_sums(o_sum, at, sum);
  if (threadIdx.x == 0) lse_sum[row] = log_sum(m, l);
}

/// Adds a part's gradients to those of a rank's rows.
/// @param gradient of the part, without gaps
template <class T>
__global__ void add_part(PartRows part, const T* gradient, Sums<T> sums) {
  const std::int64_t row = own_row();
  if (row >= part.heads * part.rows) return;
  const std::int64_t of_part = row_of_part(part, row);
  if (of_part < 0 && !all_rows(sums)) return;
  const int col = threadIdx.x * kRowElements;
  const std::int64_t at = row * part.head_dim + col;
  RowElements sum = load_sums(sums, at);
  RowElements x{};  // zeros
  if (of_part >= 0) x = load_row(gradient + of_part * part.head_dim + col);
#pragma unroll
  for (int i = 0; i < kRowElements; ++i) sum.x[i] += x.x[i];
  store_sums(sums, at, sum);
}

/// The LSE of a part's rows, without gaps.
__global__ void copy_lse(PartRows part, const float* lse, float* of_part) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= part.heads * part.rows) return;
  const std::int64_t to = row_of_part(part, row);
  if (to >= 0) of_part[to] = lse[row];
}

/// The sum of several blocks of gradients, rounded.
template <class T>
__global__ void sum_blocks(const float* blocks, int count, std::int64_t elements, T* result) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  float sum = 0;
  for (int b = 0; b < count; ++b) sum += blocks[b * elements + i];
  result[i] = from_float<T>(sum);
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
