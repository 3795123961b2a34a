/// @file
/// Lesson 06: reverse-mode differentiation on a tape, whole. A value is a matrix, an operation
/// records how gradients go back through it, and the backward pass walks the tape from its end. The
/// operations are those of a small language model; attention is one of them, with a backward pass
/// that is given and not composed.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "01_naive_attention/multi_head.hpp"
#include "common/tensor/matrix.hpp"

namespace fa::backward {

// clang-format off
//! [node]
/// A matrix of a computation, and the gradient of the loss with respect to
/// it.
template <class T>
struct Node {
  /// With the gradient 0.
  explicit Node(Matrix<T> of) : value(std::move(of)) {}
  Matrix<T> value;
  /// Same shape; each use of the value adds to it.
  Matrix<T> grad = Matrix<T>::Zero(value.rows(), value.cols());
};

/// A node, shared by all who use it.
template <class T>
using Variable = std::shared_ptr<Node<T>>;
//! [node]

/// What was computed, in order, each operation with its vector-Jacobian
/// product.
template <class T>
class Tape {
 public:
  /// Takes the gradient with respect to an operation's result, adds to the
  /// gradients of its arguments.
  using Vjp = std::function<void(const Matrix<T>& d_result)>;

  /// Adds an operation, and returns its result.
  //! [record]
  Variable<T> record(Matrix<T> result, Vjp vjp) {
    auto node = std::make_shared<Node<T>>(std::move(result));
    steps_.push_back({node, std::move(vjp)});
    return node;
  }
  //! [record]

  /// Adds the gradients of a loss, one number, to every value that it depends
  /// on, last step first, and forgets the steps.
  //! [backward]
  void backward(const Variable<T>& loss) {
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

/// The matmul of x and w.
/// @throws std::invalid_argument when their shapes do not fit
//! [matmul]
template <class T>
Variable<T> matmul(Tape<T>& tape, const Variable<T>& x,
                   const Variable<T>& w) {
  if (x->value.cols() != w->value.rows()) {
    throw std::invalid_argument(
        "matmul: x has " + std::to_string(x->value.cols()) + " columns, w " +
        std::to_string(w->value.rows()) + " rows");
  }
  return tape.record(x->value * w->value, [x, w](const Matrix<T>& d_y) {
    x->grad.noalias() += d_y * w->value.transpose();
    w->grad.noalias() += x->value.transpose() * d_y;
  });
}
//! [matmul]
// clang-format on

/// A residual connection; or a bias: one row b, which is added to each row.
template <class T>
Variable<T> add(Tape<T>& tape, const Variable<T>& a, const Variable<T>& b) {
  const bool bias = b->value.rows() == 1;
  Matrix<T> sum =
      bias ? Matrix<T>(a->value.rowwise() + b->value.row(0)) : Matrix<T>(a->value + b->value);
  return tape.record(std::move(sum), [a, b, bias](const Matrix<T>& d_y) {
    a->grad += d_y;
    b->grad += bias ? Matrix<T>(d_y.colwise().sum()) : d_y;
  });
}

/// Rows of a table.
template <class T>
Variable<T> embedding(Tape<T>& tape, const Variable<T>& table, std::vector<std::int64_t> ids) {
  Matrix<T> rows(static_cast<std::int64_t>(ids.size()), table->value.cols());
  for (std::size_t i = 0; i < ids.size(); ++i) rows.row(i) = table->value.row(ids[i]);
  return tape.record(std::move(rows), [table, ids = std::move(ids)](const Matrix<T>& d_y) {
    for (std::size_t i = 0; i < ids.size(); ++i) table->grad.row(ids[i]) += d_y.row(i);
  });
}

/// Rows less their mean, divided by their standard deviation.
template <class T>
Variable<T> layer_norm(Tape<T>& tape, const Variable<T>& x) {
  Matrix<T> n = x->value.colwise() - x->value.rowwise().mean();
  // std::sqrt() has the same bits on every processor, Eigen's has not.
  const Vector<T> inverse = (n.rowwise().squaredNorm() / T(n.cols())).unaryExpr([](T variance) {
    return 1 / std::sqrt(variance + T(1e-5));
  });
  n = inverse.asDiagonal() * n;
  return tape.record(n, [x, n, inverse](const Matrix<T>& d_n) {
    // Mean and variance depend on the whole row, as softmax's sum does.
    const Vector<T> mean = d_n.rowwise().mean();
    const Vector<T> along = d_n.cwiseProduct(n).rowwise().mean();
    x->grad += inverse.asDiagonal() * ((d_n.colwise() - mean) - along.asDiagonal() * n);
  });
}

/// max(x, 0), element by element.
template <class T>
Variable<T> relu(Tape<T>& tape, const Variable<T>& x) {
  return tape.record(x->value.cwiseMax(T(0)), [x](const Matrix<T>& d_y) {
    x->grad.array() += (x->value.array() > 0).select(d_y.array(), T(0));
  });
}

/// The mean over rows of -ln softmax(row)[target].
template <class T>
Variable<T> cross_entropy(Tape<T>& tape, const Variable<T>& logits,
                          std::vector<std::int64_t> targets) {
  const Vector<T> lse = naive::log_sum_exp(logits->value);
  const auto rows = static_cast<T>(targets.size());
  T mean = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    mean += (lse(i) - logits->value(i, targets[i])) / rows;
  }
  return tape.record(Matrix<T>::Constant(1, 1, mean),
                     [logits, lse, rows, targets = std::move(targets)](const Matrix<T>& d_y) {
                       // softmax - [j = target], rebuilt from LSE as attention does it
                       Matrix<T> d = (logits->value.colwise() - lse).array().exp();
                       for (std::size_t i = 0; i < targets.size(); ++i) d(i, targets[i]) -= 1;
                       logits->grad += d_y(0, 0) / rows * d;
                     });
}

/// What computes attention and its gradients: lesson 01, tiles on the CPU, or a kernel. Tensors are
/// [batch, heads, length, head_dim], as in the rest of the course.
template <class T>
struct AttentionEngine {
  using In = View<const T, 4>;
  std::function<naive::Forward<T>(In q, In k, In v)> forward;
  std::function<naive::Gradients<T>(In q, In k, In v, In o, View<const T, 3> lse, In d_o)> backward;
};

// clang-format off
/// Attention: rows are the tokens of all sequences, columns those of all heads.
//! [attention]
template <class T>
Variable<T> attention(Tape<T>& tape, const Variable<T>& q,
                      const Variable<T>& k, const Variable<T>& v,
                      std::int64_t batch, std::int64_t heads,
                      std::int64_t kv_heads,
                      const AttentionEngine<T>& engine) {
  const auto split = [=](const Matrix<T>& x, std::int64_t count) {
    return naive::split_heads(x, batch, count);
  };
  auto saved = engine.forward(split(q->value, heads),
                              split(k->value, kv_heads),
                              split(v->value, kv_heads));
  Matrix<T> o = naive::join_heads(saved.o);
  return tape.record(std::move(o), [=, saved = std::move(saved)](
                                       const Matrix<T>& d_o) {
    const auto gradients = engine.backward(
        split(q->value, heads), split(k->value, kv_heads),
        split(v->value, kv_heads), saved.o, saved.lse, split(d_o, heads));
    q->grad += naive::join_heads(gradients.d_q);
    k->grad += naive::join_heads(gradients.d_k);
    v->grad += naive::join_heads(gradients.d_v);
  });
}
//! [attention]
// clang-format on

}  // namespace fa::backward
