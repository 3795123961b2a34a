/// @file
/// The gradients of plain attention, and all mistakes that the checks of this lesson's exercises
/// know by name. For graders.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "06_flash_backward/exercises/plain.hpp"
#include "common/classroom/lab.hpp"

namespace fa::backward::plain {

/// What is wrong with a backward pass.
enum class MistakeKind {
  kNone,                ///< nothing
  kNoDelta,             ///< dS = P o dP
  kDeltaPerElement,     ///< dS = P o (dP - P o dP)
  kDeltaOfQuery0,       ///< all rows have the first one's delta
  kNoScaleInDq,         ///< dQ = dS K
  kNoScaleInDk,         ///< dK = dS^T Q
  kScaleTwiceInDk,      ///< dK from Q that is scaled already, and scaled
  kLseInBaseTwo,        ///< exp(S - LSE) with LSE in base 2
  kMaskForgotten,       ///< masked keys have a probability above 0
  kMaskTopLeft,         ///< query i sees j <= i
  kNanInMaskedRows,     ///< exp(S - LSE) of -infinity and -infinity
  kUndroppedInDv,       ///< dV = P^T dO, although dropout was applied
  kUndroppedInDp,       ///< dP = dO V^T, although dropout was applied
  kFirstHeadOnly,       ///< dK and dV of one head of the group
  kLastHeadOnly,        ///< the same, assigned where it is to be added
  kProbsNotTransposed,  ///< dV = P dO
  kNextRowOfDo,         ///< dO of the next query
  kLastQueryLeft,       ///< the last query gives nothing to dK and dV
};

/// Whether query i sees key j.
inline bool is_seen(const Problem& x, MistakeKind mistake, int i, int j) {
  if (mistake == MistakeKind::kMaskForgotten) return true;
  if (mistake == MistakeKind::kMaskTopLeft) return !x.causal || j <= i;
  return x.sees(i, j);
}

/// Whether query i of a head adds to dK and dV.
inline bool adds_to_keys(const Problem& x, MistakeKind mistake, int head, int i) {
  if (mistake == MistakeKind::kFirstHeadOnly) return head == 0;
  if (mistake == MistakeKind::kLastHeadOnly) return head + 1 == x.heads;
  return mistake != MistakeKind::kLastQueryLeft || i + 1 < x.length_q;
}

/// The gradients by the formulas of this lesson.
inline Gradients gradients(const Problem& x, MistakeKind mistake = MistakeKind::kNone) {
  const Forward y = forward(x);
  const int d = x.head_dim;
  Gradients g{std::vector<double>(x.q.size()), std::vector<double>(x.k.size()),
              std::vector<double>(x.v.size())};
  const auto is = [&](MistakeKind one) { return mistake == one; };
  const double in_d_q = is(MistakeKind::kNoScaleInDq) ? 1 : x.scale;
  const double in_d_k = is(MistakeKind::kNoScaleInDk)      ? 1
                        : is(MistakeKind::kScaleTwiceInDk) ? x.scale * x.scale
                                                           : x.scale;
  for (int head = 0; head < x.heads; ++head) {
    for (int i = 0; i < x.length_q; ++i) {
      const int row = head * x.length_q + i;
      const double lse = y.lse[row] * (is(MistakeKind::kLseInBaseTwo) ? 1 / std::log(2.0) : 1.0);
      const double delta =
          row_delta(x, y, is(MistakeKind::kDeltaOfQuery0) ? head * x.length_q : row);
      for (int j = 0; j < x.length_k; ++j) {
        const bool seen = is_seen(x, mistake, i, j);
        const double s =
            seen ? x.scale * product(x, head, i, j) : -std::numeric_limits<double>::infinity();
        const bool fully_masked = std::isinf(lse) && !is(MistakeKind::kNanInMaskedRows);
        const double p = fully_masked ? 0 : std::exp(s - lse);
        const double z = x.kept[row * x.length_k + j];
        // The query whose dO is taken.
        const int taken = is(MistakeKind::kNextRowOfDo) ? std::min(i + 1, x.length_q - 1) : i;
        const double* const d_o = &x.d_o[(head * x.length_q + taken) * d];
        double d_p = 0;
        for (int c = 0; c < d; ++c) d_p += d_o[c] * x.v[j * d + c];
        if (!is(MistakeKind::kUndroppedInDp)) d_p *= z;
        const double minus = is(MistakeKind::kNoDelta)           ? 0
                             : is(MistakeKind::kDeltaPerElement) ? p * d_p
                                                                 : delta;
        const double d_s = p * (d_p - minus);
        const double weight = is(MistakeKind::kUndroppedInDv) ? p : p * z;
        const bool adds = adds_to_keys(x, mistake, head, i);
        for (int c = 0; c < d; ++c) {
          g.d_q[row * d + c] += in_d_q * d_s * x.k[j * d + c];
          if (!adds) continue;
          g.d_k[j * d + c] += in_d_k * d_s * x.q[row * d + c];
          if (!is(MistakeKind::kProbsNotTransposed)) {
            g.d_v[j * d + c] += weight * d_o[c];
          } else if (i < x.length_k && j < x.length_q) {
            g.d_v[i * d + c] += weight * x.d_o[(head * x.length_q + j) * d + c];
          }
        }
      }
    }
  }
  return g;
}

/// What a launch of a kernel gave.
struct Ran {
  classroom::Seen seen;  ///< by the lab
  Gradients out;         ///< NaN where nothing was written
};

/// Launches the student's kernel.
inline Ran run(const Problem& x) {
  const auto [seen, out] = classroom::call<std::pair<classroom::Seen, Gradients>>("run", x);
  return {seen, out};
}

/// What to tell whose gradient is that of a mistake.
struct Told {
  MistakeKind mistake;  ///< what goes wrong
  const char* says;     ///< names the misconception
};

/// check_result() for dV, and then for dK.
/// @param in_d_v, in_d_k mistakes, in the order in which they are tried
inline void check_gradients(const Ran& ran, const std::vector<classroom::Reason>& reasons,
                            const Problem& x, double tolerance, const std::string& where,
                            const std::vector<Told>& in_d_v = {},
                            const std::vector<Told>& in_d_k = {}) {
  const Gradients right = gradients(x);
  const auto check_part = [&](const char* name, std::vector<double> Gradients::*part,
                              const std::vector<Told>& told) {
    std::vector<classroom::Mistake> mistakes;
    if (!classroom::agree(ran.out.*part, right.*part, tolerance)) {
      for (const Told& one : told) mistakes.push_back({one.says, gradients(x, one.mistake).*part});
    }
    classroom::check_result(ran.seen, reasons, {name, ran.out.*part, x.head_dim}, right.*part,
                            tolerance, mistakes, where);
  };
  check_part("dV", &Gradients::d_v, in_d_v);
  check_part("dK", &Gradients::d_k, in_d_k);
}

}  // namespace fa::backward::plain
