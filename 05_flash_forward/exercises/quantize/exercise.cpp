#if defined(FA_STUDENT)
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/tensor/dtype.hpp"

namespace student {

using fa::e4m3;

/// A row in 8 bits: element i is about codes[i] * scale.
struct Row {
  std::vector<e4m3> codes;
  float scale;
};

/// Quantizes a row with the scale that makes its largest absolute value 448, the
/// largest e4m3; zeros have the scale 1. e4m3(x) rounds x to the nearest value.
inline Row quantize(const std::vector<float>& row) {
#ifdef FA_SOLUTION
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  Row result{{}, largest == 0 ? 1 : largest / 448};
  for (const float x : row) result.codes.push_back(e4m3(x / result.scale));
  return result;
#else
  // TODO
  return {std::vector<e4m3>(row.size()), 1};
#endif
}

/// A bound on |x8 y8 - x y|, where x and y are rows, x y is their dot product, and
/// x8 and y8 are what their codes and scales stand for.
inline double dot_error_bound(const std::vector<float>& x, float scale_x,
                              const std::vector<float>& y, float scale_y) {
#ifdef FA_SOLUTION
  // Half a step: of a normal value relative to it, of smaller ones 2^-10 times the scale.
  const auto error = [](float value, float scale) {
    return std::max(0x1p-4 * std::abs(value), 0x1p-10 * scale);
  };
  double bound = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e_x = error(x[i], scale_x), e_y = error(y[i], scale_y);
    bound += e_x * std::abs(y[i]) + std::abs(x[i]) * e_y + e_x * e_y;
  }
  return bound;
#else
  // TODO
  (void)x, (void)scale_x, (void)y, (void)scale_y;
  return 0;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
// The values of the codes, and the scale.
FA_ENTRY(quantize, [](const std::vector<float>& row) {
  const student::Row result = student::quantize(row);
  std::vector<double> codes;
  for (const fa::e4m3 code : result.codes) codes.push_back(static_cast<float>(code));
  return std::pair(codes, double{result.scale});
});
FA_ENTRY(dot_error_bound,
         [](const std::vector<float>& x, float scale_x, const std::vector<float>& y,
            float scale_y) { return double{student::dot_error_bound(x, scale_x, y, scale_y)}; });
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"
#include "common/tensor/random.hpp"

using namespace fa::classroom;

namespace {

using Row = std::vector<float>;

Row normal(std::uint64_t seed, std::size_t n, double size = 1) {
  Row row;
  for (std::size_t i = 0; i < n; ++i) {
    row.push_back(static_cast<float>(size * fa::random_normal(seed, i)));
  }
  return row;
}

float largest_of(const Row& row) {
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  return largest;
}

float scale_of(const Row& row) {
  return largest_of(row) == 0 ? 1 : largest_of(row) / 448;
}

std::vector<double> codes(const Row& row, float scale) {
  std::vector<double> result;
  for (const float x : row) result.push_back(static_cast<float>(fa::e4m3(x / scale)));
  return result;
}

void grade(const Row& row, const std::string& where) {
  const auto [out, scale] = call<std::pair<std::vector<double>, double>>("quantize", row);
  const float right = scale_of(row), most = *std::max_element(row.begin(), row.end());
  std::vector<Mistake> mistakes{
      {"all codes are 0: nothing was quantized", std::vector<double>(row.size(), 0)},
      {"the largest element has become 1, not 448: the small ones lose digits, or become 0",
       codes(row, largest_of(row))},
      {"elements are multiplied by the scale: divide", codes(row, 1 / right)},
      {"the largest element was taken with its sign: -8 is larger than 2 here",
       codes(row, most / 448)}};
  if (largest_of(row) == 0)
    mistakes = {{"zeros become NaN: 0 / 0", std::vector<double>(row.size(), NAN)}};
  check({"codes", out}, codes(row, right), 0, mistakes, where);
  require(std::abs(scale - right) <= 1e-6 * right,
          fmt::format("the codes are right, but a code times your scale, {:g}, is not the element; "
                      "{:g} is right (case: {})",
                      scale, right, where));
}

// The bound with `relative` of an element, and at least `absolute` of its scale; with or without
// the product of both errors.
double bound(const Row& x, const Row& y, double relative, double absolute, bool product = true) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e_x = std::max(relative * std::abs(x[i]), absolute * scale_of(x)),
                 e_y = std::max(relative * std::abs(y[i]), absolute * scale_of(y));
    sum += e_x * std::abs(y[i]) + std::abs(x[i]) * e_y + (product ? e_x * e_y : 0);
  }
  return sum;
}

void grade_bound(const Row& x, const Row& y, const std::string& where) {
  const float scale_x = scale_of(x), scale_y = scale_of(y);
  const std::vector<double> x8 = codes(x, scale_x), y8 = codes(y, scale_y);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x8[i] * scale_x * y8[i] * scale_y - double{x[i]} * double{y[i]};
  }
  const double error = std::abs(sum), tight = bound(x, y, 0x1p-4, 0x1p-10);
  const double out = call<double>("dot_error_bound", x, scale_x, y, scale_y);
  const std::string figures =
      fmt::format(" (case: {}; the error is {:.4g}, your bound {:.4g})", where, error, out);
  const auto is = [&](double other) { return std::abs(out - other) <= 1e-4 * other; };
  require(out != 0, "the bound is 0, and the error is not" + figures);
  require(out >= error || !is(bound(x, y, 0x1p-4, 0)),
          "below the least normal value half a step is no part of the element: it is 2^-10 of the "
          "scale, also for an element that becomes 0" +
              figures);
  require(out >= error || !is(bound(x, y, 0x1p-4, 0x1p-10, false)),
          "both factors are off at once: the product of their errors is missing" + figures);
  require(out >= error,
          "the error is larger than your bound: is each element added, and each factor without its "
          "sign?" +
              figures);
  require(!is(bound(x, y, 0x1p-3, 0x1p-9)),
          "rounding to nearest is off by half a step at most; yours are whole steps" + figures);
  require(out <= 1.05 * tight,
          "the bound holds, but a smaller one does, too: each element has an error of its own, so "
          "add |x_i| times the error of y_i and so on, element by element" +
              figures);
}

}  // namespace

FA_STAGE(easy) {
  grade({448, -2, 17, 0.25f}, "448 -2 17 0.25");
  grade({1, 2, 3.5f, 0.3f}, "1 2 3.5 0.3");
  grade(normal(1, 64), "64 normal elements");
}

FA_STAGE(odd) {
  grade({2, -8, 1}, "2 -8 1");
  grade({0, 0, 0}, "zeros");
  grade(normal(2, 100, 1e-5), "100 normal elements times 1e-5");
  grade(normal(3, 100, 1e5), "100 normal elements times 1e5");
  Row outlier = normal(4, 100);
  outlier[50] = -3000;
  grade(outlier, "100 normal elements, and one is -3000");
  grade({-7}, "-7");
}

FA_STAGE(bound) {
  for (std::uint64_t seed = 10; seed < 40; ++seed) {
    grade_bound(normal(seed, 64), normal(seed + 100, 64, 20), "64 normal elements");
  }
  // All are in the middle between two values, and rounded away from 0.
  Row x(64, 1.1875f), y = x;
  x[0] = y[1] = 448, x[1] = y[0] = 0;
  grade_bound(x, y, "elements in the middle between two values");
  // Beside 448 these are subnormal: the first ones become 0, the others twice as much.
  for (const float small : {0.99f, 1.01f}) {
    x.assign(64, small / 1024), y.assign(64, 1);
    x[0] = 448, y[0] = 0;
    grade_bound(x, y, "one element is 448, and 63 are about 2^-10");
  }
  grade_bound({-448, -19}, {0, -448}, "-448 -19, and 0 -448");
  // Both are rounded away from 0; those of y are subnormal.
  x.assign(64, 272.01f), y.assign(64, 0x3p-10f);
  x[0] = y[1] = 448, x[1] = y[0] = 0x3p-10f;
  grade_bound(x, y, "62 of x are 272.01, and 62 of y 3 / 1024");
}
#endif
/* Other answers, as changes of the solution
# with_sign: the largest element, not the largest absolute value
@ odd: with its sign
- for (const float x : row) largest = std::max(largest, std::abs(x));
+   for (const float x : row) largest = std::max(largest, x);

# zeros: 0 / 0
@ odd: zeros become NaN
- Row result{{}, largest == 0 ? 1 : largest / 448};
+   Row result{{}, largest / 448};

# relative_only: small values have an error as large as others, relatively
@ bound: below the least normal value
- return std::max(0x1p-4 * std::abs(value), 0x1p-10 * scale);
+     return 0x1p-4 * std::abs(value) + 0 * scale;

# no_product: both are off at once
@ bound: the product of their errors is missing
- bound += e_x * std::abs(y[i]) + std::abs(x[i]) * e_y + e_x * e_y;
+     bound += e_x * std::abs(y[i]) + std::abs(x[i]) * e_y;

# signed: a factor may be below 0
@ bound: without its sign
- bound += e_x * std::abs(y[i]) + std::abs(x[i]) * e_y + e_x * e_y;
+     bound += e_x * std::abs(y[i]) + x[i] * e_y + e_x * e_y;

# sharper: at most u / (1 + u) of the element; and the scale is multiplied by
@ right
- return std::max(0x1p-4 * std::abs(value), 0x1p-10 * scale);
+     return std::max(std::abs(value) / 17.0, 0x1p-10 * scale);
- for (const float x : row) result.codes.push_back(e4m3(x / result.scale));
+   const float inverse = 1 / result.scale;
+   for (const float x : row) result.codes.push_back(e4m3(x * inverse));
*/
