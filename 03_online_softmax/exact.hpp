/// @file
/// Exact arithmetic for the proofs: fractions of 64-bit integers. An operation whose result does
/// not fit throws, so a wrong result is never returned; in a constant expression that is a compile
/// error.
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace fa::online {

/// A rational number, always in lowest terms and with a positive denominator.
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
  /// Whether the denominator is a power of two: the value has finitely many binary digits.
  constexpr bool dyadic() const { return (denominator_ & (denominator_ - 1)) == 0; }
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

}  // namespace fa::online
