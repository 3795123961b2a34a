// One thread adds up
//
// A block multiplies a matrix by a vector, one row after the other: each
// thread has a part of the product, and thread 0 adds the parts up.
// ---
// While thread 0 still adds, the other threads are in the next iteration and
// overwrite the parts. The barrier in the loop separates writing from
// reading, and nothing separates reading from the next writing.
// Report: https://github.com/NVIDIA/cuml/pull/6578 (April 2025)
#include "museum.cuh"

__global__ void gemv(const float* a, const float* x, float* y, int rows) {
  __shared__ float part[64];
  for (int row = 0; row < rows; ++row) {
    part[threadIdx.x] = a[row * 64 + threadIdx.x] * x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
      float sum = 0;
      for (int i = 0; i < 64; ++i) sum += part[i];
      y[row] = sum;
    }
#ifdef FIXED
    __syncthreads();
#endif
  }
}

int main() {
  float *a = numbers<float>(512, 1), *x = numbers<float>(64, 2),
        *y = numbers<float>(8);
  for (int i = 0; i < 512; ++i) a[i] = i / 64;
  gemv<<<1, 64>>>(a, x, y, 8);
  return result(y, 8, [](int i) { return 128.f * i; });
}
