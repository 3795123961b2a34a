/// @file
/// A problem in the memory of a device, and what launches a kernel on it: for all that offer kernels as rungs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "05_flash_forward/kernels/attention.cuh"
#include "05_flash_forward/machine.hpp"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {
namespace {  // source files for one machine include this

using flash::Inputs;
using flash::Layout;
using flash::Outputs;
using flash::Prepared;
using flash::Problem;

// Distances of rows for [batch, heads, length, head_dim] in a layout.
inline RowStrides strides_of(const Shape<4>& shape, Layout layout) {
  const std::int64_t row = shape[3], all = shape[1] * shape[2] * row;
  return layout == Layout::kHeadsFirst ? RowStrides{all, shape[2] * row, row}
                                       : RowStrides{all, row, shape[1] * row};
}

// The same elements with heads and lengths exchanged, which is how they lie when the length comes first.
template <class T>
Tensor<T, 4> exchanged(const Tensor<T, 4>& tensor) {
  const Shape<4> shape = tensor.shape();
  Tensor<T, 4> result({shape[0], shape[2], shape[1], shape[3]});
  for_each_index(shape, [&](const Shape<4>& at) {
    result(at[0], at[2], at[1], at[3]) = tensor.view()[at];
  });
  return result;
}

// The head that a tensor has, for all heads of all sequences.
template <class T>
Tensor<T, 4> repeated(const Tensor<T, 4>& head, const Shape<4>& shape) {
  Tensor<T, 4> result(shape);
  for (std::int64_t i = 0; i < result.count(); i += head.count()) {
    std::copy(head.data(), head.data() + head.count(), result.data() + i);
  }
  return result;
}

// A problem in the memory of the device. H is the host's type of T.
template <class T, class H>
struct OnDevice {
  OnDevice(const Problem& problem, const Inputs& in)
      : layout(problem.layout),
        shape(problem.shape_of_q()),
        q(upload(in.q, shape)),
        k(upload(in.k, problem.shape_of_kv())),
        v(upload(in.v, problem.shape_of_kv())),
        o(element_count(shape)),
        lse(shape[0] * shape[1] * shape[2]) {
    const AttentionShape& s = problem.shape;
    const auto of_q = strides_of(shape, layout),
               of_kv = strides_of(problem.shape_of_kv(), layout);
    a = {q.data(),
         k.data(),
         v.data(),
         o.data(),
         lse.data(),
         of_q,
         of_kv,
         of_kv,
         of_q,
         static_cast<int>(s.batch),
         static_cast<int>(s.heads),
         static_cast<int>(s.kv_heads),
         static_cast<int>(s.length_q),
         static_cast<int>(s.length_k),
         static_cast<int>(s.head_dim),
         static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim))),
         problem.causal,
         make_dropout(problem.dropout, problem.seed)};
  }
  DeviceBuffer<T> upload(const Tensor<float, 4>& tensor,
                         const Shape<4>& whole) const {
    auto typed = converted<H>(tensor);
    if (typed.shape() == Shape<4>{1, 1, whole[2], whole[3]}) {
      typed = repeated(typed, whole);
    } else if (typed.shape() != whole) {
      throw std::invalid_argument(
          fmt::format("a tensor of shape {} for a problem with {}",
                      to_string(typed.shape()), to_string(whole)));
    }
    return DeviceBuffer<T>(layout == Layout::kHeadsFirst ? typed
                                                         : exchanged(typed));
  }
  Outputs outputs() const {
    auto result = layout == Layout::kHeadsFirst
                      ? o.template tensor<H, 4>(shape)
                      : exchanged(o.template tensor<H, 4>(
                            {shape[0], shape[2], shape[1], shape[3]}));
    return {converted<float>(result),
            lse.template tensor<float, 3>({shape[0], shape[1], shape[2]})};
  }

  Layout layout;
  Shape<4> shape;
  DeviceBuffer<T> q, k, v, o;
  DeviceBuffer<float> lse;
  Attention<T> a;
};

// A rung for one type: `start(attention)` takes what memory it needs beside inputs and outputs, and gives what
// launches it.
template <class T, class H, class Start>
Prepared prepare(const Problem& problem, const Inputs& in, Start start) {
  const auto device = std::make_shared<OnDevice<T, H>>(problem, in);
  const std::int64_t before = taken_bytes();
  const std::function<void()> work = start(device->a);
  return {[=] {
            (void)device;  // kept as long as this is
            work();
          },
          [=] { return device->outputs(); }, taken_bytes() - before};
}

}  // namespace
}  // namespace fa::FA_TARGET
