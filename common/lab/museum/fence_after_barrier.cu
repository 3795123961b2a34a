// A barrier and a fence
//
// A quantizing kernel writes a tile, and thread 0 stores it by a bulk copy.
// There are a barrier and a fence for the async proxy.
// ---
// The fence works for the writes of the thread that executes it. After the
// barrier each thread has fenced its own writes, but nothing orders the other
// threads' fences before the copy of thread 0: first all fence, then the
// barrier. The CUDA guide says so.
// Report: https://github.com/pytorch/ao/pull/4278 (April 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void quantize(const float* x, int* y) {
  __shared__ __align__(128) int tile[128];
  tile[threadIdx.x] = static_cast<int>(x[threadIdx.x] * 2);
#ifdef FIXED
  FENCE_PROXY_ASYNC();
  __syncthreads();
#else
  __syncthreads();
  FENCE_PROXY_ASYNC();
#endif
  if (threadIdx.x == 0) {
    BULK_STORE(y, tile, sizeof tile);
    BULK_COMMIT();
    BULK_WAIT();
  }
}

int main() {
  float* x = numbers<float>(128, 0, 1);
  int* y = numbers<int>(128);
  quantize<<<1, 128>>>(x, y);
  return result(y, 128, [](int i) { return 2 * i; });
}
