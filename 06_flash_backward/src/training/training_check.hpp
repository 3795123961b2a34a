/// @file
/// Lesson 06: what the tape computes, checked by central differences. The program shows it, the
/// tests hold it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "06_flash_backward/src/derivation/derivation.hpp"
#include "06_flash_backward/src/training/training.hpp"

namespace fa::backward {

/// A computation to be tried on a tape.
struct TapeCase {
  std::string name;
  std::vector<Variable<double>> arguments;                ///< what it is differentiated by
  std::function<Variable<double>(Tape<double>&)> result;  ///< from their present values
};

/// Every operation with random arguments of odd sizes; attention also as matmuls and a softmax.
std::vector<TapeCase> operation_cases();

/// The gradients of the sum of the result's elements, weighted at random.
std::vector<Matrix<double>> tape_gradients(const TapeCase& of);

/// Compares tape_gradients() with central differences.
Comparison compared(const TapeCase& of);

/// Compares the gradients of a model of two layers with central differences, and those by tiles
/// with those by lesson 01.
std::vector<Comparison> transformer_comparisons();

}  // namespace fa::backward
