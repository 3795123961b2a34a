/// @file
/// Lesson 03 for one row in floating point: softmax in two passes, attention in one pass, attention
/// with split keys, and a bound on their rounding errors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "02_safe_softmax/softmax.hpp"
#include "03_online_softmax/recurrence.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::online {

/// A state whose value is a vector of elements of type T.
template <class T>
using RowState = State<BaseE<T>, Vector<T>>;

/// The empty state, for values of d elements.
template <class T>
RowState<T> empty_row_state(std::int64_t d) {
  return {BaseE<T>::neg_inf, T(0), Vector<T>::Zero(d)};
}

/// Attention of one row.
template <class T>
struct RowAttention {
  Vector<T> o;            ///< [d], sum of p_j v_j; zeros when every score is -infinity
  T lse;                  ///< ln(sum exp(s)); -infinity when every score is
  safe::Traffic traffic;  ///< reads of scores and values
};

/// Checks that the lengths of scores and values agree.
/// @throws std::invalid_argument unless there is one value for each score
inline void check_row(std::int64_t scores, std::int64_t values) {
  if (scores != values) {
    throw std::invalid_argument(fmt::format(
        "{} scores do not fit {} values; a row has one value for each score", scores, values));
  }
}

/// The distance from the least finite score to the largest, for error_bound().
template <class T>
double spread(View<const T, 1> s) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::int64_t j = 0; j < s.size(0); ++j) {
    if (std::isinf(s(j))) continue;
    low = std::min<double>(low, s(j));
    high = std::max<double>(high, s(j));
  }
  return std::max(0.0, high - low);
}

/// m + ln l, the logarithm of the sum; -infinity of the empty state.
template <class T>
T lse_of(const RowState<T>& x) {
  return x.l == T(0) ? BaseE<T>::neg_inf : x.m + std::log(x.l);
}

/// Softmax in two passes: one for m and l, one for the probabilities. (Lesson 02 needs three.)
/// Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 3.
/// @param x [n], finite or -infinity; NaN gives NaN
/// @param y [n], the probabilities; zeros when every score is -infinity
/// @throws std::invalid_argument as safe::check_rows()
template <class T>
safe::Traffic two_pass_softmax(View<const T, 1> x, View<T, 1> y) {
  safe::check_rows(x.size(0), y.size(0));
  using W = BaseE<T>;
  const std::int64_t n = x.size(0);
  safe::Traffic traffic;
  T m = W::neg_inf, l = 0;
  ++traffic.passes;
  for (std::int64_t j = 0; j < n; ++j, ++traffic.reads) {
    const T m_new = std::max(m, x(j));
    l = W::exp_diff(m, m_new) * l + W::exp_diff(x(j), m_new);
    m = m_new;
  }
  ++traffic.passes;
  for (std::int64_t j = 0; j < n; ++j, ++traffic.reads) {
    y(j) = l == T(0) ? T(0) : W::exp_diff(x(j), m) / l;
    ++traffic.writes;
  }
  return traffic;
}

/// Attention of one row in a single pass.
/// @tparam R      Unnormalised or Normalised
/// @param scores [n], finite or -infinity
/// @param values [n, d]
/// @throws std::invalid_argument when the lengths differ
template <class R, class T>
RowAttention<T> one_pass(View<const T, 1> scores, View<const T, 2> values) {
  check_row(scores.size(0), values.size(0));
  const std::int64_t n = scores.size(0), d = values.size(1);
  const auto v = as_matrix(values);
  safe::Traffic traffic{1, 0, 0};
  RowState<T> x = empty_row_state<T>(d);
  for (std::int64_t j = 0; j < n; ++j) {
    R::step(x, scores(j), Vector<T>(v.row(j)));
    traffic.reads += 1 + d;
  }
  return {R::output(x), lse_of(x), traffic};
}

/// Attention of one row with the keys split into independent parts, as in split-KV decoding
/// (Flash-Decoding) of one query with a long KV cache.
/// @param scores [n], finite or -infinity
/// @param values [n, d]
/// @param parts  1 or more; they differ by at most one key and may be empty
/// @throws std::invalid_argument when the lengths differ or parts is less than 1
template <class T>
RowAttention<T> split(View<const T, 1> scores, View<const T, 2> values, std::int64_t parts) {
  check_row(scores.size(0), values.size(0));
  if (parts < 1) {
    throw std::invalid_argument(
        fmt::format("cannot cut a row into {} parts; allowed are 1 and more", parts));
  }
  const std::int64_t n = scores.size(0), d = values.size(1);
  const auto v = as_matrix(values);
  safe::Traffic traffic{1, 0, 0};
  //! [split]
  RowState<T> whole = empty_row_state<T>(d);
  for (std::int64_t part = 0; part < parts; ++part) {
    RowState<T> own = empty_row_state<T>(d);  // independent of the other parts
    const std::int64_t begin = part * n / parts, end = (part + 1) * n / parts;
    for (std::int64_t j = begin; j < end; ++j) {
      Unnormalised::step(own, scores(j), Vector<T>(v.row(j)));
      traffic.reads += 1 + d;
    }
    whole = merge(whole, own);
  }
  //! [split]
  return {Unnormalised::output(whole), lse_of(whole), traffic};
}

/// The rounding error, in units of u, that one step can add to a term: two for the exponential (a
/// library's exp is accurate to one unit in the last place), one for the product, one for the sum.
inline constexpr double kRoundingsPerStep = 4;

/// A bound on the error of each element of one_pass() and split(), as derived on the page, in units
/// of max|v|:
///
///     max|o - ref| <= max|v| (expm1((2 R + 10 K + 8) u) + 4 n K eta)
///
/// u is half an epsilon of T and eta its smallest positive number.
/// @param steps   K, the steps and merges that a key takes part in: n in one pass, fewer with parts
/// @param spread  R, largest minus smallest finite score
/// @param largest_value max|v|
template <class T>
double error_bound(std::int64_t keys, std::int64_t steps, double spread, double largest_value) {
  const double u = epsilon<T>() / 2;
  const double eta = smallest_normal<T>() * epsilon<T>();
  const double r = std::min(spread, -std::log(eta));
  const auto k = static_cast<double>(steps);
  // 2 x 4 for l and O, and 2 more if O is divided in every step.
  const double relative = std::expm1((2 * r + (2 * kRoundingsPerStep + 2) * k + 8) * u);
  return largest_value * (relative + 4 * static_cast<double>(keys) * k * eta);
}

}  // namespace fa::online
