/// @file
/// Lesson 03: the state (m, l, O) of a set of keys, the operator that merges two states, and its
/// two arithmetics: floating point with base e, and exact fractions with base 2.
///
/// For keys with scores s_j and values v_j:
///
///     m = max s_j      l = sum of e^(s_j - m)      O = sum of e^(s_j - m) v_j
///
/// and the attention over these keys is O / l. The merge has an identity, is associative and is
/// commutative, so keys may be split into parts of any size, in any order, and processed in
/// parallel.
///
/// Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018 (m, l and their
/// merge); Dao et al., FlashAttention, 2022, section 3.1 (with O).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "03_online_softmax/exact.hpp"

namespace fa::online {

/// Floating point of type T, powers of e: the arithmetic of programs.
template <class T>
struct BaseE {
  using Score = T;   ///< of scores and their maximum
  using Number = T;  ///< of sums
  /// The score of a masked key, and the maximum of no keys.
  static constexpr T neg_inf = -std::numeric_limits<T>::infinity();
  /// e^(a - b), and 0 when a is neg_inf: -inf - -inf would be NaN.
  static T exp_diff(T a, T b) { return a == neg_inf ? T(0) : std::exp(a - b); }
};

/// Exact fractions, powers of 2, integer scores: the arithmetic of proofs. Every l is then dyadic.
struct BaseTwo {
  using Score = int;     ///< of scores and their maximum
  using Number = Exact;  ///< of sums
  /// The score of a masked key, and the maximum of no keys.
  static constexpr int neg_inf = std::numeric_limits<int>::min();
  /// 2^(a - b), and 0 when a is neg_inf.
  /// @throws std::overflow_error when a and b are more than 62 apart
  static constexpr Exact exp_diff(int a, int b) {
    return a == neg_inf ? Exact(0) : Exact::power_of_two(std::int64_t{a} - b);
  }
};

/// The state of a set of keys.
/// @tparam W BaseE or BaseTwo
/// @tparam V a value: a scalar, an Eigen vector, a Combination
template <class W, class V>
struct State {
  typename W::Score m = W::neg_inf;  ///< largest score
  typename W::Number l = 0;          ///< sum of powers of s_j - m
  V o{};                             ///< sum of powers of s_j - m times v_j
};

/// The state of both sets of keys. Exact arithmetic throws std::overflow_error if a result does not
/// fit.
/// Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, section 3.1.
template <class W, class V>
constexpr State<W, V> merge(const State<W, V>& a, const State<W, V>& b) {
  //! [merge]
  const auto m = std::max(a.m, b.m);
  const auto of_a = W::exp_diff(a.m, m), of_b = W::exp_diff(b.m, m);
  return {m, of_a * a.l + of_b * b.l, of_a * a.o + of_b * b.o};
  //! [merge]
}

/// A sum of values, stored as the coefficient of each value: a proof for the coefficients is a
/// proof for all values.
struct Combination {
  static constexpr std::size_t kCapacity = 8;  ///< maximum number of values
  std::array<Exact, kCapacity> of{};           ///< coefficient of each value

  /// The value v_j itself.
  static constexpr Combination value(std::size_t j) {
    Combination result;
    result.of.at(j) = Exact(1);
    return result;
  }
  /// Sum.
  friend constexpr Combination operator+(Combination a, const Combination& b) {
    for (std::size_t j = 0; j < kCapacity; ++j) a.of[j] = a.of[j] + b.of[j];
    return a;
  }
  /// Product with a number.
  friend constexpr Combination operator*(const Exact& factor, Combination a) {
    for (std::size_t j = 0; j < kCapacity; ++j) a.of[j] = factor * a.of[j];
    return a;
  }
  /// The same with the number on the right, and in place.
  friend constexpr Combination operator*(Combination a, const Exact& factor) { return factor * a; }
  /// @{ In place.
  constexpr Combination& operator*=(const Exact& factor) { return *this = factor * *this; }
  constexpr Combination& operator+=(const Combination& b) { return *this = *this + b; }
  /// @}
  /// Quotient by a number.
  friend constexpr Combination operator/(const Combination& a, const Exact& divisor) {
    return Exact(1) / divisor * a;
  }
  /// Equality of all coefficients.
  friend constexpr bool operator==(const Combination& a, const Combination& b) {
    for (std::size_t j = 0; j < kCapacity; ++j) {
      if (a.of[j] != b.of[j]) return false;
    }
    return true;
  }
};

/// Equality of exact states.
template <class V>
constexpr bool operator==(const State<BaseTwo, V>& a, const State<BaseTwo, V>& b) {
  return a.m == b.m && a.l == b.l && a.o == b.o;
}

}  // namespace fa::online
