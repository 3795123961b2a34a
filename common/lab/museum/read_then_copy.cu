// Read, then load the next one
//
// A stage of shared memory is filled by a bulk copy; all threads read it;
// after a barrier the next copy fills it again.
// ---
// The reads are done through the generic proxy, the copy writes through the
// async proxy. A barrier orders the threads, and a proxy fence after the
// reads is needed for the copy. A library for communication had the same
// between its loads and its copies:
// https://github.com/deepseek-ai/DeepEP/pull/642.
// Report: https://github.com/NVIDIA/TransformerEngine/pull/2695 (February 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void twice(const int* x, int* y, int tiles) {
  __shared__ __align__(128) int stage[128];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    MBARRIER_INIT(&full, 1);
    FENCE_MBARRIER_INIT();
  }
  __syncthreads();
  for (int tile = 0; tile < tiles; ++tile) {
    if (threadIdx.x == 0) {
      MBARRIER_EXPECT(&full, sizeof stage);
      BULK_LOAD(stage, x + tile * 128, sizeof stage, &full);
    }
    MBARRIER_WAIT(&full, tile % 2);
    y[tile * 128 + threadIdx.x] = 2 * stage[threadIdx.x];
#ifdef FIXED
    FENCE_PROXY_ASYNC();
#endif
    __syncthreads();
  }
}

int main() {
  int *x = numbers<int>(512, 0, 1), *y = numbers<int>(512);
  twice<<<1, 128>>>(x, y, 4);
  return result(y, 512, [](int i) { return 2 * i; });
}
