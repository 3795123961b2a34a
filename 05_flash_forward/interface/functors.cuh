/// @file
/// What fa_forward_functor() does: it looks at what it is given, and launches the kernel with the
/// functor. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include <algorithm>

#include "05_flash_forward/interface/functor_checks.cuh"
#include "05_flash_forward/kernels/functors/01_score_functor.cuh"
#include "05_flash_forward/kernels/functors/02_persistent.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

inline void check_functor_call(const fa_attention* given, const fa_functor* functor) {
  check_problem(given);
  check_functor_problem("fa_forward_functor", *given);
  check_functor(functor);
  if (needs_map(*functor)) check_map(*given);
}

// Calls work(attention) with the attention for the kernels.
template <class Work>
void with_functor_attention(const fa_attention& a, Work work) {
  with_attention(a, [&](const auto& attention, const char*) {
    if constexpr (sizeof(*attention.q) == 2) work(attention);
  });
}

// Whether the kernel for Hopper is taken.
template <class T>
bool takes_persistent(const Attention<T>& a) {
  return can_run(device_properties(), kNeedsHopper) && can_use_tma(a);
}

// The tile counter, and behind it the larger map of the kernels: which one is taken depends on
// strides, too.
constexpr std::size_t kCounterBytes = 16;
template <class T>
std::size_t functor_workspace_bytes(const Attention<T>& a, const fa_functor& functor) {
  if (!needs_map(functor)) return kCounterBytes;
  const std::int64_t of_sm_80 = with_head_dim<64, 128>(
      a.head_dim, [&](auto d) { return score_functor_workspace<decltype(d)::value>(a); });
  return kCounterBytes +
         static_cast<std::size_t>(std::max(of_sm_80, persistent_functor_workspace(a)));
}

inline std::size_t bytes_of_functor_workspace(const fa_attention* given,
                                              const fa_functor* functor) {
  std::size_t bytes = 0;
  guarded([&] {
    check_functor_call(given, functor);
    with_functor_attention(*given,
                           [&](const auto& a) { bytes = functor_workspace_bytes(a, *functor); });
  });
  return bytes;
}

inline int forward_functor(const fa_attention* given, const fa_functor* given_functor) {
  return guarded([&] {
    check_functor_call(given, given_functor);
    const fa_functor& functor = *given_functor;
    AttentionMemory memory = checked_memory(*given);
    const auto tables = checked_tables(*given, functor);
    memory.inputs.insert(memory.inputs.end(), tables.begin(), tables.end());
    const bool has_workspace = given->workspace != nullptr || needs_map(functor);
    if (has_workspace) {
      memory.outputs.push_back(
          checked_bytes("workspace", given->workspace, 16, given->workspace_bytes));
    }
    check_overlaps(memory.outputs, memory.inputs);
    const CurrentGpu gpu(common_gpu(
        {{"q", given->q}, {"k", given->k}, {"v", given->v}, {"o", given->o}, {"lse", given->lse}}));
    if (!can_run(device_properties(), kNeedsMma)) {
      throw std::runtime_error("fa_forward_functor " + missing(device_properties(), kNeedsMma));
    }
    with_functor_attention(*given, [&](const auto& a) {
      const std::size_t least = functor_workspace_bytes(a, functor);
      if (has_workspace && given->workspace_bytes < least) {
        refuse("workspace_bytes is {}; allowed are {} and more", given->workspace_bytes, least);
      }
      const Stream stream = stream_of(*given);
      auto* const counter = static_cast<unsigned*>(given->workspace);
      auto* const kinds =
          has_workspace ? static_cast<TileKind*>(given->workspace) + kCounterBytes : nullptr;
      const FunctorSpec spec = functor_spec(*given, functor);
      if (takes_persistent(a)) {
        launch_functor_persistent(a, spec, stream, kinds, counter);
        return;
      }
      with_head_dim<64, 128>(
          a.head_dim, [&](auto d) { launch_functor<decltype(d)::value>(a, spec, stream, kinds); });
    });
  });
}

}  // namespace
}  // namespace fa::FA_TARGET
