// fa_backward_functor(), as a program in C would call it: on the memory of the lab, and on that of a
// GPU.
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/src/device_functor.cuh"
#include "05_flash_forward/tests/functor_specs.hpp"
#include "05_flash_forward/tests/given_functor.hpp"
#include "06_flash_backward/src/functors.hpp"
#include "06_flash_backward/src/gradient_rows.cuh"
#include "06_flash_backward/tests/gradient_call.cuh"
#include "common/attention/tests/refusals.cuh"

namespace fa::FA_TARGET {
namespace {

using backward::functors::FunctorInputs;

fa_strides given_strides(const RowStrides& strides) {
  return {strides.batch, strides.head, strides.row};
}

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
        functor(given_functor(tables_.spec())),
        workspace_(
            static_cast<std::int64_t>(fa_backward_functor_workspace_bytes(&gradient, &functor))) {
    const auto& a = tensors_.a;
    fa_attention& attention = gradient.attention;
    attention.q = a.q, attention.k = a.k, attention.v = a.v, attention.o = a.o;
    attention.lse = a.lse;
    attention.q_strides = given_strides(a.q_strides);
    attention.k_strides = given_strides(a.k_strides);
    attention.v_strides = given_strides(a.v_strides);
    attention.o_strides = given_strides(a.o_strides);
    gradient.d_o = a.d_o, gradient.d_q = a.d_q, gradient.d_k = a.d_k, gradient.d_v = a.d_v;
    gradient.d_o_strides = given_strides(a.d_o_strides);
    gradient.d_q_strides = given_strides(a.d_q_strides);
    gradient.d_k_strides = given_strides(a.d_k_strides);
    gradient.d_v_strides = given_strides(a.d_v_strides);
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
  CHECK(call.says([](auto& g, auto&, auto&, auto&) { g.deterministic = 1; }) ==
        "deterministic is 1; fa_backward_functor allows 0");
  CHECK(call.says([](auto& g, auto&, auto&, auto&) { g.attention.causal = 1; }) ==
        "causal is 1; fa_backward_functor allows 0, and a functor that is causal");
  CHECK(call.says([](auto&, auto& f, auto&, auto&) { f.kind = 11; }) ==
        "kind is 11; allowed are 0 to 10");
  CHECK(call.says([](auto&, auto& f, auto&, auto&) { f.sinks = nullptr; }) ==
        "sinks is a null pointer");
  CHECK(call.says([](auto&, auto& f, auto&, auto&) { f.kind = FA_FUNCTOR_CAUSAL; }) ==
        "d_sinks is given, and a functor of kind 1 has none");
  CHECK(call.says([](auto&, auto&, auto& of_bias, auto& of_sinks) { of_bias = of_sinks; }) ==
        "d_bias is given, and a functor of kind 8 has none");
  CHECK(call.says([](auto& g, auto&, auto&, auto&) { g.workspace_bytes = 16; }).substr(0, 33) ==
        "workspace_bytes is 16; allowed ar");
  CHECK(call.says([](auto& g, auto&, auto&, auto& of_sinks) {
              of_sinks = static_cast<float*>(g.d_q);
            })
            .find("overlaps") != std::string::npos);
  CHECK(fa_backward_functor(&call.gradient, nullptr, nullptr, nullptr) == FA_STATUS_REFUSED);
  CHECK(std::string(fa_backward_last_error()) == "fa_functor is a null pointer");
}

}  // namespace
}  // namespace fa::FA_TARGET
