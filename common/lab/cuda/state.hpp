/// @file
/// What the CUDA runtime of the lab remembers of the program that it runs.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/lab/cuda/include/lab_cuda/launch.h"
#include "common/lab/watch.hpp"

namespace lab_cuda {

/// Whose memory it is.
enum class Owner { kDevice, kManaged, kHost };
/// An allocation.
struct Allocation {
  std::size_t bytes = 0;
  Owner owner = Owner::kDevice;
};

/// The card that is modelled: the limits of an H100, with two SMs.
struct Card {
  static constexpr const char* kName = "the lab (limits of an H100, 2 SMs, no clock)";
  static constexpr int kMajor = 9, kMinor = 0, kSms = 2, kThreadsOfSm = 2048, kBlocksOfSm = 32;
  static constexpr int kShared = 48 * 1024, kMostShared = 227 * 1024, kSharedOfSm = 228 * 1024;
};

/// What a kernel is ended with. `error` is what the program gets to see.
struct KernelStopped : std::runtime_error {
  KernelStopped(const std::string& of_kind, cudaError_t what, const std::string& message, Where at)
      : std::runtime_error(message), kind(of_kind), error(what), where(at) {}
  std::string kind;
  cudaError_t error;
  Where where;
};

/// The program.
struct State {
  fa::lab::Watch watch;
  std::map<const std::byte*, Allocation> allocations;  // by their first byte
  std::vector<fa::lab::Finding> findings;              // of the runtime itself
  std::vector<std::string> failures;                   // launches that ended early
  std::vector<void*> dynamic_shared;                   // pointers to it at file scope
  std::map<const std::byte*, std::size_t> registered;  // memory of the host that kernels may use
  const std::byte* arguments = nullptr;                // of the launch that runs, on the host
  std::size_t argument_bytes = 0;
  bool cooperative = false;         // that launch
  std::set<std::string> of_device;  // variables, and other names in their declarations
  std::size_t allowed_shared = Card::kShared;
  bool asks_for_clusters = false;
  dim3 cluster;  // that a kernel has given
  std::int64_t launches = 0;
  std::optional<KernelStopped> stopped;  // what the kernel that runs has ended itself with
  std::string why;                       // the last call that failed did
  bool has_failed = false;               // a call has
  std::set<const void*> freed;           // by cudaFree() and the like, and not allocated again
  bool times_were_asked = false;
  cudaError_t last_error = cudaSuccess;  // of cudaGetLastError()
  cudaError_t sticky = cudaSuccess;      // of a launch that failed: all later calls return it

  /// The allocation around an address.
  const std::pair<const std::byte* const, Allocation>* find(const void* address) const;
  /// Notes a finding of a launch or call; once for each line.
  void add(const std::string& kind, Where where, const std::string& message);
  void add(const std::string& kind, const std::string& at, const std::string& message);
};
/// Made before the program's own variables, and never destroyed.
State& state();

/// Notes a finding of the host, at the line of the program that runs.
void add_here(const std::string& kind, const std::string& message);

/// Until the result goes, no other thread of the host uses the card.
std::unique_lock<std::recursive_mutex> lock_card();

/// A stream becomes part of the graph.
void add_to_capture(cudaStream_t stream);

/// Writes the report and ends the program, whose time is over.
[[noreturn]] void end_program(const std::string& why);

/// Notes an error, with what is wrong where that is known, and returns it.
cudaError_t report(cudaError_t error, const std::string& why = "");

/// The engine's number of a stream.
std::uint64_t stream_number(cudaStream_t stream);
/// What clock64() counts.
long long clock_now();

}  // namespace lab_cuda
