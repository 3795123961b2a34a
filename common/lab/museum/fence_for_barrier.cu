// A sum over all blocks
//
// A softmax in one launch: each block adds its sum of exponentials to a
// total, and divides by the total after a fence for the whole GPU.
// ---
// A fence orders the memory accesses of its own thread; it waits for no other
// block. A block divides by the sum of those blocks that happen to have come
// before it. With an input that fits into one wave of blocks it is often
// right.
// Report: https://github.com/xlite-dev/LeetCUDA/issues/251 (February 2025)
#include "museum.cuh"

__global__ void softmax(const float* x, float* y, float* total) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  float sum = expf(x[i]);
  for (int lane = 16; lane > 0; lane /= 2)
    sum += __shfl_xor_sync(~0u, sum, lane);
  if (threadIdx.x == 0) atomicAdd(total, sum);
#ifndef FIXED
  __threadfence();
  y[i] = expf(x[i]) / *total;
#endif
}

__global__ void divide(const float* x, float* y, const float* total) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  y[i] = expf(x[i]) / *total;
}

int main() {
  float *x = numbers<float>(256), *y = numbers<float>(256),
        *total = numbers<float>(1);
  softmax<<<8, 32>>>(x, y, total);
#ifdef FIXED
  divide<<<8, 32>>>(x, y, total);
#endif
  return result(y, 256, [](int) { return 1.f / 256; });
}
