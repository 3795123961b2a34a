/// @file
/// The ladder of kernels in 8 bits as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/src/fp8_kernels.hpp"
#include "common/attention/host/step_row.cuh"
#include "steps/fp8.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// Tensors of 8 bits on the device, and their scales.
template <class T>
struct Fp8OnDevice {
  Fp8OnDevice(const Problem& problem, const flash::fp8::Fp8Inputs& in)
      : shape(problem.shape_of_o()),
        q(converted<float>(in.q.codes), problem.shape_of_q(), problem.layout),
        k(converted<float>(in.k.codes), problem.shape_of_kv(), problem.layout),
        v(converted<float>(in.v.codes), problem.shape_of_kv(), problem.layout),
        o(shape, problem.layout),
        lse(shape[0] * shape[1] * shape[2]),
        q_descale(scales(problem, in.q)),
        k_descale(scales(problem, in.k)),
        v_descale(scales(problem, in.v)) {
    static_cast<Attention<T>&>(a) = attention_of<T>(problem);
    a.q8 = q.data();
    a.k8 = k.data();
    a.v8 = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.q_descale = q_descale.data();
    a.k_descale = k_descale.data();
    a.v_descale = v_descale.data();
  }
  attention::Outputs result() const {
    return {o.host(), lse.template tensor<float, 3>({shape[0], shape[1], shape[2]})};
  }

  Shape<4> shape;              // of o
  DeviceTensor<e4m3> q, k, v;  // in the problem's layout
  DeviceTensor<T> o;
  DeviceBuffer<float> lse;  // [batch, heads, length_q]
  DeviceBuffer<float> q_descale, k_descale, v_descale;
  Fp8Attention a{};

 private:
  // [batch, kv_heads]: of each group that of its first head, or of the only head.
  static Tensor<float, 2> scales(const Problem& problem, const flash::fp8::Quantized<>& x) {
    const AttentionShape& s = problem.shape;
    Tensor<float, 2> result({s.batch, s.kv_heads});
    for_each_index(result.shape(), [&](const Shape<2>& at) {
      const std::int64_t group = x.scales.size(1) / s.kv_heads;
      result.view()[at] =
          x.scales.count() == 1 ? *x.scales.data() : x.scales(at[0], at[1] * group, 0);
    });
    return result;
  }
};

using Fp8Row = RowMaker<flash::fp8::LadderStep, Fp8OnDevice>;

}  // namespace

/// A backend with the kernels in 8 bits.
static flash::fp8::Backend backend(const std::string& kind) {
  return backend_with<flash::fp8::Backend>(
      kind, ladder_of<kFp8Steps>([](auto number) { return fp8_step(number, Fp8Row{}); }));
}

}  // namespace fa::FA_TARGET
