/// @file
/// The check of all gradients: central differences in float64.
#pragma once

#include <cmath>
#include <functional>
#include <limits>

#include "common/tensor/tensor.hpp"

namespace fa::naive {

/// The step of the central differences. With step h the error is about h^2 (truncation of the
/// Taylor series) plus epsilon / h (rounding); the sum is smallest near the cube root of epsilon.
inline const double kDifferenceStep = std::cbrt(std::numeric_limits<double>::epsilon());

/// The limit for the difference between a gradient and its central differences, relative to the
/// largest element: 100 h^2 for h = kDifferenceStep.
inline const double kDifferenceTolerance = 100 * kDifferenceStep * kDifferenceStep;

/// The gradient of a loss with respect to every element of x, one element at a time:
/// (loss(x + h) - loss(x - h)) / 2h.
/// Source: Press et al., Numerical Recipes, section "Numerical Derivatives".
/// @param loss computes the loss from the current elements of x
/// @param x    any shape; modified during the call and restored after it
// clang-format off
//! [differences]
template <int Rank>
Tensor<double, Rank> numerical_gradient(const std::function<double()>& loss,
                                        View<double, Rank> x) {
  Tensor<double, Rank> gradient(x.shape());
  for_each_index(x.shape(), [&](const Shape<Rank>& index) {
    const double before = x[index];
    x[index] = before + kDifferenceStep;
    const double above = loss();
    x[index] = before - kDifferenceStep;
    const double below = loss();
    x[index] = before;
    gradient.view()[index] = (above - below) / (2 * kDifferenceStep);
  });
  return gradient;
}
//! [differences]
// clang-format on

/// The larger of two errors; a NaN is worse than any number.
inline double worse(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

/// The largest difference of two gradients, relative to the largest element of the second.
/// @param numerical from numerical_gradient(), same shape
template <int Rank>
double relative_difference(View<const double, Rank> gradient, View<const double, Rank> numerical) {
  double difference = 0, largest = 0;
  for_each_index(numerical.shape(), [&](const Shape<Rank>& index) {
    difference = worse(difference, std::abs(gradient[index] - numerical[index]));
    largest = std::max(largest, std::abs(numerical[index]));
  });
  return largest > 0 ? difference / largest : difference;
}

}  // namespace fa::naive
