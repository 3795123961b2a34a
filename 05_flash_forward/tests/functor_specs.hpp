/// @file
/// The functors that kernels are tested with, forward and backward.
#pragma once

#include <vector>

#include "common/attention/functor_spec.hpp"

namespace fa {

/// A functor with a window and no other parameters.
inline FunctorSpec of_kind(FunctorKind kind, int left = -1, int right = -1) {
  FunctorSpec spec;
  spec.kind = kind;
  spec.left = left;
  spec.right = right;
  return spec;
}

/// Every kind, and what its parameters can be.
inline std::vector<FunctorSpec> all_specs() {
  std::vector<FunctorSpec> all{
      of_kind(FunctorKind::kPlain),         of_kind(FunctorKind::kCausal),
      of_kind(FunctorKind::kWindow, 70, 0), of_kind(FunctorKind::kWindow, 3, 40),
      of_kind(FunctorKind::kWindow, -1, 9), of_kind(FunctorKind::kDocuments),
      of_kind(FunctorKind::kAlibi, -1, 0),  of_kind(FunctorKind::kSinks, 20, 0),
      of_kind(FunctorKind::kBits),          of_kind(FunctorKind::kDocuments, -1, 0)};
  all.push_back(of_kind(FunctorKind::kPrefix));
  all.back().prefix = 37;
  all.push_back(of_kind(FunctorKind::kSoftCap, -1, 0));
  all.back().cap = 1.25f;
  all.push_back(of_kind(FunctorKind::kBlockSparse));
  all.back().block_size = 40;
  all.push_back(of_kind(FunctorKind::kBias));
  all.push_back(of_kind(FunctorKind::kBias, -1, 0));
  all.back().bias_head = all.back().bias_batch = 1;
  return all;
}

}  // namespace fa
