/// @file
/// What fa_backward_functor() does: it looks at what it is given, and launches the kernels with the
/// functor. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/interface/functor_checks.cuh"
#include "06_flash_backward/interface/gradient_checks.cuh"
#include "06_flash_backward/kernels/functors/01_score_functor.cuh"
#include "06_flash_backward/kernels/functors/02_hopper.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

inline void check_functor_call(const fa_gradient* given, const fa_functor* functor) {
  check_gradient(given);
  check_functor_problem("fa_backward_functor", given->attention);
  if (given->deterministic != 0) refuse("deterministic is 1; fa_backward_functor allows 0");
  check_functor(given->attention, functor);
}

// Whether the kernel for Hopper is taken, which is compiled for bfloat16 and 128 columns.
template <class T>
bool takes_hopper(const AttentionGradient<T>& a) {
  return prefers_hopper(device_properties()) && can_use_tma_backward(a);
}

// Row statistics and the accumulator of dQ with its semaphores, and behind them the kinds of tiles;
// the larger one where strides say which kernel is taken.
template <int d, class T>
std::size_t functor_row_bytes(const AttentionGradient<T>& a) {
  return sizeof(float) * static_cast<std::size_t>(workspace_floats(a, {d, true}));
}
template <int d, class T>
std::size_t functor_workspace_bytes(const AttentionGradient<T>& a, const fa_functor& functor) {
  if (!needs_map(functor)) return functor_row_bytes<d>(a);
  return functor_row_bytes<d>(a) +
         static_cast<std::size_t>(
             std::max(backward_functor_workspace<d>(a), hopper_functor_workspace(a)));
}

// The gradients of a functor's parameters, which are written, as they are wanted.
inline std::vector<attention::MemoryRegion> parameter_gradients(const fa_attention& a,
                                                                const fa_functor& functor,
                                                                const float* d_bias,
                                                                const float* d_sinks) {
  std::vector<attention::MemoryRegion> regions;
  const auto add = [&](const char* name, const float* pointer, bool exists) {
    if (pointer == nullptr) return;
    if (!exists) refuse("{} is given, and a functor of kind {} has none", name, functor.kind);
    const std::int64_t count = tables_of(a, functor).front().count;
    regions.push_back(checked_bytes(name, pointer, alignof(float),
                                    sizeof(float) * static_cast<std::uint64_t>(count)));
  };
  add("d_bias", d_bias, functor.kind == FA_FUNCTOR_BIAS);
  add("d_sinks", d_sinks, functor.kind == FA_FUNCTOR_SINKS);
  return regions;
}

}  // namespace
}  // namespace fa::FA_TARGET

using namespace fa::FA_TARGET;  // one source file for each library includes this

size_t fa_backward_functor_workspace_bytes(const fa_gradient* given, const fa_functor* functor) {
  return guarded_bytes([&](std::size_t& bytes) {
    check_functor_call(given, functor);
    with_16_bit_gradient(*given, [&](const auto& a, auto d) {
      bytes = functor_workspace_bytes<decltype(d)::value>(a, *functor);
    });
  });
}

int fa_backward_functor(const fa_gradient* given, const fa_functor* given_functor, float* d_bias,
                        float* d_sinks) {
  return guarded([&] {
    check_functor_call(given, given_functor);
    const fa_gradient& g = *given;
    const fa_functor& functor = *given_functor;
    const CurrentGpu gpu(
        checked_gpu(checked_call(g, checked_tables(g.attention, functor),
                                 parameter_gradients(g.attention, functor, d_bias, d_sinks))));
    with_16_bit_gradient(g, [&](auto gradient, auto columns) {
      constexpr int d = decltype(columns)::value;
      using T = std::remove_pointer_t<decltype(gradient.o)>;
      require_gpu("fa_backward_functor",
                  fa::kNeedsMma.with_shared(swizzled_backward_bytes<FunctorBackwardTile<d>, T>()));
      check_workspace_bytes(g.workspace_bytes, functor_workspace_bytes<d>(gradient, functor));
      set_workspace(gradient, static_cast<float*>(g.workspace), {d, true});
      auto* const kinds = reinterpret_cast<TileKind*>(static_cast<char*>(g.workspace) +
                                                      functor_row_bytes<d>(gradient));
      fa::FunctorSpec spec = functor_spec(g.attention, functor);
      spec.d_bias = d_bias;
      spec.d_sinks = d_sinks;
      if constexpr (std::is_same_v<T, bfloat16> && d == 128) {
        if (takes_hopper(gradient)) {
          launch_backward_functor_hopper(gradient, spec, stream_of(g.attention), kinds);
          return;
        }
      }
      launch_backward_functor<d>(gradient, spec, stream_of(g.attention), kinds);
    });
  });
}
