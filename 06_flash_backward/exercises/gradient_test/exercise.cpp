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

bool is_right(const Backward& backward) {
  return call<bool>("is_right", function<Gradients, Problem>(backward));
}

// Whether the student's test accepts what is right, and refuses what is wrong.
using Trial = std::function<std::string()>;

Trial right(const std::string& name, const Backward& backward) {
  return [=] {
    return is_right(backward)
               ? ""
               : fmt::format("your test refuses '{}', which is right up to rounding", name);
  };
}

std::vector<Trial> right_ones() {
  return {right("the formulas of the lesson", [](const Problem& x) { return plain::gradients(x); }),
          right("the same, rounded otherwise", rounded)};
}

const std::vector<std::pair<const char*, MistakeKind>> kMistakes{
    {"delta left out", MistakeKind::kNoDelta},
    {"delta for each element", MistakeKind::kDeltaPerElement},
    {"the first row's delta for all", MistakeKind::kDeltaOfQuery0},
    {"no scale in dQ", MistakeKind::kNoScaleInDq},
    {"no scale in dK", MistakeKind::kNoScaleInDk},
    {"scale twice in dK", MistakeKind::kScaleTwiceInDk},
    {"dO of the next query", MistakeKind::kNextRowOfDo},
    {"the last query left out", MistakeKind::kLastQueryLeft},
    {"dV by P, not transposed", MistakeKind::kProbsNotTransposed},
    {"LSE in base 2, exp in base e", MistakeKind::kLseInBaseTwo},
    {"no mask", MistakeKind::kMaskForgotten},
    {"mask aligned to the top left", MistakeKind::kMaskTopLeft},
    {"NaN in fully masked rows", MistakeKind::kNanInMaskedRows},
    {"dV from P before dropout", MistakeKind::kUndroppedInDv},
    {"dP without dropout", MistakeKind::kUndroppedInDp},
    {"dK and dV of the first head only", MistakeKind::kFirstHeadOnly},
    {"dK and dV of the last head only", MistakeKind::kLastHeadOnly},
};

}  // namespace

FA_STAGE(easy) {
  in_random_order(right_ones());
}

FA_STAGE(odd) {
  std::vector<Trial> trials = right_ones();
  for (const auto& [name, mistake] : kMistakes) {
    trials.push_back([name = name, mistake = mistake] {
      return is_right([=](const Problem& x) { return plain::gradients(x, mistake); })
                 ? fmt::format(
                       "your test accepts '{}', which is wrong: which problem would show "
                       "it, and in which gradient?",
                       name)
                 : "";
    });
  }
  in_random_order(trials);
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
- const double dropout = 0.25, h = 1e-5, tolerance = 1e-7;
- Problem x = random_problem(heads, length_q, length_k, head_dim, causal, dropout);
- const Gradients g = backward(x);
- const auto agrees = [&](std::vector<double>& numbers, const std::vector<double>& gradient) {
- for (std::size_t i = 0; i < numbers.size(); ++i) {
- const double old = numbers[i];
- numbers[i] = old + h;
- const double up = loss(x);
- numbers[i] = old - h;
- const double slope = (up - loss(x)) / (2 * h);
- numbers[i] = old;
- if (!(std::abs(gradient[i] - slope) <= tolerance)) return false;
- }
- return true;
- };
- const bool q = agrees(x.q, g.d_q);
- const bool k = agrees(x.k, g.d_k);
- const bool v = agrees(x.v, g.d_v);
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
