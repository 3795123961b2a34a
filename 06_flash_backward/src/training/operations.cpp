#include "06_flash_backward/src/training/operations.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "01_naive_attention/multi_head.hpp"
#include "06_flash_backward/src/derivation/tiled.hpp"

namespace fa::backward {
namespace {

template <class T>
std::string shape_of(const Variable<T>& x) {
  return fmt::format("[{}, {}]", x->value.rows(), x->value.cols());
}

// Refuses a row of parameters that does not fit the columns of x.
template <class T>
void check_row(const char* operation, const char* name, const Variable<T>& x,
               const Variable<T>& row) {
  if (row->value.rows() == 1 && row->value.cols() == x->value.cols()) return;
  throw std::invalid_argument(fmt::format("{}: x is {}, so {} must be [1, {}]; it is {}", operation,
                                          shape_of(x), name, x->value.cols(), shape_of(row)));
}

void check_ids(const char* operation, const char* name, const std::vector<std::int64_t>& ids,
               std::int64_t entries) {
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= entries) {
      throw std::invalid_argument(
          fmt::format("{}: {} {} is not in 0 to {}", operation, name, id, entries - 1));
    }
  }
}

}  // namespace

// clang-format off
//! [matmul]
template <class T>
Variable<T> matmul(Tape<T>& tape, const Variable<T>& x,
                   const Variable<T>& w) {
  if (x->value.cols() != w->value.rows()) {
    throw std::invalid_argument(
        fmt::format("matmul: x is {} and w is {}; the columns of x must be "
                    "as many as the rows of w",
                    shape_of(x), shape_of(w)));
  }
  return tape.record(x->value * w->value, [x, w](const Matrix<T>& d_y) {
    x->grad.noalias() += d_y * w->value.transpose();
    w->grad.noalias() += x->value.transpose() * d_y;
  });
}
//! [matmul]
// clang-format on

template <class T>
Variable<T> add(Tape<T>& tape, const Variable<T>& a, const Variable<T>& b) {
  if (a->value.rows() != b->value.rows() || a->value.cols() != b->value.cols()) {
    throw std::invalid_argument(fmt::format(
        "add: a is {} and b is {}; they must have the same shape", shape_of(a), shape_of(b)));
  }
  return tape.record(a->value + b->value, [a, b](const Matrix<T>& d_y) {
    a->grad += d_y;
    b->grad += d_y;
  });
}

template <class T>
Variable<T> add_bias(Tape<T>& tape, const Variable<T>& x, const Variable<T>& bias) {
  check_row("add_bias", "the bias", x, bias);
  return tape.record(x->value.rowwise() + bias->value.row(0), [x, bias](const Matrix<T>& d_y) {
    x->grad += d_y;
    bias->grad += d_y.colwise().sum();
  });
}

template <class T>
Variable<T> scale(Tape<T>& tape, const Variable<T>& x, T factor) {
  return tape.record(factor * x->value,
                     [x, factor](const Matrix<T>& d_y) { x->grad += factor * d_y; });
}

template <class T>
Variable<T> embedding(Tape<T>& tape, const Variable<T>& table, std::vector<std::int64_t> ids) {
  check_ids("embedding", "the id", ids, table->value.rows());
  Matrix<T> rows(static_cast<std::int64_t>(ids.size()), table->value.cols());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    rows.row(i) = table->value.row(ids[i]);
  }
  return tape.record(std::move(rows), [table, ids = std::move(ids)](const Matrix<T>& d_y) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      table->grad.row(ids[i]) += d_y.row(i);
    }
  });
}

template <class T>
Variable<T> layer_norm(Tape<T>& tape, const Variable<T>& x, const Variable<T>& gain,
                       const Variable<T>& bias) {
  check_row("layer_norm", "the gain", x, gain);
  check_row("layer_norm", "the bias", x, bias);
  Matrix<T> normal = x->value.colwise() - x->value.rowwise().mean();
  const Vector<T> inverse =
      (normal.array().square().rowwise().mean() + static_cast<T>(kLayerNormEpsilon))
          .sqrt()
          .inverse();
  normal = inverse.asDiagonal() * normal;
  Matrix<T> y = normal * gain->value.row(0).asDiagonal();
  y.rowwise() += bias->value.row(0);
  return tape.record(std::move(y), [x, gain, bias, normal = std::move(normal),
                                    inverse](const Matrix<T>& d_y) {
    gain->grad += d_y.cwiseProduct(normal).colwise().sum();
    bias->grad += d_y.colwise().sum();
    // Mean and variance depend on the whole row, as softmax's sum does.
    const Matrix<T> d_normal = d_y * gain->value.row(0).asDiagonal();
    const Vector<T> mean = d_normal.rowwise().mean();
    const Vector<T> along = d_normal.cwiseProduct(normal).rowwise().mean();
    x->grad += inverse.asDiagonal() * ((d_normal.colwise() - mean) - along.asDiagonal() * normal);
  });
}

template <class T>
Variable<T> gelu(Tape<T>& tape, const Variable<T>& x) {
  const T root_half = static_cast<T>(std::sqrt(0.5));
  const auto normal_distribution = [root_half](T t) { return (1 + std::erf(t * root_half)) / 2; };
  Matrix<T> y = x->value.unaryExpr([&](T t) { return t * normal_distribution(t); });
  return tape.record(std::move(y), [x, normal_distribution](const Matrix<T>& d_y) {
    const T density_at_0 = static_cast<T>(1 / std::sqrt(2 * EIGEN_PI));
    x->grad += d_y.cwiseProduct(x->value.unaryExpr(
        [&](T t) { return normal_distribution(t) + t * density_at_0 * std::exp(-t * t / 2); }));
  });
}

template <class T>
Variable<T> cross_entropy(Tape<T>& tape, const Variable<T>& logits,
                          std::vector<std::int64_t> targets) {
  const std::int64_t rows = logits->value.rows();
  if (static_cast<std::int64_t>(targets.size()) != rows) {
    throw std::invalid_argument(
        fmt::format("cross_entropy: the logits are {}, so there must be {} targets; there are {}",
                    shape_of(logits), rows, targets.size()));
  }
  check_ids("cross_entropy", "the target", targets, logits->value.cols());
  const Vector<T> lse = naive::log_sum_exp(logits->value);
  T sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    sum += lse(i) - logits->value(i, targets[i]);
  }
  const T mean = sum / static_cast<T>(rows);
  return tape.record(Matrix<T>::Constant(1, 1, mean),
                     [logits, lse, targets = std::move(targets)](const Matrix<T>& d_y) {
                       // softmax - [j = target], rebuilt from LSE as attention does it
                       Matrix<T> d = (logits->value.colwise() - lse).array().exp();
                       for (std::int64_t i = 0; i < d.rows(); ++i) d(i, targets[i]) -= 1;
                       logits->grad += d_y(0, 0) / static_cast<T>(d.rows()) * d;
                     });
}

template <class T>
AttentionEngine<T> naive_engine() {
  return {naive::forward<T>,
          [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const T, 4>,
             View<const T, 3>, View<const T, 4> d_o, const AttentionOptions& options) {
            return naive::backward<T>(q, k, v, d_o, options);
          }};
}

template <class T>
AttentionEngine<T> tiled_engine(const online::Tiles& tiles) {
  return {[tiles](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                  const AttentionOptions& options) {
            return online::tiled_forward<T>(q, k, v, options, tiles);
          },
          [tiles](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const T, 4> o,
                  View<const T, 3> lse, View<const T, 4> d_o, const AttentionOptions& options) {
            return tiled_backward<T>(q, k, v, o, lse, d_o, options, tiles);
          }};
}

namespace {

// Refuses rows that are no whole number of sequences and columns that are no whole number of heads.
template <class T>
void check_cut(const char* name, const Variable<T>& x, std::int64_t batch, std::int64_t heads) {
  if (batch >= 1 && heads >= 1 && x->value.rows() % batch == 0 && x->value.cols() % heads == 0) {
    return;
  }
  throw std::invalid_argument(
      fmt::format("attention: {} is {}; it cannot be cut into {} sequences and {} heads", name,
                  shape_of(x), batch, heads));
}

}  // namespace

// clang-format off
//! [attention]
template <class T>
Variable<T> attention(Tape<T>& tape, const Variable<T>& q,
                      const Variable<T>& k, const Variable<T>& v,
                      const HeadLayout& layout,
                      const AttentionOptions& options,
                      const AttentionEngine<T>& engine) {
  const std::int64_t batch = layout.batch;
  check_cut("q", q, batch, layout.heads);
  check_cut("k", k, batch, layout.kv_heads);
  check_cut("v", v, batch, layout.kv_heads);
  const auto heads = [=](const Matrix<T>& x, std::int64_t count) {
    return naive::split_heads(x, batch, count);
  };
  auto forward = engine.forward(heads(q->value, layout.heads),
                                heads(k->value, layout.kv_heads),
                                heads(v->value, layout.kv_heads), options);
  Matrix<T> o = naive::join_heads(forward.o);
  return tape.record(std::move(o), [=, saved = std::move(forward)](
                                       const Matrix<T>& d_o) {
    const auto gradients = engine.backward(
        heads(q->value, layout.heads), heads(k->value, layout.kv_heads),
        heads(v->value, layout.kv_heads), saved.o, saved.lse,
        heads(d_o, layout.heads), options);
    q->grad += naive::join_heads(gradients.d_q);
    k->grad += naive::join_heads(gradients.d_k);
    v->grad += naive::join_heads(gradients.d_v);
  });
}
//! [attention]
// clang-format on

#define FA_AUTOGRAD_FOR(T)                                                                        \
  template Variable<T> matmul<T>(Tape<T>&, const Variable<T>&, const Variable<T>&);               \
  template Variable<T> add<T>(Tape<T>&, const Variable<T>&, const Variable<T>&);                  \
  template Variable<T> add_bias<T>(Tape<T>&, const Variable<T>&, const Variable<T>&);             \
  template Variable<T> scale<T>(Tape<T>&, const Variable<T>&, T);                                 \
  template Variable<T> embedding<T>(Tape<T>&, const Variable<T>&, std::vector<std::int64_t>);     \
  template Variable<T> layer_norm<T>(Tape<T>&, const Variable<T>&, const Variable<T>&,            \
                                     const Variable<T>&);                                         \
  template Variable<T> gelu<T>(Tape<T>&, const Variable<T>&);                                     \
  template Variable<T> cross_entropy<T>(Tape<T>&, const Variable<T>&, std::vector<std::int64_t>); \
  template AttentionEngine<T> naive_engine<T>();                                                  \
  template AttentionEngine<T> tiled_engine<T>(const online::Tiles&);                              \
  template Variable<T> attention<T>(Tape<T>&, const Variable<T>&, const Variable<T>&,             \
                                    const Variable<T>&, const HeadLayout&,                        \
                                    const AttentionOptions&, const AttentionEngine<T>&);
FA_AUTOGRAD_FOR(double)
FA_AUTOGRAD_FOR(float)

}  // namespace fa::backward
