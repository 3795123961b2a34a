/// @file
/// Calls of the C interface, for its tests.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/tests/forward_calls.cuh"
#include "06_flash_backward/interface/flash_attention_backward.h"
#include "06_flash_backward/src/functors.hpp"

namespace fa::FA_TARGET {
namespace {  // source files for one test program include this

using namespace attention;
using G = fa_gradient;

// A call with the attention of a problem, without pointers and strides.
inline G given_gradient(const Problem& problem, bool deterministic) {
  G g{};
  g.size = sizeof g;
  g.attention = given_attention<fa_attention>(problem);
  g.deterministic = deterministic ? 1 : 0;
  return g;
}

// Sets the pointers of q, k, v, o, d_o, d_q, d_k and d_v, and the strides of those with a row for
// each query and of those with a row for each key.
inline void set_tensors(G& g, const std::array<void*, 8>& at, const fa_strides& of_queries,
                        const fa_strides& of_keys) {
  fa_attention& a = g.attention;
  a.q = at[0], a.k = at[1], a.v = at[2], a.o = at[3];
  g.d_o = at[4], g.d_q = at[5], g.d_k = at[6], g.d_v = at[7];
  a.q_strides = a.o_strides = g.d_o_strides = g.d_q_strides = of_queries;
  a.k_strides = a.v_strides = g.d_k_strides = g.d_v_strides = of_keys;
}

// Calls the library on its stream, with exactly as much workspace as it asks for, and nothing
// behind that is written. Where strides keep TMA away, its kernels have no use for the counters at
// the end.
inline void run(G& g, bool all_is_used = true) {
  constexpr std::int64_t guard = 1024;
  const std::size_t bytes = fa_backward_workspace_bytes(&g);
  REQUIRE(bytes > 0);
  REQUIRE(bytes % sizeof(float) == 0);
  const auto floats = static_cast<std::int64_t>(bytes / sizeof(float));
  DeviceBuffer<float> workspace(floats + guard);
  const Stream stream;
  g.attention.stream = stream.native();
  g.workspace = workspace.data();
  g.workspace_bytes = bytes;
  const int status = fa_backward(&g);
  CAPTURE(std::string(fa_backward_last_error()));
  REQUIRE(status == FA_STATUS_OK);
  stream.synchronize();
  std::vector<std::uint32_t> end(guard + 1);
  device_copy(end.data(), workspace.data() + floats - 1, end.size() * sizeof(float),
              CopyKind::kToHost);
  CAPTURE(std::string(fa_backward_kernel_name(&g)));
  if (all_is_used) CHECK(end[0] != 0xffffffff);
  CHECK(std::count(end.begin() + 1, end.end(), 0xffffffff) == guard);
}

// Memory that a backward call may use, poisoned.
inline DeviceBuffer<char> give_workspace(G& g, std::size_t bytes) {
  DeviceBuffer<char> workspace(static_cast<std::int64_t>(bytes));
  g.workspace = workspace.data(), g.workspace_bytes = bytes;
  return workspace;
}

// A backward pass with its tensors in memory of the device. Each has a distance of its own between
// rows.
template <class H>
struct PlacedGradient : PlacedForward<H, fa_attention> {
  using Base = PlacedForward<H, fa_attention>;
  PlacedGradient(const Problem& p, const backward::Inputs& in, bool deterministic = false,
                 std::int64_t gap = 8)
      : Base(p, gap),
        d_o(p.shape_of_o(), Layout::kHeadsFirst, p.columns_v() + 2 * gap),
        d_q(p.shape_of_q(), p.layout, p.shape.head_dim + 4 * gap),
        d_k(p.shape_of_kv(), Layout::kHeadsFirst, p.shape.head_dim + 3 * gap),
        d_v(p.shape_of_v(), p.layout, p.columns_v() + 2 * gap),
        gradient(given_gradient(p, deterministic)) {
    Base::write(in.forward);
    Base::o.write(in.o), d_o.write(in.d_o);
    Base::lse.upload(in.lse.data());
    gradient.attention = Base::given;
    d_o.give(gradient.d_o, gradient.d_o_strides), d_q.give(gradient.d_q, gradient.d_q_strides);
    d_k.give(gradient.d_k, gradient.d_k_strides), d_v.give(gradient.d_v, gradient.d_v_strides);
  }
  backward::Gradients result() {
    return {FA_TARGET::read(d_q), FA_TARGET::read(d_k), FA_TARGET::read(d_v)};
  }
  Placed<H> d_o, d_q, d_k, d_v;
  G gradient;
};

// fa_backward_functor().
template <class H>
struct FunctorGradientCall : PlacedGradient<H> {
  using PlacedGradient<H>::gradient;
  FunctorGradientCall(const Problem& p, const backward::functors::FunctorInputs& in,
                      std::int64_t gap = 8)
      : PlacedGradient<H>(p, in, false, gap),
        problem(p),
        inputs(in),
        tables(inputs.spec, inputs.tables),
        functor(given_functor(tables.spec)),
        of_bias(static_cast<std::int64_t>(inputs.tables.bias.size())),
        of_sinks(static_cast<std::int64_t>(inputs.tables.sinks.size())),
        workspace(
            give_workspace(gradient, fa_backward_functor_workspace_bytes(&gradient, &functor))) {
    of_bias.zero();
  }
  float* d_bias() { return of_bias.count() > 0 ? of_bias.data() : nullptr; }
  float* d_sinks() { return of_sinks.count() > 0 ? of_sinks.data() : nullptr; }
  template <class Change>
  std::string says(Change change) {
    const auto call = [](G* g, fa_functor* f, float** bias, float** sinks) {
      return fa_backward_functor(g, f, *bias, *sinks);
    };
    return said_of(fa_backward_last_error, call, change, gradient, functor, d_bias(), d_sinks());
  }
  Verdicts verdicts() {
    return backward::functors::FunctorChecker(problem, inputs)
        .check("", {this->result(), of_bias.template tensor<float, 1>({of_bias.count()}),
                    of_sinks.template tensor<float, 1>({of_sinks.count()})});
  }

  Problem problem;
  backward::functors::FunctorInputs inputs;
  DeviceFunctor tables;
  fa_functor functor;
  DeviceBuffer<float> of_bias, of_sinks;
  DeviceBuffer<char> workspace;
};

// fa_backward_packed().
template <class H>
struct PackedGradientCall : PackedCall<H> {
  using Base = PackedCall<H>;
  using Base::packed;
  using Base::problems;
  PackedGradientCall(const AttentionShape& shape, bool causal, const PackedLengths& lengths,
                     Values values = Values::kNormal, std::uint64_t seed = 1)
      : Base(shape, causal, lengths, values, seed),
        d_o(lengths.q, shape.heads, shape.head_dim),
        d_q(lengths.q, shape.heads, shape.head_dim),
        d_k(lengths.k, shape.kv_heads, shape.head_dim),
        d_v(lengths.k, shape.kv_heads, shape.head_dim),
        gradient(given_gradient(this->whole(), false)) {
    for (std::size_t i = 0; i < problems.size(); ++i) {
      with_o.push_back(is_empty(problems[i])
                           ? backward::Inputs{}
                           : backward::make_inputs(problems[i], values, seed + i));
    }
    write_all();
    gradient.attention = Base::attention;
    d_o.give(gradient.d_o, gradient.d_o_strides), d_q.give(gradient.d_q, gradient.d_q_strides);
    d_k.give(gradient.d_k, gradient.d_k_strides), d_v.give(gradient.d_v, gradient.d_v_strides);
  }
  void write_all() {
    std::vector<Tensor<float, 4>> all_o, all_d_o;
    std::vector<float> all_lse(static_cast<std::size_t>(this->lse.count()), -INFINITY);
    for (std::size_t i = 0; i < with_o.size(); ++i) {
      const backward::Inputs& in = with_o[i];
      this->inputs[i] = in.forward;
      all_o.push_back(in.o), all_d_o.push_back(in.d_o);
      for (std::int64_t at = 0; at < in.lse.count(); ++at) {
        const std::int64_t length = in.lse.size(2);
        all_lse[static_cast<std::size_t>(at / length * this->q.shape[2] + this->q.begins[i] +
                                         at % length)] = in.lse.data()[at];
      }
    }
    this->write();
    this->o.write(all_o), d_o.write(all_d_o);
    this->lse.upload(all_lse.data());
  }
  // Every element of a sequence becomes NaN, of all inputs; verdicts() skips it then.
  void poison(std::size_t sequence) {
    backward::Inputs& in = with_o[sequence];
    for (Tensor<float, 4>* x : {&in.forward.q, &in.forward.k, &in.forward.v, &in.o, &in.d_o}) {
      std::fill_n(x->data(), x->count(), NAN);
    }
    write_all();
    this->poisoned = sequence;
  }
  template <class Change>
  std::string says(Change change) {
    const auto workspace =
        give_workspace(gradient, fa_backward_packed_workspace_bytes(&gradient, &packed));
    return said_of(fa_backward_last_error, fa_backward_packed, change, gradient, packed);
  }
  std::string says() {
    return says([](auto&, auto&) {});
  }
  // What lesson 01 says of each sequence.
  Verdicts verdicts() {
    Verdicts result;
    const Tensor<float, 4> all_q = read(d_q), all_k = read(d_k), all_v = read(d_v);
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (i == this->poisoned) continue;
      const backward::Gradients own{d_q.sequence(all_q, i), d_k.sequence(all_k, i),
                                    d_v.sequence(all_v, i)};
      if (is_empty(problems[i])) {
        for (const auto* x : {&own.d_q, &own.d_k, &own.d_v}) {
          require(all_are(*x, 0), "a gradient of a sequence without queries or keys is not 0");
        }
      } else {
        append(result, backward::Checker(problems[i], with_o[i]).check("", own));
      }
    }
    return result;
  }

  std::vector<backward::Inputs> with_o;
  PackedOf<H> d_o, d_q, d_k, d_v;
  G gradient;
};

}  // namespace
}  // namespace fa::FA_TARGET
