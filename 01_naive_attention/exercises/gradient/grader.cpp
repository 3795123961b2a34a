#ifdef FA_ENTRIES  // the student's process
using M = fa::Matrix<double>;

FA_ENTRY(softmax_backward,
         [](const M& p, const M& d_p) { return student::softmax_backward<double>(p, d_p); });
#else  // the grader
#include "common/classroom/grader.hpp"

#include <numeric>

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

struct Case {
  M p, d_p;
  std::vector<double> right;  // dS, by differences
  std::vector<double> delta, d_p_sums, column_sums;

  Case(int queries, int keys, double spread)
      : p(queries, keys), d_p(queries, keys), column_sums(keys, 0.0) {
    for (int i = 0; i < queries; ++i) {
      std::vector<double> s, d;
      for (int j = 0; j < keys; ++j) {
        const auto place = static_cast<std::uint64_t>(i * keys + j);
        s.push_back(spread * fa::random_normal(1, place));
        d.push_back(fa::random_normal(2, place));
      }
      const std::vector<double> row = softmax(s), moved = differences(s, d);
      right.insert(right.end(), moved.begin(), moved.end());
      double of_row = 0, of_d_p = 0;
      for (int j = 0; j < keys; ++j) {
        p(i, j) = row[j];
        d_p(i, j) = d[j];
        of_row += row[j] * d[j];
        of_d_p += d[j];
        column_sums[j] += row[j] * d[j];
      }
      delta.push_back(of_row);
      d_p_sums.push_back(of_d_p);
    }
  }
};

std::vector<Mistake> mistakes(const Case& c) {
  const M &p = c.p, &d_p = c.d_p;
  const auto queries = static_cast<int>(p.rows()), keys = static_cast<int>(p.cols());
  // dS by some formula of i and j.
  const auto by = [&](const std::function<double(int, int)>& formula) {
    std::vector<double> result;
    for (int i = 0; i < queries; ++i) {
      for (int j = 0; j < keys; ++j) result.push_back(formula(i, j));
    }
    return result;
  };
  std::vector<Mistake> result{
      {"the gradient is zero", by([](int, int) { return 0.0; })},
      {"delta was left out: each probability of a row depends on all of its scores",
       by([&](int i, int j) { return p(i, j) * d_p(i, j); })},
      {"delta is the sum of dP here; it is the sum of P o dP",
       by([&](int i, int j) { return p(i, j) * (d_p(i, j) - c.d_p_sums[i]); })},
      {"delta is the sum of P here, which is 1; it is the sum of P o dP",
       by([&](int i, int j) { return p(i, j) * (d_p(i, j) - 1); })},
      {"delta is the mean of P o dP here; it is the sum",
       by([&](int i, int j) { return p(i, j) * (d_p(i, j) - c.delta[i] / keys); })},
      {"delta continues from the row before: it must begin at 0 in each row", by([&](int i, int j) {
         const double sum = std::accumulate(c.delta.begin(), c.delta.begin() + i + 1, 0.0);
         return p(i, j) * (d_p(i, j) - sum);
       })},
      {"delta was subtracted after the product with P",
       by([&](int i, int j) { return p(i, j) * d_p(i, j) - c.delta[i]; })},
      {"delta was added; it is subtracted",
       by([&](int i, int j) { return p(i, j) * (d_p(i, j) + c.delta[i]); })},
      {"the product with P is missing", by([&](int i, int j) { return d_p(i, j) - c.delta[i]; })},
      {"delta is one value per row of scores, not for each column",
       by([&](int i, int j) { return p(i, j) * (d_p(i, j) - c.column_sums[j]); })},
      {"only the diagonal of the Jacobian was used, P (1 - P); each probability of a row depends "
       "on all of its scores",
       by([&](int i, int j) { return p(i, j) * (1 - p(i, j)) * d_p(i, j); })},
      {"the diagonal of the Jacobian was left out: this is -P o delta",
       by([&](int i, int j) { return -p(i, j) * c.delta[i]; })},
      {"P was multiplied as a matrix; use cwiseProduct", by([&](int i, int j) {
         double sum = 0;
         for (int k = 0; k < std::min(queries, keys); ++k) {
           sum += p(i, k) * (d_p(k, j) - c.delta[k]);
         }
         return sum;
       })},
      {"delta is the sum of the element-wise product P o dP, not of a matmul",
       by([&](int i, int j) {
         double sum = 0;
         for (int k = 0; k < std::min(queries, keys); ++k) {
           sum += p(i, k) * c.d_p_sums[k];
         }
         return p(i, j) * (d_p(i, j) - sum);
       })}};
  if (queries == keys) {
    result.push_back({"delta was summed over the columns; it is the sum of each row",
                      by([&](int i, int j) { return p(i, j) * (d_p(i, j) - c.column_sums[i]); })});
  }
  return result;
}

void grade(int queries, int keys, double spread) {
  const Case c(queries, keys, spread);
  const M d_s = call<M>("softmax_backward", c.p, c.d_p);
  check({"dS", {d_s.data(), d_s.data() + d_s.size()}, keys}, c.right, 1e-8, mistakes(c),
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
