// One pinned buffer for two batches
//
// The host prepares a batch in pinned memory, begins an asynchronous copy to
// the device, and prepares the next batch.
// ---
// The copy reads the pinned buffer some time after the call has returned,
// perhaps when the second batch stands there already. An inference engine met
// it in the mode that overlaps the work of host and device; its author holds
// it to be behind four reports, among them illegal memory accesses.
// Report: https://github.com/sgl-project/mini-sglang/pull/103 (March 2026)
#include "museum.cuh"

__global__ void use(const int* batch, int* y) {
  y[threadIdx.x] = batch[threadIdx.x];
}

int main() {
  int *pinned, *batch[2], *y = numbers<int>(128);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMallocHost(&pinned, 64 * sizeof(int));
  for (int k = 0; k < 2; ++k) {
    cudaMalloc(&batch[k], 64 * sizeof(int));
    for (int i = 0; i < 64; ++i) pinned[i] = 100 * k + i;
    cudaMemcpyAsync(batch[k], pinned, 64 * sizeof(int),
                    cudaMemcpyHostToDevice, stream);
#ifdef FIXED
    cudaStreamSynchronize(stream);
#endif
    use<<<1, 64, 0, stream>>>(batch[k], y + 64 * k);
  }
  return result(y, 128, [](int i) { return 100 * (i / 64) + i % 64; });
}
