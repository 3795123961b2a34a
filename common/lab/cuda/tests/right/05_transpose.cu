// Transposes: naive, through shared memory, and with a padded tile.
#include <cstdio>
#include <cstring>

#define TILE_DIM 32
#define BLOCK_ROWS 8

typedef void (*Transpose)(float *, const float *, int, int);

__global__ void transposeNaive(float *odata, const float *idata, int width, int height) {
  int x = blockIdx.x * TILE_DIM + threadIdx.x, y = blockIdx.y * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) {
    if (x < width && y + j < height) odata[x * height + y + j] = idata[(y + j) * width + x];
  }
}

template <int PAD>
__global__ void transposeTiled(float *odata, const float *idata, int width, int height) {
  __shared__ float tile[TILE_DIM][TILE_DIM + PAD];
  int x = blockIdx.x * TILE_DIM + threadIdx.x, y = blockIdx.y * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) {
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  }
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) {
    if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
  }
}

int main() {
  const int width = 70, height = 45;
  static float in[width * height], out[width * height];
  for (int i = 0; i < width * height; ++i) in[i] = (float)i;
  float *d_in, *d_out;
  cudaMalloc((void **)&d_in, sizeof in);
  cudaMalloc((void **)&d_out, sizeof out);
  cudaMemcpy(d_in, in, sizeof in, cudaMemcpyHostToDevice);
  dim3 grid((width + TILE_DIM - 1) / TILE_DIM, (height + TILE_DIM - 1) / TILE_DIM, 1);
  dim3 threads(TILE_DIM, BLOCK_ROWS, 1);
  Transpose kernels[] = {transposeNaive, transposeTiled<0>, transposeTiled<1>};
  const char *names[] = {"naive", "shared", "padded"};
  int failures = 0;
  for (int k = 0; k < 3; ++k) {
    Transpose kernel = kernels[k];
    cudaMemset(d_out, 0, sizeof out);
    kernel<<<grid, threads>>>(d_out, d_in, width, height);
    cudaMemcpy(out, d_out, sizeof out, cudaMemcpyDeviceToHost);
    int errors = 0;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) errors += out[x * height + y] != in[y * width + x];
    }
    printf("%-8s %s\n", names[k], errors ? "FAILED" : "passed");
    failures += errors != 0;
  }
  cudaFree(d_in);
  cudaFree(d_out);
  return failures;
}
