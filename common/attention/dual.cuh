/// @file
/// Dual numbers: a value and its derivative, computed by the same operations. A score function that
/// takes any type of numbers, given a dual number, returns its derivative, too.
///
/// Source: Baydin, Pearlmutter, Radul, Siskind, Automatic Differentiation in Machine Learning: a
/// Survey, JMLR 2018, section 3.1.
#pragma once

#include <type_traits>

#include "common/attention/score_functors.cuh"

namespace fa::FA_TARGET {

// clang-format off
/// A value, and its derivative with respect to one variable.
template <class R>
struct Dual {
  R value;
  R derivative;

  /// Both parts; the variable itself is Dual(x, 1).
  __host__ __device__ Dual(R the_value, R the_derivative)
      : value(the_value), derivative(the_derivative) {}
  /// A constant. A number itself is cheaper, where an operator takes it: no
  /// product with a derivative of 0 is computed.
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
  __host__ __device__ Dual(N constant)
      : Dual(static_cast<R>(constant), R(0)) {}

  /// @{ The rules of differentiation.
  friend __host__ __device__ Dual operator-(Dual a) {
    return {-a.value, -a.derivative};
  }
  friend __host__ __device__ Dual operator+(Dual a, Dual b) {
    return {a.value + b.value, a.derivative + b.derivative};
  }
  friend __host__ __device__ Dual operator-(Dual a, Dual b) {
    return {a.value - b.value, a.derivative - b.derivative};
  }
  //! [dual_product]
  friend __host__ __device__ Dual operator*(Dual a, Dual b) {
    return {a.value * b.value,
            a.derivative * b.value + a.value * b.derivative};
  }
  //! [dual_product]
  friend __host__ __device__ Dual operator/(Dual a, Dual b) {
    const R q = a.value / b.value;
    return {q, (a.derivative - q * b.derivative) / b.value};
  }
  friend __host__ __device__ bool operator<(Dual a, Dual b) {
    return a.value < b.value;
  }
  /// @}
  /// @{ Those for a constant.
  friend __host__ __device__ Dual operator+(Dual a, R c) {
    return {a.value + c, a.derivative};
  }
  friend __host__ __device__ Dual operator+(R c, Dual a) { return a + c; }
  friend __host__ __device__ Dual operator-(Dual a, R c) { return a + -c; }
  friend __host__ __device__ Dual operator-(R c, Dual a) { return -a + c; }
  //! [dual_constant]
  friend __host__ __device__ Dual operator*(Dual a, R c) {
    return {a.value * c, a.derivative * c};
  }
  //! [dual_constant]
  friend __host__ __device__ Dual operator*(R c, Dual a) { return a * c; }
  friend __host__ __device__ Dual operator/(Dual a, R c) {
    return {a.value / c, a.derivative / c};
  }
  /// @}
};
/// d tanh(x) = (1 - tanh(x)^2) dx
template <class R>
__host__ __device__ Dual<R> tanh_approx(Dual<R> x) {
  const R t = tanh_approx(x.value);
  return {t, (R(1) - t * t) * x.derivative};
}

/// The numbers of a dual number.
template <class R>
struct NumberOf<Dual<R>> {
  using Type = R;
};

//! [with_dual]
/// A functor whose derivative() follows from its score().
template <class Functor>
struct WithDual : Functor {
  static constexpr bool folds_constants = false;  // no derivative by hand
  /// From a functor without one.
  __host__ __device__ explicit WithDual(const Functor& functor)
      : Functor(functor) {}
  /// As PlainScores has it.
  template <class R>
  __host__ __device__ R derivative(R s, int batch, int head, int query,
                                   int key) const {
    return this->score(Dual<R>(s, R(1)), batch, head, query, key).derivative;
  }
};
//! [with_dual]
// clang-format on

}  // namespace fa::FA_TARGET
