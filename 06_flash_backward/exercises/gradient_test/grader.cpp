#ifdef FA_ENTRIES  // the student's process
#include "06_flash_backward/exercises/plain.hpp"

namespace plain = fa::backward::plain;
using Backward = fa::classroom::Callback<plain::Gradients(plain::Problem)>;

FA_ENTRY(is_right, [](Backward backward) { return student::is_right(backward); });
#else  // the grader
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

void must_accept(const std::string& name, const Backward& backward) {
  require(is_right(backward),
          fmt::format("your test refuses '{}', which is right up to rounding", name));
}

void must_refuse(const std::string& name, MistakeKind mistake) {
  require(!is_right([=](const Problem& x) { return plain::gradients(x, mistake); }),
          fmt::format("your test accepts '{}', which is wrong: which problem would show it, and in "
                      "which gradient?",
                      name));
}

}  // namespace

FA_STAGE(easy) {
  must_accept("the formulas of the lesson", [](const Problem& x) { return plain::gradients(x); });
  must_accept("the same, rounded otherwise", rounded);
}

FA_STAGE(odd) {
  must_refuse("delta left out", MistakeKind::kNoDelta);
  must_refuse("delta for each element", MistakeKind::kDeltaPerElement);
  must_refuse("the first row's delta for all", MistakeKind::kDeltaOfQuery0);
  must_refuse("no scale in dQ", MistakeKind::kNoScaleInDq);
  must_refuse("no scale in dK", MistakeKind::kNoScaleInDk);
  must_refuse("scale twice in dK", MistakeKind::kScaleTwiceInDk);
  must_refuse("dO of the next query", MistakeKind::kNextRowOfDo);
  must_refuse("the last query left out", MistakeKind::kLastQueryLeft);
  must_refuse("dV by P, not transposed", MistakeKind::kProbsNotTransposed);
  must_refuse("LSE in base 2, exp in base e", MistakeKind::kLseInBaseTwo);
  must_refuse("no mask", MistakeKind::kMaskForgotten);
  must_refuse("mask aligned to the top left", MistakeKind::kMaskTopLeft);
  must_refuse("NaN in fully masked rows", MistakeKind::kNanInMaskedRows);
  must_refuse("dV from P before dropout", MistakeKind::kUndroppedInDv);
  must_refuse("dP without dropout", MistakeKind::kUndroppedInDp);
  must_refuse("dK and dV of the first head only", MistakeKind::kFirstHeadOnly);
  must_refuse("dK and dV of the last head only", MistakeKind::kLastHeadOnly);
}
#endif
