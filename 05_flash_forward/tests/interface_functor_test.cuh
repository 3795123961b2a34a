// fa_forward_functor(), as a program in C would call it: on the memory of the lab, and on that of a
// GPU.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/src/functors.hpp"
#include "05_flash_forward/tests/functor_specs.hpp"
#include "common/attention/tests/placed.cuh"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {

using namespace attention;
using flash::functors::FunctorInputs;

// A call with its memory.
class FunctorCall : PlacedForward<fa::bfloat16, fa_attention> {
 public:
  FunctorCall(const Problem& problem, const FunctorSpec& spec)
      : PlacedForward(problem),
        problem_(problem),
        inputs_(flash::functors::functor_inputs(problem, spec, Values::kNormal, 1)),
        tables_(inputs_.spec, inputs_.tables),
        functor(given_functor(tables_.spec)),
        workspace_(static_cast<std::int64_t>(fa_functor_workspace_bytes(&given, &functor))) {
    write(inputs_);
    device_zero(workspace_.data(), 16);  // the rest may hold anything
    given.workspace = workspace_.data();
    given.workspace_bytes = static_cast<std::size_t>(workspace_.count());
  }
  using PlacedForward::given;

  // What is said about the call with something changed; "" when it succeeds.
  std::string says(const std::function<void(fa_attention&, fa_functor&)>& change) {
    fa_attention a = given;
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
    device_synchronize();
    check_result(flash::functors::FunctorChecker(problem_, inputs_), problem_, "fa_forward_functor",
                 read());
  }

 private:
  Problem problem_;
  FunctorInputs inputs_;
  DeviceFunctor tables_;

 public:
  fa_functor functor;

 private:
  DeviceBuffer<char> workspace_;
};

TEST_CASE("fa_forward_functor() computes attention with every functor") {
  for (const FunctorSpec& spec : all_specs()) {
    CAPTURE(static_cast<int>(spec.kind));
    FunctorCall(problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40}), spec).check();
  }
}

TEST_CASE("the smallest and the largest parameters of functors are right") {
  const Problem problem = problem_of(Type::kBFloat16, {1, 2, 1, 70, 131, 40});
  const auto check = [&](FunctorKind kind, auto set) {
    FunctorSpec spec = of_kind(kind, -1, 0);
    set(spec);
    CAPTURE(static_cast<int>(kind));
    CAPTURE(spec.cap);
    FunctorCall(problem, spec).check();
  };
  for (const float cap : {1.2e-38f, 1e-20f, 1e20f, 1.3e37f}) {
    check(FunctorKind::kSoftCap, [=](FunctorSpec& spec) { spec.cap = cap; });
  }
  for (const int most : {0, 1000000000}) {
    check(FunctorKind::kPrefix, [=](FunctorSpec& spec) { spec.prefix = most; });
    check(FunctorKind::kWindow, [=](FunctorSpec& spec) { spec.left = spec.right = most; });
    check(FunctorKind::kDocuments, [=](FunctorSpec& spec) { spec.left = spec.right = most; });
  }
  for (const int size : {1, 1000000000}) {
    check(FunctorKind::kBlockSparse, [=](FunctorSpec& spec) { spec.block_size = size; });
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
    FunctorCall call(problem_of(Type::kBFloat16, {1, 2, 1, 7, 13, 40}), spec);
    const std::string said = call.says([](auto&, auto& f) {
      f.slopes = f.sinks = f.bias = here;
      f.documents = reinterpret_cast<const std::int32_t*>(here);
      f.blocks = reinterpret_cast<const std::uint8_t*>(here);
      f.bits = reinterpret_cast<const std::uint32_t*>(here);
    });
    CAPTURE(said);
    CHECK(testing::contains(said, "which is not memory of a GPU"));
    CHECK(testing::contains(call.says([](auto& a, auto&) { a.workspace = here; }),
                            "workspace is at address"));
  }
}
#endif

TEST_CASE("fa_forward_functor() refuses what it cannot compute") {
  FunctorCall call(problem_of(Type::kBFloat16, {2, 4, 2, 70, 131, 40}),
                   of_kind(FunctorKind::kBits));
  const auto refused = [&](const char* message, auto change) {
    const std::string said = call.says(change);
    CAPTURE(said);
    CHECK(testing::contains(said, message));
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
