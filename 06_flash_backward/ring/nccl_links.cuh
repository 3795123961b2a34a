/// @file
/// Lesson 06: the links between GPUs, by NCCL. One process has a thread for each GPU; run_threads()
/// ends it when no rank makes progress.
///
/// Source: NVIDIA, NCCL documentation: point-to-point communication.
#pragma once

#include <nccl.h>
#include <stdexcept>

#include "06_flash_backward/ring/comm.hpp"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// Throws an error of NCCL with the call that returned it.
inline void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(
      fmt::format("{}: {} ({})", call, ncclGetErrorString(result), ncclGetLastError(nullptr)));
}

/// What DeviceEngine calls to send and receive.
class NcclLinks {
 public:
  /// @param comm   of all ranks, each a thread with its GPU as the current one
  /// @param id     the same for all
  /// @param stream what computes
  NcclLinks(ring::Comm& comm, const ncclUniqueId& id, const Stream& stream)
      : comm_(comm), stream_(stream) {
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
  /// Begins transfers when the stream has done what it has to do so far.
  //! [start]
  void start(const ring::Messages& messages) {
    comm_.note_progress();
    if (!enabled) return;
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
  /// Makes the stream wait for the last start().
  //! [wait]
  void wait() {
    if (enabled) FA_CUDA(cudaStreamWaitEvent(stream_.native(), arrived_));
  }
  //! [wait]
  // clang-format on

  bool enabled = true;  ///< false: nothing moves, which shows what transfers cost

 private:
  ring::Comm& comm_;
  const Stream& stream_;
  ncclComm_t nccl_ = nullptr;
  cudaStream_t transfers_ = nullptr;
  // What the stream has done before a transfer; the transfer begins; it has ended.
  cudaEvent_t done_ = nullptr, begins_ = nullptr, arrived_ = nullptr;
};

}  // namespace fa::FA_TARGET
