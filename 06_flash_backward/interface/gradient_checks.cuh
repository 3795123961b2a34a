/// @file
/// How the C interface checks an fa_gradient, and makes of it what the kernels are given. Compiled
/// once for each backend: see common/gpu/target.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "05_flash_forward/interface/checks.cuh"
#include "06_flash_backward/interface/flash_attention_backward.h"
#include "06_flash_backward/src/dispatch.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

// So that the bytes of the workspace are a number of 64 bits: at most 259 floats for each padded
// row, and parts of dK and dV for eight blocks of each SM.
constexpr std::int64_t kMaxRows = std::int64_t{1} << 50;

// Sizes, type and options.
inline void check_gradient(const fa_gradient* given) {
  check_struct("fa_gradient", given);
  const fa_attention& a = given->attention;
  check_problem(&a);
  if (a.batch * a.heads * a.length_q > kMaxRows) {
    refuse("batch * heads * length_q is {}; allowed are 1 to {}", a.batch * a.heads * a.length_q,
           kMaxRows);
  }
  check_flag("deterministic", given->deterministic);
}

// Calls work(gradient, name of the type) with the gradient for the kernels, which lacks a
// workspace.
template <class Work>
void with_gradient(const fa_gradient& g, Work work) {
  with_attention(g.attention, [&](const auto& a, const char* type) {
    using T = std::remove_pointer_t<decltype(a.o)>;
    work(AttentionGradient<T>{a, static_cast<const T*>(g.d_o), static_cast<T*>(g.d_q),
                              static_cast<T*>(g.d_k), static_cast<T*>(g.d_v),
                              row_strides(g.d_o_strides), row_strides(g.d_q_strides),
                              row_strides(g.d_k_strides), row_strides(g.d_v_strides), nullptr,
                              nullptr, nullptr, nullptr, nullptr, nullptr, nullptr},
         type);
  });
}

// The same with the columns of kernels for 16-bit types: work(gradient, d), d at most 128.
template <class Work>
void with_16_bit_gradient(const fa_gradient& g, Work work) {
  with_gradient(g, [&](const auto& gradient, const char*) {
    if constexpr (sizeof(*gradient.q) == 2) {
      with_head_dim<64, 128>(g.attention.head_dim, [&](auto d) { work(gradient, d); });
    }
  });
}

// Checks where tensors and workspace are, and what else is read and written.
inline CallMemory checked_call(const fa_gradient& g,
                               const std::vector<attention::MemoryRegion>& also_read = {},
                               const std::vector<attention::MemoryRegion>& also_written = {}) {
  const fa_attention& a = g.attention;
  auto [read, saved] = checked_memory(a);
  read.insert(read.end(), saved.begin(), saved.end());
  const std::int64_t d = a.head_dim, columns_v = a.head_dim_v;
  read.push_back(checked_tensor("d_o", g.d_o, g.d_o_strides, a, a.heads, a.length_q, columns_v));
  read.insert(read.end(), also_read.begin(), also_read.end());
  std::vector<attention::MemoryRegion> written{
      checked_tensor("d_q", g.d_q, g.d_q_strides, a, a.heads, a.length_q, d, true),
      checked_tensor("d_k", g.d_k, g.d_k_strides, a, a.kv_heads, a.length_k, d, true),
      checked_tensor("d_v", g.d_v, g.d_v_strides, a, a.kv_heads, a.length_k, columns_v, true),
      checked_bytes("workspace", g.workspace, 16, g.workspace_bytes)};
  written.insert(written.end(), also_written.begin(), also_written.end());
  return {read, written};
}

}  // namespace
}  // namespace fa::FA_TARGET
