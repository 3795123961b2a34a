/// @file
/// Attention as plain loops in float64, for the exercises of this lesson: quick to compile. Its
/// gradients are in grading/mistakes.hpp, which students' files cannot include.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "common/tensor/random.hpp"

namespace fa::backward::plain {

/// Query heads that share the keys and values of one sequence, and the gradient of their output.
struct Problem {
  int heads = 1;             ///< of q
  int length_q = 1;          ///< queries of a head
  int length_k = 1;          ///< keys
  int head_dim = 1;          ///< elements in a row
  bool causal = false;       ///< query i sees j <= i + length_k - length_q
  double scale = 1;          ///< of the scores
  std::vector<double> q;     ///< [heads, length_q, head_dim]
  std::vector<double> k;     ///< [length_k, head_dim]
  std::vector<double> v;     ///< [length_k, head_dim]
  std::vector<double> d_o;   ///< [heads, length_q, head_dim]
  std::vector<double> kept;  ///< dropout, [heads, length_q, length_k]

  /// Whether a query sees a key.
  bool sees(int query, int key) const { return !causal || key <= query + length_k - length_q; }
};

/// Tells kernels the strides, the sizes, the scale and the mask of a problem.
/// @tparam Gradient fa::FA_TARGET::AttentionGradient
template <class Gradient>
void set_sizes(Gradient& a, const Problem& x) {
  const std::int64_t d = x.head_dim;
  a.q_strides = {x.heads * x.length_q * d, x.length_q * d, d};
  a.k_strides = {x.length_k * d, x.length_k * d, d};
  a.v_strides = a.d_k_strides = a.d_v_strides = a.k_strides;
  a.o_strides = a.d_o_strides = a.d_q_strides = a.q_strides;
  a.batch = 1;
  a.heads = x.heads;
  a.kv_heads = 1;
  a.length_q = x.length_q;
  a.length_k = x.length_k;
  a.head_dim = a.head_dim_v = x.head_dim;
  a.scale = static_cast<float>(x.scale);
  a.causal = x.causal;
}

/// What a forward pass keeps.
struct Forward {
  std::vector<double> o;    ///< [heads, length_q, head_dim]
  std::vector<double> lse;  ///< [heads, length_q], -infinity for a fully masked row
};

/// The gradients of sum(dO * O).
struct Gradients {
  std::vector<double> d_q;  ///< like q
  std::vector<double> d_k;  ///< like k
  std::vector<double> d_v;  ///< like v
};

/// The members, for classroom::Wire.
inline auto parts(Problem& x) {
  return std::tie(x.heads, x.length_q, x.length_k, x.head_dim, x.causal, x.scale, x.q, x.k, x.v,
                  x.d_o, x.kept);
}
/// The same.
inline auto parts(Gradients& x) {
  return std::tie(x.d_q, x.d_k, x.d_v);
}

/// Random numbers of size 1 in q, k, v and d_o.
/// @param heads    that share the keys
/// @param head_dim elements in a row; the scale is 1 / sqrt(head_dim)
inline Problem random_problem(int heads, int length_q, int length_k, int head_dim,
                              bool causal = false, double dropout = 0, std::uint64_t seed = 1) {
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
      result.push_back(static_cast<float>(random_normal(seed, static_cast<std::uint64_t>(i))));
    }
    return result;
  };
  x.q = numbers(heads * length_q * head_dim);
  x.k = numbers(length_k * head_dim);
  x.v = numbers(length_k * head_dim);
  x.d_o = numbers(heads * length_q * head_dim);
  // |number| < 0.32 has a probability of a quarter; other rates are near enough for tests.
  for (const double number : numbers(heads * length_q * length_k)) {
    x.kept.push_back(std::abs(number) < 1.28 * dropout ? 0 : 1 / (1 - dropout));
  }
  return x;
}

/// q . k of a pair, without the scale.
inline double product(const Problem& x, int head, int query, int key) {
  double sum = 0;
  for (int c = 0; c < x.head_dim; ++c) {
    sum += x.q[(head * x.length_q + query) * x.head_dim + c] * x.k[key * x.head_dim + c];
  }
  return sum;
}

/// Attention by definition.
inline Forward forward(const Problem& x) {
  Forward result;
  for (int head = 0; head < x.heads; ++head) {
    for (int i = 0; i < x.length_q; ++i) {
      const double neg_inf = -std::numeric_limits<double>::infinity();
      double m = neg_inf, l = 0;
      std::vector<double> s(x.length_k, neg_inf), o(x.head_dim, 0.0);
      for (int j = 0; j < x.length_k; ++j) {
        if (x.sees(i, j)) s[j] = x.scale * product(x, head, i, j);
        m = std::max(m, s[j]);
      }
      for (int j = 0; j < x.length_k; ++j) {
        if (s[j] != neg_inf) l += std::exp(s[j] - m);
      }
      for (int j = 0; j < x.length_k; ++j) {
        if (s[j] == neg_inf) continue;
        const double p = std::exp(s[j] - m) / l * x.kept[(head * x.length_q + i) * x.length_k + j];
        for (int c = 0; c < x.head_dim; ++c) {
          o[c] += p * x.v[j * x.head_dim + c];
        }
      }
      result.o.insert(result.o.end(), o.begin(), o.end());
      result.lse.push_back(l == 0 ? neg_inf : m + std::log(l));
    }
  }
  return result;
}

/// The loss whose gradients are computed, sum(dO * O).
inline double loss(const Problem& x) {
  const Forward y = forward(x);
  double sum = 0;
  for (std::size_t i = 0; i < y.o.size(); ++i) sum += x.d_o[i] * y.o[i];
  return sum;
}

/// delta of a row: its sum of dO * O.
inline double row_delta(const Problem& x, const Forward& y, int row) {
  double sum = 0;
  for (int c = 0; c < x.head_dim; ++c) {
    sum += x.d_o[row * x.head_dim + c] * y.o[row * x.head_dim + c];
  }
  return sum;
}

/// What grader and entry of 06_delta_and_dv exchange: the inputs, in the layout of the exercise.
struct PackedInputs {
  int heads, length_q, length_k;
  float scale;
  bool causal;
  std::vector<float> q, o, d_o, k, lse;
};
/// The members, for Wire.
inline auto parts(PackedInputs& x) {
  return std::tie(x.heads, x.length_q, x.length_k, x.scale, x.causal, x.q, x.o, x.d_o, x.k, x.lse);
}

}  // namespace fa::backward::plain
