/// @file
/// The sizes of an attention problem, and the head dimensions of V that
/// kernels support.
#pragma once

#include <cstdint>

namespace fa {

/// The sizes of an attention problem.
struct AttentionShape {
  /// @{ With grouped-query attention (GQA) each of the kv_heads serves
  /// heads / kv_heads query heads.
  std::int64_t batch = 0;
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t length_q = 0, length_k = 0;
  std::int64_t head_dim = 0;
  /// @}
};

/// @{ The head dimensions of multi-head latent attention (MLA): Q and K have
/// more columns than V and O. Source: DeepSeek-V2, 2024, section 2.1.
constexpr int kMlaHeadDim = 192, kMlaHeadDimV = 128;
constexpr bool is_mla(std::int64_t head_dim, std::int64_t head_dim_v) {
  return head_dim == kMlaHeadDim && head_dim_v == kMlaHeadDimV;
}
/// @}

/// Whether kernels exist for a head_dim_v: head_dim, or that of MLA.
constexpr bool supports_head_dim_v(std::int64_t head_dim, std::int64_t head_dim_v) {
  return head_dim_v == head_dim || is_mla(head_dim, head_dim_v);
}

}  // namespace fa
