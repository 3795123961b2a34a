/// @file
/// A functor as a program in C gives it, for tests of the C interfaces.
#pragma once

#include "05_flash_forward/interface/flash_attention.h"
#include "common/attention/functor_spec.hpp"

namespace fa {

/// The same functor, for a C interface.
/// @param spec with pointers of the device
inline fa_functor given_functor(const FunctorSpec& spec) {
  fa_functor functor{};
  functor.size = sizeof functor;
  functor.kind = static_cast<std::int32_t>(spec.kind);
  functor.left = spec.left;
  functor.right = spec.right;
  functor.prefix = spec.prefix;
  functor.block_size = spec.block_size;
  functor.cap = spec.cap;
  functor.bias_per_batch = spec.bias_batch != 0 ? 1 : 0;
  functor.bias_per_head = spec.bias_head != 0 ? 1 : 0;
  functor.documents = spec.documents;
  functor.slopes = spec.slopes;
  functor.sinks = spec.sinks;
  functor.bias = spec.bias;
  functor.blocks = spec.blocks;
  functor.bits = spec.bits;
  return functor;
}

}  // namespace fa
