// Lesson 06, ring attention between GPUs: one process with a thread for each GPU. Checks every form
// against lesson 01, and times it.
//
// Source: NVIDIA, NCCL documentation: point-to-point communication.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nccl.h>

#include "06_flash_backward/ring/device_engine.cuh"
#include "06_flash_backward/ring/forms.hpp"
#include "common/cli/table.hpp"

namespace fa::FA_TARGET {
namespace {

using ring::Comm;
using ring::Method;
using ring::Problem;

// Throws an error of NCCL with the call that returned it.
void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(
      fmt::format("{}: {} ({})", call, ncclGetErrorString(result), ncclGetLastError(nullptr)));
}

// What DeviceEngine calls to send and receive.
class NcclLinks {
 public:
  // `id` is the same for all ranks, `stream` computes.
  NcclLinks(const Comm& comm, const ncclUniqueId& id, const Stream& stream) : stream_(stream) {
    check_nccl(ncclCommInitRank(&nccl_, comm.size(), id, comm.rank()), "ncclCommInitRank");
    int least = 0, greatest = 0;
    FA_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    // With blocks of both waiting for an SM, those of a transfer come first.
    FA_CUDA(cudaStreamCreateWithPriority(&transfers_, cudaStreamNonBlocking, greatest));
    for (cudaEvent_t* event : {&done_, &begins_, &arrived_}) {
      FA_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
  }
  ~NcclLinks() {
    ncclCommDestroy(nccl_);
    for (const cudaEvent_t event : {done_, begins_, arrived_}) cudaEventDestroy(event);
    cudaStreamDestroy(transfers_);
  }
  NcclLinks(const NcclLinks&) = delete;
  NcclLinks& operator=(const NcclLinks&) = delete;

  // clang-format off
  // Begins transfers when the stream has done what it has to do so far.
  //! [start]
  void start(const ring::Messages& messages) {
    FA_CUDA(cudaEventRecord(done_, stream_.native()));
    FA_CUDA(cudaStreamWaitEvent(transfers_, done_));
    FA_CUDA(cudaEventRecord(begins_, transfers_));
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    for (const ring::Message& to : messages.sends) {
      if (to.bytes == 0) continue;
      check_nccl(ncclSend(to.data, static_cast<std::size_t>(to.bytes), ncclChar,
                          to.rank, nccl_, transfers_), "ncclSend");
    }
    for (const ring::Message& from : messages.receives) {
      if (from.bytes == 0) continue;
      check_nccl(ncclRecv(from.data, static_cast<std::size_t>(from.bytes),
                          ncclChar, from.rank, nccl_, transfers_), "ncclRecv");
    }
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
    FA_CUDA(cudaEventRecord(arrived_, transfers_));
    // A kernel that fills all SMs must not come first: the transfer would
    // wait for its end.
    FA_CUDA(cudaStreamWaitEvent(stream_.native(), begins_));
  }
  //! [start]
  // clang-format on
  // Makes the stream wait for the last start().
  void wait() { FA_CUDA(cudaStreamWaitEvent(stream_.native(), arrived_)); }

 private:
  const Stream& stream_;
  ncclComm_t nccl_ = nullptr;
  cudaStream_t transfers_ = nullptr;
  // What the stream has done before a transfer; the transfer begins; it has ended.
  cudaEvent_t done_ = nullptr, begins_ = nullptr, arrived_ = nullptr;
};

using Engine = DeviceEngine<NcclLinks>;

struct Settings {
  AttentionShape shape{1, 16, 16, 0, 0, 128};  // of the timed problems, without lengths
  std::int64_t gpus = 0, repeats = 7, shortest = 16, longest = 128;
  ring::Choice choice;
};

// Runs body(comm, links, stream) on all ranks, each with a GPU.
template <class Body>
void on_gpus(int ranks, Body body) {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  ring::run_threads(ranks, [&](Comm& comm) {
    FA_CUDA(cudaSetDevice(comm.rank()));
    const Stream stream;
    NcclLinks links(comm, id, stream);
    body(comm, links, stream);
    stream.synchronize();
    gather(comm, 0);  // no rank ends its links before the others
  });
}

// Small problems against lesson 01.
void check_all(cli::Program& program, const Settings& settings) {
  const int ranks = static_cast<int>(settings.gpus);
  for (const AttentionShape& shape :
       {AttentionShape{2, 4, 2, 1007, 1007, 64}, AttentionShape{1, 4, 4, 515, 1301, 128},
        AttentionShape{1, 4, 1, 1301, 515, 128}, AttentionShape{1, 2, 1, 3, 2, 64},
        AttentionShape{1, 2, 2, 1024, 1024, 128}}) {
    settings.choice.for_each([&](Method method, bool causal) {
      const Problem problem{shape, causal, order_of(method), ranks};
      const ring::Reference reference(shape, causal, attention::Type::kBFloat16);
      ring::Results results;
      on_gpus(ranks, [&](Comm& comm, NcclLinks& links, const Stream& stream) {
        Engine engine(links, stream);
        auto own = ring::results_of(comm, engine, problem, method, reference.inputs);
        if (comm.rank() == 0) results = std::move(own);
      });
      const auto what = reference.whole.text();
      reference.report(program, fmt::format("{} GPUs, {}, {}", ranks, name_of(method), what),
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

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Milliseconds of each pass on the GPUs of this run; --gpus 1 is what they are compared with.
void time_all(const Settings& settings) {
  constexpr std::int64_t kWarmUp = 2;
  const int gpus = static_cast<int>(settings.gpus);
  cli::Table table({"method", "mask", "N", "forward, ms", "backward, ms"});
  AttentionShape shape = settings.shape;
  for (std::int64_t kilo = settings.shortest; kilo <= settings.longest; kilo *= 2) {
    shape.length_q = shape.length_k = 1024 * kilo;
    settings.choice.for_each([&](Method method, bool causal) {
      const Problem problem{shape, causal, order_of(method), gpus};
      std::vector<double> times[2];  // forward, backward: of the slowest rank
      on_gpus(gpus, [&](Comm& comm, NcclLinks& links, const Stream& stream) {
        Engine engine(links, stream);
        ring::Rank<Engine> rank(engine, problem, comm.rank());
        std::uint32_t seed = 16 * static_cast<std::uint32_t>(comm.rank());
        for (DeviceBuffer<bfloat16>* x : {&rank.q, &rank.kv, &rank.d_o}) {
          launch_flat(stream, x->count(), fill_random, x->data(), x->count(), ++seed);
        }
        for (std::int64_t i = 0; i < 2 * (kWarmUp + settings.repeats); ++i) {
          stream.synchronize();
          gather(comm, 0);  // a common start
          const auto start = std::chrono::steady_clock::now();
          i % 2 == 0 ? ring::forward(rank, method) : ring::backward(rank, method);
          stream.synchronize();
          const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
          const std::vector<double> all = gather(comm, 1e3 * taken.count());
          if (comm.rank() > 0 || i < 2 * kWarmUp) continue;
          times[i % 2].push_back(*std::max_element(all.begin(), all.end()));
        }
      });
      table.add({name_of(method), causal ? "causal" : "full", std::to_string(shape.length_q),
                 fmt::format("{:.2f}", median(times[0])), fmt::format("{:.2f}", median(times[1]))});
    });
  }
  fmt::print("bfloat16, batch {}, {} query heads, {} key heads, head_dim {}, {} x {}\n{}",
             shape.batch, shape.heads, shape.kv_heads, shape.head_dim, gpus,
             device_properties().name, table.text());
}

int run(int argc, char** argv) {
  // NCCL's multicast is for collectives, which a ring has no use for. Kernels are loaded at once: a
  // load waits for the GPU, which may wait for another rank.
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  Settings settings;
  cli::Program program("ring_attention_nccl", "Lesson 06: attention over several GPUs, with NCCL.");
  constexpr std::int64_t kMost = 1 << 16;
  settings.choice.add_options(program);
  program.option("--heads", settings.shape.heads, 1, kMost, "query heads that are timed");
  program.option("--kv-heads", settings.shape.kv_heads, 1, kMost, "key heads that are timed");
  program.option("--head-dim", settings.shape.head_dim, 8, 256, "head dimension that is timed");
  program.option("--shortest", settings.shortest, 1, kMost, "first length that is timed, in 1024");
  program.option("--longest", settings.longest, 1, kMost, "last length, at twice the one before");
  program.option("--repeats", settings.repeats, 1, 1000, "rounds that time one GPU and all");
  int here = 0;
  if (cudaGetDeviceCount(&here) != cudaSuccess) here = 0;
  if (here < 2) {
    fmt::print("skipped: there are {} GPUs; a ring needs 2\n", here);
    return 77;
  }
  settings.gpus = here;
  program.option("--gpus", settings.gpus, 1, here, "GPUs");
  program.section("check", "Every form on GPUs against lesson 01",
                  [&] { check_all(program, settings); });
  program.section_apart("time", "Times of both passes", [&] { time_all(settings); });
  return program.run(argc, argv);
}

}  // namespace
}  // namespace fa::FA_TARGET

int main(int argc, char** argv) {
  return fa::FA_TARGET::run(argc, argv);
}
