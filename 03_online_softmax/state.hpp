/// @file
/// Lesson 03: the state (m, l, O) of a set of keys, the operator that merges two states, and its
/// two arithmetics: floating point with base e, for programs, and exact fractions with base 2, for
/// proofs.
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
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace fa::online {

/// The state of a set of keys.
/// @tparam W BaseE or BaseTwo
/// @tparam V a value: a scalar, an Eigen vector, a Combination
template <class W, class V>
struct State {
  typename W::Score m = W::neg_inf;  ///< largest score
  typename W::Number l = 0;          ///< sum of powers of s_j - m
  V o{};                             ///< sum of powers of s_j - m times v_j
};

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

/// A rational number of 64-bit integers, always in lowest terms and with a positive denominator. An
/// operation whose result does not fit throws, so a wrong result is never returned; in a constant
/// expression that is a compile error.
class Exact {
 public:
  /// The fraction numerator / denominator; integers convert implicitly.
  /// @throws std::domain_error when the denominator is 0
  /// @throws std::overflow_error when the reduced fraction does not fit
  constexpr Exact(std::int64_t numerator = 0, std::int64_t denominator = 1)
      : numerator_(numerator), denominator_(denominator) {
    if (denominator_ == 0) throw std::domain_error("division by zero");
    const std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
    if (numerator_ == lowest || denominator_ == lowest) {
      too_large();  // has no negative
    }
    if (denominator_ < 0) {
      numerator_ = -numerator_;
      denominator_ = -denominator_;
    }
    const std::int64_t divisor = std::gcd(numerator_, denominator_);
    numerator_ /= divisor;
    denominator_ /= divisor;
  }

  /// 2^exponent.
  /// @throws std::overflow_error when it does not fit, outside -62 to 62
  static constexpr Exact power_of_two(std::int64_t exponent) {
    if (exponent > 62 || exponent < -62) too_large();
    const std::int64_t size = std::int64_t{1} << (exponent < 0 ? -exponent : exponent);
    return exponent < 0 ? Exact(1, size) : Exact(size);
  }

  /// The numerator.
  constexpr std::int64_t numerator() const { return numerator_; }
  /// The denominator, at least 1.
  constexpr std::int64_t denominator() const { return denominator_; }
  /// The nearest double.
  double value() const {
    return static_cast<double>(numerator_) / static_cast<double>(denominator_);
  }

  /// Sum. All four operations throw std::overflow_error when an intermediate result does not fit.
  friend constexpr Exact operator+(const Exact& a, const Exact& b) {
    if (a.numerator_ == 0) return b;  // a shortcut for a frequent case
    if (b.numerator_ == 0) return a;
    // Over the least common denominator, which keeps the integers small.
    const std::int64_t divisor = std::gcd(a.denominator_, b.denominator_);
    const std::int64_t of_a = b.denominator_ / divisor, of_b = a.denominator_ / divisor;
    return {sum(product(a.numerator_, of_a), product(b.numerator_, of_b)),
            product(a.denominator_, of_a)};
  }
  /// Difference.
  friend constexpr Exact operator-(const Exact& a, const Exact& b) {
    return a + Exact(-b.numerator_, b.denominator_);
  }
  /// Product.
  friend constexpr Exact operator*(const Exact& a, const Exact& b) {
    if (a.numerator_ == 0 || b.numerator_ == 0) return 0;
    // Reduced crosswise first, so that only a result that does not fit throws.
    const Exact left(a.numerator_, b.denominator_), right(b.numerator_, a.denominator_);
    return {product(left.numerator_, right.numerator_),
            product(left.denominator_, right.denominator_)};
  }
  /// The same, in place.
  constexpr Exact& operator+=(const Exact& b) { return *this = *this + b; }
  /// The same, in place.
  constexpr Exact& operator*=(const Exact& b) { return *this = *this * b; }
  /// Quotient. Throws std::domain_error when b is 0.
  friend constexpr Exact operator/(const Exact& a, const Exact& b) {
    return a * Exact(b.denominator_, b.numerator_);
  }
  /// Equality: lowest terms are unique.
  friend constexpr bool operator==(const Exact& a, const Exact& b) {
    return a.numerator_ == b.numerator_ && a.denominator_ == b.denominator_;
  }
  /// Inequality.
  friend constexpr bool operator!=(const Exact& a, const Exact& b) { return !(a == b); }

 private:
  [[noreturn]] static void too_large() {
    throw std::overflow_error("a fraction does not fit 64-bit integers");
  }
  static constexpr std::int64_t sum(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) too_large();
    return result;
  }
  static constexpr std::int64_t product(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) too_large();
    return result;
  }

  std::int64_t numerator_, denominator_;
};

/// "3/4", and "2" for an integer.
inline std::string to_string(const Exact& x) {
  return x.denominator() == 1 ? fmt::format("{}", x.numerator())
                              : fmt::format("{}/{}", x.numerator(), x.denominator());
}

/// Exact fractions, powers of 2, integer scores: the arithmetic of proofs.
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
