/// @file
/// What fa_forward_packed() does: it looks at what it is given, and launches a kernel for packed
/// sequences. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/interface/packed_checks.cuh"
#include "05_flash_forward/kernels/packed/01_list_of_slots.cuh"
#include "05_flash_forward/kernels/packed/02_ragged_maps.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

template <int d, class T>
void launch_forward_packed(const Attention<T>& a, const PackedSequences& sequences,
                           const fa_attention& given) {
  const Stream stream = stream_of(given);
  if (prefers_hopper() && can_use_packed_tma(a, sequences)) {
    check_workspace(given, sizeof(unsigned));
    launch_packed_persistent(a, sequences, stream, static_cast<unsigned*>(given.workspace));
    return;
  }
  require_gpu("fa_forward_packed", kNeedsMma.with_shared(EdgeMasksBlockFor<T, d>::shared_bytes));
  launch_packed<d>(a, sequences, stream);
}

}  // namespace
}  // namespace fa::FA_TARGET

using namespace fa::FA_TARGET;  // one source file for each library includes this

int fa_forward_packed(const fa_attention* given, const fa_packed* given_packed) {
  return guarded([&] {
    check_problem(given);
    check_packed("fa_forward_packed", *given, given_packed);
    const fa_packed& packed = *given_packed;
    const CurrentGpu gpu(checked_gpu(checked_call(*given, checked_cu_seqlens(packed))));
    check_cu_seqlens(*given, packed);
    with_16_bit_attention(*given, [&](const auto& a, auto d) {
      launch_forward_packed<decltype(d)::value>(a, sequences_of(*given, packed), *given);
    });
  });
}
