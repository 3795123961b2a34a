/// @file
/// The calls of the C interfaces of lessons 05 and 06 on the problem of a line, on outputs that are
/// poisoned, and what lesson 01 says of the results.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include "06_flash_backward/tests/gradient_call.cuh"
#include "06_flash_backward/tests/problem_line.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each program includes this

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

// Where scores do not fit 16 bits, the textbook's are infinite, and it sets no limit but the floor.
Verdicts beyond_the_textbook(Verdicts verdicts) {
  for (Verdict& verdict : verdicts) {
    const bool right = verdict.error.invalid == 0 && verdict.error.max_error <= verdict.floor;
    verdict.accepted = verdict.accepted || (verdict.plain.invalid > 0 && right);
  }
  return verdicts;
}

template <class H>
Verdicts forward(const Line& line, const Problem& p) {
  FunctorCall<H> x(p, functor_inputs(line, p, flash::functors::functor_inputs),
                   line.integer("gap"));
  fa_attention& a = x.given;
  DeviceBuffer<char> workspace(
      static_cast<std::int64_t>(line.is_functor() ? 0 : fa_workspace_bytes(&a)));
  workspace.zero();
  if (!line.is_functor()) {
    a.workspace = workspace.data(), a.workspace_bytes = static_cast<std::size_t>(workspace.count());
  }
  if (line.is("workspace", "0") && !line.is("kind", "bits")) a.workspace = nullptr;
  if (a.workspace == nullptr) a.workspace_bytes = 0;
  finish(line.is_functor() ? fa_forward_functor(&a, &x.functor) : fa_forward(&a), fa_last_error);
  return line.is_functor() ? beyond_the_textbook(x.verdicts())
                           : flash::Checker(p, x.inputs).check("", x.read());
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
  const bool hopper = can_run(device_properties(), kNeedsHopper);
  for (std::int64_t b = 0; b < (line.is("packed", "1") && hopper ? s.batch : 0); ++b) {
    const auto most = static_cast<std::int32_t>(s.length_q);
    const auto drawn = static_cast<std::int32_t>(random() % static_cast<unsigned>(most + 1));
    inputs.lengths_q.push_back(b == 0 ? most : random() % 4 == 0 ? 1 : drawn);
  }
  const auto below = [&](std::int64_t n) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(n));
  };
  if (line.is("asks", "window")) inputs.window = 16 + below(s.length_k + 16);
  if (line.is("asks", "parts")) inputs.part_keys = 128 * (1 + below(2));
  for (std::int64_t h = 0; h < (line.is("asks", "sinks") ? s.heads : 0); ++h) {
    inputs.sinks.push_back(static_cast<float>(below(9) - 4));
  }
  const std::int64_t words = s.batch * s.length_q * ((s.length_q + 31) / 32);
  for (std::int64_t i = 0; i < (line.is("asks", "tree") ? words : 0); ++i) {
    inputs.tree.push_back(static_cast<std::uint32_t>(random()));
  }
  const std::int64_t page = line.integer("page");
  Lengths pages(static_cast<std::size_t>(s.batch * most_pages(p, page)));
  std::iota(pages.begin(), pages.end(), 1);  // page 0, of no sequence, is NaN
  std::shuffle(pages.begin(), pages.end(), random);
  DecodeCall<H> x(p, inputs, page, pages, line.integer("gap"));
  if (line.is("ragged", "0")) x.cache.lengths_k = nullptr;
  if (hopper) x.cache.kernel = static_cast<std::int32_t>(line.integer("kernel"));
  x.give_workspace();
  if (appends) {
    x.take_new_keys();
    finish(fa_append(&x.attention, &x.cache, &x.new_keys), fa_last_error);
    require(x.has_new_keys(), "the cache is not what it should be");
    return {};
  }
  finish(fa_decode(&x.attention, &x.cache), fa_last_error);
  return x.verdicts();
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
  const std::int64_t gap = line.integer("gap");
  const auto deterministic = static_cast<std::int32_t>(line.integer("deterministic"));
  if (line.is_functor()) {
    FunctorGradientCall<H> x(p, functor_inputs(line, p, backward::functors::functor_inputs), gap);
    x.gradient.deterministic = deterministic;
    finish(fa_backward_functor(&x.gradient, &x.functor, x.d_bias(), x.d_sinks()),
           fa_backward_last_error);
    Verdicts verdicts = x.verdicts();
    accept_what_is_promised(verdicts, line, x.inputs.lse);
    return verdicts;
  }
  const backward::Inputs in = backward::make_inputs(p, line.values(), line.value_seed());
  PlacedGradient<H> x(p, in, deterministic != 0, gap);
  const auto workspace = give_workspace(x.gradient, fa_backward_workspace_bytes(&x.gradient));
  finish(fa_backward(&x.gradient), fa_backward_last_error);
  return backward::Checker(p, in).check("", x.result());
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
  if (is_backward) {
    PackedGradientCall<H> x(s, p.causal, lengths, line.values(), line.value_seed());
    x.gradient.attention.dropout = p.dropout;
    x.gradient.deterministic = static_cast<std::int32_t>(line.integer("deterministic"));
    const auto workspace =
        give_workspace(x.gradient, fa_backward_packed_workspace_bytes(&x.gradient, &x.packed));
    finish(fa_backward_packed(&x.gradient, &x.packed), fa_backward_last_error);
    return x.verdicts();
  }
  PackedCall<H> x(s, p.causal, lengths, line.values(), line.value_seed());
  x.attention.dropout = p.dropout;
  if (line.is("workspace", "0")) x.attention.workspace = nullptr;
  finish(fa_forward_packed(&x.attention, &x.packed), fa_last_error);
  return x.verdicts();
}

}  // namespace
}  // namespace fa::FA_TARGET
