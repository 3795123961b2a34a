// The C interface, as a program in C would call it: on the memory of the lab, and on that of a GPU.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/src/checker.hpp"
#include "common/attention/tests/c_interface.cuh"
#include "common/attention/tests/placed.cuh"
#include "common/attention/tests/refusals.cuh"
#include "common/attention/tma_support.cuh"
#include "common/gpu/tests/gpus.hpp"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {

using namespace attention;
using testing::contains;

// Calls the interface for a problem. `gap` elements lie between rows.
template <class H>
Outputs call(const Problem& problem, const Inputs& in, std::int64_t gap, std::string& kernel) {
  PlacedForward<H, fa_attention> x(problem, gap);
  x.write(in);
  const Stream stream;
  x.given.stream = stream.native();
  const char* name = fa_kernel_name(&x.given);
  REQUIRE(name != nullptr);
  kernel = name;
  const int status = fa_forward(&x.given);
  CAPTURE(std::string(fa_last_error()));
  REQUIRE(status == FA_STATUS_OK);
  stream.synchronize();
  return x.read();
}

// The kernel for float32 with 32 columns. In the lab, tensor cores would take longer.
std::string float32_kernel() {
  return std::string(device_properties().compute_capability == 0 ? "04_register_tiles"
                                                                 : "17_split_tf32") +
         ", float32, 32 columns";
}

// Checks the results of the interface; returns the name of the kernel.
std::string check(const Problem& problem, std::int64_t gap = 0) {
  const auto inputs = make_inputs(problem, Values::kNormal, 1);
  std::string kernel;
  const Outputs outputs = with_type(
      problem.type, [&](auto zero) { return call<decltype(zero)>(problem, inputs, gap, kernel); });
  check_result(flash::Checker(problem, inputs), problem, kernel, outputs);
  return kernel;
}

TEST_CASE("the library says where it runs") {
#if defined(__CUDACC__)
  CHECK(std::string(fa_runs_on()) == "gpu");
#else
  CHECK(std::string(fa_runs_on()) == "cpu");
#endif
  CHECK(fa_default_scale(64) == 0.125);
  CHECK(fa_default_scale(0) == 0);
}

TEST_CASE("the kernel is the one for the type and the head dimension") {
  const DeviceProperties device = device_properties();
  FA_SKIP_WHERE_MISSING(device, kNeedsMma);
  CHECK(check(problem_of(Type::kFloat32, {1, 1, 1, 9, 8, 32})) == float32_kernel());
  CHECK(check(problem_of(Type::kFloat16, {1, 1, 1, 9, 8, 72})) ==
        (on_hopper() ? "15_warpgroup_tiles, float16, 96 columns"
                     : "08_edge_masks, float16, 128 columns"));
  Problem problem = problem_of(Type::kBFloat16, {1, 1, 1, 9, 8, 256});
  problem.dropout = 0.5;
  CHECK(check(problem) == "08_edge_masks, bfloat16, 256 columns, dropout");
}

TEST_CASE("192 columns of q and k with 128 of v and o") {
  check_mla([](const Problem& problem, std::int64_t gap) {
    const std::string kernel = check(problem, gap);
    const bool hopper = on_hopper() && problem.type != Type::kFloat32 && problem.dropout == 0;
    CHECK(kernel == (hopper
                         ? "15_warpgroup_tiles, " + name_of(problem.type) + ", 192 and 128 columns"
                         : "any_gpu, " + name_of(problem.type) + ", 256 columns" +
                               (problem.dropout > 0 ? ", dropout" : "")));
  });
}

// A call that is right in all but what a test changes.
struct Refused : RefusedCall<fa_attention> {
  Refused() : RefusedCall(6, fa_forward, fa_last_error) {
    fa_attention& a = given;
    a.size = sizeof a;
    a.q = at(0), a.k = at(1), a.v = at(2), a.o = at(3), a.lse = at(4);
    a.q_strides = a.k_strides = a.v_strides = a.o_strides = {64, 32, 8};
    a.batch = a.heads = a.kv_heads = 2;
    a.length_q = a.length_k = 4;
    a.head_dim = a.head_dim_v = 8;
    a.scale = 1;
  }
  // Its inputs are zeros, so that it may succeed.
  void zero() {
    memory.zero();
    poisoned = false;
  }
};

// Its tensors, and its other pointers.
#define FA_TENSOR(name, written, of_keys) FA_GIVEN_TENSOR(fa_attention, name, written, of_keys, )
const std::vector<GivenTensor<fa_attention>> kTensors{
    FA_TENSOR(q, false, false), FA_TENSOR(k, false, true), FA_TENSOR(v, false, true),
    FA_TENSOR(o, true, false)};
#undef FA_TENSOR
const GivenTensor<fa_attention> kLse{
    "lse", true, false, [](fa_attention& a, void* to) { a.lse = static_cast<float*>(to); }, {}};
const GivenTensor<fa_attention> kWorkspace{
    "workspace", true, false, [](fa_attention& a, void* to) { a.workspace = to; }, {}};

TEST_CASE("what is not allowed is refused by its name and value") {
  Refused call;
  CHECK(fa_forward(nullptr) == FA_STATUS_REFUSED);
  CHECK(contains(fa_last_error(), "null pointer"));
  check_refused_attention<fa_attention>(call);
  auto pointers = kTensors;
  pointers.push_back(kLse);
  check_refused_tensors(call, pointers);
  using A = fa_attention;
  constexpr std::int64_t huge = std::int64_t{1} << 60;
  const auto o_strides = [](const fa_strides& strides) {
    return [=](A& a) { a.o_strides = strides; };
  };
  check_refusals<A>(
      call, {{[](A& a) { a.k_strides.head = 12, a.type = FA_TYPE_FLOAT16; },
              "the head stride of k is 12 elements"},
             // Bytes of 2^64 and more are 0 and more; each alone is small enough, both are not.
             {o_strides({64, 32, 4 * huge}), "the row stride of o is 46116860184273"},
             {[](A& a) {
                a.q_strides = {huge, huge, 8};
              },
              "the batch stride of q is 115292150"},
             {[](A& a) { a.k = reinterpret_cast<void*>(~std::uintptr_t{15}); },
              "and its 32 bytes end beyond the last address"},
             {[](A& a) { a.lse = reinterpret_cast<float*>(~std::uintptr_t{15}); },
              "and its 64 bytes end beyond the last address"},
             // Rows of O that overlap.
             {[](A& a) {
                a.head_dim = 192, a.head_dim_v = 128, a.o_strides = {1024, 512, 124};
              },
              "the row stride of o is 124 elements, so that its rows overlap"},
             {o_strides({32, 8, 8}), "the head stride of o is 8 elements"},
             {o_strides({16, 64, 12}), "the batch stride of o is 16 elements"},
             {o_strides({64, 64, 8}), "the batch stride of o is 64 elements"}});
  // One sequence only: its stride is not used, and PyTorch may give any number. What is only read
  // may overlap.
  call.zero();
  CHECK(call([](A& a) {
          a.q = a.k = a.v;
          a.batch = 1;
          a.q_strides.batch = a.o_strides.batch = 1;
        }) == "not refused");
  device_synchronize();
}

TEST_CASE("outputs that overlap something else are refused by both names") {
  Refused call;
  call.given.type = FA_TYPE_FLOAT16;
  call.given.workspace = call.at(5);
  call.given.workspace_bytes = 64;
  std::vector<UsedMemory<fa_attention>> used;
  for (const auto& tensor : kTensors) used.push_back({tensor, tensor.written, nullptr, 256});
  used.push_back({kLse, true, nullptr, 64});
  used.push_back({kWorkspace, true, nullptr, 64});
  for (std::size_t i = 0; i < used.size(); ++i) {
    used[i].place = call.at(static_cast<std::int64_t>(i));
  }
  check_refused_overlaps(call, used);
  // Rows of O between those of Q are accepted, and refused when they share an element.
  call.given.type = FA_TYPE_FLOAT32;
  call.zero();
  const auto interleaved = [&](std::int64_t gap) {
    return call([=](fa_attention& a) {
      a.q_strides = a.o_strides = {16 * 8, 8, 32};
      a.o = const_cast<float*>(static_cast<const float*>(a.q)) + gap;
    });
  };
  CHECK(interleaved(16) == "not refused");
  CHECK(interleaved(16 - 128) == "not refused");
  device_synchronize();
  CHECK(contains(interleaved(12), "o at address 0x"));
  CHECK(contains(interleaved(28), "o at address 0x"));
}

TEST_CASE("the largest scale gives finite values where these exist") {
  Refused call;
  Tensor<float, 1> values({call.memory.count()});
  std::fill_n(values.data(), values.count(), 1e-18f);
  call.memory.upload(values.data());
  call.given.scale = 2.3586574e38;
  REQUIRE(call([](fa_attention&) {}) == "not refused");
  device_synchronize();
  call.memory.download(values.data());
  CHECK(values(call.at(3) - call.memory.data()) == doctest::Approx(1e-18));
  // Scores are 8 * 1e-36 * scale, of four keys.
  CHECK(values(call.at(4) - call.memory.data()) == doctest::Approx(1886.927 + std::log(4.0)));
}

TEST_CASE("random strides are accepted and refused as a reference says") {
  Refused call;
  check_random_strides(
      call, kTensors, [](fa_attention& a) -> fa_attention& { return a; },
      [](fa_attention& a) { a.lse = nullptr; }, "lse");
}

// Whether TMA supports a tensor.
bool is_mapped(const fa::half* data, const Shape<4>& shape, const RowStrides& strides) {
  try {
    tensor_map(data, {shape[0], shape[1], shape[2], shape[3]},
               {strides.batch, strides.head, strides.row}, 64);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

TEST_CASE("strides that TMA does not support select another kernel") {
  if (!has_hopper()) return;
  alignas(16) static fa::half memory[8];
  int supported = 0, refused = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const StrideProblem s = random_strides(7, i);
    const RowStrides near{64, 64, 64}, far = s.strides;
    Attention<fa::half> a{};
    a.q = a.k = a.v = a.o = memory;
    a.batch = static_cast<int>(s.shape[0]);
    a.heads = a.kv_heads = static_cast<int>(s.shape[1]);
    a.length_q = a.length_k = static_cast<int>(s.shape[2]);
    a.head_dim = a.head_dim_v = static_cast<int>(s.shape[3]);
    a.q_strides = i % 4 == 0 ? far : near;
    a.k_strides = i % 4 == 1 ? far : near;
    a.v_strides = i % 4 == 2 ? far : near;
    a.o_strides = i % 4 == 3 ? far : near;
    const bool supports = can_use_tma(a);
    CAPTURE(i);
    if (supports) REQUIRE(is_mapped(memory, s.shape, far));
    // A stride of 0 has a map, and yet these kernels do not support it.
    const bool zero = (a.batch > 1 && far.batch == 0) || (a.heads > 1 && far.head == 0) ||
                      (a.length_q > 1 && far.row == 0);
    if (!supports && !zero) REQUIRE_FALSE(is_mapped(memory, s.shape, far));
    (supports ? supported : refused) += 1;
  }
  CHECK(supported > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("the kernel's name and the workspace are refused as the call is, pointers or not") {
  Refused call;
  fa_attention& a = call.given;
  a.q = nullptr;
  REQUIRE(fa_kernel_name(&a) != nullptr);
  CHECK(fa_kernel_name(&a) == float32_kernel());
  CHECK(fa_workspace_bytes(&a) == 0);  // float32 has no tile scheduler
  a.type = FA_TYPE_FLOAT16;
  CHECK(fa_workspace_bytes(&a) == (on_hopper() ? 4 : 0));
  a.head_dim = a.head_dim_v = 7;
  CHECK(fa_kernel_name(&a) == nullptr);
  CHECK(contains(fa_last_error(), "head_dim is 7"));
  CHECK(fa_workspace_bytes(&a) == 0);
  CHECK(contains(fa_last_error(), "head_dim is 7"));
  CHECK(fa_kernel_name(nullptr) == nullptr);
  CHECK(fa_workspace_bytes(nullptr) == 0);
}

// What functions for sizes are given.
struct Sizes {
  fa_attention attention;
  fa_functor functor;
};

TEST_CASE("no size ends the process: each gives bytes, or is refused") {
  Sizes given{Refused().given, {}};
  given.attention.type = FA_TYPE_BFLOAT16;
  given.attention.heads = 8;
  given.attention.head_dim = given.attention.head_dim_v = 64;
  given.functor.size = sizeof given.functor;
  given.functor.block_size = 1;
  given.functor.cap = 1;
  auto sizes = attention_sizes<Sizes>([](Sizes& s) -> fa_attention& { return s.attention; });
  const auto check_sizes = [&](std::size_t (*bytes_of)(const Sizes&), bool free = false) {
    check_any_sizes(given, sizes, bytes_of, fa_last_error, free);
  };
  for (const std::int64_t kv_heads : {1, 2}) {
    given.attention.kv_heads = kv_heads;
    check_sizes([](const Sizes& s) { return fa_workspace_bytes(&s.attention); }, true);
    check_sizes([](const Sizes& s) {
      fa_cache cache{};
      cache.size = sizeof cache;
      return fa_decode_workspace_bytes(&s.attention, &cache);
    });
    check_sizes([](const Sizes& s) -> std::size_t {
      fa_default_scale(s.attention.head_dim);
      return fa_kernel_name(&s.attention) == nullptr ? 0 : 1;
    });
  }
  sizes.push_back([](Sizes& s, std::int64_t n) { s.functor.block_size = static_cast<int>(n); });
  sizes.push_back([](Sizes& s, std::int64_t n) {
    s.functor.left = s.functor.right = s.functor.prefix = static_cast<int>(n);
  });
  sizes.push_back([](Sizes& s, std::int64_t n) { s.functor.bias_per_head = n > 1 ? 1 : 0; });
  for (int kind = FA_FUNCTOR_PLAIN; kind <= FA_FUNCTOR_BITS; ++kind) {
    CAPTURE(kind);
    given.functor.kind = kind;
    given.functor.bias_per_batch = 1;
    check_sizes(
        [](const Sizes& s) { return fa_functor_workspace_bytes(&s.attention, &s.functor); });
  }
}

TEST_CASE("a workspace that does not fit is refused") {
  Refused call;
  call.given.workspace = call.at(5);
  CHECK(contains(call([&](fa_attention& a) { a.workspace = call.at(5) + 2; }),
                 "workspace is at address 0x"));
  if (!on_hopper()) return;
  call.given.type = FA_TYPE_FLOAT16;
  CHECK(contains(call([](fa_attention& a) { a.workspace_bytes = 3; }), "workspace_bytes is 3"));
}

// A call with causal attention on memory of its own. On a GPU there are more tiles than blocks at a
// time, so that a tile scheduler has work.
OwnCall own_call(std::int64_t head_dim, bool has_workspace, std::uint32_t seed) {
#if defined(__CUDACC__)
  const Problem problem = problem_of(Type::kBFloat16, {4, 24, 8, 333, 400, head_dim}, true);
#else
  const Problem problem = problem_of(Type::kBFloat16, {1, 2, 1, 33, 40, head_dim}, true);
#endif
  const AttentionShape& s = problem.shape;
  const std::int64_t rows = s.batch * s.heads * s.length_q;
  const std::int64_t kv = s.batch * s.kv_heads * s.length_k * head_dim;
  OwnMemory memory(seed);
  auto a = given_attention<fa_attention>(problem);
  a.q = memory.random(rows * head_dim);
  a.k = memory.random(kv);
  a.v = memory.random(kv);
  a.o = memory.poisoned(rows * head_dim);
  a.lse = static_cast<float*>(memory.poisoned(2 * rows));
  a.q_strides = a.o_strides = {s.heads * s.length_q * head_dim, s.length_q * head_dim, head_dim};
  a.k_strides = a.v_strides = {s.kv_heads * s.length_k * head_dim, s.length_k * head_dim, head_dim};
  if (has_workspace) {
    a.workspace = memory.poisoned(8, false);
    a.workspace_bytes = 16;
    memory.inputs.back()->zero();
  }
  return {[=](void* stream) {
            fa_attention call = a;
            call.stream = stream;
            if (fa_forward(&call) != FA_STATUS_OK) throw std::runtime_error(fa_last_error());
          },
          memory};
}

TEST_CASE("threads, streams and GPUs at the same time: the same bits") {
  for (const std::int64_t head_dim : {64, 128}) {
    for (const bool has_workspace : {false, true}) {
      check_threads([=](std::uint32_t seed) { return own_call(head_dim, has_workspace, seed); }, 2,
                    10);
    }
  }
}

TEST_CASE("the order in which blocks take tiles does not change the bits") {
  for (const std::int64_t head_dim : {64, 128, 256}) {
    CHECK(own_call(head_dim, false, 1).alone() == own_call(head_dim, true, 1).alone());
  }
}

#if defined(__CUDACC__)
TEST_CASE("a CUDA graph with a workspace, replayed beside other calls") {
  check_graph([](std::uint32_t seed) { return own_call(128, true, seed); });
}

TEST_CASE("a CUDA graph without a workspace, replayed beside other calls") {
  check_graph([](std::uint32_t seed) { return own_call(64, false, seed); });
}
#endif

TEST_CASE("each thread has its own last error, which a call that succeeds clears") {
  Refused call;
  call.zero();
  check_errors([&](int batch) { return call([=](fa_attention& a) { a.batch = batch; }); },
               fa_last_error,
               {[&] { fa_forward(&call.given); }, [&] { fa_workspace_bytes(&call.given); },
                [&] { fa_kernel_name(&call.given); }});
  device_synchronize();
}

#if defined(__linux__)
TEST_CASE("the library exports its C functions and nothing else") {
  CHECK(exported_names() ==
        "fa_append fa_decode fa_decode_kernel_name fa_decode_workspace_bytes fa_default_scale "
        "fa_forward "
        "fa_forward_functor "
        "fa_forward_packed fa_functor_workspace_bytes fa_kernel_name fa_last_error fa_merge "
        "fa_runs_on "
        "fa_workspace_bytes ");
}
#endif

}  // namespace
}  // namespace fa::FA_TARGET
