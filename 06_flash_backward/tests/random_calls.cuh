/// @file
/// The calls of the C interfaces of lessons 05 and 06 on the problem of a line, on outputs that are
/// poisoned, and what lesson 01 says of the results.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "05_flash_forward/src/decode.hpp"
#include "05_flash_forward/tests/functor_specs.hpp"
#include "06_flash_backward/interface/flash_attention_backward.h"
#include "06_flash_backward/src/functors.hpp"
#include "06_flash_backward/tests/problem_line.hpp"
#include "common/attention/tests/placed.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each program includes this

using namespace attention;
using G = fa_gradient;
using Verdicts = std::vector<Verdict>;

// A call was refused.
struct Refusal {
  Text said;
};
// Waits for a call to end.
void finish(int status, const char* (*last_error)()) {
  if (status == FA_STATUS_REFUSED) throw Refusal{last_error()};
  if (status != FA_STATUS_OK) throw std::runtime_error(last_error());
  device_synchronize();
}
void require(bool holds, const char* otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}
template <class H>
Tensor<float, 4> read(Placed<H>& placed) {
  Tensor<float, 4> values = placed.read();
  require(placed.gaps_are_poison(), "it wrote between rows");
  return values;
}
void add(Verdicts& to, const Verdicts& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Extreme parameters instead of the usual ones.
void change_tables(const Line& line, const Problem& p, FunctorTables& tables) {
  const std::uint64_t seed = line.seed();
  for (float& slope : tables.slopes) slope *= static_cast<float>(line.number("slopes"));
  for (std::size_t h = 0; h < tables.sinks.size() && !line.is("sinks", "normal"); h += 2) {
    tables.sinks[h] = static_cast<float>(line.number("sinks"));
  }
  if (line.is("mask", "none")) return;
  const auto value = static_cast<float>(line.number("mask"));
  const std::int64_t n = p.shape.length_k, cut = random_bits(seed, 0) % (n + 1);
  const auto half = [&](std::int64_t i) { return random_uniform(~seed, i) < 0.5; };
  const auto masked = [&](std::int64_t at, std::int64_t query, std::int64_t key) {
    return line.is("where", "all") || (line.is("where", "tail") && key >= cut) ||
           (line.is("where", "head") && key < cut) || (line.is("where", "rows") && half(query)) ||
           (line.is("where", "keys") && half(key)) || (line.is("where", "elements") && half(at)) ||
           (line.is("where", "above") && key > query + n - p.shape.length_q);
  };
  for (std::size_t i = 0; i < tables.bias.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (masked(at, at / n % p.shape.length_q, at % n)) tables.bias[i] = value;
  }
}

FunctorSpec spec_of(const Line& line, const Problem& p) {
  FunctorSpec spec;
  const auto kind = std::find(kKinds.begin(), kKinds.end(), line["kind"]);
  require(kind != kKinds.end(), "there is no such kind");
  spec.kind = static_cast<FunctorKind>(kind - kKinds.begin());
  const Texts sides = split(line["window"], '/');
  const auto side = [&](std::size_t of) {
    const bool drawn = sides.at(of) == "random";
    return static_cast<int>(drawn ? random_bits(~p.seed, of) % p.shape.length_k
                                  : std::stoll(sides[of]));
  };
  spec.left = side(0), spec.right = side(1);
  spec.prefix = static_cast<int>(line.integer("prefix"));
  spec.block_size = static_cast<int>(line.integer("block"));
  spec.cap = static_cast<float>(line.number("cap"));
  const auto [of_batch, of_head] = line.pair("biases");
  spec.bias_batch = of_batch - 1, spec.bias_head = of_head - 1;
  return spec;
}
// The inputs of a call, by the function of its lesson.
template <class FunctorInputsOf>
auto functor_inputs(const Line& line, const Problem& p, FunctorInputsOf inputs_of) {
  return inputs_of(p, spec_of(line, p), line.values(), line.value_seed(),
                   [&](FunctorTables& tables) { change_tables(line, p, tables); });
}

template <class H>
Verdicts forward(const Line& line, const Problem& p) {
  const auto inputs = functor_inputs(line, p, flash::functors::functor_inputs);
  PlacedForward<H, fa_attention> x(p, line.integer("gap"));
  x.write(inputs);
  fa_attention& a = x.given;
  const DeviceFunctor tables(inputs.spec, inputs.tables);
  const fa_functor functor = given_functor(tables.spec);
  const bool optional = !line.is("kind", "bits") && line.is("workspace", "0");
  const std::size_t bytes = optional            ? 0
                            : line.is_functor() ? fa_functor_workspace_bytes(&a, &functor)
                                                : fa_workspace_bytes(&a);
  DeviceBuffer<char> workspace(static_cast<std::int64_t>(bytes));
  workspace.zero();
  a.workspace = bytes > 0 ? workspace.data() : nullptr;
  a.workspace_bytes = bytes;
  finish(line.is_functor() ? fa_forward_functor(&a, &functor) : fa_forward(&a), fa_last_error);
  const Outputs outputs{
      read(x.o), x.lse.template tensor<float, 3>({p.shape.batch, p.shape.heads, p.shape.length_q})};
  return line.is_functor() ? flash::functors::FunctorChecker(p, inputs).check("", outputs)
                           : flash::Checker(p, inputs).check("", outputs);
}

// fa_decode(), or fa_append() of the last length_q keys of each sequence.
template <class H>
Verdicts decode(const Line& line, const Problem& p) {
  const AttentionShape& s = p.shape;
  const bool appends = line.is("call", "append");
  std::mt19937_64 random(line.seed());
  flash::decode::DecodeInputs inputs =
      flash::decode::decode_inputs(p, line.values(), line.value_seed());
  const auto length_k = static_cast<std::int32_t>(s.length_k);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const auto drawn = static_cast<std::int32_t>(random() % static_cast<unsigned>(length_k + 1));
    inputs.lengths_k.push_back(line.is("ragged", "0") || random() % 4 == 0 ? length_k : drawn);
  }
  const std::int64_t page = line.integer("page");
  const std::int64_t most = page == 0 ? 1 : (s.length_k + page - 1) / page;
  std::vector<std::int32_t> table(static_cast<std::size_t>(s.batch * most));
  std::iota(table.begin(), table.end(), 1);  // page 0, of no sequence, is NaN
  std::shuffle(table.begin(), table.end(), random);
  Shape<4> shape = p.shape_of_kv();
  if (page > 0) shape = {s.batch * most + 1, s.kv_heads, page, s.head_dim};
  // The cache without the last keys of each sequence; all else is NaN.
  const auto cached = [&](const Tensor<float, 4>& rows, std::int64_t without) {
    Tensor<float, 4> result(shape);
    std::fill_n(result.data(), result.count(), NAN);
    for_each_index(rows.shape(), [&](const Shape<4>& at) {
      if (at[2] >= inputs.lengths_k[static_cast<std::size_t>(at[0])] - without) return;
      Shape<4> to = at;
      if (page > 0) {
        to[0] = table[static_cast<std::size_t>(at[0] * most + at[2] / page)];
        to[2] = at[2] % page;
      }
      result.view()[to] = rows.view()[at];
    });
    return result;
  };
  const std::int64_t gap = line.integer("gap");
  Placed<H> q(p.shape_of_q(), p.layout, s.head_dim + gap), k(shape, p.layout, s.head_dim + 2 * gap),
      v(shape, p.layout, s.head_dim + gap), o(p.shape_of_o(), p.layout, s.head_dim + 3 * gap);
  q.write(inputs.q);
  k.write(cached(inputs.k, appends ? s.length_q : 0));
  v.write(cached(inputs.v, appends ? s.length_q : 0));
  DeviceBuffer<float> lse(s.batch * s.heads * s.length_q);
  DeviceBuffer<std::int32_t> lengths(s.batch), pages(s.batch * most);
  lengths.upload(inputs.lengths_k.data());
  pages.upload(table.data());
  auto a = given_attention<fa_attention>(p);
  q.give(a.q, a.q_strides), k.give(a.k, a.k_strides), v.give(a.v, a.v_strides);
  o.give(a.o, a.o_strides);
  a.lse = lse.data();
  fa_cache cache{};
  cache.size = sizeof cache;
  cache.lengths_k = line.is("ragged", "0") ? nullptr : lengths.data();
  if (page > 0) {
    cache.block_table = pages.data();
    cache.most_pages = most, cache.cache_pages = shape[0], cache.page_size = page;
  }
  if (appends) {
    const Shape<4> of_new{s.batch, s.kv_heads, s.length_q, s.head_dim};
    Placed<H> new_k(of_new, p.layout, s.head_dim + gap), new_v(of_new, p.layout, s.head_dim);
    const auto take = [&](Placed<H>& to, const Tensor<float, 4>& rows) {
      Tensor<float, 4> taken(of_new);
      for_each_index(of_new, [&](const Shape<4>& at) {
        const std::int64_t key =
            inputs.lengths_k[static_cast<std::size_t>(at[0])] - s.length_q + at[2];
        taken.view()[at] = key < 0 ? NAN : rows(at[0], at[1], key, at[3]);
      });
      to.write(taken);
    };
    take(new_k, inputs.k), take(new_v, inputs.v);
    fa_new_keys keys{};
    keys.size = sizeof keys;
    new_k.give(keys.k, keys.k_strides), new_v.give(keys.v, keys.v_strides);
    finish(fa_append(&a, &cache, &keys), fa_last_error);
    const auto same = [&](Placed<H>& placed, const Tensor<float, 4>& rows) {
      const Tensor<float, 4> got = read(placed), right = cached(rows, 0);
      return std::equal(got.data(), got.data() + got.count(), right.data(), [](float x, float y) {
        return x == y || (std::isnan(x) && std::isnan(y));
      });
    };
    require(same(k, inputs.k), "k of the cache is not what it should be");
    require(same(v, inputs.v), "v of the cache is not what it should be");
    return {};
  }
  DeviceBuffer<char> workspace(static_cast<std::int64_t>(fa_decode_workspace_bytes(&a)));
  workspace.zero();
  a.workspace = workspace.data();
  a.workspace_bytes = static_cast<std::size_t>(workspace.count());
  finish(fa_decode(&a, &cache), fa_last_error);
  return flash::decode::DecodeChecker(p, inputs).check(
      "", {read(o), lse.tensor<float, 3>({s.batch, s.heads, s.length_q})});
}

// The tensors of a backward call, Placed or packed.
template <class T>
struct GradientTensors {
  T q, k, v, o, d_o, d_q, d_k, d_v;

  G given(const Problem& p, const float* lse) {
    G g{};
    g.size = sizeof g;
    fa_attention& a = g.attention = given_attention<fa_attention>(p);
    q.give(a.q, a.q_strides), k.give(a.k, a.k_strides), v.give(a.v, a.v_strides);
    o.give(a.o, a.o_strides), d_o.give(g.d_o, g.d_o_strides);
    d_q.give(g.d_q, g.d_q_strides), d_k.give(g.d_k, g.d_k_strides);
    d_v.give(g.d_v, g.d_v_strides);
    a.lse = const_cast<float*>(lse);
    return g;
  }
  backward::Gradients result() { return {read(d_q), read(d_k), read(d_v)}; }
};
// Memory that a backward call may use, poisoned.
DeviceBuffer<char> give_workspace(G& g, std::size_t bytes) {
  DeviceBuffer<char> workspace(static_cast<std::int64_t>(bytes));
  g.workspace = workspace.data(), g.workspace_bytes = bytes;
  return workspace;
}

// Gradients of functors are finite where a row's LSE is beyond 1e4, as the header says; and the
// derivative of a soft cap, 1 - tanh^2, is computed from a tanh that is rounded to 2^-24.
void accept_what_is_promised(Verdicts& verdicts, const Line& line, const Tensor<float, 3>& lse) {
  const bool far = std::any_of(lse.data(), lse.data() + lse.count(), [](float one) {
    return std::isfinite(one) && std::abs(one) > 1e4f;
  });
  const double rounded = line.is("kind", "soft_cap") ? 1e-6 : 0;
  for (Verdict& verdict : verdicts) {
    const bool right = far || verdict.error.max_error <= rounded;
    verdict.accepted = verdict.accepted || (verdict.error.invalid == 0 && right);
  }
}

template <class H>
Verdicts backward_of(const Line& line, const Problem& p) {
  backward::functors::FunctorInputs in;
  if (line.is_functor()) {
    in = functor_inputs(line, p, backward::functors::functor_inputs);
  } else {
    static_cast<backward::Inputs&>(in) = backward::make_inputs(p, line.values(), line.value_seed());
  }
  const std::int64_t gap = line.integer("gap"), d = p.shape.head_dim, d_v = p.columns_v();
  const Layout l = p.layout, other = Layout::kHeadsFirst;
  GradientTensors<Placed<H>> x{
      {p.shape_of_q(), l, d + gap},       {p.shape_of_kv(), l, d + 2 * gap},
      {p.shape_of_v(), other, d_v + gap}, {p.shape_of_o(), l, d_v + 3 * gap},
      {p.shape_of_o(), l, d_v + 2 * gap}, {p.shape_of_q(), l, d + 4 * gap},
      {p.shape_of_kv(), l, d + 3 * gap},  {p.shape_of_v(), other, d_v + 2 * gap}};
  x.q.write(in.forward.q), x.k.write(in.forward.k), x.v.write(in.forward.v), x.o.write(in.o);
  x.d_o.write(in.d_o);
  const DeviceBuffer<float> lse(in.lse);
  G g = x.given(p, lse.data());
  g.deterministic = static_cast<std::int32_t>(line.integer("deterministic"));
  if (!line.is_functor()) {
    const auto workspace = give_workspace(g, fa_backward_workspace_bytes(&g));
    finish(fa_backward(&g), fa_backward_last_error);
    return backward::Checker(p, in).check("", x.result());
  }
  const DeviceFunctor tables(in.spec, in.tables);
  const fa_functor f = given_functor(tables.spec);
  const auto workspace = give_workspace(g, fa_backward_functor_workspace_bytes(&g, &f));
  DeviceBuffer<float> d_bias(static_cast<std::int64_t>(in.tables.bias.size())),
      d_sinks(static_cast<std::int64_t>(in.tables.sinks.size()));
  d_bias.zero();
  finish(fa_backward_functor(&g, &f, d_bias.count() > 0 ? d_bias.data() : nullptr,
                             d_sinks.count() > 0 ? d_sinks.data() : nullptr),
         fa_backward_last_error);
  Verdicts verdicts = backward::functors::FunctorChecker(p, in).check(
      "", {x.result(), d_bias.tensor<float, 1>({d_bias.count()}),
           d_sinks.tensor<float, 1>({d_sinks.count()})});
  accept_what_is_promised(verdicts, line, in.lse);
  return verdicts;
}

// fa_forward_packed() or fa_backward_packed().
template <class H>
Verdicts packed(const Line& line, const Problem& p) {
  const bool is_backward = line.is("call", "backward_packed");
  const AttentionShape& s = p.shape;
  std::mt19937_64 random(line.seed());
  PackedLengths lengths;
  for (std::int64_t i = 0; i < line.integer("sequences"); ++i) {
    const auto draw = [&](std::int64_t most) {
      return static_cast<std::int32_t>(
          random() % 8 == 0 ? 0 : 1 + random() % static_cast<std::uint64_t>(most));
    };
    const std::int32_t of_q = draw(s.length_q);
    lengths.q.push_back(i == 0 ? static_cast<std::int32_t>(s.length_q) : of_q);
    lengths.k.push_back(s.length_q == s.length_k ? lengths.q.back() : draw(s.length_k));
  }
  PackedList<fa_packed> list(s, p.causal, lengths);
  const auto tensor = [&](bool of_keys) {
    return PackedOf<H>(of_keys ? lengths.k : lengths.q, of_keys ? s.kv_heads : s.heads, s.head_dim);
  };
  GradientTensors<PackedOf<H>> x{tensor(false), tensor(true),  tensor(true), tensor(false),
                                 tensor(false), tensor(false), tensor(true), tensor(true)};
  std::vector<Tensor<float, 4>> q, k, v, o, d_o;
  std::vector<backward::Inputs> inputs;
  const std::int64_t tokens = x.q.shape[2];
  std::vector<float> lse(static_cast<std::size_t>(s.heads * tokens), -INFINITY);
  for (std::size_t i = 0; i < list.problems.size(); ++i) {
    Problem& own = list.problems[i];
    own.type = p.type;
    inputs.emplace_back();
    if (!is_empty(own) && is_backward) {
      inputs.back() = backward::make_inputs(own, line.values(), line.value_seed() + i);
    } else if (!is_empty(own)) {
      inputs.back().forward = make_inputs(own, line.values(), line.value_seed() + i);
    }
    const backward::Inputs& in = inputs.back();
    q.push_back(in.forward.q), k.push_back(in.forward.k), v.push_back(in.forward.v);
    o.push_back(in.o), d_o.push_back(in.d_o);
    for (std::int64_t at = 0; at < in.lse.count(); ++at) {
      const std::int64_t length = in.lse.size(2);
      lse[static_cast<std::size_t>(at / length * tokens + x.q.begins[i] + at % length)] =
          in.lse.data()[at];
    }
  }
  x.q.write(q), x.k.write(k), x.v.write(v);
  if (is_backward) x.o.write(o), x.d_o.write(d_o);
  DeviceBuffer<float> device_lse(s.heads * tokens);
  if (is_backward) device_lse.upload(lse.data());
  G g = x.given(list.all(tokens, x.k.shape[2]), device_lse.data());
  fa_attention& a = g.attention;
  a.type = static_cast<std::int32_t>(p.type);
  a.dropout = p.dropout;
  g.deterministic = static_cast<std::int32_t>(line.integer("deterministic"));
  Verdicts verdicts;
  const auto zeros = [](const Tensor<float, 4>& all) { require(all_are(all, 0), "not zeros"); };
  if (is_backward) {
    const auto workspace = give_workspace(g, fa_backward_packed_workspace_bytes(&g, &list.packed));
    finish(fa_backward_packed(&g, &list.packed), fa_backward_last_error);
    const backward::Gradients all = x.result();
    for (std::size_t i = 0; i < list.problems.size(); ++i) {
      const backward::Gradients own{x.d_q.sequence(all.d_q, i), x.d_k.sequence(all.d_k, i),
                                    x.d_v.sequence(all.d_v, i)};
      if (is_empty(list.problems[i])) {
        zeros(own.d_q), zeros(own.d_k), zeros(own.d_v);
      } else {
        add(verdicts, backward::Checker(list.problems[i], inputs[i]).check("", own));
      }
    }
    return verdicts;
  }
  DeviceBuffer<unsigned> counter(4);
  counter.zero();
  a.workspace = line.is("workspace", "0") ? nullptr : counter.data();
  a.workspace_bytes = 16;
  finish(fa_forward_packed(&a, &list.packed), fa_last_error);
  const Tensor<float, 4> all_o = read(x.o);
  const auto all_lse = device_lse.tensor<float, 3>({1, s.heads, tokens});
  for (std::size_t i = 0; i < list.problems.size(); ++i) {
    if (lengths.q[i] == 0) continue;
    const Outputs own{x.o.sequence(all_o, i), converted<float>(all_lse.view().narrow(
                                                  2, x.o.begins[i], x.o.begins[i] + lengths.q[i]))};
    if (is_empty(list.problems[i])) {
      zeros(own.o);
      require(all_are(own.lse, -INFINITY), "lse of a sequence without keys");
    } else {
      add(verdicts, flash::Checker(list.problems[i], inputs[i].forward).check("", own));
    }
  }
  return verdicts;
}

}  // namespace
}  // namespace fa::FA_TARGET
