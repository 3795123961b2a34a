// What programs do on the host around small kernels: a graph of a captured stream, threads, and
// names that built-in variables have; and functions of CUDA that C++ does not have.
#include <cooperative_groups.h>
#include <cuComplex.h>
#include <cuda/pipeline>
#include <cuda/std/limits>

#include <thread>

#include "../arrays.cuh"

namespace cg = cooperative_groups;
constexpr int kThreads = 64;

__global__ void add(int* x, int a) { x[blockIdx.x * blockDim.x + threadIdx.x] += a; }

__global__ void reversed(const int* in, int* out) {
  __shared__ int tile[kThreads];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[kThreads - 1 - threadIdx.x];
}

// One warp copies, the others use what it has copied.
__global__ void doubled(const int* in, int* out, int tiles) {
  __shared__ int stage[2][kThreads];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  const auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state, role);
  for (int t = 0; t < tiles; ++t) {
    if (role == cuda::pipeline_role::producer) {
      pipe.producer_acquire();
      for (int i = threadIdx.x; i < kThreads; i += 32) {
        cuda::memcpy_async(&stage[t % 2][i], in + t * kThreads + i, sizeof(int), pipe);
      }
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      const int i = threadIdx.x - 32;
      out[t * kThreads + i] = 2 * stage[t % 2][kThreads - 1 - i];
      pipe.consumer_release();
    }
  }
}

__global__ void functions(unsigned* bits, double* numbers) {
  bits[0] = __vadd4(0x01ff7f80, 0x01010101);
  bits[1] = __vmaxs2(0xffff0001, 0x00017fff);
  bits[2] = __vcmpgtu4(0x05000100, 0x01000200);
  bits[3] = __funnelshift_lc(0x12345678, 0x9abcdef0, 40);
  bits[4] = __dp2a_lo(0x00020003, 0x01010102, 1);
  bits[5] = __fns(0xf0, 0, 2);
  numbers[0] = norm4df(1, 2, 2, 4);
  numbers[1] = erfinvf(0.5f);
  numbers[2] = normcdfinv(0.975);
  numbers[3] = cuCimag(cuCmul(make_cuDoubleComplex(1, 2), make_cuDoubleComplex(3, 4)));
  numbers[4] = cuda::std::numeric_limits<int>::max();
  numbers[5] = isnan(numbers[0]) || signbit(1.0f) ? 0 : abs(-2.5f);
}

bool functions_are_right() {
  unsigned *bits = on_device(std::vector<unsigned>(6));
  double *values = on_device(std::vector<double>(6));
  functions<<<1, 1>>>(bits, values);
  const unsigned b[] = {0x02008081, 0x00017fff, 0xff000000, 0x12345678, 9, 5};
  const double d[] = {5, 0.4769362762, 1.9599639845, 10, 2147483647, 2.5};
  return check(bits, 6, [&](int i) { return b[i]; }) + check(values, 6, [&](int i) { return d[i]; }, 1e-6) == 0;
}

bool graph_is_right(int* x) {
  cudaStream_t stream, other;
  cudaStreamCreate(&stream);
  cudaStreamCreate(&other);
  cudaEvent_t fork, join;
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  int* h;
  cudaMallocHost((void**)&h, 2 * kThreads * sizeof(int));
  dim3 gridDim(1), blockDim;
  blockDim.x = kThreads;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  cudaMemsetAsync(x, 0, 2 * kThreads * sizeof(int), stream);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(other, fork, 0);
  add<<<gridDim, blockDim, 0, stream>>>(x, 1);
  add<<<gridDim, blockDim, 0, other>>>(x + kThreads, 2);
  cudaEventRecord(join, other);
  cudaStreamWaitEvent(stream, join, 0);
  add<<<2, blockDim, 0, stream>>>(x, 3);
  cudaMemcpyAsync(h, x, 2 * kThreads * sizeof(int), cudaMemcpyDeviceToHost, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&executable, graph, nullptr, nullptr, 0);
  for (int i = 0; i < 2; ++i) cudaGraphLaunch(executable, stream);
  cudaStreamSynchronize(stream);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  return h[5] == 4 && h[kThreads + 5] == 5 && cudaFreeHost(h) == cudaSuccess;
}

int main() {
  const int tiles = 5, n = tiles * kThreads;
  const auto h = numbers<int>(n, [](int i) { return i; });
  int *in = on_device(h), *out;
  unsigned long long bytes = n * sizeof(int);  // which the pool keeps
  cudaMemPool_t pool;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes);
  cudaMallocAsync(&out, bytes, 0);
  int wrong = !functions_are_right() + !graph_is_right(out);
  doubled<<<1, 32 + kThreads>>>(in, out, tiles);
  wrong += check(out, n, [&](int i) { return 2 * h[i ^ (kThreads - 1)]; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([=] { reversed<<<1, kThreads>>>(in + t * kThreads, out + t * kThreads); });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong + check(out, 3 * kThreads, [&](int i) { return h[i ^ (kThreads - 1)]; });
}
