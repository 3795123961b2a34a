/// @file
/// Lesson 06: what a rank computes with on the CPU: the tiles of lessons 03 and 06, and the merge of
/// lesson 03, in float32.
#pragma once

#include <limits>
#include <vector>

#include "03_online_softmax/row.hpp"
#include "03_online_softmax/tiled.hpp"
#include "06_flash_backward/ring/rank.hpp"
#include "06_flash_backward/src/derivation/tiled.hpp"

namespace fa::ring {

/// An engine as Rank describes it.
class CpuEngine {
 public:
  using T = float;
  /// Memory that begins as NaN, with the functions of DeviceBuffer.
  template <class X>
  struct Buffer : std::vector<X> {
    /// Of so many elements.
    explicit Buffer(std::int64_t count)
        : std::vector<X>(static_cast<std::size_t>(count), std::numeric_limits<X>::quiet_NaN()) {}
    /// Its elements.
    std::int64_t count() const { return static_cast<std::int64_t>(this->size()); }
  };

  /// @{ What Rank says of an engine.
  explicit CpuEngine(Comm& comm) : comm_(comm) {}
  void start(const Messages& messages) { comm_.start(messages); }
  void wait() { comm_.wait(); }

  void attend(const Piece<float>& p, float* o, float* lse) {
    const auto part =
        online::tiled_forward<float>(q_of(p, p.q), k_of(p, p.k), k_of(p, p.v), options_of(p));
    std::copy_n(part.o.data(), part.o.count(), o);
    std::copy_n(part.lse.data(), part.lse.count(), lse);
  }
  void gradients(const Piece<float>& p, const float* o, const float* lse, const float* d_o,
                 float* d_q, float* d_k, float* d_v) {
    const View<const float, 3> lse_of(lse, {p.shape.batch, p.shape.heads, p.shape.length_q});
    const auto part = backward::tiled_backward<float>(
        q_of(p, p.q), k_of(p, p.k), k_of(p, p.v), q_of(p, o), lse_of, q_of(p, d_o), options_of(p));
    std::copy_n(part.d_q.data(), part.d_q.count(), d_q);
    std::copy_n(part.d_k.data(), part.d_k.count(), d_k);
    std::copy_n(part.d_v.data(), part.d_v.count(), d_v);
  }

  void merge_part(const PartRows& part, const float* o, const float* lse, Sums<float> sums,
                  float* lse_sum) {
    const auto d = static_cast<Eigen::Index>(part.head_dim);
    for_rows_of(part, [&](std::int64_t row, std::int64_t of_part) {
      auto state = online::empty_row_state<float>(d);
      if (!sums.first) state = state_of(sums.sums + row * d, lse_sum[row], d);
      if (of_part >= 0) state = online::merge(state, state_of(o + of_part * d, lse[of_part], d));
      lse_sum[row] = online::lse_of(state);
      Eigen::Map<Vector<float>>(target(sums) + row * d, d) = state.o / (state.l == 0 ? 1 : state.l);
    });
  }
  void add_part(const PartRows& part, const float* gradient, Sums<float> sums) {
    const std::int64_t d = part.head_dim;
    for_rows_of(part, [&](std::int64_t row, std::int64_t of_part) {
      for (std::int64_t c = 0; c < d; ++c) {
        const float sum = sums.first ? 0 : sums.sums[row * d + c];
        target(sums)[row * d + c] = of_part < 0 ? sum : sum + gradient[of_part * d + c];
      }
    });
  }
  void copy_lse(const PartRows& part, const float* lse, float* of_part_lse) {
    for_rows_of(part, [&](std::int64_t row, std::int64_t of_part) {
      if (of_part >= 0) of_part_lse[of_part] = lse[row];
    });
  }
  void add_blocks(const float* blocks, int count, std::int64_t elements, float* result) {
    std::fill_n(result, elements, 0.0f);
    for (std::int64_t i = 0; i < count * elements; ++i) result[i % elements] += blocks[i];
  }
  static void put(float* to, const Tensor<float, 4>& from) {
    std::copy_n(from.data(), from.count(), to);
  }
  static std::vector<float> get(const float* from, std::int64_t count) {
    return {from, from + count};
  }
  /// @}

 private:
  static AttentionOptions options_of(const Piece<float>& p) {
    return {std::nullopt, p.causal, {}, 0};
  }
  static View<const float, 4> view_of(const Piece<float>& p, const float* data, std::int64_t heads,
                                      std::int64_t rows, std::int64_t length) {
    const std::int64_t d = p.shape.head_dim;
    return {data, {p.shape.batch, heads, length, d}, {heads * rows * d, rows * d, d, 1}};
  }
  static View<const float, 4> q_of(const Piece<float>& p, const float* data) {
    return view_of(p, data, p.shape.heads, p.q_rows, p.shape.length_q);
  }
  static View<const float, 4> k_of(const Piece<float>& p, const float* data) {
    return view_of(p, data, p.shape.kv_heads, p.k_rows, p.shape.length_k);
  }
  // A normalised O with its LSE is a state of lesson 03: m = LSE and l = 1.
  static online::RowState<float> state_of(const float* o, float lse, Eigen::Index d) {
    if (lse == online::BaseE<float>::neg_inf) return online::empty_row_state<float>(d);
    return {lse, 1, Eigen::Map<const Vector<float>>(o, d)};
  }
  static float* target(const Sums<float>& sums) {
    return sums.result != nullptr ? sums.result : sums.sums;
  }
  // Calls visit(row of the rank, row of the part or -1), both counted over all heads.
  template <class Visit>
  static void for_rows_of(const PartRows& part, Visit visit) {
    for (std::int64_t row = 0; row < part.heads * part.rows; ++row) {
      const std::int64_t own = row % part.rows - part.first;
      visit(row, own < 0 || own >= part.count ? -1 : row / part.rows * part.count + own);
    }
  }

  Comm& comm_;
};

}  // namespace fa::ring
