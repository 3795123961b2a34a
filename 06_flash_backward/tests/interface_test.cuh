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

// Whether a buffer is as it was made.
template <class T>
bool is_poison(const DeviceBuffer<T>& buffer) {
  Tensor<T, 1> host({buffer.count()});
  buffer.download(host.data());
  const auto* bytes = reinterpret_cast<const unsigned char*>(host.data());
  const auto count = sizeof(T) * static_cast<std::size_t>(host.count());
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes[i] != 0xff) return false;
  }
  return true;
}

// Calls the interface for a problem. Between rows lie multiples of `gap` elements, and the call
// writes nothing there.
template <class H>
Gradients call(const Problem& problem, const backward::Inputs& in, std::int64_t gap,
               bool deterministic, std::string& kernel) {
  const std::int64_t d = problem.shape.head_dim;
  const Shape<4> of_q = problem.shape_of_q(), of_kv = problem.shape_of_kv(),
                 of_o = problem.shape_of_o(), of_v = problem.shape_of_v();
  const std::int64_t columns_v = of_v[3];
  // Each tensor has distances of its own.
  const Layout layout = problem.layout, other = Layout::kHeadsFirst;
  Placed<H> q(of_q, layout, d + gap), k(of_kv, layout, d + 2 * gap),
      v(of_v, other, columns_v + gap), o(of_o, layout, columns_v + 3 * gap),
      d_o(of_o, other, columns_v + 2 * gap), d_q(of_q, layout, d + 4 * gap),
      d_k(of_kv, other, d + 3 * gap), d_v(of_v, layout, columns_v + 2 * gap);
  q.write(in.forward.q);
  k.write(in.forward.k);
  v.write(in.forward.v);
  o.write(in.o);
  d_o.write(in.d_o);
  DeviceBuffer<float> lse(in.lse);
  G g = given_gradient(problem, deterministic);
  fa_attention& a = g.attention;
  q.give(a.q, a.q_strides);
  k.give(a.k, a.k_strides);
  v.give(a.v, a.v_strides);
  o.give(a.o, a.o_strides);
  a.lse = lse.data();
  d_o.give(g.d_o, g.d_o_strides);
  d_q.give(g.d_q, g.d_q_strides);
  d_k.give(g.d_k, g.d_k_strides);
  d_v.give(g.d_v, g.d_v_strides);
  const char* name = fa_backward_kernel_name(&g);
  REQUIRE(name != nullptr);
  kernel = name;
  // Step 18 needs fewer sums of dQ than others, step 19 no counter of tiles.
  const auto runs = [&](const char* step) { return kernel.find(step) != std::string::npos; };
  const bool all_is_used = !runs("18_block_pairs") && !runs("19_split_groups");
  // In float32 any_gpu writes nothing for padding.
  run(g, problem.head_dim_v ? problem.type != Type::kFloat32 : all_is_used);
  Gradients result{d_q.read(), d_k.read(), d_v.read()};
  REQUIRE(d_q.gaps_are_poison());
  REQUIRE(d_k.gaps_are_poison());
  REQUIRE(d_v.gaps_are_poison());
  return result;
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

TEST_CASE("all types in both layouts, with groups of heads, causal or not") {
  check_layouts(check);
}

TEST_CASE("the kernels are those for the type, the columns and the mode") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsMma);
  using Names = std::vector<std::string>;
  CHECK(check(problem_of(Type::kFloat32, {1, 1, 1, 9, 8, 32})) ==
        Names{device_properties().compute_capability == 0 ? "04_atomics, float32, 32 columns"
                                                          : "17_split_tf32, float32, 32 columns",
              "03_two_kernels, float32, 32 columns"});
  CHECK(check(problem_of(Type::kFloat16, {1, 1, 1, 9, 8, 72})) ==
        (on_hopper() ? Names(2, "15_dependent_launch, float16, 96 columns")
                     : Names{"06_swizzled_pipeline, float16, 128 columns",
                             "07_deterministic, float16, 128 columns"}));
  CHECK(check(problem_of(Type::kFloat16, {1, 1, 1, 9, 8, 136})) ==
        (on_hopper()
             ? Names{"18_block_pairs, float16, 192 columns", "13_wide_heads, float16, 192 columns"}
             : Names{"06_swizzled_pipeline, float16, 256 columns",
                     "07_deterministic, float16, 256 columns"}));
  CHECK(check(problem_of(Type::kFloat16, {1, 1, 1, 9, 8, 200})) ==
        (on_hopper() ? Names(2, "13_wide_heads, float16, 256 columns")
                     : Names{"06_swizzled_pipeline, float16, 256 columns",
                             "07_deterministic, float16, 256 columns"}));
  CHECK(check(problem_of(Type::kBFloat16, {1, 5, 1, 150, 140, 128})) ==
        (on_hopper() ? Names(2, "19_split_groups, bfloat16, 128 columns")
                     : Names{"06_swizzled_pipeline, bfloat16, 128 columns",
                             "07_deterministic, bfloat16, 128 columns"}));
  if (on_hopper()) {
    CHECK(check(problem_of(Type::kBFloat16, {1, 5, 1, 700, 140, 192}, true)) ==
          Names(2, "20_split_wide_groups, bfloat16, 192 columns"));
    CHECK(check(problem_of(Type::kFloat16, {1, 5, 1, 700, 140, 256}, true)) ==
          Names(2, "20_split_wide_groups, float16, 256 columns"));
  }
  Problem problem = problem_of(Type::kBFloat16, {1, 1, 1, 9, 8, 256});
  problem.dropout = 0.5;
  CHECK(check(problem) == Names{"06_swizzled_pipeline, bfloat16, 256 columns, dropout",
                                "07_deterministic, bfloat16, 256 columns, dropout"});
}

TEST_CASE("rows with gaps between them: nothing is written between rows of gradients") {
  check_gaps(check);
}

TEST_CASE("fully masked rows, and keys that no row sees, have zero gradients") {
  for (const Type type : kTypes) {
    check(problem_of(type, {1, 2, 2, 70, 5, 16}, true));
    check(problem_of(type, {1, 2, 2, 1, 70, 16}, true));
  }
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

TEST_CASE("dropout through the interface drops the elements of the reference mask") {
  check_dropout(check);
}

// Kernels for Hopper have tiles of 64 columns at least, with two counters for 64 rows of dQ and one
// for persistent blocks. There are no groups of heads here, which some GPUs would divide.
TEST_CASE("the workspace has two floats for each padded row, and sums of dQ") {
  G g{};
  g.size = sizeof g;
  g.attention = given_attention<fa_attention>(problem_of(Type::kFloat32, {3, 4, 4, 129, 7, 72}));
  const std::size_t rows = 3 * 4 * 256;
  CHECK(fa_backward_workspace_bytes(&g) == rows * 2 * sizeof(float));
  g.attention.type = FA_TYPE_BFLOAT16;
  const std::size_t with_sums = rows * (2 + 128) + (on_hopper() ? rows / 32 + 1 : 0);
  CHECK(fa_backward_workspace_bytes(&g) == with_sums * sizeof(float));
  g.deterministic = 1;
  CHECK(fa_backward_workspace_bytes(&g) ==
        (on_hopper() ? rows * (2 + 96) + rows / 32 + 1 : rows * 2) * sizeof(float));
  g.deterministic = 0;
  g.attention.length_q = 128;
  g.attention.head_dim = g.attention.head_dim_v = 8;
  CHECK(fa_backward_workspace_bytes(&g) ==
        (rows / 2 * (2 + (on_hopper() ? 64 : 32)) + (on_hopper() ? rows / 64 + 1 : 0)) *
            sizeof(float));
  // Step 16 needs less, but any strides may come.
  g.attention.head_dim = g.attention.head_dim_v = 136;
  CHECK(fa_backward_workspace_bytes(&g) == rows / 2 * (2 + 256) * sizeof(float));
  g.attention.head_dim = g.attention.head_dim_v = 200;
  CHECK(fa_backward_workspace_bytes(&g) ==
        rows / 2 * (2 + (on_hopper() ? 0 : 256)) * sizeof(float));
  // Sequences with the same queries keep TMA away; the workspace is the same.
  g.attention.q_strides.batch = 0;
  CHECK(std::string(fa_backward_kernel_name(&g)) ==
        (on_hopper() ? "07_deterministic, bfloat16, 256 columns"
                     : "06_swizzled_pipeline, bfloat16, 256 columns"));
}

// A call that is right in all but what a test changes. Each pointer has kApart elements of its own.
struct Refused {
  static constexpr std::int64_t kApart = 1024;
  Refused() : memory(19 * kApart), workspace(2 * 2 * 2 * 128) {
    g.size = sizeof g;
    std::array<void*, 8> tensors{};
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = at(static_cast<std::int64_t>(i));
    set_tensors(g, tensors, {64, 32, 8}, {64, 32, 8});
    g.workspace = workspace.data();
    g.workspace_bytes = fa_bytes();
    fa_attention& a = g.attention;
    a.size = sizeof a;
    a.lse = at(8);
    a.batch = a.heads = a.kv_heads = 2;
    a.length_q = a.length_k = 4;
    a.head_dim = a.head_dim_v = 8;
    a.scale = 1;
  }
  // Between places that pointers have.
  float* at(std::int64_t place) { return memory.data() + (2 * place + 1) * kApart; }
  std::size_t fa_bytes() const {
    return sizeof(float) * static_cast<std::size_t>(workspace.count());
  }
  // What is said when `change` has been made; nothing must have been written.
  std::string operator()(const std::function<void(G&)>& change) {
    G changed = g;
    change(changed);
    if (fa_backward(&changed) != FA_STATUS_REFUSED) return "not refused";
    if (!is_poison(memory) || !is_poison(workspace)) return "written";
    return fa_backward_last_error();
  }
  DeviceBuffer<float> memory, workspace;
  G g{};
};

// What is said when the attention of a call has been changed.
auto changing_attention(Refused& call) {
  return [&](const std::function<void(fa_attention&)>& change) {
    return call([&](G& g) { change(g.attention); });
  };
}

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

TEST_CASE("sizes that are not allowed are refused with those that are") {
  Refused call;
  CHECK(fa_backward(nullptr) == FA_STATUS_REFUSED);
  CHECK(std::string(fa_backward_last_error()) == "fa_gradient is a null pointer");
  CHECK(contains(call([](G& g) { g.size = 8; }), "size is 8; fa_gradient has "));
  const auto of_attention = changing_attention(call);
  check_refused_sizes<fa_attention>(of_attention);
  CHECK(call([](G& g) {
          g.attention.batch = g.attention.heads = 40000;
          g.attention.length_q = 1000000000;
        }) == "batch * heads * length_q is 1600000000000000000; allowed are 1 to 1125899906842624");
}

TEST_CASE("options that are not allowed are refused with those that are") {
  Refused call;
  const auto of_attention = changing_attention(call);
  check_refused_options<fa_attention>(of_attention);
  CHECK(call([](G& g) { g.deterministic = -1; }) == "deterministic is -1; allowed are 0 and 1");
}

TEST_CASE("pointers that kernels cannot use are refused by their names") {
  Refused call;
  check_refused_pointers(call, pointers(), call.memory.data());
}

TEST_CASE("outputs that overlap something else are refused by both names") {
  Refused call;
  std::vector<UsedMemory<G>> used;
  for (const auto& pointer : pointers()) {
    const std::string name = pointer.name;
    const bool is_workspace = name == "workspace";
    used.push_back(
        {pointer, is_workspace || (name.substr(0, 2) == "d_" && name != "d_o"),
         is_workspace ? call.workspace.data() : call.at(static_cast<std::int64_t>(used.size())),
         is_workspace    ? call.fa_bytes()
         : name == "lse" ? 64u
                         : 512u});
  }
  check_refused_overlaps(call, used);
}

TEST_CASE("gradients in one tensor are accepted, and refused when they share an element") {
  Refused call;
  const auto interleaved = [&](std::int64_t apart) {
    return [=](G& g) {
      // [batch, length, 3, heads, head_dim]
      g.d_q_strides = g.d_k_strides = g.d_v_strides = {4 * 48, 8, 48};
      g.d_k = static_cast<float*>(g.d_q) + apart;
      g.d_v = static_cast<float*>(g.d_q) + 32;
    };
  };
  CHECK(contains(call(interleaved(12)), "d_k at address 0x"));
  CHECK(contains(call(interleaved(20)), "d_v at address 0x"));
  CHECK(contains(call(interleaved(36)), "d_k at address 0x"));
  CHECK(call(interleaved(16)) == "not refused");
  device_synchronize();
}

#if defined(__CUDACC__)
TEST_CASE("memory of the host is refused by a library for GPUs") {
  Refused call;
  check_refused_host_memory(call, pointers());
}
#endif

TEST_CASE("a workspace that is too small is refused with what suffices") {
  Refused call;
  CHECK(call([](G& g) { --g.workspace_bytes; }) ==
        "workspace_bytes is 4095; allowed are 4096 and more");
  CHECK(call([](G& g) { g.attention.type = FA_TYPE_FLOAT16; }) ==
        fmt::format("workspace_bytes is 4096; allowed are {} and more",
                    on_hopper() ? 135236 : 69632));
  CHECK(call([](G& g) { g.workspace_bytes = 0; }) ==
        "workspace_bytes is 0; allowed are 4096 and more");
  CHECK(contains(call([](G& g) { g.workspace = reinterpret_cast<void*>(~std::uintptr_t{15}); }),
                 "and its 4096 bytes end beyond the last address"));
}

TEST_CASE("strides that kernels cannot use are refused by their names") {
  Refused call;
  check_refused_strides(call, kTensors);
}

TEST_CASE("random strides are accepted and refused as a reference says") {
  Refused call;
  check_random_strides(
      call, kTensors, call.memory.data(), [](G& g) -> fa_attention& { return g.attention; },
      [](G& g) { g.workspace = nullptr; }, "workspace");
}

// Whether steps 08 and later support a problem with these sizes, whatever its strides.
bool is_mapped_size(int batch, int kv_heads, int length_k) {
  AttentionGradient<fa::half> a{};
  for (RowStrides* strides : {&a.q_strides, &a.k_strides, &a.v_strides, &a.o_strides,
                              &a.d_o_strides, &a.d_q_strides, &a.d_k_strides, &a.d_v_strides}) {
    *strides = {8, 8, 8};
  }
  a.batch = batch;
  a.heads = a.kv_heads = kv_heads;
  a.length_q = 1;
  a.length_k = length_k;
  a.head_dim = a.head_dim_v = 8;
  return can_use_tma_backward(a);
}

TEST_CASE("more blocks of keys than a grid has select another kernel") {
  CHECK(is_mapped_size(60000, 1, 64));
  CHECK(is_mapped_size(1, 1, 1000000000));
  CHECK_FALSE(is_mapped_size(60000, 1, 1000000000));
  CHECK_FALSE(is_mapped_size(30000, 30000, 128));
}

TEST_CASE("queries before a call are refused as the call is") {
  Refused call;
  G g = call.g;
  g.attention.q = nullptr;  // not looked at
  CHECK(fa_backward_workspace_bytes(&g) == call.fa_bytes());
  REQUIRE(fa_backward_kernel_name(&g) != nullptr);
  g.attention.head_dim = g.attention.head_dim_v = 7;
  CHECK(fa_backward_workspace_bytes(&g) == 0);
  CHECK(std::string(fa_backward_last_error()) ==
        "head_dim is 7; allowed are multiples of 8 from 8 to 256");
  CHECK(fa_backward_kernel_name(&g) == nullptr);
  CHECK(fa_backward_workspace_bytes(nullptr) == 0);
  CHECK(std::string(fa_backward_last_error()) == "fa_gradient is a null pointer");
  CHECK(fa_backward_kernel_name(nullptr) == nullptr);
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
  const Words q = random_words(rows * head_dim, 5 * seed), k = random_words(kv, 5 * seed + 1),
              v = random_words(kv, 5 * seed + 2), o = random_words(rows * head_dim, 5 * seed + 3),
              d_o = random_words(rows * head_dim, 5 * seed + 4),
              d_q = poisoned_words(rows * head_dim), d_k = poisoned_words(kv),
              d_v = poisoned_words(kv);
  Tensor<float, 1> lse({rows});
  for (std::int64_t i = 0; i < rows; ++i) {
    lse(i) = 1 + 0.25f * static_cast<float>(i % 7);
  }
  G g = given_gradient(problem, deterministic);
  g.workspace_bytes = fa_backward_workspace_bytes(&g);
  const auto lse_memory = std::make_shared<DeviceBuffer<float>>(lse);
  const Words workspace = poisoned_words(static_cast<std::int64_t>(g.workspace_bytes / 2));
  set_tensors(g,
              {q->data(), k->data(), v->data(), o->data(), d_o->data(), d_q->data(), d_k->data(),
               d_v->data()},
              {s.heads * s.length_q * head_dim, s.length_q * head_dim, head_dim},
              {s.kv_heads * s.length_k * head_dim, s.length_k * head_dim, head_dim});
  g.attention.lse = lse_memory->data();
  g.workspace = workspace->data();
  return {[=](void* stream) {
            (void)q, (void)k, (void)v, (void)o, (void)d_o;  // kept
            (void)lse_memory, (void)workspace;
            G call = g;
            call.attention.stream = stream;
            if (fa_backward(&call) != FA_STATUS_OK) {
              throw std::runtime_error(fa_backward_last_error());
            }
          },
          {d_q, d_k, d_v}};
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

TEST_CASE("there is no error after a call that succeeds") {
  Refused call;
  const auto fails = [&] { call([](G& g) { g.attention.batch = 0; }); };
  const auto last = fa_backward_last_error;
  check_no_error_after_success(
      fails, [&] { fa_backward(&call.g); }, last);
  check_no_error_after_success(
      fails, [&] { fa_backward_workspace_bytes(&call.g); }, last);
  check_no_error_after_success(
      fails, [&] { fa_backward_kernel_name(&call.g); }, last);
  device_synchronize();
}

TEST_CASE("each thread has its own last error") {
  Refused call;
  check_own_errors([&](int batch) { return call([=](G& g) { g.attention.batch = batch; }); },
                   fa_backward_last_error);
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
