// fa_backward_functor(), as a program in C would call it: on the memory of the lab, and on that of a
// GPU.
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/tests/functor_specs.hpp"
#include "06_flash_backward/src/functors.hpp"
#include "06_flash_backward/src/gradient_rows.cuh"
#include "06_flash_backward/tests/gradient_call.cuh"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {

using backward::functors::FunctorInputs;

// A call with its memory.
class FunctorGradientCall {
 public:
  FunctorGradientCall(const Problem& problem, const FunctorSpec& spec)
      : problem_(problem),
        inputs_(backward::functors::functor_inputs(problem, spec, Values::kNormal, 1)),
        tensors_(problem, inputs_),
        tables_(inputs_.spec, inputs_.tables),
        d_bias_(static_cast<std::int64_t>(inputs_.tables.bias.size())),
        d_sinks_(static_cast<std::int64_t>(inputs_.tables.sinks.size())),
        gradient(given_gradient(problem, false)),
        functor(given_functor(tables_.spec)),
        workspace_(
            static_cast<std::int64_t>(fa_backward_functor_workspace_bytes(&gradient, &functor))) {
    const auto& a = tensors_.a;
    const auto of = [](const RowStrides& s) { return fa_strides{s.batch, s.head, s.row}; };
    set_tensors(gradient,
                {const_cast<bfloat16*>(a.q), const_cast<bfloat16*>(a.k), const_cast<bfloat16*>(a.v),
                 a.o, const_cast<bfloat16*>(a.d_o), a.d_q, a.d_k, a.d_v},
                of(a.q_strides), of(a.k_strides));
    gradient.attention.lse = a.lse;
    gradient.workspace = workspace_.data();
    gradient.workspace_bytes = static_cast<std::size_t>(workspace_.count());
    d_bias_.zero();
  }

  float* d_bias() { return d_bias_.count() > 0 ? d_bias_.data() : nullptr; }
  float* d_sinks() { return d_sinks_.count() > 0 ? d_sinks_.data() : nullptr; }
  // What is said about the call with something changed; "" when it succeeds.
  template <class Change>
  std::string says(Change change) {
    fa_gradient g = gradient;
    fa_functor f = functor;
    float *of_bias = d_bias(), *of_sinks = d_sinks();
    change(g, f, of_bias, of_sinks);
    const int status = fa_backward_functor(&g, &f, of_bias, of_sinks);
    const std::string said = fa_backward_last_error();
    CHECK((status == FA_STATUS_OK) == said.empty());
    return said;
  }
  // Calls it and checks what it returns with lesson 01.
  void check() {
    REQUIRE(says([](auto&, auto&, auto&, auto&) {}) == "");
    device_synchronize();
    const backward::functors::FunctorGradients gradients{
        tensors_.result(), d_bias_.tensor<float, 1>({d_bias_.count()}),
        d_sinks_.tensor<float, 1>({d_sinks_.count()})};
    check_result(backward::functors::FunctorChecker(problem_, inputs_), problem_,
                 "fa_backward_functor", gradients);
  }

 private:
  Problem problem_;
  FunctorInputs inputs_;
  DeviceGradient<bfloat16> tensors_;
  DeviceFunctor tables_;
  DeviceBuffer<float> d_bias_, d_sinks_;

 public:
  fa_gradient gradient;
  fa_functor functor;

 private:
  DeviceBuffer<char> workspace_;
};

TEST_CASE("fa_backward_functor() computes the gradients of every functor") {
  for (const FunctorSpec& spec : all_specs()) {
    CAPTURE(static_cast<int>(spec.kind));
    FunctorGradientCall(problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40}), spec).check();
  }
}

TEST_CASE("fa_backward_functor() refuses what it cannot compute") {
  const Problem problem = problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40});
  FunctorGradientCall call(problem, of_kind(FunctorKind::kSinks));
  const auto same = [](auto&, auto&, auto&, auto&) {};
  CHECK(call.says(same) == "");
  CHECK(call.says([](auto&, auto&, auto&, auto& of_sinks) { of_sinks = nullptr; }) == "");
  const auto refused = [&](const char* message, auto change) {
    const std::string said = call.says(change);
    CAPTURE(said);
    CHECK(testing::contains(said, message));
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
  alignas(16) static float here[64] = {};
  refused("sinks is at address", [](auto&, auto& f, auto&...) { f.sinks = here; });
  refused("d_sinks is at address", [](auto&, auto&, auto&, auto& of_sinks) { of_sinks = here; });
#endif
}

}  // namespace
}  // namespace fa::FA_TARGET
