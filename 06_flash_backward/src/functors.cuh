/// @file
/// The backward kernels with functors as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include "06_flash_backward/src/functors.hpp"
#include "06_flash_backward/src/gradient_rows.cuh"
#include "steps/backwardfunctor.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// A problem with a functor in the memory of the device, and the gradients of its parameters.
template <class T>
struct FunctorGradientOnDevice {
  struct Tensors : AttentionGradient<T> {
    FunctorSpec spec;
  };
  FunctorGradientOnDevice(const Problem& problem, const backward::functors::FunctorInputs& in)
      : tensors(problem, in),
        functor(in.spec, in.tables),
        d_bias(static_cast<std::int64_t>(in.tables.bias.size())),
        d_sinks(static_cast<std::int64_t>(in.tables.sinks.size())),
        a{tensors.a, functor.spec} {
    d_bias.zero();
    a.spec.d_bias = d_bias.data();
    a.spec.d_sinks = d_sinks.data();
  }
  backward::functors::FunctorGradients result() const {
    return {tensors.result(), d_bias.template tensor<float, 1>({d_bias.count()}),
            d_sinks.template tensor<float, 1>({d_sinks.count()})};
  }

  DeviceGradient<T> tensors;
  DeviceFunctor functor;
  DeviceBuffer<float> d_bias, d_sinks;
  Tensors a;
};

}  // namespace

/// A backend with the kernels.
static backward::functors::Backend backend(const std::string& kind) {
  return backend_with<backward::functors::Backend>(
      kind, ladder_of<kBackwardFunctorSteps>([](auto number) {
        return backward_functor_step(
            number, RowMaker<backward::functors::LadderStep, FunctorGradientOnDevice>{});
      }));
}

}  // namespace fa::FA_TARGET
