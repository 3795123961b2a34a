/// @file
/// A plain problem in the memory of the device, as the float32 kernels of this lesson want it, for
/// entries.
#pragma once

#include <vector>

#include "06_flash_backward/exercises/plain.hpp"
#include "06_flash_backward/kernels/03_two_kernels.cuh"
#include "common/classroom/launches.hpp"

namespace fa::backward::plain {

/// Inputs and results of a backward pass. delta and LSE come from the plain forward pass, and the
/// rows of P need no normalization.
class OnDevice {
 public:
  /// @param x without dropout; head_dim a multiple of 8
  explicit OnDevice(const Problem& x)
      : q_(on_device(x.q)),
        k_(on_device(x.k)),
        v_(on_device(x.v)),
        d_o_(on_device(x.d_o)),
        d_q_(static_cast<std::int64_t>(x.q.size())),
        d_k_(static_cast<std::int64_t>(x.k.size())),
        d_v_(static_cast<std::int64_t>(x.v.size())),
        rows_(FA_TARGET::ceil_div(x.length_q, FA_TARGET::kPaddedRows) * FA_TARGET::kPaddedRows),
        delta_(on_device(padded(
            x, [&](const Forward& y, int row) { return row_delta(x, y, row); }, 0))),
        lse_(on_device(forward(x).lse)),
        inv_row_sum_(on_device(padded(
            x, [](const Forward&, int) { return 1.0; }, 0))) {
    a.q = q_.data();
    a.k = k_.data();
    a.v = v_.data();
    a.d_o = d_o_.data();
    a.d_q = d_q_.data();
    a.d_k = d_k_.data();
    a.d_v = d_v_.data();
    a.delta = delta_.data();
    a.lse = lse_.data();
    a.inv_row_sum = inv_row_sum_.data();
    set_sizes(a, x);
  }

  /// What was written so far; NaN where nothing was.
  Gradients gradients() const {
    if (d_q_.written_beside() || d_k_.written_beside() || d_v_.written_beside()) {
      classroom::fail("it writes beside the result: the tail is not masked");
    }
    return {d_q_.numbers(), d_k_.numbers(), d_v_.numbers()};
  }

  FA_TARGET::AttentionGradient<float> a = {};  ///< what kernels are given

 private:
  static FA_TARGET::DeviceBuffer<float> on_device(const std::vector<double>& numbers) {
    return classroom::on_device(std::vector<float>(numbers.begin(), numbers.end()));
  }
  // One value per row, and `beyond` for rows that only the workspace has.
  template <class Row>
  std::vector<double> padded(const Problem& x, Row row, double beyond) const {
    const Forward y = forward(x);
    std::vector<double> result;
    for (int head = 0; head < x.heads; ++head) {
      for (int i = 0; i < rows_; ++i) {
        result.push_back(i < x.length_q ? row(y, head * x.length_q + i) : beyond);
      }
    }
    return result;
  }

  FA_TARGET::DeviceBuffer<float> q_, k_, v_, d_o_;
  classroom::Field d_q_, d_k_, d_v_;
  int rows_;
  FA_TARGET::DeviceBuffer<float> delta_, lse_, inv_row_sum_;
};

/// The launch of a float32 kernel with 32 columns whose blocks own keys, or queries.
/// @param length keys of a head, or queries
inline Launch tile_launch(int length, int heads) {
  using Tile = FA_TARGET::FloatBackwardTile<32>;
  return {{static_cast<unsigned>(FA_TARGET::ceil_div(length, Tile::side)),
           static_cast<unsigned>(heads)},
          {Tile::threads},
          Tile::shared_bytes};
}

}  // namespace fa::backward::plain
