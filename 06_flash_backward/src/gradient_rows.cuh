/// @file
/// A problem of the backward pass in the memory of a device, and the rows of this lesson's steps: see common/attention/host/step_row.cuh.
#pragma once

#include <algorithm>

#include "06_flash_backward/kernels/gradient.cuh"
#include "06_flash_backward/src/backend.hpp"
#include "common/attention/host/step_row.cuh"

namespace fa::FA_TARGET {

/// The gradients of a problem whose tensors lie in its layout, without pointers.
template <class T>
AttentionGradient<T> gradient_of(const attention::Problem& problem) {
  AttentionGradient<T> a{};
  static_cast<Attention<T>&>(a) = attention_of<T>(problem);
  a.d_o_strides = a.o_strides;
  a.d_q_strides = a.q_strides;
  a.d_k_strides = a.k_strides;
  a.d_v_strides = a.v_strides;
  return a;
}

namespace {  // one source file for each backend includes this

using backward::LadderStep;

// A problem in the memory of the device.
template <class T>
struct DeviceGradient {
  DeviceGradient(const Problem& problem, const backward::Inputs& in)
      : q(in.forward.q, problem.shape_of_q(), problem.layout),
        k(in.forward.k, problem.shape_of_kv(), problem.layout),
        v(in.forward.v, problem.shape_of_v(), problem.layout),
        o(in.o, problem.shape_of_o(), problem.layout),
        d_o(in.d_o, problem.shape_of_o(), problem.layout),
        d_q(problem.shape_of_q(), problem.layout),
        d_k(problem.shape_of_kv(), problem.layout),
        d_v(problem.shape_of_v(), problem.layout),
        lse(repeated(in.lse, problem.shape)),
        a(gradient_of<T>(problem)) {
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.d_o = d_o.data();
    a.d_q = d_q.data();
    a.d_k = d_k.data();
    a.d_v = d_v.data();
  }
  // What the kernels have written, on the host.
  backward::Gradients result() const { return {d_q.host(), d_k.host(), d_v.host()}; }
  // The LSE of one head of one sequence, for all of them.
  static Tensor<float, 3> repeated(const Tensor<float, 3>& lse, const AttentionShape& shape) {
    Tensor<float, 3> result({shape.batch, shape.heads, shape.length_q});
    for (std::int64_t i = 0; i < result.count(); i += lse.count()) {
      std::copy(lse.data(), lse.data() + lse.count(), result.data() + i);
    }
    return result;
  }

  DeviceTensor<T> q, k, v, o, d_o, d_q, d_k, d_v;
  DeviceBuffer<float> lse;
  AttentionGradient<T> a;
};

}  // namespace

/// What a step is given to make its row.
using GradientRow = RowMaker<LadderStep, DeviceGradient>;

}  // namespace fa::FA_TARGET
