/// @file
/// Lesson 06: reverse-mode differentiation on a tape, whole. A value is a matrix, an operation
/// records how gradients go back through it, and the backward pass walks the tape from its end. The
/// operations themselves are in operations.hpp.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/tensor/matrix.hpp"

namespace fa::backward {

// clang-format off
//! [node]
/// A matrix of a computation, and the gradient of the loss with respect to
/// it.
template <class T>
struct Node {
  /// A value whose gradient is 0 so far.
  explicit Node(Matrix<T> of) : value(std::move(of)) {}
  Matrix<T> value;  ///< what the forward pass computed
  /// Same shape; each use of the value adds to it.
  Matrix<T> grad = Matrix<T>::Zero(value.rows(), value.cols());
};

/// A node, shared by all who use it.
template <class T>
using Variable = std::shared_ptr<Node<T>>;
//! [node]

/// A variable that no operation computed: an input or a parameter.
template <class T>
Variable<T> variable(Matrix<T> value) {
  return std::make_shared<Node<T>>(std::move(value));
}

/// What was computed, in order, each operation with its vector-Jacobian
/// product.
template <class T>
class Tape {
 public:
  /// One operation's vector-Jacobian product: takes the gradient with
  /// respect to its result, adds to the gradients of its arguments.
  using Vjp = std::function<void(const Matrix<T>& d_result)>;

  /// Notes an operation.
  /// @return its result, for the next operation
  //! [record]
  Variable<T> record(Matrix<T> result, Vjp vjp) {
    steps_.push_back({variable<T>(std::move(result)), std::move(vjp)});
    return steps_.back().result;
  }
  //! [record]

  /// Adds the gradients of `loss` to every value that it depends on, last
  /// step first, and forgets the steps.
  /// @throws std::invalid_argument when the loss is not one number
  //! [backward]
  void backward(const Variable<T>& loss) {
    const auto& one = loss->value;
    if (one.size() != 1) {
      throw std::invalid_argument(
          "backward: the loss must be one number; it is [" +
          std::to_string(one.rows()) + ", " + std::to_string(one.cols()) + "]");
    }
    loss->grad(0, 0) += 1;
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      step->vjp(step->result->grad);
    }
    steps_.clear();
  }
  //! [backward]

 private:
  struct Step {
    Variable<T> result;
    Vjp vjp;
  };
  std::vector<Step> steps_;
};
// clang-format on

}  // namespace fa::backward
