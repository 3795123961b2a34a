/// @file
/// The kernels with functors as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/src/functors.hpp"
#include "common/attention/host/step_row.cuh"
#include "steps/functor.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// A problem with a functor in the memory of the device.
template <class T>
struct FunctorOnDevice {
  struct Tensors : Attention<T> {
    FunctorSpec spec;
  };
  FunctorOnDevice(const Problem& problem, const flash::functors::FunctorInputs& in)
      : tensors(problem, in), functor(in.spec, in.tables), a{tensors.a, functor.spec} {}
  attention::Outputs result() const { return tensors.result(); }

  DeviceAttention<T> tensors;
  DeviceFunctor functor;
  Tensors a;
};

}  // namespace

/// A backend with the kernels.
static flash::functors::Backend backend(const std::string& kind) {
  return backend_with<flash::functors::Backend>(
      kind, ladder_of<kFunctorSteps>([](auto number) {
        return functor_step(number, RowMaker<flash::functors::LadderStep, FunctorOnDevice>{});
      }));
}

}  // namespace fa::FA_TARGET
