// What servers ask of fa_decode(): windows, sinks, trees of draft tokens, batch invariance, and a
// shared prefix with fa_merge(). As a program in C would call them, against lesson 01 with a mask.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/tests/forward_calls.cuh"

namespace fa::FA_TARGET {
namespace {

using Call = DecodeCall<fa::bfloat16>;

DecodeInputs serving_inputs(const Problem& problem, const Lengths& keys,
                            const Lengths& queries = {}) {
  DecodeInputs in = flash::decode::decode_inputs(problem, Values::kNormal, 1);
  in.lengths_k = keys, in.lengths_q = queries;
  return in;
}

// Checks a problem on all kernels with these options on this device, with and without pages, on
// memory where all that no query sees is NaN.
void check_kernels(const Problem& problem, const DecodeInputs& in) {
  const bool hopper = can_run(device_properties(), kNeedsHopper), packed = !in.lengths_q.empty();
  for (const int page_size : {0, 16, 64}) {
    for (const int kernel : {int{FA_DECODE_FASTEST}, int{FA_DECODE_CHUNKED_PREFILL},
                             int{page_size > 0 ? FA_DECODE_PAGED_KV : FA_DECODE_EVEN_TILES}}) {
      const bool chunks = kernel == FA_DECODE_CHUNKED_PREFILL;
      if (chunks ? !hopper || in.window == 1 : packed) continue;  // it needs a window of 16
      CAPTURE(page_size);
      CAPTURE(kernel);
      Call call(problem, in, page_size);
      call.cache.kernel = kernel, call.cache.check = 1;
      call.give_workspace();
      call.check();
    }
  }
}

const std::vector<float> kSinks = {1, -INFINITY, 30, -2};

TEST_CASE("a window shows the last keys only, and no other one is read") {
  for (const std::int64_t length_q : {1, 5, 40}) {
    const Problem problem = problem_of(Type::kBFloat16, {6, 4, 2, length_q, 300, 40});
    DecodeInputs in = serving_inputs(problem, {300, 0, 77, 3, 129, 128});
    for (const int window : {1, 17, 128, 1000}) {
      CAPTURE(length_q);
      CAPTURE(window);
      in.window = window;
      check_kernels(problem, in);
    }
    in.window = 17, in.sinks = kSinks, in.part_keys = 128;
    check_kernels(problem, in);
  }
}

TEST_CASE("a sink is one more key of each head, however the others are split") {
  const Problem problem = problem_of(Type::kBFloat16, {2, 4, 1, 3, 2000, 64}, true);
  DecodeInputs in = serving_inputs(problem, {2000, 2});
  in.sinks = kSinks;
  check_kernels(problem, in);
  in.lengths_k = {700, 0}, in.part_keys = 128;
  check_kernels(problem, in);
}

TEST_CASE("a tree shows a query the draft keys whose bits are set") {
  for (const std::int64_t length_q : {1, 6, 33, 70}) {
    CAPTURE(length_q);
    const Problem problem = problem_of(Type::kBFloat16, {4, 4, 2, length_q, 200, 40});
    DecodeInputs in = serving_inputs(problem, {200, 7, 0, 130});
    in.sinks = kSinks;
    for (std::int64_t i = 0; i < 4 * length_q * ((length_q + 31) / 32); ++i) {
      const std::uint64_t random = 0x9e3779b97f4a7c15 * static_cast<std::uint64_t>(i + 1);
      in.tree.push_back(i % 5 == 0 ? 0 : static_cast<std::uint32_t>(random >> 32));
    }
    check_kernels(problem, in);
  }
}

TEST_CASE("packed queries have windows and sinks, too") {
  const Problem problem = problem_of(Type::kBFloat16, {4, 4, 2, 150, 300, 40}, true);
  DecodeInputs in = serving_inputs(problem, {300, 150, 30, 3}, {1, 150, 0, 7});
  in.window = 50, in.sinks = kSinks;
  for (const int part_keys : {0, 128}) {
    in.part_keys = part_keys;
    check_kernels(problem, in);
  }
}

// One sequence of several.
DecodeInputs alone(const DecodeInputs& all, std::int64_t b) {
  const auto own = [b](const auto& x) { return converted<float>(x.view().narrow(0, b, b + 1)); };
  const auto of = [b](const Lengths& x) {
    return x.empty() ? x : Lengths{x[static_cast<std::size_t>(b)]};
  };
  DecodeInputs one = all;
  one.q = own(all.q), one.k = own(all.k), one.v = own(all.v);
  one.lengths_k = of(all.lengths_k), one.lengths_q = of(all.lengths_q);
  return one;
}

TEST_CASE("with part_keys the bits of a sequence do not depend on the others") {
  const bool hopper = can_run(device_properties(), kNeedsHopper);
  for (const std::int64_t length_q : {1, 40}) {
    for (const bool packed : {false, true}) {
      if (packed && !hopper) continue;
      for (const int window : {0, 200}) {
        Problem problem = problem_of(Type::kBFloat16, {7, 8, 2, length_q, 900, 40}, true);
        const Lengths queries = packed ? Lengths(7, static_cast<int>(length_q)) : Lengths{};
        DecodeInputs in = serving_inputs(problem, {900, 128, 0, 641, 33, 257, 512}, queries);
        in.window = window, in.part_keys = 128;
        in.sinks = {1, 2, 3, 4, 5, 6, 7, 8};
        Call all(problem, in, 0);
        all.check();
        const Outputs of_all = all.outputs();
        problem.shape.batch = 1;
        for (std::int64_t b = 0; b < 7; ++b) {
          for (const std::int64_t page_size : {0, 16}) {
            CAPTURE(length_q);
            CAPTURE(b);
            CAPTURE(page_size);
            Call call(problem, alone(in, b), page_size);
            REQUIRE(call.says(kSame) == "");
            const Outputs got = call.outputs();
            const auto same = [&](const auto& own, const auto& whole) {
              const auto right = converted<float>(whole.view().narrow(0, b, b + 1));
              return std::equal(own.data(), own.data() + own.count(), right.data());
            };
            CHECK(same(got.o, of_all.o));
            CHECK(same(got.lse, of_all.lse));
          }
        }
      }
    }
  }
}

TEST_CASE("fa_merge() makes of results for a prefix and for what follows those for all keys") {
  for (const std::int32_t prefix_length : {0, 100}) {
    const std::int64_t batch = 5, length_q = 2;
    const Problem problem =
        problem_of(Type::kBFloat16, {batch, 4, 2, length_q, prefix_length + 70, 40});
    DecodeInputs whole = serving_inputs(problem, {70, 0, 3, 64, 1});
    DecodeInputs tail = whole, head;
    Problem of_tail = problem, of_head = problem;
    of_tail.shape.length_k = 70;
    of_head.shape = {1, 4, 2, batch * length_q, 100, 40};
    head = serving_inputs(of_head, {prefix_length});
    head.q = flash::decode::packed_rows(whole.q, Lengths(5, 2));
    tail.k = Tensor<float, 4>(of_tail.shape_of_kv()), tail.v = tail.k;
    for_each_index(whole.k.shape(), [&](const Shape<4>& at) {
      const bool shared = at[2] < prefix_length;
      const Shape<4> to{shared ? 0 : at[0], at[1], at[2] - (shared ? 0 : prefix_length), at[3]};
      const auto set = [&](auto& all, auto& first, auto& last) {
        if (shared) all.view()[at] = first.view()[to];
        if (!shared) last.view()[to] = all.view()[at];
      };
      set(whole.k, head.k, tail.k), set(whole.v, head.v, tail.v);
    });
    for (auto& length : whole.lengths_k) length += prefix_length;
    Call first(of_head, head, 0), last(of_tail, tail, 16);
    REQUIRE(first.says(kSame) == "");
    REQUIRE(last.says(kSame) == "");
    fa_other_keys other{};
    other.size = sizeof other, other.one_sequence = 1;
    other.o = first.attention.o, other.lse = first.attention.lse;
    const fa_strides of = first.attention.o_strides;
    other.o_strides = {length_q * of.row, of.head, of.row};
    const auto says = [&](auto change) {
      return said_of(fa_last_error, fa_merge, change, last.attention, other);
    };
    check_said(says([](auto&, auto& x) { x.lse = nullptr; }), "other lse is a null pointer");
    check_said(says([](auto&, auto& x) { x.one_sequence = 2; }), "one_sequence is 2; allowed");
    check_said(says([](auto& a, auto& x) { x.o = a.o; }), "overlaps other o");
    REQUIRE(says(kSame) == "");
    check_accepted(flash::decode::DecodeChecker(problem, whole).check("", last.outputs()));
  }
}

TEST_CASE("fa_decode() refuses windows, trees and parts that it does not have") {
  const Problem problem = problem_of(Type::kBFloat16, {3, 8, 2, 2, 200, 40}, true);
  Call call(problem, serving_inputs(problem, {200, 0, 77}), 16);
  const DeviceBuffer<std::uint32_t> tree(6);
  const auto refused = [&](const char* message, auto change) {
    check_said(call.says(change), message);
  };
  refused("window is -1; allowed are 0 and 1 to", [](auto&, auto& c) { c.window = -1; });
  refused("part_keys is 64; allowed are 0 and multiples of 128",
          [](auto&, auto& c) { c.part_keys = 64; });
  refused("causal is 1; with a tree", [&](auto&, auto& c) { c.tree = tree.data(); });
  refused("window is 8; with a tree",
          [&](auto& a, auto& c) { a.causal = 0, c.window = 8, c.tree = tree.data(); });
  refused("window is 15; with cu_seqlens_q allowed are 0 and 16 to",
          [&](auto&, auto& c) { c.window = 15, c.cu_seqlens_q = call.cu_seqlens_q.data(); });
  refused("a tree allows", [&](auto& a, auto& c) {
    a.causal = 0, c.tree = tree.data(), c.cu_seqlens_q = call.cu_seqlens_q.data();
  });
  refused("overlaps sinks", [](auto& a, auto& c) { c.sinks = a.lse; });
  refused("kernel is 3, which does not support", [](auto&, auto& c) {
    c.kernel = FA_DECODE_ONE_LAUNCH, c.block_table = nullptr, c.lengths_k = nullptr, c.window = 8;
  });
}

}  // namespace
}  // namespace fa::FA_TARGET
