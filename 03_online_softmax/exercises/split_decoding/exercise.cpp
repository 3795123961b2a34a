#if defined(FA_STUDENT)
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace student {

/// What attention over some keys gives for one query.
struct Attention {
  std::vector<double> o;  ///< [head_dim], normalised; zeros without keys
  double lse;             ///< natural logarithm; -infinity without keys
};

/// The attention over the keys of all parts.
/// @param parts at least one; all of the same head_dim
inline Attention combine(const std::vector<Attention>& parts) {
#ifdef FA_SOLUTION
  const double inf = std::numeric_limits<double>::infinity();
  Attention all{std::vector<double>(parts[0].o.size(), 0.0), -inf};
  double m = -inf, sum = 0;
  for (const Attention& part : parts) m = std::max(m, part.lse);
  if (m == -inf) return all;
  for (const Attention& part : parts) {
    const double w = std::exp(part.lse - m);
    sum += w;
    for (std::size_t d = 0; d < all.o.size(); ++d) all.o[d] += w * part.o[d];
  }
  for (double& o : all.o) o /= sum;
  all.lse = m + std::log(sum);
  return all;
#else
  // TODO
  return parts[0];
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
// O and the LSE.
using Part = std::pair<std::vector<double>, double>;

FA_ENTRY(combine, [](const std::vector<Part>& parts) {
  std::vector<student::Attention> all;
  for (const auto& [o, lse] : parts) all.push_back({o, lse});
  const student::Attention result = student::combine(all);
  return Part(result.o, result.lse);
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

// As student::Attention.
struct Attention {
  std::vector<double> o;
  double lse = 0;
};
auto parts(Attention& x) {
  return std::tie(x.o, x.lse);
}

struct Keys {
  std::size_t head_dim = 0;
  std::vector<double> scores{}, values{};  // head_dim values for each score

  Attention attention(std::size_t begin, std::size_t end) const {
    double m = kMinusInfinity, l = 0;
    Attention result{std::vector<double>(head_dim, 0.0), m};
    for (std::size_t j = begin; j < end; ++j) m = std::max(m, scores[j]);
    if (m == kMinusInfinity) return result;
    for (std::size_t j = begin; j < end; ++j) {
      const double p = std::exp(scores[j] - m);
      l += p;
      for (std::size_t d = 0; d < head_dim; ++d) result.o[d] += p * values[head_dim * j + d];
    }
    for (double& o : result.o) o /= l;
    result.lse = m + std::log(l);
    return result;
  }
};

// Parts combined by some weight of their LSE.
std::vector<double> combined(const std::vector<Attention>& parts, double (*weight)(double)) {
  std::vector<double> o(parts[0].o.size(), 0.0);
  double sum = 0;
  for (const auto& part : parts) {
    const double w = weight(part.lse);
    sum += w;
    for (std::size_t d = 0; d < o.size(); ++d) o[d] += w * part.o[d];
  }
  for (double& x : o) x /= sum;
  return o;
}

// @param sizes  keys of each part
// @param levels of the parts' scores; the last one is that of all others
void grade(const std::vector<std::size_t>& sizes, double spread, const std::vector<double>& levels,
           std::size_t head_dim = 3) {
  Keys keys{head_dim};
  std::vector<Attention> parts;
  std::string where = fmt::format("head_dim {}, parts of", head_dim);
  double sum_of_powers = 0;
  for (std::size_t part = 0; part < sizes.size(); ++part) {
    const std::size_t begin = keys.scores.size(), end = begin + sizes[part];
    const double level = levels[std::min(part, levels.size() - 1)];
    for (std::size_t j = begin; j < end; ++j) {
      keys.scores.push_back(level + spread * fa::random_normal(1, j));
    }
    for (std::size_t e = begin * head_dim; e < end * head_dim; ++e) {
      keys.values.push_back(fa::random_normal(2, e));
    }
    parts.push_back(keys.attention(begin, end));
    sum_of_powers += std::exp(parts.back().lse);
    where += fmt::format(" {}", sizes[part]);
  }
  where += " keys, scores around";
  for (const double level : levels) where += " " + text(level);
  const Attention all = keys.attention(0, keys.scores.size());
  double m = kMinusInfinity;
  for (const Attention& part : parts) m = std::max(m, part.lse);
  std::vector<double> not_divided = all.o;
  for (double& o : not_divided) o *= std::exp(all.lse - m);
  const std::string powers =
      "the largest LSE was not subtracted before e^LSE: that overflows, or every weight is 0";
  std::vector<Mistake> of_o{
      {"only the first part was returned", parts[0].o},
      {"the last part was left out", keys.attention(0, keys.scores.size() - sizes.back()).o},
      {"o was not divided by the sum of the weights", not_divided},
      {"the outputs were averaged; a part with large scores weighs more",
       combined(parts, [](double) { return 1.0; })},
      {powers, combined(parts, [](double lse) { return std::exp(lse); })}};
  std::vector<Mistake> of_lse{
      {"the largest LSE is missing from the result's: it is m + ln(sum of weights)", {all.lse - m}},
      {"this is the largest LSE; the sum of the weights is missing: it is m + ln(sum of weights)",
       {m}},
      {powers, {std::log(sum_of_powers)}}};
  if (m == kMinusInfinity) {
    const std::string says = "all parts are empty: -infinity - -infinity is NaN";
    of_o = {{says, std::vector<double>(head_dim, NAN)}};
    of_lse = {{says, {NAN}}};
  }
  const auto out = call<Attention>("combine", parts);
  check({"o", out.o}, all.o, 1e-9, of_o, where);
  check({"LSE", {out.lse}}, {all.lse}, 1e-9, of_lse, where);
}

}  // namespace

FA_STAGE(easy) {
  grade({4, 4, 4}, 1, {1});
  grade({16, 16}, 2, {0});
}

FA_STAGE(odd) {
  grade({3, 2}, 1, {-400, 400});
  grade({1, 17, 3, 64}, 3, {0});
  grade({0, 5, 0, 0, 2}, 1, {0});
  grade({8, 8}, 5, {1000});
  grade({8, 8}, 5, {-1000});
  grade({2, 3, 2}, 1, {900, -900, 0});
  grade({0, 4, 4}, 1, {0, 500, -500});
  grade({0, 0}, 1, {0});
  grade({2, 2}, 0, {kMinusInfinity});
  grade({7}, 1, {0});
  grade({4, 5}, 1, {0}, 1);
  grade({4, 5}, 1, {0}, 8);
}
#endif
/* Other answers, as changes of the solution
# averaged: each part counts the same
@ easy: averaged
- const double w = std::exp(part.lse - m);
+   const double w = 1;

# lse_without_m: the logarithm of the sum alone
@ easy: the largest LSE is missing
- all.lse = m + std::log(sum);
+ all.lse = std::log(sum);

# unsafe: the largest LSE is not subtracted
@ odd: the largest LSE was not subtracted
- const double w = std::exp(part.lse - m);
+   const double w = std::exp(part.lse);
- all.lse = m + std::log(sum);
+ all.lse = std::log(sum);

# no_keys_nan: all parts are empty
@ odd: all parts are empty
- if (m == -inf) return all;
+

# fold: two parts at a time
@ right
- for (const Attention& part : parts) m = std::max(m, part.lse);
- ...
- all.lse = m + std::log(sum);
+  (void)m; (void)sum;
+  for (const auto& b : parts) {
+    if (b.lse == -inf) continue;
+    if (all.lse == -inf) { all = b; continue; }
+    const double t = 1 / (1 + std::exp(all.lse - b.lse));
+    for (std::size_t d = 0; d < b.o.size(); ++d) all.o[d] = (1 - t) * all.o[d] + t * b.o[d];
+    all.lse = std::max(all.lse, b.lse) + std::log1p(std::exp(-std::fabs(all.lse - b.lse)));
+  }
*/
