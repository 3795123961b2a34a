// The last block to finish adds up what all blocks have left: volatile sums, a fence, a counter.
#include <cstdio>
#include <vector>

constexpr int kThreads = 128;

__device__ unsigned int finished;

__device__ float block_sum(float value) {
  __shared__ float sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (unsigned int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

__global__ void sum(const float *in, int n, volatile float *partial) {
  __shared__ bool last;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float value = block_sum(i < n ? in[i] : 0.0f);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = value;
    __threadfence();
    last = atomicInc(&finished, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  float mine = 0.0f;
  for (unsigned int b = threadIdx.x; b < gridDim.x; b += kThreads) mine += partial[b];
  const float total = block_sum(mine);
  if (threadIdx.x == 0) {
    partial[0] = total;
    finished = 0;
  }
}

int main() {
  const int n = 1000, blocks = (n + kThreads - 1) / kThreads;
  std::vector<float> in(n);
  for (int i = 0; i < n; ++i) in[i] = static_cast<float>(i % 7);
  float *d_in, *d_partial;
  cudaMalloc(&d_in, n * sizeof(float));
  cudaMalloc(&d_partial, blocks * sizeof(float));
  cudaMemcpy(d_in, in.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  for (int again = 0; again < 2; ++again) {
    sum<<<blocks, kThreads>>>(d_in, n, d_partial);
    float total = 0;
    cudaMemcpy(&total, d_partial, sizeof total, cudaMemcpyDeviceToHost);
    std::printf("sum %.0f\n", total);
  }
  cudaFree(d_in);
  cudaFree(d_partial);
}
