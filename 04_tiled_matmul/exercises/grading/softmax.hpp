/// @file
/// For graders of softmaxes of rows: cases, their reference, and the comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "common/classroom/lab.hpp"

namespace fa::classroom {

/// A matrix, and what a kernel made of it.
struct SoftmaxCase : Launched {
  int rows = 0, cols = 0;
  std::vector<float> x{};  ///< [rows, cols]
  std::string where{};     ///< in words
};

/// A random matrix.
/// @param masked_row a row of -infinity; -1 for none
/// @param level      of the elements
/// @param ties       whether all elements are 1 or -1
inline SoftmaxCase softmax_case(int rows, int cols, int masked_row = -1, float level = 0,
                                bool ties = false) {
  SoftmaxCase c{{}, rows, cols, random_floats(std::int64_t{rows} * cols, 3)};
  for (float& x : c.x) x = level + (ties ? (x < 0 ? -1.0f : 1.0f) : 4 * x);
  if (masked_row >= 0) {
    std::fill_n(c.x.begin() + masked_row * cols, cols, -std::numeric_limits<float>::infinity());
  }
  c.where = fmt::format("{} rows, {} columns{}{}{}", rows, cols,
                        masked_row < 0 ? "" : ", one of -infinity",
                        level == 0 ? "" : fmt::format(", elements around {:g}", level),
                        ties ? ", elements 1 and -1" : "");
  return c;
}

/// The softmax of each row, ln(sum of e^x) of each row, and this without the maximum. When a row has parts, element j is in
/// part j / width % parts, which has a softmax of its own.
struct RowSoftmax {
  std::vector<double> y, lse, log_l;
  explicit RowSoftmax(const SoftmaxCase& c, int parts = 1, int width = 1) {
    for (int row = 0; row < c.rows; ++row) {
      const float* x = c.x.data() + row * c.cols;
      std::vector<double> m(static_cast<std::size_t>(parts), -INFINITY), l(m.size());
      const auto part = [&](int j) { return static_cast<std::size_t>(j / width % parts); };
      const auto p = [&](int j) { return x[j] == -INFINITY ? 0 : std::exp(x[j] - m[part(j)]); };
      for (int j = 0; j < c.cols; ++j) m[part(j)] = std::max<double>(m[part(j)], x[j]);
      for (int j = 0; j < c.cols; ++j) l[part(j)] += p(j);
      for (int j = 0; j < c.cols; ++j) y.push_back(l[part(j)] == 0 ? 0 : p(j) / l[part(j)]);
      log_l.push_back(std::log(l[0]));
      lse.push_back(m[0] + log_l.back());
    }
  }
};

/// Refuses when y is not the softmax of each row.
/// @param mistakes tried before those that every softmax knows
inline void check_softmax(const SoftmaxCase& c, const std::vector<double>& y,
                          const std::vector<Reason>& reasons, std::vector<Mistake> mistakes) {
  const std::vector<double> right = RowSoftmax(c).y;
  require(y.size() == right.size(), "y has another size");
  if (found(c.seen, "barrier")) require_no_findings(c.seen, reasons);
  // The right result with the sum of each row of y.
  std::vector<double> scaled = right;
  for (std::size_t row = 0; row < y.size(); row += c.cols) {
    const double sum = std::accumulate(y.begin() + row, y.begin() + row + c.cols, 0.0);
    for (std::size_t i = row; i < row + c.cols; ++i) scaled[i] *= sum;
  }
  if (std::any_of(y.begin(), y.end(), [](double p) { return std::isnan(p); })) {
    mistakes.push_back(
        {"y is NaN. Where nothing but -infinity was seen, -infinity - -infinity is NaN, and so is "
         "0 / 0; and e^x overflows where the maximum is not subtracted",
         y});
  }
  mistakes.push_back(
      {"y is 0 in rows of finite elements: does m start at a number that is above them? only "
       "-infinity is below every element",
       std::vector<double>(y.size())});
  mistakes.push_back(
      {"each row is right up to a factor, so only l is wrong: an element is in it twice or is of "
       "another row, or sums relative to different maxima were added: rescale both, then set m",
       scaled});
  // Elements far from 0 have fewer digits behind the point.
  const bool far = std::any_of(c.x.begin(), c.x.end(), [](float x) { return std::abs(x) > 1e3f; });
  check_result(c.seen, reasons, {"y", y, c.cols}, right, far ? 1e-2 : 1e-5, mistakes, c.where);
}

}  // namespace fa::classroom
