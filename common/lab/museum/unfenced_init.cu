// A barrier for a copy
//
// Thread 0 makes an mbarrier and begins a bulk copy that reports to it. The
// others wait for the data.
// ---
// The copy's unit updates the mbarrier through the async proxy, and the init
// was an ordinary store: it needs fence.mbarrier_init (or fence.proxy.async)
// before a copy uses it. Otherwise bytes may be counted in a barrier that is
// not there yet, and the block hangs.
// Report: https://github.com/MoonshotAI/FlashKDA/issues/24 (July 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void twice(const int* x, int* y) {
  __shared__ __align__(128) int tile[128];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    MBARRIER_INIT(&full, 1);
#ifdef FIXED
    FENCE_MBARRIER_INIT();
#endif
    MBARRIER_EXPECT(&full, sizeof tile);
    BULK_LOAD(tile, x, sizeof tile, &full);
  }
  __syncthreads();
  MBARRIER_WAIT(&full, 0);
  y[threadIdx.x] = 2 * tile[threadIdx.x];
}

int main() {
  int *x = numbers<int>(128, 0, 1), *y = numbers<int>(128);
  twice<<<1, 128>>>(x, y);
  return result(y, 128, [](int i) { return 2 * i; });
}
