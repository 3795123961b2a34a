#include "common/check/acceptance.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fa {
namespace {

// Four roundings of half an epsilon each.
constexpr double kFloorEpsilons = 2.0;

// False for NaN on either side, and for an infinity that the other side does not share.
bool comparable(double out, double ref) {
  if (std::isnan(out) || std::isnan(ref)) return false;
  if (std::isinf(out) || std::isinf(ref)) return out == ref;
  return true;
}

}  // namespace

template <class T, int Rank>
Distance distance(View<const T, Rank> out, View<const double, Rank> ref) {
  if (out.shape() != ref.shape()) {
    throw std::invalid_argument(fmt::format("cannot compare shape {} with reference shape {}",
                                            to_string(out.shape()), to_string(ref.shape())));
  }
  if (ref.count() == 0) {
    throw std::invalid_argument(
        fmt::format("cannot compare shape {}: it has no element", to_string(ref.shape())));
  }
  Distance result;
  double error_squares = 0, reference_squares = 0;
  std::int64_t finite = 0;
  const auto note_worst = [&](const Shape<Rank>& index, double a, double b) {
    result.worst.assign(index.begin(), index.end());
    result.out_at_worst = a;
    result.ref_at_worst = b;
  };
  for_each_index(ref.shape(), [&](const Shape<Rank>& index) {
    const auto a = static_cast<double>(static_cast<accumulator_t<T>>(out[index]));
    const double b = ref[index];
    ++result.count;
    if (!comparable(a, b)) {
      if (++result.invalid == 1) note_worst(index, a, b);
      return;
    }
    if (std::isinf(b)) return;  // equal infinities: no error, and no magnitude
    const double error = std::abs(a - b);
    ++finite;
    error_squares += error * error;
    reference_squares += b * b;
    result.max_reference = std::max(result.max_reference, std::abs(b));
    if (result.invalid == 0 && (result.worst.empty() || error > result.max_error)) {
      note_worst(index, a, b);
    }
    result.max_error = std::max(result.max_error, error);
  });
  if (finite > 0) {
    result.rms_error = std::sqrt(error_squares / static_cast<double>(finite));
    result.rms_reference = std::sqrt(reference_squares / static_cast<double>(finite));
  }
  return result;
}

Verdict decide(std::string what, const Distance& error, const Distance& plain, double factor,
               double epsilon, double magnitude) {
  Verdict verdict;
  verdict.what = std::move(what);
  verdict.error = error;
  verdict.plain = plain;
  verdict.factor = factor;
  verdict.floor = kFloorEpsilons * epsilon * std::max(error.max_reference, magnitude);
  verdict.allowed_max = factor * plain.max_error + verdict.floor;
  verdict.allowed_rms = factor * plain.rms_error +
                        kFloorEpsilons * epsilon * std::max(error.rms_reference, magnitude);
  // The comparisons are false, and the verdict a refusal, when either side is NaN.
  verdict.accepted = error.invalid == 0 && plain.invalid == 0 &&
                     error.max_error <= verdict.allowed_max &&
                     error.rms_error <= verdict.allowed_rms;
  return verdict;
}

std::string Verdict::report() const {
  std::string text =
      check_line(accepted, what,
                 fmt::format("max {}  rms {}", against_limit(error.max_error, allowed_max),
                             against_limit(error.rms_error, allowed_rms)));
  if (accepted) return text;
  if (error.invalid > 0) {
    text += fmt::format("\n      {} of {} elements are NaN, or infinite on one side only",
                        error.invalid, error.count);
  }
  if (plain.invalid > 0) {
    text += fmt::format(
        "\n      {} elements of the textbook algorithm are NaN, or infinite on one side only",
        plain.invalid);
  }
  return text + fmt::format(
                    "\n      worst at [{}]: {:.9g}, reference {:.9g}\n"
                    "      limit of max = {:g} x {:.2e} (textbook algorithm) + {:.2e} (floor)",
                    fmt::join(error.worst, ", "), error.out_at_worst, error.ref_at_worst, factor,
                    plain.max_error, floor);
}

std::string check_line(bool passed, const std::string& what, const std::string& figures) {
  const char* const result = passed ? "PASS" : "FAIL";
  return figures.empty() ? fmt::format("{}  {}", result, what)
                         : fmt::format("{}  {:<38}  {}", result, what, figures);
}

std::string against_limit(double figure, double limit) {
  // Rounding errors need an exponent; ratios and losses read better without.
  return limit >= 0.1 ? fmt::format("{:>#8.3g}  (limit {:#.3g})", figure, limit)
                      : fmt::format("{:>8.2e}  (limit {:.2e})", figure, limit);
}

#define FA_DISTANCE_FOR(T)                                                   \
  template Distance distance<T, 1>(View<const T, 1>, View<const double, 1>); \
  template Distance distance<T, 2>(View<const T, 2>, View<const double, 2>); \
  template Distance distance<T, 3>(View<const T, 3>, View<const double, 3>); \
  template Distance distance<T, 4>(View<const T, 4>, View<const double, 4>);
FA_DISTANCE_FOR(double)
FA_DISTANCE_FOR(float)
FA_DISTANCE_FOR(half)
FA_DISTANCE_FOR(bfloat16)

}  // namespace fa
