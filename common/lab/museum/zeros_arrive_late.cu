// Sums that begin at zero
//
// Each of four warps stores its sum to an array that warp 0 has set to zero
// before; warp 0 adds up all 32 elements.
// ---
// Thread i of warp 0 sets element i to zero, and *warp* i stores to element
// i. If warp 1 is first, its sum is overwritten by a zero of warp 0. The
// barrier comes after both. The code is from April 2024, the report two years
// younger.
// Report: https://github.com/karpathy/llm.c/pull/847 (April 2026)
#include "museum.cuh"

__global__ void sum(const int* x, int* y) {
  __shared__ int sums[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) sums[lane] = 0;
  int s = __reduce_add_sync(~0u, x[threadIdx.x]);
#ifdef FIXED
  __syncthreads();
#endif
  if (lane == 0) sums[warp] = s;
  __syncthreads();
  if (warp == 0) s = __reduce_add_sync(~0u, sums[lane]);
  if (threadIdx.x == 0) *y = s;
}

int main() {
  int *x = numbers<int>(128, 1), *y = numbers<int>(1);
  sum<<<1, 128>>>(x, y);
  return result(y, 1, [](int) { return 128; });
}
