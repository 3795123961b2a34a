/// @file
/// Lesson 06, ring attention on GPUs: what a rank computes with, the kernels behind the C interfaces
/// of lessons 05 and 06 in bfloat16, and those of device_rows.cuh. Transfers are given, so that the
/// same code runs over NCCL, and in tests over copies between ranks that share one device.
#pragma once

#include <memory>
#include <stdexcept>

#include "06_flash_backward/interface/flash_attention_backward.h"
#include "06_flash_backward/ring/device_rows.cuh"
#include "06_flash_backward/ring/rank.hpp"

namespace fa::FA_TARGET {

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

/// @{ Copies elements of a host's tensor to a device's memory, rounded, and back.
inline void put_rounded(bfloat16* to, const Tensor<float, 4>& from) {
  const auto rounded = converted<fa::bfloat16>(from);
  device_copy(to, rounded.data(), sizeof(bfloat16) * static_cast<std::size_t>(from.count()),
              CopyKind::kToDevice);
}
template <class X>
std::vector<float> get_floats(const X* from, std::int64_t count) {
  using H = std::conditional_t<std::is_same_v<X, float>, float, fa::bfloat16>;
  std::vector<H> all(static_cast<std::size_t>(count));
  device_copy(all.data(), from, sizeof(H) * all.size(), CopyKind::kToHost);
  return {all.begin(), all.end()};
}
/// @}

}  // namespace fa::FA_TARGET
