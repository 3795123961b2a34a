#if defined(FA_STUDENT)
#include "common/tensor/matrix.hpp"

namespace student {

using fa::Matrix;
using fa::Vector;

/// The gradient of a loss with respect to the scores, from that with respect to the
/// probabilities.
/// @param p   [length_q, length_k], the probabilities: softmax of each row of scores
/// @param d_p [length_q, length_k]
/// @return dS [length_q, length_k]
template <class A>
Matrix<A> softmax_backward(const Matrix<A>& p, const Matrix<A>& d_p) {
  // In the lesson this rounds to 16 bits; here it does nothing.
  [[maybe_unused]] const auto stored = [](Matrix<A> x) { return x; };
#ifdef FA_SOLUTION
  // listing: 01_naive_attention/attention.cpp#d_s
#else
  // TODO: delta, and dS from it. This is a zero of the right size.
  (void)d_p;
  const Matrix<A> d_s = Matrix<A>::Zero(p.rows(), p.cols());
#endif
  return d_s;
}

}  // namespace student
#elif defined(FA_ENTRIES)
using M = fa::Matrix<double>;

FA_ENTRY(softmax_backward,
         [](const M& p, const M& d_p) { return student::softmax_backward<double>(p, d_p); });
#elif defined(FA_GRADER)
#include <numeric>

#include "common/classroom/grader.hpp"

using namespace fa::classroom;
using M = fa::Matrix<double>;

namespace {

// Softmax of one row.
std::vector<double> softmax(const std::vector<double>& s) {
  double m = s[0], l = 0;
  for (const double x : s) m = std::max(m, x);
  std::vector<double> p;
  for (const double x : s) l += p.emplace_back(std::exp(x - m));
  for (double& x : p) x /= l;
  return p;
}

// What the loss sum(dP o P) does when each score of a row moves.
std::vector<double> differences(std::vector<double> s, const std::vector<double>& d_p) {
  const double step = 1e-5;
  const auto loss = [&] {
    const std::vector<double> p = softmax(s);
    double sum = 0;
    for (std::size_t j = 0; j < p.size(); ++j) sum += d_p[j] * p[j];
    return sum;
  };
  std::vector<double> result;
  for (double& x : s) {
    const double old = x;
    x = old + step;
    const double up = loss();
    x = old - step;
    result.push_back((up - loss()) / (2 * step));
    x = old;
  }
  return result;
}

void grade(int queries, int keys, double spread) {
  M p(queries, keys), d_p(queries, keys);
  std::vector<double> right;
  std::vector<double> without_delta, of_d_p, behind_product, not_weighted;
  for (int i = 0; i < queries; ++i) {
    std::vector<double> s, d;
    for (int j = 0; j < keys; ++j) {
      const auto place = static_cast<std::uint64_t>(i * keys + j);
      s.push_back(spread * fa::random_normal(1, place));
      d.push_back(fa::random_normal(2, place));
    }
    const std::vector<double> row = softmax(s), moved = differences(s, d);
    right.insert(right.end(), moved.begin(), moved.end());
    const double delta = std::inner_product(row.begin(), row.end(), d.begin(), 0.0);
    const double sum = std::accumulate(d.begin(), d.end(), 0.0);
    for (int j = 0; j < keys; ++j) {
      p(i, j) = row[j];
      d_p(i, j) = d[j];
      without_delta.push_back(row[j] * d[j]);
      of_d_p.push_back(row[j] * (d[j] - sum));
      behind_product.push_back(row[j] * d[j] - delta);
      not_weighted.push_back(d[j] - delta);
    }
  }
  std::vector<double> by_key;
  for (int i = 0; i < queries; ++i) {
    for (int j = 0; j < keys; ++j) {
      by_key.push_back(p(i, j) * (d_p(i, j) - p.col(j).dot(d_p.col(j))));
    }
  }
  const M d_s = call<M>("softmax_backward", p, d_p);
  check({"dS", {d_s.data(), d_s.data() + d_s.size()}, keys}, right, 1e-8,
        {{"the gradient is zero", std::vector<double>(right.size(), 0)},
         {"delta was left out: each probability of a row depends on all of its scores",
          without_delta},
         {"delta is the sum of dP here; it is the sum of P o dP", of_d_p},
         {"delta is the sum over a column here; it belongs to a query, and is the sum of its row",
          by_key},
         {"delta was subtracted after the product with P", behind_product},
         {"the product with P is missing", not_weighted}},
        fmt::format("{} queries, {} keys", queries, keys));
}

}  // namespace

FA_STAGE(easy) {
  grade(5, 5, 1);
}

FA_STAGE(odd) {
  grade(1, 4, 1);
  grade(7, 3, 1);
  grade(3, 1, 1);
  grade(2, 11, 300);  // nearly all probabilities are 0
}
#endif
/* Other answers, as changes of the solution
# delta_left_out: the probabilities of a row are taken to be independent
@ easy: delta was left out
- const Matrix<A> d_s = stored(p.cwiseProduct(d_p.colwise() - delta));
+ (void)delta;
+ const Matrix<A> d_s = stored(p.cwiseProduct(d_p));

# delta_of_d_p: the sum of dP and not of P o dP
@ easy: delta is the sum of dP
- const Vector<A> delta = p.cwiseProduct(d_p).rowwise().sum();
+ const Vector<A> delta = d_p.rowwise().sum();

# delta_of_columns: the sums of columns
@ easy: the sum over a column
- const Matrix<A> d_s = stored(p.cwiseProduct(d_p.colwise() - delta));
+ (void)delta;
+ const Matrix<A> d_s = stored(p.cwiseProduct(d_p.rowwise() - p.cwiseProduct(d_p).colwise().sum()));

# delta_after_the_product: P o dP - delta
@ easy: delta was subtracted after the product
- const Matrix<A> d_s = stored(p.cwiseProduct(d_p.colwise() - delta));
+ const Matrix<A> d_s = stored(p.cwiseProduct(d_p).colwise() - delta);

# not_weighted: the product with P is missing
@ easy: the product with P is missing
- const Matrix<A> d_s = stored(p.cwiseProduct(d_p.colwise() - delta));
+ const Matrix<A> d_s = stored(d_p.colwise() - delta);

# jacobian: the whole Jacobian, element by element
@ right
- const Vector<A> delta = p.cwiseProduct(d_p).rowwise().sum();
- const Matrix<A> d_s = stored(p.cwiseProduct(d_p.colwise() - delta));
+  Matrix<A> d_s = Matrix<A>::Zero(p.rows(), p.cols());
+  for (int i = 0; i < p.rows(); i++) for (int j = 0; j < p.cols(); j++) for (int k = 0; k < p.cols(); k++) d_s(i, j) += d_p(i, k) * p(i, k) * ((j == k) - p(i, j));
+  (void)stored;
*/
