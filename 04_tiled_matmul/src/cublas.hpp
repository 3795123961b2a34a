/// @file
/// The library that the ladder is compared with.
#pragma once

#include <optional>
#include <string>

#include "04_tiled_matmul/src/backend.hpp"

namespace fa::tiled {

/// cuBLAS for the products of a group, with TF32 off; none for other groups and where this build has no cuBLAS.
/// Source: NVIDIA, cuBLAS library, cublasGemmEx.
std::optional<Kernel> cublas(const std::string& group);

}  // namespace fa::tiled
