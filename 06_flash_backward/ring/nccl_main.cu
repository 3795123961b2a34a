// Lesson 06, ring attention between GPUs: one process with a thread for each GPU, or, started by
// `mpirun -n 2`, a process for each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "05_flash_forward/src/checker.hpp"
#include "06_flash_backward/ring/device_results.cuh"
#include "06_flash_backward/ring/model.hpp"
#include "06_flash_backward/ring/mpi_group.hpp"
#include "06_flash_backward/ring/nccl_links.cuh"
#include "common/cli/program.hpp"
#include "common/cli/results.hpp"
#include "common/cli/table.hpp"

namespace fa::FA_TARGET {
namespace {

using ring::Group;
using ring::Method;
using ring::Problem;
using ring::RowOrder;

constexpr const char* kName = "ring_attention_nccl";

struct Choice {
  AttentionShape shape{1, 16, 16, 0, 0, 128};  // of the timed problems, without lengths
  std::int64_t gpus = 0, timeout = 10, repeats = 7, shortest = 16, longest = 128, link = 450;
  std::string mask = "all", json, commit, command;
};

std::string cell(const std::string& text) {
  return text;
}
std::string cell(double number) {
  return fmt::format("{:.1f}", number);
}
std::string cell(std::int64_t number) {
  return std::to_string(number);
}

int gpus_here() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Runs the body on all ranks, each with a GPU.
template <class Body>
void on_ranks(int ranks, const Choice& choice, Body body) {
  const auto limit = static_cast<double>(choice.timeout);
  const auto on_rank = [&](Group& group) {
    FA_CUDA(cudaSetDevice(group.rank() % gpus_here()));
    NcclLinks links(group);
    links.connect();
    body(group, links);
    links.close();
  };
  if (ring::mpi_started_this()) {
    ring::run_processes(kName, limit, on_rank);
  } else {
    ring::run_threads(kName, ranks, limit, on_rank);
  }
}

// Ends all ranks when one of them has another problem.
void agree(Group& group, const Problem& problem) {
  const AttentionShape& s = problem.shape;
  const std::int64_t other = Group::fault_of(group.rank()) == "shape" ? 1 : 0;  // for tests
  group.agree({{"batch", s.batch},
               {"heads", s.heads},
               {"kv_heads", s.kv_heads},
               {"length_q", s.length_q + other},
               {"length_k", s.length_k},
               {"head_dim", s.head_dim},
               {"causal", problem.causal},
               {"zig-zag", problem.order == RowOrder::kZigZag}});
}

std::string text_of(const Problem& problem) {
  return fmt::format("{} GPUs, {}{}", problem.ranks, attention_problem(problem).text(),
                     problem.order == RowOrder::kZigZag ? ", zig-zag" : "");
}

// Problems and inputs, and what rank 0 has of their results.
struct Case {
  Problem problem;
  std::shared_ptr<const backward::Inputs> inputs;
  RingResults results{};
};

void compute(std::vector<Case>& cases, const Choice& choice) {
  on_ranks(static_cast<int>(choice.gpus), choice, [&](Group& group, NcclLinks& links) {
    for (Case& of : cases) {
      agree(group, of.problem);
      auto own = ring_results(group, links, of.problem, *of.inputs);
      if (group.rank() == 0) of.results = std::move(own);
    }
  });
}

// Small problems against lesson 01.
void check_small(cli::Program& program, const Choice& choice, bool prints) {
  const int ranks = static_cast<int>(choice.gpus);
  std::vector<Case> cases;
  for (const AttentionShape& shape :
       {AttentionShape{2, 4, 2, 1007, 1007, 64}, AttentionShape{1, 4, 4, 515, 1301, 128},
        AttentionShape{1, 4, 1, 1301, 515, 128}, AttentionShape{1, 2, 1, 3, 2, 64},
        AttentionShape{1, 2, 2, 1024, 1024, 128}}) {
    for (const bool causal : {false, true}) {
      if (choice.mask == (causal ? "full" : "causal")) continue;
      const Problem contiguous{shape, causal, RowOrder::kContiguous, ranks};
      const auto inputs = std::make_shared<const backward::Inputs>(
          backward::make_inputs(attention_problem(contiguous), attention::Values::kNormal, 1));
      cases.push_back({contiguous, inputs});
      cases.push_back({{shape, causal, RowOrder::kZigZag, ranks}, inputs});
    }
  }
  compute(cases, choice);
  for (const Case& of : cases) {
    if (!prints) break;
    const auto whole = attention_problem(of.problem);
    auto verdicts = flash::Checker(whole, of.inputs->forward).check("forward", of.results.outputs);
    for (const auto& verdict :
         backward::Checker(whole, *of.inputs).check("backward", of.results.gradients)) {
      verdicts.push_back(verdict);
    }
    double worst = 0;
    for (const Verdict& verdict : verdicts) {
      if (!verdict.accepted) program.detail(verdict.report() + "\n");
      worst = std::max(worst, attention::error_over_tolerance(verdict));
    }
    program.check(text_of(of.problem), worst, 1);
  }
}

// Root of the mean square of a difference, relative to that of one side.
template <class Tensor>
double relative(const Tensor& a, const Tensor& b) {
  double difference = 0, size = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const double x = a.data()[i], y = b.data()[i];
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(difference / size);
}

// A longer problem against the kernels on one GPU.
void check_long(cli::Program& program, const Choice& choice, bool prints) {
  const AttentionShape shape{1, 4, 2, 16381, 16381, 128};
  const int ranks = static_cast<int>(choice.gpus);
  const auto whole = attention_problem({shape, false, RowOrder::kContiguous, 1});
  const auto inputs = std::make_shared<const backward::Inputs>(backward::Inputs{
      attention::make_inputs(whole, attention::Values::kNormal, 1),
      {},
      {},
      attention::rounded(normal_tensor<float, 4>(whole.shape_of_o(), 9), whole.type)});
  std::vector<Case> cases;
  for (const bool causal : {false, true}) {
    if (choice.mask == (causal ? "full" : "causal")) continue;
    cases.push_back({{shape, causal, RowOrder::kContiguous, 1}, inputs});
    cases.push_back(
        {{shape, causal, causal ? RowOrder::kZigZag : RowOrder::kContiguous, ranks}, inputs});
  }
  compute(cases, choice);
  for (std::size_t i = 0; prints && i < cases.size(); i += 2) {
    const RingResults &one = cases[i].results, &all = cases[i + 1].results;
    const double worst = std::max({relative(all.outputs.o, one.outputs.o),
                                   relative(all.outputs.lse, one.outputs.lse),
                                   relative(all.gradients.d_q, one.gradients.d_q),
                                   relative(all.gradients.d_k, one.gradients.d_k),
                                   relative(all.gradients.d_v, one.gradients.d_v)});
    program.check(text_of(cases[i + 1].problem) + ": rms of the difference from one GPU", worst,
                  0.01);
  }
}

// Random values without a mean, as a GPU's power depends on them.
__global__ void fill_random(bfloat16* to, std::int64_t count, std::uint32_t seed) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u + seed;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  const auto uniform = static_cast<float>(x >> 8) / 16777216.0f;
  to[i] = from_float<bfloat16>(3.46f * (uniform - 0.5f));
}

// Links without transfers, which show what transfers cost.
struct NoLinks {
  void shift(const std::vector<RingMessage>& /*messages*/, const Stream& /*stream*/) {}
  void wait(const Stream& /*stream*/) {}
};

// Seconds that each rank takes from a common start on.
template <class Work>
std::vector<double> seconds_of(Group& group, NcclLinks& links, const Stream& stream, Work work) {
  group.all_gather(std::vector<double>{0}, "a common start");
  const auto start = Group::Clock::now();
  work();
  links.synchronize(stream);
  const double own = std::chrono::duration<double>(Group::Clock::now() - start).count();
  return group.all_gather(std::vector<double>{own}, "the times of the other ranks");
}

double slowest(const std::vector<double>& seconds) {
  return *std::max_element(seconds.begin(), seconds.end());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Seconds of a pass, in each round.
struct Rounds {
  std::vector<double> one;    // of the whole problem on one GPU: the mean rate of all GPUs
  std::vector<double> shift;  // of K and V by one rank, with nothing beside it
  std::vector<double> without_transfers, all;
};
struct Timed {
  Problem problem;
  Rounds forward{}, backward{};
  std::int64_t bytes_of_one = 0, bytes = 0;  // of memory, of a rank
};

// What a rank computes with: the whole problem, and its part of it.
struct Ranks {
  DeviceRank one, own;
};

// Calls pass(a rank, links) with the whole problem on each GPU, and with parts, without transfers and
// with them. All GPUs are busy all the time: under the power limit a clock depends on what a GPU
// has just done.
template <class Pass>
void time_round(Group& group, NcclLinks& links, const Stream& stream, Ranks& ranks, Rounds& rounds,
                Pass pass) {
  const auto timed = [&](auto work) { return seconds_of(group, links, stream, work); };
  double rate = 0;
  for (const double seconds : timed([&] { pass(ranks.one, links); })) rate += 1 / seconds;
  rounds.one.push_back(group.size() / rate);
  // In a ring of two it is the only transfer of K and V, which the next run finds in their place.
  rounds.shift.push_back(slowest(timed([&] { ranks.own.shift_block(links, stream); })));
  NoLinks none;
  rounds.without_transfers.push_back(slowest(timed([&] { pass(ranks.own, none); })));
  rounds.all.push_back(slowest(timed([&] { pass(ranks.own, links); })));
}

// Times a problem on each GPU by itself and on all together.
void time_problem(Group& group, NcclLinks& links, std::int64_t repeats, Timed& of) {
  agree(group, of.problem);
  Problem whole = of.problem;
  whole.ranks = 1;
  const auto made = [](const Problem& problem, int rank, std::int64_t& bytes) {
    const std::int64_t before = taken_bytes();
    DeviceRank result(problem, rank);
    bytes = taken_bytes() - before;
    return result;
  };
  Ranks ranks{made(whole, 0, of.bytes_of_one), made(of.problem, group.rank(), of.bytes)};
  const Stream stream;
  std::uint32_t seed = 16 * static_cast<std::uint32_t>(group.rank());
  for (DeviceRank* rank : {&ranks.one, &ranks.own}) {
    for (DeviceBuffer<bfloat16>* x : {&rank->q, &rank->kv, &rank->d_o}) {
      launch_flat(stream, x->count(), fill_random, x->data(), x->count(), ++seed);
    }
  }
  constexpr std::int64_t kWarmUp = 2;
  for (std::int64_t i = 0; i < kWarmUp + repeats; ++i) {
    if (i == kWarmUp) of.forward = of.backward = {};
    time_round(group, links, stream, ranks, of.forward,
               [&](DeviceRank& rank, auto& by) { rank.forward(by, stream); });
    time_round(group, links, stream, ranks, of.backward,
               [&](DeviceRank& rank, auto& by) { rank.backward(by, stream); });
  }
}

// All lengths and masks on so many GPUs.
std::vector<Timed> time_on(int gpus, const Choice& choice) {
  std::vector<Timed> all;
  for (std::int64_t kilo = choice.shortest; kilo <= choice.longest; kilo *= 2) {
    AttentionShape shape = choice.shape;
    shape.length_q = shape.length_k = 1024 * kilo;
    for (const bool causal : {false, true}) {
      if (choice.mask == (causal ? "full" : "causal")) continue;
      all.push_back({{shape, causal, causal ? RowOrder::kZigZag : RowOrder::kContiguous, gpus}});
    }
  }
  on_ranks(gpus, choice, [&](Group& group, NcclLinks& links) {
    std::vector<Timed> own = all;
    for (Timed& of : own) time_problem(group, links, choice.repeats, of);
    if (group.rank() == 0) all = own;
  });
  return all;
}

// A row of the record: a pass of one GPU or of all, with what the model predicts from the rate of
// one.
cli::Measurement row_of(const Timed& of, bool backward, bool one, const Choice& choice) {
  const Problem& p = of.problem;
  const AttentionShape& s = p.shape;
  const Rounds& rounds = backward ? of.backward : of.forward;
  const std::vector<double>& times = one ? rounds.one : rounds.all;
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  const double seconds = median(times), of_one = median(rounds.one);
  const int gpus = one ? 1 : p.ranks;
  const Problem whole{s, p.causal, RowOrder::kContiguous, 1};
  const auto pairs = static_cast<double>(ring::counts_of(whole, Method::kOverlap, 0).pairs);
  const double work =
      ring::flops(static_cast<double>(s.batch) * pairs, s.head_dim, backward) / 1e12;
  ring::Machine machine;
  machine.tflops = work / of_one;
  machine.link = static_cast<double>(choice.link);
  const Method method = p.causal ? Method::kZigZag : Method::kOverlap;
  cli::Measurement row = {
      {"mask", p.causal ? "causal" : "full"},
      {"pass", backward ? "backward" : "forward"},
      {"gpus", std::int64_t{gpus}},
      {"length", s.length_q},
      {"milliseconds", 1e3 * seconds},
      {"tflops_per_gpu", work / seconds / gpus},
      {"percent_of_linear", 100 * of_one / (seconds * gpus)},
      {"percent_predicted",
       100 * ring::predicted_efficiency(s, p.causal, gpus, method, backward, machine)},
      {"mebibytes_per_gpu", (one ? of.bytes_of_one : of.bytes) >> 20},
      {"milliseconds_least", 1e3 * *least},
      {"milliseconds_most", 1e3 * *most}};
  if (!one) {
    const double kv = 4.0 * static_cast<double>(s.batch * s.kv_heads * (s.length_k / gpus)) *
                      static_cast<double>(s.head_dim);
    row.push_back({"milliseconds_without_transfers", 1e3 * median(rounds.without_transfers)});
    row.push_back({"gigabytes_per_second", kv / median(rounds.shift) / 1e9});
  }
  return row;
}

// Times of 2, 4 ... GPUs, each beside one.
void time_all(const Choice& choice, bool prints) {
  std::vector<int> counts;
  // Processes cannot be fewer.
  const bool processes = ring::mpi_started_this();
  for (int gpus = 2; gpus < choice.gpus && !processes; gpus *= 2) counts.push_back(gpus);
  counts.push_back(static_cast<int>(choice.gpus));
  std::vector<std::vector<Timed>> all;
  for (const int gpus : counts) all.push_back(time_on(gpus, choice));
  if (!prints) return;
  std::vector<cli::Measurement> rows;
  cli::Table table({"mask", "pass", "GPUs", "N", "ms", "TFLOP/s per GPU", "efficiency, %",
                    "predicted, %", "MiB per GPU", "least: ms", "most: ms", "no transfers: ms",
                    "GB/s"});
  const auto add = [&](const cli::Measurement& row) {
    rows.push_back(row);
    std::vector<std::string> cells;
    for (const auto& field : row) {
      cells.push_back(std::visit([](const auto& value) { return cell(value); }, field.second));
    }
    cells.resize(13, "-");
    table.add(cells);
  };
  for (std::size_t i = 0; i < all[0].size(); ++i) {
    for (const bool backward : {false, true}) {
      add(row_of(all[0][i], backward, true, choice));
      for (const auto& of_gpus : all) {
        if (choice.gpus > 1) add(row_of(of_gpus[i], backward, false, choice));
      }
    }
  }
  const AttentionShape& s = choice.shape;
  fmt::print("bfloat16, batch {}, {} query heads, {} key heads, head_dim {}, {}\n{}", s.batch,
             s.heads, s.kv_heads, s.head_dim, device_properties().name, table.text());
  if (!choice.json.empty()) {
    cli::write_results(choice.json, device_properties(), choice.command, rows, choice.commit);
  }
}

void add_options(cli::Program& program, Choice& choice) {
  constexpr std::int64_t kMost = 1 << 16;
  program.option("--gpus", choice.gpus, 0, 64, "GPUs of this process; 0: all");
  program.option("--timeout", choice.timeout, 1, 3600, "seconds that a rank waits for another");
  program.option("--mask", choice.mask, {"all", "full", "causal"}, "mask");
  program.option("--heads", choice.shape.heads, 1, kMost, "query heads that are timed");
  program.option("--kv-heads", choice.shape.kv_heads, 1, kMost, "key heads that are timed");
  program.option("--head-dim", choice.shape.head_dim, 8, 256, "head dimension that is timed");
  program.option("--shortest", choice.shortest, 1, kMost, "first length that is timed, in 1024");
  program.option("--longest", choice.longest, 1, kMost, "last length, at twice the one before");
  program.option("--repeats", choice.repeats, 1, 1000, "rounds that time one GPU and all");
  program.option("--link", choice.link, 1, 1000000, "GB/s from GPU to GPU, for the prediction");
  program.output("--json", choice.json, "record of the times");
  program.option("--commit", choice.commit, "of the code, for the record of a copy without git");
}

int run(int argc, char** argv) {
  // NCCL's multicast is for collectives, which a ring has no use for. Kernels are loaded at once: a
  // load waits for the GPU, which may wait for another rank.
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  Choice choice;
  for (int i = 0; i < argc; ++i) choice.command += (i > 0 ? " " : "") + std::string(argv[i]);
  const bool processes = ring::mpi_started_this();
  const bool prints = !processes || ring::begin_mpi(argc, argv) == 0;
  if (!prints && std::freopen("/dev/null", "w", stdout) == nullptr) return cli::kCannotDo;
  cli::Program program(kName, "Lesson 06: attention over several GPUs, with NCCL.");
  add_options(program, choice);
  bool skipped = false;
  const auto with_gpus = [&](const std::function<void()>& work) {
    if (gpus_here() == 0 || (choice.gpus == 0 && !processes && gpus_here() < 2)) {
      fmt::print("skipped: there are {} GPUs; a ring needs 2\n", gpus_here());
      skipped = true;
      return;
    }
    if (choice.gpus > gpus_here()) {
      throw std::invalid_argument(
          fmt::format("--gpus is {}; this machine has {}", choice.gpus, gpus_here()));
    }
    if (processes) {
      choice.gpus = ring::mpi_ranks();
    } else if (choice.gpus == 0) {
      choice.gpus = gpus_here();
    }
    work();
  };
  program.section("check", "A ring of GPUs against lesson 01",
                  [&] { with_gpus([&] { check_small(program, choice, prints); }); });
  program.section("long", "A longer sequence against one GPU",
                  [&] { with_gpus([&] { check_long(program, choice, prints); }); });
  program.section_apart("time", "Times and memory",
                        [&] { with_gpus([&] { time_all(choice, prints); }); });
  const int status = program.run(argc, argv);
  if (processes) ring::end_mpi();
  return status == cli::kSuccess && skipped ? 77 : status;
}

}  // namespace
}  // namespace fa::FA_TARGET

int main(int argc, char** argv) {
  return fa::FA_TARGET::run(argc, argv);
}
