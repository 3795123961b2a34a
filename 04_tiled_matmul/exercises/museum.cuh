/// @file
/// For repairs of kernels from the museum: the macros of its hopper.cuh as functions of the course,
/// and what their entries share.
#pragma once

#include <atomic>

#include "common/gpu/hopper.cuh"
#include "common/lab/async.hpp"
#include "common/lab/record.hpp"

// clang-format off
#define MBARRIER_INIT(barrier, arrivals) as_mbarrier(barrier).init(arrivals)
#define MBARRIER_ARRIVE(barrier) as_mbarrier(barrier).arrive()
#define MBARRIER_EXPECT(barrier, bytes) \
  as_mbarrier(barrier).arrive_and_expect(static_cast<int>(bytes))
#define MBARRIER_WAIT(barrier, parity) as_mbarrier(barrier).wait(static_cast<int>(parity))
#define FENCE_MBARRIER_INIT fence_barrier_init
#define FENCE_PROXY_ASYNC fence_async_proxy
#define NAMED_SYNC named_barrier_wait
#define BULK_LOAD(to, from, bytes, barrier) \
  bulk_load(to, from, static_cast<int>(bytes), as_mbarrier(barrier))
#define BULK_STORE(to, from, bytes) \
  bulk_store(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), \
             static_cast<int>(bytes))
#define BULK_COMMIT bulk_commit
#define BULK_WAIT_READ bulk_wait_read<0>
#define BULK_WAIT bulk_wait<0>
#define WGMMA(sums, a, b) \
  lab::begin_wgmma({4, lab::WgmmaType::kHalf, false, false, true, false, 0, b}, {sums, a}, \
                   caller_location())
#define WGMMA_FENCE() lab::fence_registers(nullptr)
#define WGMMA_COMMIT lab::commit_wgmma
#define WGMMA_WAIT() lab::wait_wgmma(0)
#define cudaGridDependencySynchronize grid_dependency_wait
#define cudaTriggerProgrammaticLaunchCompletion count_trigger
// clang-format on

namespace fa::FA_TARGET {

/// Shared memory that copies and tensor cores can use: a T at a multiple of 1024 bytes, below 4096.
template <class T>
T& shared(int at) {
  return *reinterpret_cast<T*>(dynamic_shared<std::byte>() + at);
}
inline Mbarrier& as_mbarrier(void* barrier) {
  return *static_cast<Mbarrier*>(barrier);
}
/// Of 8 rows of 64 halfs, see the museum.
inline std::uint64_t descriptor(const void* tile) {
  return (shared_address(tile) & 0x3ffffu) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
inline half __float2half(float x) {
  return half(x);
}

/// Threads that have allowed the next launch to begin.
inline std::atomic<int> triggers = 0;
FA_UNWATCHED __attribute__((noinline)) inline void count_trigger() {
  ++triggers;
}

}  // namespace fa::FA_TARGET

namespace fa::classroom {

/// What a repaired kernel did in the watched lab, why it failed, and its steps by lab::Step::Kind.
using Repaired = std::tuple<Launched, std::string, std::vector<std::int64_t>>;

/// Runs a launch twice, watched and recorded. The last step is that of triggers.
inline Repaired repaired(const std::function<std::vector<double>()>& work) {
  Repaired result;
  auto& [launched, error, steps] = result;
  launched.seen =
      watch([&, &out = launched.out, &why = error] { why = thrown([&] { out = work(); }); });
  steps.resize(static_cast<std::size_t>(lab::Step::Kind::kWaitWgmma) + 2);
  FA_TARGET::triggers = 0;
  if (!error.empty()) return result;
  for (const lab::BlockRecord& block : lab::record([&] { work(); })) {
    for (const auto& warp : block.warps) {
      for (const lab::Step& step : warp) ++steps[static_cast<std::size_t>(step.kind)];
    }
  }
  steps.back() = FA_TARGET::triggers;
  return result;
}

/// Launches a kernel of the museum: its first parameters are what it reads and what it writes.
template <class In, class Out, class... More>
std::vector<double> run_piece(void (*kernel)(const In*, Out*, More...), int threads,
                              const std::vector<double>& x, int results, More... more) {
  const auto in = on_device(std::vector<In>(x.begin(), x.end()));
  FA_TARGET::DeviceBuffer<Out> out(results);
  FA_TARGET::launch(kernel, {{1}, {static_cast<unsigned>(threads)}, 4096}, in.data(), out.data(),
                    more...);
  return from_device(out);
}

}  // namespace fa::classroom
