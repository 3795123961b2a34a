#include "06_flash_backward/src/derivation/derivation.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "01_naive_attention/gradient_check.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

using naive::kDifferenceStep;
using naive::kDifferenceTolerance;

constexpr double kNegInf = -std::numeric_limits<double>::infinity();

// What float64 sums of a few dozen products of numbers near 1 may be off by, relative to the
// largest.
constexpr double kRounding = 256 * std::numeric_limits<double>::epsilon();

Vector<double> random_vector(std::int64_t size, std::uint64_t seed) {
  Vector<double> result(size);
  fill_normal(View<double, 1>(result.data(), {size}), seed);
  return result;
}

Matrix<double> random_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  const Vector<double> numbers = random_vector(rows * cols, seed);
  return Eigen::Map<const Matrix<double>>(numbers.data(), rows, cols);
}

View<double, 2> view_of(Matrix<double>& m) {
  return {m.data(), {m.rows(), m.cols()}};
}
View<const double, 2> view_of(const Matrix<double>& m) {
  return {m.data(), {m.rows(), m.cols()}};
}

double difference(const Matrix<double>& a, const Matrix<double>& b) {
  return naive::relative_difference(view_of(a), view_of(b));
}

// The gradient of a loss of a matrix by central differences, as a matrix.
Matrix<double> gradient_of(const std::function<double()>& loss, Matrix<double>& x) {
  const auto gradient = naive::numerical_gradient(loss, view_of(x));
  return as_matrix(gradient.view());
}

// Three smooth functions to try statements on: R^4 -> R^3 -> R^5, and R^5 -> R^5.
Vector<double> first(const Vector<double>& x) {
  Vector<double> y(3);
  y << std::sin(x(0)) * x(1), x(2) * x(2) + x(3), std::exp(x(0) - x(3));
  return y;
}
Vector<double> second(const Vector<double>& y) {
  Vector<double> z(5);
  z << y(0) * y(1), y(1) / (1 + y(2) * y(2)), std::cos(y(2)), y(0) + y(1), y(0) * y(0);
  return z;
}
Vector<double> third(const Vector<double>& z) {
  return softmax(z);
}

Matrix<double> only_head(const Tensor<double, 4>& tensor) {
  return as_matrix(tensor.view().at(0).at(0));
}

Tensor<double, 4> as_tensor(const Matrix<double>& head) {
  Tensor<double, 4> result({1, 1, head.rows(), head.cols()});
  as_matrix(result.view().at(0).at(0)) = head;
  return result;
}

// The number that all gradients of a problem are of: sum of dO * O.
double loss_of(const HeadProblem& problem) {
  const auto o = naive::forward<double>(problem.q, problem.k, problem.v, problem.options()).o;
  return std::inner_product(o.data(), o.data() + o.count(), problem.d_o.data(), 0.0);
}

// The factors of dropout, Z.
Matrix<double> dropout_of(const HeadProblem& problem) {
  Matrix<double> z(problem.keep.size(2), problem.keep.size(3));
  for (std::int64_t i = 0; i < z.rows(); ++i) {
    for (std::int64_t j = 0; j < z.cols(); ++j) {
      z(i, j) = problem.keep(0, 0, i, j) != 0 ? 1 / (1 - problem.dropout_probability) : 0;
    }
  }
  return z;
}

// Applies the causal mask to the scores.
void hide(Matrix<double>& s) {
  for (std::int64_t i = 0; i < s.rows(); ++i) {
    for (std::int64_t j = 0; j < s.cols(); ++j) {
      if (j > i + s.cols() - s.rows()) s(i, j) = kNegInf;
    }
  }
}

// Attention from its scores on, as lesson 01 has it.
struct FromScores {
  Matrix<double> s, z, v, d_o;

  Matrix<double> probs() const {
    Matrix<double> masked = s;
    hide(masked);
    return naive::safe_softmax(masked);
  }
  double loss() const { return (probs().cwiseProduct(z) * v).cwiseProduct(d_o).sum(); }
};

FromScores from_scores(std::uint64_t seed) {
  const HeadProblem problem = head_problem(seed);
  return {random_matrix(7, 5, seed + 10), dropout_of(problem), only_head(problem.v),
          only_head(problem.d_o)};
}

}  // namespace

std::vector<StepError> step_errors() {
  const double x = 1, slope = std::exp(x);
  std::vector<StepError> errors;
  for (int digits = 1; digits <= 15; ++digits) {
    const double h = std::pow(10, -digits);
    //! [quotients]
    const double one_sided = (std::exp(x + h) - std::exp(x)) / h;
    const double central = (std::exp(x + h) - std::exp(x - h)) / (2 * h);
    //! [quotients]
    errors.push_back({h, std::abs(one_sided - slope) / slope, std::abs(central - slope) / slope});
  }
  return errors;
}

//! [jacobian]
Matrix<double> jacobian(const VectorFunction& f, const Vector<double>& x) {
  Matrix<double> result(f(x).size(), x.size());
  Vector<double> moved = x;
  for (std::int64_t j = 0; j < x.size(); ++j) {
    moved(j) = x(j) + kDifferenceStep;
    const Vector<double> above = f(moved);
    moved(j) = x(j) - kDifferenceStep;
    const Vector<double> below = f(moved);
    moved(j) = x(j);
    result.col(j) = (above - below) / (2 * kDifferenceStep);
  }
  return result;
}
//! [jacobian]

Vector<double> softmax(const Vector<double>& s) {
  return naive::safe_softmax(Matrix<double>(s.transpose())).row(0);
}

Matrix<double> softmax_jacobian(const Vector<double>& p) {
  Matrix<double> j = p.asDiagonal();
  return j - p * p.transpose();
}

Vector<double> softmax_backward(const Vector<double>& p, const Vector<double>& d_p) {
  const double delta = p.dot(d_p);
  return p.array() * (d_p.array() - delta);
}

ProductGradients product_backward(const Matrix<double>& a, const Matrix<double>& b,
                                  const Matrix<double>& d_c) {
  return {d_c * b.transpose(), a.transpose() * d_c};
}

Matrix<double> recomputed_probs(const Matrix<double>& s, const Vector<double>& lse) {
  Matrix<double> p(s.rows(), s.cols());
  for (std::int64_t i = 0; i < s.rows(); ++i) {
    for (std::int64_t j = 0; j < s.cols(); ++j) {
      p(i, j) = lse(i) == kNegInf ? 0 : std::exp(s(i, j) - lse(i));
    }
  }
  return p;
}

const std::vector<NamedMistake>& all_mistakes() {
  static const std::vector<NamedMistake> mistakes = {
      {Mistake::kNone, "none"},
      {Mistake::kNoDelta, "delta omitted"},
      {Mistake::kDeltaPerElement, "delta per element"},
      {Mistake::kSoftmaxSign, "+ off the diagonal"},
      {Mistake::kNoScaleInDq, "no scale in dQ"},
      {Mistake::kNoScaleInDk, "no scale in dK"},
      {Mistake::kScaleTwiceInDk, "scale twice in dK"},
      {Mistake::kLseInBaseTwo, "LSE in base 2, exp in base e"},
      {Mistake::kMaskForgotten, "P without the mask"},
      {Mistake::kUndroppedInDv, "dV from P before dropout"},
      {Mistake::kDropoutLeftOutOfDp, "dP without dropout"}};
  return mistakes;
}

AttentionOptions HeadProblem::options() const {
  AttentionOptions result;
  result.causal = true;
  result.dropout_keep = keep;
  result.dropout_probability = dropout_probability;
  return result;
}

HeadProblem head_problem(std::uint64_t seed) {
  constexpr std::int64_t kQueries = 7, kKeys = 5, kDim = 3;
  HeadProblem problem;
  problem.q = normal_tensor<double, 4>({1, 1, kQueries, kDim}, seed);
  problem.k = normal_tensor<double, 4>({1, 1, kKeys, kDim}, seed + 1);
  problem.v = normal_tensor<double, 4>({1, 1, kKeys, kDim}, seed + 2);
  problem.d_o = normal_tensor<double, 4>({1, 1, kQueries, kDim}, seed + 3);
  problem.keep =
      random_keep_mask<4>({1, 1, kQueries, kKeys}, problem.dropout_probability, seed + 4);
  return problem;
}

naive::Gradients<double> head_gradients(const HeadProblem& problem, Mistake mistake) {
  const auto forward = naive::forward<double>(problem.q, problem.k, problem.v, problem.options());
  const double scale = problem.options().scale_for(problem.q.size(3));
  const Matrix<double> q = only_head(problem.q), k = only_head(problem.k), v = only_head(problem.v),
                       o = only_head(forward.o), d_o = only_head(problem.d_o),
                       z = dropout_of(problem);
  Vector<double> lse(q.rows());
  for (std::int64_t i = 0; i < q.rows(); ++i) lse(i) = forward.lse(0, 0, i);
  if (mistake == Mistake::kLseInBaseTwo) lse /= std::log(2.0);

  Matrix<double> s = scale * q * k.transpose();
  if (mistake != Mistake::kMaskForgotten) hide(s);
  const Matrix<double> p = recomputed_probs(s, lse);
  const Matrix<double> p_kept = mistake == Mistake::kUndroppedInDv ? p : p.cwiseProduct(z);
  Matrix<double> d_p = d_o * v.transpose();
  if (mistake != Mistake::kDropoutLeftOutOfDp) d_p = d_p.cwiseProduct(z);
  const Vector<double> delta = d_o.cwiseProduct(o).rowwise().sum();

  Matrix<double> inner = d_p.colwise() - delta;
  if (mistake == Mistake::kNoDelta) inner = d_p;
  if (mistake == Mistake::kDeltaPerElement) inner = d_p - p.cwiseProduct(d_p);
  if (mistake == Mistake::kSoftmaxSign) inner = (d_p.colwise() + delta) - 2 * p.cwiseProduct(d_p);
  const Matrix<double> d_s = p.cwiseProduct(inner);
  const double in_d_q = mistake == Mistake::kNoScaleInDq ? 1 : scale;
  const double in_d_k = mistake == Mistake::kNoScaleInDk      ? 1
                        : mistake == Mistake::kScaleTwiceInDk ? scale * scale
                                                              : scale;
  return {as_tensor(in_d_q * d_s * k), as_tensor(in_d_k * d_s.transpose() * q),
          as_tensor(p_kept.transpose() * d_o)};
}

double GradientErrors::worst() const {
  return naive::worse(d_q, naive::worse(d_k, d_v));
}

GradientErrors errors_of(const HeadProblem& problem, const naive::Gradients<double>& gradients) {
  HeadProblem moved = problem;
  const auto loss = [&] { return loss_of(moved); };
  const auto error = [&](const Tensor<double, 4>& gradient, Tensor<double, 4>& x) {
    const auto numerical = naive::numerical_gradient(loss, x.view());
    return naive::relative_difference(gradient.view(), View<const double, 4>(numerical));
  };
  return {error(gradients.d_q, moved.q), error(gradients.d_k, moved.k),
          error(gradients.d_v, moved.v)};
}

namespace {

// A gradient holds the slopes in all directions.
Comparison slope_is_gradient_times_direction() {
  const auto f = [](const Vector<double>& x) { return first(x).sum(); };
  Matrix<double> x = random_matrix(4, 1, 1);
  const Vector<double> gradient = gradient_of([&] { return f(x); }, x);
  const Vector<double> u = random_vector(4, 2);
  const double h = kDifferenceStep;
  const double slope = (f(x + h * u) - f(x - h * u)) / (2 * h);
  return {"slope along u = gradient . u", std::abs(slope - gradient.dot(u)) / std::abs(slope),
          kDifferenceTolerance};
}

// Reverse mode never needs a Jacobian.
Comparison vector_times_jacobian_is_a_gradient() {
  //! [vjp]
  Matrix<double> x = random_matrix(4, 1, 3);
  const Vector<double> u = random_vector(3, 4);
  const Vector<double> product = jacobian(first, x).transpose() * u;
  const auto loss = [&] { return u.dot(first(x)); };
  const Vector<double> gradient = gradient_of(loss, x);
  //! [vjp]
  return {"u^T J = gradient of u . f(x)", difference(product, gradient), kDifferenceTolerance};
}

// A loss of three functions in a row, differentiated from the loss inwards, a vector at a time.
Comparison reverse_mode() {
  //! [reverse]
  Matrix<double> x = random_matrix(4, 1, 6);
  const Vector<double> y = first(x), z = second(y), u = random_vector(5, 7);
  const Vector<double> d_z = jacobian(third, z).transpose() * u;
  const Vector<double> d_y = jacobian(second, y).transpose() * d_z;
  const Vector<double> d_x = jacobian(first, x).transpose() * d_y;
  const auto loss = [&] { return u.dot(third(second(first(x)))); };
  const Vector<double> gradient = gradient_of(loss, x);
  //! [reverse]
  return {"reverse mode, three functions", difference(d_x, gradient), kDifferenceTolerance};
}

Comparison softmax_jacobian_formula() {
  const Vector<double> s = random_vector(6, 8);
  return {"Jacobian of softmax = diag(p) - p p^T",
          difference(softmax_jacobian(softmax(s)), jacobian(softmax, s)), kDifferenceTolerance};
}

Comparison softmax_without_jacobian() {
  const Vector<double> p = softmax(random_vector(6, 8)), d_p = random_vector(6, 9);
  const Vector<double> product = softmax_jacobian(p).transpose() * d_p;
  return {"its product with dP = P * (dP - delta), elementwise",
          difference(softmax_backward(p, d_p), product), kRounding};
}

// Softmax does not depend on a shift of all scores.
Comparison score_gradients_sum_to_zero() {
  const Vector<double> d_s = softmax_backward(softmax(random_vector(6, 8)), random_vector(6, 9));
  return {"a row of dS sums to 0", std::abs(d_s.sum()) / d_s.cwiseAbs().maxCoeff(), kRounding};
}

Comparison product_gradients() {
  Matrix<double> a = random_matrix(3, 4, 10), b = random_matrix(4, 5, 11);
  const Matrix<double> d_c = random_matrix(3, 5, 12);
  const auto loss = [&] { return (a * b).cwiseProduct(d_c).sum(); };
  const ProductGradients gradients = product_backward(a, b, d_c);
  return {"C = A B: dA = dC B^T, dB = A^T dC",
          naive::worse(difference(gradients.d_a, gradient_of(loss, a)),
                       difference(gradients.d_b, gradient_of(loss, b))),
          kDifferenceTolerance};
}

Comparison weights_from_lse() {
  Matrix<double> s = 10 * random_matrix(7, 5, 13);
  hide(s);  // the first rows see no key
  return {"P = exp(S - LSE)",
          difference(recomputed_probs(s, naive::log_sum_exp(s)), naive::safe_softmax(s)),
          kRounding};
}

// With dropout: dP = (dO V^T) * Z and O = (P * Z) V, elementwise.
Comparison delta_identity() {
  const FromScores x = from_scores(15);
  const Matrix<double> p = x.probs();
  const Matrix<double> o = p.cwiseProduct(x.z) * x.v;
  const Matrix<double> d_p = (x.d_o * x.v.transpose()).cwiseProduct(x.z);
  const Vector<double> from_probs = p.cwiseProduct(d_p).rowwise().sum();
  const Vector<double> from_outputs = x.d_o.cwiseProduct(o).rowwise().sum();
  return {"rowsum(P o dP) = rowsum(dO * O)", difference(from_outputs, from_probs), kRounding};
}

// By how much the loss moves when a score is moved: not at all when it is masked.
Comparison gradient_of_scores() {
  FromScores x = from_scores(5);
  const Matrix<double> moved = gradient_of([&] { return x.loss(); }, x.s);
  const Matrix<double> p = x.probs();
  const Matrix<double> d_p = (x.d_o * x.v.transpose()).cwiseProduct(x.z);
  Matrix<double> d_s(p.rows(), p.cols());
  for (std::int64_t i = 0; i < p.rows(); ++i) {
    d_s.row(i) = softmax_backward(p.row(i), d_p.row(i));
    for (std::int64_t j = i + p.cols() - p.rows() + 1; j < p.cols(); ++j) {
      if (j >= 0 && (d_s(i, j) != 0 || moved(i, j) != 0)) {
        d_s(i, j) = std::numeric_limits<double>::infinity();
      }
    }
  }
  return {"dS; masked scores: 0", difference(d_s, moved), kDifferenceTolerance};
}

// Attention of scale Q with scale 1 is attention of Q.
Comparison scale_of_d_q() {
  HeadProblem problem = head_problem(16);
  AttentionOptions options = problem.options();
  const double scale = 0.3;
  options.scale = scale;
  const auto d_q =
      naive::backward<double>(problem.q, problem.k, problem.v, problem.d_o, options).d_q;
  options.scale = 1;
  const auto scaled = as_tensor(scale * only_head(problem.q));
  const auto d_scaled =
      naive::backward<double>(scaled, problem.k, problem.v, problem.d_o, options).d_q;
  return {"dQ = scale times d(scale Q)", difference(scale * only_head(d_scaled), only_head(d_q)),
          kRounding};
}

Comparison groups_sum() {
  const auto q = normal_tensor<double, 4>({1, 3, 4, 2}, 17),
             d_o = normal_tensor<double, 4>({1, 3, 4, 2}, 18),
             k = normal_tensor<double, 4>({1, 1, 5, 2}, 19),
             v = normal_tensor<double, 4>({1, 1, 5, 2}, 20);
  const auto shared = naive::backward<double>(q, k, v, d_o);
  Matrix<double> d_k = Matrix<double>::Zero(5, 2), d_v = d_k;
  for (std::int64_t h = 0; h < 3; ++h) {  // each with its own keys
    const auto alone =
        naive::backward<double>(q.view().narrow(1, h, h + 1), k, v, d_o.view().narrow(1, h, h + 1));
    d_k += only_head(alone.d_k);
    d_v += only_head(alone.d_v);
  }
  return {
      "GQA: dK, dV are sums over heads",
      naive::worse(difference(only_head(shared.d_k), d_k), difference(only_head(shared.d_v), d_v)),
      kRounding};
}

}  // namespace

std::vector<Comparison> statements() {
  return {slope_is_gradient_times_direction(),
          vector_times_jacobian_is_a_gradient(),
          reverse_mode(),
          softmax_jacobian_formula(),
          softmax_without_jacobian(),
          score_gradients_sum_to_zero(),
          product_gradients(),
          weights_from_lse(),
          delta_identity(),
          gradient_of_scores(),
          scale_of_d_q(),
          groups_sum()};
}

}  // namespace fa::backward
