/// @file
/// The acceptance rule, with the tolerance of a comparison: when is a result correct?
///
/// Three tensors are compared. `ref` is lesson 01 in float64 on exactly the inputs that the tested
/// code saw. `plain` is the textbook algorithm evaluated in the tested code's own storage type; its
/// distance from `ref` is the error that this type causes in even the simplest program. `out` is
/// accepted when
///
///     max|out - ref| <= factor * max|plain - ref| + floor      and
///     rms(out - ref) <= factor * rms(plain - ref) + floor_rms
///
/// with factor 2 for the forward pass and 3 for gradients. The floor allows four more roundings at
/// the tensor's largest element (2 epsilon); without it, a `plain` that happens to be exact would
/// demand an exact `out`. A NaN, or an infinity on one side only, is never accepted.
///
/// Source: the ratio rule is that of the tests of Dao-AILab/flash-attention; the float64 reference
/// and the bound on the rms are stricter.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace fa {

/// The factor of the rule for outputs of the forward pass.
inline constexpr double kForwardFactor = 2.0;
/// The factor of the rule for gradients.
inline constexpr double kGradientFactor = 3.0;

/// How far a tensor is from its reference.
struct Distance {
  /// @{ Over elements finite in both: the largest |out - ref|, the root of the mean square of
  /// out - ref, and the same two of ref.
  double max_error = 0, rms_error = 0, max_reference = 0, rms_reference = 0;
  /// @}
  /// @{ Elements; and those that can never pass: NaN on either side, or infinite on one side only.
  std::int64_t count = 0, invalid = 0;
  /// @}
  /// @{ Index of the first invalid element, else of the largest error; both values there.
  std::vector<std::int64_t> worst;
  double out_at_worst = 0, ref_at_worst = 0;
  /// @}
};

/// Measures how far `out` is from `ref`, in the unit of their elements. Equal infinities agree.
/// @param out tested tensor, of type double, float, half or bfloat16
/// @throws std::invalid_argument when the shapes differ or the tensors are empty: a check of no
///   element would always pass
template <class T, int Rank>
Distance distance(View<const T, Rank> out, View<const double, Rank> ref);

/// The decision on one tensor, with the figures for the report.
struct Verdict {
  /// @{ Name of the tensor, "o" or "d_q", and the decision.
  std::string what;
  bool accepted = false;
  /// @}
  /// @{ Distances of the tested tensor, and of the textbook algorithm in the same storage type.
  Distance error, plain;
  /// @}
  /// @{ How much worse than `plain` is allowed, what is added to the allowed maximum, and the
  /// bounds on error.max_error and error.rms_error.
  double factor = 0, floor = 0, allowed_max = 0, allowed_rms = 0;
  /// @}

  /// The check_line(); a refusal adds the worst element, its value and reference, and how the limit
  /// was computed.
  std::string report() const;
};

/// Decides from measured distances. Used by accept(), and where `plain` was measured elsewhere.
/// @param factor    kForwardFactor or kGradientFactor
/// @param epsilon   of the type in which the tested tensor is stored
/// @param magnitude size of the terms that the result is summed from, when they may cancel and the
///   result be much smaller (gradients: dS = P (dP - delta)); 0 takes the result's own size
Verdict decide(std::string what, const Distance& error, const Distance& plain, double factor,
               double epsilon, double magnitude = 0);

/// One line of a report: "PASS" or "FAIL", what was compared, and in a column its figures, for
/// example from against_limit(); may be empty.
std::string check_line(bool passed, const std::string& what, const std::string& figures = "");

/// A measured figure beside its limit: "7.24e-05  (limit 1.00e-03)" or "0.724  (limit 1.00)".
std::string against_limit(double figure, double limit);

/// Applies the acceptance rule to one tensor.
/// @param ref   lesson 01 in float64 on the same inputs
/// @param plain the textbook algorithm in the tested code's storage type
/// @param factor kForwardFactor or kGradientFactor
/// @throws std::invalid_argument as distance()
template <class T, class P, int Rank>
Verdict accept(std::string what, View<const T, Rank> out, View<const double, Rank> ref,
               View<const P, Rank> plain, double factor = kForwardFactor, double magnitude = 0) {
  return decide(std::move(what), distance(out, ref), distance(plain, ref), factor, epsilon<T>(),
                magnitude);
}

/// The same for tensors that own their elements.
template <class T, class P, int Rank>
Verdict accept(std::string what, const Tensor<T, Rank>& out, const Tensor<double, Rank>& ref,
               const Tensor<P, Rank>& plain, double factor = kForwardFactor, double magnitude = 0) {
  return accept(std::move(what), out.view(), ref.view(), plain.view(), factor, magnitude);
}

}  // namespace fa
