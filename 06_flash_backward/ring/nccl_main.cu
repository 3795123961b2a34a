// Lesson 06, ring attention between GPUs: one process with a thread for each GPU. Checks every form
// against lesson 01.
//
// Source: NVIDIA, NCCL documentation: point-to-point communication.
#include <cstdlib>
#include <nccl.h>

#include "06_flash_backward/ring/device_engine.cuh"
#include "06_flash_backward/ring/forms.hpp"

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
void check_all(cli::Program& program, const ring::Choice& choice, int ranks) {
  for (const AttentionShape& shape :
       {AttentionShape{2, 4, 2, 1007, 1007, 64}, AttentionShape{1, 4, 4, 515, 1301, 128},
        AttentionShape{1, 4, 1, 1301, 515, 128}, AttentionShape{1, 2, 1, 3, 2, 64},
        AttentionShape{1, 2, 2, 1024, 1024, 128}}) {
    choice.for_each([&](Method method, bool causal) {
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

int run(int argc, char** argv) {
  // NCCL's multicast is for collectives, which a ring has no use for. Kernels are loaded at once: a
  // load waits for the GPU, which may wait for another rank.
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  ring::Choice choice;
  cli::Program program("ring_attention_nccl", "Lesson 06: attention over several GPUs, with NCCL.");
  choice.add_options(program);
  int here = 0;
  if (cudaGetDeviceCount(&here) != cudaSuccess) here = 0;
  if (here < 2) {
    fmt::print("skipped: there are {} GPUs; a ring needs 2\n", here);
    return 77;
  }
  std::int64_t gpus = here;
  program.option("--gpus", gpus, 1, here, "GPUs");
  program.section("check", "Every form on GPUs against lesson 01",
                  [&] { check_all(program, choice, static_cast<int>(gpus)); });
  return program.run(argc, argv);
}

}  // namespace
}  // namespace fa::FA_TARGET

int main(int argc, char** argv) {
  return fa::FA_TARGET::run(argc, argv);
}
