/// @file
/// Lesson 06: what the tape computes, checked by central differences. The program shows it, the
/// tests hold it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "06_flash_backward/src/derivation/derivation.hpp"
#include "06_flash_backward/src/training/operations.hpp"

namespace fa::backward {

/// A computation to be tried on a tape.
struct TapeCase {
  std::string name;                         ///< for reports
  std::vector<Variable<double>> arguments;  ///< what it is differentiated by
  /// Computes it from the present values of the arguments.
  std::function<Variable<double>(Tape<double>&)> result;
};

/// Every operation with random arguments of odd sizes.
std::vector<TapeCase> operation_cases();

/// A transformer of two layers with cross entropy behind it: embeddings of tokens and positions,
/// and in each layer attention and a network of two matrices, each behind a layer normalisation
/// and beside a residual connection. Two sequences of 5 tokens, 4 query heads on 2 key heads,
/// causal.
TapeCase transformer_case(const AttentionEngine<double>& engine);

/// The gradients of a case with respect to all of its arguments: those of the number that a random
/// weighting of the result's elements gives.
std::vector<Matrix<double>> tape_gradients(const TapeCase& of);

/// Compares tape_gradients() with central differences.
Comparison checker(const TapeCase& of);

}  // namespace fa::backward
