// Classic reductions, from interleaved addressing to several elements for each thread.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 128

__global__ void reduce0(int *g_idata, int *g_odata, unsigned int n) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? g_idata[i] : 0;
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    if ((tid % (2 * s)) == 0) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

__global__ void reduce1(int *g_idata, int *g_odata, unsigned int n) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? g_idata[i] : 0;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

__device__ __forceinline__ int warpSum(int v) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  return v;
}

__global__ void reduce2(int *g_idata, int *g_odata, unsigned int n) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x, i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
  int mySum = (i < n) ? g_idata[i] : 0;
  if (i + blockDim.x < n) mySum += g_idata[i + blockDim.x];
  sdata[tid] = mySum;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 32; s >>= 1) {
    if (tid < s) sdata[tid] = mySum = mySum + sdata[tid + s];
    __syncthreads();
  }
  if (tid < 32) {
    if (blockDim.x >= 64) mySum += sdata[tid + 32];
    mySum = warpSum(mySum);
    if (tid == 0) g_odata[blockIdx.x] = mySum;
  }
}

template <unsigned int blockSize>
__global__ void reduce3(int *g_idata, int *g_odata, unsigned int n) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x, i = blockIdx.x * (blockSize * 2) + threadIdx.x;
  int mySum = (i < n) ? g_idata[i] : 0;
  if (i + blockSize < n) mySum += g_idata[i + blockSize];
  sdata[tid] = mySum;
  __syncthreads();
  if (blockSize >= 512) { if (tid < 256) { sdata[tid] = mySum = mySum + sdata[tid + 256]; } __syncthreads(); }
  if (blockSize >= 256) { if (tid < 128) { sdata[tid] = mySum = mySum + sdata[tid + 128]; } __syncthreads(); }
  if (blockSize >= 128) { if (tid < 64) { sdata[tid] = mySum = mySum + sdata[tid + 64]; } __syncthreads(); }
  if (tid < 32) {
    if (blockSize >= 64) mySum += sdata[tid + 32];
    mySum = warpSum(mySum);
    if (tid == 0) g_odata[blockIdx.x] = mySum;
  }
}

template <class T, unsigned int blockSize, bool nIsPow2>
__global__ void reduce4(T *g_idata, T *g_odata, unsigned int n) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockSize * 2 + threadIdx.x, gridSize = blockSize * 2 * gridDim.x;
  T mySum = 0;
  while (i < n) {
    mySum += g_idata[i];
    if (nIsPow2 || i + blockSize < n) mySum += g_idata[i + blockSize];
    i += gridSize;
  }
  sdata[tid] = mySum;
  __syncthreads();
  if ((blockSize >= 128) && (tid < 64)) sdata[tid] = mySum = mySum + sdata[tid + 64];
  __syncthreads();
  if (tid < 32) {
    if (blockSize >= 64) mySum += sdata[tid + 32];
    mySum = warpSum(mySum);
    if (tid == 0) g_odata[blockIdx.x] = mySum;
  }
}

int main(void) {
  const unsigned int n = 3000;
  int *h = (int *)malloc(n * sizeof(int)), expected = 0;
  for (unsigned int i = 0; i < n; i++) expected += h[i] = rand() & 0xff;
  int *d_in, *d_out;
  cudaMalloc((void **)&d_in, n * sizeof(int));
  cudaMalloc((void **)&d_out, n * sizeof(int));
  cudaMemcpy(d_in, h, n * sizeof(int), cudaMemcpyHostToDevice);
  int failures = 0;
  for (int which = 0; which < 5; ++which) {
    int blocks = which < 2 ? (n + THREADS - 1) / THREADS : (n + 2 * THREADS - 1) / (2 * THREADS);
    if (which == 4) blocks = 4;
    size_t smem = THREADS * sizeof(int);
    switch (which) {
      case 0: reduce0<<<blocks, THREADS, smem>>>(d_in, d_out, n); break;
      case 1: reduce1<<<blocks, THREADS, smem>>>(d_in, d_out, n); break;
      case 2: reduce2<<<blocks, THREADS, smem>>>(d_in, d_out, n); break;
      case 3: reduce3<THREADS><<<blocks, THREADS, smem>>>(d_in, d_out, n); break;
      case 4: reduce4<int, THREADS, false><<<blocks, THREADS, smem>>>(d_in, d_out, n); break;
    }
    int *part = (int *)malloc(blocks * sizeof(int)), sum = 0;
    cudaMemcpy(part, d_out, blocks * sizeof(int), cudaMemcpyDeviceToHost);
    for (int b = 0; b < blocks; ++b) sum += part[b];
    printf("reduce%d: %s\n", which, sum == expected ? "ok" : "WRONG");
    failures += sum != expected;
    free(part);
  }
  cudaFree(d_in);
  cudaFree(d_out);
  free(h);
  return failures;
}
