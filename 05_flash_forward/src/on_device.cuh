/// @file
/// Prepares a launch on a problem in the memory of a device: for all that offer kernels as rungs.
#pragma once

#include <functional>
#include <memory>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/src/device_tensor.cuh"

namespace fa::FA_TARGET {
namespace {  // source files for one backend include this

using flash::Inputs;
using flash::Prepared;
using flash::Problem;

// A rung for one type: `start(attention)` takes what memory it needs beside inputs and outputs, and
// gives what launches it.
template <class T, class Start>
Prepared prepare(const Problem& problem, const Inputs& in, Start start) {
  const auto device = std::make_shared<DeviceAttention<T>>(problem, in);
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
