// How a result is compared with its reference, and what all wrong numbers have in common.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/classroom/grader.hpp"

namespace fa::classroom {
namespace {

// Whether two numbers are the same up to a tolerance. The difference of infinities says nothing.
bool near(double a, double b, double tolerance) {
  if (std::isnan(a) && std::isnan(b)) return true;
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance;
}

// Which rows or columns hold all wrong elements, in words: those of the two with fewer right ones;
// empty when the wrong ones are scattered, or all.
std::string lines_of(const std::vector<std::size_t>& wrong, std::size_t rows, std::size_t cols) {
  std::string words;
  std::size_t fewest = rows * cols;
  for (const bool of_rows : {true, false}) {
    const char* const what = cols == 1 ? "element" : of_rows ? "row" : "column";
    const std::size_t count = of_rows ? rows : cols;
    std::set<std::size_t> in;
    for (const std::size_t i : wrong) in.insert(of_rows ? i / cols : i % cols);
    const std::size_t first = *in.begin(), last = *in.rbegin();
    const std::size_t elements = in.size() * (rows * cols / count);
    if (last - first + 1 != in.size() || elements >= fewest) continue;
    fewest = elements;
    words = in.size() > 1       ? fmt::format("only {}s {} to {} are wrong", what, first, last)
            : first == 0        ? fmt::format("only the first {} is wrong", what)
            : last + 1 == count ? fmt::format("only the last {} is wrong", what)
                                : fmt::format("only {} {} is wrong", what, first);
  }
  return words;
}

// "[3][5]", or "[3]" of a list.
std::string place_of(std::size_t i, std::size_t cols) {
  return cols == 1 ? fmt::format("[{}]", i) : fmt::format("[{}][{}]", i / cols, i % cols);
}

// What is compared.
struct Compared {
  const std::vector<double>&out, &right;
  const std::vector<std::size_t>& wrong;  // indices
  std::size_t cols;
  double tolerance;

  std::size_t count() const { return right.size(); }
  // Whether something holds of all wrong elements and what they should be.
  template <class Holds>
  bool all(Holds holds) const {
    return std::all_of(wrong.begin(), wrong.end(),
                       [&](std::size_t i) { return holds(out[i], right[i]); });
  }
};

// What kind of number it is, in words.
const char* kind(double x) {
  return std::isnan(x)      ? "NaN"
         : std::isfinite(x) ? "a finite number"
         : x > 0            ? "infinity"
                            : "-infinity";
}

// Whether a number still is what memory of the device holds before a launch: all bytes 0xff, as
// float or bfloat16. Other NaN have no such payload.
bool never_written(double x) {
  const auto bits = Eigen::numext::bit_cast<std::uint64_t>(x);
  return std::isnan(x) && bits << 12 >> 57 == 0x7f;
}

// NaN, infinity or 0 in place of another number, in words; else empty.
std::string special_numbers(const Compared& c) {
  if (c.all([](double x, double y) { return never_written(x) && !std::isnan(y); })) {
    return "nothing was written there: NaN, as before the launch";
  }
  if (c.wrong.size() == c.count() &&
      c.all([](double x, double y) { return std::isnan(x) && std::isfinite(y); })) {
    return "every number is NaN: what is infinity - infinity, 0 / 0, or was never written?";
  }
  if (c.all([](double x, double) { return !std::isfinite(x); }) ||
      c.all([](double, double y) { return !std::isfinite(y); })) {
    const std::size_t first = c.wrong.front();
    return fmt::format("{} where {} is right", kind(c.out[first]), kind(c.right[first]));
  }
  if (c.all([](double x, double y) { return x == 0 && y != 0; })) {
    return "0 where another number is right";
  }
  return {};
}

// Whether all elements have the same factor, in words; else empty.
std::string common_factor(const Compared& c) {
  std::size_t largest = 0;  // is known best
  for (std::size_t i = 0; i < c.count(); ++i) {
    const double x = c.right[i];
    if (std::isfinite(x) && !(std::abs(x) <= std::abs(c.right[largest]))) largest = i;
  }
  const double factor = c.out[largest] / c.right[largest];
  const bool one = c.count() == 1;  // has a factor in any case, and may be close by chance
  const bool rounded = std::abs(factor - 1) < (one ? 1e-6 : 1e-4);
  if (one && (!rounded || std::floor(c.out[0]) == c.out[0])) return {};
  for (std::size_t i = 0; i < c.count(); ++i) {
    const double y = factor * c.right[i];
    const double within = c.tolerance + (rounded ? 1e-4 : 1e-6) * std::abs(y);
    if (!std::isfinite(factor) || !near(c.out[i], y, within)) return {};
  }
  if (rounded) {
    return "every number is right in its first digits only: is something rounded, or computed in a "
           "narrower type?";
  }
  return fmt::format("every number is {:.4g} times the right one", factor);
}

// Whether the elements are those of a neighbour, in words; else empty.
std::string moved_by_one(const Compared& c) {
  // Of few values, as of a mask or of numbers of sequences, a wrong one may be a neighbour by chance.
  const std::size_t values = std::set<double>(c.right.begin(), c.right.end()).size();
  if (values < 3 || 2 * values < c.count()) return {};
  for (const std::size_t by : {std::size_t{1}, c.cols}) {
    if (c.count() < 4 || by >= c.count()) continue;
    const auto moved = [&](auto from) {
      std::size_t hits = 0;
      for (const std::size_t i : c.wrong)
        hits += from(i) < c.count() && agree({c.out[i]}, {c.right[from(i)]}, c.tolerance);
      const std::size_t size = c.wrong.size();
      return hits == size || (size > 4 && hits >= by && hits + by >= size);
    };
    const char* const what = by == 1 ? "element" : "row";
    if (moved([&](std::size_t i) { return i + by; })) {
      return fmt::format("off by one: these are the numbers of the next {}", what);
    }
    if (moved([&](std::size_t i) { return i - by; })) {
      return fmt::format("off by one: these are the numbers of the {} before", what);
    }
  }
  return {};
}

// What all wrong elements have in common, in words; empty when nothing was recognised.
std::string pattern(const Compared& c) {
  const std::size_t rows = c.count() / c.cols;
  const std::string place = lines_of(c.wrong, rows, c.cols);
  if (const std::string special = special_numbers(c); !special.empty()) {
    return special + (place.empty() ? "" : "; " + place);
  }
  for (const std::string& words : {common_factor(c), moved_by_one(c), place}) {
    if (!words.empty()) return words;
  }
  return {};
}

// The elements that differ.
std::vector<std::size_t> differing(const std::vector<double>& out, const std::vector<double>& right,
                                   double tolerance) {
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < right.size() && i < out.size(); ++i) {
    if (!agree({out[i]}, {right[i]}, tolerance)) wrong.push_back(i);
  }
  return wrong;
}

}  // namespace

std::string text(double x) {
  return fmt::format("{:.6g}", x);
}

bool agree(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!near(a[i], b[i], tolerance)) return false;
  }
  return true;
}

std::string recognised(const Table& out, const std::vector<double>& reference, double tolerance) {
  const auto wrong = differing(out.values, reference, tolerance);
  if (out.values.size() != reference.size() || wrong.empty()) return {};
  const auto cols = static_cast<std::size_t>(std::max<std::int64_t>(out.cols, 1));
  return pattern({out.values, reference, wrong, cols, tolerance});
}

void check(const Table& out, const std::vector<double>& reference, double tolerance,
           const std::vector<Mistake>& mistakes, const std::string& where) {
  if (agree(out.values, reference, tolerance)) return;
  for (const Mistake& mistake : mistakes) {
    if (agree(out.values, mistake.result, tolerance)) {
      refuse(fmt::format("{} (case: {})", mistake.says, where));
    }
  }
  if (out.values.size() != reference.size()) {
    refuse(fmt::format("{} has {} numbers; it should have {} (case: {})", out.what,
                       out.values.size(), reference.size(), where));
  }
  const auto wrong = differing(out.values, reference, tolerance);
  const auto error = [&](std::size_t i) {
    const double difference = std::abs(out.values[i] - reference[i]);
    return std::isnan(difference) ? HUGE_VAL : difference;
  };
  const std::size_t worst =
      *std::max_element(wrong.begin(), wrong.end(),
                        [&](std::size_t i, std::size_t j) { return error(i) < error(j); });
  const std::string element = out.what + place_of(worst, static_cast<std::size_t>(out.cols));
  // As many digits as tell the two apart.
  std::string found, right;
  for (int digits = 6; digits <= 17 && found == right; ++digits) {
    found = fmt::format("{:.{}g}", out.values[worst], digits);
    right = fmt::format("{:.{}g}", reference[worst], digits);
  }
  const std::string common = recognised(out, reference, tolerance);
  const std::string details = fmt::format(
      "the worst is {} = {}, and {} is right (allowed difference {:.2g}; case: {})", element,
      never_written(out.values[worst]) ? "NaN (never written)"
      : std::isnan(out.values[worst])  ? "NaN"
                                       : found,
      right, tolerance, where);
  refuse(common.empty()
             ? fmt::format("{} of {} {} wrong; {}", wrong.size(), reference.size(),
                           wrong.size() == 1 ? "number is" : "numbers are", details)
             : fmt::format("{} of {}: {}; {}", wrong.size(), reference.size(), common, details));
}

}  // namespace fa::classroom
