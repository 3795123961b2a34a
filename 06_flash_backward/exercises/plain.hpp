/// @file
/// Attention and its gradients as plain loops in float64, for the exercises of this lesson: quick to compile, and with
/// all mistakes that their checks know by name.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/tensor/random.hpp"

namespace fa::backward::plain {

/// Query heads that share the keys and values of one sequence, and the gradient of their output.
struct Problem {
  int heads = 1;            ///< of q
  int length_q = 1;         ///< queries of a head
  int length_k = 1;         ///< keys
  int head_dim = 1;         ///< numbers in a row
  bool causal = false;      ///< query i sees j <= i + length_k - length_q
  int window = 0;           ///< of these the last so many; 0: all
  double scale = 1;         ///< of the scores
  std::vector<double> q;    ///< [heads, length_q, head_dim]
  std::vector<double> k;    ///< [length_k, head_dim]
  std::vector<double> v;    ///< [length_k, head_dim]
  std::vector<double> d_o;  ///< [heads, length_q, head_dim]
  std::vector<double>
      kept;  ///< [heads, length_q, length_k], dropout's factors

  /// Whether a query sees a key.
  bool sees(int query, int key) const {
    if (!causal) return true;
    const int place = query + length_k - length_q;
    return key <= place && (window == 0 || key > place - window);
  }
};

/// What a forward pass keeps.
struct Forward {
  std::vector<double> o;    ///< [heads, length_q, head_dim]
  std::vector<double> lse;  ///< [heads, length_q], -infinity for a blind row
};

/// The gradients of sum(dO o O).
struct Gradients {
  std::vector<double> d_q;  ///< like q
  std::vector<double> d_k;  ///< like k
  std::vector<double> d_v;  ///< like v
};

/// What is wrong with a backward pass.
enum class Slip {
  kNone,              ///< nothing
  kNoDelta,           ///< dS = P o dP
  kDeltaPerElement,   ///< dS = P o (dP - P o dP)
  kDeltaOfQuery0,     ///< all rows have the first one's delta
  kNoScaleInDq,       ///< dQ = dS K
  kNoScaleInDk,       ///< dK = dS^T Q
  kScaleTwiceInDk,    ///< dK from Q that is scaled already, and scaled
  kLseInBaseTwo,      ///< exp(S - LSE) with LSE in base 2
  kMaskForgotten,     ///< hidden keys have weights
  kMaskTopLeft,       ///< query i sees j <= i
  kNanInBlindRows,    ///< exp(S - LSE) of -infinity and -infinity
  kUndroppedInDv,     ///< dV = P^T dO, although dropout was applied
  kUndroppedInDp,     ///< dP = dO V^T, although dropout was applied
  kFirstHeadOnly,     ///< dK and dV of one head of the group
  kLastHeadOnly,      ///< the same, assigned where it is to be added
  kWeightsNotTurned,  ///< dV = P dO
  kNextRowOfDo,       ///< dO of the next query
  kLastQueryLeft,     ///< the last query gives nothing to dK and dV
  kRaggedTileLeft,    ///< nor do those of a last, ragged tile of 32
  kRowsOfKeys,        ///< dO of the tile of 32 that the key is in
  kScaleInDv,         ///< dV = scale P^T dO
  kWeightsInDk,       ///< dK = scale P^T Q
  kNoWindow,          ///< hidden by the mask only
  kWindowOneMore,     ///< a window of one key more
  kWindowOneLess,     ///< a window of one key less
  kWindowTopLeft,     ///< query i is taken to stand at key i
  kEndOfFirstKey,     ///< of 32 keys: queries stop after those of the first
  kEndTopLeft,        ///< the same, with query i taken to stand at key i
};

/// Random numbers of size 1 in q, k, v and d_o.
/// @param heads    that share the keys
/// @param length_q queries of a head
/// @param length_k keys
/// @param head_dim numbers in a row; the scale is 1 / sqrt(head_dim)
/// @param causal   whether there is a mask
/// @param dropout  probability that a weight is dropped
/// @param seed     of the numbers
inline Problem random_problem(int heads, int length_q, int length_k,
                              int head_dim, bool causal = false,
                              double dropout = 0, std::uint64_t seed = 1) {
  Problem x;
  x.heads = heads;
  x.length_q = length_q;
  x.length_k = length_k;
  x.head_dim = head_dim;
  x.causal = causal;
  x.scale = 1 / std::sqrt(head_dim);
  const auto numbers = [&](int count) {
    std::vector<double> result;
    ++seed;
    for (int i = 0; i < count; ++i) {
      // As float32 has them, for kernels.
      result.push_back(static_cast<float>(
          random_normal(seed, static_cast<std::uint64_t>(i))));
    }
    return result;
  };
  x.q = numbers(heads * length_q * head_dim);
  x.k = numbers(length_k * head_dim);
  x.v = numbers(length_k * head_dim);
  x.d_o = numbers(heads * length_q * head_dim);
  // |number| < 0.32 has a probability of a quarter; other rates are near enough for tests.
  for (const double number : numbers(heads * length_q * length_k)) {
    x.kept.push_back(std::abs(number) < 1.28 * dropout ? 0
                                                       : 1 / (1 - dropout));
  }
  return x;
}

/// q . k of a pair, without the scale.
inline double product(const Problem& x, int head, int query, int key) {
  double sum = 0;
  for (int c = 0; c < x.head_dim; ++c) {
    sum += x.q[(head * x.length_q + query) * x.head_dim + c] *
           x.k[key * x.head_dim + c];
  }
  return sum;
}

/// Attention by definition.
inline Forward forward(const Problem& x) {
  Forward result;
  for (int head = 0; head < x.heads; ++head) {
    for (int i = 0; i < x.length_q; ++i) {
      const double nothing = -std::numeric_limits<double>::infinity();
      double m = nothing, l = 0;
      std::vector<double> s(x.length_k, nothing), o(x.head_dim, 0.0);
      for (int j = 0; j < x.length_k; ++j) {
        if (x.sees(i, j)) s[j] = x.scale * product(x, head, i, j);
        m = std::max(m, s[j]);
      }
      for (int j = 0; j < x.length_k; ++j) {
        if (s[j] != nothing) l += std::exp(s[j] - m);
      }
      for (int j = 0; j < x.length_k; ++j) {
        if (s[j] == nothing) continue;
        const double p = std::exp(s[j] - m) / l *
                         x.kept[(head * x.length_q + i) * x.length_k + j];
        for (int c = 0; c < x.head_dim; ++c) {
          o[c] += p * x.v[j * x.head_dim + c];
        }
      }
      result.o.insert(result.o.end(), o.begin(), o.end());
      result.lse.push_back(l == 0 ? nothing : m + std::log(l));
    }
  }
  return result;
}

/// The loss whose gradients are asked for, sum(dO o O).
inline double loss(const Problem& x) {
  const Forward y = forward(x);
  double sum = 0;
  for (std::size_t i = 0; i < y.o.size(); ++i) sum += x.d_o[i] * y.o[i];
  return sum;
}

/// delta of a row: its sum of dO o O.
inline double row_delta(const Problem& x, const Forward& y, int row) {
  double sum = 0;
  for (int c = 0; c < x.head_dim; ++c) {
    sum += x.d_o[row * x.head_dim + c] * y.o[row * x.head_dim + c];
  }
  return sum;
}

/// The gradients by the formulas of this lesson.
/// @param x    the problem
/// @param slip what to get wrong
inline Gradients gradients(const Problem& x, Slip slip = Slip::kNone) {
  const Forward y = forward(x);
  const int d = x.head_dim;
  Gradients g{std::vector<double>(x.q.size()),
              std::vector<double>(x.k.size()),
              std::vector<double>(x.v.size())};
  const auto is = [&](Slip one) { return slip == one; };
  const double in_d_q = is(Slip::kNoScaleInDq) ? 1 : x.scale;
  const double in_d_k = is(Slip::kNoScaleInDk)      ? 1
                        : is(Slip::kScaleTwiceInDk) ? x.scale * x.scale
                                                    : x.scale;
  for (int head = 0; head < x.heads; ++head) {
    for (int i = 0; i < x.length_q; ++i) {
      const int row = head * x.length_q + i;
      const double lse =
          y.lse[row] * (is(Slip::kLseInBaseTwo) ? 1 / std::log(2.0) : 1.0);
      const double delta =
          row_delta(x, y, is(Slip::kDeltaOfQuery0) ? head * x.length_q : row);
      for (int j = 0; j < x.length_k; ++j) {
        const int place = i + x.length_k - x.length_q;
        const auto within = [&](int at, int window) {
          return !x.causal || (j <= place && j > at - window);
        };
        const bool seen =
            is(Slip::kMaskForgotten)   ? true
            : is(Slip::kMaskTopLeft)   ? !x.causal || j <= i
            : is(Slip::kNoWindow)      ? !x.causal || j <= place
            : is(Slip::kWindowOneMore) ? within(place, x.window + 1)
            : is(Slip::kWindowOneLess) ? within(place, x.window - 1)
            : is(Slip::kWindowTopLeft) ? within(i, x.window)
                                       : x.sees(i, j);
        const double s = seen ? x.scale * product(x, head, i, j)
                              : -std::numeric_limits<double>::infinity();
        const bool blind = std::isinf(lse) && !is(Slip::kNanInBlindRows);
        const double p = blind ? 0 : std::exp(s - lse);
        const double z = x.kept[row * x.length_k + j];
        int taken = i;  // the query whose dO is taken
        if (is(Slip::kNextRowOfDo)) taken = std::min(i + 1, x.length_q - 1);
        if (is(Slip::kRowsOfKeys)) taken = j / 32 * 32 + i % 32;
        const double* const d_o =
            taken < x.length_q ? &x.d_o[(head * x.length_q + taken) * d]
                               : nullptr;
        double d_p = 0;
        for (int c = 0; c < d && d_o != nullptr; ++c) {
          d_p += d_o[c] * x.v[j * d + c];
        }
        if (!is(Slip::kUndroppedInDp)) d_p *= z;
        const double minus = is(Slip::kNoDelta)           ? 0
                             : is(Slip::kDeltaPerElement) ? p * d_p
                                                          : delta;
        const double d_s = p * (d_p - minus);
        const double weight = is(Slip::kUndroppedInDv) ? p : p * z;
        const bool goes_by =
            !(is(Slip::kFirstHeadOnly) && head > 0) &&
            !(is(Slip::kLastHeadOnly) && head + 1 < x.heads) &&
            !(is(Slip::kLastQueryLeft) && i + 1 == x.length_q) &&
            !(is(Slip::kRaggedTileLeft) && i >= x.length_q / 32 * 32) &&
            !(is(Slip::kEndOfFirstKey) &&
              i / 32 * 32 >=
                  j / 32 * 32 + x.window - x.length_k + x.length_q) &&
            !(is(Slip::kEndTopLeft) &&
              i / 32 * 32 >= j / 32 * 32 + 31 + x.window);
        for (int c = 0; c < d; ++c) {
          g.d_q[row * d + c] += in_d_q * d_s * x.k[j * d + c];
          if (!goes_by) continue;
          g.d_k[j * d + c] +=
              in_d_k * (is(Slip::kWeightsInDk) ? p : d_s) * x.q[row * d + c];
          if (is(Slip::kWeightsNotTurned)) {
            if (i >= x.length_k || j >= x.length_q) continue;
            g.d_v[i * d + c] +=
                weight * x.d_o[(head * x.length_q + j) * d + c];
          } else if (d_o != nullptr) {
            g.d_v[j * d + c] +=
                (is(Slip::kScaleInDv) ? x.scale : 1) * weight * d_o[c];
          }
        }
      }
    }
  }
  return g;
}

}  // namespace fa::backward::plain
