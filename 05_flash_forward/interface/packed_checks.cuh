/// @file
/// How the C interfaces of lessons 05 and 06 check an fa_packed, and make of it what the kernels are
/// given. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include <vector>

#include "05_flash_forward/interface/checks.cuh"
#include "common/attention/packed.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

// The sequences for the kernels.
inline PackedSequences sequences_of(const fa_attention& a, const fa_packed& packed) {
  const auto sequences = static_cast<int>(packed.sequences);
  return {{packed.cu_seqlens_q, sequences, static_cast<int>(a.length_q)},
          {packed.cu_seqlens_k, sequences, static_cast<int>(a.length_k)}};
}

// What functions of packed sequences do not have, and the numbers of an fa_packed.
inline void check_packed(const char* function, const fa_attention& a, const fa_packed* given) {
  check_16_bit_problem(function, a);
  if (a.batch != 1) refuse("batch is {}; {} allows 1", a.batch, function);
  check_struct("fa_packed", given);
  check_size("sequences", given->sequences, kMaxGrid);
  check_flag("check", given->check);
  const PackedSequences sequences = sequences_of(a, *given);
  // Blocks of the smallest tiles are counted by ints.
  const std::int64_t slots =
      std::max(sequences.q.slots() * a.heads, sequences.k.slots() * a.kv_heads);
  const std::int64_t most = std::numeric_limits<int>::max() / (kSlotRows / 16);
  if (slots > most) {
    refuse("{} tiles of {} rows in {} sequences and all heads; {} allows {}", slots, kSlotRows,
           given->sequences, function, most);
  }
}

// Where the elements of cu_seqlens are.
inline std::vector<attention::MemoryRegion> checked_cu_seqlens(const fa_packed& packed) {
  const auto bytes = sizeof(std::int32_t) * static_cast<std::uint64_t>(packed.sequences + 1);
  return {checked_bytes("cu_seqlens_q", packed.cu_seqlens_q, alignof(std::int32_t), bytes),
          checked_bytes("cu_seqlens_k", packed.cu_seqlens_k, alignof(std::int32_t), bytes)};
}

// Reads cu_seqlens from the memory of the device and checks them.
inline std::vector<std::int32_t> check_cu_seqlens(const char* name, const std::int32_t* on_device,
                                                  std::int64_t sequences, std::int64_t tokens,
                                                  const char* length) {
  auto cu = device_integers(on_device, sequences + 1);
  if (cu.front() != 0) refuse("{}[0] is {}; allowed is 0", name, cu.front());
  for (std::size_t i = 1; i < cu.size(); ++i) {
    if (cu[i] < cu[i - 1]) {
      refuse("{}[{}] is {}; allowed are {} and more, the element before it", name, i, cu[i],
             cu[i - 1]);
    }
  }
  if (cu.back() != tokens) {
    refuse("{}[{}] is {}; allowed is {}, which is {}", name, sequences, cu.back(), tokens, length);
  }
  return cu;
}
// The same of packed sequences, if a call asks for it.
inline void check_cu_seqlens(const fa_attention& a, const fa_packed& packed) {
  if (packed.check == 0) return;
  check_cu_seqlens("cu_seqlens_q", packed.cu_seqlens_q, packed.sequences, a.length_q, "length_q");
  check_cu_seqlens("cu_seqlens_k", packed.cu_seqlens_k, packed.sequences, a.length_k, "length_k");
}

}  // namespace
}  // namespace fa::FA_TARGET
