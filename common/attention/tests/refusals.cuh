/// @file
/// Tests of what C interfaces refuse, as tables: sizes, options, pointers, strides.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/attention/attention.cuh"
#include "common/attention/tests/random_strides.hpp"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each test program includes this

// A call that is refused: what is changed in it, and a part of what is said.
template <class Given>
struct Refusal {
  std::function<void(Given&)> change;
  std::string message;
};

// Checks what is said about calls: says(change).
template <class Given, class Says>
void check_refusals(Says& says, const std::vector<Refusal<Given>>& refusals) {
  for (const auto& [change, message] : refusals) {
    const std::string said = says(change);
    CAPTURE(message);
    CHECK(testing::contains(said, message));
  }
}

// Checks that sizes which are not allowed are refused with those that are.
// says(change): what is said about a call with 2 heads of 8 columns whose attention is changed
template <class A, class Says>
void check_refused_sizes(Says& says) {
  check_refusals<A>(
      says, {{[](A& a) { a.size = 8; }, "size is 8; fa_attention has "},
             {[](A& a) { a.batch = 0; }, "batch is 0; allowed are 1 to 65535"},
             {[](A& a) { a.batch = 65536; }, "batch is 65536"},
             {[](A& a) { a.heads = -2; }, "heads is -2"},
             {[](A& a) { a.heads = 65536; }, "heads is 65536"},
             {[](A& a) { a.kv_heads = 0; }, "kv_heads is 0"},
             {[](A& a) { a.heads = 3; }, "heads is 3; allowed are multiples of kv_heads"},
             {[](A& a) { a.batch = 65535, a.heads = 65534; }, "batch * heads is 4294770690"},
             {[](A& a) { a.length_q = 0; }, "length_q is 0"},
             {[](A& a) { a.length_k = 1000000001; }, "length_k is 1000000001"},
             {[](A& a) { a.head_dim = 0; }, "head_dim is 0"},
             {[](A& a) { a.head_dim = 12; }, "head_dim is 12"},
             {[](A& a) { a.head_dim = 264; }, "head_dim is 264; allowed are multiples of 8"}});
  for (const auto& [head_dim, head_dim_v] :
       {std::pair(64, 0), {64, 128}, {128, 192}, {192, 64}, {192, 256}, {184, 128}, {256, 128}}) {
    const auto change = [d = head_dim, d_v = head_dim_v](A& a) {
      a.head_dim = d;
      a.head_dim_v = d_v;
    };
    CHECK(testing::contains(says(change), "head_dim_v is " + std::to_string(head_dim_v)));
  }
}

// The same for options.
template <class A, class Says>
void check_refused_options(Says& says) {
  check_refusals<A>(says, {{[](A& a) { a.type = 3; }, "type is 3"},
                           {[](A& a) { a.causal = 2; }, "causal is 2"},
                           {[](A& a) { a.scale = 0; }, "scale is 0"},
                           {[](A& a) { a.scale = -1; }, "scale is -1"},
                           {[](A& a) { a.scale = NAN; }, "scale is nan"},
                           {[](A& a) { a.scale = 1e300; }, "scale is 1e+300"},
                           {[](A& a) { a.scale = 1e-300; }, "scale is 1e-300"},
                           {[](A& a) { a.scale = 2.3586577e38; }, "scale is 2.3586577e+38"},
                           {[](A& a) { a.scale = -2.4e38; }, "scale is -2.4e+38"},
                           {[](A& a) { a.dropout = 1; }, "dropout is 1"},
                           {[](A& a) { a.dropout = -0.5; }, "dropout is -0.5"},
                           {[](A& a) { a.dropout = NAN; }, "dropout is nan"}});
}

// A tensor of a call.
template <class Given>
struct GivenTensor {
  const char* name;
  bool written, of_keys;
  std::function<void(Given&, void*)> set_pointer;
  std::function<void(Given&, const RowStrides&)> set_strides;
};
// One from pointers to members, of the call or of its attention.
#define FA_GIVEN_TENSOR(Given, name, written, of_keys, path)                                   \
  GivenTensor<Given> {                                                                         \
#name, written, of_keys,                                                                     \
        [](Given& g, void* to) { g.path name = static_cast<decltype(g.path name)>(to); },        \
        [](Given& g, const RowStrides& s) { g.path name##_strides = {s.batch, s.head, s.row}; } \
  }

// Checks that pointers which kernels cannot use are refused by the names of their tensors.
// @param memory  of the device, at a multiple of 16 bytes
template <class Given, class Says>
void check_refused_pointers(Says& says, const std::vector<GivenTensor<Given>>& tensors,
                            void* memory) {
  for (const GivenTensor<Given>& tensor : tensors) {
    const std::string name = tensor.name;
    CAPTURE(name);
    CHECK(testing::contains(says([&](Given& g) { tensor.set_pointer(g, nullptr); }), name + " is"));
    const int odd = name == "lse" ? 2 : 8;
    const auto said =
        says([&](Given& g) { tensor.set_pointer(g, static_cast<char*>(memory) + odd); });
    CHECK(testing::contains(said, name + " is at address 0x"));
  }
}

// A pointer of a call, and the bytes behind it that the call uses.
template <class Given>
struct UsedMemory {
  GivenTensor<Given> of;
  bool output;
  void* place;
  std::size_t bytes;
};

// Checks that outputs which overlap something else are refused by both names, from the first byte
// to the last, whichever comes first.
template <class Given, class Says>
void check_refused_overlaps(Says& says, const std::vector<UsedMemory<Given>>& used) {
  constexpr std::size_t kStep = 16;  // a multiple of each alignment
  for (const auto& moved : used) {
    for (const auto& other : used) {
      const std::string names[] = {moved.of.name, other.of.name};
      if (names[0] == names[1] || !(moved.output || other.output)) continue;
      CAPTURE(names[0]);
      CAPTURE(names[1]);
      char* const place = static_cast<char*>(other.place);
      for (char* at : {place, place + other.bytes - kStep, place + kStep - moved.bytes}) {
        const auto said = says([&](Given& g) { moved.of.set_pointer(g, at); });
        CAPTURE(said);
        CHECK(testing::contains(said, names[0] + " at address 0x"));
        CHECK(testing::contains(said, names[1] + " at address 0x"));
      }
    }
  }
}

// Checks that an interface has no error after a call that succeeds.
// fails(), succeeds(): calls that do; last_error(): the interface's function
template <class Fails, class Succeeds, class LastError>
void check_no_error_after_success(Fails fails, Succeeds succeeds, LastError last_error) {
  fails();
  CHECK(std::string(last_error()) != "");
  succeeds();
  CHECK(std::string(last_error()) == "");
}

#if defined(__CUDACC__)
// Checks that memory of the host is refused by a library for GPUs.
template <class Given, class Says>
void check_refused_host_memory(Says& says, const std::vector<GivenTensor<Given>>& tensors) {
  alignas(16) float here[64] = {};
  for (const GivenTensor<Given>& tensor : tensors) {
    const auto said = says([&](Given& g) { tensor.set_pointer(g, here); });
    CAPTURE(said);
    CHECK(testing::contains(said, std::string(tensor.name) + " is at address 0x"));
    CHECK(testing::contains(said, ", which is not memory of a GPU"));
  }
}
#endif

// Checks that strides which kernels cannot use are refused by the names of their tensors, in a
// float32 call with head_dim 8.
template <class Given, class Says>
void check_refused_strides(Says& says, const std::vector<GivenTensor<Given>>& tensors) {
  for (const GivenTensor<Given>& tensor : tensors) {
    if (!tensor.set_strides) continue;
    const std::string of = std::string(" stride of ") + tensor.name + " is ";
    const auto said = [&](const RowStrides& strides) {
      return says([&](Given& g) { tensor.set_strides(g, strides); });
    };
    CHECK(testing::contains(said({64, 32, 10}), "row" + of + "10"));
    CHECK(testing::contains(said({-64, 32, 8}), "batch" + of + "-64"));
    if (tensor.written) CHECK(testing::contains(said({64, 4, 8}), "head" + of + "4"));
  }
}

// Checks random strides of each tensor against a reference.
// says(change):  what is said about a call
// attention(g):  its fa_attention
// break_last(g): gives it a null pointer that is looked at last, so that nothing is computed
template <class Given, class Says, class AttentionOf, class BreakLast>
void check_random_strides(Says& says, const std::vector<GivenTensor<Given>>& tensors, void* memory,
                          AttentionOf attention, BreakLast break_last, const char* last) {
  int accepted = 0, refused = 0;
  std::vector<GivenTensor<Given>> strided;
  for (const auto& tensor : tensors) {
    if (tensor.set_strides) strided.push_back(tensor);
  }
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const attention::StrideProblem s = attention::random_strides(5, i);
    const GivenTensor<Given>& tensor = strided[i % strided.size()];
    const std::string said = says([&](Given& g) {
      auto& a = attention(g);
      // Tensors of keys have as many heads as fit, those of queries have more.
      a.batch = s.shape[0];
      a.heads = (tensor.of_keys ? 3 : 1) * s.shape[1];
      a.kv_heads = s.shape[1];
      a.length_q = tensor.of_keys ? 1 : s.shape[2];
      a.length_k = tensor.of_keys ? s.shape[2] : 1;
      a.head_dim = a.head_dim_v = s.shape[3];
      a.type = s.element_bytes == 2 ? 1 : 0;  // float16 or float32
      const std::int64_t row = s.shape[3], head = s.shape[2] * row;
      for (const GivenTensor<Given>& each : strided) {
        each.set_pointer(g, memory);
        each.set_strides(g, {a.heads * head, head, row});
      }
      tensor.set_pointer(g, reinterpret_cast<void*>(s.address));
      tensor.set_strides(g, {s.strides.batch, s.strides.head, s.strides.row});
      break_last(g);
    });
    const bool passed = said == std::string(last) + " is a null pointer";
    CAPTURE(said);
    CAPTURE(i);
    // Rows that do not overlap although strides are not nested are refused as well.
    if (!tensor.written || s.nested || passed) REQUIRE(passed == s.usable(tensor.written));
    if (!passed) REQUIRE(testing::contains(said, std::string(" of ") + tensor.name + " is "));
    (passed ? accepted : refused) += 1;
  }
  CHECK(accepted > 5000);
  CHECK(refused > 5000);
}

}  // namespace
}  // namespace fa::FA_TARGET
