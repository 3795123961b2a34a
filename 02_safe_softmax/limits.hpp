/// @file
/// Where exp leaves the range of a number type, and where a sum stops growing: found by searching
/// through the numbers of the type, with nothing looked up.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "02_safe_softmax/softmax.hpp"
#include "common/tensor/dtype.hpp"

namespace fa::safe {

/// The positive numbers of type T in their order: number 0 is 0, the last is the largest finite one.
/// Works because the bit patterns of positive IEEE numbers, read as integers, are in order.
/// @param index 0 to count_of_positive<T>() - 1
template <class T>
double positive_number(std::uint64_t index) {
  T value;
  static_assert(sizeof(T) <= sizeof(index));
  std::memcpy(static_cast<void*>(&value), &index,
              sizeof(T));  // little-endian
  return static_cast<double>(static_cast<accumulator_t<T>>(value));
}

/// How many finite non-negative numbers type T has.
template <class T>
std::uint64_t count_of_positive() {
  const auto exponents =
      static_cast<std::uint64_t>(2 * FloatTraits<T>::max_exponent + 1);
  return exponents << FloatTraits<T>::fraction_bits;
}

/// The largest non-negative number x of type T for which `holds(x)`; holds must be true up to some
/// number and false from there on, and true for 0.
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
  double overflows_after;  ///< the largest x whose exp is finite
  double
      normal_until;  ///< the smallest x whose exp is normal: below, digits are lost
  double nonzero_until;  ///< the smallest x whose exp is not 0
};

/// Finds the range of exp in type T, by bisection among the numbers of type T.
template <class T>
ExpRange exp_range() {
  return {last_where<T>([](double x) { return std::isfinite(exp_in<T>(x)); }),
          -last_where<T>(
              [](double x) { return exp_in<T>(-x) >= smallest_normal<T>(); }),
          -last_where<T>([](double x) { return exp_in<T>(-x) > 0; })};
}

/// The sum at which adding 1 over and over, in type T, stops having an effect.
/// @param limit gives up there
template <class T>
double sum_stops_at(double limit) {
  double sum = 0;
  while (sum < limit) {
    const double next = rounded<T>(sum + 1);
    if (next == sum) break;
    sum = next;
  }
  return sum;
}

}  // namespace fa::safe
