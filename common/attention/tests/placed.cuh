/// @file
/// What the tests of C interfaces share: tensors in memory of the device, in any layout, problems
/// as an interface gets them, and which problems those are.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/attention/host/device_tensor.cuh"
#include "common/attention/tests/problems.hpp"
#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each test program includes this

// A tensor in memory of the device, in any layout.
template <class H>
struct Placed {
  Placed(const Shape<4>& of, attention::Layout layout, std::int64_t row_pitch)
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
    return index[0] * strides.batch + index[1] * strides.head + index[2] * strides.row + index[3];
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
  // Whether the elements between rows, in what read() has got, are as they were: all bytes 0xff.
  // Only bytes are looked at, because arithmetic may change a NaN.
  bool gaps_are_poison() const {
    for (std::int64_t i = 0; i < host.count(); ++i) {
      std::uint16_t half_word = 0;
      std::memcpy(&half_word, host.data() + i, sizeof half_word);
      if (i % pitch >= shape[3] && half_word != 0xffff) return false;
    }
    return true;
  }
  // Tells a C interface where it lies.
  template <class Pointer, class Strides>
  void give(Pointer& pointer, Strides& to) {
    pointer = device.data();
    to = {strides.batch, strides.head, strides.row};
  }
  Shape<4> shape;
  std::int64_t pitch;
  RowStrides strides;
  Tensor<H, 1> host;
  DeviceBuffer<H> device;
};

// Sizes, type and options of a problem for a C interface: all but pointers, strides and the stream.
template <class Given>
Given given_attention(const attention::Problem& problem) {
  const AttentionShape& s = problem.shape;
  Given a{};
  a.size = sizeof a;
  a.batch = s.batch;
  a.heads = s.heads;
  a.kv_heads = s.kv_heads;
  a.length_q = s.length_q;
  a.length_k = s.length_k;
  a.head_dim = s.head_dim;
  a.head_dim_v = problem.columns_v();
  a.type = static_cast<decltype(a.type)>(problem.type);  // the same numbers
  a.causal = problem.causal ? 1 : 0;
  a.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  a.dropout = problem.dropout;
  a.seed = problem.seed;
  return a;
}

// Problems for check(problem, gap), where `gap` elements lie between rows: all types in both
// layouts, with groups of heads, causal or not.
template <class Check>
void check_layouts(Check check) {
  for (const attention::Type type : attention::kTypes) {
    for (const attention::Layout layout :
         {attention::Layout::kHeadsFirst, attention::Layout::kLengthFirst}) {
      for (const bool causal : {false, true}) {
        attention::Problem problem = attention::problem_of(type, {2, 4, 2, 70, 75, 40}, causal);
        problem.layout = layout;
        check(problem, 0);
      }
    }
  }
}
// Problems with gaps between rows.
template <class Check>
void check_gaps(Check check) {
  for (const attention::Type type : attention::kTypes) {
    attention::Problem problem = attention::problem_of(type, {2, 2, 1, 33, 40, 24}, true);
    check(problem, 8);
    problem.layout = attention::Layout::kLengthFirst;
    check(problem, 16);
  }
}
// Problems with the head dimensions of MLA: odd lengths, groups of heads, with and
// without dropout, in both layouts; with gaps between rows, too.
template <class Check>
void check_mla(Check check) {
#if defined(__CUDACC__)
  const AttentionShape shape{2, 4, 2, 67, 133, kMlaHeadDim};
#else
  const AttentionShape shape{1, 2, 1, 9, 19, kMlaHeadDim};
#endif
  for (const attention::Type type : attention::kTypes) {
    for (const bool causal : {false, true}) {
      attention::Problem problem = attention::problem_of(type, shape, causal);
      problem.head_dim_v = kMlaHeadDimV;
      check(problem, 0);
      problem.layout = attention::Layout::kLengthFirst;
      check(problem, 8);
      problem.dropout = 0.17;
      problem.seed = 7;
      check(problem, 0);
    }
  }
}
// Problems with dropout.
template <class Check>
void check_dropout(Check check) {
  for (const attention::Type type : attention::kTypes) {
    attention::Problem problem = attention::problem_of(type, {2, 2, 1, 40, 70, 64}, true);
    problem.dropout = 0.17;
    problem.seed = 0x123456789abcdef;
    check(problem, 0);
  }
}

}  // namespace
}  // namespace fa::FA_TARGET
