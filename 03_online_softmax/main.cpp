// Lesson 03: online softmax, the proofs that it is correct, and tiled attention.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "01_naive_attention/attention.hpp"
#include "02_safe_softmax/softmax.hpp"
#include "03_online_softmax/proof.hpp"
#include "03_online_softmax/row.hpp"
#include "03_online_softmax/steps.hpp"
#include "03_online_softmax/tiled.hpp"
#include "common/cli/program.hpp"
#include "common/cli/table.hpp"
#include "common/data/files.hpp"
#include "common/parallel/parallel_for.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"

namespace {

using namespace fa;
using namespace fa::online;

struct Choice {  // options of this lesson
  Tiles tiles;
  std::int64_t length = 8192;
  bool causal = false;
};

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Four keys with scores 3 2 5 1, in exact arithmetic.
void worked_example() {
  const int scores[] = {3, 2, 5, 1};
  const std::int64_t values[] = {23, 46, 69, 92};
  State<BaseTwo, Exact> x;
  cli::Table table({"score", "value", "m", "rescale", "p", "l", "O", "O / l"});
  for (int j = 0; j < 4; ++j) {
    const int m = std::max(x.m, scores[j]);
    const Exact rescale = BaseTwo::exp_diff(x.m, m);
    Unnormalised::step(x, scores[j], Exact(values[j]));
    table.add({std::to_string(scores[j]), std::to_string(values[j]), std::to_string(x.m),
               to_string(rescale), to_string(BaseTwo::exp_diff(scores[j], m)), to_string(x.l),
               to_string(x.o), to_string(Unnormalised::output(x))});
  }
  fmt::print("{}", table.text());
}

void passes_over_memory(cli::Program& program) {
  constexpr std::int64_t kLength = 4096, kDim = 64;
  const auto s = normal_tensor<float, 1>({kLength}, 1, 3.0);
  const auto v = normal_tensor<float, 2>({kLength, kDim}, 2);
  Tensor<float, 1> three_pass({kLength}), two_pass({kLength});
  const auto three = safe::safe_softmax<float>(s, three_pass);
  const auto two = two_pass_softmax<float>(s, two_pass);
  const auto one = one_pass<Unnormalised, float>(s, v);
  cli::Table table({"attention of one row", "passes", "scores read", "P written", "P read"});
  const auto add = [&](const char* name, const safe::Traffic& softmax) {
    table.add({name, std::to_string(softmax.passes + 1), std::to_string(softmax.reads),
               std::to_string(softmax.writes),
               std::to_string(softmax.writes)});  // by the matmul P V
  };
  add("three passes (lesson 02), then P V", three);
  add("two passes, then P V", two);
  table.add({"one pass", std::to_string(one.traffic.passes),
             std::to_string(one.traffic.reads - kLength * kDim), std::to_string(one.traffic.writes),
             "0"});
  program.detail(fmt::format("{} keys, head_dim {}; reads and writes in elements\n{}", kLength,
                             kDim, table.text()));

  const auto wide = converted<double>(s);
  const double bound = error_bound<float>(kLength, kLength, spread<float>(s), 1);
  Tensor<double, 1> p({kLength});
  safe::safe_softmax<double>(wide, p);
  double worst = 0;
  for (std::int64_t j = 0; j < kLength; ++j) {
    worst = std::max(worst, std::abs(two_pass(j) - p(j)));
  }
  program.check("two passes against lesson 02", worst, bound);
  const Vector<double> o = as_matrix(converted<double>(v).view()).transpose() *
                           Eigen::Map<Vector<double>>(p.data(), kLength);
  const double largest = as_matrix(v.view()).cwiseAbs().maxCoeff();
  program.check("one pass against lesson 02", (one.o.cast<double>() - o).cwiseAbs().maxCoeff(),
                bound * largest);
}

struct Law {
  const char* name;
  proof::Outcome (*check)(const proof::Cases&);
};

void check_laws(cli::Program& program, const proof::Cases& cases, const std::vector<Law>& laws) {
  program.detail(fmt::format("rows of up to {} scores from -{} to {} and -inf, base 2, exact\n",
                             cases.length, cases.size, cases.size));
  for (const Law& law : laws) {
    const proof::Outcome outcome = proof::at_run_time(law.check, cases);
    program.check_none(fmt::format("{}, {} cases", law.name, outcome.cases), outcome.holds ? 0 : 1,
                       "counterexample");
    if (!outcome.holds) {
      fmt::print("      fails for scores {}\n", to_string(outcome.counterexample));
    }
  }
}

void induction(cli::Program& program) {
  check_laws(
      program, {6, 3},
      {{"base case", proof::base_case},
       {"induction step", proof::induction_step},
       {"unnormalised (FA-2) follows the definition", proof::follows_definition<Unnormalised>},
       {"normalised (FA-1) follows the definition", proof::follows_definition<Normalised>}});
}

// Adds a row about a recurrence; returns whether it is correct.
template <class R>
bool add_recurrence(cli::Table& table, const proof::Row& row) {
  const proof::Outcome outcome =
      proof::at_run_time(proof::follows_definition<R>, proof::Cases{6, 3});
  if (outcome.holds) {
    table.add({R::name, "correct", "-", "-", "-", "-"});
    return true;
  }
  const proof::Row& scores = outcome.counterexample;
  table.add({R::name, "wrong", to_string(scores), to_string(outcome.found, scores.length),
             to_string(outcome.expected, scores.length),
             std::to_string(proof::first_departure<R>(row))});
  return false;
}

// Adds a row about each; returns how many are correct.
template <class... R>
int add_recurrences(cli::Table& table, const proof::Row& row) {
  return (0 + ... + add_recurrence<R>(table, row));
}

void correct_and_wrong_recurrences(cli::Program& program) {
  const proof::Row row = proof::Row{}.with(3).with(2).with(5).with(1);
  cli::Table table({"recurrence", "verdict", "counterexample", "result", "expected",
                    fmt::format("{} fails at", to_string(row))});
  const int right = add_recurrences<Unnormalised, Normalised>(table, row);
  using namespace wrong;
  const int wrong = add_recurrences<MixedNormalisation, DividedTwice, LocalSoftmax, SumNotRescaled,
                                    OutputNotRescaled, InvertedCorrection>(table, row);
  fmt::print("{}", table.text());
  program.check_none("8 recurrences", 2 - right + wrong, "wrong verdict");
}

void merge_laws(cli::Program& program) {
  check_laws(program, {5, 3},
             {{"merge is union", proof::merge_is_union},
              {"identity", proof::merge_has_identity},
              {"commutative", proof::merge_is_commutative},
              {"associative", proof::merge_is_associative},
              {"a step is a merge", proof::step_is_merge},
              {"any tiling", proof::any_tiling},
              {"any order", proof::any_order}});
}

// Attention of one row by the three passes of lesson 02, then P V.
Vector<float> three_passes(View<const float, 1> s, View<const float, 2> v) {
  Tensor<float, 1> p({s.size(0)});
  safe::safe_softmax<float>(s, p);
  Vector<float> o = Vector<float>::Zero(v.size(1));
  for (std::int64_t j = 0; j < s.size(0); ++j) {
    o += p(j) * Vector<float>(as_matrix(v).row(j));
  }
  return o;
}

// The largest error of each form of one row, in units of u max|v|.
void rounding(cli::Program& program) {
  constexpr std::int64_t kLength = 500, kDim = 8, kParts = 25;
  const auto v = normal_tensor<float, 2>({kLength, kDim}, 2);
  const auto wide_v = converted<double>(v);
  const double largest = as_matrix(wide_v.view()).cwiseAbs().maxCoeff();
  const double unit = epsilon<float>() / 2 * largest;
  cli::Table table({"scores", "three passes", "FA-2", "FA-1", fmt::format("in {} parts", kParts)});
  double worst = 0;
  const auto add = [&](const char* name, auto score) {
    Tensor<float, 1> s({kLength});
    fill_with(s.view(), score);
    const auto wide_s = converted<double>(s);
    Tensor<double, 1> p(wide_s.shape());
    safe::safe_softmax<double>(wide_s, p);
    const Vector<double> o =
        as_matrix(wide_v.view()).transpose() * Eigen::Map<Vector<double>>(p.data(), p.count());
    std::vector<std::string> cells{name};
    const auto error = [&](const Vector<float>& row, std::int64_t steps) {
      const double of_row = (row.cast<double>() - o).cwiseAbs().maxCoeff();
      worst =
          std::max(worst, of_row / error_bound<float>(kLength, steps, spread<float>(s), largest));
      cells.push_back(fmt::format("{:.1f}", of_row / unit));
    };
    error(three_passes(s, v), kLength);
    error(one_pass<Unnormalised, float>(s, v).o, kLength);
    error(one_pass<Normalised, float>(s, v).o, kLength);
    error(split<float>(s, v, kParts).o, kLength / kParts + kParts);
    table.add(cells);
  };
  add("normal", [](std::uint64_t i) { return random_normal(1, i); });
  add("rising", [](auto i) { return 0.1 * static_cast<double>(i); });
  add("falling", [](auto i) { return -0.1 * static_cast<double>(i); });
  add("ties", [](auto i) { return i % 3 == 0 ? 7.0 : 6.0; });
  add("+-10000", [](auto i) { return i % 2 == 0 ? -1e4 : 1e4; });
  add("half -inf", [](std::uint64_t i) {
    return i % 2 == 0 ? static_cast<double>(BaseE<double>::neg_inf) : random_normal(3, i);
  });
  program.detail(fmt::format("{} keys, float32; largest error of O in units of u max|v|\n{}",
                             kLength, table.text()));
  program.check("largest error / bound", worst, 1);
}

// One query of the input against all keys, split into parts.
void split_keys(cli::Program& program) {
  const cli::Input& input = program.input();
  const AttentionShape shape = attention_shape(input.q.shape(), input.k.shape(), input.v.shape());
  const auto q = converted<double>(input.q), k = converted<double>(input.k),
             v = converted<double>(input.v);
  const auto last_query = q.view().narrow(2, shape.length_q - 1, shape.length_q);
  const auto ref = naive::forward<double>(last_query, k, v);
  const double scale = AttentionOptions{}.scale_for(shape.head_dim);
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (const std::int64_t parts : {2, 3, 7, 64}) {
    double worst = 0;
    for_each_index(Shape<2>{shape.batch, shape.heads}, [&](const auto& i) {
      const auto keys = as_matrix(k.view().at(i[0]).at(i[1] / group));
      const auto values = v.view().at(i[0]).at(i[1] / group);
      const Vector<double> s =
          scale * (keys * as_matrix(last_query.at(i[0]).at(i[1])).row(0).transpose());
      const auto row = split<double>({s.data(), {s.size()}}, values, parts);
      for (std::int64_t c = 0; c < ref.o.size(3); ++c) {
        worst = std::max(worst, std::abs(row.o(c) - ref.o(i[0], i[1], 0, c)));
      }
      worst = std::max(worst, std::abs(row.lse - ref.lse(i[0], i[1], 0)));
    });
    // Both results are rounded in float64, twice for each term of a sum.
    const double terms = static_cast<double>(shape.head_dim + shape.length_k);
    program.check(
        fmt::format("last query, keys in {} parts", parts), worst,
        4 * terms * epsilon<double>() *
            std::max(
                1.0,
                as_matrix(View<const double, 2>(v.data(), {v.count(), 1})).cwiseAbs().maxCoeff()));
  }
}

// Lesson 01 on the same inputs.
naive::Forward<double> in_float64(View<const float, 4> q, View<const float, 4> k,
                                  View<const float, 4> v, const AttentionOptions& options) {
  return naive::forward<double>(converted<double>(q), converted<double>(k), converted<double>(v),
                                options);
}

// The `plain` of the acceptance rule for any tile size: this lesson's recurrence, key by key, in
// float32. Its sums are as long as those of tiles of one key.
naive::Forward<float> key_by_key(View<const float, 4> q, View<const float, 4> k,
                                 View<const float, 4> v, bool causal) {
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  const auto scale = static_cast<float>(AttentionOptions{}.scale_for(shape.head_dim));
  naive::Forward<float> result{Tensor<float, 4>(shape_of_o(q.shape(), v.shape())),
                               Tensor<float, 3>({shape.batch, shape.heads, shape.length_q})};
  parallel_for(shape.batch * shape.heads * shape.length_q, [&](std::int64_t index) {
    const std::int64_t i = index % shape.length_q, h = index / shape.length_q % shape.heads,
                       b = index / shape.length_q / shape.heads;
    const std::int64_t kv_head = h * shape.kv_heads / shape.heads;
    const std::int64_t seen =
        causal
            ? std::clamp<std::int64_t>(i + 1 + shape.length_k - shape.length_q, 0, shape.length_k)
            : shape.length_k;
    const auto values = v.at(b).at(kv_head).narrow(0, 0, seen);
    const auto keys = as_matrix(k.at(b).at(kv_head).narrow(0, 0, seen));
    Vector<float> s = keys * as_matrix(q.at(b).at(h)).row(i).transpose();
    s *= scale;
    const auto row = one_pass<Unnormalised, float>(View<const float, 1>(s.data(), {seen}), values);
    as_matrix(result.o.view().at(b).at(h)).row(i) = row.o;
    result.lse(b, h, i) = row.lse;
  });
  return result;
}

void tiled_on_the_input(cli::Program& program, const Choice& choice) {
  const cli::Input& input = program.input();
  AttentionOptions options;
  options.causal = choice.causal;
  const auto ref = in_float64(input.q.view(), input.k.view(), input.v.view(), options);
  const auto plain = key_by_key(input.q, input.k, input.v, choice.causal);
  const auto check = [&](const Tiles& tiles) {
    const auto out = tiled_forward<float>(input.q, input.k, input.v, options, tiles);
    const auto name = [&](const char* what) {
      return fmt::format("{}, tiles of {} x {}", what, tiles.block_m, tiles.block_n);
    };
    program.check(accept(name("o"), out.o, ref.o, plain.o));
    program.check(accept(name("lse"), out.lse, ref.lse, plain.lse));
    return out;
  };
  for (const Tiles tiles : {Tiles{1, 1}, Tiles{37, 53}}) check(tiles);
  const auto out = check(choice.tiles);
  if (program.save_directory()) {
    write_npy(*program.save_directory() / "o.npy", out.o);
    write_npy(*program.save_directory() / "lse.npy", out.lse);
  }
}

// What the tile stepper shows: a head that attends to the next word, over the first words of the
// text. An input with fewer heads shows its last one.
constexpr std::int64_t kStepHead = 8, kStepTokens = 16;
constexpr Tiles kStepTiles[] = {{4, 4}, {8, 4}, {5, 6}, {16, 16}};

Recording recorded(const cli::Input& input, bool causal, const Tiles& tiles) {
  const std::int64_t heads = input.q.size(1);
  const std::int64_t h = std::min(kStepHead, heads - 1);
  const std::int64_t kv_head = h * input.k.size(1) / heads;
  const auto part = [](const Tensor<float, 4>& x, std::int64_t head) {
    return x.view()
        .narrow(0, 0, 1)
        .narrow(1, head, head + 1)
        .narrow(2, 0, std::min(kStepTokens, x.size(2)));
  };
  return record(part(input.q, h), part(input.k, kv_head), part(input.v, kv_head), causal, tiles);
}

RecordingNames recorded_names(const cli::Input& input) {
  RecordingNames names;
  names.input = input.directory.filename().string();
  names.head = std::min(kStepHead, input.q.size(1) - 1);
  const bool same = input.q.size(2) == input.k.size(2);
  const auto name = [&](std::int64_t i, bool is_token) {
    return is_token && !input.tokens.empty() ? input.tokens[static_cast<std::size_t>(i)]
                                             : std::to_string(i);
  };
  for (std::int64_t i = 0; i < std::min(kStepTokens, input.q.size(2)); ++i) {
    names.queries.push_back(name(i, same));
  }
  for (std::int64_t j = 0; j < std::min(kStepTokens, input.k.size(2)); ++j) {
    names.keys.push_back(name(j, true));
  }
  return names;
}

// The first of the queries whose maximum rises most often.
std::int64_t most_rises(const Recording& run) {
  std::vector<int> rises(static_cast<std::size_t>(run.out.o.size(2)));
  for (const TileStep& step : run.steps) {
    for (std::int64_t i = 0; !step.skipped && i < step.queries; ++i) {
      rises[static_cast<std::size_t>(step.query + i)] += step.m(i) > step.m_before(i);
    }
  }
  return std::max_element(rises.begin(), rises.end()) - rises.begin();
}

// One row of the attention, tile by tile, and the file for the explorer docs/explorers/stepper.js.
void steps_of_tiles(cli::Program& program) {
  const cli::Input& input = program.input();
  const RecordingNames names = recorded_names(input);
  std::vector<Recording> runs;
  for (const bool causal : {false, true}) {
    for (const Tiles& tiles : kStepTiles) {
      runs.push_back(recorded(input, causal, tiles));
    }
  }

  const std::int64_t query = most_rises(runs[0]);
  fmt::print("query '{}' of head {}, {} keys, tiles of {} x {}\n",
             names.queries[static_cast<std::size_t>(query)], names.head, names.keys.size(),
             runs[0].tiles.block_m, runs[0].tiles.block_n);
  cli::Table table({"keys", "largest S", "m", "rescale", "l"});
  for (const TileStep& step : runs[0].steps) {
    const std::int64_t i = query - step.query;
    if (i < 0 || i >= step.queries) continue;
    const auto first = names.keys.begin() + step.key;
    table.add({fmt::format("{}", fmt::join(first, first + step.keys, " ")),
               fmt::format("{:.2f}", as_matrix(step.s.view()).row(i).maxCoeff()),
               fmt::format("{:.2f}", step.m(i)), fmt::format("{:.4f}", step.rescale(i)),
               fmt::format("{:.4f}", step.l(i))});
  }
  fmt::print("{}", table.text());

  double worst = 0;
  for (const Recording& run : runs) {
    for (const Verdict* verdict : {&run.o, &run.lse}) {
      worst = std::max({worst, verdict->accepted ? 0 : std::numeric_limits<double>::infinity(),
                        verdict->error.max_error / verdict->allowed_max});
    }
  }
  program.check(fmt::format("o and lse, {} runs: error / limit", runs.size()), worst, 1);
  if (program.save_directory()) {
    write_file(*program.save_directory() / "steps.json", steps_as_json(runs, names));
  }
}

void memory_of_tiles(const Tiles& tiles) {
  constexpr std::int64_t kDim = 64;
  cli::Table table(
      {"length", "q, k, v and o, KiB", "scores of lesson 01, KiB", "tiles per thread, KiB"});
  const auto kib = [](std::int64_t count) {
    return std::to_string(count * static_cast<std::int64_t>(sizeof(float)) / 1024);
  };
  for (std::int64_t length = 1024; length <= 65536; length *= 4) {
    const std::int64_t tile = 2 * tiles.block_m * kDim +       // q, o
                              2 * tiles.block_n * kDim +       // k, v
                              tiles.block_m * tiles.block_n +  // s
                              2 * tiles.block_m;               // m, l
    table.add({std::to_string(length), kib(4 * length * kDim), kib(length * length), kib(tile)});
  }
  fmt::print("One head, head_dim {}, float32, tiles of {} x {}\n{}", kDim, tiles.block_m,
             tiles.block_n, table.text());
}

void time_of_tiles(const Choice& choice) {
  const Shape<4> shape{1, 2, 4096, 64};
  const auto q = normal_tensor<float, 4>(shape, 1), k = normal_tensor<float, 4>(shape, 2),
             v = normal_tensor<float, 4>(shape, 3);
  const double whole = seconds([&] { naive::forward<float>(q, k, v); });
  const double tiled = seconds([&] { tiled_forward<float>(q, k, v, {}, choice.tiles); });
  cli::Table table({"forward pass", "time, s"});
  table.add({"lesson 01", fmt::format("{:.2f}", whole)});
  table.add({"tiled", fmt::format("{:.2f}", tiled)});
  fmt::print("q, k, v {}, float32\n{}", to_string(shape), table.text());
}

// A sequence whose scores would not fit into memory. Some rows are compared with lesson 01, each as
// a problem with one query.
void long_sequence(cli::Program& program, const Choice& choice) {
  constexpr std::int64_t kDim = 64, kSampled = 64;
  const std::int64_t n = choice.length;
  const Shape<4> shape{1, 1, n, kDim};
  const auto q = normal_tensor<float, 4>(shape, 1), k = normal_tensor<float, 4>(shape, 2),
             v = normal_tensor<float, 4>(shape, 3);
  AttentionOptions options;
  options.causal = choice.causal;
  program.detail(
      fmt::format("{} queries and keys, head_dim {}; the scores would take {:g} MiB\n", n, kDim,
                  static_cast<double>(n) * static_cast<double>(n) * sizeof(float) / (1 << 20)));
  naive::Forward<float> out;
  {
    cli::Progress progress(fmt::format("attention over {} keys", n),
                           tile_count(attention_shape(shape, shape, shape), choice.tiles));
    out = tiled_forward<float>(q, k, v, options, choice.tiles, [&] { progress.step(); });
  }
  const std::int64_t rows = std::min(n, kSampled);
  const Shape<2> sampled{rows, kDim};
  Tensor<float, 2> o(sampled);
  Tensor<double, 2> ref(sampled);
  Tensor<float, 2> plain(sampled);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t i = rows == 1 ? 0 : r * (n - 1) / (rows - 1);
    const std::int64_t keys = choice.causal ? i + 1 : n;
    const auto qi = q.view().narrow(2, i, i + 1);
    const auto ki = k.view().narrow(2, 0, keys), vi = v.view().narrow(2, 0, keys);
    copy(out.o.view().at(0).at(0).at(i), o.view().at(r));
    const auto exact = in_float64(qi, ki, vi, {});
    copy(exact.o.view().at(0).at(0).at(0), ref.view().at(r));
    const auto simple = key_by_key(qi, ki, vi, false);
    copy(simple.o.view().at(0).at(0).at(0), plain.view().at(r));
  }
  program.check(accept(fmt::format("o, {} rows of {}", rows, n), o, ref, plain));
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("03_online_softmax",
                       "Lesson 03: online softmax, its proofs, and tiled attention.");
  Choice choice;
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  program.option("--block-m", choice.tiles.block_m, 1, kMost, "queries per tile");
  program.option("--block-n", choice.tiles.block_n, 1, kMost, "keys per tile");
  program.option("--length", choice.length, 1, kMost, "number of queries and keys in section long");
  program.flag("--causal", choice.causal,
               "causal mask: a query sees only its own and earlier keys");

  program.section("example", "One score at a time: m, l and O stay up to date", worked_example);
  program.section("wrong", "Wrong recurrences, each with its simplest counterexample",
                  [&] { correct_and_wrong_recurrences(program); });
  program.section("steps",
                  "One row, tile by tile: where the maximum stays, the rescale factor is 1",
                  [&] { steps_of_tiles(program); });
  program.section_of_checks("passes", "Passes over memory", [&] { passes_over_memory(program); });
  program.section_of_checks("induction", "Proof by induction", [&] { induction(program); });
  program.section_of_checks("merge", "Laws of the merge", [&] { merge_laws(program); });
  program.section_of_checks("rounding", "Rounding errors", [&] { rounding(program); });
  program.section_of_checks("split", "Split keys", [&] { split_keys(program); });
  program.section_of_checks("tiled", "Tiled attention on the input",
                            [&] { tiled_on_the_input(program, choice); });
  program.section_of_checks("long", "Long sequence", [&] { long_sequence(program, choice); });
  program.section_on_request("memory", "Memory of tiled attention",
                             [&] { memory_of_tiles(choice.tiles); });
  program.section_on_request("time", "Time on this machine", [&] { time_of_tiles(choice); });
  return program.run(argc, argv);
}
