// A persistent kernel: each step needs the whole grid to have done the last one. Once with a barrier
// of its own, once with that of cooperative groups.
#include <cooperative_groups.h>
#include <cstdio>
#include <utility>
namespace cg = cooperative_groups;

__device__ unsigned int arrived = 0;

__device__ void gridBarrier(unsigned int goal) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&arrived, 1);
    while (atomicAdd(&arrived, 0) < goal) {
    }
    __threadfence();
  }
  __syncthreads();
}

template <bool own>
__global__ void relax(float *a, float *b, int n, int steps) {
  for (int s = 0; s < steps; ++s) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
      float left = i > 0 ? a[i - 1] : 0.0f, right = i + 1 < n ? a[i + 1] : 0.0f;
      b[i] = 0.5f * (left + right);
    }
    if (own)
      gridBarrier((s + 1) * gridDim.x);
    else
      cg::this_grid().sync();
    float *t = a;
    a = b;
    b = t;
  }
}

int main() {
  int n = 500, steps = 4, perSm = 0, device = 0;
  cudaDeviceProp prop;
  cudaGetDeviceProperties(&prop, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSm, relax<true>, 64, 0);
  int blocks = prop.multiProcessorCount * perSm;
  if (blocks > 4) blocks = 4;
  float host[500], x[500], y[500];
  for (int i = 0; i < n; ++i) host[i] = x[i] = (float)(i % 10);
  for (int s = 0; s < steps; ++s) {
    for (int i = 0; i < n; ++i) y[i] = 0.5f * ((i ? x[i - 1] : 0) + (i + 1 < n ? x[i + 1] : 0));
    std::swap(x, y);
  }
  float *a, *b;
  cudaMalloc(&a, sizeof host);
  cudaMalloc(&b, sizeof host);
  int failures = 0;
  for (int own = 0; own < 2; ++own) {
    cudaMemcpy(a, x == y ? y : host, sizeof host, cudaMemcpyHostToDevice);
    void *args[] = {&a, &b, &n, &steps};
    void *kernel = own ? (void *)relax<true> : (void *)relax<false>;
    cudaError_t error = own ? cudaLaunchCooperativeKernel((void *)relax<true>, dim3(blocks), dim3(64), args)
                            : cudaLaunchCooperativeKernel((void *)relax<false>, dim3(blocks), dim3(64), args);
    if (error != cudaSuccess || kernel == nullptr) printf("%s\n", cudaGetErrorString(error));
    float result[500];
    cudaMemcpy(result, steps % 2 ? b : a, sizeof result, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; ++i) wrong += result[i] != x[i];
    printf("%s barrier: %s\n", own ? "own" : "cooperative", wrong ? "wrong" : "ok");
    failures += wrong != 0;
  }
  cudaFree(a);
  cudaFree(b);
  return failures;
}
