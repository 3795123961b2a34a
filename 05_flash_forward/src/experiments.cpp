#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/src/sections.hpp"
#include "05_flash_forward/src/tile_sizes.hpp"
#include "common/attention/host/timing.hpp"
#include "common/cli/results.hpp"
#include "common/cli/table.hpp"
#include "common/data/files.hpp"
#include "common/lab/trace.hpp"

namespace fa::flash {
namespace tiles {
namespace {

std::int64_t ceil_div(std::int64_t size, std::int64_t by) {
  return (size + by - 1) / by;
}

// What the blocks of a head do, summed up.
struct Work {
  std::int64_t key_rows = 0;  // of K, and as many of V, that are fetched
  std::int64_t scores = 0;    // that are computed
  std::int64_t visible = 0;   // of these, what the softmax needs
};

Work count_work(const Tile& tile, const Problem& problem) {
  const AttentionShape& s = problem.shape;
  // visible_keys() of the kernels
  const auto seen = [&](std::int64_t query) {
    return !problem.causal
               ? s.length_k
               : std::clamp<std::int64_t>(query + 1 + s.length_k - s.length_q, 0, s.length_k);
  };
  Work work;
  for (std::int64_t i = 0; i < s.length_q; ++i) work.visible += seen(i);
  for (std::int64_t i = 0; i < s.length_q; i += tile.queries) {
    const std::int64_t steps = ceil_div(seen(i + tile.queries - 1), tile.keys);
    work.key_rows += std::min(s.length_k, steps * tile.keys);
    work.scores += tile.queries * steps * tile.keys;
  }
  return work;
}

}  // namespace

std::string Tile::name() const {
  return fmt::format("{} x {}, {} warps", queries, keys, warps);
}

std::int64_t Tile::blocks(const Problem& problem) const {
  const AttentionShape& s = problem.shape;
  return s.batch * s.heads * ceil_div(s.length_q, queries);
}

std::int64_t Tile::traffic(const Problem& problem) const {
  const AttentionShape& s = problem.shape;
  const std::int64_t q_and_o = 2 * s.length_q, k_and_v = 2 * count_work(*this, problem).key_rows;
  const std::int64_t of_head = 2 * s.head_dim * (q_and_o + k_and_v) + 4 * s.length_q;  // with LSE
  return s.batch * s.heads * of_head;
}

double Tile::masked_share(const Problem& problem) const {
  const Work work = count_work(*this, problem);
  return 1 - static_cast<double>(work.visible) / static_cast<double>(work.scores);
}

}  // namespace tiles

namespace {

constexpr std::int64_t kHeadDims[] = {64, 128};

bool fits(const tiles::Kernel& kernel, const DeviceProperties& device) {
  return kernel.rung && can_run(device, kNeedsMma.with_shared(kernel.tile.shared_bytes));
}

// The tiles on the backend that the program uses.
tiles::Backend tiles_on(const Backend& backend) {
  std::vector<tiles::Backend> all = tiles::backends();
  const auto found = std::find_if(all.begin(), all.end(), [&](const tiles::Backend& one) {
    return (one.kind == "gpu") == (backend.kind == "gpu");
  });
  if (found == all.end()) {
    throw std::logic_error("there are no tiles for the backend " + backend.kind);
  }
  return *found;
}

// What a tile does on odd sizes, full and causal.
struct Trial {
  double error_ratio = 0;  // the largest error / its limit
  std::int64_t bytes = 0;  // of global memory, asked for without a mask
  std::int64_t causal_bytes = 0;
};

// Checks all tiles. The order of `trials` is theirs; those that do not fit have none.
std::vector<std::optional<Trial>> try_tiles(cli::Program& program, const Backend& backend,
                                            const tiles::Backend& on) {
  std::vector<std::optional<Trial>> trials(on.kernels.size());
  std::int64_t off = 0;
  for (const std::int64_t head_dim : kHeadDims) {
    for (const bool causal : {false, true}) {
      const Problem problem = problem_of(Type::kBFloat16, {1, 1, 1, 150, 139, head_dim}, causal);
      const Inputs inputs = make_inputs(problem, Values::kNormal, 1);
      const Checker checker(problem, inputs);
      for (std::size_t i = 0; i < on.kernels.size(); ++i) {
        const tiles::Kernel& kernel = on.kernels[i];
        if (kernel.tile.head_dim != head_dim || !fits(kernel, backend.properties)) {
          continue;
        }
        if (!trials[i]) trials[i] = Trial();
        std::optional<Outputs> outputs;
        const auto work = [&] { outputs = kernel.rung->run(problem, inputs); };
        std::optional<lab::Trace> seen;
        if (on.kind == "watched") {
          seen = lab::trace({kernel.tile.name(), "", {}}, work);
        } else {
          work();
        }
        for (const Verdict& verdict : checker.check(
                 fmt::format("{}, D {}{}", kernel.tile.name(), head_dim, causal ? ", causal" : ""),
                 *outputs)) {
          trials[i]->error_ratio = std::max(trials[i]->error_ratio, error_over_tolerance(verdict));
          if (!verdict.accepted) program.check(verdict);  // with its place
        }
        if (seen) {
          (causal ? trials[i]->causal_bytes : trials[i]->bytes) = seen->global_bytes;
          off += std::abs(seen->global_bytes - kernel.tile.traffic(problem));
        }
      }
    }
  }
  double worst = 0;
  for (const auto& trial : trials) {
    if (trial) worst = std::max(worst, trial->error_ratio);
  }
  program.check("tiles: largest error / limit", worst, 1);
  if (on.kind == "watched") {
    program.check_none("tiles, traffic formula", off, "unexpected byte");
  }
  return trials;
}

// What the lab can say about tiles: no times.
void show_trials(const Backend& backend, const tiles::Backend& on,
                 const std::vector<std::optional<Trial>>& trials) {
  const bool counted = on.kind == "watched";
  cli::Table table(
      {"D", "queries x keys", "shared, B", "error / limit", "traffic, B", "causal, B"});
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const tiles::Tile& tile = on.kernels[i].tile;
    std::vector<std::string> cells{std::to_string(tile.head_dim), tile.name(),
                                   std::to_string(tile.shared_bytes)};
    const auto& trial = trials[i];
    cells.push_back(trial ? fmt::format("{:.2f}", trial->error_ratio) : "-");
    for (const auto bytes : {&Trial::bytes, &Trial::causal_bytes}) {
      cells.push_back(trial && counted ? std::to_string(*trial.*bytes) : "-");
    }
    table.add(cells);
  }
  fmt::print(
      "One head, 150 queries, 139 keys, bfloat16; shared memory per block, of "
      "which\n{} has {} B (-: does not fit); traffic to and from global memory\n{}\n",
      backend.properties.name, backend.properties.shared_bytes, table.text());
}

// A field of a row.
auto& value_of(cli::Measurement& row, const std::string& field) {
  const auto found =
      std::find_if(row.begin(), row.end(), [&](const auto& cell) { return cell.first == field; });
  return found != row.end() ? found->second : row.emplace_back(field, "").second;
}

std::string text_of(cli::Measurement row, const std::string& field) {
  const auto& value = value_of(row, field);
  if (const auto* error = std::get_if<double>(&value)) {
    return fmt::format("{:.1e}", *error);
  }
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole ? std::to_string(*whole) : std::get<std::string>(value);
}

// Prints rows, and adds them to the record.
void report(std::vector<cli::Measurement>& record, const std::string& title,
            const std::vector<cli::Measurement>& rows, const std::vector<std::string>& names) {
  fmt::print("{}\n{}\n", title, cli::table_of(rows, names));
  record.insert(record.end(), rows.begin(), rows.end());
}

// Each tile on one problem, whose group the title begins with.
void time_tiles(std::vector<cli::Measurement>& record, const Backend& backend,
                const tiles::Backend& on, const Problem& problem, const std::string& group,
                const std::string& title) {
  const AttentionShape& s = problem.shape;
  std::vector<cli::Measurement> rows;
  for (const tiles::Kernel& kernel : on.kernels) {
    const tiles::Tile& tile = kernel.tile;
    if (tile.head_dim != s.head_dim) continue;
    cli::Measurement row;
    if (fits(kernel, backend.properties)) {
      const auto prepared = kernel.rung->prepare(problem, timed_inputs(s.length_q, s.head_dim));
      row = time_work(backend, problem, tile.name(), prepared.launch, kMatmuls, 20);
      value_of(row, "group") = group;
      value_of(row, "title") = title;
      const auto takes = backend.resources(prepared.launch).front();
      const int at_once = takes.blocks * backend.properties.sm_count;
      row.emplace_back("waves", static_cast<double>(tile.blocks(problem)) / at_once);
      row.emplace_back("percent_hidden", 100 * tile.masked_share(problem));
    } else {
      row = {{"group", group},
             {"title", title},
             {"kernel", tile.name()},
             {"length", s.length_q},
             {"shared_bytes", static_cast<std::int64_t>(tile.shared_bytes)}};
    }
    row.emplace_back("note", !fits(kernel, backend.properties) ? "does not fit"
                             : tile.finished                   ? "rung 08"
                                                               : " ");
    rows.push_back(row);
  }
  report(record, title, rows, {"kernel", "note"});
}

// The fastest rung that supports a type is the last one; else what the C interface chooses.
Rung best_of(const Backend& backend, Type type) {
  const auto found =
      std::find_if(backend.rungs.rbegin(), backend.rungs.rend(), [&](const Rung& rung) {
        return std::find(rung.types.begin(), rung.types.end(), type) != rung.types.end();
      });
  return found == backend.rungs.rend() ? backend.dispatched(backend.properties) : *found;
}

// Errors of the best kernel for each type beside those of the textbook algorithm.
void compare_types(cli::Program& program, const Backend& backend,
                   std::vector<cli::Measurement>& record) {
  const std::int64_t n = backend.kind == "gpu" ? 1000 : 150;
  double worst = 0;
  std::array<std::vector<cli::Measurement>, 2> rows;  // of O and of LSE
  for (const std::int64_t head_dim : kHeadDims) {
    for (const Type type : kTypes) {
      const Problem problem = problem_of(type, {1, 2, 2, n, n, head_dim});
      const Rung rung = best_of(backend, type);
      const Inputs inputs = make_inputs(problem, Values::kNormal, 1);
      const auto verdicts =
          Checker(problem, inputs)
              .check(fmt::format("{}, {}", rung.name, name_of(type)), rung.run(problem, inputs));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const Verdict& verdict = verdicts.at(i);
        if (!verdict.accepted) program.check(verdict);
        worst = std::max(worst, error_over_tolerance(verdict));
        const Distance &error = verdict.error, &plain = verdict.plain;
        const char* const what = i == 0 ? "O" : "LSE";
        rows[i].push_back(
            {{"group", fmt::format("errors of {}", what)},
             {"title", fmt::format("{}, {} queries and keys", what, problem.shape.length_q)},
             {"kernel", rung.name},
             {"type", name_of(type)},
             {"head_dim", head_dim},
             {"max_error", error.max_error / error.max_reference},
             {"plain_max_error", plain.max_error / error.max_reference},
             {"rms_error", error.rms_error / error.rms_reference},
             {"plain_rms_error", plain.rms_error / error.rms_reference}});
      }
    }
  }
  cli::Table table(
      {"tensor", "type", "D", "kernel", "max error", "textbook's", "rms error", "textbook's"});
  for (const auto& of_tensor : rows) {
    for (const cli::Measurement& row : of_tensor) {
      std::vector<std::string> cells{of_tensor == rows[0] ? "O" : "LSE"};
      for (const char* field : {"type", "head_dim", "kernel", "max_error", "plain_max_error",
                                "rms_error", "plain_rms_error"}) {
        cells.push_back(text_of(row, field));
      }
      table.add(cells);
      record.push_back(row);
    }
  }
  fmt::print(
      "Errors against float64, {} queries and keys, beside those of the "
      "textbook\nalgorithm in the same type; relative to the largest element and to the rms\n{}\n",
      n, table.text());
  program.check("types: largest error / limit", worst, 1);
}

// Rates and memory from short lengths to long ones.
void time_lengths(std::vector<cli::Measurement>& record, const Backend& backend) {
  struct Line {
    const char* kernel;
    Type type;
    int repeats;
  };
  std::vector<Line> lines = {
      {"01_unfused", Type::kFloat32, 5},         {"03_flash_2", Type::kFloat32, 5},
      {"04_register_tiles", Type::kFloat32, 20}, {"08_edge_masks", Type::kFloat16, 20},
      {"08_edge_masks", Type::kBFloat16, 20},
  };
  lines.erase(std::remove_if(lines.begin(), lines.end(),
                             [&](const Line& line) {  // that is left out
                               return std::none_of(
                                   backend.rungs.begin(), backend.rungs.end(),
                                   [&](const Rung& rung) { return rung.name == line.kernel; });
                             }),
              lines.end());
  std::vector<std::string> headings{"N"};
  for (const Line& line : lines) {
    headings.push_back(fmt::format("{:.2}, {}", line.kernel, name_of(line.type)));
  }
  headings.emplace_back("additional MiB, 01");
  cli::Table table(headings);
  const char* const group = "lengths, D 64";
  for (std::int64_t n = 128; n <= 16384; n *= 2) {
    std::vector<std::string> cells{std::to_string(n)};
    std::string beside = "-";
    for (const Line& line : lines) {
      const Problem problem = timed_problem(line.type, 64, false, n);
      const std::string kernel = line.kernel;
      const Rung& rung = find_rung(backend, kernel);
      std::optional<Rung::Prepared> prepared;
      try {
        prepared = rung.prepare(problem, timed_inputs(n, 64));
      } catch (const std::runtime_error& error) {  // too little memory
        fmt::print("N = {}, {}: {}\n", n, line.kernel, error.what());
        cells.emplace_back("-");
        continue;
      }
      cli::Measurement row =
          time_work(backend, problem, line.kernel, prepared->launch, kMatmuls, line.repeats);
      value_of(row, "group") = group;
      value_of(row, "title") = "Lengths, D 64, B x N = 16384, H x D = 2048";
      value_of(row, "type") = name_of(line.type);
      row.emplace_back("extra_bytes", prepared->extra_bytes);
      cells.push_back(fmt::format("{:.1f}", std::get<double>(value_of(row, "tflops"))));
      if (line.kernel == std::string("01_unfused")) {
        beside = std::to_string(prepared->extra_bytes >> 20);
      }
      record.push_back(row);
    }
    cells.push_back(beside);
    table.add(cells);
  }
  fmt::print(
      "TFLOP/s by length, D 64, B x N = 16384, H x D = 2048; only 01 "
      "allocates memory\nin addition to its inputs and outputs\n{}\n",
      table.text());
}

}  // namespace

void show_experiments(cli::Program& program, const Backend& backend, const cli::RecordOptions& to) {
  const bool gpu = backend.kind == "gpu";
  if (!gpu && !to.results.empty()) {
    throw std::invalid_argument("--results records times on a GPU, and none is used");
  }
  const tiles::Backend on = tiles_on(backend);
  std::vector<cli::Measurement> record;
  if (gpu) fmt::print("On {}\n\n", backend.properties.name);
  const auto trials = try_tiles(program, backend, on);
  fmt::print("\n");
  if (!gpu) {
    show_trials(backend, on, trials);
  } else {
    for (const std::int64_t head_dim : kHeadDims) {
      for (const bool causal : {false, true}) {
        const Problem problem = timed_problem(Type::kBFloat16, head_dim, causal, 4096);
        const std::string group = "tiles, " + problem.group();
        time_tiles(record, backend, on, problem, group,
                   fmt::format("{}, B = {}, H = {}, N = {}", group, problem.shape.batch,
                               problem.shape.heads, problem.shape.length_q));
      }
      // As many blocks of 128 queries as fit an H200 at once with D = 64, two on each SM; and some
      // more.
      for (const std::int64_t length : {1024, 1152}) {
        Problem alone = timed_problem(Type::kBFloat16, head_dim, false, length);
        alone.shape.batch = 1;
        const std::string group = "tiles, " + alone.group() + ", one sequence";
        time_tiles(record, backend, on, alone, group,
                   fmt::format("{}, H = {}", group, alone.shape.heads));
      }
    }
  }
  compare_types(program, backend, record);
  if (!gpu) {
    fmt::print("No GPU is used, so no kernel is timed.\n");
    return;
  }
  fmt::print("\n");
  time_lengths(record, backend);
  if (to.results.empty()) return;
  cli::write_results(to.results, backend.properties,
                     "05_flash_forward --device gpu --section experiments", record, to.commit);
  fmt::print("Recorded in {}\n", printable(to.results));
}

}  // namespace fa::flash
