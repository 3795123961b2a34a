// The C interface, as a program in C would call it: on the memory of the lab, and on that of a GPU.
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/tests/placed.cuh"
#include "common/attention/tests/c_interface.cuh"
#include "common/attention/tma_support.cuh"
#include "common/testing/process.hpp"
#include "common/testing/skip.hpp"

namespace fa::FA_TARGET {
namespace {

using flash::Layout;
using flash::Problem;
using flash::problem_of;
using flash::Type;
using testing::contains;

// Calls the interface for a problem. `gap` elements lie between rows, and no kernel writes to those
// of o.
template <class H>
flash::Outputs call(const Problem& problem, const flash::Inputs& in,
                    std::int64_t gap, std::string& kernel) {
  const AttentionShape& s = problem.shape;
  const std::int64_t pitch = s.head_dim + gap;
  Placed<H> q(in.q.shape(), problem.layout, pitch);
  Placed<H> k(in.k.shape(), problem.layout, pitch);
  // Each tensor has distances of its own.
  Placed<H> v(in.v.shape(), Layout::kHeadsFirst, in.v.size(3) + 2 * gap);
  Placed<H> o(problem.shape_of_o(), problem.layout, in.v.size(3) + 3 * gap);
  q.write(in.q);
  k.write(in.k);
  v.write(in.v);
  DeviceBuffer<float> lse(s.batch * s.heads * s.length_q);
  fa_attention a = attention_of(problem);
  q.give(a.q, a.q_strides);
  k.give(a.k, a.k_strides);
  v.give(a.v, a.v_strides);
  o.give(a.o, a.o_strides);
  a.lse = lse.data();
  const Stream stream;
  a.stream = stream.native();
  const char* name = fa_kernel_name(&a);
  REQUIRE(name != nullptr);
  kernel = name;
  const int status = fa_forward(&a);
  CAPTURE(std::string(fa_last_error()));
  REQUIRE(status == FA_STATUS_OK);
  stream.synchronize();
  flash::Outputs result{o.read(),
                        lse.tensor<float, 3>({s.batch, s.heads, s.length_q})};
  REQUIRE(o.gaps_are_poison());
  return result;
}

// The kernel for float32 with 32 columns. In the lab, tensor cores would take longer.
std::string float32_kernel() {
  return std::string(device_properties().compute_capability == 0
                         ? "04_register_tiles"
                         : "17_split_tf32") +
         ", float32, 32 columns";
}

// Checks the results of the interface; returns the name of the kernel.
std::string check(const Problem& problem, std::int64_t gap = 0) {
  const auto inputs = flash::make_inputs(problem, flash::Values::kNormal, 1);
  std::string kernel;
  const flash::Outputs outputs =
      flash::with_type(problem.type, [&](auto zero) {
        return call<decltype(zero)>(problem, inputs, gap, kernel);
      });
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

TEST_CASE("all types in both layouts, with groups of heads, causal or not") {
  check_layouts(check);
}

TEST_CASE("the kernel is the one for the type and the head dimension") {
  const DeviceProperties device = device_properties();
  FA_SKIP_WHERE_MISSING(device, kNeedsMma);
  CHECK(check(problem_of(Type::kFloat32, {1, 1, 1, 9, 8, 32})) ==
        float32_kernel());
  CHECK(check(problem_of(Type::kFloat16, {1, 1, 1, 9, 8, 72})) ==
        (on_hopper() ? "15_warpgroup_tiles, float16, 96 columns"
                     : "08_edge_masks, float16, 128 columns"));
  Problem problem = problem_of(Type::kBFloat16, {1, 1, 1, 9, 8, 256});
  problem.dropout = 0.5;
  CHECK(check(problem) == "08_edge_masks, bfloat16, 256 columns, dropout");
}

TEST_CASE("rows with gaps between them: the gaps of o are left alone") {
  check_gaps(check);
}

TEST_CASE("192 columns of q and k with 128 of v and o") {
  check_head_dim_v([](const Problem& problem, std::int64_t gap) {
    const std::string kernel = check(problem, gap);
    const bool hopper =
        on_hopper() && problem.type != Type::kFloat32 && problem.dropout == 0;
    CHECK(kernel ==
          (hopper ? "15_warpgroup_tiles, " + name_of(problem.type) +
                        ", 192 and 128 columns"
                  : "any_gpu, " + name_of(problem.type) + ", 256 columns" +
                        (problem.dropout > 0 ? ", dropout" : "")));
  });
}

TEST_CASE("dropout through the interface drops what the CPU says") {
  check_dropout(check);
}

// A call that is right in all but what a test changes.
struct Refused {
  Refused() : memory(64) {
    a.size = sizeof a;
    a.q = a.k = a.v = a.o = a.lse = memory.data();
    a.q_strides = a.k_strides = a.v_strides = a.o_strides = {64, 32, 8};
    a.batch = a.heads = a.kv_heads = 2;
    a.length_q = a.length_k = 4;
    a.head_dim = a.head_dim_v = 8;
    a.scale = 1;
  }
  // What is said when `change` has been made.
  std::string says(const std::function<void(fa_attention&)>& change) {
    fa_attention changed = a;
    change(changed);
    if (fa_forward(&changed) != FA_STATUS_REFUSED) return "not refused";
    return fa_last_error();
  }
  DeviceBuffer<float> memory;
  fa_attention a{};
};

TEST_CASE("sizes that are not allowed are refused with those that are") {
  Refused call;
  using A = fa_attention;
  CHECK(fa_forward(nullptr) == FA_STATUS_REFUSED);
  CHECK(std::string(fa_last_error()) == "the attention is a null pointer");
  CHECK(contains(call.says([](A& a) { a.size = 8; }),
                 "size is 8; fa_attention has "));
  CHECK(call.says([](A& a) { a.batch = 0; }) ==
        "batch is 0; allowed are 1 to 65535");
  CHECK(call.says([](A& a) { a.batch = 65536; }) ==
        "batch is 65536; allowed are 1 to 65535");
  CHECK(call.says([](A& a) { a.heads = -2; }) ==
        "heads is -2; allowed are 1 to 65535");
  CHECK(call.says([](A& a) { a.heads = 65536; }) ==
        "heads is 65536; allowed are 1 to 65535");
  CHECK(call.says([](A& a) { a.kv_heads = 0; }) ==
        "kv_heads is 0; allowed are 1 to 65535");
  CHECK(call.says([](A& a) { a.heads = 3; }) ==
        "heads is 3; allowed are multiples of kv_heads, which is 2");
  CHECK(call.says([](A& a) { a.batch = 65535, a.heads = 65534; }) ==
        "batch * heads is 4294770690; allowed are 1 to 2147483647");
  CHECK(call.says([](A& a) { a.length_q = 0; }) ==
        "length_q is 0; allowed are 1 to 1000000000");
  CHECK(call.says([](A& a) { a.length_k = 1000000001; }) ==
        "length_k is 1000000001; allowed are 1 to 1000000000");
  CHECK(call.says([](A& a) { a.head_dim = 0; }) ==
        "head_dim is 0; allowed are multiples of 8 from 8 to 256");
  CHECK(call.says([](A& a) { a.head_dim = 12; }) ==
        "head_dim is 12; allowed are multiples of 8 from 8 to 256");
  CHECK(call.says([](A& a) { a.head_dim = 264; }) ==
        "head_dim is 264; allowed are multiples of 8 from 8 to 256");
  const auto says_of_columns = [&](std::int64_t head_dim,
                                   std::int64_t head_dim_v) {
    return call.says([=](A& a) {
      a.head_dim = head_dim;
      a.head_dim_v = head_dim_v;
    });
  };
  CHECK(says_of_columns(64, 0) ==
        "head_dim_v is 0; allowed are head_dim, which is 64, and 128 with a "
        "head_dim of 192");
  for (const auto& [head_dim, head_dim_v] :
       {std::pair(64, 128), std::pair(128, 192), std::pair(192, 64),
        std::pair(192, 256), std::pair(184, 128), std::pair(256, 128)}) {
    CHECK(contains(says_of_columns(head_dim, head_dim_v),
                   "head_dim_v is " + std::to_string(head_dim_v) +
                       "; allowed are head_dim, which is " +
                       std::to_string(head_dim)));
  }
}

TEST_CASE("options that are not allowed are refused with those that are") {
  Refused call;
  using A = fa_attention;
  CHECK(call.says([](A& a) { a.type = 3; }) ==
        "type is 3; allowed are 0 (float32), 1 (float16) and 2 (bfloat16)");
  CHECK(call.says([](A& a) { a.causal = 2; }) ==
        "causal is 2; allowed are 0 and 1");
  const std::string scales =
      "; allowed are positive and finite numbers of float32";
  CHECK(call.says([](A& a) { a.scale = 0; }) == "scale is 0" + scales);
  CHECK(call.says([](A& a) { a.scale = -1; }) == "scale is -1" + scales);
  CHECK(call.says([](A& a) { a.scale = NAN; }) == "scale is nan" + scales);
  CHECK(call.says([](A& a) { a.scale = 1e300; }) ==
        "scale is 1e+300" + scales);
  CHECK(call.says([](A& a) { a.scale = 1e-300; }) ==
        "scale is 1e-300" + scales);
  CHECK(call.says([](A& a) { a.dropout = 1; }) ==
        "dropout is 1; allowed are 0 to below 1");
  CHECK(call.says([](A& a) { a.dropout = -0.5; }) ==
        "dropout is -0.5; allowed are 0 to below 1");
  CHECK(call.says([](A& a) { a.dropout = NAN; }) ==
        "dropout is nan; allowed are 0 to below 1");
}

TEST_CASE(
    "memory that kernels cannot use is refused by the name of its tensor") {
  Refused call;
  using A = fa_attention;
  CHECK(call.says([](A& a) { a.q = nullptr; }) == "q is a null pointer");
  CHECK(call.says([](A& a) { a.k = nullptr; }) == "k is a null pointer");
  CHECK(call.says([](A& a) { a.v = nullptr; }) == "v is a null pointer");
  CHECK(call.says([](A& a) { a.o = nullptr; }) == "o is a null pointer");
  CHECK(call.says([](A& a) { a.lse = nullptr; }) == "lse is a null pointer");
  const auto moved = [](const void* pointer, int bytes) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(pointer) +
                                   static_cast<std::uintptr_t>(bytes));
  };
  const std::string sixteen = "; allowed are multiples of 16 bytes";
  const auto q = call.says([&](A& a) { a.q = moved(a.q, 8); });
  CHECK(contains(q, "q is at address 0x"));
  CHECK(contains(q, sixteen));
  CHECK(contains(call.says([&](A& a) { a.k = moved(a.k, 4); }), sixteen));
  CHECK(contains(call.says([&](A& a) { a.v = moved(a.v, 2); }), sixteen));
  CHECK(contains(call.says([&](A& a) { a.o = moved(a.o, 8); }), sixteen));
  CHECK(contains(
      call.says([&](A& a) { a.lse = static_cast<float*>(moved(a.lse, 2)); }),
      "; allowed are multiples of 4 bytes"));
  CHECK(call.says([](A& a) { a.q_strides.row = 10; }) ==
        "the row stride of q is 10 elements; allowed are multiples of 4, "
        "which are 16 bytes, from 0");
  CHECK(call.says([](A& a) {
    a.k_strides.head = 12;
    a.type = FA_TYPE_FLOAT16;
  }) == "the head stride of k is 12 elements; allowed are multiples of 8, "
        "which are 16 bytes, from 0");
  CHECK(call.says([](A& a) { a.v_strides.batch = -64; }) ==
        "the batch stride of v is -64 elements; allowed are multiples of 4, "
        "which are 16 bytes, from 0");
  CHECK(call.says([](A& a) { a.o_strides.row = 4; }) ==
        "the row stride of o is 4 elements, so that its rows overlap; "
        "allowed are head_dim, which is 8, and more");
  // One sequence only: its stride is not used, and PyTorch may give any number.
  fa_attention one = call.a;
  DeviceBuffer<float> o(64), lse(8);
  one.o = o.data();
  one.lse = lse.data();
  one.batch = 1;
  one.q_strides.batch = one.o_strides.batch = 1;
  call.memory.zero();
  CHECK(fa_forward(&one) == FA_STATUS_OK);
  device_synchronize();
}

TEST_CASE("strides of a tensor that would end beyond the last address") {
  Refused call;
  using A = fa_attention;
  const std::string most =
      " elements, so that o ends beyond the last address; allowed are 0 to ";
  // Bytes of 2^64 and more are 0 and more.
  CHECK(contains(
      call.says([](A& a) { a.o_strides.row = std::int64_t{1} << 62; }),
      "the row stride of o is 4611686018427387904" + most));
  CHECK(call.says([](A& a) {
    a.o_strides.row = std::numeric_limits<std::int64_t>::max() - 15;
    a.type = FA_TYPE_FLOAT16;
    a.length_q = 2;
  }) == "the row stride of o is 9223372036854775792" + most +
            "4611686018427387888");
  // Each alone is small enough, both together are not.
  CHECK(call.says([](A& a) {
    a.batch = a.heads = 2;
    a.q_strides = {std::int64_t{1} << 60, std::int64_t{1} << 60, 8};
  }) == "the batch stride of q is 1152921504606846976 elements, so that q "
        "ends beyond the last address; allowed are 0 to 1152921504606846940");
  CHECK(contains(call.says([](A& a) {
    a.k = reinterpret_cast<void*>(~std::uintptr_t{15});
  }),
                 "and its 32 bytes end beyond the last address"));
  CHECK(contains(call.says([](A& a) {
    a.lse = reinterpret_cast<float*>(~std::uintptr_t{15});
  }),
                 "and its 64 bytes end beyond the last address"));
}

TEST_CASE("strides of o that let its rows overlap") {
  Refused call;
  using A = fa_attention;
  CHECK(call.says([](A& a) {
    a.head_dim = 192;
    a.head_dim_v = 128;
    a.o_strides = {1024, 512, 124};
  }) == "the row stride of o is 124 elements, so that its rows overlap; "
        "allowed are head_dim_v, which is 128, and more");
  CHECK(call.says([](A& a) {
    a.o_strides = {32, 8, 8};
  }) == "the head stride of o is 8 elements, so that its rows overlap; "
        "allowed are what its smaller strides span, which is 32, and more");
  CHECK(call.says([](A& a) {
    a.o_strides = {16, 64, 12};
  }) == "the batch stride of o is 16 elements, so that its rows overlap; "
        "allowed are what its smaller strides span, which is 44, and more");
  CHECK(call.says([](A& a) {
    a.o_strides = {64, 64, 8};
  }) == "the batch stride of o is 64 elements, so that its rows overlap; "
        "allowed are what its smaller strides span, which is 96, and more");
}

TEST_CASE("random strides are taken and refused as a reference says") {
  Refused call;
  int taken = 0, refused = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const StrideProblem s = random_strides(5, i);
    const char* const names[] = {"q", "k", "v", "o"};
    const std::string name = names[i % 4];
    const std::string said = call.says([&](fa_attention& a) {
      a.batch = s.shape[0];
      a.heads = a.kv_heads = s.shape[1];
      a.length_q = a.length_k = s.shape[2];
      a.head_dim = a.head_dim_v = s.shape[3];
      a.type = s.element_bytes == 2 ? FA_TYPE_BFLOAT16 : FA_TYPE_FLOAT32;
      a.q_strides = a.k_strides = a.v_strides =
          a.o_strides = {s.shape[1] * s.shape[2] * s.shape[3],
                         s.shape[2] * s.shape[3], s.shape[3]};
      auto* const at = reinterpret_cast<void*>(s.address);
      (name == "q"   ? a.q_strides
       : name == "k" ? a.k_strides
       : name == "v" ? a.v_strides
                     : a.o_strides) = s.strides;
      if (name == "o") {
        a.o = at;
      } else {
        (name == "q" ? a.q : name == "k" ? a.k : a.v) = at;
      }
      a.lse = nullptr;  // is looked at last, and nothing is computed
    });
    const bool took = said == "lse is a null pointer";
    CAPTURE(said);
    CAPTURE(i);
    // Rows of o that do not overlap although strides are not nested are refused as well.
    if (name != "o" || s.nested || took)
      REQUIRE(took == s.usable(name == "o"));
    if (!took) REQUIRE(contains(said, " of " + name + " is "));
    (took ? taken : refused) += 1;
  }
  CHECK(taken > 5000);
  CHECK(refused > 5000);
}

// Whether TMA supports a tensor.
bool is_mapped(const fa::half* data, const Shape<4>& shape,
               const RowStrides& strides) {
  try {
    tensor_map(data, {shape[0], shape[1], shape[2], shape[3]},
               {strides.batch, strides.head, strides.row}, 64);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

TEST_CASE("what TMA does not take goes to another kernel") {
  if (!has_hopper()) return;
  alignas(16) static fa::half memory[8];
  int taken = 0, refused = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const StrideProblem s = random_strides(7, i);
    const RowStrides near{64, 64, 64};
    const RowStrides far{s.strides.batch, s.strides.head, s.strides.row};
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
    const bool takes = can_use_tma(a);
    CAPTURE(i);
    if (takes) REQUIRE(is_mapped(memory, s.shape, far));
    // A stride of 0 has a map, and yet these kernels do not take it.
    const bool zero = (a.batch > 1 && far.batch == 0) ||
                      (a.heads > 1 && far.head == 0) ||
                      (a.length_q > 1 && far.row == 0);
    if (!takes && !zero) REQUIRE_FALSE(is_mapped(memory, s.shape, far));
    (takes ? taken : refused) += 1;
  }
  CHECK(taken > 1000);
  CHECK(refused > 1000);
}

#if defined(__CUDACC__)
TEST_CASE("memory of the host is refused by a library for GPUs") {
  Refused call;
  alignas(16) float here[64] = {};
  const auto said = call.says([&](fa_attention& a) { a.v = here; });
  CAPTURE(said);
  CHECK(contains(said, "v is at address 0x"));
  CHECK(contains(said, ", which is not memory of a GPU"));
}
#endif

TEST_CASE("the kernel's name is refused as the call is, pointers or not") {
  Refused call;
  call.a.q = nullptr;
  REQUIRE(fa_kernel_name(&call.a) != nullptr);
  CHECK(fa_kernel_name(&call.a) == float32_kernel());
  call.a.head_dim = call.a.head_dim_v = 7;
  CHECK(fa_kernel_name(&call.a) == nullptr);
  CHECK(std::string(fa_last_error()) ==
        "head_dim is 7; allowed are multiples of 8 from 8 to 256");
  CHECK(fa_kernel_name(nullptr) == nullptr);
}

TEST_CASE("a workspace is optional; one that does not fit is refused") {
  Refused call;
  DeviceBuffer<float> memory(64);
  call.a.workspace = memory.data();
  const std::size_t least = fa_workspace_bytes(&call.a);
  CHECK(least == 0);  // float32 has no tile scheduler
  CHECK(contains(call.says([&](fa_attention& a) {
    a.workspace = reinterpret_cast<char*>(memory.data()) + 8;
  }),
                 "workspace is at address 0x"));
  call.a.type = FA_TYPE_FLOAT16;
  CHECK(fa_workspace_bytes(&call.a) == (on_hopper() ? 4 : 0));
  if (on_hopper()) {
    CHECK(call.says([](fa_attention& a) { a.workspace_bytes = 3; }) ==
          "workspace_bytes is 3; allowed are 4 and more, or no workspace");
  }
  CHECK(fa_workspace_bytes(nullptr) == 0);
  CHECK(std::string(fa_last_error()) == "the attention is a null pointer");
}

// A call with causal attention on memory of its own. On a GPU there are more tiles than blocks at a
// time, so that a tile scheduler has work.
OwnCall own_call(std::int64_t head_dim, bool has_workspace,
                 std::uint32_t seed) {
#if defined(__CUDACC__)
  const Problem problem =
      problem_of(Type::kBFloat16, {4, 24, 8, 333, 400, head_dim}, true);
#else
  const Problem problem =
      problem_of(Type::kBFloat16, {1, 2, 1, 33, 40, head_dim}, true);
#endif
  const AttentionShape& s = problem.shape;
  const std::int64_t rows = s.batch * s.heads * s.length_q;
  const std::int64_t kv = s.batch * s.kv_heads * s.length_k * head_dim;
  const Words q = random_words(rows * head_dim, 3 * seed),
              k = random_words(kv, 3 * seed + 1),
              v = random_words(kv, 3 * seed + 2),
              o = poisoned_words(rows * head_dim),
              lse = poisoned_words(2 * rows), workspace = poisoned_words(8);
  workspace->zero();
  fa_attention a = attention_of(problem);
  a.q = q->data();
  a.k = k->data();
  a.v = v->data();
  a.o = o->data();
  a.lse = reinterpret_cast<float*>(lse->data());
  a.q_strides = a.o_strides =
      strides_of(problem.shape_of_q(), Layout::kHeadsFirst, head_dim);
  a.k_strides = a.v_strides =
      strides_of(problem.shape_of_kv(), Layout::kHeadsFirst, head_dim);
  if (has_workspace) {
    a.workspace = workspace->data();
    a.workspace_bytes = 16;
  }
  return {[=](void* stream) {
            (void)q, (void)k, (void)v, (void)workspace;  // kept
            fa_attention call = a;
            call.stream = stream;
            if (fa_forward(&call) != FA_STATUS_OK) {
              throw std::runtime_error(fa_last_error());
            }
          },
          {o, lse}};
}

TEST_CASE("threads, streams and GPUs at the same time: the same bits") {
  for (const std::int64_t head_dim : {64, 128}) {
    for (const bool has_workspace : {false, true}) {
      check_threads(
          [=](std::uint32_t seed) {
            return own_call(head_dim, has_workspace, seed);
          },
          2, 10);
    }
  }
}

TEST_CASE("the order in which blocks take tiles does not change the bits") {
  for (const std::int64_t head_dim : {64, 128, 256}) {
    CHECK(own_call(head_dim, false, 1).alone() ==
          own_call(head_dim, true, 1).alone());
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

TEST_CASE("each thread has an error of its own") {
  Refused call;
  check_own_errors(
      [&](int batch) {
        return call.says([=](fa_attention& a) { a.batch = batch; });
      },
      fa_last_error);
}

#if defined(__linux__)
TEST_CASE("the library shows its C functions and nothing else") {
  CHECK(exported_names() ==
        "fa_default_scale fa_forward fa_kernel_name fa_last_error "
        "fa_runs_on fa_workspace_bytes ");
}
#endif

}  // namespace
}  // namespace fa::FA_TARGET
