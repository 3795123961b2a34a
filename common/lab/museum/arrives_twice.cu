// An arrival ahead of time
//
// A math warp signals each tile to a storing warp by a named barrier, at which
// it does not wait. Two tiles have a buffer each.
// ---
// bar.arrive does not wait: the math warp may arrive for the next tile, at
// the same barrier, before the storing warp has arrived for this one. PTX
// forbids it: the count of arrivals is wrong, and a later phase never ends.
// It hung on one type of GPU. Two alternating barriers fix it.
// Report: https://github.com/flashinfer-ai/flashinfer/pull/4732 (August 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void twice(const int* x, int* y, int tiles) {
  __shared__ int buffer[2][32];
  for (int tile = 0; tile < tiles; ++tile) {
    if (threadIdx.x < 32) {
      if (tile >= 2) NAMED_SYNC(4 + tile % 2, 64);
      buffer[tile % 2][threadIdx.x] = 2 * x[tile * 32 + threadIdx.x];
#ifdef FIXED
      NAMED_ARRIVE(1 + tile % 2, 64);
    } else {
      NAMED_SYNC(1 + tile % 2, 64);
#else
      NAMED_ARRIVE(1, 64);
    } else {
      NAMED_SYNC(1, 64);
#endif
      y[tile * 32 + threadIdx.x - 32] = buffer[tile % 2][63 - threadIdx.x];
      if (tile + 2 < tiles) NAMED_ARRIVE(4 + tile % 2, 64);
    }
  }
}

int main() {
  int *x = numbers<int>(128, 5), *y = numbers<int>(128);
  twice<<<1, 64>>>(x, y, 4);
  return result(y, 128, [](int) { return 10; });
}
