// Two reductions, one buffer
//
// A block of 64 x 4 threads adds up columns, then the row of their sums. Both
// reductions use the same shared memory.
// ---
// The first reduction ends with a read: row 0 takes the other rows' values
// from the buffer. The second one begins with a write to the same place by
// other threads. Each function is right on its own; the barrier between the
// two calls belonged to neither.
// Report: https://github.com/pytorch/pytorch/pull/162995 (September 2025)
#include "museum.cuh"

__device__ int add_rows(int value, int* buffer) {
  buffer[threadIdx.y * 64 + threadIdx.x] = value;
  for (int rows = 2; rows > 0; rows /= 2) {
    __syncthreads();
    if (threadIdx.y < rows) {
      value += buffer[(threadIdx.y + rows) * 64 + threadIdx.x];
      if (rows > 1) buffer[threadIdx.y * 64 + threadIdx.x] = value;
    }
  }
  return value;
}

__device__ int add_columns(int value, int* buffer) {
  buffer[threadIdx.y * 64 + threadIdx.x] = value;
  __syncthreads();
  for (int i = 0; i < 64; ++i) {
    if (i != threadIdx.x) value += buffer[threadIdx.y * 64 + i];
  }
  return value;
}

__global__ void reduce(const int* x, int* y) {
  __shared__ int buffer[256];
  int sum = add_rows(x[threadIdx.y * 64 + threadIdx.x], buffer);
#ifdef FIXED
  __syncthreads();
#endif
  sum = add_columns(sum, buffer);
  if (threadIdx.y == 0) y[threadIdx.x] = sum;
}

int main() {
  int *x = numbers<int>(256, 1), *y = numbers<int>(64);
  reduce<<<1, dim3(64, 4)>>>(x, y);
  return result(y, 64, [](int) { return 256; });
}
