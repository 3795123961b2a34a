/// @file
/// Lesson 06: the kernels as what the tape asks for attention.
#pragma once

#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/training/autograd.hpp"

namespace fa::backward {

/// Attention by kernels that give the same bits in every run: lesson 05's fastest ones forward;
/// backward rung 03 for float32 and rung 07 for 16 bits. For a 16-bit type q, k, v and dO are
/// rounded to it, and so are O, dQ, dK and dV.
///
/// The engine takes causal problems and others, with the usual scale and without dropout; it throws
/// std::invalid_argument otherwise, and for what the rungs do not take.
/// @param type    of the tensors on the device
/// @throws std::logic_error when the backend does not have these rungs
AttentionEngine<float> kernel_engine(const Backend& backend, Type type);

}  // namespace fa::backward
