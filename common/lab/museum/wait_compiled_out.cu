// A wait for some architectures
//
// A library of kernels calls wait_on_dependent_grids() before a kernel reads
// its input. Kernels are launched so that they may begin early.
// ---
// The function is empty unless a macro is defined, and the build did not
// define it: the host asked for early launches, and the device did not wait.
// Tiles of NaN came under load only. The fixed twin is compiled with the
// macro.
// Report: https://github.com/flashinfer-ai/flashinfer/issues/2708 (March 2026)
#include "museum.cuh"

#ifdef FIXED
#define ENABLE_DEPENDENT_LAUNCH
#endif

__device__ void wait_on_dependent_grids() {
#ifdef ENABLE_DEPENDENT_LAUNCH
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__global__ void quantize(const float* x, int* q) {
  q[threadIdx.x] = static_cast<int>(2 * x[threadIdx.x]);
}

__global__ void gemm(const int* q, int* y) {
  wait_on_dependent_grids();
  y[threadIdx.x] = 10 * q[threadIdx.x];
}

int main() {
  float* x = numbers<float>(64, 0, 1);
  int *q = numbers<int>(64), *y = numbers<int>(64);
  quantize<<<1, 64>>>(x, q);
  launch_early(gemm, 1, 64, q, y);
  return result(y, 64, [](int i) { return 20 * i; });
}
