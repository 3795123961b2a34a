// Threads without work
//
// Each thread counts its elements in shared memory; then all look at the
// count, to decide whether the result fits. The last block has fewer elements
// than threads.
// ---
// The barrier is in the loop. A thread without an element never enters it,
// reads the count before the others have added to it, and decides otherwise
// than they do. Before an optimisation all threads had gone through the loop.
// Jobs of Spark failed.
// Report: https://github.com/NVIDIA/cudf/pull/20370 (October 2025)
#include "museum.cuh"

__global__ void count_marked(const int* marks, int* counts, int n) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const int stride = gridDim.x * blockDim.x;
#ifdef FIXED
  const int end = (n + stride - 1) / stride * stride;
#else
  const int end = n;
#endif
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < end; i += stride) {
    if (i < n && marks[i]) atomicAdd(&count, 1);
    __syncthreads();
  }
  counts[blockIdx.x * blockDim.x + threadIdx.x] = count;
}

int main() {
  int *marks = numbers<int>(96, 1), *counts = numbers<int>(128);
  count_marked<<<2, 64>>>(marks, counts, 96);
  return result(counts, 128, [](int i) { return i < 64 ? 64 : 32; });
}
