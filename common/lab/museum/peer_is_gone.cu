// A value of another block
//
// Block 0 of a cluster computes a value; after a barrier of the cluster its
// peer reads it from block 0's shared memory.
// ---
// Nothing keeps block 0 there until the peer has read: it may end, and its
// shared memory may belong to another block. A compiler emitted no barrier at
// the end: "unspecified launch failure", and 932 of the tests that came later
// failed as well.
// Report: https://github.com/triton-lang/triton/issues/11730 (September 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void __cluster_dims__(2) broadcast(const int* x, int* y) {
  __shared__ int value;
  if (blockIdx.x == 0 && threadIdx.x == 0) value = *x;
  CLUSTER_SYNC();
  y[blockIdx.x * 32 + threadIdx.x] = *of_block(&value, 0);
#ifdef FIXED
  CLUSTER_SYNC();
#endif
}

int main() {
  int *x = numbers<int>(1, 7), *y = numbers<int>(64);
  broadcast<<<2, 32>>>(x, y);
  return result(y, 64, [](int) { return 7; });
}
