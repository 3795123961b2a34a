/// @file
/// Tests of what C interfaces refuse, as tables: sizes, options, pointers, strides.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/attention/attention.cuh"
#include "common/gpu/launch.cuh"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each test program includes this

// Whether a buffer is as it was made.
template <class T>
bool is_poison(const DeviceBuffer<T>& buffer) {
  Tensor<T, 1> host({buffer.count()});
  buffer.download(host.data());
  const auto* bytes = reinterpret_cast<const unsigned char*>(host.data());
  return std::all_of(bytes, bytes + sizeof(T) * static_cast<std::size_t>(host.count()),
                     [](unsigned char byte) { return byte == 0xff; });
}

// A call that is right in all but what a test changes. Each of its pointers has kApart elements of
// its own.
template <class Given>
struct RefusedCall {
  static constexpr std::int64_t kApart = 1024;
  RefusedCall(std::int64_t places, int (*call_of)(const Given*), const char* (*error_of)())
      : memory((2 * places + 1) * kApart), function(call_of), last_error(error_of) {}
  // Between places that pointers have.
  float* at(std::int64_t place) { return memory.data() + (2 * place + 1) * kApart; }
  // What is said when `change` has been made; nothing must have been written.
  std::string operator()(const std::function<void(Given&)>& change) {
    Given changed = given;
    change(changed);
    if (function(&changed) == 0) return "not refused";
    if (poisoned && !is_poison(memory)) return "written";
    return last_error();
  }
  DeviceBuffer<float> memory;
  bool poisoned = true;  // the memory, as it was made
  int (*function)(const Given*);
  const char* (*last_error)();
  Given given{};
};

// What is changed in a call that is refused, and a part of what is said: a name and its value.
template <class Given>
struct Refusal {
  std::function<void(Given&)> change;
  std::string message;
};
// Checks what is said about calls: says(change).
template <class Given, class Says>
void check_refusals(Says&& says, const std::vector<Refusal<Given>>& refusals) {
  for (const Refusal<Given>& refusal : refusals) {
    const std::string said = says(refusal.change);
    CAPTURE(refusal.message);
    CAPTURE(said);
    CHECK(testing::contains(said, refusal.message));
  }
}

// Checks that sizes and options which are not allowed are refused.
// says(change): what is said about a call with 2 heads of 8 columns whose attention is changed
template <class A, class Says>
void check_refused_attention(Says&& says) {
  check_refusals<A>(says, {{[](A& a) { a.size = 8; }, "size is 8; fa_attention has "},
                           {[](A& a) { a.batch = 0; }, "batch is 0"},
                           {[](A& a) { a.batch = 65536; }, "batch is 65536"},
                           {[](A& a) { a.heads = -2; }, "heads is -2"},
                           {[](A& a) { a.heads = 65536; }, "heads is 65536"},
                           {[](A& a) { a.kv_heads = 0; }, "kv_heads is 0"},
                           {[](A& a) { a.heads = 3; }, "heads is 3"},
                           {[](A& a) { a.batch = 65535, a.heads = 65534; }, "is 4294770690"},
                           {[](A& a) { a.length_q = 0; }, "length_q is 0"},
                           {[](A& a) { a.length_k = 1000000001; }, "length_k is 1000000001"},
                           {[](A& a) { a.head_dim = 0; }, "head_dim is 0"},
                           {[](A& a) { a.head_dim = 12; }, "head_dim is 12"},
                           {[](A& a) { a.head_dim = 264; }, "head_dim is 264"},
                           {[](A& a) { a.type = 3; }, "type is 3"},
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
  for (const auto& [head_dim, head_dim_v] :
       {std::pair(64, 0), {64, 128}, {128, 192}, {192, 64}, {192, 256}, {184, 128}, {256, 128}}) {
    const auto change = [d = head_dim, d_v = head_dim_v](A& a) {
      a.head_dim = d;
      a.head_dim_v = d_v;
    };
    CHECK(testing::contains(says(change), "head_dim_v is " + std::to_string(head_dim_v)));
  }
}

// Checks that a function ends whatever the sizes are: with bytes, or with what it refuses.
// given:    right but for sizes
// sizes:    set one of them: set(given, size)
// bytes_of: calls the function
// free:     whether 0 bytes are no refusal
template <class Given, class BytesOf>
void check_any_sizes(const Given& given,
                     const std::vector<std::function<void(Given&, std::int64_t)>>& sizes,
                     BytesOf bytes_of, const char* (*last_error)(), bool free = false) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::vector<std::int64_t> values{
      1, 0, -1, 65535, 1000000000, 2147483647, Limits::max(), Limits::min()};
  for (int power = 29; power <= 62; ++power) values.push_back(std::int64_t{1} << power);
  int accepted = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    CAPTURE(i);
    std::uint64_t drawn = i << 8;
    const auto one_of = [&](const auto& all) { return all[random_bits(7, drawn++) % all.size()]; };
    Given changed = given;
    for (std::uint64_t n = 0; n <= i % 2; ++n) one_of(sizes)(changed, one_of(values));
    const std::size_t bytes = bytes_of(changed);
    const bool refused = *last_error() != '\0';
    accepted += refused ? 0 : 1;
    if (!free || refused) REQUIRE(refused == (bytes == 0));
    REQUIRE(bytes <= static_cast<std::size_t>(Limits::max()));
  }
  CHECK(accepted > 0);
}
// The sizes of an attention in a call: attention(given).
template <class Given, class AttentionOf>
std::vector<std::function<void(Given&, std::int64_t)>> attention_sizes(AttentionOf attention) {
  return {[=](Given& g, std::int64_t n) { attention(g).batch = n; },
          [=](Given& g, std::int64_t n) { attention(g).heads = n; },
          [=](Given& g, std::int64_t n) { attention(g).kv_heads = n; },
          [=](Given& g, std::int64_t n) { attention(g).length_q = n; },
          [=](Given& g, std::int64_t n) { attention(g).length_k = n; },
          [=](Given& g, std::int64_t n) { attention(g).head_dim = attention(g).head_dim_v = n; },
          [=](Given& g, std::int64_t n) { attention(g).head_dim_v = n; }};
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
#define FA_GIVEN_TENSOR(Given, name, written, of_keys, path)                                    \
  GivenTensor<Given> {                                                                          \
#name, written, of_keys,                                                                      \
        [](Given& g, void* to) { g.path name = static_cast<decltype(g.path name)>(to); },       \
        [](Given& g, const RowStrides& s) { g.path name##_strides = {s.batch, s.head, s.row}; } \
  }

// Checks that pointers and strides which kernels cannot use are refused by the names of their
// tensors, in a float32 call with head_dim 8.
template <class Given>
void check_refused_tensors(RefusedCall<Given>& call,
                           const std::vector<GivenTensor<Given>>& tensors) {
  const auto refused = [&](const std::function<void(Given&)>& change, const std::string& message) {
    const std::string said = call(change);
    CAPTURE(said);
    CHECK(testing::contains(said, message));
  };
  for (const GivenTensor<Given>& tensor : tensors) {
    const std::string name = tensor.name;
    const auto place = [&](void* at) { return [&, at](Given& g) { tensor.set_pointer(g, at); }; };
    refused(place(nullptr), name + " is");
    refused(place(reinterpret_cast<char*>(call.memory.data()) + (name == "lse" ? 2 : 8)),
            name + " is at address 0x");
#if defined(__CUDACC__)
    alignas(16) float here[64] = {};
    refused(place(here), name + " is at address 0x");
    refused(place(here), ", which is not memory of a GPU");
#endif
    if (!tensor.set_strides) continue;
    const auto strides = [&](const RowStrides& s) {
      return [&, s](Given& g) { tensor.set_strides(g, s); };
    };
    refused(strides({64, 32, 10}), "row stride of " + name + " is 10");
    refused(strides({-64, 32, 8}), "batch stride of " + name + " is -64");
    if (tensor.written) refused(strides({64, 4, 8}), "head stride of " + name + " is 4");
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

// A tensor as an interface gets it, and a reference that says whether it may accept it.
struct StrideProblem {
  Shape<4> shape;
  std::int64_t element_bytes;
  std::uintptr_t address;
  RowStrides strides;
  bool nested;  // each used stride is at least what the smaller ones span

  // Whether kernels can use it: row by row, in 128 bits.
  bool usable(bool written) const {
    __extension__ typedef __int128 Wide;
    const Wide most_offset = std::numeric_limits<std::int64_t>::max(),
               most_address = std::numeric_limits<std::uintptr_t>::max();
    std::vector<Wide> rows;
    for_each_index(Shape<3>{shape[0], shape[1], shape[2]}, [&](const Shape<3>& at) {
      rows.push_back(Wide{at[0]} * strides.batch + Wide{at[1]} * strides.head +
                     Wide{at[2]} * strides.row);
    });
    for (const Wide row : rows) {
      const Wide end = (row + shape[3]) * element_bytes;
      if (row < 0 || row * element_bytes % 16 != 0 || end > most_offset ||
          end > most_address - address) {
        return false;
      }
    }
    std::sort(rows.begin(), rows.end());
    for (std::size_t i = 1; written && i < rows.size(); ++i) {
      if (rows[i] - rows[i - 1] < shape[3]) return false;
    }
    return true;
  }
};

// Strides as programs have them, in any order of dimensions and with gaps, and strides as only a
// mistake makes them: that overlap, that are as large as they can be and larger, and that wrap
// around.
inline StrideProblem random_strides(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t drawn = number << 8;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random_bits(seed, drawn++) % static_cast<std::uint64_t>(n));
  };
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  StrideProblem s{};
  s.shape = {1 + below(4), 1 + below(4), 1 + below(4), 8 + 8 * below(3)};
  s.element_bytes = 2 + 2 * below(2);
  s.address = below(2) == 0 ? 4096 : ~std::uintptr_t{0xffff};
  const std::int64_t multiple = 16 / s.element_bytes;
  std::int64_t* const of[] = {&s.strides.batch, &s.strides.head, &s.strides.row};
  std::size_t order[] = {0, 1, 2};
  std::swap(order[0], order[below(3)]);
  std::swap(order[1], order[1 + below(2)]);
  const bool nests = below(2) == 0;
  s.nested = true;
  std::int64_t span = s.shape[3];
  for (const std::size_t dimension : order) {
    const std::int64_t steps = s.shape[dimension] - 1;
    const std::int64_t nested = (span + multiple - 1) / multiple * multiple;
    const std::int64_t last =
        (most / s.element_bytes - s.shape[3]) / std::max<std::int64_t>(1, steps);
    const std::int64_t near = last - last % multiple + multiple * (below(5) - 2);
    const std::int64_t others[] = {near, std::int64_t{1} << below(63), most - 15 - 16 * below(4),
                                   below(5) - 2, multiple * below(16)};
    const bool is_nested = nests && steps > 0;
    *of[dimension] = is_nested ? nested + multiple * below(9) : others[below(5)];
    span += is_nested ? *of[dimension] * steps : 0;
    s.nested = s.nested && (is_nested || steps == 0);
  }
  return s;
}

// Checks random strides of each tensor against a reference.
// attention(g):  the call's fa_attention
// break_last(g): gives it a null pointer that is looked at last, so that nothing is computed
template <class Given, class AttentionOf, class BreakLast>
void check_random_strides(RefusedCall<Given>& call, const std::vector<GivenTensor<Given>>& tensors,
                          AttentionOf attention, BreakLast break_last, const char* last) {
  int accepted = 0, refused = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const StrideProblem s = random_strides(5, i);
    const GivenTensor<Given>& tensor = tensors[i % tensors.size()];
    const std::string said = call([&](Given& g) {
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
      for (const GivenTensor<Given>& each : tensors) {
        each.set_pointer(g, call.memory.data());
        each.set_strides(g, {a.heads * head, head, row});
      }
      tensor.set_pointer(g, reinterpret_cast<void*>(s.address));
      tensor.set_strides(g, s.strides);
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
