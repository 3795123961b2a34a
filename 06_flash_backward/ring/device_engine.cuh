/// @file
/// Lesson 06, ring attention on GPUs: what a rank computes with, the kernels behind the C interfaces
/// of lessons 05 and 06 in bfloat16, and kernels that merge what a part of a problem gives into the
/// results of all parts. Sums are float32; a part's O, dQ, dK and dV have 16 bits. Transfers are
/// given, so that the same code runs over NCCL, and in tests over copies between ranks that share
/// one device.
#pragma once

#include <memory>
#include <stdexcept>

#include "06_flash_backward/interface/flash_attention_backward.h"
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
template <class T>
__device__ RowElements load_row(const T* address) {
  RowElements row;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int i = 0; i < kRowElements; i += 4) {
      const float4 four = load4(address + i);
      memcpy(row.x + i, &four, sizeof four);
    }
  } else {
    const float4 all = load4(address);
    T elements[kRowElements];
    memcpy(&elements, &all, sizeof all);
#pragma unroll
    for (int i = 0; i < kRowElements; ++i) row.x[i] = to_float(elements[i]);
  }
  return row;
}
template <class T>
__device__ void store_row(T* address, const RowElements& row) {
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int i = 0; i < kRowElements; i += 4) {
      store4(address + i, make_float4(row.x[i], row.x[i + 1], row.x[i + 2], row.x[i + 3]));
    }
  } else {
    std::uint32_t words[kRowElements / 2];
#pragma unroll
    for (int i = 0; i < kRowElements / 2; ++i) words[i] = pack2<T>(row.x[2 * i], row.x[2 * i + 1]);
    store4(address, as_float4(words));
  }
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
  for (int i = 0; i < kRowElements; ++i) sum.x[i] = w1 * sum.x[i] + w2 * x.x[i];
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

/// An engine as ring::Rank describes it. All calls begin work on a stream and wait for nothing.
/// @tparam Links has start(messages), which begins transfers after what the stream has to do so far,
///   and wait(), which makes the stream wait for them
template <class Links>
class DeviceEngine {
 public:
  using T = bfloat16;
  template <class X>
  using Buffer = DeviceBuffer<X>;
  using Piece = ring::Piece<T>;

  /// @{ What ring::Rank says of an engine.
  DeviceEngine(Links& links, const Stream& stream) : links_(links), stream_(stream) {}
  void start(const ring::Messages& messages) { links_.start(messages); }
  void wait() { links_.wait(); }
  /// @}

  /// @throws std::invalid_argument for a problem that the interface refuses
  /// @throws std::runtime_error when the device reports an error
  void attend(const Piece& p, T* o, float* lse) {
    fa_attention a = attention_of(p);
    a.o = o;
    a.o_strides = strides(p, p.shape.heads, p.shape.length_q);
    a.lse = lse;
    give_workspace(tile_counter_, fa_workspace_bytes(&a), a.workspace, a.workspace_bytes);
    check(fa_forward(&a), fa_last_error());
  }
  /// As attend().
  void gradients(const Piece& p, const T* o, const float* lse, const T* d_o, T* d_q, T* d_k,
                 T* d_v) {
    fa_gradient g{};
    g.size = sizeof g;
    g.attention = attention_of(p);
    g.attention.o = const_cast<T*>(o);
    g.attention.lse = const_cast<float*>(lse);
    g.d_o = d_o;
    g.attention.o_strides = g.d_o_strides = g.attention.q_strides;
    g.d_q = d_q;
    g.d_k = d_k;
    g.d_v = d_v;
    g.d_q_strides = strides(p, p.shape.heads, p.shape.length_q);
    g.d_k_strides = g.d_v_strides = strides(p, p.shape.kv_heads, p.shape.length_k);
    give_workspace(workspace_, fa_backward_workspace_bytes(&g), g.workspace, g.workspace_bytes);
    check(fa_backward(&g), fa_backward_last_error());
  }

  /// @{ What ring::Rank says of an engine.
  void merge_part(const PartRows& part, const T* o, const float* lse, Sums<T> sums,
                  float* lse_sum) {
    launch_rows(stream_, part.heads * part.rows, part.head_dim, fa::FA_TARGET::merge_part<T>, part,
                o, lse, sums, lse_sum);
  }
  void add_part(const PartRows& part, const T* gradient, Sums<T> sums) {
    launch_rows(stream_, part.heads * part.rows, part.head_dim, fa::FA_TARGET::add_part<T>, part,
                gradient, sums);
  }
  void copy_lse(const PartRows& part, const float* lse, float* of_part) {
    launch_flat(stream_, part.heads * part.rows, fa::FA_TARGET::copy_lse, part, lse, of_part);
  }
  void add_blocks(const float* blocks, int count, std::int64_t elements, T* result) {
    launch_flat(stream_, elements, sum_blocks<T>, blocks, count, elements, result);
  }
  static void put(T* to, const Tensor<float, 4>& from) {
    const auto rounded = converted<fa::bfloat16>(from);
    device_copy(to, rounded.data(), sizeof(T) * static_cast<std::size_t>(from.count()),
                CopyKind::kToDevice);
  }
  template <class X>
  static std::vector<float> get(const X* from, std::int64_t count) {
    using H = std::conditional_t<std::is_same_v<X, float>, float, fa::bfloat16>;
    std::vector<H> all(static_cast<std::size_t>(count));
    device_copy(all.data(), from, sizeof(H) * all.size(), CopyKind::kToHost);
    return {all.begin(), all.end()};
  }
  /// @}

 private:
  static fa_strides strides(const Piece& p, std::int64_t heads, std::int64_t rows) {
    const std::int64_t d = p.shape.head_dim;
    return {heads * rows * d, rows * d, d};
  }
  fa_attention attention_of(const Piece& p) const {
    const AttentionShape& s = p.shape;
    fa_attention a{};
    a.size = sizeof a;
    a.q = p.q;
    a.k = p.k;
    a.v = p.v;
    a.q_strides = strides(p, s.heads, p.q_rows);
    a.k_strides = a.v_strides = strides(p, s.kv_heads, p.k_rows);
    a.batch = s.batch;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.length_q = s.length_q;
    a.length_k = s.length_k;
    a.head_dim = a.head_dim_v = s.head_dim;
    a.type = FA_TYPE_BFLOAT16;
    a.causal = p.causal ? 1 : 0;
    a.scale = fa_default_scale(s.head_dim);
    a.stream = stream_.native();
    return a;
  }
  // Memory that begins as zeros and that a kernel leaves as zeros, grown where a part needs more.
  static void give_workspace(std::unique_ptr<DeviceBuffer<char>>& workspace, std::size_t bytes,
                             void*& data, std::size_t& size) {
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (!workspace || workspace->count() < wanted) {
      workspace = std::make_unique<DeviceBuffer<char>>(wanted);
      workspace->zero();
    }
    data = wanted > 0 ? workspace->data() : nullptr;
    size = wanted > 0 ? static_cast<std::size_t>(workspace->count()) : 0;
  }
  static void check(int status, const char* message) {
    if (status == FA_STATUS_REFUSED) throw std::invalid_argument(message);
    if (status != FA_STATUS_OK) throw std::runtime_error(message);
  }

  Links& links_;
  const Stream& stream_;
  std::unique_ptr<DeviceBuffer<char>> tile_counter_, workspace_;
};

}  // namespace fa::FA_TARGET
