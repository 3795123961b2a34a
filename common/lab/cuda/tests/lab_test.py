"""Tests of `./learn lab` as its users call it, with files of their own.

The environment says where the build is: FA_BUILD.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from common.flatten import flatten
from common.lab.cuda import lab
from common.lab.cuda.compile import Compiler

ROOT = pathlib.Path(__file__).resolve().parents[4]
BUILD = os.environ.get("FA_BUILD", str(ROOT / "build/learn"))

USES_HELPER = """
#include "inner folder/helper.cuh"
__global__ void twice(float* x) { x[threadIdx.x] = scaled(threadIdx.x); }
int main(int argc, char** argv) {
  float* x;
  CHECK(cudaMallocManaged(&x, 64 * sizeof(float)));
  LAUNCH(twice, 64, x);
  CHECK(cudaDeviceSynchronize());
  printf("%g %s\\n", x[39], argc > 1 ? argv[1] : "none");
  return argc - 1;
}
"""
HELPER = """
#pragma once
#define CHECK(call) do { if ((call) != cudaSuccess) std::exit(9); } while (0)
#define LAUNCH(kernel, threads, ...) \\
  kernel<<<1, threads>>>(__VA_ARGS__)
__device__ inline float scaled(float v) { return 2 * v; }
"""
RACE = """
__global__ void reverse(int* x) {
  __shared__ int s[64];
  s[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = s[63 - threadIdx.x];
}
int main() {
  int* x;
  cudaMalloc(&x, 256);
  cudaMemset(x, 0, 256);
  reverse<<<1, 64>>>(x);
  return cudaDeviceSynchronize();
}
"""
UNSUPPORTED = """
#include <curand.h>
__global__ void k(float* x) {
  asm volatile("tcgen05.ld.sync.b32 %0, [%1], 2;" : "=r"(x[0]) : "r"(1));
}
int main() {
  cudaTextureObject_t texture;
  cudaGraphCreate(nullptr, 0);
  missing_function(3);
  __shfl_down(1, 1);
}
"""
UNSEEN = """
#include <cstdio>
#include <vector>
#define CHECK(call) if ((call) != cudaSuccess) puts("seen")
struct Pair { double a; int b; };
__global__ void fill(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
__global__ void fill_pairs(Pair* x) { x[threadIdx.x].a = 1; x[threadIdx.x].b = 2; }
int main() {
  float *x, *y, host[64] = {};
  cudaMalloc(&x, 128);
  cudaMemcpy(x, host, 256, cudaMemcpyHostToDevice);  // 256 bytes, 128
  cudaMemcpy(x, host, 128, cudaMemcpyDeviceToHost);  // direction
  cudaSetDevice(3);                                  // cudaErrorInvalidDevice, 3
  cudaMalloc(&y, 16);
  cudaFree(y);
  if (y != nullptr) cudaFree(y);                     // freed
  cudaMemset(x + 2, 0, 128);                         // 128 bytes, 8
  CHECK(cudaSetDevice(5));
  cudaError_t error = cudaSetDevice(4);
  fill<<<1, 32>>>(x, 20);
  std::vector<float> copy(32);
  cudaMemcpy(copy.data(), x, 128, cudaMemcpyDeviceToHost);
  copy[25] = 3;
  float sum = copy[19] + copy[25] + error;
  sum += copy[26];                                   // byte 104
  Pair *pairs, of_host[32];
  cudaMalloc(&pairs, sizeof of_host);
  fill_pairs<<<1, 32>>>(pairs);
  cudaMemcpy(of_host, pairs, sizeof of_host, cudaMemcpyDeviceToHost);
  std::vector<Pair> both(of_host, of_host + 32);
  Pair one = of_host[3];
  printf("%g %g %g\\n", sum, one.a, both[4].a);
}
"""
HOST_ALONE = """
static unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
unsigned least(unsigned a, unsigned b) { return umin(a, b); }
"""
ONLY_C = "#include <stdlib.h>\nint* new(void) { return malloc(4); }\n"
# As by CUDA's own header.
FP8 = [0, 0, 0, 0.000106812, 0.00195312, 0.00146484, 0.0136719, 0.0136719, 1, 1, -16, -16, 448, 448,
       448, 57344, 127, 127]  # fmt: skip
COMPILES = """
#include "least.h"
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
namespace cg = cooperative_groups;
__constant__ float weights[4] = {1, 2, 3, 4};
__global__ void k(int* limit, half* h, __nv_bfloat16* y, const float* w, __nv_fp8_e4m3* e) {
  __shared__ cg::block_tile_memory<32> room;
  const int i = cg::this_thread_block(room).thread_rank();
  __shared__ __align__(16) half tile[256];
  for (int j = i; j < 256; j += 32) tile[j] = j;
  __syncwarp();
  unsigned a, b, from = __cvta_generic_to_shared(tile + i % 16 * 8);
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];"
               : "=r"(a), "=r"(b) : "r"(from));
  if (i > 0) return;
  *limit = INT_MAX;
  h[0] = 0;
  h[1] = 3u;
  y[0] = 1;
  y[1] = w[2] + (*reinterpret_cast<__half2*>(&a) == __half2(0, 8));
  *e = __nv_fp8_e4m3(w[3] + 0.3f);
}
int main() {
  cudaSetDeviceFlags(cudaDeviceBlockingSync);
  int* limit;
  half* h;
  __nv_bfloat16* y;
  float* w;
  __nv_fp8_e4m3* e;
  cudaMallocManaged(&limit, 4), cudaMallocManaged(&h, 4), cudaMallocManaged(&y, 4);
  cudaMallocManaged(&e, 1);
  cudaGetSymbolAddress((void**)&w, weights);
  k<<<1, 32>>>(limit, h, y, w, e);
  cudaDeviceSynchronize();
  printf("%d %g %g %g %g %g %u\\n", *limit, float(h[0]), float(h[1]), float(y[0]), float(y[1]),
         float(*e), least(3, 2));
  for (float x : {0.f, 1e-4f, 0.0015f, 0.0146f, 1.03f, -17.f, 447.f, 1e9f})
    printf("%g %g ", float(__nv_fp8_e4m3(x)), float(__nv_fp8_e5m2(x)));
  printf("%d %d\\n", __nv_fp8_e4m3(-NAN).__x, __nv_fp8_e5m2(-NAN).__x);
}
"""
SHOWN = r"""
#include <cstdio>
#define SHOW(...) do { puts("run " #__VA_ARGS__ "!"); __VA_ARGS__; } while (0)
#define AGAIN(...) SHOW(__VA_ARGS__)
template <int N> __global__ void k(int* x, const char*) { *x = N; }
int main() {
  int* x;
  cudaMallocManaged(&x, 4);
  AGAIN(k<7><<<1, 1>>>(x, "a\"b)"));
  SHOW((k<8><<<dim3(1, 1), 1, 0>>>(x, "")); cudaDeviceSynchronize());
  return *x - 8 + sizeof("12" "3") - 4;
}
"""
CUBLAS = """
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cublasLt.h>
#include <cublas_v2.h>
__global__ void __cluster_dims__(2) pair() {}  // each launch asks for a cluster, cuBLAS's too
template <class T> T* numbers(int n) {
  T* x;
  cudaMallocManaged(&x, n * sizeof(T));
  for (int i = 0; i < n; ++i) x[i] = T(rand() % 200 / 64.f - 1);
  return x;
}
template <class T> constexpr cudaDataType_t type =
    sizeof(T) == 4 ? CUDA_R_32F : std::is_same_v<T, half> ? CUDA_R_16F : CUDA_R_16BF;
template <class T> float error_of(cublasHandle_t handle, int how, int batch) {
  const int m = 1 + rand() % 9, n = 1 + rand() % 9, k = 1 + rand() % 9;
  const int lda = (how & 1 ? k : m) + rand() % 3, ldb = (how & 2 ? n : k) + rand() % 3;
  const int ldc = m + rand() % 3, of_a = lda * 9, of_b = ldb * 9, of_c = ldc * 9;
  T *a = numbers<T>(of_a * batch), *b = numbers<T>(of_b * batch), *c = numbers<T>(of_c * batch);
  const std::vector<T> before(c, c + of_c * batch);
  const float alpha = 1.5f, beta = how & 4 ? 0.5f : 0;
  const auto op_a = how & 1 ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = how & 2 ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (beta == 0) std::fill(c, c + of_c * batch, T(NAN));
  if constexpr (sizeof(T) == 4) {
    batch == 1 ? cublasSgemm(handle, op_a, op_b, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc)
               : cublasSgemmStridedBatched(handle, op_a, op_b, m, n, k, &alpha, a, lda, of_a, b,
                                           ldb, of_b, &beta, c, ldc, of_c, batch);
  } else if (batch == 1) {
    cublasGemmEx(handle, op_a, op_b, m, n, k, &alpha, a, type<T>, lda, b, type<T>, ldb, &beta, c,
                 type<T>, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  } else {
    cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, &alpha, a, type<T>, lda, of_a, b,
                               type<T>, ldb, of_b, &beta, c, type<T>, ldc, of_c, batch,
                               CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  cudaDeviceSynchronize();
  float largest = 0;
  for (int z = 0; z < batch; ++z) for (int j = 0; j < n; ++j) for (int i = 0; i < m; ++i) {
    double sum = 0;
    for (int l = 0; l < k; ++l)
      sum += double(float(a[z * of_a + (how & 1 ? i * lda + l : l * lda + i)])) *
             float(b[z * of_b + (how & 2 ? l * ldb + j : j * ldb + l)]);
    const int at = z * of_c + j * ldc + i;
    const float error = std::abs(alpha * sum + beta * float(before[at]) - double(float(c[at])));
    largest = error <= largest ? largest : error;
  }
  return largest;
}
int main(int, char** argv) {
  cublasHandle_t handle;
  cublasLtHandle_t lt;
  cudaStream_t one, other;
  cublasCreate(&handle), cublasLtCreate(&lt), cublasLtDestroy(lt);
  cudaStreamCreate(&one), cudaStreamCreate(&other);
  cublasSetStream(handle, one);
  cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH);
  const char how = *argv[1];
  for (int i = 0; i < 80 && how == 'r'; ++i) {
    const int batch = 1 + i % 3;
    const float errors[] = {error_of<float>(handle, i, batch),
                            error_of<half>(handle, i, batch) / 1000,
                            error_of<__nv_bfloat16>(handle, i, batch) / 10000};
    for (const float error : errors) if (!(error < 1e-4f)) return 99;
  }
  float *x, *y, by = 1, zero = 0;
  cudaMalloc(&x, 64), cudaMalloc(&y, 64), cudaMemset(x, 0x3f, 64);
  if (how == 'h') x = new float[16];
  const int n = how == 'b' ? 5 : 4, length = how == 'l' ? 3 : n;
  const auto multiply = [&] {
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &by, x, length, x, n, &zero, y,
                       n);
  };
  const auto status = multiply();
  if ((status != CUBLAS_STATUS_SUCCESS) != (how == 'h' || how == 'l')) return 99;
  if (how == 's') by = 2, cublasSetStream(handle, other), multiply();
  cublasDestroy(handle);
}
"""
SAMPLED = """
__device__ unsigned arrived;
__global__ void k(int* x, int* total, int block, int beyond) {
  __shared__ int s[32];
  __shared__ bool last;
  s[threadIdx.x] = 1;
  if (blockIdx.x != block) __syncwarp();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < 32; ++i) sum += s[i];
    x[blockIdx.x == block ? block + beyond : blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&arrived, 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncwarp();
  if (last && threadIdx.x == 0) for (int i = 0; i < gridDim.x; ++i) *total += x[i];
}
int main(int, char** argv) {
  int *x, *total, host;
  cudaMalloc(&x, 400), cudaMalloc(&total, 4), cudaMemset(total, 0, 4);
  k<<<100, 32>>>(x, total, atoi(argv[1]), atoi(argv[2]));
  cudaMemcpy(&host, total, 4, cudaMemcpyDeviceToHost);
  if (argv[2][0] == '0' && host != 3200) return 99;
}
"""
# Programs with an argument. The first lines say what the lab finds for each, with a word of the
# message, and comments //! in which line.
CASES = """
// Memory of the host: v=host_memory:cudaMemcpy m=host_memory n=host_memory s=host_memory
//   t=host_memory:of_main g=host_memory:of_host u=host_memory:of_host r=
#define ON_DEVICE __device__
float of_host[64];
ON_DEVICE float of_device;
template <class T> __device__ T any;
__constant__ float weights[4] = {1, 2, 3, 4};
struct Arguments { float a[32]; float* out; };
struct Shape { virtual __device__ int sides() { return 3; } };
__device__ float local(int i) {
  static int calls;
  const float table[5] = {1, 2, 3, 4, 5};
  return i == 0 ? ++calls : table[i % 5];
}
__global__ void add(float* x) { x[threadIdx.x] += 1; }           //! v m n s t g
__global__ void use_name() { of_host[threadIdx.x] = 1; }  //! u
__global__ void right(Arguments arguments, const float* registered) {
  const int i = threadIdx.x;
  Shape shape, *pointer = &shape;
  const char* text = "text";
  arguments.out[i] = arguments.a[i] + weights[i % 4] + local(i) + registered[i] + text[i % 4] +
                     pointer->sides() + __shfl_sync(~0u, i, 0);
  if (i == 0) of_device = any<float> = 1;
}
int main(int, char** argv) {
  static float of_main[64];
  float on_stack[64];
  std::vector<float> vector(64, 1.f);
  auto kernel = add;
  const char how = *argv[1];
  if (how == 'v') add<<<1, 32>>>(vector.data());
  if (how == 'm') add<<<1, 32>>>((float*)malloc(256));
  if (how == 'n') kernel<<<1, 32>>>(new float[64]);
  if (how == 's') add<<<1, 32>>>(on_stack);
  if (how == 't') add<<<1, 32>>>(of_main);
  if (how == 'g') add<<<1, 32>>>(of_host);
  if (how == 'u') use_name<<<1, 32>>>();
  cudaHostRegister(vector.data(), 256, 0);
  if (how == 'r') right<<<1, 32>>>(Arguments{{}, make()}, vector.data());
  expect(cudaDeviceSynchronize(), how == 'r' ? cudaSuccess : cudaErrorIllegalAddress);
}
---
// Barriers of a whole grid: r= l=launch:blocks o=barrier:cudaLaunchCooperativeKernel v=barrier
#include <cooperative_groups.h>
__global__ void meet(float* x) {
  if (threadIdx.x == 0) x[blockIdx.x] = cooperative_groups::this_grid().is_valid();
  cooperative_groups::this_grid().sync();  //! o v
  if (threadIdx.x == 0) x[512 + blockIdx.x] = x[(blockIdx.x + 1) % gridDim.x];
}
int main(int, char** argv) {
  int of_sm, sms;
  float* x = make();
  void* arguments[] = {&x};
  const char how = *argv[1];
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, meet, 64, 0);
  const int blocks = of_sm * sms + (how == 'l');
  const auto wrong = how == 'l' ? cudaErrorCooperativeLaunchTooLarge : cudaSuccess;
  if (how == 'o' || how == 'v') meet<<<how == 'o' ? 2 : 1, 64>>>(x);
  else expect(cudaLaunchCooperativeKernel((void*)meet, blocks, 64, arguments), wrong);
  expect(cudaDeviceSynchronize(), how > 'm' && how != 'r' ? cudaErrorLaunchFailure : cudaSuccess);
}
---
// Clusters (no barrier, u: before a block reads of the other, e: behind it; other shapes)
//   r= u=race e=cluster p= l=launch:divide w=launch:whole
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(1, 2, 1) exchange(float* x, char how) {
  __shared__ float mine;
  cg::cluster_group both = cg::this_cluster();
  if (threadIdx.x == 0) mine = both.block_rank() + 1;
  if (how == 'u') __syncthreads(); else both.sync();
  const int i = blockIdx.x * 64 + both.thread_rank();
  x[i] = *both.map_shared_rank(&mine, both.block_rank() ^ 1);  //! u e
  if (how != 'e') both.sync();
}
#define READ(name, axis) asm("mov.u32 %0, %%" name "." #axis ";" : "=r"(v.axis))
#define DIM3(name) [] { dim3 v; READ(name, x); READ(name, y); READ(name, z); return v; }()
__device__ bool same(dim3 a, dim3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; }
__global__ void place(float* x) {
  const cg::cluster_group all = cg::this_cluster();
  const dim3 at = all.block_index(), of = all.dim_blocks(), number = DIM3("clusterid");
  const dim3 block(number.x * of.x + at.x, number.y * of.y + at.y, number.z * of.z + at.z);
  __shared__ dim3 index;
  if (threadIdx.x == 0) index = blockIdx;
  all.sync();
  const int rank = (at.z * of.y + at.y) * of.x + at.x;
  const int after = (rank + 1) % 4;
  const dim3 next = *all.map_shared_rank(&index, after);
  unsigned x_of_next;
  asm volatile("{.reg .u32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.u32 %0, [a];}"
               : "=r"(x_of_next) : "r"((unsigned)__cvta_generic_to_shared(&index)), "r"(after));
  if (same(of, dim3(2, 1, 2)) && same(of, DIM3("cluster_nctaid")) && same(block, blockIdx) &&
      same(DIM3("nclusterid"), dim3(2, 3, 2)) && same(at, DIM3("cluster_ctaid")) &&
      x_of_next == next.x && rank == all.block_rank() && abs(int(next.z - block.z)) == (rank % 2) &&
      next.y == block.y && abs(int(next.x - block.x)) == 1)
    atomicAdd(x, 1.f / 32);
  all.sync();
}
int main(int, char** argv) {
  float *x = make(), host[64];
  const bool exchanges = strchr("rue", *argv[1]);
  cudaLaunchAttribute attribute[1] = {};
  attribute[0].id = cudaLaunchAttributeClusterDimension, attribute[0].val.clusterDim = {2, 1, 2};
  cudaLaunchConfig_t config = {dim3(4, 3, *argv[1] == 'l' ? 3 : 4), 32, 0, 0, attribute, 1};
  if (*argv[1] == 'w') config.blockDim = 33;
  if (exchanges) exchange<<<dim3(2, 2), 32>>>(x, *argv[1]);
  else cudaLaunchKernelEx(&config, place, x);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  if (*argv[1] == 'r' && host[31] + host[32] != 3 || *argv[1] == 'p' && host[0] != 48) _exit(99);
}
---
// new and malloc() in kernels: r= d=device_heap:freed f=device_heap:freed u=out_of_bounds:freed
//   b=out_of_bounds n=unwritten
struct Node {
  int value; Node* next;
  __device__ Node(int v = 0, Node* n = nullptr) : value(v), next(n) {}
  virtual __device__ ~Node() { delete next; }
};
__global__ void k(float* x, char how) {
  __shared__ Node* list;
  __shared__ int* some;
  if (threadIdx.x == 0) {
    list = nullptr;
    for (int i = 0; i < 5; ++i) list = new Node{i, list};
    some = (int*)malloc(128);
  }
  __syncthreads();
  if (how != 'n') some[threadIdx.x + (how == 'b')] = threadIdx.x;  //! b
  __syncthreads();
  if (threadIdx.x > 0) return;
  Node* const alone = new Node[2]();
  x[0] = some[3] + list->next->next->value + alone[1].value;  //! n
  delete[] alone;
  delete new Node;
  delete list;
  free(some);
  if (how == 'u') some[0] = 1;  //! u
  if (how == 'd') delete (int*)list;  //! d
  if (how == 'f') free(some);  //! f
  if (malloc(9 << 20) == nullptr) x[1] = 1;
}
int main(int, char** argv) {
  float *x = make(), host[2];
  k<<<1, 32>>>(x, *argv[1]);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  if (*argv[1] == 'r' && host[0] + host[1] != 6) _exit(99);
}
---
// PTX of warps and of integers: 0=
#define PTX(text, ...) [&] { unsigned v; asm(text : "=r"(v) : __VA_ARGS__); return v; }()
__device__ int scan(int v) {
  for (int d = 1; d < 32; d *= 2)
    asm volatile("{ .reg .s32 r0; .reg .pred p; shfl.sync.up.b32 r0|p, %0, %1, 0, 0xffffffff;"
                 "@p add.s32 %0, r0, %0; }" : "+r"(v) : "r"(d));
  return v;
}
__global__ void k(float* right) {
  const unsigned i = threadIdx.x, a = 0x80000000;
  unsigned long long wide;
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(wide) : "r"(a), "r"(4), "l"(1ull << 40));
  const bool all = scan(1) == i + 1 && wide == (1ull << 33) + (1ull << 40) &&
      PTX("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;", "r"(i)) == (i ^ 1) &&
      PTX("{.reg .pred p; setp.lt.s32 p, %1, 3; vote.sync.ballot.b32 %0, p, 0xffffffff;}",
          "r"(i)) == 7 &&
      PTX("redux.sync.add.u32 %0, %1, 0xffffffff;", "r"(i)) == 496 &&
      PTX("match.any.sync.b32 %0, %1, 0xffffffff;", "r"(i % 2)) == 0x55555555 << i % 2 &&
      PTX("bfe.u32 %0, %1, 4, 8;", "r"(0xabcd)) == 0xbc && PTX("rem.s32 %0, %1, 4;", "r"(7)) == 3 &&
      PTX("bfi.b32 %0, 0xf, %1, 4, 4;", "r"(0x103)) == 0x1f3 &&
      PTX("bfind.u32 %0, %1;", "r"(16)) == 4 && PTX("mul.hi.u32 %0, %1, 4;", "r"(a)) == 2 &&
      PTX("shf.l.wrap.b32 %0, %1, 1, 1;", "r"(a)) == 3 &&
      PTX("dp4a.u32.u32 %0, %1, 0x1010101, 1;", "r"(0x1020304)) == 11 &&
      PTX("{.reg .pred p; setp.eq.s32 p, %1, 1; setp.lt.or.s32 p, %1, 1, p; selp.u32 %0, 1, 0, p;}",
          "r"(i)) == (i < 2);
  atomicAdd(right, all);
}
int main() {
  float *x = make(), host;
  k<<<1, 32>>>(x);
  cudaMemcpy(&host, x, 4, cudaMemcpyDeviceToHost);
  if (host != 32) _exit(99);
}
---
// Arrays, and what lies behind them: s=out_of_bounds l=out_of_bounds r=
__global__ void use(float* x, int beyond, bool shared) {
  __shared__ float a[64], b[64];
  float window[8];
  a[threadIdx.x] = b[threadIdx.x] = 1;
  for (int i = 0; i < 8; ++i) window[i] = i;
  __syncthreads();
  const int last = threadIdx.x / 63 * beyond;
  if (shared) x[threadIdx.x] = a[threadIdx.x + last];  //! s
  else x[threadIdx.x] = window[7 + last];  //! l
}
int main(int, char** argv) { use<<<1, 64>>>(make(), *argv[1] != 'r', *argv[1] == 's'); }
---
// Bytes and variables of the device: r= b=out_of_bounds
__device__ unsigned char image[64];
__constant__ int table[4] = {1, 2, 3, 4};
__constant__ struct { int w, h[2]; } size = {1, {5, 3}};
struct Pair { int a; float b; };
__device__ struct Pair pair;
__global__ void gray(unsigned char* out) {
  unsigned char pixel[3] = {1, 2, 3}, copy[20] = {};
  memcpy(pixel, copy, 3);
  pixel[threadIdx.x] = table[threadIdx.x];
  __shared__ unsigned char row[3][24];
  memcpy(row[threadIdx.x], copy, 20);  // seen by the lab, though it is a call
  out[blockIdx.x * 3 + threadIdx.x] = pixel[threadIdx.x] + row[threadIdx.x][19];
  if (threadIdx.x == 0) image[blockIdx.x] = size.h[0] + size.w + 1, atomicAdd(&pair.a, 1);
}
__global__ void beyond() { image[64 + threadIdx.x] = 1; }  //! b
int main(int, char** argv) {
  unsigned char *out, host[30], pixels[64];
  cudaMalloc(&out, 30);
  Pair all;
  expect(cudaMemcpyToSymbol(size, "\\1\\0\\0", 4), cudaSuccess);
  gray<<<10, 3>>>(out);
  if (*argv[1] == 'b') beyond<<<1, 1>>>();
  cudaMemcpy(host, out, 30, cudaMemcpyDeviceToHost);
  cudaMemcpyFromSymbol(pixels, image, sizeof pixels);
  expect(cudaMemcpyFromSymbol(&all, pair, sizeof all), cudaSuccess);
  if (*argv[1] == 'r' && host[29] + pixels[9] + all.a != 20) _exit(99);
}
---
// Errors are those of CUDA: e=launch
__global__ void k(int* x) { x[threadIdx.x] = 1; }
int main() {
  int *x, host[4];
  expect(cudaMalloc(&x, 1ull << 50), cudaErrorMemoryAllocation);
  expect(cudaGetLastError(), cudaErrorMemoryAllocation);
  cudaMalloc(&x, 16);
  expect(cudaMemcpy(host, x, 17, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  expect(cudaMemcpy(x, host, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  expect(cudaFree(host), cudaErrorInvalidValue);
  cudaGetLastError();
  k<<<1, 4, 100 * 1024>>>(x);
  expect(cudaGetLastError(), cudaErrorInvalidValue);
  cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
  k<<<1, 4, 100 * 1024>>>(x);
  expect(cudaGetLastError(), cudaSuccess);
  k<<<0, 4>>>(x);
  expect(cudaGetLastError(), cudaErrorInvalidConfiguration);
  expect(cudaSetDevice(1), cudaErrorInvalidDevice);
}
---
// What students write: 0=
#if !defined(__CUDA_RUNTIME_H__) || !defined(__DRIVER_TYPES_H__)  // as helper_cuda.h asks
#error "the headers have no guards of CUDA"
#endif
__global__ void add(const float* a, float* x, int n) { x[threadIdx.x] += a ? a[0] : n; }
template <class T> __global__ void put(T* x, T value) { x[threadIdx.x] = value; }
struct Count { int n; };
__global__ void count(Count& all, int by) { all.n += by; }
static int blocks_of(const void* kernel) {
  int blocks = 0, sizes[2], integrated = 1, mode = 1;
  cudaOccupancyMaxPotentialBlockSize(&sizes[0], &sizes[1], kernel, 0, 0);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, sizes[1], 0);
  cudaFuncAttributes attributes;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024);
  cudaFuncGetAttributes(&attributes, kernel);
  cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, 0);
  cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, 0);
  return blocks + integrated + mode + (mode == cudaComputeModeProhibited);
}
int main() {
  float *x, host[32];
  cudaMalloc(&x, sizeof host);
  put << <1, 32 >> >(x, 2.0f);
  add<<<1, 32>>>(0, x, 5);
  add<<<1, 32>>>(NULL, x, 0);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  Count* all;
  cudaMallocManaged(&all, sizeof *all);
  all->n = 1;
  count<<<1, 1>>>(*all, 4);
  cudaDeviceSynchronize();
  if (host[31] != 7 || blocks_of((void*)add) != 2 || all->n != 5) _exit(99);
}
---
// Functions of the host: 0=host_function 1=host_function 2=host_function 3=host_function 4=
#define HD __host__ __device__
namespace plain { float square(float x) { return x * x; } }  //! 0
template <class T> T cube(T x) { return x * x * x; }  //! 1
struct A { float x; explicit A(float of) : x(of) {} };  //! 2
struct B { float x; HD B() : x(1) {} float get() const { return x; } };  //! 3
HD float right(float x) { return x; }
__device__ float declared(float x);
float declared(float x) { return x; }
constexpr float constant(float x) { return x; }
#define FROM_ELSEWHERE
template <class T> HD auto trailing(T x) -> T { if (x > 2) { } else if (x > 0) { } return x; }
template <class T> HD T operator<(B x, T y) { if (y > 2) { } else if (y > 0) { } return y; }
FROM_ELSEWHERE float unknown(float x) { return x; }
__global__ void k(float* x, char how) {
  auto local = [](float v) { return v; };
  if (how == '0') *x = plain::square(2);
  if (how == '1') *x = cube(2.f);
  if (how == '2') *x = A(2).x;
  if (how == '3') *x = B().get();
  if (how == '4') *x = right(1) + declared(1) + constant(1) + unknown(1) + local(1);
  if (how == '4') *x += trailing(1) + (B() < 1) + B().x;
}
int main(int, char** argv) { k<<<1, 1>>>(make() + int(plain::square(A(0).x)), *argv[1]); }
---
// Barriers of a grid: 0= 1= 2=race 3=race 4=race 8=race 16=race
__device__ unsigned count, flags[4];
__device__ unsigned load(unsigned* from) {
  unsigned value;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
__device__ void by_first_block(volatile unsigned* set, int i) {  // as CUB's
  if (blockIdx.x > 0) {
    if (i == 0) for (set[blockIdx.x] = 1; load(flags + blockIdx.x) == 1;) __threadfence_block();
    __syncthreads();
    return;
  }
  if (i == 0) set[0] = 1;
  __syncthreads();
  if (i < gridDim.x) while (load(flags + i) == 0) __threadfence_block();
  __syncthreads();
  if (i < gridDim.x) set[i] = 0;
}
enum { kFlags = 1, kNoFence = 2, kOneFence = 4, kLate = 8, kNoSpin = 16 };
__global__ void shift(float* x, float* y, int how) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = blockDim.x * gridDim.x;
  x[i] = i;
  for (int step = 0; step < 1 + (how == kFlags); ++step) {
    if (!(how & kNoFence) && (!(how & kOneFence) || threadIdx.x == 0)) __threadfence();
    if (how & kLate) x[i] += 1;
    __syncthreads();
    if (how & kFlags) by_first_block(flags, threadIdx.x);
    else if (threadIdx.x == 0)
      for (atomicAdd(&count, 1); !(how & kNoSpin) && *(volatile unsigned*)&count < gridDim.x;) ;
    if (!(how & kFlags)) __syncthreads();
    if (step == 0) y[i] = x[(i + blockDim.x) % n];
    if (step == 1) x[i] = y[(i + 2 * blockDim.x) % n];
  }
}
int main(int, char** argv) { shift<<<4, 64>>>(make(), make(), atoi(argv[1])); }
---
// Volatile data behind a flag (1: of another block, 2: atomic, 4: unfenced, 8: never set)
//   0= 1= 2= 3= 4=race 7=race 8=spin
__global__ void hand_over(volatile float* data, volatile int* flag, int how) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) {
    *data = 7;
    if (!(how & 4)) __threadfence();
    if (how & 2) atomicAdd((int*)flag, 1); else *flag = !(how & 8);
  } else if (i == (how & 1 ? 64 : 32)) {
    while ((how & 2 ? atomicAdd((int*)flag, 0) : *flag) == 0) ;
    data[1] = *data;
  }
}
int main(int, char** argv) { hand_over<<<2, 64>>>(make(), (int*)make(), atoi(argv[1])); }
---
// Two stages (the wrong parity, or count of arrivals): r= p=deadlock:parity c=deadlock:missing
#include <cuda/ptx>
namespace ptx = cuda::ptx;
__global__ void stages(char how) {
  __shared__ uint64_t full[2];
  for (int s = 0; s < 2 && threadIdx.x == 0; ++s) ptx::mbarrier_init(&full[s], how == 'c' ? 2 : 1);
  __syncthreads();
  for (int s = 0; s < 2; ++s) {
    if (threadIdx.x == 0) ptx::mbarrier_arrive(&full[s]);
    if (threadIdx.x == 32)
      while (!ptx::mbarrier_try_wait_parity(&full[s], how == 'p' ? s : 0)) ;  //! p c
  }
}
int main(int, char** argv) { stages<<<1, 64>>>(*argv[1]); }
---
// The last block adds up what all have left, in volatile memory and not, after some time: v= p=race
__device__ unsigned finished;
template <class T> __global__ void sum(T* part) {
  __shared__ bool last;
  const clock_t begin = clock();
  while (clock() - begin < 1000) ;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = 1;
    __threadfence();
    last = atomicInc(&finished, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) for (int i = 1; i < gridDim.x; ++i) part[0] += part[i];
}
int main(int, char** argv) {
  float *x = make(), total;
  if (*argv[1] == 'v') sum<volatile float><<<4, 64>>>(x);
  if (*argv[1] == 'p') sum<float><<<4, 64>>>(x);
  cudaMemcpy(&total, x, 4, cudaMemcpyDeviceToHost);
  if (total != 4) _exit(99);
}
---
// An event before (f, l) or behind (r) the writer, in a graph or not
//   f=race l=race r= F=race L=race R=
__global__ void write(float* x) { x[threadIdx.x] = 1; }
__global__ void read(float* x) { x[threadIdx.x + 32] = x[threadIdx.x]; }
int main(int, char** argv) {
  float* x = make();
  cudaStream_t s, t; cudaEvent_t fork, join; cudaGraph_t graph; cudaGraphExec_t runs;
  cudaStreamCreate(&s), cudaStreamCreate(&t), cudaEventCreate(&fork), cudaEventCreate(&join);
  const char how = *argv[1] | 32;
  const bool captures = how == *argv[1];
  if (captures) cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  if (how == 'r') write<<<1, 32, 0, s>>>(x);
  cudaEventRecord(fork, s);
  if (how == 'l') write<<<1, 32, 0, s>>>(x);
  cudaStreamWaitEvent(t, fork, 0);
  if (how == 'f') write<<<1, 32, 0, s>>>(x);
  read<<<1, 32, 0, t>>>(x);
  cudaEventRecord(join, t), cudaStreamWaitEvent(s, join, 0);
  if (!captures) return 0;
  cudaStreamEndCapture(s, &graph), cudaEventDestroy(fork), cudaEventDestroy(join);
  cudaGraphInstantiate(&runs, graph, 0), cudaGraphLaunch(runs, s), cudaGraphLaunch(runs, s);
}
---
// Launches with attributes: w= p= no= l=race n=race c=launch
__global__ void first(float* x) { cudaTriggerProgrammaticLaunchCompletion(), x[threadIdx.x] = 1; }
__global__ void second(float* x, char how, float by) {
  if (how == 'w') cudaGridDependencySynchronize();
  if (how == 'p') asm volatile("griddepcontrol.wait;" ::: "memory");
  x[threadIdx.x + 32] = by * x[threadIdx.x];  //! l n
  if (how == 'l') cudaGridDependencySynchronize();
}
int main(int, char** argv) {
  float* x = make();
  cudaLaunchAttribute attribute[1] = {};
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = argv[1][1] != 'o';
  if (*argv[1] == 'c')
    attribute[0] = {cudaLaunchAttributeClusterDimension}, attribute[0].val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config = {0};
  config.gridDim = 1, config.blockDim = dim3(32), config.attrs = attribute, config.numAttrs = 1;
  first<<<1, 32>>>(x);
  expect(cudaLaunchKernelEx(&config, second, x, *argv[1], 2),
         *argv[1] == 'c' ? cudaErrorInvalidClusterSize : cudaSuccess);
}
---
// What is constant in a launch: c=constant i=constant b=constant r=
__constant__ float weights[32];
__device__ float others[32];
__global__ void k(const float* in, float* x, char how) {
  const int i = threadIdx.x;
  if (how == 'c') weights[i] = 1;  //! c
  if (how == 'i') x[i] = 2 * __ldg(x + i);  //! i
  if (how == 'b') {
    x[i] = 1;
    __syncthreads();
    asm("ld.global.nc.f32 %0, [%1];" : "=f"(x[i + 32]) : "l"(x + i));  //! b
  }
  if (how == 'r') x[i] = __ldg(&in[i]) + weights[i], others[i] = 1;
}
int main(int, char** argv) {
  float *x = make(), *y = make();
  cudaMemcpyToSymbol(weights, std::vector<float>(32).data(), 128);
  for (int i = 0; i < 2; ++i) k<<<1, 32>>>(i ? x : y, i ? y : x, *argv[1]);
}
---
// Sums of what nothing has set; pixels may look like it: s=unwritten r=
__global__ void sum(const float* x, float* y, int n) {
  float acc[4];
  for (int i = 0; i < n; ++i) for (int j = 0; j < 4; ++j) acc[j] += x[j];
  for (int j = 0; j < 4; ++j) y[j] = acc[j];  //! s
}
__global__ void right(const float* x, float* y, uchar4* pixels) {
  float acc[4] = {}, some[4];
  const unsigned char gray = threadIdx.x;
  pixels[gray] = make_uchar4(gray, gray, gray, gray);
  for (int j = 0; j < 2; ++j) some[j] = acc[j] += x[j];
  if (gray == 0) y[0] = some[1] + acc[2];
}
int main(int, char** argv) {
  if (*argv[1] == 's') sum<<<1, 1>>>(make(), make(), 4);
  if (*argv[1] == 'r') right<<<1, 255>>>(make(), make(), (uchar4*)make());
}
---
// The host ends itself; a and t behind an error
//   a=launch c= t=launch T=host_crash f=host_crash s=host_crash
__global__ void k(int* x) { *x = 1; }
int main(int argc, char** argv) {
  int* x = nullptr;
  const char how = *argv[1];
  if (how == 'c') assert(argc == 1);
  if (how == 'a' || how == 't') k<<<1, 2048>>>(x);
  if (cudaGetLastError() != cudaSuccess && how == 'a') abort();
  if (how == 't' || how == 'T') throw std::runtime_error("too many threads");
  if (how == 'f') free((char*)malloc(64) + 16);
  *(volatile int*)x = 1;
}
"""
COMMON = """#include <cassert>
#include <stdexcept>
#include <unistd.h>
#include <vector>
inline float* make() { float* x; return cudaMalloc(&x, 4096), cudaMemset(x, 0, 4096), x; }
inline void expect(cudaError_t error, cudaError_t right) { if (error != right) _exit(99); }
"""
LONG = """
__global__ void k(int* x, long n) { for (long i = 0; i < n; ++i) x[blockIdx.x] += i; }
int main(int argc, char** argv) {
  int* x;
  cudaMallocManaged(&x, 4000);
  if (*argv[1] == 'g') k<<<1000, 1>>>(x, 2000000);     // the size that sets the grid
  if (*argv[1] == 'k') k<<<1, 1>>>(x, 1000000000000);  // the loop of the kernel
  while (*argv[1] == 'n') k<<<1, 1>>>(x, 100);         // the number of launches
  for (long i = 0; *argv[1] == 'h'; i += 2) x[i % 1000] += i;  // the host was busy
  for (int i = 0; i < 1000; ++i) puts(cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


class Lab(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name) / "a folder"
        (self.folder / "inner folder").mkdir(parents=True)

    def lab(self, text, *arguments, name="my kernel.cu"):
        (self.folder / name).write_text(text)
        return subprocess.run(
            [sys.executable, "-B", "-m", "common.lab.cuda.lab", BUILD, str(self.folder), name,
             *arguments],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip

    def results(self, text, *arguments, sample=0):
        """Those of a program with each of these arguments; it is compiled once."""
        path = self.folder / "program.cu"
        path.write_text(text)
        program = Compiler(pathlib.Path(BUILD), ROOT).compile([path], self.folder)
        for words in arguments:
            yield lab.run(program, words.split(), self.folder, 60, subprocess.PIPE, sample=sample)

    def test_kinds_of_mistakes(self):
        flags = set(Compiler(pathlib.Path(BUILD), ROOT).command)
        for case in CASES.strip().split("\n---\n"):
            name = re.match("(//.*\n)+", case)[0]
            expected = re.findall(r" (\w+)=(\w*):?(\w*)", name)
            if not {"-ftrivial-auto-var-init=pattern", "-Wmaybe-uninitialized"} <= flags:
                expected = [row for row in expected if row[1] != "unwritten"]  # as of GCC 12
            text = COMMON + case
            results = self.results(text, *(word for word, _, _ in expected))
            for (word, kind, part), result in zip(expected, results):
                with self.subTest(name, word=word):
                    self.assertEqual(result.kinds[:1], [kind.replace("_", " ")] if kind else [])
                    self.assertNotEqual(result.status, 99)
                    self.assertIn(part, str(result.findings))
                    marks = (line.partition("//! ")[2].split() for line in text.splitlines())
                    lines = [i for i, words in enumerate(marks, 1) if word in words]
                    for finding, line in zip(result.findings, lines):
                        self.assertTrue(finding["where"].endswith(f".cu:{line}"), finding)

    def test_notes_of_the_compiler(self):
        done = self.lab(
            "__global__ void k(int* x, int n) { int s; while (n--) s += n; *x = s; }\n"
            "int main() {}\n"
        )
        self.assertRegex(done.stdout, "note: my kernel.cu:1: .*s.* uninitialized")
        self.assertEqual(done.returncode, 0)

    def test_the_end_of_the_time_is_that_of_the_program(self):
        advice = dict(re.findall(r"== '(.)'.*// (.*)", LONG))
        for how, seconds in (("g", 6), ("k", 1), ("n", 1), ("h", 1)):
            done = self.lab(LONG, "--seconds", str(seconds), "--", how)
            self.assertTrue(done.stdout.startswith("\n-----"), done.stdout)
            self.assertIn(advice[how], " ".join(done.stdout.split()))
            self.assertEqual("launch 1, k: block" in done.stderr, how == "g")

    def test_errors_that_nothing_looks_at_and_elements_that_nothing_wrote(self):
        (result,) = self.results(UNSEEN, "")
        self.assertEqual(result.output.split()[0], "seen")
        found = {f["where"].rsplit(":", 1)[1]: f for f in result.findings}
        expected = {
            str(i): line.split("// ")[1].split(", ")
            for i, line in enumerate(UNSEEN.splitlines(), 1) if "// " in line
        }  # fmt: skip
        self.assertEqual(sorted(found), sorted(expected))
        for line, parts in expected.items():
            kind = "unwritten" if "byte 104" in parts else "error"
            self.assertEqual(found[line]["kind"], kind)
            for part in [*parts, *["cudaErrorInvalid"] * (kind == "error")]:
                self.assertIn(part, found[line]["message"])

    def test_what_nvcc_compiles_too(self):
        (self.folder / "least.h").write_text("unsigned least(unsigned a, unsigned b);\n")
        (self.folder / "host.cpp").write_text(HOST_ALONE)
        (self.folder / "only.c").write_text(ONLY_C)
        done = self.lab(COMPILES, "host.cpp", "only.c", name="main.cu")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "2147483647 0 3 1 4 4.5 2")
        self.assertEqual([float(x) for x in lines[1].split()], FP8)

    def test_headers_of_a_toolkit_are_those_of_the_lab(self):
        toolkit = self.folder / "toolkit"
        toolkit.mkdir()
        for name in ("cuda_fp8.h", "cuda_fp16.h", "cuda_runtime_api.h"):
            (toolkit / name).write_text("#error of the toolkit\n")
        (self.folder / "mine.h").write_text("#define SCALE 2\n")
        done = self.lab(
            '#include "cuda_fp8.h"\n#include <cuda_fp16.h>\n#include "cuda_runtime_api.h"\n'
            '#include "mine.h"\n'
            "__global__ void k(float* x) { *x = SCALE * float(__nv_fp8_e4m3(3.3f)); }\n"
            "int main() { float* x; cudaMallocManaged(&x, 4); k<<<1, 1>>>(x);"
            'cudaDeviceSynchronize(); printf("%g\\n", *x); }\n', "-I", "toolkit")  # fmt: skip
        self.assertTrue(done.stdout.startswith("6.5\n"), done.stdout + done.stderr)

    def test_matmuls_of_cublas(self):
        kinds = {"r": [], "b": ["out of bounds"], "l": ["error"], "h": ["host memory"],
                 "s": ["race"]}  # fmt: skip
        for case, result in zip(kinds, self.results(CUBLAS, *kinds)):
            with self.subTest(case):
                self.assertNotEqual(result.status, 99)
                self.assertEqual(result.kinds, kinds[case])
                line = CUBLAS[: CUBLAS.index("    return cublasSgemm(")].count("\n") + 1
                for finding in result.findings:
                    self.assertTrue(finding["where"].endswith(f".cu:{line}"), finding)

    def test_static_shared_memory_has_a_limit(self):
        text = """
template <int N> __device__ float first(float v) {
  __shared__ float part[N];
  part[threadIdx.x] = v;
  return part[0];
}
namespace own {
template <class T, int N> __global__ void k(T* x) {
  __shared__ T a[N / 2][2], b[32];
  __shared__ __align__(16) T c[1024];
  b[threadIdx.x] = a[0][threadIdx.x % 2] = c[threadIdx.x] = 1;
  x[threadIdx.x] = first<N>(b[threadIdx.x]);
}
}
int main() {
  float* x;
  cudaMallocManaged(&x, 4);
  own::k<float, SIZE><<<1, 1>>>(x);
}
"""
        right = self.lab(text, "-D", f"SIZE={12 * 1024 - 1056}")
        self.assertEqual(right.returncode, 0, right.stdout + right.stderr)
        done = self.lab(text, "-D", f"SIZE={12 * 1024 - 1054}")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        for part in ("my kernel.cu:9: ", "own::k<float, 11234>", "49160 bytes", "allows 49152",
                     "extern __shared__ a[]", "cudaFuncSetAttribute"):  # fmt: skip
            self.assertIn(part, done.stderr)
        for file in (text, text.replace("namespace own", "/* mbarrier */ namespace own")):
            done = self.lab(file, "-D", "SIZE=16384")
            self.assertEqual(done.returncode, 2)
            self.assertRegex(
                done.stderr, "my kernel.cu:[39]: .*too much static shared memory.*49152"
            )

    def test_a_sample_of_the_blocks_is_watched_and_all_run(self):
        cases = {"200 0": [], "1 0": ["race"], "50 0": ["race"], "99 0": ["race"], "49 0": [],
                 "49 100": ["out of bounds"]}  # fmt: skip
        for case, result in zip(cases, self.results(SAMPLED, *cases, sample=4)):
            with self.subTest(case):
                self.assertEqual(result.status, 0)
                self.assertEqual([k for k in result.kinds if k != "unwritten"], cases[case])
                report = result.report
                self.assertEqual((report["watched_blocks"], report["blocks"]), (5, 100))
        done = self.lab(SAMPLED, "--sample", "4", "--", "200", "0")
        self.assertIn("Watched 5 of 100 blocks; all have run.", done.stdout)

    def test_macros_show_launches_as_they_are_written(self):
        done = self.lab(SHOWN)
        shown = re.findall(r"(?:AGAIN|SHOW)\((.*k<.*)\);", SHOWN)
        self.assertEqual(done.stdout.splitlines()[:2], [f"run {text}!" for text in shown])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_file_with_headers_of_its_own_and_arguments(self):
        (self.folder / "inner folder/helper.cuh").write_text(HELPER)
        (self.folder / "another.cu").write_text("")
        run = self.lab(USES_HELPER, "-I", "inner folder", "another.cu")
        self.assertIn("78 none\n", run.stdout)
        self.assertIn("Nothing wrong was seen.", run.stdout)
        self.assertEqual(run.returncode, 0, run.stderr)
        run = self.lab(USES_HELPER, "--", "--counts")
        self.assertIn("78 --counts\n", run.stdout)
        self.assertNotIn("requests", run.stdout)
        self.assertIn("The program ended with status 1.", run.stdout)
        self.assertEqual(run.returncode, 1)

    def test_findings_name_the_lines_of_the_file(self):
        run = self.lab(RACE, "--counts")
        self.assertRegex(run.stdout, r"race: my kernel.cu:\d+\n      \S.*\n")  # and the line
        self.assertRegex(run.stdout, r"write my kernel.cu:4\n")
        self.assertEqual(run.returncode, 1)

    def test_json_is_all_of_the_standard_output(self):
        run = self.lab(RACE.replace("int* x;", 'printf("hello\\n"); int* x;'), "--json")
        report = json.loads(run.stdout)
        self.assertEqual({f["kind"] for f in report["findings"]}, {"race", "unwritten"})
        self.assertEqual(report["launches"], 1)
        self.assertIn("hello", run.stderr)

    def test_what_is_not_supported_is_a_line_each(self):
        run = self.lab(UNSUPPORTED)
        self.assertEqual(run.returncode, 2)
        lines = run.stderr.splitlines()
        self.assertEqual([line.split(":")[1] for line in lines], ["2", "4", "7", "8", "10", "9"])
        parts = ("curand.h", "tcgen05.ld", "cudaTextureObject_t", "cudaGraphCreate",
                 "__shfl_down_sync", "missing_function")  # fmt: skip
        for line, part in zip(lines, parts):
            self.assertTrue(line.startswith("my kernel.cu:"), line)
            self.assertIn(part, line)

    def test_a_step_as_one_file(self):
        for lesson, step, passed in (
            ("05_flash_forward", "07_pipeline", 4), ("04_tiled_matmul", "22_matmul_cluster", 1)
        ):  # fmt: skip
            done = self.lab(flatten.flatten(lesson, step))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count("PASS"), passed)
            self.assertIn("Nothing wrong was seen", done.stdout)

    def test_the_page_shows_what_the_lab_says(self):
        page = (ROOT / "common/lab/any_kernel.md").read_text()
        shown = re.search(r"```text\n(race: .*?)```", page, re.DOTALL)[1]
        text = (ROOT / "common/lab/cuda/tests/broken/reused_scratch.cu").read_text()
        self.assertIn(shown, self.lab(text, name="reused_scratch.cu").stdout)

    def test_options_of_nvcc(self):
        text = """
#include <cstdio>
#include <span>
__global__ void k(int* x) { *x = [](auto... v) { return (v + ...); }(1, 2); }
int main() {
  int* x;
  cudaMallocManaged(&x, 4);
  k<<<1, 1>>>(x);
  cudaDeviceSynchronize();
  printf("%zu %d %d\\n", std::span(x, 1).size(), *x, SIZE);
}
"""
        for options in (
            "-O3 -arch=sm_90 -std=c++20 -DSIZE=4",
            "-std c++20 -o k -g -lineinfo -lcublas -gencode arch=compute_90,code=sm_90 "
            "-Xcompiler -Wall --use_fast_math -D SIZE=4 "
            "--expt-relaxed-constexpr -Xptxas=-v -rdc=true --gpu-architecture=sm_80",
        ):
            with self.subTest(options):
                done = self.lab(text, *options.split())
                self.assertIn("1 3 4\n", done.stdout, done.stderr)
                self.assertEqual(done.returncode, 0)
        self.assertEqual(self.lab(text, "--no-such-option").returncode, 2)
        self.assertEqual(self.lab(text, "-std=c++17", "-DSIZE=4").returncode, 2)
        self.assertEqual(lab.without_nvcc(["-std=c++11", "-I", "-O3", "x.cu"]),
                         (["-I", "-O3", "x.cu"], 17))  # fmt: skip

    def test_bad_use(self):
        run = self.lab("int main() {}", "no.cu")
        self.assertEqual(run.returncode, 2)
        self.assertIn("no.cu", run.stderr)


if __name__ == "__main__":
    unittest.main()
