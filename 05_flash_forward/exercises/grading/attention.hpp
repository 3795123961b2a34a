/// @file
/// What the graders of this lesson share: attention in float64 with any rule for the scores, which
/// is also how wrong answers are foreseen. Students' files cannot include what is in this folder.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "05_flash_forward/exercises/problem.hpp"
#include "common/classroom/lab.hpp"

namespace fa::classroom {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Sizes in words.
inline std::string words(const Sizes& s) {
  std::string result =
      fmt::format("{} {}, {} {}", s.length_q, s.length_q == 1 ? "query" : "queries", s.length_k,
                  s.length_k == 1 ? "key" : "keys");
  if (s.heads > 1) result += fmt::format(", {} heads on {}", s.heads, s.kv_heads);
  return s.causal ? result + ", causal" : result;
}

/// Computes the products of queries and keys.
inline void multiply(Inputs& in) {
  const int d = in.sizes.head_dim;
  in.products.clear();
  for (std::size_t i = 0; i < in.q.size(); i += d) {
    for (std::size_t j = 0; j < in.k.size(); j += d) {
      double sum = 0;
      for (int e = 0; e < d; ++e) {
        sum += static_cast<double>(in.q[i + e]) * static_cast<double>(in.k[j + e]);
      }
      in.products.push_back(sum);
    }
  }
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
  Inputs in{s,
            rounded(random_floats(std::int64_t{of_q} * d, 1), spread),
            rounded(random_floats(std::int64_t{of_k} * d, 2), 1),
            rounded(random_floats(std::int64_t{of_k} * d, 3), 1),
            scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(d)),
            0,
            {}};
  multiply(in);
  return in;
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
  multiply(in);
  return in;
}

/// The score of a query and a key; -infinity where it is masked.
/// @param product of the two rows, not scaled; 0 for a key beyond the last one
using Score = std::function<double(int head, int query, int key, double product)>;

/// Product of a query and a key.
inline double product_of(const Inputs& in, int head, int kv_head, int query, int key) {
  const Sizes& s = in.sizes;
  return in.products[((head * s.length_q + query) * s.kv_heads + kv_head) * s.length_k + key];
}

/// Attention in float64.
/// @param score   which keys have which score
/// @param kv_head of a head; the one of its GQA group if none is given
inline Rows attention(const Inputs& in, const Score& score,
                      const std::function<int(int)>& kv_head = nullptr) {
  const Sizes& s = in.sizes;
  const int padded = (s.length_k + 127) / 128 * 128;  // as tiles are
  Rows result;
  std::vector<double> x(static_cast<std::size_t>(padded));
  for (int head = 0; head < s.heads; ++head) {
    const int of_k = kv_head ? kv_head(head) : head / (s.heads / s.kv_heads);
    for (int query = 0; query < s.length_q; ++query) {
      double m = kMinusInfinity, l = 0;
      for (int key = 0; key < padded; ++key) {
        const double product = key < s.length_k ? product_of(in, head, of_k, query, key) : 0;
        x[key] = score(head, query, key, product);
        m = std::max(m, x[key]);
      }
      std::vector<double> o(static_cast<std::size_t>(s.head_dim), 0.0);
      for (int key = 0; key < padded; ++key) {
        if (x[key] == kMinusInfinity) continue;
        const double p = std::exp(x[key] - m);
        l += p;
        if (key >= s.length_k) continue;
        const float* v = in.v.data() + (of_k * s.length_k + key) * s.head_dim;
        for (int e = 0; e < s.head_dim; ++e) {
          o[e] += p * static_cast<double>(v[e]);
        }
      }
      for (const double sum : o) result.o.push_back(l == 0 ? 0 : sum / l);
      result.lse.push_back(l == 0 ? kMinusInfinity : m + std::log(l));
    }
  }
  return result;
}

/// The lesson's own rule.
inline bool sees(const Sizes& s, int query, int key) {
  return key < s.length_k && (!s.causal || key <= query + s.length_k - s.length_q);
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
  return call<Ran>("run", in, more...);
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

/// e^(a - b), and 0 for an a of -infinity.
inline double exp_diff(double a, double b) {
  return a == kMinusInfinity ? 0 : std::exp(a - b);
}

/// An online softmax over tiles of keys; a wrong answer is one that changes something.
struct OnlineSoftmax {
  int keys;                ///< of a tile
  int queries = 0;         ///< of a block, which ends with the tiles of its last one; 0: all
  bool backwards = false;  ///< the last tile first
  /// Factors of the sums so far when the maximum rises from m to m_new.
  std::function<double(double m, double m_new)> of_l = exp_diff, of_o = exp_diff;
  /// The weight of a score.
  std::function<double(double x, double m)> p = exp_diff;
  /// An element of O, from its sum.
  std::function<double(double sum, double l)> o = [](double sum, double l) {
    return l == 0 ? 0 : sum / l;
  };
  /// The LSE.
  std::function<double(double m, double l)> lse = [](double m, double l) {
    return l == 0 ? kMinusInfinity : m + std::log(l);
  };
};

/// Attention in float64 by an online softmax. Keys beyond the last one are masked.
inline Rows online(const Inputs& in, const Score& score, const OnlineSoftmax& by) {
  const Sizes& s = in.sizes;
  Rows result;
  for (int head = 0; head < s.heads; ++head) {
    const int of_k = head / (s.heads / s.kv_heads);
    for (int query = 0; query < s.length_q; ++query) {
      const int last =
          by.queries == 0 ? s.length_q - 1 : query / by.queries * by.queries + by.queries - 1;
      const int seen =
          s.causal ? std::clamp(last + 1 + s.length_k - s.length_q, 0, s.length_k) : s.length_k;
      const int tiles = ceil_div(seen, by.keys);
      double m = kMinusInfinity, l = 0;
      std::vector<double> o(static_cast<std::size_t>(s.head_dim), 0.0);
      for (int tile = 0; tile < tiles; ++tile) {
        const int key0 = (by.backwards ? tiles - 1 - tile : tile) * by.keys;
        std::vector<double> x;
        double m_new = m;
        for (int key = key0; key < key0 + by.keys; ++key) {
          x.push_back(key < s.length_k
                          ? score(head, query, key, product_of(in, head, of_k, query, key))
                          : kMinusInfinity);
          m_new = std::max(m_new, x.back());
        }
        l *= by.of_l(m, m_new);
        for (double& sum : o) sum *= by.of_o(m, m_new);
        m = m_new;
        for (int j = 0; j < by.keys; ++j) {
          const double p = by.p(x[j], m);
          l += p;
          if (p == 0 || key0 + j >= s.length_k) continue;
          const float* v = in.v.data() + (of_k * s.length_k + key0 + j) * s.head_dim;
          for (int e = 0; e < s.head_dim; ++e) o[e] += p * static_cast<double>(v[e]);
        }
      }
      for (const double sum : o) result.o.push_back(by.o(sum, l));
      result.lse.push_back(by.lse(m, l));
    }
  }
  return result;
}

/// O or LSE, as many numbers as there are in another: the same in all places.
inline std::vector<double> all(const std::vector<double>& like, double number) {
  return std::vector<double>(like.size(), number);
}

/// A typical wrong answer to a case.
struct Wrong {
  std::string says;  ///< names the misconception
  Rows rows;         ///< its result
};

/// check_result() for O, and then for LSE. A mistake that explains both comes before one that
/// explains O alone.
/// @param tolerance of O; that of LSE is 1e-4
inline void check_rows(const Ran& ran, const std::vector<Reason>& reasons, const Inputs& in,
                       const Rows& right, double tolerance, const std::vector<Wrong>& wrongs) {
  constexpr double of_lse = 1e-4;
  const auto same = [&](const Rows& rows) {
    return agree(ran.rows.o, rows.o, tolerance) && agree(ran.rows.lse, rows.lse, of_lse);
  };
  std::vector<Mistake> in_o, in_lse;
  for (const Wrong& wrong : wrongs) {
    if (same(wrong.rows) && !same(right) && explains(wrong.says, ran.seen)) {
      refuse(wrong.says + " (case: " + words(in.sizes) + ")");
    }
    in_o.push_back({wrong.says, wrong.rows.o});
    in_lse.push_back({wrong.says, wrong.rows.lse});
  }
  const bool o_unexplained =
      unexplained(ran.seen, {"O", ran.rows.o, in.sizes.head_dim}, right.o, tolerance, in_o);
  if (o_unexplained && ran.rows.o.size() == right.o.size()) {
    std::size_t first = 0;
    while (agree({ran.rows.o[first]}, {right.o[first]}, tolerance)) ++first;
    const bool lse_right = agree(ran.rows.lse, right.lse, of_lse);
    refuse(fmt::format(
        "{}. The first wrong number is O[{}][{}] = {}, and {} is right (case: {})",
        lse_right ? "the LSE is right and O is not: so the scores, their maximum and their sum are "
                    "right. Look at the probabilities times V, and at the division"
                  : "O is wrong, and the LSE too: look at the scores, their maximum and their sum "
                    "before anything of V",
        first / in.sizes.head_dim, first % in.sizes.head_dim, text(ran.rows.o[first]),
        text(right.o[first]), words(in.sizes)));
  }
  check_result(ran.seen, reasons, {"O", ran.rows.o, in.sizes.head_dim}, right.o, tolerance, in_o,
               words(in.sizes));
  if (unexplained(ran.seen, {"LSE", ran.rows.lse}, right.lse, of_lse, in_lse) &&
      ran.rows.lse.size() == right.lse.size()) {
    std::size_t first = 0;
    while (agree({ran.rows.lse[first]}, {right.lse[first]}, of_lse)) ++first;
    refuse(fmt::format(
        "O is right and the LSE is not: all scores of a row may be too large by the same number, "
        "or m + ln(l) is put together wrongly. LSE[{}] is {}, and {} is right (case: {})",
        first, text(ran.rows.lse[first]), text(right.lse[first]), words(in.sizes)));
  }
  check_result(ran.seen, reasons, {"LSE", ran.rows.lse}, right.lse, of_lse, in_lse,
               words(in.sizes));
}

/// For a case that was right before, now with unused elements behind each row.
inline void check_strides(const Ran& ran, const Inputs& in, const Rows& right, double tolerance) {
  require(agree(ran.rows.o, right.o, tolerance) && agree(ran.rows.lse, right.lse, 1e-4),
          "wrong, and right where the rows of a tensor follow one another without a gap. Q, K, V "
          "and O each have a stride of their own (case: " +
              words(in.sizes) + ")");
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
  check_strides(launched(apart), apart, right(apart), tolerance);
  for (const float level : {-2e4f, 2e4f}) {
    const Inputs in = inputs_around<float>(level, sizes);
    check_level(launched(in), in, right(in), level);
  }
}

}  // namespace fa::classroom
