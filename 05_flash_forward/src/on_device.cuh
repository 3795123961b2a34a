/// @file
/// A problem in the memory of a device, and what launches a kernel on it: for all that offer
/// kernels as rungs.
#pragma once

#include <functional>
#include <memory>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/src/device_tensor.cuh"

namespace fa::FA_TARGET {
namespace {  // source files for one backend include this

using flash::Inputs;
using flash::Outputs;
using flash::Prepared;
using flash::Problem;

// A problem in the memory of the device.
template <class T>
struct OnDevice {
  OnDevice(const Problem& problem, const Inputs& in)
      : shape(problem.shape_of_q()),
        q(in.q, shape, problem.layout),
        k(in.k, problem.shape_of_kv(), problem.layout),
        v(in.v, problem.shape_of_kv(), problem.layout),
        o(shape, problem.layout),
        lse(shape[0] * shape[1] * shape[2]),
        a(attention_of<T>(problem)) {
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
  }
  Outputs outputs() const {
    return {o.host(),
            lse.template tensor<float, 3>({shape[0], shape[1], shape[2]})};
  }

  Shape<4> shape;
  DeviceTensor<T> q, k, v, o;
  DeviceBuffer<float> lse;
  Attention<T> a;
};

// A rung for one type: `start(attention)` takes what memory it needs beside inputs and outputs, and
// gives what launches it.
template <class T, class Start>
Prepared prepare(const Problem& problem, const Inputs& in, Start start) {
  const auto device = std::make_shared<OnDevice<T>>(problem, in);
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
