// Lesson 06, ring attention between GPUs: one process with a thread for each GPU. Checks every form
// against lesson 01, and times it beside one GPU.
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "06_flash_backward/ring/device_engine.cuh"
#include "06_flash_backward/ring/forms.hpp"
#include "06_flash_backward/ring/nccl_links.cuh"
#include "common/cli/table.hpp"

namespace fa::FA_TARGET {
namespace {

using ring::Comm;
using ring::Method;
using ring::Problem;

using Engine = DeviceEngine<NcclLinks>;
using Rank = ring::Rank<Engine>;

constexpr const char* kName = "ring_attention_nccl";

struct Choice {
  AttentionShape shape{1, 16, 16, 0, 0, 128};  // of the timed problems, without lengths
  std::int64_t gpus = 0, timeout = 60, repeats = 7, shortest = 16, longest = 128, link = 450;
  std::string mask = "all", method = "all", json, commit, command;
};

int gpus_here() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Calls visit(method, causal) for all that is chosen.
template <class Visit>
void for_methods(const Choice& choice, Visit visit) {
  for (const bool causal : {false, true}) {
    if (choice.mask == (causal ? "full" : "causal")) continue;
    for (const Method method : ring::kMethods) {
      if (choice.method == "all" || choice.method == ring::name_of(method)) visit(method, causal);
    }
  }
}

// Runs body(comm, links, stream) on all ranks, each with a GPU.
template <class Body>
void on_gpus(int ranks, const Choice& choice, Body body) {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  ring::run_threads(kName, ranks, static_cast<double>(choice.timeout), [&](Comm& comm) {
    FA_CUDA(cudaSetDevice(comm.rank()));
    const Stream stream;
    NcclLinks links(comm, id, stream);
    body(comm, links, stream);
    stream.synchronize();
    gather(comm, 0);  // no rank ends its links before the others
  });
}

// Small problems against lesson 01.
void check_all(cli::Program& program, const Choice& choice) {
  const int ranks = static_cast<int>(choice.gpus);
  for (const AttentionShape& shape :
       {AttentionShape{2, 4, 2, 1007, 1007, 64}, AttentionShape{1, 4, 4, 515, 1301, 128},
        AttentionShape{1, 4, 1, 1301, 515, 128}, AttentionShape{1, 2, 1, 3, 2, 64},
        AttentionShape{1, 2, 2, 1024, 1024, 128}}) {
    for_methods(choice, [&](Method method, bool causal) {
      const Problem problem{shape, causal, order_of(method), ranks};
      const ring::Reference reference(problem, attention::Type::kBFloat16);
      ring::Results results;
      on_gpus(ranks, choice, [&](Comm& comm, NcclLinks& links, const Stream& stream) {
        Engine engine(links, stream);
        auto own =
            ring::results_of(comm, engine, problem, method, reference.inputs, put_rounded,
                             [](const auto* from, std::int64_t n) { return get_floats(from, n); });
        if (comm.rank() == 0) results = std::move(own);
      });
      reference.report(
          program,
          fmt::format("{} GPUs, {}, {}", ranks, ring::name_of(method), reference.whole.text()),
          results);
    });
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

// Seconds of a pass, in each round.
struct Rounds {
  std::vector<double> one;    // of the whole problem on one GPU: the mean rate of all GPUs
  std::vector<double> shift;  // of K and V to the next rank, with nothing beside it
  std::vector<double> without_transfers, all;
};
struct Timed {
  Problem problem;
  Method method;
  Rounds forward{}, backward{};
  std::int64_t bytes_of_one = 0, bytes = 0;  // of memory, of a rank
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A rank that times a problem on each GPU by itself and on all together.
class Timer {
 public:
  Timer(Comm& comm, NcclLinks& links, const Stream& stream, Timed& of)
      : comm_(comm), links_(links), stream_(stream), of_(of) {
    Problem whole = of.problem;
    whole.ranks = 1;
    const std::int64_t before = taken_bytes();
    one_ = std::make_unique<Rank>(engine_of_one_, whole, 0);
    fill(*one_);
    one(false);
    one(true);
    of.bytes_of_one = taken_bytes() - before;
    own_ = std::make_unique<Rank>(engine_, of.problem, comm.rank());
    fill(*own_);
    ring::forward(*own_, of.method);
    ring::backward(*own_, of.method);
    of.bytes = taken_bytes() - before - of.bytes_of_one;
  }

  // The whole problem on each GPU, and parts without transfers and with them. All GPUs are busy all
  // the time: under the power limit a clock depends on what a GPU has just done.
  void round(bool is_backward) {
    Rounds& rounds = is_backward ? of_.backward : of_.forward;
    const auto pass = [&] {
      if (is_backward) {
        ring::backward(*own_, of_.method);
      } else {
        ring::forward(*own_, of_.method);
      }
    };
    double rate = 0;
    for (const double seconds : seconds_of([&] { one(is_backward); })) rate += 1 / seconds;
    rounds.one.push_back(comm_.size() / rate);
    rounds.shift.push_back(slowest([&] {
      own_->start(own_->shift(own_->kv.data(), own_->buffer(1, own_->largest_block()), 0));
      own_->wait();
    }));
    links_.enabled = false;
    rounds.without_transfers.push_back(slowest(pass));
    links_.enabled = true;
    rounds.all.push_back(slowest(pass));
  }

 private:
  void fill(Rank& rank) {
    std::uint32_t seed = 16 * static_cast<std::uint32_t>(comm_.rank());
    for (DeviceBuffer<bfloat16>* x : {&rank.q, &rank.kv, &rank.d_o}) {
      launch_flat(stream_, x->count(), fill_random, x->data(), x->count(), ++seed);
    }
  }
  void one(bool is_backward) {
    Rank& r = *one_;
    if (!is_backward) return engine_of_one_.attend(r.whole(), r.o.data(), r.lse.data());
    engine_of_one_.gradients(r.whole(), r.o.data(), r.lse.data(), r.d_o.data(), r.d_q.data(),
                             r.d_kv.data(), r.d_kv.data() + r.d_kv.count() / 2);
  }
  // Seconds that each rank takes from a common start on.
  template <class Work>
  std::vector<double> seconds_of(Work work) {
    stream_.synchronize();
    gather(comm_, 0);
    const auto start = std::chrono::steady_clock::now();
    work();
    stream_.synchronize();
    return gather(comm_,
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  template <class Work>
  double slowest(Work work) {
    const std::vector<double> seconds = seconds_of(work);
    return *std::max_element(seconds.begin(), seconds.end());
  }

  Comm& comm_;
  NcclLinks& links_;
  const Stream& stream_;
  Timed& of_;
  Engine engine_of_one_{links_, stream_}, engine_{links_, stream_};
  std::unique_ptr<Rank> one_, own_;
};

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
  const Problem whole{s, p.causal, ring::RowOrder::kContiguous, 1};
  const auto pairs = static_cast<double>(ring::counts_of(whole, Method::kOverlap, 0).pairs);
  const double work =
      ring::flops(static_cast<double>(s.batch) * pairs, s.head_dim, backward) / 1e12;
  ring::Machine machine;
  machine.tflops = work / of_one;
  machine.link = static_cast<double>(choice.link);
  cli::Measurement row = {
      {"form", ring::name_of(of.method)},
      {"mask", p.causal ? "causal" : "full"},
      {"pass", backward ? "backward" : "forward"},
      {"gpus", std::int64_t{gpus}},
      {"length", s.length_q},
      {"milliseconds", 1e3 * seconds},
      {"tflops_per_gpu", work / seconds / gpus},
      {"percent_of_linear", 100 * of_one / (seconds * gpus)},
      {"percent_predicted",
       100 * ring::predicted_efficiency(s, p.causal, gpus, of.method, backward, machine)},
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
void time_all(const Choice& choice) {
  constexpr std::int64_t kWarmUp = 2;
  std::vector<cli::Measurement> rows;
  for (std::int64_t gpus = 2;; gpus = std::min(2 * gpus, choice.gpus)) {
    const int ranks = static_cast<int>(std::min(gpus, choice.gpus));
    std::vector<Timed> all;
    for (std::int64_t kilo = choice.shortest; kilo <= choice.longest; kilo *= 2) {
      AttentionShape shape = choice.shape;
      shape.length_q = shape.length_k = 1024 * kilo;
      for_methods(choice, [&](Method method, bool causal) {
        all.push_back({{shape, causal, order_of(method), ranks}, method});
      });
    }
    on_gpus(ranks, choice, [&](Comm& comm, NcclLinks& links, const Stream& stream) {
      std::vector<Timed> own = all;
      for (Timed& of : own) {
        Timer timer(comm, links, stream, of);
        for (std::int64_t i = 0; i < kWarmUp + choice.repeats; ++i) {
          if (i == kWarmUp) of.forward = of.backward = {};
          timer.round(false);
          timer.round(true);
        }
      }
      if (comm.rank() == 0) all = std::move(own);
    });
    for (const Timed& of : all) {
      for (const bool backward : {false, true}) {
        rows.push_back(row_of(of, backward, true, choice));
        rows.push_back(row_of(of, backward, false, choice));
      }
    }
    if (gpus >= choice.gpus) break;
  }
  const AttentionShape& s = choice.shape;
  fmt::print("bfloat16, batch {}, {} query heads, {} key heads, head_dim {}, {}\n{}", s.batch,
             s.heads, s.kv_heads, s.head_dim, device_properties().name,
             cli::table_of(rows, {"form", "mask", "pass", "gpus"}));
  if (!choice.json.empty()) {
    cli::Record({choice.json, choice.commit}, device_properties(), choice.command).add(rows);
  }
}

void add_options(cli::Program& program, Choice& choice) {
  constexpr std::int64_t kMost = 1 << 16;
  program.option("--gpus", choice.gpus, 0, 64, "GPUs; 0: all");
  program.option("--timeout", choice.timeout, 1, 3600, "seconds without progress that end the run");
  program.option("--mask", choice.mask, {"all", "full", "causal"}, "mask");
  std::vector<std::string> methods{"all"};
  for (const Method method : ring::kMethods) methods.push_back(ring::name_of(method));
  program.option("--method", choice.method, methods, "way to distribute attention");
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
  cli::Program program(kName, "Lesson 06: attention over several GPUs, with NCCL.");
  add_options(program, choice);
  bool skipped = false;
  const auto with_gpus = [&](const std::function<void()>& work) {
    if (choice.gpus == 0) choice.gpus = gpus_here();
    if (choice.gpus > gpus_here()) {
      throw std::invalid_argument(
          fmt::format("--gpus is {}; this machine has {}", choice.gpus, gpus_here()));
    }
    skipped = choice.gpus < 2;
    if (!skipped) return work();
    fmt::print("skipped: there are {} GPUs; a ring needs 2\n", choice.gpus);
  };
  program.section("check", "Every form on GPUs against lesson 01",
                  [&] { with_gpus([&] { check_all(program, choice); }); });
  program.section_apart("time", "Times and memory", [&] { with_gpus([&] { time_all(choice); }); });
  const int status = program.run(argc, argv);
  return status == cli::kSuccess && skipped ? 77 : status;
}

}  // namespace
}  // namespace fa::FA_TARGET

int main(int argc, char** argv) {
  return fa::FA_TARGET::run(argc, argv);
}
