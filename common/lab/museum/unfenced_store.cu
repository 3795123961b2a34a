// A tile by TMA
//
// All threads convert a tile in shared memory, and after a barrier one thread
// stores it to global memory by a bulk copy.
// ---
// Stores of threads go through the generic proxy, the copy reads through the
// async proxy, and a barrier does not connect the two: each thread that wrote
// needs fence.proxy.async before the barrier. It mostly works, and then a
// stale tile leaves. An audit of the code found it.
// Report: https://github.com/MoonshotAI/FlashKDA/pull/25 (July 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void convert(const int* x, float* y) {
  __shared__ __align__(128) float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
#ifdef FIXED
  FENCE_PROXY_ASYNC();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    BULK_STORE(y, tile, sizeof tile);
    BULK_COMMIT();
    BULK_WAIT();
  }
}

int main() {
  int* x = numbers<int>(128, 0, 1);
  float* y = numbers<float>(128);
  convert<<<1, 128>>>(x, y);
  return result(y, 128, [](int i) { return 1.f * i; });
}
