// Lesson 06, ring attention: started alone, or by `mpirun -n 4`.
#include <algorithm>
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

constexpr const char* kName = "ring_attention";

// What the command line chooses.
struct Choice {
  AttentionShape shape{1, 4, 2, 301, 301, 16};
  std::string method = "all", mask = "all", fault = "none";
  std::int64_t ranks = 4;
  std::int64_t timeout = 10;  // seconds that a rank waits for another one
};

std::vector<Method> methods_of(const Choice& choice) {
  std::vector<Method> methods;
  for (const Method method : kMethods) {
    if (choice.method == "all" || choice.method == name_of(method)) methods.push_back(method);
  }
  return methods;
}

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

// @param pass "all", "forward" or "backward"
void model(const Large& large, const std::string& mask, const std::string& pass) {
  Machine machine;
  machine.tflops = static_cast<double>(large.tflops);
  machine.link = static_cast<double>(large.link);
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

// How many of a rank's counts differ from those that follow from the layout.
std::int64_t unexpected_counts(const Results& results, const Problem& problem, Method method,
                               int rank) {
  const RankCounts counts = counts_of(problem, method, rank);
  constexpr std::int64_t kBytes = sizeof(float);
  return (results.in_forward.bytes != counts.forward_elements * kBytes) +
         (results.in_forward.messages != counts.forward_messages) +
         (results.in_backward.bytes != counts.backward_elements * kBytes) +
         (results.in_backward.messages != counts.backward_messages);
}

void copy_in(float* to, const Tensor<float, 4>& from) {
  std::copy_n(from.data(), from.count(), to);
}
std::vector<float> copy_out(const float* from, std::int64_t count) {
  return {from, from + count};
}

// Runs the body on all ranks: processes under mpirun, else threads.
void on_ranks(const Choice& choice, const std::function<void(Comm&)>& body) {
  const auto limit = static_cast<double>(choice.timeout);
  if (mpi_started_this()) {
    run_processes(kName, limit, body);
  } else {
    run_threads(kName, static_cast<int>(choice.ranks), limit, body);
  }
}

// Every chosen form and mask on this run's ranks, against lesson 01.
void check_ranks(cli::Program& program, const Choice& choice) {
  const int ranks = mpi_started_this() ? mpi_ranks() : static_cast<int>(choice.ranks);
  for (const bool causal : {false, true}) {
    if (choice.mask == (causal ? "full" : "causal")) continue;
    const Reference reference({choice.shape, causal}, attention::Type::kFloat32);
    for (const Method method : methods_of(choice)) {
      const Problem problem{choice.shape, causal, order_of(method), ranks};
      Results results;
      std::int64_t unexpected = 0;  // of rank 0, which has all
      on_ranks(choice, [&](Comm& comm) {
        if (comm.rank() + 1 == comm.size()) comm.set_fault(choice.fault);
        CpuEngine engine(comm);
        Results own =
            results_of(comm, engine, problem, method, reference.inputs, copy_in, copy_out);
        const auto all = gather(comm, unexpected_counts(own, problem, method, comm.rank()));
        if (comm.rank() != 0) return;
        for (const std::int64_t of : all) unexpected += of;
        results = std::move(own);
      });
      if (results.outputs.o.count() == 0) continue;  // another process has them
      const auto name = fmt::format("{}, {}", name_of(method), causal ? "causal" : "full");
      reference.report(program, name, results);
      program.check_none(name + ": bytes and messages", unexpected, "unexpected count");
    }
  }
}

void add_options(cli::Program& program, Choice& choice) {
  constexpr std::int64_t kMost = 1 << 20;
  program.option("--ranks", choice.ranks, 1, 64, "ranks; under mpirun, its processes");
  program.option("--batch", choice.shape.batch, 1, kMost, "batch size of the check");
  program.option("--heads", choice.shape.heads, 1, kMost, "query heads of the check");
  program.option("--kv-heads", choice.shape.kv_heads, 1, kMost, "key heads of the check");
  program.option("--length-q", choice.shape.length_q, 1, kMost, "queries of the check");
  program.option("--length-k", choice.shape.length_k, 1, kMost, "keys of the check");
  program.option("--head-dim", choice.shape.head_dim, 1, kMost, "head dimension of the check");
  program.option("--timeout", choice.timeout, 1, 3600, "seconds that a rank waits for another");
  program.option("--mask", choice.mask, {"all", "full", "causal"},
                 "mask of the check and of the model");
  std::vector<std::string> methods{"all"};
  for (const Method method : kMethods) methods.push_back(name_of(method));
  program.option("--method", choice.method, methods, "way to distribute attention");
  program.option("--fault", choice.fault, {"none", "throw", "stop"},
                 "what the last rank does at its first message, to see how the others end");
}

}  // namespace

int main(int argc, char** argv) {
  Choice choice;
  Large large;
  std::string pass = "all";
  const bool processes = mpi_started_this();
  const bool quiet =
      processes && begin_mpi(argc, argv) > 0 && std::freopen("/dev/null", "w", stdout) != nullptr;
  cli::Program program(kName, "Lesson 06: attention over several ranks, checked on CPUs.");
  add_options(program, choice);
  program.option("--pass", pass, {"all", "forward", "backward"}, "pass of the model");
  program.option("--tflops", large.tflops, 1, 1000000, "TFLOP/s of a GPU, for the model");
  program.option("--link", large.link, 1, 1000000, "GB/s from GPU to GPU, for the model");
  program.option("--model-heads", large.shape.heads, 1, 1024, "query heads of the model");
  program.option("--model-kv-heads", large.shape.kv_heads, 1, 1024, "key heads of the model");
  program.option("--model-head-dim", large.shape.head_dim, 1, 1024, "head dimension of the model");
  program.section("memory", "What a rank stores and receives", [&] { memory(large); });
  program.section("counts", "Bytes and messages of the check", [&] { counts(choice); });
  program.section("model", "Time, predicted", [&] { model(large, choice.mask, pass); });
  program.section("ranks", "Ring attention against lesson 01",
                  [&] { check_ranks(program, choice); });
  const int status = program.run(argc, argv);
  if (processes) end_mpi();
  return quiet ? cli::kSuccess : status;
}
