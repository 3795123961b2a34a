/// @file
/// How the C interfaces of lessons 05 and 06 check an fa_functor, and make of it what the kernels
/// are given. Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "05_flash_forward/interface/checks.cuh"
#include "common/attention/functor_instances.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

// What functions with a functor do not have, although others may.
inline void check_functor_problem(const char* function, const fa_attention& a) {
  check_16_bit_problem(function, a);
  if (a.causal != 0) refuse("causal is 1; {} allows 0, and a functor that is causal", function);
}

// The numbers of a functor that do not depend on a problem.
inline void check_parameters(const fa_functor& f) {
  if (f.kind < FA_FUNCTOR_PLAIN || f.kind > FA_FUNCTOR_BITS) {
    refuse("kind is {}; allowed are {} to {}", f.kind, int{FA_FUNCTOR_PLAIN}, int{FA_FUNCTOR_BITS});
  }
  for (const auto& [name, value] : {std::pair{"left", f.left}, {"right", f.right}}) {
    if (value < -1 || value > kMaxLength)
      refuse("{} is {}; allowed are -1 to {}", name, value, kMaxLength);
  }
  if (f.kind == FA_FUNCTOR_PREFIX && (f.prefix < 0 || f.prefix > kMaxLength)) {
    refuse("prefix is {}; allowed are 0 to {}", f.prefix, kMaxLength);
  }
  if (f.kind == FA_FUNCTOR_BLOCK_SPARSE) check_size("block_size", f.block_size, kMaxLength);
  check_flag("bias_per_batch", f.bias_per_batch);
  check_flag("bias_per_head", f.bias_per_head);
  check_flag("bias_same_rows", f.bias_same_rows);
}

// A table that a functor reads.
struct FunctorTable {
  const char* name;
  const void* pointer;
  std::int64_t count;
  std::size_t element_bytes;
};
// One of a shape. Its bytes must be a number of 64 bits.
inline FunctorTable table_of(const char* name, const void* pointer, std::size_t element_bytes,
                             std::initializer_list<std::int64_t> shape) {
  std::int64_t count = 1, left = std::numeric_limits<std::int64_t>::max() / 4;
  std::string text;
  for (const std::int64_t size : shape) {
    text += fmt::format("{}{}", text.empty() ? "" : " x ", size);
    left /= size;
    count *= left > 0 ? size : 0;
  }
  if (left == 0) refuse("{} has {} elements; allowed are below 2^61", name, text);
  return {name, pointer, count, element_bytes};
}

// The tables that a functor's kind needs.
inline std::vector<FunctorTable> tables_of(const fa_attention& a, const fa_functor& f) {
  switch (f.kind) {
    case FA_FUNCTOR_DOCUMENTS:
      return {table_of("documents", f.documents, 4, {a.batch, a.length_k, 2})};
    case FA_FUNCTOR_ALIBI:
      return {table_of("slopes", f.slopes, 4, {a.heads})};
    case FA_FUNCTOR_SINKS:
      return {table_of("sinks", f.sinks, 4, {a.heads})};
    case FA_FUNCTOR_BIAS:
      return {table_of("bias", f.bias, 4,
                       {f.bias_per_batch != 0 ? a.batch : 1, f.bias_per_head != 0 ? a.heads : 1,
                        f.bias_same_rows != 0 ? 1 : a.length_q, a.length_k})};
    case FA_FUNCTOR_BLOCK_SPARSE:
      return {table_of("blocks", f.blocks, 1,
                       {a.heads, ceil_div<std::int64_t>(a.length_q, f.block_size),
                        ceil_div<std::int64_t>(a.length_k, f.block_size)})};
    case FA_FUNCTOR_BITS:
      return {table_of("bits", f.bits, 4,
                       {a.batch, a.length_q, ceil_div<std::int64_t>(a.length_k, 32)})};
    default:
      return {};
  }
}

// Checks where they are.
inline std::vector<attention::MemoryRegion> checked_tables(const fa_attention& a,
                                                           const fa_functor& f) {
  std::vector<attention::MemoryRegion> regions;
  for (const FunctorTable& t : tables_of(a, f)) {
    regions.push_back(checked_bytes(t.name, t.pointer, t.element_bytes,
                                    static_cast<std::uint64_t>(t.count) * t.element_bytes));
  }
  return regions;
}

// Whether the kind needs a map of its tiles, which must be numbered by ints.
inline bool needs_map(const fa_functor& f) {
  return f.kind == FA_FUNCTOR_BITS;
}
inline void check_map(const fa_attention& a) {
  const std::int64_t tiles =
      ceil_div<std::int64_t>(a.length_q, 32) * ceil_div<std::int64_t>(a.length_k, 32);
  if (tiles > std::numeric_limits<int>::max()) {
    refuse("length_q is {} and length_k {}; a mask without a rule allows {} tiles of 32 x 32",
           a.length_q, a.length_k, std::numeric_limits<int>::max());
  }
}

// The numbers of a functor, and the sizes that it has with a problem.
inline void check_functor(const fa_attention& a, const fa_functor* given) {
  check_struct("fa_functor", given);
  check_parameters(*given);
  if (given->kind == FA_FUNCTOR_SOFT_CAP) {
    // Kernels multiply by 1 / cap, scale / cap and cap log2(e).
    const float cap = given->cap, inv_cap = 1 / cap;
    const float product = static_cast<float>(a.scale) * inv_cap;
    if (!(cap > 0 && std::isnormal(cap) && std::isnormal(inv_cap) && std::isnormal(product))) {
      refuse(
          "cap is {} and scale is {}; allowed are a cap above 0 for which cap, 1 / cap and scale / "
          "cap are from {} to {}",
          cap, a.scale, std::numeric_limits<float>::min(), std::numeric_limits<float>::max());
    }
  }
  tables_of(a, *given);
  if (needs_map(*given)) check_map(a);
}

// The functor for the kernels.
inline FunctorSpec functor_spec(const fa_attention& a, const fa_functor& f) {
  FunctorSpec spec;
  spec.kind = static_cast<FunctorKind>(f.kind);
  spec.left = f.left;
  spec.right = f.right;
  spec.prefix = f.prefix;
  spec.cap = f.cap;
  spec.block_size = f.block_size;
  const std::int64_t of_head = f.bias_same_rows != 0 ? a.length_k : a.length_q * a.length_k;
  spec.bias_query = f.bias_same_rows != 0 ? 0 : a.length_k;
  spec.bias_head = f.bias_per_head != 0 ? of_head : 0;
  spec.bias_batch = f.bias_per_batch != 0 ? (f.bias_per_head != 0 ? a.heads : 1) * of_head : 0;
  spec.documents = f.documents;
  spec.slopes = f.slopes;
  spec.sinks = f.sinks;
  spec.bias = f.bias;
  spec.blocks = f.blocks;
  spec.bits = f.bits;
  return spec;
}
static_assert(static_cast<int>(FunctorKind::kBits) == FA_FUNCTOR_BITS &&
                  static_cast<int>(FunctorKind::kSoftCap) == FA_FUNCTOR_SOFT_CAP,
              "the kinds have the numbers of the C interface");

}  // namespace
}  // namespace fa::FA_TARGET
