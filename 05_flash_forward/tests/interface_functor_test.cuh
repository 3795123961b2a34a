// fa_forward_functor(), as a program in C would call it: on the memory of the lab, and on that of a
// GPU.
#include <cmath>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/src/device_functor.cuh"
#include "05_flash_forward/tests/functor_specs.hpp"
#include "05_flash_forward/tests/given_functor.hpp"
#include "common/attention/tests/placed.cuh"
#include "common/attention/tests/problems.hpp"
#include "common/attention/tests/refusals.cuh"

namespace fa::FA_TARGET {
namespace {

using namespace attention;
using flash::functors::FunctorInputs;

// A call with its memory.
class FunctorCall {
 public:
  FunctorCall(const Problem& problem, const FunctorSpec& spec)
      : problem_(problem),
        inputs_(flash::functors::functor_inputs(problem, spec, Values::kNormal, 1)),
        tables_(inputs_.spec, inputs_.tables),
        q_(problem.shape_of_q(), problem.layout, problem.shape.head_dim),
        k_(problem.shape_of_kv(), problem.layout, problem.shape.head_dim + 8),
        v_(problem.shape_of_kv(), problem.layout, problem.shape.head_dim),
        o_(problem.shape_of_o(), problem.layout, problem.shape.head_dim + 16),
        lse_(problem.shape.batch * problem.shape.heads * problem.shape.length_q) {
    q_.write(inputs_.q);
    k_.write(inputs_.k);
    v_.write(inputs_.v);
    attention = given_attention<fa_attention>(problem);
    q_.give(attention.q, attention.q_strides);
    k_.give(attention.k, attention.k_strides);
    v_.give(attention.v, attention.v_strides);
    o_.give(attention.o, attention.o_strides);
    attention.lse = lse_.data();
    functor = given_functor(tables_.spec());
    attention.workspace_bytes = fa_functor_workspace_bytes(&attention, &functor);
    workspace_.emplace(static_cast<std::int64_t>(attention.workspace_bytes));
    workspace_->zero();
    attention.workspace = workspace_->data();
  }

  fa_attention attention{};
  fa_functor functor{};

  // What is said about the call with something changed; "" when it succeeds.
  std::string says(const std::function<void(fa_attention&, fa_functor&)>& change) {
    fa_attention a = attention;
    fa_functor f = functor;
    change(a, f);
    const int status = fa_forward_functor(&a, &f);
    const std::string said = fa_last_error();
    CHECK((status == FA_STATUS_OK) == said.empty());
    return said;
  }
  // Calls it and checks what it returns with lesson 01.
  void check() {
    REQUIRE(says([](auto&, auto&) {}) == "");
    const AttentionShape& s = problem_.shape;
    device_synchronize();
    const Outputs outputs{o_.read(), lse_.tensor<float, 3>({s.batch, s.heads, s.length_q})};
    CHECK(o_.gaps_are_poison());
    check_result(flash::functors::FunctorChecker(problem_, inputs_), problem_, "fa_forward_functor",
                 outputs);
  }

 private:
  Problem problem_;
  FunctorInputs inputs_;
  DeviceFunctor tables_;
  Placed<fa::bfloat16> q_, k_, v_, o_;
  DeviceBuffer<float> lse_;
  std::optional<DeviceBuffer<char>> workspace_;
};

TEST_CASE("fa_forward_functor() computes attention with every functor") {
  for (const FunctorSpec& spec : all_specs()) {
    CAPTURE(static_cast<int>(spec.kind));
    FunctorCall(problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40}), spec).check();
  }
}

TEST_CASE("fa_forward_functor() refuses what it cannot compute") {
  FunctorCall call(problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40}),
                   of_kind(FunctorKind::kBits));
  const auto says = [&](auto change) { return call.says(change); };
  CHECK(says([](auto& a, auto&) { a.type = 0; }) ==
        "type is 0 (float32); fa_forward_functor allows 1 (float16) and 2 (bfloat16)");
  CHECK(says([](auto& a, auto&) { a.head_dim = a.head_dim_v = 136; }) ==
        "head_dim is 136; fa_forward_functor allows multiples of 8 from 8 to 128");
  CHECK(says([](auto& a, auto&) { a.dropout = 0.5; }) ==
        "dropout is 0.5; fa_forward_functor allows 0");
  CHECK(says([](auto& a, auto&) { a.causal = 1; }) ==
        "causal is 1; fa_forward_functor allows 0, and a functor that is causal");
  CHECK(says([](auto&, auto& f) { f.size = 8; }) == "size is 8; fa_functor has " +
                                                        std::to_string(sizeof(fa_functor)) +
                                                        " bytes in this library");
  CHECK(says([](auto&, auto& f) { f.kind = 11; }) == "kind is 11; allowed are 0 to 10");
  CHECK(says([](auto&, auto& f) { f.kind = -1; }) == "kind is -1; allowed are 0 to 10");
  CHECK(says([](auto&, auto& f) { f.left = -2; }) == "left is -2; allowed are -1 to 1000000000");
  CHECK(says([](auto&, auto& f) { f.right = 1000000001; }) ==
        "right is 1000000001; allowed are -1 to 1000000000");
  CHECK(says([](auto&, auto& f) { f.kind = FA_FUNCTOR_PREFIX, f.prefix = -1; }) ==
        "prefix is -1; allowed are 0 to 1000000000");
  CHECK(says([](auto&, auto& f) { f.kind = FA_FUNCTOR_BLOCK_SPARSE, f.block_size = 0; }) ==
        "block_size is 0; allowed are 1 to 1000000000");
  CHECK(says([](auto&, auto& f) { f.kind = FA_FUNCTOR_SOFT_CAP, f.cap = 0; }) ==
        "cap is 0; allowed are finite numbers above 0");
  CHECK(says([](auto&, auto& f) { f.kind = FA_FUNCTOR_SOFT_CAP, f.cap = INFINITY; }) ==
        "cap is inf; allowed are finite numbers above 0");
  CHECK(says([](auto&, auto& f) { f.bias_per_head = 2; }) ==
        "bias_per_head is 2; allowed are 0 and 1");
  CHECK(says([](auto&, auto& f) { f.bits = nullptr; }) == "bits is a null pointer");
  CHECK(says([](auto&, auto& f) { f.kind = FA_FUNCTOR_SINKS, f.sinks = nullptr; }) ==
        "sinks is a null pointer");
  CHECK(says([](auto& a, auto&) { a.workspace = nullptr; }) == "workspace is a null pointer");
  CHECK(says([](auto& a, auto&) { a.workspace_bytes = 1; }).substr(0, 33) ==
        "workspace_bytes is 1; allowed are");
  CHECK(says([](auto& a, auto& f) {
          f.bits = static_cast<std::uint32_t*>(a.o);
        }).find("overlaps") != std::string::npos);
  CHECK(fa_forward_functor(&call.attention, nullptr) == FA_STATUS_REFUSED);
  CHECK(std::string(fa_last_error()) == "fa_functor is a null pointer");
  CHECK(fa_functor_workspace_bytes(nullptr, &call.functor) == 0);
  // Other kinds need no workspace, and one that is given holds a counter.
  CHECK(says([](auto& a, auto& f) { f.kind = FA_FUNCTOR_CAUSAL, a.workspace = nullptr; }) == "");
  CHECK(says([](auto& a, auto& f) { f.kind = FA_FUNCTOR_CAUSAL, a.workspace_bytes = 8; }) ==
        "workspace_bytes is 8; allowed are 16 and more");
}

}  // namespace
}  // namespace fa::FA_TARGET
