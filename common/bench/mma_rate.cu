// The rate of matrix instructions on registers and shared memory that never change, with sums that
// do not depend on each other: on each SM one block of some warps. A line for each case,
//   INSTRUCTION SHAPE TYPE WARPS FLOPS
// where FLOPS are those of an SM per clock, the mean of all SMs.
#include <cstdint>
#include <cstdio>
#include <vector>

// clang-format off
#include "common/gpu/hopper.cuh"
#include "common/flatten/host.cuh"  // behind the types that it uses
// clang-format on

namespace fa::FA_TARGET {
namespace {

constexpr int kRounds = 4096;                  // of a warp's 8 mma, or of a warpgroup's 4 wgmma
constexpr std::size_t kAlone = 128 * 1024;     // bytes of shared memory: one block on an SM
constexpr std::uint32_t kOne16 = 0x3f803f80u;  // two bfloat16, 1; as TF32 a little more than 1

struct Bf16 {
  static constexpr const char* name = "m16n8k16 bf16";
  static constexpr int flops = 2 * 16 * 8 * 16;
  static __device__ void mma(float (&d)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2]) {
    mma_m16n8k16<bfloat16>(d, a, b);
  }
};

struct Tf32 {
  static constexpr const char* name = "m16n8k8 tf32";
  static constexpr int flops = 2 * 16 * 8 * 8;
  static __device__ void mma(float (&d)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2]) {
    mma_m16n8k8(d, a, b);
  }
};

// Each warp: eight sums in turn, so that seven more mma are in flight before one needs its sum.
template <class Type>
__global__ void repeat_mma(long long* clocks, float* out) {
  const std::uint32_t a[4] = {kOne16, kOne16, kOne16, kOne16}, b[2] = {kOne16, kOne16};
  float d[8][4] = {};
  for (int i = 0; i < 8; ++i) d[i][0] = static_cast<float>(i * threadIdx.x);  // eight, not one
  __syncthreads();                                                            // all warps begin
  const long long begin = clock64();
  for (int round = 0; round < kRounds; ++round) {
#pragma unroll
    for (auto& sums : d) Type::mma(sums, a, b);
  }
  float sum = 0;
  for (const auto& sums : d) sum += sums[0];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;  // behind the last mma
  __syncthreads();
  if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - begin;
}

// Each warpgroup: 64 x 256 sums, the operands in shared memory.
__global__ void __launch_bounds__(2 * kWarpgroup, 1) repeat_wgmma(long long* clocks, float* out) {
  struct Shared {
    SwizzledTile<bfloat16, 64, 64> a[2];
    SwizzledTile<bfloat16, 256, 64> b;
  };
  auto& shared = *dynamic_shared<Shared>();
  auto* const words = reinterpret_cast<std::uint32_t*>(&shared);
  for (unsigned i = threadIdx.x; i < sizeof shared / 4; i += blockDim.x) words[i] = kOne16;
  fence_async_proxy();
  __syncthreads();
  const auto& a = shared.a[warpgroup_index()];
  float d[128] = {};
  const long long begin = clock64();
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    wgmma_fence(d);
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
      wgmma<bfloat16>(d, a.by_rows(0, k), shared.b.by_rows(0, k), true);
    }
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>(d);
  out[blockIdx.x * blockDim.x + threadIdx.x] = d[0];
  __syncthreads();
  if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - begin;
}

// Prints a line for a kernel whose blocks have so many warps and compute so many FLOPs each.
void measure(void (*kernel)(long long*, float*), const char* name, int warps, double flops) {
  const int sms = device_properties().sm_count;
  long long* const clocks = device_array<long long>(sms);
  float* const out = device_array<float>(std::size_t{1} * sms * warps * kWarp);
  for (int call = 0; call < 3; ++call) {  // the first ones warm up
    launch(Stream{}, kernel,
           {{static_cast<unsigned>(sms)}, {static_cast<unsigned>(warps * kWarp)}, kAlone}, clocks,
           out);
  }
  FA_CUDA(cudaDeviceSynchronize());
  double sum = 0;
  for (const double taken : from_device(clocks, sms)) sum += flops / taken;
  std::printf("%s %d %.1f\n", name, warps, sum / sms);
}

template <class Type>
void measure_mma() {
  char name[40];
  std::snprintf(name, sizeof name, "mma.sync %s", Type::name);
  for (const int warps : {4, 8, 16}) {
    measure(repeat_mma<Type>, name, warps, 1.0 * warps * kRounds * 8 * Type::flops);
  }
}

}  // namespace
}  // namespace fa::FA_TARGET

int main() {
  using namespace fa::FA_TARGET;
  measure_mma<Bf16>();
  measure_mma<Tf32>();
  measure(repeat_wgmma, "wgmma m64n256k16 bf16", 8, 2.0 * kRounds * 4 * 2 * 64 * 256 * 16);
}
