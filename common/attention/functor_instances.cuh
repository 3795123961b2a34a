/// @file
/// From a FunctorSpec to the functor that kernels are compiled for.
#pragma once

#include <stdexcept>

#include "common/attention/functor_spec.hpp"
#include "common/attention/score_functors.cuh"

namespace fa::FA_TARGET {

/// The window of a spec.
/// @param shift length_k - length_q
inline Window window_of(const FunctorSpec& spec, int shift) {
  return {spec.left < 0 ? -kUnlimited : shift - spec.left,
          spec.right < 0 ? kUnlimited : shift + spec.right};
}

/// Calls work(functor) with the functor that a spec means.
/// @throws std::invalid_argument for an unknown kind
template <class Work>
void with_functor(const FunctorSpec& spec, int length_q, int length_k, Work work) {
  const int shift = length_k - length_q;
  const Window window = window_of(spec, shift);
  switch (spec.kind) {
    case FunctorKind::kPlain:
      return work(AllKeys{});
    case FunctorKind::kCausal:
      return work(UpToDiagonal(shift));
    case FunctorKind::kWindow:
      return work(window);
    case FunctorKind::kPrefix:
      return work(Prefix(spec.prefix, shift));
    case FunctorKind::kDocuments:
      return work(Both<Window, Documents>(window, Documents(spec.documents, length_k, shift)));
    case FunctorKind::kAlibi:
      if (spec.right == 0) {
        return work(Masked<Window, CausalAlibi>(window, CausalAlibi(spec.slopes, shift)));
      }
      return work(Masked<Window, Alibi>(window, Alibi(spec.slopes, shift)));
    case FunctorKind::kSoftCap:
      return work(Masked<Window, FoldedSoftCap>(window, FoldedSoftCap(spec.cap)));
    case FunctorKind::kBias:
      return work(Masked<Window, Bias>(
          window, Bias(spec.bias, spec.d_bias, spec.bias_batch, spec.bias_head, spec.bias_query)));
    case FunctorKind::kSinks:
      return work(Masked<Window, Sinks>(window, Sinks(spec.sinks, spec.d_sinks)));
    case FunctorKind::kBlockSparse:
      return work(BlockSparse(spec.blocks, ceil_div(length_q, spec.block_size),
                              ceil_div(length_k, spec.block_size), spec.block_size));
    case FunctorKind::kBits:
      return work(Bits(spec.bits, length_q, ceil_div(length_k, 32)));
  }
  throw std::invalid_argument("an unknown kind of functor");
}

}  // namespace fa::FA_TARGET
