/// @file
/// A recorded run of tiled attention, step by step, for the explorer docs/explorers/stepper.js.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "03_online_softmax/tiled.hpp"
#include "common/check/acceptance.hpp"
#include "common/data/files.hpp"

namespace fa::online {

/// One step: a tile of keys for a tile of queries.
struct TileStep {
  /// @{ The first query and key, and their numbers.
  std::int64_t query = 0, queries = 0, key = 0, keys = 0;
  /// @}
  /// Whether the tile is fully masked: nothing was computed, and all tensors are empty.
  bool skipped = false;
  /// @{ [queries, keys]: the scores S, -infinity for masked keys, and P = exp(S - m).
  Tensor<float, 2> s{}, p{};
  /// @}
  /// @{ [queries]: running maxima and sums before and after this tile; m is -infinity before the
  /// first. The rescale factor exp(m_before - m); 1 where m does not change.
  Tensor<float, 1> m_before{}, m{}, l_before{}, l{}, rescale{};
  /// @}
  /// @{ [queries, head_dim]: O before this tile, not divided by l; times the rescale factor; plus P
  /// V.
  Tensor<float, 2> o_before{}, o_rescaled{}, o{};
  /// @}
};

/// A run and its comparison with lesson 01.
struct Recording {
  /// @{ The problem, and the tiles of keys for each tile of queries in the order of the run.
  Tiles tiles;
  bool causal = false;
  double scale = 0;
  std::vector<TileStep> steps;
  /// @}
  /// The result of tiled_forward(): O [1, 1, length_q, head_dim], and LSE.
  naive::Forward<float> out;
  /// @{ `out` against lesson 01.
  Verdict o, lse;
  /// @}
};

/// Runs tiled_forward() on one head and records its steps. All values are those of the run, except
/// for the rescale factors, which are recomputed from the maxima.
/// @param q [1, 1, length_q, head_dim], any strides
/// @param k [1, 1, length_k, head_dim], any strides
/// @param v [1, 1, length_k, head_dim], any strides
/// @throws std::invalid_argument as tiled_forward(), and for more than one batch or head
inline Recording record(View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                        bool causal, const Tiles& tiles) {
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  if (shape.batch != 1 || shape.heads != 1) {
    throw std::invalid_argument(fmt::format(
        "q has the shape {}; a recording needs one batch and one head", fa::to_string(q.shape())));
  }
  AttentionOptions options;
  options.causal = causal;
  const auto masked = [&](std::int64_t query, std::int64_t key) {
    return causal && key > query + shape.length_k - shape.length_q;
  };
  Recording run;
  run.tiles = tiles;
  run.causal = causal;
  run.scale = options.scale_for(shape.head_dim);

  std::mutex mutex;  // several threads record tiles
  const auto watch = [&](const TileMoment<float>& now) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (now.stage == TileStage::kScored) {
      TileStep step{now.query, now.s.size(0), now.key, now.s.size(1)};
      step.s = converted<float>(now.s);
      for_each_index(step.s.shape(), [&](const Shape<2>& i) {
        if (masked(now.query + i[0], now.key + i[1])) {
          step.s.view()[i] = -std::numeric_limits<float>::infinity();
        }
      });
      step.m_before = converted<float>(now.m);
      step.l_before = converted<float>(now.l);
      step.o_before = converted<float>(now.o);
      run.steps.push_back(std::move(step));
      return;
    }
    TileStep& step = *std::find_if(run.steps.rbegin(), run.steps.rend(),
                                   [&](const TileStep& s) { return s.query == now.query; });
    if (now.stage == TileStage::kAdded) {
      step.o = converted<float>(now.o);
      return;
    }
    step.p = converted<float>(now.s);
    step.m = converted<float>(now.m);
    step.l = converted<float>(now.l);
    step.o_rescaled = converted<float>(now.o);
    step.rescale = Tensor<float, 1>({step.queries});
    for (std::int64_t i = 0; i < step.queries; ++i) {
      const float before = step.m_before(i), after = step.m(i);  // may be -infinity
      step.rescale(i) = before == after ? 1.f : std::exp(before - after);
    }
  };
  run.out = tiled_forward<float>(q, k, v, options, tiles, {}, watch);

  // The skipped tiles at their places.
  for (std::int64_t i = 0; i < shape.length_q; i += tiles.block_m) {
    const std::int64_t queries = std::min(tiles.block_m, shape.length_q - i);
    for (std::int64_t j = 0; j < shape.length_k; j += tiles.block_n) {
      if (!masked(i + queries - 1, j)) continue;
      run.steps.push_back({i, queries, j, std::min(tiles.block_n, shape.length_k - j), true});
    }
  }
  std::sort(run.steps.begin(), run.steps.end(), [](const TileStep& a, const TileStep& b) {
    return std::tie(a.query, a.key) < std::tie(b.query, b.key);
  });

  const auto ref = naive::forward<double>(converted<double>(q), converted<double>(k),
                                          converted<double>(v), options);
  const auto plain = naive::forward<float>(q, k, v, options);
  run.o = accept("o", run.out.o, ref.o, plain.o);
  run.lse = accept("lse", run.out.lse, ref.lse, plain.lse);
  return run;
}

/// Labels of a recording.
struct RecordingNames {
  /// @{ The input and its head; a label for each query and each key.
  std::string input;
  std::int64_t head = 0;
  std::vector<std::string> queries, keys;
  /// @}
};

/// @{ Values as JSON: numbers with six digits, null for infinities and NaN.
inline std::string json(double x) {
  return std::isfinite(x) ? fmt::format("{:.6g}", x) : "null";
}
template <int Rank>
std::string json(View<const float, Rank> values) {
  std::vector<std::string> elements;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if constexpr (Rank == 1) {
      elements.push_back(json(double{values(i)}));
    } else {
      elements.push_back(json(values.at(i)));
    }
  }
  return fmt::format("[{}]", fmt::join(elements, Rank == 1 ? "," : ",\n"));
}
inline std::string json(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const std::string& word : words) texts.push_back(json_text(word));
  return fmt::format("[{}]", fmt::join(texts, ","));
}
/// @}

/// A step as JSON.
inline std::string step_as_json(const TileStep& step) {
  std::string text =
      fmt::format("{{\"kind\":\"{}\",\"query\":{},\"queries\":{},\"key\":{},\"keys\":{}",
                  step.skipped ? "skipped" : "tile", step.query, step.queries, step.key, step.keys);
  if (step.skipped) return text + "}";
  for (const auto& [name, values] : {std::pair{"s", json<2>(step.s)},
                                     {"p", json<2>(step.p)},
                                     {"m_before", json<1>(step.m_before)},
                                     {"m", json<1>(step.m)},
                                     {"l_before", json<1>(step.l_before)},
                                     {"l", json<1>(step.l)},
                                     {"rescale", json<1>(step.rescale)},
                                     {"o_before", json<2>(step.o_before)},
                                     {"o_rescaled", json<2>(step.o_rescaled)},
                                     {"o", json<2>(step.o)}}) {
    text += fmt::format(",\n\"{}\":{}", name, values);
  }
  return text + "}";
}

/// The division by l, after the last step of some queries, as JSON.
/// @param last of their steps that was not skipped, or null
inline std::string finish_as_json(const Recording& run, std::int64_t query, std::int64_t queries,
                                  const TileStep* last) {
  Tensor<float, 1> m({queries}), l({queries});
  Tensor<float, 2> o({queries, run.out.o.size(3)});
  std::fill_n(m.data(), queries, -std::numeric_limits<float>::infinity());
  return fmt::format(
      "{{\"kind\":\"finish\",\"query\":{},\"queries\":{},\n\"m\":{},\n\"l\":{},"
      "\n\"o_before\":{},\n\"o\":{},\n\"lse\":{}}}",
      query, queries, json<1>(last ? last->m : m), json<1>(last ? last->l : l),
      json<2>(last ? last->o : o),
      json<2>(run.out.o.view().at(0).at(0).narrow(0, query, query + queries)),
      json<1>(run.out.lse.view().at(0).at(0).narrow(0, query, query + queries)));
}

/// Recordings of one head as JSON. A step has the kind "tile" or "skipped"; after the last tile of
/// keys follows one of the kind "finish", where O is divided by l.
inline std::string steps_as_json(const std::vector<Recording>& runs, const RecordingNames& names) {
  std::vector<std::string> texts;
  for (const Recording& run : runs) {
    std::vector<std::string> steps;
    const TileStep* last = nullptr;
    for (std::size_t n = 0; n < run.steps.size(); ++n) {
      const TileStep& step = run.steps[n];
      if (!step.skipped) last = &step;
      steps.push_back(step_as_json(step));
      if (n + 1 < run.steps.size() && run.steps[n + 1].query == step.query) continue;
      steps.push_back(finish_as_json(run, step.query, step.queries, last));
      last = nullptr;
    }
    texts.push_back(fmt::format(
        "{{\"mask\":\"{}\",\"block_m\":{},\"block_n\":{},\n\"max_error_o\":{},"
        "\"allowed_o\":{},\"max_error_lse\":{},\"allowed_lse\":{},\n\"steps\":[\n{}]}}",
        run.causal ? "causal" : "full", run.tiles.block_m, run.tiles.block_n,
        json(run.o.error.max_error), json(run.o.allowed_max), json(run.lse.error.max_error),
        json(run.lse.allowed_max), fmt::join(steps, ",\n")));
  }
  return fmt::format(
      "{{\"input\":{},\"head\":{},\"head_dim\":{},\"scale\":{},\n"
      "\"queries\":{},\n\"keys\":{},\n\"runs\":[\n{}]}}\n",
      json_text(names.input), names.head, runs.empty() ? 0 : runs[0].out.o.size(3),
      json(runs.empty() ? 0 : runs[0].scale), json(names.queries), json(names.keys),
      fmt::join(texts, ",\n"));
}

}  // namespace fa::online
