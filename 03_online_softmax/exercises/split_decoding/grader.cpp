#ifdef FA_ENTRIES  // the student's process
// O and the LSE.
using Part = std::pair<std::vector<double>, double>;

FA_ENTRY(combine, [](const std::vector<Part>& parts) {
  std::vector<student::Attention> all;
  for (const auto& [o, lse] : parts) all.push_back({o, lse});
  const student::Attention result = student::combine(all);
  return Part(result.o, result.lse);
});
#else  // the grader
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr int kHeadDim = 3;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// As student::Attention.
struct Attention {
  std::vector<double> o;
  double lse = 0;
};
auto parts(Attention& x) {
  return std::tie(x.o, x.lse);
}

struct Keys {
  std::vector<double> scores, values;  // kHeadDim values for each score
};

Attention attention(const Keys& keys, std::size_t begin, std::size_t end) {
  double m = kMinusInfinity, l = 0;
  Attention result{std::vector<double>(kHeadDim, 0.0), m};
  for (std::size_t j = begin; j < end; ++j) m = std::max(m, keys.scores[j]);
  if (m == kMinusInfinity) return result;
  for (std::size_t j = begin; j < end; ++j) {
    const double p = std::exp(keys.scores[j] - m);
    l += p;
    for (std::size_t d = 0; d < kHeadDim; ++d) {
      result.o[d] += p * keys.values[kHeadDim * j + d];
    }
  }
  for (double& o : result.o) o /= l;
  result.lse = m + std::log(l);
  return result;
}

std::vector<double> numbers(const Attention& a) {
  std::vector<double> all = a.o;
  all.push_back(a.lse);
  return all;
}

using Weight = std::function<double(double)>;

// Parts combined by some weight of their LSE.
std::vector<double> combined(const std::vector<Attention>& parts, const Weight& weight, bool divide,
                             double lse) {
  std::vector<double> o(kHeadDim, 0.0);
  double sum = 0;
  for (const auto& part : parts) {
    const double w = weight(part.lse);
    sum += w;
    for (std::size_t d = 0; d < kHeadDim; ++d) o[d] += w * part.o[d];
  }
  for (double& x : o) x /= divide ? sum : 1;
  o.push_back(lse);
  return o;
}

// @param levels of the parts' scores; the last one is that of all others
Keys random_keys(const std::vector<std::size_t>& sizes, double spread,
                 const std::vector<double>& levels, bool masked) {
  Keys keys;
  std::size_t n = 0;
  for (const std::size_t size : sizes) n += size;
  std::size_t part = 0, left = sizes[0];
  for (std::uint64_t j = 0; j < n; ++j) {
    while (left == 0) left = sizes[++part];
    --left;
    const double level = levels[std::min(part, levels.size() - 1)];
    keys.scores.push_back(masked ? kMinusInfinity : level + spread * fa::random_normal(1, j));
    for (std::uint64_t d = 0; d < kHeadDim; ++d) {
      keys.values.push_back(fa::random_normal(2, kHeadDim * j + d));
    }
  }
  return keys;
}

// @param right the result
// @param m     the largest LSE
std::vector<Mistake> mistakes(const std::vector<Attention>& parts, const std::vector<double>& right,
                              double m) {
  const double lse = right.back();
  double sum2 = 0, sum_e = 0, sum_first = 0, of_lse = 0, sum_of_powers = 0;
  for (const auto& part : parts) {
    sum2 += std::exp2(part.lse - m);
    sum_e += std::exp(part.lse - m);
    sum_first += std::exp(part.lse - parts[0].lse);
    of_lse += part.lse;
    sum_of_powers += std::exp(part.lse);
  }
  const Weight e = [=](double x) { return std::exp(x - m); };
  std::vector<double> largest = right, inverted = right;
  largest.back() = m;
  std::vector<double> without_m = right, no_logarithm = right, summed = right;
  without_m.back() = lse - m;
  no_logarithm.back() = m + sum_e;
  summed.back() = of_lse;
  for (double& x : inverted) x = -x;
  inverted.back() = NAN;
  return {
      {"only the first part was returned", numbers(parts[0])},
      {"the outputs were averaged; a part with large scores weighs more",
       combined(
           parts, [](double) { return 1.0; }, true, std::log(sum_of_powers))},
      {"the weights were not divided by their sum", combined(parts, e, false, lse)},
      {"the LSE is that of the largest part alone", largest},
      {"the largest LSE is missing from the result's: it is m + ln(sum of weights)", without_m},
      {"the sum of the weights was added to m as it is: the LSE is m + ln(sum of weights)",
       no_logarithm},
      {"the LSE of the parts were added; what adds up is e^LSE", summed},
      {"zeros and -infinity, as if no part had a key: the largest LSE is not found, or the test "
       "for it is inverted",
       {0, 0, 0, kMinusInfinity}},
      {"zeros, as if no part had a key: the maximum begins with the largest double; -infinity "
       "is below all others",
       {0, 0, 0, std::numeric_limits<double>::max()}},
      {"the weights are subtracted from their sum", inverted},
      {"the sum of the weights begins with 1, not 0",
       combined(
           parts, [=](double x) { return std::exp(x - m) / (1 + sum_e); }, false,
           m + std::log1p(sum_e))},
      {"the parts were weighted by powers of 2; LSE is a natural logarithm",
       combined(
           parts, [=](double x) { return std::exp2(x - m); }, true, m + std::log(sum2))},
      {"the LSE itself was taken for a weight; e^LSE is one",
       combined(
           parts, [](double x) { return x; }, true, m + std::log(of_lse))},
      {"the first part's LSE was subtracted, not the largest: e^(LSE - first) overflows, or all "
       "weights are 0",
       combined(
           parts, [=, first = parts[0].lse](double x) { return std::exp(x - first); }, true,
           parts[0].lse + std::log(sum_first))},
      {m < 0 ? "every weight is 0, as e^LSE is: subtract the largest LSE first"
             : "the largest LSE was not subtracted before e^LSE",
       combined(
           parts, [](double x) { return std::exp(x); }, true, std::log(sum_of_powers))}};
}

// @param levels as for random_keys()
void grade(const std::vector<std::size_t>& sizes, double spread, const std::vector<double>& levels,
           bool masked = false) {
  const Keys keys = random_keys(sizes, spread, levels, masked);
  std::vector<Attention> parts;
  std::size_t begin = 0;
  std::string where = "parts of";
  double m = kMinusInfinity;
  for (const std::size_t size : sizes) {
    parts.push_back(attention(keys, begin, begin + size));
    begin += size;
    where += " " + std::to_string(size);
    m = std::max(m, parts.back().lse);
  }
  where += " keys, scores around";
  for (const double level : levels) where += " " + text(level);
  const auto out = call<Attention>("combine", parts);
  const std::vector<double> right = numbers(attention(keys, 0, begin));
  if (m == kMinusInfinity) {
    check({"(o, LSE)", numbers(out)}, right, 0,
          {{"all parts are empty: -infinity - -infinity is NaN",
            std::vector<double>(kHeadDim + 1, NAN)}},
          where);
    return;
  }
  check({"(o, LSE)", numbers(out)}, right, 1e-9, mistakes(parts, right, m), where);
}

// Two parts, the second of which has three quarters of the weight, of another head_dim.
void grade_wide(std::size_t head_dim) {
  std::vector<Attention> two(2);
  std::vector<double> right;
  for (std::size_t d = 0; d < head_dim; ++d) {
    two[0].o.push_back(fa::random_normal(5, d));
    two[1].o.push_back(fa::random_normal(6, d));
    right.push_back(0.25 * two[0].o[d] + 0.75 * two[1].o[d]);
  }
  two[1].lse = std::log(3.0);
  right.push_back(std::log(4.0));
  check({"(o, LSE)", numbers(call<Attention>("combine", two))}, right, 1e-9, {},
        fmt::format("head_dim {}", head_dim));
}

}  // namespace

FA_STAGE(easy) {
  grade({4, 4}, 1, {1});
  grade({16, 16, 16}, 2, {0});
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
  grade({2, 2}, 1, {0}, true);
  grade({7}, 1, {0});
  grade_wide(1);
  grade_wide(8);
}
#endif
