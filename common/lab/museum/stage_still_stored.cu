// Input and output share a stage
//
// A persistent block loads tiles to a ring of two stages. The result of each
// item stands in stage 0, from where it is stored while the next item begins.
// ---
// Before stage 0 is filled again the store must have read it. The wait stands
// at a fixed turn of the loop, which is the right one only if an item has a
// multiple of two tiles. Small sizes passed, the two largest gave wrong
// results.
// Report: https://github.com/uccl-project/mKernel/pull/18 (May 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void sums(const int* x, int* y, int items, int tiles) {
  __shared__ __align__(128) int stages[2][32];
  __shared__ std::uint64_t full[2];
  const int lane = threadIdx.x;
  if (lane == 0) {
    for (int i = 0; i < 2; ++i) MBARRIER_INIT(&full[i], 1);
    FENCE_MBARRIER_INIT();
  }
  __syncwarp();
  int turn = 0;
  for (int item = 0; item < items; ++item) {
    int sum = 0;
    for (int tile = 0; tile < tiles; ++tile, ++turn) {
      const int stage = turn % 2;
#ifdef FIXED
      if (tile == 0 && lane == 0) BULK_WAIT_READ();
#else
      if (tile == 1 && lane == 0) BULK_WAIT_READ();
#endif
      if (lane == 0) {
        MBARRIER_EXPECT(&full[stage], sizeof stages[0]);
        BULK_LOAD(stages[stage], x + (item * tiles + tile) * 32,
                  sizeof stages[0], &full[stage]);
      }
      MBARRIER_WAIT(&full[stage], turn / 2 % 2);
      sum += stages[stage][lane];
      FENCE_PROXY_ASYNC();
      __syncwarp();
    }
    stages[0][lane] = sum;
    FENCE_PROXY_ASYNC();
    __syncwarp();
    if (lane == 0) {
      BULK_STORE(y + item * 32, stages[0], sizeof stages[0]);
      BULK_COMMIT();
    }
  }
  if (lane == 0) BULK_WAIT();
}

int main() {
  int *x = numbers<int>(288, 1), *y = numbers<int>(96);
  sums<<<1, 32>>>(x, y, 3, 3);
  return result(y, 96, [](int) { return 3; });
}
