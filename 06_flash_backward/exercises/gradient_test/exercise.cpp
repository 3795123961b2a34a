#if defined(FA_STUDENT)
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "06_flash_backward/exercises/plain.hpp"

namespace student {

using fa::backward::plain::Gradients;
using fa::backward::plain::Problem;
using fa::backward::plain::random_problem;

/// A backward pass: the gradients of fa::backward::plain::loss(problem).
using Backward = std::function<Gradients(const Problem&)>;

/// True when a backward pass computes the gradients of attention.
inline bool is_right(const Backward& backward) {
#ifdef FA_SOLUTION
  const int heads = 2, length_q = 6, length_k = 4, head_dim = 3;
  const bool causal = true;
  const double dropout = 0.25, h = 1e-5, tolerance = 1e-7;
  Problem x = random_problem(heads, length_q, length_k, head_dim, causal, dropout);
  const Gradients g = backward(x);
  const auto agrees = [&](std::vector<double>& numbers, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double old = numbers[i];
      numbers[i] = old + h;
      const double up = loss(x);
      numbers[i] = old - h;
      const double slope = (up - loss(x)) / (2 * h);
      numbers[i] = old;
      if (!(std::abs(gradient[i] - slope) <= tolerance)) return false;
    }
    return true;
  };
  const bool q = agrees(x.q, g.d_q);
  const bool k = agrees(x.k, g.d_k);
  const bool v = agrees(x.v, g.d_v);
  return q && k && v;
#else
  // TODO: this problem tells little, and so does one direction. Which do?
  const int heads = 1, length_q = 4, length_k = 4, head_dim = 1;
  Problem x = random_problem(heads, length_q, length_k, head_dim);
  const Gradients g = backward(x);
  const double h = 1e-5, old = x.v[0];
  x.v[0] = old + h;
  const double up = loss(x);
  x.v[0] = old - h;
  const double slope = (up - loss(x)) / (2 * h);
  return std::abs(g.d_v[0] - slope) <= 1e-7;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
#include "06_flash_backward/exercises/plain.hpp"

namespace plain = fa::backward::plain;
using Backward = fa::classroom::Callback<plain::Gradients(plain::Problem)>;

FA_ENTRY(is_right, [](Backward backward) { return student::is_right(backward); });
#elif defined(FA_GRADER)
#include "06_flash_backward/exercises/grading/mistakes.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;
using plain::Gradients;
using plain::MistakeKind;
using plain::Problem;

namespace {

// Right, with other last digits.
Gradients rounded(const Problem& x) {
  Gradients g = plain::gradients(x);
  for (auto* part : {&g.d_q, &g.d_k, &g.d_v}) {
    for (double& number : *part) number *= 1 + 1e-13;
  }
  return g;
}

using Backward = std::function<Gradients(const Problem&)>;

Given given(bool right, const std::string& name, const Backward& backward) {
  return {name, right, [=] {
            return std::pair(call<bool>("is_right", function<Gradients, Problem>(backward)), false);
          }};
}

const std::vector<Given> kRight{
    given(true, "the formulas of the lesson", [](const Problem& x) { return plain::gradients(x); }),
    given(true, "the same, rounded otherwise", rounded)};

}  // namespace

FA_STAGE(easy) {
  in_random_order(kRight);
}

FA_STAGE(odd) {
  std::vector<Given> all = kRight;
  const auto add = [&](const char* name, MistakeKind mistake) {
    all.push_back(given(false, fmt::format("'{}'", name),
                        [=](const Problem& x) { return plain::gradients(x, mistake); }));
  };
  add("delta left out", MistakeKind::kNoDelta);
  add("delta for each element", MistakeKind::kDeltaPerElement);
  add("the first row's delta for all", MistakeKind::kDeltaOfQuery0);
  add("no scale in dQ", MistakeKind::kNoScaleInDq);
  add("no scale in dK", MistakeKind::kNoScaleInDk);
  add("scale twice in dK", MistakeKind::kScaleTwiceInDk);
  add("dO of the next query", MistakeKind::kNextRowOfDo);
  add("the last query left out", MistakeKind::kLastQueryLeft);
  add("dV by P, not transposed", MistakeKind::kProbsNotTransposed);
  add("LSE in base 2, exp in base e", MistakeKind::kLseInBaseTwo);
  add("no mask", MistakeKind::kMaskForgotten);
  add("mask aligned to the top left", MistakeKind::kMaskTopLeft);
  add("NaN in fully masked rows", MistakeKind::kNanInMaskedRows);
  add("dV from P before dropout", MistakeKind::kUndroppedInDv);
  add("dP without dropout", MistakeKind::kUndroppedInDp);
  add("dK and dV of the first head only", MistakeKind::kFirstHeadOnly);
  add("dK and dV of the last head only", MistakeKind::kLastHeadOnly);
  in_random_order(all);
}
#endif
/* Other answers, as changes of the solution
# only_d_v: dQ and dK are not looked at
@ odd: your test accepts 'delta left out'
- return q && k && v;
+   return (void)q, (void)k, v;

# square: as many queries as keys
@ odd: your test accepts 'mask aligned to the top left'
- const int heads = 2, length_q = 6, length_k = 4, head_dim = 3;
+   const int heads = 2, length_q = 5, length_k = 5, head_dim = 3;

# nan_passes: a comparison that lets NaN through
@ odd: your test accepts 'NaN in fully masked rows'
- if (!(std::abs(gradient[i] - slope) <= tolerance)) return false;
+       if (std::abs(gradient[i] - slope) > tolerance) return false;

# exact: no rounding is allowed
@ easy: your test refuses
- if (!(std::abs(gradient[i] - slope) <= tolerance)) return false;
+       if (gradient[i] != slope) return false;

# directions: derivatives along random directions
@ right
- const bool causal = true;
- ...
- return q && k && v;
+  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
+    const Problem x = random_problem(heads, length_q, length_k, head_dim, seed % 3 > 0, seed % 2 * 0.25, seed);
+    const Problem to = random_problem(heads, length_q, length_k, head_dim, false, 0, seed + 1000);
+    const Gradients g = backward(x);
+    for (const auto part : {0, 1, 2}) {
+      const auto field = [&](auto& p) -> auto& { return part == 0 ? p.q : part == 1 ? p.k : p.v; };
+      const auto moved = [&](double by) {
+        Problem y = x;
+        for (std::size_t i = 0; i < field(y).size(); ++i) field(y)[i] += by * field(to)[i];
+        return loss(y);
+      };
+      const auto& d = part == 0 ? g.d_q : part == 1 ? g.d_k : g.d_v;
+      double dot = 0;
+      for (std::size_t i = 0; i < d.size(); ++i) dot += d[i] * field(to)[i];
+      if (!(std::fabs(dot - (moved(1e-5) - moved(-1e-5)) / 2e-5) < 1e-6)) return false;
+    }
+  }
+  return true;
*/
