// fa_backward_functor(), as a program in C would call it: on the memory of the lab, and on that of a
// GPU.
#include <doctest/doctest.h>

#include "06_flash_backward/tests/gradient_call.cuh"

namespace fa::FA_TARGET {
namespace {

TEST_CASE("fa_backward_functor() refuses what it cannot compute") {
  const Problem problem = problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40});
  FunctorGradientCall<fa::bfloat16> call(
      problem, backward::functors::functor_inputs(problem, of_kind(FunctorKind::kSinks),
                                                  Values::kNormal, 1));
  const auto same = [](auto&, auto&, auto&, auto&) {};
  CHECK(call.says(same) == "");
  check_accepted(call.verdicts());
  CHECK(call.says([](auto&, auto&, auto&, auto& of_sinks) { of_sinks = nullptr; }) == "");
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
  };
  refused("deterministic is 1", [](auto& g, auto&...) { g.deterministic = 1; });
  refused("causal is 1", [](auto& g, auto&...) { g.attention.causal = 1; });
  refused("kind is 11", [](auto&, auto& f, auto&...) { f.kind = 11; });
  refused("sinks is a null pointer", [](auto&, auto& f, auto&...) { f.sinks = nullptr; });
  refused("d_sinks is given", [](auto&, auto& f, auto&...) { f.kind = FA_FUNCTOR_CAUSAL; });
  refused("d_bias is given",
          [](auto&, auto&, auto& of_bias, auto& of_sinks) { of_bias = of_sinks; });
  refused("workspace_bytes is 16", [](auto& g, auto&...) { g.workspace_bytes = 16; });
  refused("overlaps",
          [](auto& g, auto&, auto&, auto& of_sinks) { of_sinks = static_cast<float*>(g.d_q); });
  CHECK(fa_backward_functor(&call.gradient, nullptr, nullptr, nullptr) == FA_STATUS_REFUSED);
#if defined(__CUDACC__)
  alignas(16) static float memory[64] = {};
  float* const here = memory;
  refused("sinks is at address", [=](G&, fa_functor& f, float*&, float*&) { f.sinks = here; });
  refused("d_sinks is at address",
          [=](G&, fa_functor&, float*&, float*& of_sinks) { of_sinks = here; });
#endif
}

}  // namespace
}  // namespace fa::FA_TARGET
