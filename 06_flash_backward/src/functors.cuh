/// @file
/// The backward kernels with functors as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/src/device_functor.cuh"
#include "06_flash_backward/src/functor_launches.cuh"
#include "06_flash_backward/src/functors.hpp"
#include "06_flash_backward/src/gradient_rung.cuh"
#include "common/attention/dual.cuh"

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
        a{tensors.a, functor.spec()} {
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

// Row statistics and the accumulator of dQ, of which `a` has the pointers, and the kinds of tiles.
struct FunctorWorkspace {
  std::shared_ptr<DeviceBuffer<float>> rows;
  DeviceBuffer<TileKind> kinds;
  TileKind* data() { return kinds.data(); }
};

inline std::vector<backward::functors::Rung> functor_ladder() {
  constexpr auto columns = kPow2<64, 128>;
  const Blocks blocks{{{32, 128, 2, 0, 64}, {64, 128, 2, 0, 128}}, bytes_by(columns, [](auto d) {
                        return swizzled_backward_bytes<FunctorBackwardTile<d>, half>();
                      })};
  return {
      rung_row<backward::functors::Rung, FunctorGradientOnDevice, half, bfloat16>(
          "01_score_functor", "gradients of masks and scores by functors")
          .columns(columns)
          .no_dropout()
          .any_order()
          .needs(kNeedsMma)
          .blocks(blocks)
          .launch(
              [](auto& a, auto d) {
                return std::make_shared<FunctorWorkspace>(
                    FunctorWorkspace{DqAccumulator{}(a, d),
                                     DeviceBuffer<TileKind>(backward_functor_workspace<d>(a))});
              },
              [](auto& a, auto on) {
                if (a.spec.dual) {
                  launch_backward_score_functor<on.d>(
                      a,
                      Masked<Window, WithDual<SoftCap>>(window_of(a.spec, a.length_k - a.length_q),
                                                        WithDual<SoftCap>(SoftCap(a.spec.cap))),
                      on, on.workspace);
                  return;
                }
                launch_backward_functor<on.d>(a, a.spec, on, on.workspace);
              }),
      rung_row<backward::functors::Rung, FunctorGradientOnDevice, bfloat16>(
          "02_hopper", "the same with wgmma, TMA and producers")
          .columns(kAny<128>)
          .hopper()
          .any_order()
          .blocks({{{64, 128, 2, 0, 128}}})
          .launch(
              [](auto& a, auto d) {
                return std::make_shared<FunctorWorkspace>(FunctorWorkspace{
                    DqSemaphores{}(a, d), DeviceBuffer<TileKind>(hopper_functor_workspace(a))});
              },
              [](auto& a, auto on) {
                launch_backward_functor_hopper(a, a.spec, on, on.workspace);
              }),
  };
}

}  // namespace

/// A backend with the kernels.
inline backward::functors::Backend backend(const std::string& kind) {
  return backend_with<backward::functors::Backend>(kind, functor_ladder());
}

}  // namespace fa::FA_TARGET
