// Within one warp
//
// One warp collects which tokens use its expert: lanes append theirs to a
// list in shared memory, then all lanes read the list.
// ---
// Since Volta the lanes of a warp need not run in step, and a ballot orders
// no memory: lane 0 may read the list before lane 31 has written its entry.
// The missing __syncwarp() was found by racecheck, while the ordinary test
// passed.
// Report: https://github.com/ggml-org/llama.cpp/pull/28475 (September 2026)
#include "museum.cuh"

__global__ void tokens_of(const int* experts, int expert, int* list,
                          int* count) {
  __shared__ int tokens[32];
  const int lane = threadIdx.x;
  const bool mine = experts[lane] == expert;
  const unsigned all = __ballot_sync(~0u, mine);
  if (mine) tokens[__popc(all & ((1u << lane) - 1))] = lane;
#ifdef FIXED
  __syncwarp();
#endif
  if (lane < __popc(all)) list[lane] = tokens[lane];
  if (lane == 0) *count = __popc(all);
}

int main() {
  int *experts = numbers<int>(32, 0, 1), *list = numbers<int>(32),
      *count = numbers<int>(1);
  for (int i = 0; i < 32; ++i) experts[i] %= 4;
  tokens_of<<<1, 32>>>(experts, 3, list, count);
  return result(list, 8, [](int i) { return 4 * i + 3; });
}
