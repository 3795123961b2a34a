/// @file
/// What fa_forward_functor() does: it looks at what it is given, and launches the kernel with the
/// functor. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/interface/functor_checks.cuh"
#include "05_flash_forward/kernels/functors/01_score_functor.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

inline void check_functor_call(const fa_attention* given, const fa_functor* functor) {
  check_problem(given);
  check_functor_problem("fa_forward_functor", *given);
  check_functor(functor);
  if (needs_map(*functor)) check_map(*given);
}

// Calls work(attention, d) with the attention for the kernels and the columns of a kernel.
template <class Work>
void with_functor_attention(const fa_attention& a, Work work) {
  with_attention(a, [&](const auto& attention, const char*) {
    if constexpr (sizeof(*attention.q) == 2) {
      with_head_dim<64, 128>(a.head_dim, [&](auto d) { work(attention, d); });
    }
  });
}

inline std::size_t bytes_of_functor_workspace(const fa_attention* given,
                                              const fa_functor* functor) {
  std::size_t bytes = 0;
  guarded([&] {
    check_functor_call(given, functor);
    if (!needs_map(*functor)) return;
    with_functor_attention(*given, [&](const auto& a, auto d) {
      bytes = static_cast<std::size_t>(score_functor_workspace<decltype(d)::value>(a));
    });
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
    if (needs_map(functor)) {
      memory.outputs.push_back(
          checked_bytes("workspace", given->workspace, 1, given->workspace_bytes));
    }
    check_overlaps(memory.outputs, memory.inputs);
    const CurrentGpu gpu(common_gpu(
        {{"q", given->q}, {"k", given->k}, {"v", given->v}, {"o", given->o}, {"lse", given->lse}}));
    if (!can_run(device_properties(), kNeedsMma)) {
      throw std::runtime_error("fa_forward_functor " + missing(device_properties(), kNeedsMma));
    }
    with_functor_attention(*given, [&](const auto& a, auto columns) {
      constexpr int d = decltype(columns)::value;
      const auto least = static_cast<std::size_t>(score_functor_workspace<d>(a));
      if (needs_map(functor) && given->workspace_bytes < least) {
        refuse("workspace_bytes is {}; allowed are {} and more", given->workspace_bytes, least);
      }
      with_functor(functor_spec(*given, functor), a.length_q, a.length_k, [&](const auto& f) {
        launch_score_functor<d>(a, f, stream_of(*given), static_cast<TileKind*>(given->workspace));
      });
    });
  });
}

}  // namespace
}  // namespace fa::FA_TARGET
