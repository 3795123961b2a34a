#include "03_online_softmax/steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/data/files.hpp"

namespace fa::online {
namespace {

template <int Rank>
Tensor<float, Rank> owned(View<const float, Rank> view) {
  return converted<float>(view);
}

// The rescale factor. It is 1 where the maximum does not change, also at -infinity.
float rescale(float before, float after) {
  return before == after ? 1.f : std::exp(before - after);
}

// Whether this key is masked for this query.
bool is_masked(const Recording& run, std::int64_t query, std::int64_t key, std::int64_t length_k) {
  return run.causal && key > query + length_k - run.out.o.size(2);
}

// Inserts the skipped tiles at their places.
void add_skipped(Recording& run, std::int64_t length_k) {
  const std::int64_t length_q = run.out.o.size(2);
  for (std::int64_t i = 0; i < length_q; i += run.tiles.block_m) {
    const std::int64_t queries = std::min(run.tiles.block_m, length_q - i);
    for (std::int64_t j = 0; j < length_k; j += run.tiles.block_n) {
      if (!is_masked(run, i + queries - 1, j, length_k)) continue;
      TileStep step;
      step.query = i;
      step.queries = queries;
      step.key = j;
      step.keys = std::min(run.tiles.block_n, length_k - j);
      step.skipped = true;
      run.steps.push_back(std::move(step));
    }
  }
}

void sort(std::vector<TileStep>& steps) {
  std::sort(steps.begin(), steps.end(), [](const TileStep& a, const TileStep& b) {
    return std::tie(a.query, a.key) < std::tie(b.query, b.key);
  });
}

}  // namespace

Recording record(View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                 bool causal, const Tiles& tiles) {
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  if (shape.batch != 1 || shape.heads != 1) {
    throw std::invalid_argument(fmt::format(
        "q has the shape {}; a recording needs one batch and one head", to_string(q.shape())));
  }
  AttentionOptions options;
  options.causal = causal;
  Recording run;
  run.tiles = tiles;
  run.causal = causal;
  run.scale = options.scale_for(shape.head_dim);

  std::mutex mutex;  // several threads record tiles
  const auto watch = [&](const TileMoment<float>& now) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (now.stage == TileStage::kScored) {
      TileStep step;
      step.query = now.query;
      step.queries = now.s.size(0);
      step.key = now.key;
      step.keys = now.s.size(1);
      step.s = owned(now.s);
      step.m_before = owned(now.m);
      step.l_before = owned(now.l);
      step.o_before = owned(now.o);
      run.steps.push_back(std::move(step));
      return;
    }
    TileStep& step = *std::find_if(run.steps.rbegin(), run.steps.rend(),
                                   [&](const TileStep& s) { return s.query == now.query; });
    if (now.stage == TileStage::kAdded) {
      step.o = owned(now.o);
      return;
    }
    step.p = owned(now.s);
    step.m = owned(now.m);
    step.l = owned(now.l);
    step.o_rescaled = owned(now.o);
    step.rescale = Tensor<float, 1>({step.queries});
    for (std::int64_t i = 0; i < step.queries; ++i) {
      step.rescale(i) = rescale(step.m_before(i), step.m(i));
    }
  };
  run.out = tiled_forward<float>(q, k, v, options, tiles, {}, watch);
  add_skipped(run, shape.length_k);
  sort(run.steps);

  const auto ref = naive::forward<double>(converted<double>(q), converted<double>(k),
                                          converted<double>(v), options);
  const auto plain = naive::forward<float>(q, k, v, options);
  run.o = accept("o", run.out.o, ref.o, plain.o);
  run.lse = accept("lse", run.out.lse, ref.lse, plain.lse);
  return run;
}

// ---------------------------------------------------------------- JSON

namespace {

std::string number(double x) {
  return std::isfinite(x) ? fmt::format("{:.6g}", x) : "null";
}

std::string array(View<const float, 1> values) {
  std::string text = "[";
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    text += (i > 0 ? "," : "") + number(values(i));
  }
  return text + "]";
}

// show(i, j) says whether an element is written; others become null.
template <class Show>
std::string array(View<const float, 2> values, Show show) {
  std::string text = "[";
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    text += i > 0 ? ",\n[" : "[";
    for (std::int64_t j = 0; j < values.size(1); ++j) {
      text += (j > 0 ? "," : "") + (show(i, j) ? number(values(i, j)) : "null");
    }
    text += "]";
  }
  return text + "]";
}
std::string array(View<const float, 2> values) {
  return array(values, [](std::int64_t, std::int64_t) { return true; });
}

std::string array(const std::vector<std::string>& words) {
  std::string text = "[";
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i > 0 ? "," : "") + json_text(words[i]);
  }
  return text + "]";
}

std::string step_as_json(const Recording& run, const TileStep& step, std::int64_t length_k) {
  std::string text =
      fmt::format("{{\"kind\":\"{}\",\"query\":{},\"queries\":{},\"key\":{},\"keys\":{}",
                  step.skipped ? "skipped" : "tile", step.query, step.queries, step.key, step.keys);
  if (step.skipped) return text + "}";
  text += ",\n\"s\":" + array(step.s, [&](std::int64_t i, std::int64_t j) {
            return !is_masked(run, step.query + i, step.key + j, length_k);
          });
  for (const auto& [name, values] : {std::pair{"p", array(step.p)},
                                     {"m_before", array(step.m_before)},
                                     {"m", array(step.m)},
                                     {"l_before", array(step.l_before)},
                                     {"l", array(step.l)},
                                     {"rescale", array(step.rescale)},
                                     {"o_before", array(step.o_before)},
                                     {"o_rescaled", array(step.o_rescaled)},
                                     {"o", array(step.o)}}) {
    text += fmt::format(",\n\"{}\":{}", name, values);
  }
  return text + "}";
}

// The division by l. `last` is the last step of these queries that was not skipped, or null.
std::string finish_as_json(const Recording& run, std::int64_t query, std::int64_t queries,
                           const TileStep* last) {
  const std::int64_t dim = run.out.o.size(3);
  Tensor<float, 1> m({queries}), l({queries});
  Tensor<float, 2> o({queries, dim});
  std::fill_n(m.data(), queries, -std::numeric_limits<float>::infinity());
  const auto final_o = run.out.o.view().at(0).at(0).narrow(0, query, query + queries);
  const auto lse = run.out.lse.view().at(0).at(0).narrow(0, query, query + queries);
  return fmt::format(
      "{{\"kind\":\"finish\",\"query\":{},\"queries\":{},\n\"m\":{},\n\"l\":{},"
      "\n\"o_before\":{},\n\"o\":{},\n\"lse\":{}}}",
      query, queries, array(last ? last->m.view() : m.view()),
      array(last ? last->l.view() : l.view()), array(last ? last->o.view() : o.view()),
      array(View<const float, 2>(final_o)), array(View<const float, 1>(lse)));
}

std::string run_as_json(const Recording& run, std::int64_t length_k) {
  std::string text = fmt::format(
      "{{\"mask\":\"{}\",\"block_m\":{},\"block_n\":{},\n\"max_error_o\":{},"
      "\"allowed_o\":{},\"max_error_lse\":{},\"allowed_lse\":{},\n\"steps\":[",
      run.causal ? "causal" : "full", run.tiles.block_m, run.tiles.block_n,
      number(run.o.error.max_error), number(run.o.allowed_max), number(run.lse.error.max_error),
      number(run.lse.allowed_max));
  const TileStep* last = nullptr;
  for (std::size_t n = 0; n < run.steps.size(); ++n) {
    const TileStep& step = run.steps[n];
    if (!step.skipped) last = &step;
    text += (n > 0 ? ",\n" : "\n") + step_as_json(run, step, length_k);
    if (n + 1 == run.steps.size() || run.steps[n + 1].query != step.query) {
      text += ",\n" + finish_as_json(run, step.query, step.queries, last);
      last = nullptr;
    }
  }
  return text + "]}";
}

}  // namespace

std::string steps_as_json(const std::vector<Recording>& runs, const RecordingNames& names) {
  std::string text = fmt::format(
      "{{\"input\":{},\"head\":{},\"head_dim\":{},\"scale\":{},\n"
      "\"queries\":{},\n\"keys\":{},\n\"runs\":[\n",
      json_text(names.input), names.head, runs.empty() ? 0 : runs[0].out.o.size(3),
      number(runs.empty() ? 0 : runs[0].scale), array(names.queries), array(names.keys));
  for (std::size_t r = 0; r < runs.size(); ++r) {
    text +=
        (r > 0 ? ",\n" : "") + run_as_json(runs[r], static_cast<std::int64_t>(names.keys.size()));
  }
  return text + "]}\n";
}

}  // namespace fa::online
