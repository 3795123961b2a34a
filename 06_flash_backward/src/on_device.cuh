/// @file
/// A problem in the memory of a device, and what makes a rung from a launch function.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "05_flash_forward/src/device_tensor.cuh"
#include "06_flash_backward/kernels/workspace.cuh"
#include "06_flash_backward/src/backend.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

using backward::Gradients;
using backward::Inputs;
using backward::Prepared;
using backward::Rung;
using flash::Problem;
using flash::Tiles;
using flash::Type;

// A problem in the memory of the device.
template <class T>
struct OnDevice {
  OnDevice(const Problem& problem, const Inputs& in)
      : q(in.forward.q, problem.shape_of_q(), problem.layout),
        k(in.forward.k, problem.shape_of_kv(), problem.layout),
        v(in.forward.v, problem.shape_of_v(), problem.layout),
        o(in.o, problem.shape_of_o(), problem.layout),
        d_o(in.d_o, problem.shape_of_o(), problem.layout),
        d_q(problem.shape_of_q(), problem.layout),
        d_k(problem.shape_of_kv(), problem.layout),
        d_v(problem.shape_of_v(), problem.layout),
        lse(repeated(in.lse, problem.shape)) {
    static_cast<Attention<T>&>(a) = attention_of<T>(problem);
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.d_o = d_o.data();
    a.d_q = d_q.data();
    a.d_k = d_k.data();
    a.d_v = d_v.data();
    a.d_o_strides = a.o_strides;
    a.d_q_strides = a.q_strides;
    a.d_k_strides = a.k_strides;
    a.d_v_strides = a.v_strides;
  }
  // The LSE of one head of one sequence, for all of them.
  static Tensor<float, 3> repeated(const Tensor<float, 3>& lse,
                                   const AttentionShape& shape) {
    Tensor<float, 3> result({shape.batch, shape.heads, shape.length_q});
    for (std::int64_t i = 0; i < result.count(); i += lse.count()) {
      std::copy(lse.data(), lse.data() + lse.count(), result.data() + i);
    }
    return result;
  }

  DeviceTensor<T> q, k, v, o, d_o, d_q, d_k, d_v;
  DeviceBuffer<float> lse;
  AttentionGradient<T> a{};
};

// A rung for one type: `start(gradient)` allocates what memory it needs beside inputs and results,
// and returns what launches it.
template <class T, class Start>
Prepared prepare(const Problem& problem, const Inputs& in, Start start) {
  const auto device = std::make_shared<OnDevice<T>>(problem, in);
  const std::int64_t before = taken_bytes();
  const std::function<void()> work = start(device->a);
  return {
      [=] { work(); },
      [=]() -> Gradients {
        return {device->d_q.host(), device->d_k.host(), device->d_v.host()};
      },
      taken_bytes() - before};
}

// The same for the problem's type.
template <class Start>
Prepared prepare_16_bit(const Problem& problem, const Inputs& in,
                        Start start) {
  return problem.type == Type::kFloat16
             ? prepare<half>(problem, in, start)
             : prepare<bfloat16>(problem, in, start);
}

// Allocates a workspace for `work(gradient)`.
template <class T, class Work>
std::function<void()> with_workspace(AttentionGradient<T> a,
                                     const Workspace& what, Work work) {
  const auto memory =
      std::make_shared<DeviceBuffer<float>>(workspace_floats(a, what));
  set_workspace(a, memory->data(), what);
  return [=] {
    (void)memory;  // kept as long as this is
    work(a);
  };
}

// What a rung takes at once.
struct Limits {
  std::int64_t max_head_dim;
  std::vector<Tiles> tiles;
  std::function<std::size_t(std::int64_t)> shared_bytes{};
  std::int64_t min_head_dim = 8;
};

// A rung for float32; `start` as for prepare().
template <class Start>
Rung float_rung(const char* name, const char* idea, bool same_bits,
                Limits limits, Start start, const Needs& needs = {}) {
  return {{name,
           idea,
           {Type::kFloat32},
           limits.max_head_dim,
           true,
           8,
           needs,
           limits.shared_bytes,
           limits.tiles},
          same_bits,
          [=](const Problem& problem, const Inputs& in) {
            return prepare<float>(problem, in, start);
          }};
}

// A rung for both 16-bit types on tensor cores.
template <class Start>
Rung mma_rung(const char* name, const char* idea, bool same_bits,
              Limits limits, Start start) {
  return {{name,
           idea,
           {Type::kFloat16, Type::kBFloat16},
           limits.max_head_dim,
           true,
           limits.min_head_dim,
           kNeedsMma,
           limits.shared_bytes,
           limits.tiles},
          same_bits,
          [=](const Problem& problem, const Inputs& in) {
            return prepare_16_bit(problem, in, start);
          }};
}

// A rung with Hopper's instructions, which has no dropout.
template <class Start>
Rung hopper_rung(const char* name, const char* idea, bool same_bits,
                 Limits limits, Start start) {
  const bool wide = limits.min_head_dim > 128;
  Rung rung = mma_rung(name, idea, same_bits, std::move(limits), start);
  rung.supports_head_dim_v = wide;
  rung.supports_dropout = false;
  rung.needs = kNeedsHopper;
  return rung;
}

}  // namespace
}  // namespace fa::FA_TARGET
