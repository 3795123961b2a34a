/// @file
/// The range of exp in a type, and where a sum stops growing: found by a search over the values of
/// the type.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "02_safe_softmax/softmax.hpp"
#include "common/tensor/dtype.hpp"

namespace fa::safe {

/// The non-negative values of type T in ascending order: value 0 is 0, the last is the largest
/// finite one. The bit patterns of non-negative IEEE values, read as integers, are in this order.
/// @param index 0 to count_of_positive<T>() - 1
template <class T>
double positive_number(std::uint64_t index) {
  T value;
  static_assert(sizeof(T) <= sizeof(index));
  std::memcpy(static_cast<void*>(&value), &index,
              sizeof(T));  // little-endian
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
