// Exclusive scan (Blelloch), block by block, with unified memory, then the sums of the blocks.
#include <cassert>
#include <iostream>

static const int kBlock = 64;

__global__ void scanBlocks(int *data, int *blockSums, int n) {
  __shared__ int temp[2 * kBlock];
  const int t = threadIdx.x, base = 2 * kBlock * blockIdx.x;
  temp[2 * t] = base + 2 * t < n ? data[base + 2 * t] : 0;
  temp[2 * t + 1] = base + 2 * t + 1 < n ? data[base + 2 * t + 1] : 0;
  int offset = 1;
  for (int d = kBlock; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) {
      int ai = offset * (2 * t + 1) - 1, bi = offset * (2 * t + 2) - 1;
      temp[bi] += temp[ai];
    }
    offset *= 2;
  }
  if (t == 0) {
    if (blockSums) blockSums[blockIdx.x] = temp[2 * kBlock - 1];
    temp[2 * kBlock - 1] = 0;
  }
  for (int d = 1; d < 2 * kBlock; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (t < d) {
      int ai = offset * (2 * t + 1) - 1, bi = offset * (2 * t + 2) - 1;
      int x = temp[ai];
      temp[ai] = temp[bi];
      temp[bi] += x;
    }
  }
  __syncthreads();
  assert(offset == 1);
  if (base + 2 * t < n) data[base + 2 * t] = temp[2 * t];
  if (base + 2 * t + 1 < n) data[base + 2 * t + 1] = temp[2 * t + 1];
}

__global__ void addSums(int *data, const int *blockSums, int n) {
  int i = 2 * kBlock * blockIdx.x + threadIdx.x;
  for (int k = 0; k < 2; ++k, i += kBlock) {
    if (i < n) data[i] += blockSums[blockIdx.x];
  }
}

int main() {
  const int n = 1000, blocks = (n + 2 * kBlock - 1) / (2 * kBlock);
  int *data, *sums;
  cudaMallocManaged(&data, n * sizeof(int));
  cudaMallocManaged(&sums, 2 * kBlock * sizeof(int));
  for (int i = 0; i < n; ++i) data[i] = i % 7;
  for (int i = 0; i < 2 * kBlock; ++i) sums[i] = 0;
  int device = 0;
  cudaGetDevice(&device);
  scanBlocks<<<blocks, kBlock>>>(data, sums, n);
  scanBlocks<<<1, kBlock>>>(sums, nullptr, 2 * kBlock);
  addSums<<<blocks, kBlock>>>(data, sums, n);
  cudaError_t status = cudaDeviceSynchronize();
  if (status != cudaSuccess) {
    std::cerr << cudaGetErrorString(status) << std::endl;
    return 2;
  }
  int sum = 0, wrong = 0;
  for (int i = 0; i < n; ++i) {
    wrong += data[i] != sum;
    sum += i % 7;
  }
  std::cout << "scan of " << n << " elements: " << (wrong ? "wrong" : "right") << std::endl;
  cudaFree(data);
  cudaFree(sums);
  return wrong;
}
