/// @file
/// Lesson 06: reverse-mode differentiation on a tape, whole, with the operations of a small language
/// model. Attention is one of them, with a backward pass that is given and not composed.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "01_naive_attention/multi_head.hpp"
#include "common/tensor/matrix.hpp"

namespace fa::backward {

//! [node]
/// A matrix of a computation, and the gradient of the loss with respect to
/// it, to which each use of the value adds.
template <class T>
struct Node {
  /// With the gradient 0.
  explicit Node(Matrix<T> of) : value(std::move(of)) {}
  Matrix<T> value;
  Matrix<T> grad = Matrix<T>::Zero(value.rows(), value.cols());
};

/// A node, shared by all who use it.
template <class T>
using Variable = std::shared_ptr<Node<T>>;
//! [node]

/// What was computed, in order, as steps that take gradients back; and the operations of a model.
template <class T>
class Tape {
 public:
  /// Adds an operation with its vector-Jacobian product, and returns its result.
  //! [record]
  template <class Vjp>
  Variable<T> record(Matrix<T> result, Vjp vjp) {
    auto node = std::make_shared<Node<T>>(std::move(result));
    steps_.push_back([node, vjp] { vjp(node->grad); });
    return node;
  }
  //! [record]

  /// Adds the gradients of a loss, one number, to every value that it depends on, last step first,
  /// and forgets the steps.
  //! [backward]
  void backward(Variable<T> loss) {
    loss->grad(0, 0) += 1;
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) (*step)();
    steps_.clear();
  }
  //! [backward]

  /// The matmul of x and w, whose shapes must fit, as those of all operations.
  //! [matmul]
  Variable<T> matmul(Variable<T> x, Variable<T> w) {
    return record(x->value * w->value, [x, w](const Matrix<T>& d_y) {
      x->grad.noalias() += d_y * w->value.transpose();
      w->grad.noalias() += x->value.transpose() * d_y;
    });
  }
  //! [matmul]

  /// A residual connection; or a bias: one row b, which is added to each row.
  Variable<T> add(Variable<T> a, Variable<T> b) {
    const std::int64_t copies = a->value.rows() / b->value.rows();
    return record(a->value + b->value.replicate(copies, 1), [a, b](const Matrix<T>& d_y) {
      a->grad += d_y;
      b->grad += b->grad.rows() == 1 ? Matrix<T>(d_y.colwise().sum()) : d_y;
    });
  }

  /// Rows of a table.
  Variable<T> embedding(Variable<T> table, const std::vector<std::int64_t>& ids) {
    Matrix<T> rows(static_cast<std::int64_t>(ids.size()), table->value.cols());
    for (std::size_t i = 0; i < ids.size(); ++i) rows.row(i) = table->value.row(ids[i]);
    return record(rows, [table, ids](const Matrix<T>& d_y) {
      for (std::size_t i = 0; i < ids.size(); ++i) table->grad.row(ids[i]) += d_y.row(i);
    });
  }

  /// Rows less their mean, divided by their standard deviation.
  Variable<T> layer_norm(Variable<T> x) {
    Matrix<T> n = x->value.colwise() - x->value.rowwise().mean();
    // std::sqrt() has the same bits on every processor, Eigen's has not.
    const auto inverse_root = [](T variance) { return 1 / std::sqrt(variance + T(1e-5)); };
    const Vector<T> inverse = (n.rowwise().squaredNorm() / T(n.cols())).unaryExpr(inverse_root);
    n = inverse.asDiagonal() * n;
    return record(n, [x, n, inverse](const Matrix<T>& d_n) {
      // Mean and variance depend on the whole row, as softmax's sum does.
      const Vector<T> mean = d_n.rowwise().mean();
      const Vector<T> along = d_n.cwiseProduct(n).rowwise().mean();
      x->grad += inverse.asDiagonal() * ((d_n.colwise() - mean) - along.asDiagonal() * n);
    });
  }

  /// max(x, 0), element by element.
  Variable<T> relu(Variable<T> x) {
    return record(x->value.cwiseMax(T(0)), [x](const Matrix<T>& d_y) {
      x->grad.array() += (x->value.array() > 0).select(d_y.array(), T(0));
    });
  }

  /// The mean over rows of -ln softmax(row)[target].
  Variable<T> cross_entropy(Variable<T> x, const std::vector<std::int64_t>& targets) {
    const Vector<T> lse = naive::log_sum_exp(x->value);
    Matrix<T> d_x = (x->value.colwise() - lse).array().exp();  // softmax - [j = target]
    const auto rows = static_cast<T>(targets.size());
    T mean = 0;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      mean += (lse(i) - x->value(i, targets[i])) / rows;
      d_x(i, targets[i]) -= 1;
    }
    return record(Matrix<T>::Constant(1, 1, mean),
                  [x, d_x, rows](const Matrix<T>& d_y) { x->grad += d_y(0, 0) / rows * d_x; });
  }

  // clang-format off
  /// Attention: rows are the tokens of all sequences, columns those of all heads.
  //! [attention]
  template <class Engine>
  Variable<T> attention(Variable<T> q, Variable<T> k, Variable<T> v,
                        std::int64_t batch, std::int64_t heads,
                        const Engine& engine) {
    const std::int64_t head_dim = q->value.cols() / heads;
    const auto split = [=](const Matrix<T>& x) {
      return naive::split_heads(x, batch, x.cols() / head_dim);
    };
    const auto saved = engine.forward(split(q->value), split(k->value),
                                      split(v->value));
    return record(naive::join_heads(saved.o), [=](const Matrix<T>& d_o) {
      const auto gradients = engine.backward(
          split(q->value), split(k->value), split(v->value), saved.o,
          saved.lse, split(d_o));
      q->grad += naive::join_heads(gradients.d_q);
      k->grad += naive::join_heads(gradients.d_k);
      v->grad += naive::join_heads(gradients.d_v);
    });
  }
  //! [attention]
  // clang-format on

 private:
  std::vector<std::function<void()>> steps_;
};

}  // namespace fa::backward
