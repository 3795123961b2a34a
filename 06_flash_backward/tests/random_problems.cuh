/// @file
/// All calls of the C interfaces of lessons 05 and 06 on random problems, and on the problems of
/// other projects' tests (suites.txt): a program for the lab and one for GPUs. Each result is
/// compared with lesson 01 in float64 by the acceptance rule. What is wrong is printed as a line
/// that repeats it: --problem "LINE".
#define DOCTEST_CONFIG_IMPLEMENT  // of headers that tests have, too
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "06_flash_backward/tests/random_calls.cuh"
#include "common/cli/program.hpp"
#include "common/cli/table.hpp"
#include "common/parallel/parallel_for.hpp"

namespace fa::FA_TARGET {
namespace {

// What came of a problem. kPooled: right with more values.
struct Outcome {
  enum { kRight, kPooled, kRefused, kWrong } is;
  Text why;  // the argument that is not allowed, or what is wrong
};

Verdicts verdicts_of(const Line& line) {
  const Problem p = line.problem();
  return with_type(p.type, [&](auto zero) {
    using H = decltype(zero);
    const Text call = line["call"];
    if (call == "decode" || call == "append") return decode<H>(line, p);
    if (call == "packed" || call == "backward_packed") return packed<H>(line, p);
    if (call == "backward" || call == "backward_functor") return backward_of<H>(line, p);
    require(call == "forward" || call == "functor", "there is no such call");
    return forward<H>(line, p);
  });
}

// What is said of the first verdict that is not accepted.
Text refusal_in(const Verdicts& verdicts) {
  const auto at = std::find_if(verdicts.begin(), verdicts.end(),
                               [](const Verdict& verdict) { return !verdict.accepted; });
  return at == verdicts.end() ? "" : at->report();
}

// The rule for tensors of a problem with other values each, as if they were one: a few rows say
// little about the largest error of the textbook. What is far off is not drawn again.
void pool(Verdict& all, const Verdict& more, int draws) {
  const auto add = [](double& to, double value) { to = std::max(to, value); };
  const auto add_square = [&](double& to, double value) {
    to = std::sqrt((to * to * draws + value * value) / (draws + 1));
  };
  const double floor_rms = all.allowed_rms - all.factor * all.plain.rms_error;
  add(all.error.max_error, more.error.max_error), add(all.plain.max_error, more.plain.max_error);
  add(all.floor, more.floor);
  add_square(all.error.rms_error, more.error.rms_error);
  add_square(all.plain.rms_error, more.plain.rms_error);
  all.error.invalid += more.error.invalid;
  all.allowed_max = all.factor * all.plain.max_error + all.floor;
  all.allowed_rms = all.factor * all.plain.rms_error + floor_rms;
  all.accepted = all.error.invalid == 0 && all.plain.invalid == 0 &&
                 all.error.max_error <= all.allowed_max && all.error.rms_error <= all.allowed_rms;
}
Verdicts pooled(Line line, Verdicts all) {
  const auto is_invalid = [](const Verdict& verdict) { return verdict.error.invalid > 0; };
  for (int draw = 1; draw < 16 && std::none_of(all.begin(), all.end(), is_invalid); ++draw) {
    line.given["draw"] = std::to_string(draw);
    const Verdicts more = verdicts_of(line);
    for (std::size_t i = 0; i < all.size(); ++i) pool(all[i], more.at(i), draw);
  }
  return all;
}

Outcome outcome_of(const Line& line) {
  const Texts names = line.not_allowed();
  if (!line.is("lacks", "nothing")) return {Outcome::kRefused, names.front()};
  try {
    const Verdicts verdicts = verdicts_of(line);
    if (!names.empty()) return {Outcome::kWrong, "accepted, with a wrong " + names.front()};
    if (refusal_in(verdicts).empty()) return {Outcome::kRight, ""};
    const Text refusal = refusal_in(pooled(line, verdicts));
    return {refusal.empty() ? Outcome::kPooled : Outcome::kWrong, refusal};
  } catch (const Refusal& refusal) {
    for (const Text& name : names) {
      if (refusal.said.find(name + " is ") != Text::npos) return {Outcome::kRefused, name};
    }
    return {Outcome::kWrong, "refused: " + refusal.said};
  } catch (const std::exception& failed) {
    return {Outcome::kWrong, failed.what()};
  }
}

// What came of the problems of a row.
struct Row {
  std::int64_t problems = 0;
  std::int64_t came[4] = {};
  std::map<Text, std::int64_t> refused_for;

  cli::Measurement measured(const Text& group, const Text& name) const {
    Texts why;
    for (const auto& [what, count] : refused_for) why.push_back(fmt::format("{} {}", what, count));
    const std::int64_t right = came[Outcome::kRight], pooled = came[Outcome::kPooled],
                       refused = came[Outcome::kRefused], wrong = came[Outcome::kWrong];
    return {{"group", group},
            {"title", group},
            {"kernel", name},
            {"problems", problems},
            {"run", right + pooled + refused + wrong},
            {"right", right},
            {"pooled", pooled},
            {"refused", refused},
            {"wrong", wrong},
            {"refused_for", fmt::format("{}", fmt::join(why, ", "))}};
  }
};
using Rows = std::map<Text, Row>;

// Runs problems on all cores until all are done or the time is over.
void run_all(const std::vector<Case>& cases, std::int64_t limit, Rows& rows) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(limit);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  int shown = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < cases.size() && Clock::now() < end;) {
      const Outcome outcome = outcome_of(cases[i].line);
      const std::lock_guard<std::mutex> lock(mutex);
      Row& row = rows[cases[i].row];
      ++row.came[outcome.is];
      if (outcome.is == Outcome::kRefused) ++row.refused_for[outcome.why];
      if (outcome.is == Outcome::kWrong && shown++ < 5) {
        fmt::print("WRONG: --problem \"{}\"\n{}\n", cases[i].line.text(), outcome.why);
        std::fflush(stdout);
      }
    }
  };
  // A thread for each core, and none within a problem.
  const int cores = thread_count();
  setenv("FA_THREADS", "1", 1);
  std::vector<std::future<void>> threads;
  for (int i = 0; i < cores; ++i) threads.push_back(std::async(std::launch::async, work));
  for (auto& thread : threads) thread.get();
}

// The problems of the suites whose names contain a text, in a random order.
std::vector<Case> suite_cases(const Text& wanted) {
  std::ifstream file(FA_SUITES);
  std::vector<Case> cases;
  Text name;
  for (Text row; std::getline(file, row);) {
    if (row.empty() || row[0] == '#') continue;
    if (row[0] == '[') {
      name = row.substr(1, row.find(']') - 1);
    } else if (wanted == "all" || name.find(wanted) != Text::npos) {
      add_product(cases, name, row);
    }
  }
  if (cases.empty()) throw std::invalid_argument("--suites " + wanted + ": there is no such suite");
  std::shuffle(cases.begin(), cases.end(), std::mt19937_64(1));
  return cases;
}

// In the lab only short problems are run; and lesson 01 stores all scores.
bool is_too_large(const Line& line, bool gpu) {
  const AttentionShape s = line.problem().shape;
  const std::int64_t scores = s.batch * s.heads * s.length_q * s.length_k;
  return gpu ? scores > 1 << 24 : scores * s.head_dim > 1 << 21;
}

int run(int argc, char** argv) {
  const bool gpu = Text(kRunsOn) == "gpu";
  if (gpu && !device_available()) {
    std::puts("skipped: there is no NVIDIA GPU");
    return 77;
  }
  cli::Program program("random_problems", "All calls of the C interfaces beside lesson 01.");
  std::int64_t limit = 60, seed = 1;
  std::optional<std::int64_t> count;
  Text problem, wanted, command = "lesson06_random_problems_gpu";
  cli::RecordOptions record;
  program.option("--limit", limit, 1, 36000, "seconds after which no problem begins");
  program.option("--count", count,
                 "at most so many problems; random ones: 10000 or, in the lab, 400");
  program.option("--seed", seed, 0, 1000000000, "of the random problems");
  program.option("--problem", problem, "this one; NAME=A,B stands for two");
  program.option("--suites", wanted,
                 "those of other projects' tests, whose name contains this; all");
  program.output("--results", record.results, "write a record: docs/results");
  program.option("--commit", record.commit, "of the record, where git does not know it");
  for (int i = 1; i < argc; ++i) command += Text(" ") + argv[i];
  program.section("problems", "All calls of the C interfaces beside lesson 01", [&] {
    std::vector<Case> cases;
    if (!problem.empty()) {
      add_product(cases, "problem", problem);
    } else if (!wanted.empty()) {
      cases = suite_cases(wanted);
    } else {
      for (std::int64_t i = 0; i < count.value_or(gpu ? 10000 : 400); ++i) {
        const Line line = random_line(seed, i, gpu);
        cases.push_back({line["call"], line});
      }
    }
    Rows rows;
    for (const Case& one : cases) ++rows[one.row].problems;
    if (!wanted.empty()) {
      const auto too_large = [&](const Case& one) { return is_too_large(one.line, gpu); };
      cases.erase(std::remove_if(cases.begin(), cases.end(), too_large), cases.end());
      const auto most = static_cast<std::size_t>(count.value_or(1000000));
      if (cases.size() > most) cases.erase(cases.begin() + most, cases.end());
    }
    if (cases.empty()) throw std::invalid_argument("there is no problem to run");
    run_all(cases, limit, rows);
    std::vector<cli::Measurement> measured;
    const Text group = wanted.empty() ? "random problems" : "problems of other projects";
    for (const auto& [name, row] : rows) measured.push_back(row.measured(group, name));
    fmt::print("{}\n", cli::table_of(measured, std::vector<cli::Column>{
                                                   {wanted.empty() ? "call" : "suite", "kernel"},
                                                   {"problems", "problems"},
                                                   {"run", "run"},
                                                   {"right", "right"},
                                                   {"pooled", "pooled"},
                                                   {"refused", "refused"},
                                                   {"wrong", "wrong"},
                                                   {"refused for", "refused_for"}}));
    for (const auto& [name, row] : rows) {
      program.check_none(name, row.came[Outcome::kWrong], "wrong result");
    }
    if (record.results.empty()) return;
    cli::Record file(record, device_properties(), command);
    file.add(measured);
    file.finish();
  });
  return program.run(argc, argv);
}

}  // namespace
}  // namespace fa::FA_TARGET

int main(int argc, char** argv) {
  return fa::FA_TARGET::run(argc, argv);
}
