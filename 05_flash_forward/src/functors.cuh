/// @file
/// The kernels with functors as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/src/device_functor.cuh"
#include "05_flash_forward/src/functor_launches.cuh"
#include "05_flash_forward/src/functors.hpp"
#include "common/attention/host/rung_row.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// A problem with a functor in the memory of the device.
template <class T>
struct FunctorOnDevice {
  struct Tensors : Attention<T> {
    FunctorSpec spec;
  };
  FunctorOnDevice(const Problem& problem, const flash::functors::FunctorInputs& in)
      : tensors(problem, in), functor(in.spec, in.tables), a{tensors.a, functor.spec()} {}
  attention::Outputs result() const { return tensors.result(); }

  DeviceAttention<T> tensors;
  DeviceFunctor functor;
  Tensors a;
};

// The kinds of tiles, and a tile counter, which is 0.
struct PersistentFunctorWorkspace {
  explicit PersistentFunctorWorkspace(std::int64_t tiles) : kinds(tiles), counter(1) {
    counter.zero();
  }
  PersistentFunctorWorkspace* data() { return this; }

  DeviceBuffer<TileKind> kinds;
  DeviceBuffer<unsigned> counter;
};

inline std::vector<flash::functors::Rung> functor_ladder() {
  using flash::functors::Rung;
  constexpr auto columns = kPow2<64, 128>;
  const Blocks blocks{{{128, 64, 0, 2, 64}, {128, 48, 0, 2, 128}}, bytes_by(columns, [](auto d) {
                        return pipeline_bytes<FunctorTile<d>, half>();
                      })};
  return {
      rung_row<Rung, FunctorOnDevice, half, bfloat16>("01_score_functor",
                                                      "masks and scores by functors")
          .columns(columns)
          .no_dropout()
          .needs(kNeedsMma)
          .blocks(blocks)
          .launch(
              [](auto& a, auto d) {
                return std::make_shared<DeviceBuffer<TileKind>>(score_functor_workspace<d>(a));
              },
              [](auto& a, auto on) { launch_functor<on.d>(a, a.spec, on, on.workspace); }),
      rung_row<Rung, FunctorOnDevice, bfloat16>("02_persistent", "functors in persistent blocks")
          .columns(kAny<128>)
          .hopper()
          .blocks({{{128, 128, 0, 2, 128, true}}})
          .launch(
              [](auto& a, auto) {
                return std::make_shared<PersistentFunctorWorkspace>(
                    persistent_functor_workspace(a));
              },
              [](auto& a, auto on) {
                launch_functor_persistent(a, a.spec, on, on.workspace->kinds.data(),
                                          on.workspace->counter.data());
              }),
  };
}

}  // namespace

/// A backend with the kernels.
inline flash::functors::Backend backend(const std::string& kind) {
  return backend_with<flash::functors::Backend>(kind, functor_ladder());
}

}  // namespace fa::FA_TARGET
