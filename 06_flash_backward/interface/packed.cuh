/// @file
/// What fa_backward_packed() does: it looks at what it is given, and launches the kernels for packed
/// sequences. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/interface/packed_checks.cuh"
#include "06_flash_backward/interface/gradient_checks.cuh"
#include "06_flash_backward/kernels/packed/01_list_of_slots.cuh"
#include "06_flash_backward/kernels/packed/02_ragged_maps.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

inline void check_packed_call(const fa_gradient* given, const fa_packed* packed) {
  check_gradient(given);
  check_packed("fa_backward_packed", given->attention, packed);
  if (given->deterministic != 0) refuse("deterministic is 1; fa_backward_packed allows 0");
}

// Where the copies of cu_seqlens and the lists of slots lie, of all 32-bit words of the workspace.
// Semaphores in any case: the strides, which decide on the kernels, are not looked at.
template <int d, class T>
std::int64_t words_before_lists(const AttentionGradient<T>& a, const PackedSequences& sequences) {
  return workspace_floats(with_slots(a, sequences), {d, true});
}
template <int d, class T>
std::size_t packed_workspace_bytes(const AttentionGradient<T>& a,
                                   const PackedSequences& sequences) {
  std::int64_t words = words_before_lists<d>(a, sequences);
  for (const PackedRows& rows : {sequences.q, sequences.k}) {
    words += rows.sequences + 1 + rows.slots();
  }
  return sizeof(float) * static_cast<std::size_t>(words);
}

// Copies cu_seqlens, and lists the sequences of its slots, to where `to` points. The kernels of a
// call wait for each other's parts of a sequence: all must see the same cu_seqlens, even if these
// change while they run.
inline __device__ void list_slots(const PackedRows& from, const PackedRows& to) {
  int* const copy = const_cast<int*>(to.cu_seqlens);
  for (int i = threadIdx.x; i <= from.sequences; i += blockDim.x) copy[i] = from.cu_seqlens[i];
  __syncthreads();
  const PackedRows unlisted{copy, to.sequences, to.tokens};
  for (int slot = threadIdx.x; slot < to.slots(); slot += blockDim.x) {
    const_cast<int*>(to.list)[slot] = unlisted.sequence_of(slot);
  }
}
__global__ void list_packed_slots(PackedSequences from, PackedSequences to) {
  launch_dependents();
  if (blockIdx.x == 0) list_slots(from.q, to.q);
  if (blockIdx.x == 1) list_slots(from.k, to.k);
}

// Launches it. Returns the sequences with copies and lists, which lie at a place of the workspace.
inline PackedSequences launch_list_slots(const PackedSequences& from, const int* place,
                                         const Stream& stream) {
  PackedSequences to = from;
  for (PackedRows* const rows : {&to.q, &to.k}) {
    rows->cu_seqlens = place;
    rows->list = place + rows->sequences + 1;
    place = rows->list + rows->slots();
  }
  launch(stream, list_packed_slots, {{2}, {1024}}, from, to);
  return to;
}

template <int d, class T>
void launch_gradient_packed(const AttentionGradient<T>& a, const PackedSequences& sequences,
                            const Stream& stream) {
  const DeviceProperties device = device_properties();
  if (prefers_hopper(device) && can_use_tma_backward(a) && can_use_packed_tma(a, sequences) &&
      has_ragged_strides(a.length_q, {a.d_o_strides, a.d_q_strides}) &&
      has_ragged_strides(a.length_k, {a.d_k_strides, a.d_v_strides})) {
    launch_backward_packed_tma<d>(a, sequences, stream);
    return;
  }
  require_gpu("fa_backward_packed", kNeedsMma.with_shared(sm_80_backward_bytes(d, false)));
  launch_backward_packed<d>(a, sequences, stream, device);
}

}  // namespace
}  // namespace fa::FA_TARGET

using namespace fa::FA_TARGET;  // one source file for each library includes this

size_t fa_backward_packed_workspace_bytes(const fa_gradient* given, const fa_packed* packed) {
  return guarded_bytes([&](std::size_t& bytes) {
    check_packed_call(given, packed);
    with_16_bit_gradient(*given, [&](const auto& a, auto d) {
      bytes =
          packed_workspace_bytes<decltype(d)::value>(a, sequences_of(given->attention, *packed));
    });
  });
}

int fa_backward_packed(const fa_gradient* given, const fa_packed* given_packed) {
  return guarded([&] {
    check_packed_call(given, given_packed);
    const fa_gradient& g = *given;
    const fa_packed& packed = *given_packed;
    const CurrentGpu gpu(checked_gpu(checked_call(g, checked_cu_seqlens(packed))));
    check_cu_seqlens(g.attention, packed);
    with_16_bit_gradient(g, [&](auto gradient, auto columns) {
      constexpr int d = decltype(columns)::value;
      const PackedSequences sequences = sequences_of(g.attention, packed);
      check_workspace_bytes(g.workspace_bytes, packed_workspace_bytes<d>(gradient, sequences));
      auto padded = with_slots(gradient, sequences);
      set_workspace(padded, static_cast<float*>(g.workspace), {d, true});
      padded.length_q = gradient.length_q;
      const Stream stream = stream_of(g.attention);
      const int* const lists =
          static_cast<int*>(g.workspace) + words_before_lists<d>(gradient, sequences);
      launch_gradient_packed<d>(padded, launch_list_slots(sequences, lists, stream), stream);
    });
  });
}
