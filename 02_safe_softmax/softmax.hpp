/// @file
/// Softmax of one row in its two textbook forms, with every pass over the row counted, and the
/// logarithm of its sum. Elements are stored in type T and all arithmetic runs in type A, so that
/// the error of each can be measured.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "common/tensor/tensor.hpp"

namespace fa::safe {

/// The memory traffic of a softmax.
struct Traffic {
  /// @{ Loops over the row, elements read, elements written.
  std::int64_t passes = 0;
  std::int64_t reads = 0;
  std::int64_t writes = 0;
  /// @}
};

/// An element of any type as a double, which represents it exactly.
template <class T>
double exact(T x) {
  return static_cast<double>(static_cast<accumulator_t<T>>(x));
}

/// A value rounded to nearest in type T, for 16-bit types through float32.
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
/// @throws std::invalid_argument unless s and p have the same length, at least 1
inline void check_rows(std::int64_t s, std::int64_t p) {
  if (s != p || s < 1) {
    throw std::invalid_argument(fmt::format(
        "softmax of {} elements into {}: both lengths must be the same and at least 1", s, p));
  }
}

/// The definition, exp(s) / sum exp(s), in two passes. It overflows when one exp(s) does, and
/// divides 0 by 0 when all of them underflow.
/// Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 1.
/// @tparam T type of the elements and of each exp
/// @tparam A type in which the sum is computed
/// @param s [n]
/// @param p [n], the probabilities
/// @return its memory traffic
/// @throws std::invalid_argument as check_rows()
template <class T, class A = accumulator_t<T>>
Traffic unsafe_softmax(View<const T, 1> s, View<T, 1> p) {
  check_rows(s.size(0), p.size(0));
  Traffic traffic;
  double l = 0;
  ++traffic.passes;
  for (std::int64_t j = 0; j < s.size(0); ++j, ++traffic.reads) {
    l = rounded<A>(l + exp_in<T>(exact(s(j))));
  }
  ++traffic.passes;
  for (std::int64_t j = 0; j < s.size(0); ++j, ++traffic.reads) {
    const double e = exp_in<T>(exact(s(j)));
    p(j) = static_cast<T>(static_cast<accumulator_t<T>>(e / l));
    ++traffic.writes;
  }
  return traffic;
}

/// The largest element of a row: -infinity for a row of -infinity, NaN if any element is NaN.
/// @param s [n], n at least 1
template <class T>
double row_max(View<const T, 1> s) {
  //! [row_max]
  double m = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < s.size(0); ++j) {
    const double value = exact(s(j));
    if (std::isnan(value)) return value;  // NaN > m is false
    if (value > m) m = value;
  }
  return m;
  //! [row_max]
}

/// The safe form, exp(s - max) / sum exp(s - max), in three passes: maximum, sum, quotients. A row
/// of -infinity (fully masked) gives zeros. A NaN or +infinity in the input gives NaN.
/// Source: Milakov and Gimelshein, 2018, algorithm 2.
/// @tparam T type of the elements and of each exp
/// @tparam A type in which difference and sum are computed
/// @param s [n]
/// @param p [n], the probabilities; they sum to 1 up to rounding
/// @return its memory traffic
/// @throws std::invalid_argument as check_rows()
template <class T, class A = accumulator_t<T>>
Traffic safe_softmax(View<const T, 1> s, View<T, 1> p) {
  check_rows(s.size(0), p.size(0));
  Traffic traffic;
  //! [safe]
  ++traffic.passes;
  const double m = row_max(s);
  traffic.reads += s.size(0);
  const bool fully_masked = m == -std::numeric_limits<double>::infinity();
  const double shift = fully_masked ? 0 : m;  // -inf - -inf would be NaN

  double l = 0;
  ++traffic.passes;
  for (std::int64_t j = 0; j < s.size(0); ++j, ++traffic.reads) {
    l = rounded<A>(l + exp_in<T>(rounded<A>(exact(s(j)) - shift)));
  }
  if (fully_masked) l = 1;  // 0 / 1, not 0 / 0
  ++traffic.passes;
  for (std::int64_t j = 0; j < s.size(0); ++j, ++traffic.reads) {
    const double e = exp_in<T>(rounded<A>(exact(s(j)) - shift));
    p(j) = static_cast<T>(static_cast<accumulator_t<T>>(e / l));
    ++traffic.writes;
  }
  //! [safe]
  return traffic;
}

/// ln(sum exp(s)) of a row in float64, computed as max + ln(sum exp(s - max)).
/// -infinity for a row of -infinity.
/// @param s [n]
/// @throws std::invalid_argument for an empty row
template <class T>
double log_sum_exp(View<const T, 1> s) {
  check_rows(s.size(0), s.size(0));
  //! [lse]
  const double m = row_max(s);
  if (!std::isfinite(m)) return m;  // all -inf, or with inf or NaN
  double l = 0;
  for (std::int64_t j = 0; j < s.size(0); ++j) {
    l += std::exp(exact(s(j)) - m);
  }
  return m + std::log(l);
  //! [lse]
}

/// A bound on the relative error of each element of safe_softmax() with T = A, as derived on the
/// page of this lesson, for results that are normal in T: expm1((2 spread + n + 8) u), with u half
/// an epsilon of T.
/// @param spread largest score minus smallest score
template <class T>
double relative_error_bound(std::int64_t n, double spread) {
  const double u = epsilon<T>() / 2;
  return std::expm1((2 * spread + static_cast<double>(n) + 8) * u);
}

/// A bound on the relative change of a probability when a constant c is added to all scores and the
/// sums are rounded to type T. The error of each score, at most u |s + c|, is an error in the
/// exponent of each exp and of their sum: expm1(2 u max|s + c|).
/// @param largest_sum max|s + c|
template <class T>
double shift_error_bound(double largest_sum) {
  const double u = epsilon<T>() / 2;
  return std::expm1(2 * u * largest_sum);
}

}  // namespace fa::safe
