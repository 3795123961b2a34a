/// @file
/// What the graders of this lesson share: attention in float64 with any rule for the scores, which
/// is also how wrong answers are foreseen. Students' files cannot include what is in this folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "05_flash_forward/exercises/problem.hpp"
#include "common/classroom/lab.hpp"

namespace fa::classroom {

/// Sizes in words.
inline std::string words(const Sizes& s) {
  std::string result =
      fmt::format("{} {}, {} {}", s.length_q, s.length_q == 1 ? "query" : "queries", s.length_k,
                  s.length_k == 1 ? "key" : "keys");
  if (s.heads > 1) result += fmt::format(", {} heads on {}", s.heads, s.kv_heads);
  return s.causal ? result + ", causal" : result;
}

/// @param spread queries are multiplied by it, and with them the scores
/// @param scale  of the scores; 0 is 1 / sqrt(head_dim)
template <class T>
Inputs random_inputs(const Sizes& s, float spread = 1, float scale = 0) {
  const auto rounded = [](std::vector<float> numbers, float factor) {
    for (float& x : numbers) x = static_cast<float>(static_cast<T>(factor * x));
    return numbers;
  };
  const int d = s.head_dim, of_q = s.heads * s.length_q, of_k = s.kv_heads * s.length_k;
  return {s,
          rounded(random_floats(std::int64_t{of_q} * d, 1), spread),
          rounded(random_floats(std::int64_t{of_k} * d, 2), 1),
          rounded(random_floats(std::int64_t{of_k} * d, 3), 1),
          scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(d)),
          0};
}

/// Inputs whose scores all lie around a level. Products are exact in float32, so that a step of the
/// online softmax is as exact as elsewhere.
template <class T>
Inputs inputs_around(float level, const Sizes& s) {
  Inputs in = random_inputs<T>(s, 1, 0.25f);
  for (auto* numbers : {&in.q, &in.k}) {
    for (float& x : *numbers) x = std::round(8 * x) / 8;
  }
  const auto d = static_cast<std::size_t>(s.head_dim);
  for (std::size_t i = 0; i < in.q.size(); i += d) in.q[i] = level / 4;
  for (std::size_t i = 0; i < in.k.size(); i += d) in.k[i] = 16;
  return in;
}

/// The score of a query and a key; -infinity where it is masked.
/// @param product of the two rows, not scaled
using Score = std::function<double(int head, int query, int key, double product)>;

/// Attention in float64.
/// @param score   which keys have which score
/// @param kv_head of a head; the one of its GQA group if none is given
inline Rows attention(const Inputs& in, const Score& score,
                      const std::function<int(int)>& kv_head = nullptr) {
  const Sizes& s = in.sizes;
  const int d = s.head_dim;
  Rows result;
  std::vector<double> x(static_cast<std::size_t>(s.length_k));
  for (int head = 0; head < s.heads; ++head) {
    const int of_k = kv_head ? kv_head(head) : head / (s.heads / s.kv_heads);
    for (int query = 0; query < s.length_q; ++query) {
      const float* const q = in.q.data() + (head * s.length_q + query) * d;
      double m = kMinusInfinity, l = 0;
      for (int key = 0; key < s.length_k; ++key) {
        const float* const k = in.k.data() + (of_k * s.length_k + key) * d;
        const double product = std::inner_product(q, q + d, k, 0.0, std::plus<>(),
                                                  [](double a, double b) { return a * b; });
        x[key] = score(head, query, key, product);
        m = std::max(m, x[key]);
      }
      std::vector<double> o(static_cast<std::size_t>(d), 0.0);
      for (int key = 0; key < s.length_k && m != kMinusInfinity; ++key) {
        const double p = std::exp(x[key] - m);
        const float* const v = in.v.data() + (of_k * s.length_k + key) * d;
        l += p;
        for (int e = 0; e < d; ++e) o[e] += p * static_cast<double>(v[e]);
      }
      for (const double sum : o) result.o.push_back(l == 0 ? 0 : sum / l);
      result.lse.push_back(l == 0 ? kMinusInfinity : m + std::log(l));
    }
  }
  return result;
}

/// The lesson's own rule.
inline bool sees(const Sizes& s, int query, int key) {
  return !s.causal || key <= query + s.length_k - s.length_q;
}

/// Attention as it should be.
inline Rows attention(const Inputs& in) {
  return attention(in, [&](int, int query, int key, double product) {
    return sees(in.sizes, query, key) ? static_cast<double>(in.scale) * product : kMinusInfinity;
  });
}

/// Launches the student's kernel.
/// @param more arguments of the entry
template <class... More>
Ran launched(const Inputs& in, const More&... more) {
  const char* const grouped =
      "it reads or writes far beside a tensor. Is the head of K and V that of the group: "
      "h / (heads / kv_heads)?";
  return call_or<Ran>(in.sizes.heads > in.sizes.kv_heads ? grouped : "", "run", in, more...);
}

/// Queries and keys of a block's tile, as run_tiled() has set them.
inline int tile_rows, tile_keys;

/// Tiles of a size that so many rows need.
inline int ceil_div(int rows, int size) {
  return (rows + size - 1) / size;
}

/// Launches step 08's kernel with one of its two tiles: see edge_masks_entry.hpp.
inline Ran run_tiled(const Inputs& in, bool large = false) {
  tile_rows = large ? 64 : 32;
  tile_keys = large ? 32 : 16;
  return launched(in, large);
}

/// A typical wrong answer to a case.
struct Wrong {
  std::string says;  ///< names the misconception
  Rows rows;         ///< its result; without an LSE only O is compared
};

/// Whether two LSE are the same. A score of some hundred has fewer digits behind the point, however
/// its products are added and whichever base its exponential has.
inline bool same_lse(const std::vector<double>& a, const std::vector<double>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) {
    same = agree({a[i]}, {b[i]}, 1e-4 + (std::isfinite(b[i]) ? 2e-6 * std::abs(b[i]) : 0));
  }
  return same;
}

/// A mistake: scores with another scale. Only O is compared.
inline Wrong with_scale(const Inputs& in, const std::string& says, double scale) {
  const Rows rows = attention(in, [&](int, int query, int key, double product) {
    return sees(in.sizes, query, key) ? scale * product : kMinusInfinity;
  });
  return {says, {rows.o, {}}};
}

/// Mistakes in scores that have no other rule than the scale and the causal mask.
inline std::vector<Wrong> wrong_scores(const Inputs& in) {
  const auto scale = static_cast<double>(in.scale);
  const auto masked = [&](const std::string& says, const std::function<bool(int, int)>& seen) {
    return Wrong{says, attention(in, [&](int, int query, int key, double product) {
                   return seen(query, key) ? scale * product : kMinusInfinity;
                 })};
  };
  return {
      with_scale(in, "the scores are not scaled: a score is scale q . k", 1),
      with_scale(in, "the scores are scaled twice", scale * scale),
      with_scale(in, "2^x was taken of a score without the factor log2(e)", scale * std::log(2.0)),
      with_scale(in, "the factor log2(e) belongs to 2^x, not to e^x", scale / std::log(2.0)),
      masked("keys are seen that are masked: nothing masks them", [](int, int) { return true; }),
      masked("the causal mask is aligned to the first key: the last query sees the last key",
             [](int query, int key) { return key <= query; }),
      masked("the last key that a query sees is missing",
             [&](int query, int key) { return sees(in.sizes, query, key + 1); })};
}

/// Where to look, in words.
inline std::string hint(const Ran& ran, const Rows& right, double tolerance, bool o_right,
                        bool lse_right) {
  const std::vector<double>&o = ran.rows.o, &lse = ran.rows.lse;
  if (nothing_written(ran.seen, o)) return "nothing was written";
  const std::size_t rows = lse.size(), cols = o.size() / std::max<std::size_t>(rows, 1);
  std::size_t nan_rows = 0, first = rows, last = 0;  // wrong ones
  bool nan_unseen = true, one_factor = true, in_l = true, more = true, less = true;
  for (std::size_t row = 0; row < rows; ++row) {
    const bool masked = right.lse[row] == kMinusInfinity;
    const auto begin = static_cast<std::ptrdiff_t>(row * cols), end = begin + std::ptrdiff_t(cols);
    const std::vector<double> got(o.begin() + begin, o.begin() + end);
    std::vector<double> of_row(right.o.begin() + begin, right.o.begin() + end);
    if (std::any_of(got.begin(), got.end(), [](double x) { return std::isnan(x); })) {
      ++nan_rows;
      nan_unseen = nan_unseen && masked;
    }
    if (masked && nan_rows == 0 && !agree({lse[row]}, {right.lse[row]}, 0)) {
      return "a row that sees no key must have O = 0 and LSE = -infinity";
    }
    more = more && (masked || lse[row] > right.lse[row] - 1e-3);
    less = less && (masked || lse[row] < right.lse[row] + 1e-3);
    if (!agree(got, of_row, tolerance)) first = std::min(first, row), last = row;
    // Its largest element tells the factor of a row best.
    const auto largest =
        std::max_element(of_row.begin(), of_row.end(),
                         [](double a, double b) { return std::abs(a) < std::abs(b); }) -
        of_row.begin();
    const double factor = masked ? 1 : got[std::size_t(largest)] / of_row[std::size_t(largest)];
    for (double& x : of_row) x *= factor;
    one_factor = one_factor && agree(got, of_row, tolerance * std::max(1.0, std::abs(factor)));
    in_l = in_l && (masked || std::abs(factor * std::exp(lse[row] - right.lse[row]) - 1) < 1e-2);
  }
  if (nan_rows > 0 && nan_unseen) {
    return "a row that sees no key gives NaN: there -infinity - -infinity is not a number, and "
           "neither is 0 / 0. It must have O = 0 and LSE = -infinity";
  }
  if (nan_rows == rows) {
    return "every element is NaN. Was the maximum never raised? Or is the rescale factor "
           "inverted, e^(m_new - m)? Both are infinite at the first tile";
  }
  if (nan_rows > 0) {
    return "O contains NaN. In a row, or a tile, without a visible key, -infinity - -infinity is "
           "not a number, and neither is 0 / 0. Or an exponential takes a score instead of its "
           "difference from the maximum";
  }
  if (o_right && std::all_of(lse.begin(), lse.end(), [](double x) { return std::isnan(x); })) {
    return "O is right and the LSE was never written";
  }
  if (o_right) {
    return "O is right and the LSE is not: it is m + ln(l), a natural logarithm, and m is the "
           "largest of the scaled scores";
  }
  if (one_factor && in_l) {
    return "O and the LSE are wrong by the same factor, so only the sum l is. It is rescaled when "
           "the maximum rises, and at a merge, and takes each key once";
  }
  if (one_factor) {
    return "each row of O is right but for a factor: look at its division by l";
  }
  const std::string where =
      last - first + 1 == rows ? "all rows" : fmt::format("rows {} to {} of {}", first, last, rows);
  return fmt::format(
      lse_right ? "the LSE is right and O is not, in {}: so the scores, their maximum and their "
                  "sum are right. Look at the probabilities times V and at the rescaling of O"
      : more ? "O is wrong in {}, and the LSE too large: is the rescale factor computed before m "
               "is set, and is no key taken twice, or although it is masked? Or is a score wrong"
      : less ? "O is wrong in {}, and the LSE too small: are keys left out? Or is a score wrong"
             : "O is wrong in {}, and the LSE too: compare the scores with their rule by hand",
      where);
}

/// The first element that differs, in words.
inline std::string first_wrong(const std::string& name, std::size_t cols,
                               const std::vector<double>& got, const std::vector<double>& right,
                               double tolerance = -1) {
  const auto same = [&](std::size_t i) {  // of LSE without a tolerance
    return tolerance < 0 ? same_lse({got[i]}, {right[i]}) : agree({got[i]}, {right[i]}, tolerance);
  };
  std::size_t at = 0;
  while (at + 1 < right.size() && same(at)) ++at;
  const std::string place =
      cols == 1 ? fmt::format("[{}]", at) : fmt::format("[{}][{}]", at / cols, at % cols);
  return fmt::format("The first wrong element is {}{} = {}, and {} is right", name, place,
                     std::isnan(got[at]) ? "NaN" : text(got[at]), text(right[at]));
}

/// Refuses a wrong O or LSE: by a mistake that explains it, then by what the lab found, then by the
/// first element that differs.
/// @param tolerance of O; see same_lse()
inline void check_rows(const Ran& ran, const std::vector<Reason>& reasons, const Inputs& in,
                       const Rows& right, double tolerance, const std::vector<Wrong>& wrongs) {
  const Rows& got = ran.rows;
  require(got.o.size() == right.o.size() && got.lse.size() == right.lse.size(),
          "O or the LSE has another size than it should have");
  const bool o_right = agree(got.o, right.o, tolerance);
  const bool lse_right = same_lse(got.lse, right.lse);
  const std::string where = " (case: " + words(in.sizes) + ")";
  if (o_right && lse_right) {
    if (found(ran.seen, "out of bounds")) require_no_findings(ran.seen, reasons);
    return;
  }
  for (const Wrong& wrong : wrongs) {
    const bool lse_as_well = wrong.rows.lse.empty() ? !o_right : same_lse(got.lse, wrong.rows.lse);
    require(!(lse_as_well && agree(got.o, wrong.rows.o, tolerance)), wrong.says + where);
  }
  require_no_findings(ran.seen, reasons);
  for (const Wrong& wrong : wrong_scores(in)) {
    require(!agree(got.o, wrong.rows.o, tolerance) || agree(wrong.rows.o, right.o, tolerance),
            wrong.says + where);
  }
  const auto cols = static_cast<std::size_t>(in.sizes.head_dim);
  refuse(hint(ran, right, tolerance, o_right, lse_right) + ". " +
         (o_right ? first_wrong("LSE", 1, got.lse, right.lse)
                  : first_wrong("O", cols, got.o, right.o, tolerance)) +
         where);
}

/// For a case that was right before, now with all scores around a level.
inline void check_level(const Ran& ran, const Inputs& in, const Rows& right, float level) {
  require(
      agree(ran.rows.o, right.o, 2e-2) && agree(ran.rows.lse, right.lse, 2e-2),
      fmt::format(
          "wrong with scores around {}, whose exponentials are {} in float32: is each exponential "
          "one of a difference of scores, and where does the maximum start? (case: {})",
          level, level < 0 ? "0" : "infinite", words(in.sizes)));
}

/// For a case that was right before: only strides change, or the level of all scores.
/// @param launched (inputs): what the student's kernel gives
/// @param right    (inputs): what is right
/// @param spread   as for random_inputs()
inline void check_variations(const Sizes& sizes, Ran (*launched)(const Inputs&),
                             Rows (*right)(const Inputs&), double tolerance, float spread = 1) {
  Inputs apart = random_inputs<float>(sizes, spread);
  apart.gap = 4;
  const Ran ran = launched(apart);
  const Rows expected = right(apart);
  require(agree(ran.rows.o, expected.o, tolerance) && same_lse(ran.rows.lse, expected.lse),
          "wrong, and right where the rows of a tensor follow one another without a gap. Q, K, V "
          "and O each have a stride of their own (case: " +
              words(sizes) + ")");
  for (const float level : {-2e4f, 2e4f}) {
    const Inputs in = inputs_around<float>(level, sizes);
    check_level(launched(in), in, right(in), level);
  }
}

}  // namespace fa::classroom
