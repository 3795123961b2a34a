/// @file
/// How C interfaces check an fa_attention, and make of it what the kernels are given. Compiled once
/// for each backend: see common/gpu/target.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/src/dispatch.cuh"
#include "common/attention/host/interface_checks.cuh"
#include "common/attention/shape.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

static_assert(FA_STATUS_OK == kStatusOk && FA_STATUS_REFUSED == kStatusRefused &&
              FA_STATUS_FAILED == kStatusFailed);

// Sums of two lengths and a tile must be ints.
constexpr std::int64_t kMaxLength = 1000000000;
constexpr std::int64_t kMaxGrid = 65535;  // in y and z
constexpr std::int64_t kMaxHeads = 2147483647;
static_assert(kMaxHeads <= std::numeric_limits<std::int64_t>::max() / kMaxLength /
                               std::int64_t{sizeof(float)},
              "the bytes of lse are a number of 64 bits");

// A struct of the caller, whose fields are those that this library knows.
template <class Struct>
void check_struct(const char* type, const Struct* given) {
  if (given == nullptr) refuse("{} is a null pointer", type);
  if (given->size != sizeof(Struct)) {
    refuse("size is {}; {} has {} bytes in this library", given->size, type, sizeof(Struct));
  }
}

inline void check_flag(const char* name, std::int32_t value) {
  if (value != 0 && value != 1) refuse("{} is {}; allowed are 0 and 1", name, value);
}

// Sizes, type and options.
inline void check_problem(const fa_attention* given) {
  check_struct("fa_attention", given);
  const fa_attention& a = *given;
  check_size("batch", a.batch, kMaxGrid);
  check_size("heads", a.heads, kMaxGrid);
  check_size("kv_heads", a.kv_heads, kMaxGrid);
  check_size("length_q", a.length_q, kMaxLength);
  check_size("length_k", a.length_k, kMaxLength);
  if (a.heads % a.kv_heads != 0) {
    refuse("heads is {}; allowed are multiples of kv_heads, which is {}", a.heads, a.kv_heads);
  }
  if (a.batch * a.heads > kMaxHeads) {
    refuse("batch * heads is {}; allowed are 1 to {}", a.batch * a.heads, kMaxHeads);
  }
  if (a.head_dim < 8 || a.head_dim > 256 || a.head_dim % 8 != 0) {
    refuse("head_dim is {}; allowed are multiples of 8 from 8 to 256", a.head_dim);
  }
  if (!supports_head_dim_v(a.head_dim, a.head_dim_v)) {
    refuse("head_dim_v is {}; allowed are head_dim, which is {}, and 128 with a head_dim of 192",
           a.head_dim_v, a.head_dim);
  }
  if (a.type != FA_TYPE_FLOAT32 && a.type != FA_TYPE_FLOAT16 && a.type != FA_TYPE_BFLOAT16) {
    refuse("type is {}; allowed are 0 (float32), 1 (float16) and 2 (bfloat16)", a.type);
  }
  check_flag("causal", a.causal);
  // The exponentials of kernels have base 2 and a float32 for scale log2(e).
  const auto scale = static_cast<float>(a.scale);
  if (!(scale > 0 && std::isfinite(scale * kLog2E))) {
    refuse("scale is {}; allowed are numbers of float32 above 0, up to {}", a.scale,
           std::numeric_limits<float>::max() / kLog2E);
  }
  if (!(a.dropout >= 0 && a.dropout < 1)) {
    refuse("dropout is {}; allowed are 0 to below 1", a.dropout);
  }
}

// What the functions for decoding and for packed sequences do not have, although fa_forward() may.
inline void check_16_bit_problem(const char* function, const fa_attention& a) {
  if (a.type == FA_TYPE_FLOAT32) {
    refuse("type is 0 (float32); {} allows 1 (float16) and 2 (bfloat16)", function);
  }
  if (a.head_dim > 128) {
    refuse("head_dim is {}; {} allows multiples of 8 from 8 to 128", a.head_dim, function);
  }
  if (a.dropout != 0) refuse("dropout is {}; {} allows 0", a.dropout, function);
}

inline RowStrides row_strides(const fa_strides& strides) {
  return {strides.batch, strides.head, strides.row};
}

// Checks a tensor [batch, heads, length, columns] of an attention; rows of one that is written must
// not overlap. Returns what it occupies.
inline attention::MemoryRegion checked_tensor(const char* name, const void* pointer,
                                              const fa_strides& strides, const fa_attention& a,
                                              std::int64_t heads, std::int64_t length,
                                              std::int64_t columns, bool written = false) {
  return checked_tensor(name, pointer, row_strides(strides), {a.batch, heads, length, columns},
                        a.type == FA_TYPE_FLOAT32 ? 4 : 2, written,
                        columns == a.head_dim ? "head_dim" : "head_dim_v");
}

// Checks where LSE is.
inline attention::MemoryRegion checked_lse(const fa_attention& a) {
  return checked_bytes("lse", a.lse, alignof(float),
                       sizeof(float) * static_cast<std::uint64_t>(a.batch * a.heads) *
                           static_cast<std::uint64_t>(a.length_q));
}

// Checks where the tensors are.
inline CallMemory checked_memory(const fa_attention& a) {
  const std::int64_t d = a.head_dim, columns_v = a.head_dim_v;
  return {{checked_tensor("q", a.q, a.q_strides, a, a.heads, a.length_q, d),
           checked_tensor("k", a.k, a.k_strides, a, a.kv_heads, a.length_k, d),
           checked_tensor("v", a.v, a.v_strides, a, a.kv_heads, a.length_k, columns_v)},
          {checked_tensor("o", a.o, a.o_strides, a, a.heads, a.length_q, columns_v, true),
           checked_lse(a)}};
}

// Checks where tensors and workspace are, and what else is read. No workspace is allowed where none
// is needed: blocks then take their tiles in a fixed order.
inline CallMemory checked_call(const fa_attention& a,
                               const std::vector<attention::MemoryRegion>& also_read = {},
                               bool needs_workspace = false) {
  CallMemory memory = checked_memory(a);
  memory.read.insert(memory.read.end(), also_read.begin(), also_read.end());
  if (a.workspace != nullptr || needs_workspace) {
    memory.written.push_back(checked_bytes("workspace", a.workspace, 16, a.workspace_bytes));
  }
  return memory;
}

// A workspace that must be there.
inline void check_workspace_bytes(std::size_t given, std::size_t least) {
  if (given < least) refuse("workspace_bytes is {}; allowed are {} and more", given, least);
}
inline void check_workspace(const fa_attention& a, std::size_t least) {
  if (a.workspace != nullptr && a.workspace_bytes < least) {
    refuse("workspace_bytes is {}; allowed are {} and more, or no workspace", a.workspace_bytes,
           least);
  }
}

// Integers in the memory of the device; it waits for them.
inline std::vector<std::int32_t> device_integers(const std::int32_t* from, std::int64_t count) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  device_copy(values.data(), from, sizeof(std::int32_t) * values.size(), CopyKind::kToHost);
  return values;
}

inline Stream stream_of(const fa_attention& a) {
  return Stream::of(a.stream);
}

template <class T>
Attention<T> attention_of(const fa_attention& a) {
  return {static_cast<const T*>(a.q),
          static_cast<const T*>(a.k),
          static_cast<const T*>(a.v),
          static_cast<T*>(a.o),
          a.lse,
          row_strides(a.q_strides),
          row_strides(a.k_strides),
          row_strides(a.v_strides),
          row_strides(a.o_strides),
          static_cast<int>(a.batch),
          static_cast<int>(a.heads),
          static_cast<int>(a.kv_heads),
          static_cast<int>(a.length_q),
          static_cast<int>(a.length_k),
          static_cast<int>(a.head_dim),
          static_cast<int>(a.head_dim_v),
          static_cast<float>(a.scale),
          a.causal != 0,
          make_dropout(a.dropout, a.seed)};
}

// Calls work(attention, name) with the attention for the kernels, and the name of its type.
template <class Work>
void with_attention(const fa_attention& a, Work work) {
  switch (a.type) {
    case FA_TYPE_FLOAT16:
      return work(attention_of<half>(a), "float16");
    case FA_TYPE_BFLOAT16:
      return work(attention_of<bfloat16>(a), "bfloat16");
    default:
      return work(attention_of<float>(a), "float32");
  }
}

// The same with the columns of a kernel for 16-bit types: work(attention, d), d at most 128.
template <class Work>
void with_16_bit_attention(const fa_attention& a, Work work) {
  with_attention(a, [&](const auto& attention, const char*) {
    if constexpr (sizeof(*attention.q) == 2) {
      with_head_dim<64, 128>(a.head_dim, [&](auto d) { work(attention, d); });
    }
  });
}

// Makes last_name() name the kernel of a problem, and its columns: those of v may be others.
inline void note_kernel(const char* kernel, const char* type, int columns, int columns_v,
                        const fa_attention& a) {
  const std::string of_v = columns_v == columns ? "" : fmt::format(" and {}", columns_v);
  last_name() = fmt::format("{}, {}, {}{} columns{}", kernel, type, columns, of_v,
                            a.dropout > 0 ? ", dropout" : "");
}

}  // namespace
}  // namespace fa::FA_TARGET
