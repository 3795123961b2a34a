// Chunks on streams, with pinned memory, asynchronous copies and events.
#include <cstdio>

#define NSTREAMS 3

__global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

int main() {
  const int chunk = 500, n = NSTREAMS * chunk;
  float *x, *y, *d_x, *d_y, ms = -1;
  cudaMallocHost((void **)&x, n * sizeof(float));
  cudaHostAlloc((void **)&y, n * sizeof(float), cudaHostAllocDefault);
  for (int i = 0; i < n; i++) {
    x[i] = 1.0f * i;
    y[i] = 2.0f;
  }
  cudaMalloc((void **)&d_x, n * sizeof(float));
  cudaMalloc((void **)&d_y, n * sizeof(float));
  cudaStream_t streams[NSTREAMS];
  cudaEvent_t start, stop, copied;
  for (auto &s : streams) cudaStreamCreate(&s);
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  cudaEventCreateWithFlags(&copied, cudaEventDisableTiming);
  cudaEventRecord(start);
  cudaMemcpyAsync(d_x, x, n * sizeof(float), cudaMemcpyHostToDevice, streams[0]);
  cudaEventRecord(copied, streams[0]);
  for (int s = 0; s < NSTREAMS; ++s) {
    int offset = s * chunk;
    cudaStreamWaitEvent(streams[s], copied, 0);
    cudaMemcpyAsync(d_y + offset, y + offset, chunk * sizeof(float), cudaMemcpyHostToDevice, streams[s]);
    saxpy<<<(chunk + 127) / 128, 128, 0, streams[s]>>>(chunk, 3.0f, d_x + offset, d_y + offset);
    cudaMemcpyAsync(y + offset, d_y + offset, chunk * sizeof(float), cudaMemcpyDeviceToHost, streams[s]);
  }
  for (int s = 0; s < NSTREAMS; ++s) cudaStreamSynchronize(streams[s]);
  cudaEventRecord(stop, 0);
  cudaEventSynchronize(stop);
  cudaEventElapsedTime(&ms, start, stop);
  int errors = 0;
  for (int i = 0; i < n; i++) errors += y[i] != 3.0f * i + 2.0f;
  printf("%s, timed: %s\n", errors ? "wrong" : "right", ms >= 0 ? "yes" : "no");
  for (auto &s : streams) cudaStreamDestroy(s);
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  cudaEventDestroy(copied);
  cudaFreeHost(x);
  cudaFreeHost(y);
  cudaFree(d_x);
  cudaFree(d_y);
  return errors != 0;
}
