/// @file
/// What fa_forward_functor() does: it looks at what it is given, and launches the kernel with the
/// functor. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/interface/functor_checks.cuh"
#include "05_flash_forward/kernels/functors/01_score_functor.cuh"
#include "05_flash_forward/kernels/functors/02_persistent.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

inline void check_functor_call(const fa_attention* given, const fa_functor* functor) {
  check_problem(given);
  check_functor_problem("fa_forward_functor", *given);
  check_functor(*given, functor);
}

// Whether the kernel for Hopper is taken.
template <class T>
bool takes_persistent(const Attention<T>& a) {
  return can_run(device_properties(), kNeedsHopper) && can_use_tma(a);
}

// The tile counter, and behind it the map of the kernel that is taken.
constexpr std::size_t kCounterBytes = 16;
template <int d, class T>
std::size_t functor_workspace_bytes(const Attention<T>& a, const fa_functor& functor) {
  if (!needs_map(functor)) return kCounterBytes;
  return kCounterBytes + static_cast<std::size_t>(takes_persistent(a)
                                                      ? persistent_functor_workspace(a)
                                                      : score_functor_workspace<d>(a));
}

}  // namespace
}  // namespace fa::FA_TARGET

using namespace fa::FA_TARGET;  // one source file for each library includes this

size_t fa_functor_workspace_bytes(const fa_attention* given, const fa_functor* functor) {
  return guarded_bytes([&](std::size_t& bytes) {
    check_functor_call(given, functor);
    with_16_bit_attention(*given, [&](const auto& a, auto d) {
      bytes = functor_workspace_bytes<decltype(d)::value>(a, *functor);
    });
  });
}

int fa_forward_functor(const fa_attention* given, const fa_functor* given_functor) {
  return guarded([&] {
    check_functor_call(given, given_functor);
    const fa_functor& functor = *given_functor;
    const bool has_workspace = given->workspace != nullptr || needs_map(functor);
    const CurrentGpu gpu(
        checked_gpu(checked_call(*given, checked_tables(*given, functor), needs_map(functor))));
    require_gpu("fa_forward_functor", fa::kNeedsMma);
    with_16_bit_attention(*given, [&](const auto& a, auto columns) {
      constexpr int d = decltype(columns)::value;
      if (has_workspace) {
        check_workspace_bytes(given->workspace_bytes, functor_workspace_bytes<d>(a, functor));
      }
      const Stream stream = stream_of(*given);
      auto* const counter = static_cast<unsigned*>(given->workspace);
      auto* const kinds =
          has_workspace ? static_cast<TileKind*>(given->workspace) + kCounterBytes : nullptr;
      const fa::FunctorSpec spec = functor_spec(*given, functor);
      if (takes_persistent(a)) {
        launch_functor_persistent(a, spec, stream, kinds, counter);
      } else {
        launch_functor<d>(a, spec, stream, kinds);
      }
    });
  });
}
