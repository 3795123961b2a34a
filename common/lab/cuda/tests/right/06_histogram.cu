// Histograms: with global atomics, with a copy in shared memory, and with aggregation in the warp.
#include <cooperative_groups.h>

#include "../arrays.cuh"

namespace cg = cooperative_groups;

const int BINS = 64;
__device__ unsigned int totalSeen = 0;
__constant__ int divisor;

__global__ void histGlobal(const unsigned char *data, int n, unsigned int *bins) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[data[i] / divisor], 1u);
}

__global__ void histShared(const unsigned char *data, int n, unsigned int *bins) {
  __shared__ unsigned int local[BINS];
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[data[i] / divisor], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}

// One atomic for all threads of the warp that come here together.
__device__ unsigned int atomicAggInc(unsigned int *counter) {
  cg::coalesced_group active = cg::coalesced_threads();
  unsigned int first = 0;
  if (active.thread_rank() == 0) first = atomicAdd(counter, active.size());
  return active.shfl(first, 0) + active.thread_rank();
}

__global__ void compactEven(const unsigned char *data, int n, unsigned char *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && data[i] % 2 == 0) out[atomicAggInc(&totalSeen)] = data[i];
}

int main() {
  const int n = 2000;
  unsigned int seed = 1, even = 0, seen = 0;
  std::vector<unsigned int> want(BINS, 0);
  const auto data = numbers<unsigned char>(n, [&](int) { return (seed = seed * 1664525u + 1013904223u) >> 24; });
  for (unsigned char d : data) want[d / 4]++, even += d % 2 == 0;
  int four = 4, wrong = 0;
  cudaMemcpyToSymbol(divisor, &four, sizeof(int));
  unsigned char *dData = on_device(data), *dOut = on_device(data);
  unsigned int *dBins;
  cudaMalloc(&dBins, BINS * sizeof(unsigned int));
  for (bool shared : {false, true}) {
    cudaMemset(dBins, 0, BINS * sizeof(unsigned int));
    if (shared)
      histShared<<<4, 128>>>(dData, n, dBins);
    else
      histGlobal<<<4, 128>>>(dData, n, dBins);
    wrong += check(dBins, BINS, [&](int i) { return want[i]; });
  }
  compactEven<<<(n + 127) / 128, 128>>>(dData, n, dOut);
  cudaMemcpyFromSymbol(&seen, totalSeen, sizeof seen);
  printf("%u even of %u\n", seen, even);
  return wrong + (seen != even);
}
