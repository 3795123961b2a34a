// The loader waits
//
// A kernel that may begin early has two loading warps. The one that loads B,
// the activations, waits for the kernel before; A are weights, with their
// scales.
// ---
// The scales are written by the kernel before, too, and a wait counts for the
// thread that executes it: the other warp goes ahead. It was found in review,
// while the kernel was new.
// Report: https://github.com/flashinfer-ai/flashinfer/pull/4685 (August 2026)
#include "museum.cuh"

__global__ void quantize(int* b, int* scale) {
  b[threadIdx.x] = threadIdx.x;
  if (threadIdx.x == 0) *scale = 3;
}

__global__ void gemm(const int* a, const int* b, const int* scale, int* y) {
  __shared__ int a_smem[32], b_smem[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#ifdef FIXED
  cudaGridDependencySynchronize();
#endif
  if (warp == 0) a_smem[lane] = a[lane] * *scale;
  if (warp == 1) {
#ifndef FIXED
    cudaGridDependencySynchronize();
#endif
    b_smem[lane] = b[lane];
  }
  __syncthreads();
  if (warp == 0) y[lane] = a_smem[lane] * b_smem[lane];
}

int main() {
  int *a = numbers<int>(32, 1), *b = numbers<int>(32),
      *scale = numbers<int>(1), *y = numbers<int>(32);
  quantize<<<1, 32>>>(b, scale);
  launch_early(gemm, 1, 64, a, b, scale, y);
  return result(y, 32, [](int i) { return 3 * i; });
}
