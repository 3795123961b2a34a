// A table for each tile
//
// A block works through tiles. For each it loads a table of 64 rows to shared
// memory and stores its results to these rows.
// ---
// After its store a warp loads the next tile's table while another warp still
// reads this one's: it then stores a result to the row of another tile. It
// depended on the shape of the matrix and on the number of SMs, because only
// blocks with several tiles are affected.
// Report: https://github.com/ggml-org/llama.cpp/pull/13294 (May 2025)
#include "museum.cuh"

__global__ void scatter(const int* rows, int* y, int tiles) {
  __shared__ int rows_smem[64];
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    rows_smem[threadIdx.x] = rows[tile * 64 + threadIdx.x];
    __syncthreads();
    y[rows_smem[63 - threadIdx.x]] = tile;
#ifdef FIXED
    __syncthreads();
#endif
  }
}

int main() {
  int *rows = numbers<int>(256, 255, -1), *y = numbers<int>(256);
  scatter<<<2, 64>>>(rows, y, 4);
  return result(y, 256, [](int i) { return 3 - i / 64; });
}
