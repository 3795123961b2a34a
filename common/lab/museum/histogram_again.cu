// A histogram for each digit
//
// A radix select: in each round the block makes a histogram of one digit, and
// all threads look up how many elements are above the threshold.
// ---
// The last thing in a round is a read of the histogram, the first thing in
// the next one is to clear it. A warp that is late reads a zero. It happened
// only when many elements were equal, so that more than one round was needed;
// racecheck reported it.
// Report: https://github.com/flashinfer-ai/flashinfer/pull/3529 (June 2026)
#include "museum.cuh"

__global__ void select(const int* x, int* above, int rounds) {
  __shared__ int histogram[64];
  int count = 0;
  for (int round = 0; round < rounds; ++round) {
    histogram[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&histogram[(x[threadIdx.x] >> 2 * round) % 4], 1);
    __syncthreads();
    count += histogram[3];
#ifdef FIXED
    __syncthreads();
#endif
  }
  above[threadIdx.x] = count;
}

int main() {
  int *x = numbers<int>(64, 0, 1), *above = numbers<int>(64);
  select<<<1, 64>>>(x, above, 3);
  return result(above, 64, [](int) { return 48; });
}
