/// @file
/// Softmax of one row in its two textbook forms: first as short as possible, then with every pass
/// over the row counted. There elements are stored in type T and all arithmetic runs in type A, so
/// that the error of each can be measured. Then the logarithm of the sum, bounds on errors, and the
/// range of exp in a type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "common/tensor/dtype.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::safe {

/// The softmax of one row in float32, directly from its definition: exp(s) / sum exp(s).
/// @return the probabilities; NaN where an exponential overflows
//! [definition]
inline std::vector<float> softmax(const std::vector<float>& scores) {
  float l = 0;
  for (const float s : scores) l += std::exp(s);
  std::vector<float> p;
  for (const float s : scores) p.push_back(std::exp(s) / l);
  return p;
}
//! [definition]

/// The same, with the largest score subtracted from all of them.
/// @param scores scores, at least one, finite
//! [shifted]
inline std::vector<float> shifted_softmax(const std::vector<float>& scores) {
  const float m = *std::max_element(scores.begin(), scores.end());
  float l = 0;
  for (const float s : scores) l += std::exp(s - m);
  std::vector<float> p;
  for (const float s : scores) p.push_back(std::exp(s - m) / l);
  return p;
}
//! [shifted]

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
/// @param  s [n]
/// @param  p [n], the probabilities
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
/// @param  s [n]
/// @param  p [n], the probabilities; they sum to 1 up to rounding
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

/// The non-negative values of type T in ascending order: value 0 is 0, the last is the largest
/// finite one. The bit patterns of non-negative IEEE values, read as integers, are in this order.
/// @param index 0 to count_of_positive<T>() - 1
template <class T>
double positive_number(std::uint64_t index) {
  T value;
  static_assert(sizeof(T) <= sizeof(index));
  std::memcpy(static_cast<void*>(&value), &index, sizeof(T));  // little-endian
  return static_cast<double>(static_cast<accumulator_t<T>>(value));
}

/// The number of finite non-negative values of type T.
template <class T>
std::uint64_t count_of_positive() {
  const auto exponents = static_cast<std::uint64_t>(2 * FloatTraits<T>::max_exponent + 1);
  return exponents << FloatTraits<T>::fraction_bits;
}

/// The largest non-negative value x of type T for which `holds(x)`; holds must be true for 0 and up
/// to some value, and false above it.
template <class T, class Holds>
double last_where(Holds holds) {
  std::uint64_t yes = 0, no = count_of_positive<T>();
  while (no - yes > 1) {
    const std::uint64_t middle = yes + (no - yes) / 2;
    (holds(positive_number<T>(middle)) ? yes : no) = middle;
  }
  return positive_number<T>(yes);
}

/// The range of x in which exp(x) can be stored in type T.
struct ExpRange {
  /// @{ The largest x whose exp is finite; the smallest x whose exp is normal, and not 0.
  double overflows_after;
  double normal_until;
  double nonzero_until;
  /// @}
};

/// Finds the range of exp in type T, by bisection over the values of type T.
template <class T>
ExpRange exp_range() {
  return {last_where<T>([](double x) { return std::isfinite(exp_in<T>(x)); }),
          -last_where<T>([](double x) { return exp_in<T>(-x) >= smallest_normal<T>(); }),
          -last_where<T>([](double x) { return exp_in<T>(-x) > 0; })};
}

/// The sum at which adding a term repeatedly, in type T, has no effect any more.
/// @param limit the search ends there
template <class T>
double sum_stops_at(double limit, double term = 1) {
  double sum = 0;
  while (sum < limit) {
    const double next = rounded<T>(sum + term);
    if (next == sum) break;
    sum = next;
  }
  return sum;
}

}  // namespace fa::safe
