// Lesson 06, ring attention: started alone, or by `mpirun -n 4`.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "06_flash_backward/ring/cpu_engine.hpp"
#include "06_flash_backward/ring/forms.hpp"
#include "common/cli/table.hpp"

namespace {

using namespace fa;
using namespace fa::ring;

// The problem that ranks compute, and how many there are without mpirun.
struct Checked {
  AttentionShape shape{1, 4, 2, 301, 301, 16};
  std::int64_t ranks = 4;
};

// A long sequence for the tables; no element of it exists.
struct Large {
  AttentionShape shape{1, 16, 16, 131072, 131072, 128};
  std::int64_t tflops = 989, link = 450;
};

// What each rank stores and receives.
void memory(const Large& large) {
  cli::Table table({"GPUs", "stored: all-gather, MiB", "stored: ring, MiB", "stored: heads, MiB",
                    "received: all-gather, MiB", "received: ring, MiB", "received: heads, MiB"});
  for (const int ranks : {1, 2, 4, 8}) {
    std::vector<std::string> cells{std::to_string(ranks)}, received;
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

// What the ranks of the check receive, in elements and messages.
void counts(const Checked& checked, const Choice& choice) {
  cli::Table table({"method", "rank", "forward: KiB", "forward: messages", "backward: KiB",
                    "backward: messages", "stored: KiB", "pairs, causal"});
  const auto kib = [](std::int64_t elements) {
    return fmt::format("{:.1f}", static_cast<double>(elements) / 256);
  };
  const int ranks = static_cast<int>(checked.ranks);
  choice.for_each([&](Method method, bool causal) {
    for (int rank = 0; causal && rank < ranks; ++rank) {
      const RankCounts c = counts_of({checked.shape, true, order_of(method), ranks}, method, rank);
      table.add({name_of(method), std::to_string(rank), kib(c.forward_elements),
                 std::to_string(c.forward_messages), kib(c.backward_elements),
                 std::to_string(c.backward_messages), kib(c.stored), std::to_string(c.pairs)});
    }
  });
  const AttentionShape& s = checked.shape;
  fmt::print(
      "batch {}, {} queries, {} keys, {} query heads, {} key heads, head_dim {}, float32: received "
      "from other ranks\n{}",
      s.batch, s.length_q, s.length_k, s.heads, s.kv_heads, s.head_dim, table.text());
}

// Parallel efficiency by length and number of GPUs.
void model(const Large& large, bool backward, bool causal) {
  Machine machine;
  machine.tflops = static_cast<double>(large.tflops);
  machine.link = static_cast<double>(large.link);
  cli::Table table({"N", "GPUs", "one GPU, ms", "all-gather, %", "ring, %", "overlap, %",
                    "zig-zag, %", "heads, %"});
  for (const std::int64_t kilo : {16, 64, 256, 1024}) {
    for (const int gpus : {2, 4, 8}) {
      AttentionShape shape = large.shape;
      shape.length_q = shape.length_k = kilo * 1024;
      const double one = predicted_seconds({shape, causal, RowOrder::kContiguous, 1}, Method::kRing,
                                           backward, machine);
      std::vector<std::string> cells{fmt::format("{}k", kilo), std::to_string(gpus),
                                     fmt::format("{:.1f}", 1000 * one)};
      for (const Method method : kMethods) {
        cells.push_back(fmt::format(
            "{:.1f}", 100 * predicted_efficiency(shape, causal, gpus, method, backward, machine)));
      }
      table.add(cells);
    }
  }
  fmt::print("{}, {}: predicted parallel efficiency, % (speedup / number of GPUs)\n{}",
             backward ? "backward" : "forward", causal ? "causal" : "full", table.text());
}

// @param pass "all", "forward" or "backward"
void models(const Large& large, const std::string& mask, const std::string& pass) {
  for (const bool backward : {false, true}) {
    for (const bool causal : {false, true}) {
      if (mask == (causal ? "full" : "causal")) continue;
      if (pass != (backward ? "forward" : "backward")) model(large, backward, causal);
    }
  }
  fmt::print(
      "{} TFLOP/s per GPU, {} GB/s per GPU and direction, {} query heads, {} key heads, head_dim "
      "{}\n",
      large.tflops, large.link, large.shape.heads, large.shape.kv_heads, large.shape.head_dim);
}

// How many of a rank's counts differ from those that follow from the layout.
std::int64_t unexpected_counts(const Results& results, const RankCounts& counts) {
  constexpr std::int64_t kBytes = sizeof(float);
  return (results.in_forward.bytes != counts.forward_elements * kBytes) +
         (results.in_forward.messages != counts.forward_messages) +
         (results.in_backward.bytes != counts.backward_elements * kBytes) +
         (results.in_backward.messages != counts.backward_messages);
}

// Every chosen form and mask on this run's ranks, against lesson 01.
void check_ranks(cli::Program& program, const Checked& checked, const Choice& choice) {
  const int ranks = mpi_ranks() > 0 ? mpi_ranks() : static_cast<int>(checked.ranks);
  choice.for_each([&](Method method, bool causal) {
    const Reference reference(checked.shape, causal, attention::Type::kFloat32);
    const Problem problem{checked.shape, causal, order_of(method), ranks};
    Results results;
    std::int64_t unexpected = 0;  // of rank 0, which has all
    const auto body = [&](Comm& comm) {
      CpuEngine engine(comm);
      Results own = results_of(comm, engine, problem, method, reference.inputs);
      const RankCounts expected = counts_of(problem, method, comm.rank());
      const auto all = gather(comm, unexpected_counts(own, expected));
      if (comm.rank() != 0) return;
      for (const std::int64_t of : all) unexpected += of;
      results = std::move(own);
    };
    if (mpi_ranks() > 0) {
      run_processes(body);
    } else {
      run_threads(ranks, body);
    }
    if (results.outputs.o.count() == 0) return;  // another process has them
    const auto name = fmt::format("{}, {}", name_of(method), causal ? "causal" : "full");
    reference.report(program, name, results);
    program.check_none(name + ": bytes and messages", unexpected, "unexpected count");
  });
}

}  // namespace

int main(int argc, char** argv) {
  Checked checked;
  Choice choice;
  Large large;
  std::string pass = "all";
  const bool quiet = mpi_rank() > 0 && std::freopen("/dev/null", "w", stdout) != nullptr;
  cli::Program program("ring_attention",
                       "Lesson 06: attention over several ranks, checked on CPUs.");
  constexpr std::int64_t kMost = 1 << 20;
  program.option("--ranks", checked.ranks, 1, 64, "ranks; under mpirun, its processes");
  program.option("--batch", checked.shape.batch, 1, kMost, "batch size of the check");
  program.option("--heads", checked.shape.heads, 1, kMost, "query heads of the check");
  program.option("--kv-heads", checked.shape.kv_heads, 1, kMost, "key heads of the check");
  program.option("--length-q", checked.shape.length_q, 1, kMost, "queries of the check");
  program.option("--length-k", checked.shape.length_k, 1, kMost, "keys of the check");
  program.option("--head-dim", checked.shape.head_dim, 1, kMost, "head dimension of the check");
  choice.add_options(program);
  program.option("--pass", pass, {"all", "forward", "backward"}, "pass of the model");
  program.option("--tflops", large.tflops, 1, 1000000, "TFLOP/s of a GPU, for the model");
  program.option("--link", large.link, 1, 1000000, "GB/s from GPU to GPU, for the model");
  program.option("--model-heads", large.shape.heads, 1, 1024, "query heads of the model");
  program.option("--model-kv-heads", large.shape.kv_heads, 1, 1024, "key heads of the model");
  program.section("memory", "What a rank stores and receives", [&] { memory(large); });
  program.section("counts", "Bytes and messages of the check", [&] { counts(checked, choice); });
  program.section("model", "Time, predicted", [&] { models(large, choice.mask, pass); });
  program.section("ranks", "Ring attention against lesson 01",
                  [&] { check_ranks(program, checked, choice); });
  const int status = program.run(argc, argv);
  return quiet ? cli::kSuccess : status;
}
