// fa_forward_functor(), as a program in C would call it: on the memory of the lab, and on that of a
// GPU.
#include <cmath>

#include <doctest/doctest.h>

#include "05_flash_forward/tests/forward_calls.cuh"

namespace fa::FA_TARGET {
namespace {

using Call = FunctorCall<fa::bfloat16>;

Call functor_call(const Problem& problem, const FunctorSpec& spec) {
  return {problem, flash::functors::functor_inputs(problem, spec, Values::kNormal, 1)};
}
// Calls it and checks what it returns with lesson 01.
void check(const Problem& problem, const FunctorSpec& spec) {
  CAPTURE(static_cast<int>(spec.kind));
  CAPTURE(spec.cap);
  Call call = functor_call(problem, spec);
  REQUIRE(call.says([](auto&, auto&) {}) == "");
  check_accepted(call.verdicts());
}

TEST_CASE("fa_forward_functor() computes attention with every functor") {
  for (const FunctorSpec& spec : all_specs()) {
    check(problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40}), spec);
  }
}

TEST_CASE("the smallest and the largest parameters of functors are right") {
  FunctorSpec spec = of_kind(FunctorKind::kSoftCap, -1, 0);
  for (const float cap : {1.2e-38f, 1e-20f, 1e20f, 1.3e37f}) {
    spec.cap = cap;
    check(problem_of(Type::kBFloat16, {1, 2, 1, 70, 131, 40}), spec);
  }
}

#if defined(__CUDACC__)
TEST_CASE("tables and workspaces in the memory of the host are refused by their names") {
  alignas(16) static float here[64] = {};
  for (const FunctorKind kind :
       {FunctorKind::kDocuments, FunctorKind::kAlibi, FunctorKind::kSinks, FunctorKind::kBias,
        FunctorKind::kBlockSparse, FunctorKind::kBits}) {
    FunctorSpec spec = of_kind(kind);
    spec.block_size = 40;
    Call call = functor_call(problem_of(Type::kBFloat16, {1, 2, 1, 7, 13, 40}), spec);
    const auto in_host_memory = [](fa_attention&, fa_functor& f) {
      f.slopes = f.sinks = f.bias = here;
      f.documents = reinterpret_cast<const std::int32_t*>(here);
      f.blocks = reinterpret_cast<const std::uint8_t*>(here);
      f.bits = reinterpret_cast<const std::uint32_t*>(here);
    };
    check_said(call.says(in_host_memory), "which is not memory of a GPU");
    check_said(call.says([](fa_attention& a, fa_functor&) { a.workspace = here; }),
               "workspace is at address");
  }
}
#endif

TEST_CASE("fa_forward_functor() refuses what it cannot compute") {
  Call call = functor_call(problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40}),
                           of_kind(FunctorKind::kBits));
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
  };
  refused("type is 0 (float32)", [](auto& a, auto&) { a.type = 0; });
  refused("head_dim is 136", [](auto& a, auto&) { a.head_dim = a.head_dim_v = 136; });
  refused("dropout is 0.5", [](auto& a, auto&) { a.dropout = 0.5; });
  refused("causal is 1", [](auto& a, auto&) { a.causal = 1; });
  refused("size is 8", [](auto&, auto& f) { f.size = 8; });
  refused("kind is 11", [](auto&, auto& f) { f.kind = 11; });
  refused("kind is -1", [](auto&, auto& f) { f.kind = -1; });
  refused("left is -2", [](auto&, auto& f) { f.left = -2; });
  refused("right is 1000000001", [](auto&, auto& f) { f.right = 1000000001; });
  refused("prefix is -1", [](auto&, auto& f) { f.kind = FA_FUNCTOR_PREFIX, f.prefix = -1; });
  refused("block_size is 0",
          [](auto&, auto& f) { f.kind = FA_FUNCTOR_BLOCK_SPARSE, f.block_size = 0; });
  refused("cap is 0", [](auto&, auto& f) { f.kind = FA_FUNCTOR_SOFT_CAP, f.cap = 0; });
  refused("cap is inf", [](auto&, auto& f) { f.kind = FA_FUNCTOR_SOFT_CAP, f.cap = INFINITY; });
  refused("cap is nan", [](auto&, auto& f) { f.kind = FA_FUNCTOR_SOFT_CAP, f.cap = NAN; });
  refused("cap is 3e+38", [](auto&, auto& f) { f.kind = FA_FUNCTOR_SOFT_CAP, f.cap = 3e38f; });
  refused("cap is 2.9e-39", [](auto&, auto& f) { f.kind = FA_FUNCTOR_SOFT_CAP, f.cap = 2.9e-39f; });
  refused("scale is 1e-20",
          [](auto& a, auto& f) { f.kind = FA_FUNCTOR_SOFT_CAP, f.cap = 1e20f, a.scale = 1e-20; });
  refused("blocks has 4 x 1000000000 x 1000000000 elements", [](auto& a, auto& f) {
    f.kind = FA_FUNCTOR_BLOCK_SPARSE, f.block_size = 1, a.length_q = a.length_k = 1000000000;
  });
  refused("bias_per_head is 2", [](auto&, auto& f) { f.bias_per_head = 2; });
  refused("bits is a null pointer", [](auto&, auto& f) { f.bits = nullptr; });
  refused("sinks is a null pointer",
          [](auto&, auto& f) { f.kind = FA_FUNCTOR_SINKS, f.sinks = nullptr; });
  refused("workspace is a null pointer", [](auto& a, auto&) { a.workspace = nullptr; });
  refused("workspace_bytes is 1", [](auto& a, auto&) { a.workspace_bytes = 1; });
  refused("overlaps", [](auto& a, auto& f) { f.bits = static_cast<std::uint32_t*>(a.o); });
  CHECK(fa_forward_functor(&call.given, nullptr) == FA_STATUS_REFUSED);
  CHECK(fa_functor_workspace_bytes(nullptr, &call.functor) == 0);
  // Other kinds need no workspace, and one that is given holds a counter.
  CHECK(call.says([](auto& a, auto& f) { f.kind = FA_FUNCTOR_CAUSAL, a.workspace = nullptr; }) ==
        "");
  refused("workspace_bytes is 8",
          [](auto& a, auto& f) { f.kind = FA_FUNCTOR_CAUSAL, a.workspace_bytes = 8; });
}

}  // namespace
}  // namespace fa::FA_TARGET
