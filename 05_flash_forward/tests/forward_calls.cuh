/// @file
/// Calls of the C interface with their memory: a cache, packed sequences, functors. The tests of
/// each call and the program of random problems use them.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "05_flash_forward/interface/flash_attention.h"
#include "05_flash_forward/src/decode.hpp"
#include "05_flash_forward/src/functors.hpp"
#include "05_flash_forward/tests/functor_specs.hpp"
#include "common/attention/tests/placed.cuh"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {  // source files for one test program include this

using namespace attention;
using flash::decode::DecodeInputs;

// What is said about a call with something changed; "" when it succeeds. It has ended then.
template <class Call, class Change, class... Given>
std::string said_of(const char* (*last_error)(), Call call, Change change, Given... given) {
  change(given...);
  const int status = call(&given...);
  const std::string said = last_error();
  CHECK((status == FA_STATUS_OK) == said.empty());
  device_synchronize();
  return said;
}

// Checks that a call was refused with a message that has this text.
inline void check_said(const std::string& said, const char* text) {
  CAPTURE(said);
  CHECK(testing::contains(said, text));
}

// Changes nothing of a call.
inline constexpr auto kSame = [](auto&...) {};

// The pages of a cache that a sequence can have; one for a cache without pages.
inline std::int64_t most_pages(const Problem& p, std::int64_t page) {
  return page == 0 ? 1 : (p.shape.length_k + page - 1) / page;
}

// fa_decode() and fa_append() on a cache: sequences of the lengths of the inputs, in pages if
// there is a page size. Each tensor has a distance of its own between rows.
// C: the type of the cache, e4m3 with scales that are to be given.
template <class H, class C = H>
struct DecodeCall {
  // pages: of each sequence; if there are none, from the last one to the second. No sequence has
  // page 0, which is NaN.
  DecodeCall(const Problem& p, const DecodeInputs& in, std::int64_t page_size, Lengths pages = {},
             std::int64_t gap = 8)
      : problem(p),
        inputs(in),
        page(page_size),
        most(most_pages(p, page)),
        table(std::move(pages)),
        q(shape_of_rows(), p.layout, p.shape.head_dim + gap),
        k(shape_of_cache(), p.layout, p.shape.head_dim + 2 * gap),
        v(shape_of_cache(), p.layout, p.shape.head_dim + (sizeof(C) == 1 ? 4 : 1) * gap),
        o(shape_of_rows(), p.layout, p.shape.head_dim + 3 * gap),
        new_k(shape_of_new(), p.layout, p.shape.head_dim + gap),
        new_v(shape_of_new(), p.layout, p.shape.head_dim),
        lse(o.shape[0] * o.shape[1] * o.shape[2]),
        sinks(static_cast<std::int64_t>(in.sinks.size())),
        tree(static_cast<std::int64_t>(in.tree.size())),
        lengths(p.shape.batch),
        cu_seqlens_q(p.shape.batch + 1),
        device_table(p.shape.batch * most),
        attention(given_attention<fa_attention>(p)) {
    if (table.empty()) {
      for (std::int64_t i = p.shape.batch * most; i > 0; --i) {
        table.push_back(static_cast<std::int32_t>(i));
      }
    }
    q.write(is_packed() ? flash::decode::packed_rows(inputs.q, inputs.lengths_q) : inputs.q);
    Lengths seen = table;  // without the pages that no query sees
    for (std::int64_t i = 0; i < p.shape.batch * most; ++i) {
      if (first_key(i / most) >= (i % most + 1) * page) seen[static_cast<std::size_t>(i)] = -1;
    }
    device_table.upload(page > 0 ? seen.data() : table.data());
    q.give(attention.q, attention.q_strides), k.give(attention.k, attention.k_strides);
    v.give(attention.v, attention.v_strides), o.give(attention.o, attention.o_strides);
    new_k.give(new_keys.k, new_keys.k_strides), new_v.give(new_keys.v, new_keys.v_strides);
    new_keys.size = sizeof new_keys;
    attention.lse = lse.data();
    cache.size = sizeof cache;
    cache.window = in.window, cache.part_keys = in.part_keys;
    if (!in.sinks.empty()) sinks.upload(in.sinks.data()), cache.sinks = sinks.data();
    if (!in.tree.empty()) tree.upload(in.tree.data()), cache.tree = tree.data();
    if (page > 0) {
      cache.block_table = device_table.data();
      cache.most_pages = most;
      cache.cache_pages = shape_of_cache()[0];
      cache.page_size = page;
    }
    if (is_packed()) {
      Lengths begins(inputs.lengths_q.size() + 1);
      std::partial_sum(inputs.lengths_q.begin(), inputs.lengths_q.end(), begins.begin() + 1);
      cu_seqlens_q.upload(begins.data());
      cache.cu_seqlens_q = cu_seqlens_q.data();
      attention.length_q = begins.back();
    }
    set_lengths(inputs.lengths_k);
    give_workspace();
  }
  // For the kernel that the cache names, an fa_decode_kernel.
  void give_workspace() {
    // What is not a counter may hold anything.
    const auto counters = static_cast<std::size_t>(4 * problem.shape.batch * lse.count());
    attention.workspace_bytes = fa_decode_workspace_bytes(&attention, &cache);
    workspace.emplace(static_cast<std::int64_t>(attention.workspace_bytes));
    attention.workspace = workspace->data();
    device_zero(workspace->data(), std::min(attention.workspace_bytes, counters));
  }
  // Other lengths, or all keys for each sequence. The cache is NaN behind them, and before the
  // window of the first query.
  void set_lengths(const Lengths& of) {
    const bool other_cache = workspace && (cache.lengths_k == nullptr) != of.empty();
    inputs.lengths_k = of;
    cache.lengths_k = of.empty() ? nullptr : lengths.data();
    if (!of.empty()) lengths.upload(of.data());
    k.write(cached(inputs.k, 0, k_scales)), v.write(cached(inputs.v, 0, v_scales));
    if (other_cache) give_workspace();
  }
  void set_table(Lengths of) {
    of.resize(table.size(), -1);
    device_table.upload(of.data());
  }
  // Takes the last length_q keys of each sequence out of the cache, for fa_append().
  void take_new_keys() {
    take(new_k, inputs.k), take(new_v, inputs.v);
    k.write(cached(inputs.k, problem.shape.length_q, k_scales));
    v.write(cached(inputs.v, problem.shape.length_q, v_scales));
  }
  // Whether the cache is as it was before.
  bool has_new_keys() {
    const auto same = [](Tensor<float, 4> got, const Tensor<float, 4>& right) {
      return std::equal(got.data(), got.data() + got.count(), right.data(), [](float x, float y) {
        return x == static_cast<float>(static_cast<C>(y)) || (std::isnan(x) && std::isnan(y));
      });
    };
    return same(read(k), cached(inputs.k, 0, k_scales)) &&
           same(read(v), cached(inputs.v, 0, v_scales));
  }
  // What is said about a call with something changed: change(attention, cache) or change(attention,
  // cache, new keys).
  template <class Change>
  std::string says(Change change) {
    return said_of(fa_last_error, fa_decode, change, attention, cache);
  }
  template <class Change>
  std::string append_says(Change change) {
    return said_of(fa_last_error, fa_append, change, attention, cache, new_keys);
  }
  Outputs outputs() {
    Outputs all{read(o), lse.template tensor<float, 3>({o.shape[0], o.shape[1], o.shape[2]})};
    if (!is_packed()) return all;
    return flash::decode::unpacked(all, inputs.lengths_q, problem.shape.length_q);
  }
  // What lesson 01 says of the outputs.
  Verdicts verdicts() { return flash::decode::DecodeChecker(problem, inputs).check("", outputs()); }
  void check() {
    REQUIRE(says(kSame) == "");
    check_accepted(verdicts());
  }
  // With other lengths.
  void check(const Lengths& of) {
    set_lengths(of);
    check();
  }
  // The same where fa_append() writes the last keys.
  void check_append(const Lengths& of) {
    set_lengths(of);
    take_new_keys();
    REQUIRE(append_says(kSame) == "");
    CHECK(has_new_keys());
    check();
  }

  bool is_packed() const { return !inputs.lengths_q.empty(); }
  // Of q and o.
  Shape<4> shape_of_rows() const {
    const AttentionShape& s = problem.shape;
    if (!is_packed()) return problem.shape_of_q();
    const auto& all = inputs.lengths_q;
    return {1, s.heads, std::accumulate(all.begin(), all.end(), std::int64_t{0}), s.head_dim};
  }
  Shape<4> shape_of_new() const {
    const AttentionShape& s = problem.shape;
    return {s.batch, s.kv_heads, s.length_q, s.head_dim};
  }
  Shape<4> shape_of_cache() const {
    const AttentionShape& s = problem.shape;
    if (page == 0) return problem.shape_of_kv();
    return {s.batch * most + 1, s.kv_heads, page, s.head_dim};
  }
  std::int64_t length_of(std::int64_t batch) const {
    return inputs.lengths_k.empty() ? problem.shape.length_k
                                    : inputs.lengths_k[static_cast<std::size_t>(batch)];
  }
  // The first one that a query sees.
  std::int64_t first_key(std::int64_t batch) const {
    const std::int64_t queries = inputs.queries_of(problem, batch);
    return inputs.window == 0 ? 0 : length_of(batch) - queries + 1 - inputs.window;
  }
  // The cache without the last keys of each sequence; all else is NaN.
  Tensor<float, 4> cached(const Tensor<float, 4>& rows, std::int64_t without,
                          const std::vector<float>& scales) const {
    Tensor<float, 4> result(shape_of_cache());
    std::fill_n(result.data(), result.count(), NAN);
    for_each_index(rows.shape(), [&](const Shape<4>& at) {
      if (at[2] < first_key(at[0]) || at[2] >= length_of(at[0]) - without) return;
      Shape<4> to = at;
      if (page > 0) {
        to[0] = table[static_cast<std::size_t>(at[0] * most + at[2] / page)];
        to[2] = at[2] % page;
      }
      result.view()[to] = rows.view()[at] / (scales.empty() ? 1 : scales[scale_of(at)]);
    });
    return result;
  }
  // The index of an element's scale, if each head of each page or sequence has its own.
  std::size_t scale_of(const Shape<4>& at) const {
    const std::int64_t row =
        page == 0 ? at[0] : table[static_cast<std::size_t>(at[0] * most + at[2] / page)];
    return static_cast<std::size_t>(row * problem.shape.kv_heads + at[1]);
  }
  void take(Placed<H>& to, const Tensor<float, 4>& rows) {
    Tensor<float, 4> taken(shape_of_new());
    for_each_index(taken.shape(), [&](const Shape<4>& at) {
      const std::int64_t key = length_of(at[0]) - problem.shape.length_q + at[2];
      taken.view()[at] = key < 0 ? NAN : rows(at[0], at[1], key, at[3]);
    });
    to.write(taken);
  }

  Problem problem;
  DecodeInputs inputs;
  std::int64_t page, most;
  Lengths table;
  std::vector<float> k_scales, v_scales;  // of a cache in 8 bits, as scale_of() numbers them
  Placed<H> q;
  Placed<C> k, v;
  Placed<H> o, new_k, new_v;
  DeviceBuffer<float> lse, sinks;
  DeviceBuffer<std::uint32_t> tree;
  DeviceBuffer<std::int32_t> lengths, cu_seqlens_q, device_table;
  fa_attention attention{};
  fa_cache cache{};
  fa_new_keys new_keys{};
  std::optional<DeviceBuffer<char>> workspace;  // its size depends on strides
};

// fa_forward_functor().
template <class H>
struct FunctorCall : PlacedForward<H, fa_attention> {
  using Base = PlacedForward<H, fa_attention>;
  using Base::given;
  FunctorCall(const Problem& p, const flash::functors::FunctorInputs& in, std::int64_t gap = 8)
      : Base(p, gap),
        problem(p),
        inputs(in),
        tables(inputs.spec, inputs.tables),
        functor(given_functor(tables.spec)),
        workspace(static_cast<std::int64_t>(fa_functor_workspace_bytes(&given, &functor))) {
    Base::write(inputs);
    given.workspace = workspace.data();
    given.workspace_bytes = static_cast<std::size_t>(workspace.count());
    // The rest may hold anything.
    device_zero(workspace.data(), std::min<std::size_t>(16, given.workspace_bytes));
  }
  template <class Change>
  std::string says(Change change) {
    return said_of(fa_last_error, fa_forward_functor, change, given, functor);
  }
  Verdicts verdicts() {
    return flash::functors::FunctorChecker(problem, inputs).check("", Base::read());
  }

  Problem problem;
  flash::functors::FunctorInputs inputs;
  DeviceFunctor tables;
  fa_functor functor;
  DeviceBuffer<char> workspace;
};

// fa_forward_packed().
template <class H>
struct PackedCall : PackedList<fa_packed> {
  PackedCall(const AttentionShape& shape, bool causal, const PackedLengths& lengths,
             Values values = Values::kNormal, std::uint64_t seed = 1)
      : PackedList(shape, causal, lengths, type_of<H>()),
        q(lengths.q, shape.heads, shape.head_dim),
        k(lengths.k, shape.kv_heads, shape.head_dim),
        v(lengths.k, shape.kv_heads, shape.head_dim),
        o(lengths.q, shape.heads, shape.head_dim),
        lse(shape.heads * q.shape[2]),
        counter(4),
        attention(given_attention<fa_attention>(whole())) {
    for (std::size_t i = 0; i < problems.size(); ++i) {
      inputs.push_back(is_empty(problems[i]) ? Inputs{}
                                             : make_inputs(problems[i], values, seed + i));
    }
    write();
    q.give(attention.q, attention.q_strides), k.give(attention.k, attention.k_strides);
    v.give(attention.v, attention.v_strides), o.give(attention.o, attention.o_strides);
    attention.lse = lse.data();
    counter.zero();
    attention.workspace = counter.data();
    attention.workspace_bytes = 16;
  }
  Problem whole() const { return all(q.shape[2], k.shape[2]); }
  void write() {
    std::vector<Tensor<float, 4>> all_q, all_k, all_v;
    for (const Inputs& in : inputs) {
      all_q.push_back(in.q), all_k.push_back(in.k), all_v.push_back(in.v);
    }
    q.write(all_q), k.write(all_k), v.write(all_v);
  }
  // Every element of a sequence becomes NaN, of all inputs; verdicts() skips it then.
  void poison(std::size_t sequence) {
    Inputs& in = inputs[sequence];
    for (Tensor<float, 4>* x : {&in.q, &in.k, &in.v}) std::fill_n(x->data(), x->count(), NAN);
    write();
    poisoned = sequence;
  }
  template <class Change>
  std::string says(Change change) {
    return said_of(fa_last_error, fa_forward_packed, change, attention, packed);
  }
  std::string says() { return says(kSame); }
  // What lesson 01 says of each sequence.
  Verdicts verdicts() {
    Verdicts result;
    const Tensor<float, 4> all_o = read(o);
    const auto all_lse = lse.template tensor<float, 3>({1, o.shape[1], o.shape[2]});
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (i == poisoned || problems[i].shape.length_q == 0) continue;
      const Outputs own{o.sequence(all_o, i),
                        converted<float>(all_lse.view().narrow(2, o.begins[i], o.begins[i + 1]))};
      if (is_empty(problems[i])) {
        require(all_are(own.o, 0), "o of a sequence without keys is not 0");
        require(all_are(own.lse, -INFINITY), "lse of a sequence without keys is not -infinity");
      } else {
        append(result, flash::Checker(problems[i], inputs[i]).check("", own));
      }
    }
    return result;
  }

  std::vector<Inputs> inputs;
  PackedOf<H> q, k, v, o;
  DeviceBuffer<float> lse;
  DeviceBuffer<unsigned> counter;
  fa_attention attention{};
};

}  // namespace
}  // namespace fa::FA_TARGET
