/// @file
/// Lesson 06: the links of a ring of GPUs, by NCCL. Calls do not block, and each wait has a time
/// limit, so that a rank that failed or hangs stops the others within seconds.
///
/// Source: NVIDIA, NCCL documentation: point-to-point communication, fault tolerance.
#pragma once

#include <cstring>
#include <nccl.h>
#include <thread>
#include <vector>

#include "06_flash_backward/ring/device_rank.cuh"
#include "06_flash_backward/ring/group.hpp"

namespace fa::FA_TARGET {

/// The links of a rank to its neighbours in the ring.
class NcclLinks {
 public:
  /// Links of a group's ranks, each with the current GPU of its thread.
  explicit NcclLinks(ring::Group& group);
  ~NcclLinks();
  NcclLinks(const NcclLinks&) = delete;
  NcclLinks& operator=(const NcclLinks&) = delete;

  /// Connects the ranks, which wait for each other.
  void connect();
  /// Begins to send to the right neighbour and to receive from the left one, when a stream has done
  /// what it has to do so far.
  void shift(const std::vector<RingMessage>& messages, const Stream& stream);
  /// Makes a stream wait for the last shift().
  void wait(const Stream& stream);
  /// Waits for all that a stream has to do.
  void synchronize(const Stream& stream);
  /// Ends the links of all ranks, which wait for each other.
  void close();

 private:
  void abort();
  void check(ncclResult_t result, const char* call) const;
  template <class Done>
  void wait_until(Done done, const std::string& what);
  void settle(ncclResult_t result, const std::string& what);

  ring::Group& group_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t transfers_ = nullptr;
  // What the stream has done before a transfer; the transfer begins; it has ended.
  cudaEvent_t done_ = nullptr, begins_ = nullptr, arrived_ = nullptr;
};

inline NcclLinks::NcclLinks(ring::Group& group) : group_(group) {
  int least = 0, greatest = 0;
  FA_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // With blocks of both waiting for an SM, those of a transfer come first.
  FA_CUDA(cudaStreamCreateWithPriority(&transfers_, cudaStreamNonBlocking, greatest));
  for (cudaEvent_t* event : {&done_, &begins_, &arrived_}) {
    FA_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
}

inline void NcclLinks::connect() {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  if (version < NCCL_VERSION_CODE) {
    throw std::runtime_error(
        fmt::format("NCCL's library has version code {}, the header that this program was compiled "
                    "with has {}: the library must not be older",
                    version, NCCL_VERSION_CODE));
  }
  group_.agree({{"NCCL's version code", version}});
  ncclUniqueId id{};
  if (group_.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::vector<char> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  const auto all = group_.all_gather(bytes, "the address of rank 0");
  std::memcpy(&id, all.data(), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  settle(ncclCommInitRankConfig(&comm_, group_.size(), id, group_.rank(), &config),
         "a connection to the other ranks");
}

inline NcclLinks::~NcclLinks() {
  abort();
  for (const cudaEvent_t event : {done_, begins_, arrived_}) cudaEventDestroy(event);
  cudaStreamDestroy(transfers_);
}

// Ends transfers that have begun. Without it no memory of the GPU could be freed while one waits
// for another rank.
inline void NcclLinks::abort() {
  if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
}

inline void NcclLinks::close() {
  settle(ncclCommFinalize(comm_), "the end of the other ranks");
  check(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
}

inline void NcclLinks::check(ncclResult_t result, const char* call) const {
  if (result == ncclSuccess) return;
  throw std::runtime_error(
      fmt::format("{}: {} ({})", call, ncclGetErrorString(result), ncclGetLastError(comm_)));
}

// Waits, and aborts when another rank has failed or does not answer.
template <class Done>
void NcclLinks::wait_until(Done done, const std::string& what) {
  const auto start = ring::Group::Clock::now();
  try {
    while (!done()) {
      group_.check_wait(start, what);
      std::this_thread::yield();
    }
  } catch (...) {
    abort();
    throw;
  }
}

// Waits until a call has done its work on the host.
inline void NcclLinks::settle(ncclResult_t result, const std::string& what) {
  wait_until(
      [&] {
        if (result == ncclInProgress) {
          check(ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError");
        }
        return result != ncclInProgress;
      },
      what);
  check(result, what.c_str());
}

inline void NcclLinks::synchronize(const Stream& stream) {
  const int size = group_.size();
  const std::string what = fmt::format("rank {}", (group_.rank() + size - 1) % size);
  wait_until(
      [&] {
        const cudaError_t state = cudaStreamQuery(stream.native());
        if (state != cudaErrorNotReady) FA_CUDA(state);
        ncclResult_t error = ncclSuccess;
        check(ncclCommGetAsyncError(comm_, &error), "ncclCommGetAsyncError");
        check(error, "a transfer");
        return state == cudaSuccess;
      },
      what);
}

inline void NcclLinks::shift(const std::vector<RingMessage>& messages, const Stream& stream) {
  group_.begin_transfer();
  const int size = group_.size(), left = (group_.rank() + size - 1) % size,
            right = (group_.rank() + 1) % size;
  FA_CUDA(cudaEventRecord(done_, stream.native()));
  FA_CUDA(cudaStreamWaitEvent(transfers_, done_));
  FA_CUDA(cudaEventRecord(begins_, transfers_));
  check(ncclGroupStart(), "ncclGroupStart");
  for (const RingMessage& m : messages) {
    if (m.send_bytes > 0) {
      ncclSend(m.send, static_cast<std::size_t>(m.send_bytes), ncclChar, right, comm_, transfers_);
    }
    if (m.receive_bytes > 0) {
      ncclRecv(m.receive, static_cast<std::size_t>(m.receive_bytes), ncclChar, left, comm_,
               transfers_);
    }
  }
  settle(ncclGroupEnd(), fmt::format("transfers with ranks {} and {}", left, right));
  FA_CUDA(cudaEventRecord(arrived_, transfers_));
  // A kernel that fills all SMs must not come first: the transfer would wait
  // for its end.
  FA_CUDA(cudaStreamWaitEvent(stream.native(), begins_));
}

inline void NcclLinks::wait(const Stream& stream) {
  FA_CUDA(cudaStreamWaitEvent(stream.native(), arrived_));
}

}  // namespace fa::FA_TARGET
