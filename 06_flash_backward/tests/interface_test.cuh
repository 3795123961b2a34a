// The C interface, as a program in C would call it: on the memory of the lab, and on that of a GPU.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "06_flash_backward/src/dispatch.cuh"
#include "06_flash_backward/src/problem.hpp"
#include "06_flash_backward/tests/gradient_call.cuh"
#include "common/attention/tests/c_interface.cuh"
#include "common/attention/tests/refusals.cuh"
#include "common/gpu/tests/gpus.hpp"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {

using namespace attention;
using backward::Gradients;
using testing::contains;

// Calls the interface for a problem. Between rows lie multiples of `gap` elements, and the call
// writes nothing there.
template <class H>
Gradients call(const Problem& problem, const backward::Inputs& in, std::int64_t gap,
               bool deterministic, std::string& kernel) {
  PlacedGradient<H> x(problem, in, deterministic, gap);
  G& g = x.gradient;
  const char* name = fa_backward_kernel_name(&g);
  REQUIRE(name != nullptr);
  kernel = name;
  // Step 18 needs fewer sums of dQ than others, step 19 no counter of tiles.
  const auto runs = [&](const char* step) { return kernel.find(step) != std::string::npos; };
  const bool all_is_used = !runs("18_block_pairs") && !runs("19_split_groups");
  // In float32 any_gpu writes nothing for padding.
  run(g, problem.head_dim_v ? problem.type != Type::kFloat32 : all_is_used);
  return x.result();
}

// Checks what the interface gives in both modes; returns the names of the kernels, the
// deterministic one last.
std::vector<std::string> check(const Problem& problem, std::int64_t gap = 0) {
  const auto inputs = backward::make_inputs(problem, Values::kNormal, 1);
  const backward::Checker of(problem, inputs);
  std::vector<std::string> kernels;
  for (const bool deterministic : {false, true}) {
    std::string kernel;
    const Gradients gradients = with_type(problem.type, [&](auto zero) {
      return call<decltype(zero)>(problem, inputs, gap, deterministic, kernel);
    });
    check_result(of, problem, kernel, gradients);
    kernels.push_back(kernel);
  }
  return kernels;
}

TEST_CASE("the library says where it runs") {
#if defined(__CUDACC__)
  CHECK(std::string(fa_backward_runs_on()) == "gpu");
#else
  CHECK(std::string(fa_backward_runs_on()) == "cpu");
#endif
}

TEST_CASE(
    "gradients of kernels of all kinds, in both modes, with the workspace that they ask for") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsMma);
  check(problem_of(Type::kFloat32, {1, 1, 1, 9, 8, 32}));
  for (const int head_dim : {72, 136, 200}) {
    check(problem_of(Type::kFloat16, {1, 1, 1, 9, 8, head_dim}));
  }
  check(problem_of(Type::kBFloat16, {1, 5, 1, 150, 140, 128}));  // groups that are divided
  for (const int head_dim : {192, 256}) {
    if (on_hopper()) check(problem_of(Type::kBFloat16, {1, 5, 1, 700, 140, head_dim}, true));
  }
  CHECK(check(problem_of(Type::kBFloat16, {1, 1, 1, 9, 8, 256}, false, 0.5)) ==
        std::vector<std::string>{"06_swizzled_pipeline, bfloat16, 256 columns, dropout",
                                 "07_deterministic, bfloat16, 256 columns, dropout"});
}

TEST_CASE("192 columns of q and k with 128 of v and o") {
  check_mla([](const Problem& problem, std::int64_t gap) {
    const bool hopper = on_hopper() && problem.type != Type::kFloat32 && problem.dropout == 0;
    const std::string type = name_of(problem.type);
    const std::string other =
        "any_gpu, " + type + ", 256 columns" + (problem.dropout > 0 ? ", dropout" : "");
    CHECK(check(problem, gap) ==
          (hopper
               ? std::vector<std::string>{"18_block_pairs, " + type + ", 192 and 128 columns",
                                          "20_split_wide_groups, " + type + ", 192 and 128 columns"}
               : std::vector<std::string>(2, other)));
  });
}

// A call that is right in all but what a test changes.
struct Refused : RefusedCall<G> {
  Refused() : RefusedCall(10, fa_backward, fa_backward_last_error) {
    given.size = sizeof given;
    std::array<void*, 8> tensors{};
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = at(static_cast<std::int64_t>(i));
    set_tensors(given, tensors, {64, 32, 8}, {64, 32, 8});
    given.workspace = at(9);
    given.workspace_bytes = kBytes;
    fa_attention& a = given.attention;
    a.size = sizeof a;
    a.lse = at(8);
    a.batch = a.heads = a.kv_heads = 2;
    a.length_q = a.length_k = 4;
    a.head_dim = a.head_dim_v = 8;
    a.scale = 1;
  }
  static constexpr std::size_t kBytes = sizeof(float) * 2 * 2 * 2 * 128;  // of the workspace
};

// Its tensors.
#define FA_INPUT(name, written, of_keys) FA_GIVEN_TENSOR(G, name, written, of_keys, attention.)
#define FA_TENSOR(name, written, of_keys) FA_GIVEN_TENSOR(G, name, written, of_keys, )
const std::vector<GivenTensor<G>> kTensors{
    FA_INPUT(q, false, false),  FA_INPUT(k, false, true),     FA_INPUT(v, false, true),
    FA_INPUT(o, true, false),   FA_TENSOR(d_o, false, false), FA_TENSOR(d_q, true, false),
    FA_TENSOR(d_k, true, true), FA_TENSOR(d_v, true, true)};
#undef FA_INPUT
#undef FA_TENSOR
// And its other pointers.
std::vector<GivenTensor<G>> pointers() {
  auto all = kTensors;
  all.push_back(
      {"lse", false, false, [](G& g, void* to) { g.attention.lse = static_cast<float*>(to); }, {}});
  all.push_back({"workspace", true, false, [](G& g, void* to) { g.workspace = to; }, {}});
  return all;
}

TEST_CASE("what is not allowed is refused by its name and value") {
  Refused call;
  CHECK(fa_backward(nullptr) == FA_STATUS_REFUSED);
  CHECK(contains(fa_backward_last_error(), "null pointer"));
  check_refused_attention<fa_attention>([&](const std::function<void(fa_attention&)>& change) {
    return call([&](G& g) { change(g.attention); });
  });
  check_refused_tensors(call, pointers());
  check_refusals<G>(
      call, {{[](G& g) { g.size = 8; }, "size is 8; fa_gradient has "},
             {[](G& g) {
                g.attention.batch = g.attention.heads = 40000;
                g.attention.length_q = 1000000000;
              },
              "batch * heads * length_q is 1600000000000000000"},
             {[](G& g) { g.deterministic = -1; }, "deterministic is -1"},
             {[](G& g) { --g.workspace_bytes; }, "workspace_bytes is 4095; allowed are 4096"},
             {[](G& g) { g.attention.type = FA_TYPE_FLOAT16; },
              fmt::format("workspace_bytes is 4096; allowed are {}", on_hopper() ? 135236 : 69632)},
             {[](G& g) { g.workspace = reinterpret_cast<void*>(~std::uintptr_t{15}); },
              "and its 4096 bytes end beyond the last address"}});
}

TEST_CASE("outputs that overlap something else are refused by both names") {
  Refused call;
  std::vector<UsedMemory<G>> used;
  for (const auto& pointer : pointers()) {
    const std::string name = pointer.name;
    const bool is_workspace = name == "workspace";
    used.push_back({pointer, is_workspace || (name.substr(0, 2) == "d_" && name != "d_o"),
                    call.at(static_cast<std::int64_t>(used.size())),
                    is_workspace    ? Refused::kBytes
                    : name == "lse" ? 64u
                                    : 512u});
  }
  check_refused_overlaps(call, used);
  // Gradients in one tensor are accepted, and refused when they share an element.
  const auto interleaved = [&](std::int64_t apart) {
    return call([=](G& g) {
      // [batch, length, 3, heads, head_dim]
      g.d_q_strides = g.d_k_strides = g.d_v_strides = {4 * 48, 8, 48};
      g.d_k = static_cast<float*>(g.d_q) + apart;
      g.d_v = static_cast<float*>(g.d_q) + 32;
    });
  };
  CHECK(contains(interleaved(12), "d_k at address 0x"));
  CHECK(contains(interleaved(20), "d_v at address 0x"));
  CHECK(contains(interleaved(36), "d_k at address 0x"));
  CHECK(interleaved(16) == "not refused");
  device_synchronize();
}

TEST_CASE("random strides are accepted and refused as a reference says") {
  Refused call;
  check_random_strides(
      call, kTensors, [](G& g) -> fa_attention& { return g.attention; },
      [](G& g) { g.workspace = nullptr; }, "workspace");
}

TEST_CASE("the kernels' name and the workspace are refused as the call is, pointers or not") {
  G g = Refused().given;
  g.attention.q = nullptr;  // not looked at
  CHECK(fa_backward_workspace_bytes(&g) == Refused::kBytes);
  REQUIRE(fa_backward_kernel_name(&g) != nullptr);
  g.attention.head_dim = g.attention.head_dim_v = 7;
  CHECK(fa_backward_workspace_bytes(&g) == 0);
  CHECK(contains(fa_backward_last_error(), "head_dim is 7"));
  CHECK(fa_backward_kernel_name(&g) == nullptr);
  CHECK(fa_backward_workspace_bytes(nullptr) == 0);
  CHECK(fa_backward_kernel_name(nullptr) == nullptr);
}

// What functions for sizes are given.
struct Sizes {
  G gradient;
  fa_functor functor;
  fa_packed packed;
};

TEST_CASE("no size ends the process: each gives bytes, or is refused") {
  Sizes given{Refused().given, {}, {}};
  given.gradient.attention.type = FA_TYPE_BFLOAT16;
  given.gradient.attention.heads = 8;
  given.gradient.attention.head_dim = given.gradient.attention.head_dim_v = 64;
  given.functor.size = sizeof given.functor;
  given.functor.block_size = 1;
  given.functor.cap = 1;
  given.packed.size = sizeof given.packed;
  given.packed.sequences = 1;
  auto sizes =
      attention_sizes<Sizes>([](Sizes& s) -> fa_attention& { return s.gradient.attention; });
  const auto check_sizes = [&](std::size_t (*bytes_of)(const Sizes&)) {
    check_any_sizes(given, sizes, bytes_of, fa_backward_last_error);
  };
  for (const auto& [deterministic, type] : {std::pair{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
    given.gradient.deterministic = deterministic;
    given.gradient.attention.type = type;
    check_sizes([](const Sizes& s) { return fa_backward_workspace_bytes(&s.gradient); });
    check_sizes([](const Sizes& s) -> std::size_t {
      return fa_backward_kernel_name(&s.gradient) == nullptr ? 0 : 1;
    });
  }
  given.gradient.deterministic = 0;
  sizes.push_back([](Sizes& s, std::int64_t n) { s.functor.block_size = static_cast<int>(n); });
  for (int kind = FA_FUNCTOR_PLAIN; kind <= FA_FUNCTOR_BITS; ++kind) {
    CAPTURE(kind);
    given.functor.kind = kind;
    check_sizes([](const Sizes& s) {
      return fa_backward_functor_workspace_bytes(&s.gradient, &s.functor);
    });
  }
  given.gradient.attention.batch = 1;
  sizes.back() = [](Sizes& s, std::int64_t n) { s.packed.sequences = n; };
  check_sizes(
      [](const Sizes& s) { return fa_backward_packed_workspace_bytes(&s.gradient, &s.packed); });
}

// A call on memory of its own. LSE and O are random, which changes nothing about how kernels work.
OwnCall own_call(std::int64_t head_dim, std::int64_t length_k, bool deterministic,
                 std::uint32_t seed) {
#if defined(__CUDACC__)
  const Problem problem = problem_of(Type::kBFloat16, {4, 24, 8, 333, length_k, head_dim}, true);
#else
  const Problem problem = problem_of(Type::kBFloat16, {1, 2, 1, 33, length_k / 10, head_dim}, true);
#endif
  const AttentionShape& s = problem.shape;
  const std::int64_t rows = s.batch * s.heads * s.length_q;
  const std::int64_t kv = s.batch * s.kv_heads * s.length_k * head_dim;
  OwnMemory memory(seed);
  Tensor<float, 1> lse({rows});
  for (std::int64_t i = 0; i < rows; ++i) lse(i) = 1 + 0.25f * static_cast<float>(i % 7);
  G g = given_gradient(problem, deterministic);
  const std::int64_t of_q = rows * head_dim;
  set_tensors(
      g,
      {memory.random(of_q), memory.random(kv), memory.random(kv), memory.random(of_q),
       memory.random(of_q), memory.poisoned(of_q), memory.poisoned(kv), memory.poisoned(kv)},
      {s.heads * s.length_q * head_dim, s.length_q * head_dim, head_dim},
      {s.kv_heads * s.length_k * head_dim, s.length_k * head_dim, head_dim});
  const auto lse_memory = std::make_shared<DeviceBuffer<float>>(lse);
  g.attention.lse = lse_memory->data();
  g.workspace_bytes = fa_backward_workspace_bytes(&g);
  g.workspace = memory.poisoned(static_cast<std::int64_t>(g.workspace_bytes / 2), false);
  return {[=](void* stream) {
            (void)lse_memory;  // kept
            G call = g;
            call.attention.stream = stream;
            if (fa_backward(&call) != FA_STATUS_OK) {
              throw std::runtime_error(fa_backward_last_error());
            }
          },
          memory};
}

// Calls whose bits are the same in every run: those that are asked to be, and those in which one
// block of keys adds to each tile of dQ.
const std::function<OwnCall(std::uint32_t)> kOwnCalls[] = {
    [](std::uint32_t seed) { return own_call(64, 400, true, seed); },
    [](std::uint32_t seed) { return own_call(128, 400, true, seed); },
    [](std::uint32_t seed) { return own_call(128, 64, false, seed); },
    [](std::uint32_t seed) { return own_call(256, 400, true, seed); }};

TEST_CASE("threads, streams and GPUs at the same time: the same bits") {
  for (const auto& make : kOwnCalls) check_threads(make, 2, 10);
}

#if defined(__CUDACC__)
TEST_CASE("a CUDA graph in order, replayed beside other calls") {
  check_graph(kOwnCalls[1]);
}

TEST_CASE("a CUDA graph with the first store, replayed beside other calls") {
  check_graph(kOwnCalls[2]);
}
#endif

TEST_CASE("each thread has its own last error, which a call that succeeds clears") {
  Refused call;
  call.poisoned = false;
  check_errors(
      [&](int batch) { return call([=](G& g) { g.attention.batch = batch; }); },
      fa_backward_last_error,
      {[&] { fa_backward(&call.given); }, [&] { fa_backward_workspace_bytes(&call.given); },
       [&] { fa_backward_kernel_name(&call.given); }});
  device_synchronize();
}

#if defined(__linux__)
TEST_CASE("the library exports its C functions and nothing else") {
  CHECK(exported_names() ==
        "fa_backward fa_backward_functor fa_backward_functor_workspace_bytes "
        "fa_backward_kernel_name fa_backward_last_error fa_backward_packed "
        "fa_backward_packed_workspace_bytes fa_backward_runs_on "
        "fa_backward_workspace_bytes ");
}
#endif

}  // namespace
}  // namespace fa::FA_TARGET
