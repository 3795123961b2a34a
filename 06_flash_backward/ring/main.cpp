// Lesson 06, ring attention: started alone, or by `mpirun -n 4`.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "06_flash_backward/ring/model.hpp"
#include "06_flash_backward/ring/ranks.hpp"
#include "common/cli/table.hpp"

namespace {

using namespace fa;
using namespace fa::ring;

// A long sequence for the tables; no element of it exists.
struct Large {
  AttentionShape shape{1, 16, 16, 131072, 131072, 128};
  std::int64_t gpus = 8, tflops = 989, link = 450;
};

std::string share(double value, double of) {
  return fmt::format("{:.2f}", of == 0 ? 0 : value / of);
}

// What each rank stores and receives.
void memory(const Large& large) {
  cli::Table table({"GPUs", "stored: all-gather, MiB", "stored: ring, MiB", "stored: heads, MiB",
                    "received: all-gather, MiB", "received: ring, MiB", "received: heads, MiB"});
  for (const int ranks : {1, 2, 4, 8}) {
    std::vector<std::string> cells{std::to_string(ranks)};
    std::vector<std::string> received;
    for (const Method method : {Method::kAllGather, Method::kOverlap, Method::kHeads}) {
      const RankCounts counts =
          counts_of({large.shape, false, RowOrder::kContiguous, ranks}, method, 0);
      cells.push_back(std::to_string(2 * counts.stored >> 20));
      received.push_back(std::to_string(2 * counts.forward_elements >> 20));
    }
    cells.insert(cells.end(), received.begin(), received.end());
    table.add(cells);
  }
  const AttentionShape& s = large.shape;
  fmt::print(
      "{} positions, {} query heads, {} key heads, head_dim {}, 2 bytes per element, forward\n{}",
      s.length_q, s.heads, s.kv_heads, s.head_dim, table.text());
}

// Pairs of query and key for each rank: who works how much under a causal mask.
void balance(const Choice& choice) {
  constexpr std::int64_t kLength = 4096;
  AttentionShape shape = choice.shape;
  shape.length_q = shape.length_k = kLength;
  const int ranks = static_cast<int>(choice.ranks);
  cli::Table table({"rank", "contiguous: pairs", "contiguous: relative to the mean",
                    "zig-zag: pairs", "zig-zag: relative to the mean"});
  const Problem contiguous{shape, true, RowOrder::kContiguous, ranks},
      zigzag{shape, true, RowOrder::kZigZag, ranks};
  const auto pairs = [&](const Problem& problem, int rank) {
    return counts_of(problem, Method::kOverlap, rank).pairs / shape.heads;
  };
  const double mean = static_cast<double>(kLength) * (kLength + 1) / 2 / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t a = pairs(contiguous, rank), b = pairs(zigzag, rank);
    table.add({std::to_string(rank), std::to_string(a), share(static_cast<double>(a), mean),
               std::to_string(b), share(static_cast<double>(b), mean)});
  }
  const std::int64_t a = pairs_in_step(contiguous), b = pairs_in_step(zigzag);
  table.add({"slowest of each step", std::to_string(a), share(static_cast<double>(a), mean),
             std::to_string(b), share(static_cast<double>(b), mean)});
  fmt::print("{} positions, causal, one head\n{}", kLength, table.text());
}

// What the ranks of the check receive, in elements and messages.
void counts(const Choice& choice) {
  cli::Table table({"method", "rank", "forward: KiB", "forward: messages", "backward: KiB",
                    "backward: messages", "stored: KiB", "pairs, causal"});
  const auto kib = [](std::int64_t elements) {
    return fmt::format("{:.1f}", static_cast<double>(elements) / 256);
  };
  for (const Method method : methods_of(choice)) {
    for (int rank = 0; rank < choice.ranks; ++rank) {
      const RankCounts c = counts_of(
          {choice.shape, true, order_of(method), static_cast<int>(choice.ranks)}, method, rank);
      table.add({name_of(method), std::to_string(rank), kib(c.forward_elements),
                 std::to_string(c.forward_messages), kib(c.backward_elements),
                 std::to_string(c.backward_messages), kib(c.stored), std::to_string(c.pairs)});
    }
  }
  const AttentionShape& s = choice.shape;
  fmt::print(
      "batch {}, {} queries, {} keys, {} query heads, {} key heads, head_dim {}, float32: received "
      "from other ranks\n{}",
      s.batch, s.length_q, s.length_k, s.heads, s.kv_heads, s.head_dim, table.text());
}

Machine machine_of(const Large& large) {
  Machine machine;
  machine.tflops = static_cast<double>(large.tflops);
  machine.link = static_cast<double>(large.link);
  return machine;
}

// @param pass "all", "forward" or "backward"
void model(const Large& large, const std::string& mask, const std::string& pass) {
  const Machine machine = machine_of(large);
  for (const bool backward : {false, true}) {
    for (const bool causal : {false, true}) {
      if (mask == (causal ? "full" : "causal") || pass == (backward ? "forward" : "backward")) {
        continue;
      }
      cli::Table table({"N", "GPUs", "one GPU, ms", "all-gather, %", "ring, %", "overlap, %",
                        "zig-zag, %", "heads, %"});
      for (const std::int64_t kilo : {16, 64, 256, 1024}) {
        for (const int gpus : {2, 4, 8}) {
          AttentionShape shape = large.shape;
          shape.length_q = shape.length_k = kilo * 1024;
          const double one = predicted_seconds({shape, causal, RowOrder::kContiguous, 1},
                                               Method::kRing, backward, machine);
          std::vector<std::string> cells{fmt::format("{}k", kilo), std::to_string(gpus),
                                         fmt::format("{:.1f}", 1000 * one)};
          for (const Method method : kMethods) {
            const double part =
                predicted_efficiency(shape, causal, gpus, method, backward, machine);
            cells.push_back(fmt::format("{:.1f}", 100 * part));
          }
          table.add(cells);
        }
      }
      fmt::print("{}, {}: predicted parallel efficiency, % (speedup / number of GPUs)\n{}",
                 backward ? "backward" : "forward", causal ? "causal" : "full", table.text());
    }
  }
  fmt::print(
      "{} TFLOP/s per GPU, {} GB/s per GPU and direction, {} query heads, {} key heads, head_dim "
      "{}\n",
      large.tflops, large.link, large.shape.heads, large.shape.kv_heads, large.shape.head_dim);
}

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string own_path() {
  std::array<char, 4096> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length < 0) throw std::runtime_error("the path of this program is not known; use mpirun");
  return std::string(path.data(), static_cast<std::size_t>(length));
}

std::string command_of(const Choice& choice) {
  const AttentionShape& s = choice.shape;
  return fmt::format(
      "mpirun {}--oversubscribe --bind-to none -n {} {} --batch {} --heads {} --kv-heads {} "
      "--length-q {} --length-k {} --head-dim {} --method {} --type {} --mask {} --timeout {}",
      geteuid() == 0 ? "--allow-run-as-root " : "", choice.ranks, quoted(own_path()), s.batch,
      s.heads, s.kv_heads, s.length_q, s.length_k, s.head_dim, choice.method, choice.type,
      choice.mask, choice.timeout);
}

// The cause in what Open MPI says about a rank that ended; empty when there is none.
std::string cause_in(const std::string& text) {
  std::smatch found;
  static const std::regex by_signal("process rank (\\d+)[^]*?exited on signal (\\d+ \\([^)]*\\))");
  static const std::regex by_status(
      "Process name: \\[\\[\\d+,\\d+\\],(\\d+)\\]\\s*Exit code:\\s*(\\d+)");
  if (std::regex_search(text, found, by_signal)) {
    return fmt::format("rank {} was ended by signal {}", found[1].str(), found[2].str());
  }
  if (std::regex_search(text, found, by_status)) {
    return fmt::format("rank {} ended before the others, with status {}", found[1].str(),
                       found[2].str());
  }
  return "";
}

// Starts `mpirun -n RANKS` of this program with the same choice and shows what it prints; of its
// messages about faults, only the first. Returns its exit status; 77 without MPI.
int start_ranks(const Choice& choice) {
  if (!has_mpi()) {
    fmt::print(
        "skipped: this build has no MPI. On Debian and Ubuntu install libopenmpi-dev and "
        "openmpi-bin,\n"
        "then remove build/learn/CMakeCache.txt and build again.\n");
    return 77;
  }
  // The ranks' standard output stays this program's, as descriptor 9; their messages are read.
  constexpr int kOutput = 9;
  std::fflush(stdout);
  if (dup2(STDOUT_FILENO, kOutput) < 0) throw std::runtime_error("no file descriptor is free");
  FILE* const pipe = popen((command_of(choice) + " 2>&1 1>&9 9>&- </dev/null").c_str(), "r");
  close(kOutput);
  if (pipe == nullptr) throw std::runtime_error("mpirun could not be started");
  std::string others;
  bool explained = false;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr) {
    const std::string text = line.data();
    if (text.rfind("ring_attention: ", 0) != 0) {
      others += text;
    } else if (!explained) {
      explained = true;
      fmt::print(stderr, "{}", text);
    }
  }
  const int ended = pclose(pipe);
  const int status = WIFEXITED(ended) ? WEXITSTATUS(ended) : cli::kCannotDo;
  if (status == cli::kSuccess || status == cli::kCheckFailed || explained) return status;
  const std::string cause = cause_in(others);
  if (cause.empty()) {
    fmt::print(stderr, "{}", others);
  } else {
    fmt::print(stderr, "ring_attention: {}; all ranks are ended\n", cause);
  }
  return cli::kCannotDo;
}

void add_options(cli::Program& program, Choice& choice) {
  constexpr std::int64_t kMost = 1 << 20;
  program.option("--ranks", choice.ranks, 1, 64, "ranks that the program starts when run alone");
  program.option("--batch", choice.shape.batch, 1, kMost, "batch size of the check");
  program.option("--heads", choice.shape.heads, 1, kMost, "query heads of the check");
  program.option("--kv-heads", choice.shape.kv_heads, 1, kMost, "key heads of the check");
  program.option("--length-q", choice.shape.length_q, 1, kMost, "queries of the check");
  program.option("--length-k", choice.shape.length_k, 1, kMost, "keys of the check");
  program.option("--head-dim", choice.shape.head_dim, 1, kMost, "head dimension of the check");
  program.option("--timeout", choice.timeout, 1, 3600, "seconds that a rank waits for another");
  program.option("--type", choice.type, {"all", "float32", "float64"}, "type of the check");
  program.option("--mask", choice.mask, {"all", "full", "causal"},
                 "mask of the check and of the model");
  std::vector<std::string> methods{"all"};
  for (const Method method : kMethods) methods.push_back(name_of(method));
  program.option("--method", choice.method, methods, "way to distribute attention");
}

}  // namespace

int main(int argc, char** argv) {
  Choice choice;
  Large large;
  std::string pass = "all";
  int status_of_ranks = 0;
  std::unique_ptr<RankSession> session;
  if (is_rank()) session = std::make_unique<RankSession>(argc, argv);
  cli::Program program("ring_attention",
                       "Lesson 06: attention over several ranks, checked on CPUs with MPI.");
  add_options(program, choice);
  if (session) {
    program.section("ranks", "Ring attention against lesson 01",
                    [&] { session->run(program, choice); });
    return session->finish(program.run(argc, argv));
  }
  program.option("--gpus", large.gpus, 2, 64, "GPUs of the chart");
  program.option("--pass", pass, {"all", "forward", "backward"}, "pass of the model");
  program.option("--tflops", large.tflops, 1, 1000000, "TFLOP/s of a GPU, for the model");
  program.option("--link", large.link, 1, 1000000, "GB/s from GPU to GPU, for the model");
  program.option("--model-heads", large.shape.heads, 1, 1024, "query heads of the model");
  program.option("--model-kv-heads", large.shape.kv_heads, 1, 1024, "key heads of the model");
  program.option("--model-head-dim", large.shape.head_dim, 1, 1024, "head dimension of the model");
  program.section("memory", "What a rank stores and receives", [&] { memory(large); });
  program.section("balance", "The causal mask, rank by rank", [&] { balance(choice); });
  program.section("counts", "Bytes and messages of the check", [&] { counts(choice); });
  program.section("model", "Time, predicted", [&] { model(large, choice.mask, pass); });
  program.section_apart("chart", "The prediction as SVG", [&] {
    fmt::print("{}",
               efficiency_chart(large.shape, static_cast<int>(large.gpus), machine_of(large)));
  });
  program.section("ranks", "Ring attention against lesson 01",
                  [&] { status_of_ranks = start_ranks(choice); });
  const int status = program.run(argc, argv);
  return status != cli::kSuccess ? status : status_of_ranks;
}
