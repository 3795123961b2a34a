/// @file
/// What the tests of C interfaces share: tensors in memory of the device, in any layout, and problems as the interface
/// is told them.
#pragma once

#include <cmath>
#include <cstring>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/tests/problems.hpp"
#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each test program includes this

// Distances in [batch, heads, length, head_dim]; rows are `pitch` elements apart.
inline fa_strides strides_of(const Shape<4>& shape, flash::Layout layout,
                             std::int64_t pitch) {
  const std::int64_t all = shape[1] * shape[2] * pitch;
  return layout == flash::Layout::kHeadsFirst
             ? fa_strides{all, shape[2] * pitch, pitch}
             : fa_strides{all, pitch, shape[1] * pitch};
}

// A tensor in memory of the device, in any layout.
template <class H>
struct Placed {
  Placed(const Shape<4>& of, flash::Layout layout, std::int64_t row_pitch)
      : shape(of),
        pitch(row_pitch),
        strides(strides_of(of, layout, pitch)),
        host({of[0] * of[1] * of[2] * pitch}),
        device(host.count()) {
    // What lies between rows is NaN, of inputs as well.
    std::memset(static_cast<void*>(host.data()), 0xff,
                sizeof(H) * static_cast<std::size_t>(host.count()));
  }
  std::int64_t at(const Shape<4>& index) const {
    return index[0] * strides.batch + index[1] * strides.head +
           index[2] * strides.row + index[3];
  }
  void write(const Tensor<float, 4>& values) {
    for_each_index(shape, [&](const Shape<4>& index) {
      host(at(index)) = static_cast<H>(values.view()[index]);
    });
    device.upload(host.data());
  }
  Tensor<float, 4> read() {
    device.download(host.data());
    Tensor<float, 4> result(shape);
    for_each_index(shape, [&](const Shape<4>& index) {
      result.view()[index] = static_cast<float>(host(at(index)));
    });
    return result;
  }
  // Whether the elements between rows, in what read() has got, are as they were: all bytes 0xff. Only bytes are looked
  // at, because arithmetic may change a NaN.
  bool gaps_are_poison() const {
    for (std::int64_t i = 0; i < host.count(); ++i) {
      std::uint16_t half_word = 0;
      std::memcpy(&half_word, host.data() + i, sizeof half_word);
      if (i % pitch >= shape[3] && half_word != 0xffff) return false;
    }
    return true;
  }
  Shape<4> shape;
  std::int64_t pitch;
  fa_strides strides;
  Tensor<H, 1> host;
  DeviceBuffer<H> device;
};

// Sizes, type and options of a problem: all but pointers, strides and the stream.
inline fa_attention attention_of(const flash::Problem& problem) {
  const AttentionShape& s = problem.shape;
  fa_attention a{};
  a.size = sizeof a;
  a.batch = s.batch;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads;
  a.length_q = s.length_q;
  a.length_k = s.length_k;
  a.head_dim = s.head_dim;
  a.type = problem.type == flash::Type::kFloat32   ? FA_TYPE_FLOAT32
           : problem.type == flash::Type::kFloat16 ? FA_TYPE_FLOAT16
                                                   : FA_TYPE_BFLOAT16;
  a.causal = problem.causal ? 1 : 0;
  a.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  a.dropout = problem.dropout;
  a.seed = problem.seed;
  return a;
}

}  // namespace
}  // namespace fa::FA_TARGET
