// A value for another block
//
// Each of two blocks of a cluster sets its inbox to -1 and stores a value
// into the other one's inbox. After a barrier of the cluster both read
// theirs.
// ---
// The peer may not have begun, or may set its inbox to -1 after the value has
// come. Blocks of a cluster are launched together and still need a barrier
// before the first access to each other's memory. A test passed until
// one block was delayed by a millisecond.
// Report: https://github.com/facebookexperimental/triton/pull/2292 (July 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void __cluster_dims__(2) swap(const int* x, int* y) {
  __shared__ int inbox;
  const int rank = blockIdx.x;
  if (threadIdx.x == 0) inbox = -1;
#ifdef FIXED
  CLUSTER_SYNC();
#endif
  if (threadIdx.x == 0) *of_block(&inbox, 1 - rank) = x[rank];
  CLUSTER_SYNC();
  if (threadIdx.x == 0) y[rank] = inbox;
}

int main() {
  int *x = numbers<int>(2, 10, 10), *y = numbers<int>(2);
  swap<<<2, 32>>>(x, y);
  return result(y, 2, [](int i) { return 20 - 10 * i; });
}
