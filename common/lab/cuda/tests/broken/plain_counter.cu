// Broken: a counter without an atomic.
#include <cooperative_groups.h>

#include <cstdio>
#include <vector>

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
    local[data[i] / divisor]++;  // finding: race
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
  std::vector<unsigned char> data(n);
  unsigned int seed = 1, even = 0;
  std::vector<unsigned int> want(BINS, 0), bins(BINS);
  for (auto &d : data) {
    seed = seed * 1664525u + 1013904223u;
    d = seed >> 24;
    want[d / 4]++;
    even += d % 2 == 0;
  }
  int four = 4;
  cudaMemcpyToSymbol(divisor, &four, sizeof(int));
  unsigned char *dData, *dOut;
  unsigned int *dBins;
  cudaMalloc(&dData, n);
  cudaMalloc(&dOut, n);
  cudaMalloc(&dBins, BINS * sizeof(unsigned int));
  cudaMemcpy(dData, data.data(), n, cudaMemcpyHostToDevice);
  bool ok = true;
  for (bool shared : {false, true}) {
    cudaMemset(dBins, 0, BINS * sizeof(unsigned int));
    if (shared)
      histShared<<<4, 128>>>(dData, n, dBins);
    else
      histGlobal<<<4, 128>>>(dData, n, dBins);
    cudaMemcpy(bins.data(), dBins, BINS * sizeof(unsigned int), cudaMemcpyDeviceToHost);
    ok = ok && bins == want;
  }
  compactEven<<<(n + 127) / 128, 128>>>(dData, n, dOut);
  unsigned int seen = 0;
  cudaMemcpyFromSymbol(&seen, totalSeen, sizeof seen);
  printf("histograms %s, %u even of %u\n", ok ? "right" : "wrong", seen, even);
  cudaFree(dData);
  cudaFree(dOut);
  cudaFree(dBins);
  return ok && seen == even ? 0 : 1;
}
