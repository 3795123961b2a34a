#include "05_flash_forward/timeline.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "05_flash_forward/ladder.hpp"
#include "common/cli/table.hpp"
#include "common/files/write_file.hpp"
#include "common/lab/timeline.hpp"

namespace fa::flash {
namespace {

// Rungs that are drawn at the same problem have the same scale: so many cycles.
constexpr double kScale = 36000;

const std::vector<std::string> kTensors{"Q", "K", "V", "O"};

std::string words_of(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  return fmt::format("{} queries, {} keys, head_dim {}{}", s.length_q,
                     s.length_k, s.head_dim,
                     problem.causal ? ", causal" : "");
}

Problem problem_of(std::int64_t length_q, std::int64_t length_k,
                   std::int64_t head_dim, bool causal) {
  Problem problem =
      ladder::problem_of({1, 1, 1, length_q, length_k, head_dim}, causal);
  problem.type = Type::kFloat16;
  return problem;
}

std::string percent(const lab::Timeline& timeline) {
  return fmt::format("{:.0f} %", 100 * timeline.tensor_share());
}

// Cycles and how busy the tensor cores are.
void add(std::vector<std::string>& cells, const lab::Timeline& timeline) {
  cells.push_back(fmt::format("{:.0f}", timeline.cycles));
  cells.push_back(percent(timeline));
}

// If the tensor cores take products of two warpgroups in turn.
lab::Costs alternating() {
  lab::Costs costs;
  costs.waiting_products = 1;
  return costs;
}

// How busy the tensor cores are without a mask: in the problem that is drawn, in a longer one, and with other costs.
void show_lengths(const std::vector<const Rung*>& rungs) {
  const Problem drawn = problem_of(256, 512, 128, false),
                longer = problem_of(256, 4096, 128, false);
  lab::Costs at_once;
  at_once.copy_latency = 0;
  at_once.copied_bytes = 1 << 20;
  cli::Table table({"tensor cores busy", "cycles", "512 keys", "alternating",
                    "4096 keys", "copies at once"});
  for (const Rung* rung : rungs) {
    std::vector<std::string> cells{rung->name};
    add(cells, timeline_of(*rung, drawn));
    cells.push_back(percent(timeline_of(*rung, drawn, alternating())));
    cells.push_back(percent(timeline_of(*rung, longer)));
    cells.push_back(percent(timeline_of(*rung, longer, at_once)));
    table.add(cells);
  }
  fmt::print(
      "{}\n{}"
      "alternating: 512 keys, if products of two warpgroups alternate\n"
      "copies at once: 4096 keys, if copies took no time\n\n",
      words_of(drawn), table.text());
}

// What a mask leaves.
void show_mask(const std::vector<const Rung*>& rungs) {
  cli::Table table(
      {"tensor cores busy", "cycles", "no mask", "cycles", "causal"});
  for (const Rung* rung : rungs) {
    std::vector<std::string> cells{rung->name};
    for (const bool causal : {false, true}) {
      add(cells, timeline_of(*rung, problem_of(384, 512, 64, causal)));
    }
    table.add(cells);
  }
  fmt::print(
      "{}; rungs 09 to 13 multiply 128 columns,\nhalf of them zeros\n{}\n",
      words_of(problem_of(384, 512, 64, false)), table.text());
}

// What the warps of each warpgroup do, as shares of the time.
void show_shares(const lab::NamedTimeline& one) {
  cli::Table table({"% of the time", "softmax", "waits for products",
                    "for copies", "for others", "for stores"});
  for (const lab::Lane& lane : lab::lanes_of(one.timeline)) {
    using Kind = lab::Span::Kind;
    const auto share = [&](Kind kind) {
      double sum = 0;
      for (const lab::Span& span : one.timeline.warps) {
        if (span.warp == lane.warp && span.kind == kind) {
          sum += span.end - span.begin;
        }
      }
      return fmt::format("{:.0f}", 100 * sum / one.timeline.cycles);
    };
    table.add({lane.name, share(Kind::kWork), share(Kind::kWaitsForProducts),
               share(Kind::kWaitsForCopy), share(Kind::kWaitsForOthers),
               share(Kind::kWaitsForStores)});
  }
  fmt::print("{}\n{:.0f} cycles, tensor cores busy for {}\n{}\n", one.name,
             one.timeline.cycles, percent(one.timeline), table.text());
}

}  // namespace

Problem drawn_problem(const Rung& rung) {
  return rung.name < "14" ? problem_of(256, 512, 128, false)
                          : problem_of(384, 512, 64, true);
}

bool has_timeline(const Rung& rung) {
  return rung.name >= "09";
}

lab::Timeline timeline_of(const Rung& rung, const Problem& problem,
                          const lab::Costs& costs) {
  const Inputs inputs = make_inputs(problem, Values::kNormal, 1);
  return lab::replay(
      lab::record([&] { rung.prepare(problem, inputs).launch(); }), costs);
}

void show_timelines(const Machine& machine, const TimelineOptions& options) {
  std::vector<const Rung*> rungs;
  for (const Rung& rung : machine.rungs) {
    if (has_timeline(rung) &&
        rung.name.find(options.kernel) != std::string::npos) {
      rungs.push_back(&rung);
    }
  }
  if (rungs.empty() && options.svg != "-") {
    fmt::print("Time lines are of rungs 09 and later: {} has none.\n",
               options.kernel);
    return;
  }
  std::vector<lab::NamedTimeline> drawn;
  for (const Rung* rung : rungs) {
    const Problem problem = drawn_problem(*rung);
    const std::string name =
        fmt::format("{}, {}", rung->name, words_of(problem));
    drawn.push_back({name, timeline_of(*rung, problem)});
    // Turns make a difference only if products of two warpgroups can alternate.
    if (rung->name == "11_overlap" || rung->name == "12_ping_pong") {
      drawn.push_back({name + ", if products alternate",
                       timeline_of(*rung, problem, alternating())});
    }
  }
  const std::string svg =
      drawn.empty()
          ? ""
          : lab::draw_timelines(drawn, kTensors,
                                rungs.front()->name < "14" ? kScale : 0);
  if (options.svg == "-") {
    fmt::print("{}", svg);
    return;
  }
  fmt::print("On one multiprocessor: a model, not a measurement\n\n");
  if (options.kernel.empty()) {
    show_lengths(rungs);
    show_mask(rungs);
  } else {
    for (const lab::NamedTimeline& one : drawn) show_shares(one);
  }
  if (!options.svg.empty()) {
    write_file(options.svg, svg);
    fmt::print("The time line: {}\n", options.svg);
  }
  if (!options.json.empty()) {
    write_file(options.json, lab::timelines_json(drawn, kTensors));
    fmt::print("The time line for programs: {}\n", options.json);
  }
}

}  // namespace fa::flash
