/// @file
/// Softmax of one row in its two textbook forms, with every pass over the row counted, and the
/// logarithm of its sum. Elements are stored in type T and all arithmetic runs in type A, so that the
/// price of each can be measured.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "common/tensor/tensor.hpp"

namespace fa::safe {

/// How often a softmax went over its row, and how many elements it touched.
struct Traffic {
  std::int64_t passes = 0;  ///< loops over the row
  std::int64_t reads = 0;   ///< elements read
  std::int64_t writes = 0;  ///< elements written
};

/// An element of any type of the course as a double, which holds it exactly.
template <class T>
double exact(T x) {
  return static_cast<double>(static_cast<accumulator_t<T>>(x));
}

/// What is left of a number once it has been stored in type T: rounded to nearest, in 16-bit types by
/// way of float32.
template <class T>
double rounded(double x) {
  return exact(static_cast<T>(static_cast<accumulator_t<T>>(x)));
}

/// exp(x), computed in float64 and stored in type T.
template <class T>
double exp_in(double x) {
  return rounded<T>(std::exp(x));
}

/// Checks the lengths of a row and of its result.
/// @throws std::invalid_argument unless x and y have the same length, at least 1
inline void check_rows(std::int64_t x, std::int64_t y) {
  if (x != y || x < 1) {
    throw std::invalid_argument(fmt::format(
        "softmax of {} elements into {}: both lengths must be the same and "
        "at least 1",
        x, y));
  }
}

/// The definition, exp(x) / sum exp(x), in two passes. It overflows as soon as one exp(x) does, and
/// divides 0 by 0 when all of them underflow.
/// Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 1.
/// @tparam T type of the elements and of each exp
/// @tparam A type in which sum and quotient are computed
/// @param x [n]
/// @param y [n], the weights
/// @return what it cost
/// @throws std::invalid_argument as check_rows()
template <class T, class A = accumulator_t<T>>
Traffic unsafe_softmax(View<const T, 1> x, View<T, 1> y) {
  check_rows(x.size(0), y.size(0));
  Traffic traffic;
  //! [unsafe]
  double l = 0;
  ++traffic.passes;
  for (std::int64_t j = 0; j < x.size(0); ++j, ++traffic.reads) {
    l = rounded<A>(l + exp_in<T>(exact(x(j))));
  }
  ++traffic.passes;
  for (std::int64_t j = 0; j < x.size(0); ++j, ++traffic.reads) {
    const double e = exp_in<T>(exact(x(j)));
    y(j) = static_cast<T>(static_cast<accumulator_t<T>>(e / l));
    ++traffic.writes;
  }
  //! [unsafe]
  return traffic;
}

/// The largest element of a row, -infinity for a row of -infinity, NaN as soon as one element is NaN.
/// @param x [n], n at least 1
template <class T>
double row_max(View<const T, 1> x) {
  //! [row_max]
  double m = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < x.size(0); ++j) {
    const double value = exact(x(j));
    if (std::isnan(value)) return value;  // value > m would lose it
    if (value > m) m = value;
  }
  return m;
  //! [row_max]
}

/// The safe form, exp(x - max) / sum exp(x - max), in three passes: the maximum, the sum, the weights.
/// A row of -infinity, which sees no key, gives zeros. NaN or +infinity in gives NaN out.
/// Source: Milakov and Gimelshein, 2018, algorithm 2.
/// @tparam T type of the elements and of each exp
/// @tparam A type in which difference, sum and quotient are computed
/// @param x [n]
/// @param y [n], the weights; they sum to 1 up to rounding
/// @return what it cost
/// @throws std::invalid_argument as check_rows()
template <class T, class A = accumulator_t<T>>
Traffic safe_softmax(View<const T, 1> x, View<T, 1> y) {
  check_rows(x.size(0), y.size(0));
  Traffic traffic;
  //! [safe]
  ++traffic.passes;
  const double m = row_max(x);
  traffic.reads += x.size(0);
  const bool blind = m == -std::numeric_limits<double>::infinity();
  const double shift = blind ? 0 : m;  // -inf - -inf would be NaN

  double l = 0;
  ++traffic.passes;
  for (std::int64_t j = 0; j < x.size(0); ++j, ++traffic.reads) {
    l = rounded<A>(l + exp_in<T>(rounded<A>(exact(x(j)) - shift)));
  }
  if (blind) l = 1;  // 0 / 1, not 0 / 0
  ++traffic.passes;
  for (std::int64_t j = 0; j < x.size(0); ++j, ++traffic.reads) {
    const double e = exp_in<T>(rounded<A>(exact(x(j)) - shift));
    y(j) = static_cast<T>(static_cast<accumulator_t<T>>(e / l));
    ++traffic.writes;
  }
  //! [safe]
  return traffic;
}

/// ln(sum exp(x)) of a row in float64, the maximum taken out first: max + ln(sum exp(x - max)).
/// -infinity for a row of -infinity.
/// @param x [n]
/// @throws std::invalid_argument for an empty row
template <class T>
double log_sum_exp(View<const T, 1> x) {
  check_rows(x.size(0), x.size(0));
  //! [lse]
  const double m = row_max(x);
  if (!std::isfinite(m)) return m;  // a row of -inf, one with inf or NaN
  double l = 0;
  for (std::int64_t j = 0; j < x.size(0); ++j) {
    l += std::exp(exact(x(j)) - m);
  }
  return m + std::log(l);
  //! [lse]
}

/// A bound on the relative error of each weight that safe_softmax() computes with T = A, as the page of
/// this lesson derives it, for weights that are normal numbers of T:
/// expm1((2 spread + n + 8) u), u half an epsilon of T.
/// @param n      number of scores
/// @param spread largest score minus smallest score
template <class T>
double relative_error_bound(std::int64_t n, double spread) {
  const double u = epsilon<T>() / 2;
  return std::expm1((2 * spread + static_cast<double>(n) + 8) * u);
}

/// A bound on how much a weight changes, relatively, when a constant c is added to all scores and the
/// sums are rounded to type T: each score is off by at most u |x + c|, so each exp by that in the
/// exponent, and so is the sum: expm1(2 u max|x + c|).
/// @param largest_sum max|x + c|
template <class T>
double shift_error_bound(double largest_sum) {
  const double u = epsilon<T>() / 2;
  return std::expm1(2 * u * largest_sum);
}

}  // namespace fa::safe
