// A buffer after its store
//
// For each tile all threads fill a buffer, one thread stores it by a bulk
// copy, and before the next tile all threads wait until the buffer has been
// read.
// ---
// Groups of bulk copies belong to the thread that committed them: for the 127
// others the wait returns at once, and they overwrite what is still being
// read. It was in the quantizing kernels for FP8, MXFP8 and NVFP4, of a
// library that trains large models.
// Report: https://github.com/NVIDIA/TransformerEngine/pull/3417 (August 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void quantize(const int* x, int* y, int tiles) {
  __shared__ __align__(128) int buffer[128];
  for (int tile = 0; tile < tiles; ++tile) {
    BULK_WAIT_READ();
#ifdef FIXED
    __syncthreads();
#endif
    buffer[threadIdx.x] = 2 * x[tile * 128 + threadIdx.x];
    FENCE_PROXY_ASYNC();
    __syncthreads();
    if (threadIdx.x == 0) {
      BULK_STORE(y + tile * 128, buffer, sizeof buffer);
      BULK_COMMIT();
    }
  }
  if (threadIdx.x == 0) BULK_WAIT();
}

int main() {
  int *x = numbers<int>(512, 0, 1), *y = numbers<int>(512);
  quantize<<<1, 128>>>(x, y, 4);
  return result(y, 512, [](int i) { return 2 * i; });
}
