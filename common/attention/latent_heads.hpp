/// @file
/// The head dimensions of multi-head latent attention. With any others, kernels have as many columns
/// of V as of Q and K.
///
/// Source: DeepSeek-AI, DeepSeek-V2, 2024, section 2.1.
#pragma once

#include <cstdint>

namespace fa {

/// Columns of Q and K, and of V and O.
constexpr int kLatentHeadDim = 192;
constexpr int kLatentHeadDimV = 128;

/// Whether a problem has these.
constexpr bool has_latent_heads(std::int64_t head_dim,
                                std::int64_t head_dim_v) {
  return head_dim == kLatentHeadDim && head_dim_v == kLatentHeadDimV;
}

}  // namespace fa
