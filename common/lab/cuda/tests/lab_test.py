"""Tests of `./learn lab` as its users call it, with files of their own.

The environment says where the build is: FA_BUILD.
"""

import json
import os
import pathlib
import re
import signal
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
#include <iostream>
__global__ void twice(float* x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] = scaled(x[i]);
}
int main(int argc, char** argv) {
  float* x;
  CHECK(cudaMallocManaged(&x, 40 * sizeof(float)));
  for (int i = 0; i < 40; ++i) x[i] = i;
  LAUNCH(twice, 64, x, 40);
  CHECK(cudaDeviceSynchronize());
  std::cout << x[39] << " " << (argc > 1 ? argv[1] : "none") << std::endl;
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
#include <cublas_v2.h>
__global__ void k(float* x) {
  asm volatile("mapa.shared::cluster.u32 %0, %1, 2;" : "=r"(x[0]) : "r"(1));
}
int main() {
  cudaTextureObject_t texture;
  cudaGraphCreate(nullptr, 0);
  missing_function(3);
}
"""
BYTES = """
#include <cstdio>
__device__ unsigned char image[64];
__constant__ int table[4] = {1, 2, 3, 4};
__global__ void gray(unsigned char* out) {
  unsigned char pixel[3] = {1, 2, 3}, copy[20] = {};
  memcpy(pixel, copy, 3);
  pixel[threadIdx.x] = table[threadIdx.x];
  __shared__ unsigned char row[3][24];
  memcpy(row[threadIdx.x], copy, 20);  // seen by the lab, though it is a call
  out[blockIdx.x * 3 + threadIdx.x] = pixel[threadIdx.x] + row[threadIdx.x][19];
  if (threadIdx.x == 0) image[blockIdx.x] = 7;
}
__global__ void beyond() { image[64 + threadIdx.x] = 1; }
int main(int argc, char**) {
  unsigned char* out, host[30], pixels[64];
  cudaMalloc(&out, 30);
  gray<<<10, 3>>>(out);
  if (argc > 1) beyond<<<1, 1>>>();
  cudaMemcpy(host, out, 30, cudaMemcpyDeviceToHost);
  cudaMemcpyFromSymbol(pixels, image, sizeof pixels);
  printf("%d %d\\n", host[29], pixels[9]);
}
"""
STUDENTS = """
#include <cstdio>
#if !defined(__CUDA_RUNTIME_H__) || !defined(__DRIVER_TYPES_H__)  // as helper_cuda.h asks
#error "the headers have no guards of CUDA"
#endif
__global__ void add(const float* a, float* x, int n) { x[threadIdx.x] += a ? a[0] : n; }
template <class T>
__global__ void put(T* x, T value) { x[threadIdx.x] = value; }
struct Count {
  int n;
};
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
  printf("%g %d %d\\n", host[31], blocks_of((void*)add), all->n);
}
"""
LAUNCHES = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void add(float* x, float by) { x[threadIdx.x] += by; }
int main() {
  float *x, host[32];
  cudaMalloc(&x, sizeof host);
  cudaMemset(x, 0, sizeof host);
  cudaLaunchAttribute attribute[1] = {};
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {0};
  config.gridDim = 1;
  config.blockDim = dim3(32);
  config.attrs = attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, add, x, 2);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  attribute[0].id = cudaLaunchAttributeClusterDimension;
  attribute[0].val.clusterDim = {2, 1, 1};
  config.gridDim.x = 2;
  printf("%g %d\\n", host[31], cudaLaunchKernelEx(&config, add, x, 1));
}
"""
ERRORS = """
#include <cstdio>
__global__ void k(int* x) { x[threadIdx.x] = 1; }
int main() {
  int *x, host[4];
  printf("%s\\n", cudaGetErrorName(cudaMalloc(&x, 1ull << 50)));
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
  cudaMalloc(&x, 16);
  printf("%s\\n", cudaGetErrorName(cudaMemcpy(host, x, 17, cudaMemcpyDeviceToHost)));
  printf("%s\\n", cudaGetErrorName(cudaMemcpy(x, host, 16, cudaMemcpyDeviceToHost)));
  printf("%s\\n", cudaGetErrorName(cudaFree(host)));
  cudaGetLastError();
  k<<<1, 4, 100 * 1024>>>(x);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
  cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
  k<<<1, 4, 100 * 1024>>>(x);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
  k<<<0, 4>>>(x);
  printf("%s\\n", cudaGetErrorName(cudaGetLastError()));
  printf("%s\\n", cudaGetErrorName(cudaSetDevice(1)));
}
"""


HOST_MEMORY = """
#include <cstdio>
#include <cstdlib>
#include <vector>
#define ON_DEVICE __device__
float of_host[64];
ON_DEVICE float of_device;
template <class T> __device__ T any;
__constant__ float weights[4] = {1, 2, 3, 4};
struct Arguments { float a[32]; float* out; };
struct Shape { virtual __device__ int sides() { return 3; } };
__device__ float local(int i) {
  const float table[5] = {1, 2, 3, 4, 5};
  static int calls;
  if (i == 0) ++calls;
  return table[i % 5];
}
__global__ void add(float* x) {
  x[threadIdx.x] += 1;
}
__global__ void use_name() { of_host[threadIdx.x] = 1; }
__global__ void right(Arguments arguments, const float* registered) {
  const int i = threadIdx.x;
  Shape shape, *pointer = &shape;
  const char* text = "text";
  arguments.out[i] = arguments.a[i] + weights[i % 4] + local(i) + registered[i] + text[i % 4] +
                     pointer->sides() + __shfl_sync(~0u, i, 0);
  if (i == 0) of_device = any<float> = 1;
}
int main(int argc, char** argv) {
  static float of_main[64];
  float on_stack[64];
  std::vector<float> vector(64, 1.f);
  auto kernel = add;
  switch (argv[1][0]) {
    case 'v': add<<<1, 32>>>(vector.data()); break;
    case 'm': add<<<1, 32>>>((float*)malloc(256)); break;
    case 'n': kernel<<<1, 32>>>(new float[64]); break;
    case 's': add<<<1, 32>>>(on_stack); break;
    case 't': add<<<1, 32>>>(of_main); break;
    case 'g': add<<<1, 32>>>(of_host); break;
    case 'u': use_name<<<1, 32>>>(); break;
    case 'r':
      Arguments arguments = {};
      cudaMalloc(&arguments.out, 128);
      cudaHostRegister(vector.data(), 256, 0);
      right<<<1, 32>>>(arguments, vector.data());
  }
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
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
GRIDS = """
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;
__global__ void meet(int* x) {
  if (x != nullptr) *x = cg::this_grid().is_valid();
  cg::this_grid().sync();
}
int main(int argc, char** argv) {
  int *none = nullptr, *valid, of_sm, threads = 64;
  cudaMallocManaged(&valid, 4);
  cudaDeviceProp card;
  cudaGetDeviceProperties(&card, 0);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, meet, threads, 0);
  int blocks = of_sm * card.multiProcessorCount + (argv[1][0] == 'l');
  void* arguments[] = {&none};
  if (argv[1][0] == 'o') meet<<<2, threads>>>(nullptr);
  else if (argv[1][0] == 'v') meet<<<1, 1>>>(valid);
  else puts(cudaGetErrorName(cudaLaunchCooperativeKernel((void*)meet, blocks, threads, arguments)));
  puts(cudaGetErrorName(cudaDeviceSynchronize()));
  printf("%d\\n", *valid);
}
"""
HOST_ALONE = """
static unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
unsigned least(unsigned a, unsigned b) { return umin(a, b); }
"""
# As by CUDA's own header.
FP8 = [0, 0, 0, 0.000106812, 0.00195312, 0.00146484, 0.0136719, 0.0136719, 1, 1, -16, -16, 448, 448,
       448, 57344]  # fmt: skip
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
  puts("");
}
"""
CONSTANTS = """
__constant__ float weights[32];
__device__ float others[32];
__global__ void change() { weights[threadIdx.x] = 1; }
__global__ void in_place(float* x) { x[threadIdx.x] = 2 * __ldg(x + threadIdx.x); }
__global__ void read_back(float* x, float* y) {
  x[threadIdx.x] = 1;
  __syncthreads();
  float v;
  asm("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(x + threadIdx.x));
  y[threadIdx.x] = v;
}
__global__ void right(const float* x, float* y) {
  y[threadIdx.x] = __ldg(&x[threadIdx.x]) + weights[threadIdx.x];
  others[threadIdx.x] = 1;
}
int main(int argc, char** argv) {
  float *x, *y;
  cudaMallocManaged(&x, 128);
  cudaMallocManaged(&y, 128);
  cudaMemset(x, 0, 128);
  cudaMemcpyToSymbol(weights, x, 128);
  switch (argv[1][0]) {
    case 'c': change<<<1, 32>>>(); break;
    case 'i': in_place<<<1, 32>>>(x); break;
    case 'b': read_back<<<1, 32>>>(x, y); break;
    case 'r':
      for (int i = 0; i < 2; ++i) right<<<1, 32>>>(i ? x : y, i ? y : x);
  }
  return cudaDeviceSynchronize();
}
"""

OF_HOST = """
#define HD __host__ __device__
namespace plain {
float square(float x) { return x * x; }             // 0
}
template <class T> T cube(T x) { return x * x * x; }  // 1
struct Other {
  float x;
  explicit Other(float of) : x(of) {}               // 2
};
struct Length {
  float x;
  HD Length() : x(1) {}
  float get() const { return x; }                   // 3
  HD float twice() const { return 2 * x; }
};
HD float right(float x) { return x; }
__device__ float declared(float x);
float declared(float x) { return x; }
constexpr float constant(float x) { return x; }
FROM_ELSEWHERE float unknown(float x) { return x; }
__global__ void k(float* x, int which) {
  auto local = [](float v) { return v; };
  if (which == 0) *x = plain::square(2);
  if (which == 1) *x = cube(2.f);
  if (which == 2) *x = Other(2).x;
  if (which == 3) *x = Length().get();
  if (which == 4)
    *x = right(1) + declared(1) + constant(1) + unknown(1) + Length().twice() + local(1);
}
int main(int argc, char** argv) {
  float* x;
  cudaMallocManaged(&x, 4);
  k<<<1, 1>>>(x, argv[1][0] - '0' + 0 * plain::square(Other(1).x));
  return cudaDeviceSynchronize();
}
"""

# Barriers of a grid. A letter of the argument makes each mistake.
GRID_BARRIERS = """
#include <cstdlib>
__device__ unsigned count, flags[4];
__device__ unsigned load(unsigned* from) {
  unsigned value;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
__device__ void by_counter(bool spins) {
  if (threadIdx.x == 0) {
    atomicAdd(&count, 1);
    while (spins && *(volatile unsigned*)&count < gridDim.x) continue;
  }
  __syncthreads();
}
__device__ void by_first_block() {  // as CUB's
  volatile unsigned* const set = flags;
  const int i = threadIdx.x;
  if (blockIdx.x == 0) {
    if (i == 0) set[0] = 1;
    __syncthreads();
    if (i < gridDim.x) while (load(flags + i) == 0) __threadfence_block();
    __syncthreads();
    if (i < gridDim.x) set[i] = 0;
  } else {
    if (i == 0) {
      set[blockIdx.x] = 1;
      while (load(flags + blockIdx.x) == 1) __threadfence_block();
    }
    __syncthreads();
  }
}
enum { kFlags = 1, kNoFence = 2, kOneFence = 4, kLate = 8, kNoSpin = 16 };
__global__ void shift(int* x, int* y, int how) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = blockDim.x * gridDim.x;
  x[i] = i;
  for (int step = 0; step < 1 + (how == kFlags); ++step) {
    if (!(how & kNoFence) && (!(how & kOneFence) || threadIdx.x == 0)) __threadfence();
    if (how & kLate) x[i] += 1;
    __syncthreads();
    if (how & kFlags) by_first_block(); else by_counter(!(how & kNoSpin));
    if (step == 0) y[i] = x[(i + blockDim.x) % n];
    if (step == 1) x[i] = y[(i + 2 * blockDim.x) % n];
  }
}
int main(int argc, char** argv) {
  int *x, *y;
  cudaMalloc(&x, 1024);
  cudaMalloc(&y, 1024);
  shift<<<4, 64>>>(x, y, atoi(argv[1]));
  return cudaDeviceSynchronize();
}
"""
# Volatile data behind a flag: 1 between blocks, 2 an atomic flag, 4 no fence.
VOLATILE_DATA = """
#include <cstdlib>
__global__ void hand_over(volatile int* data, volatile int* flag, int* out, int how) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) {
    *data = 7;
    if (!(how & 4)) __threadfence();
    if (how & 2) atomicAdd((int*)flag, 1); else *flag = 1;
  } else if (i == (how & 1 ? 64 : 32)) {
    while ((how & 2 ? atomicAdd((int*)flag, 0) : *flag) == 0) continue;
    *out = *data;
  }
}
int main(int argc, char** argv) {
  int* x;
  cudaMalloc(&x, 12);
  cudaMemset(x, 0, 12);
  hand_over<<<2, 64>>>(x, x + 1, x + 2, atoi(argv[1]));
  return cudaDeviceSynchronize();
}
"""

# A writer on one stream, a reader on another: f forks before the writer, l waits after it for an
# event from before it, r is right; the capitals without a graph.
EVENTS = """
__global__ void write(float* x) { x[threadIdx.x] = 1; }
__global__ void read(float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }  // read
int main(int argc, char** argv) {
  float* x;
  cudaMalloc(&x, 256);
  cudaMemset(x, 0, 128);
  cudaStream_t s, t;
  cudaEvent_t fork, join;
  cudaStreamCreate(&s), cudaStreamCreate(&t), cudaEventCreate(&fork), cudaEventCreate(&join);
  const char how = argv[1][0] | 32;
  const bool captures = how == argv[1][0];
  if (captures) cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  if (how == 'r') write<<<1, 32, 0, s>>>(x);
  cudaEventRecord(fork, s);
  if (how == 'l') write<<<1, 32, 0, s>>>(x);
  cudaStreamWaitEvent(t, fork, 0);
  if (how == 'f') write<<<1, 32, 0, s>>>(x);
  read<<<1, 32, 0, t>>>(x, x + 32);
  cudaEventRecord(join, t);
  cudaStreamWaitEvent(s, join, 0);
  if (captures) {
    cudaGraph_t graph;
    cudaGraphExec_t runs;
    cudaStreamEndCapture(s, &graph);
    cudaEventDestroy(fork), cudaEventDestroy(join);
    cudaGraphInstantiate(&runs, graph, 0);
    for (int i = 0; i < 2; ++i) cudaGraphLaunch(runs, s);
  }
  return cudaDeviceSynchronize();
}
"""

UNSET = """
__global__ void sum(const float* x, float* y, int n) {
  float acc[4];
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j) acc[j] += x[j];
  for (int j = 0; j < 4; ++j) y[j] = acc[j];  // stored
  double most;
  for (int i = 0; i < n; ++i) most = most > x[i] ? most : x[i];
  y[4] = most;
}
__global__ void right(const float* x, float* y, uchar4* pixels) {
  float acc[4] = {}, some[4];
  for (int j = 0; j < 2; ++j) some[j] = acc[j] += x[j];
  if (threadIdx.x == 0) y[0] = some[1] + acc[2];
  const unsigned char gray = threadIdx.x;
  pixels[threadIdx.x] = make_uchar4(gray, gray, gray, gray);
}
int main(int argc, char** argv) {
  float *x, *y;
  uchar4* pixels;
  cudaMallocManaged(&x, 16), cudaMallocManaged(&y, 20), cudaMallocManaged(&pixels, 1024);
  if (argc > 1) sum<<<1, 1>>>(x, y, 4);
  right<<<1, 255>>>(x, y, pixels);
  return cudaDeviceSynchronize();
}
"""

DEPENDENT = """
__global__ void first(float* x) {
  cudaTriggerProgrammaticLaunchCompletion();
  x[threadIdx.x] = 1;
}
template <char how> __global__ void second(const float* x, float* y) {
  if (how == 'w') cudaGridDependencySynchronize();
  if (how == 'p') asm volatile("griddepcontrol.wait;" ::: "memory");
  y[threadIdx.x] = x[threadIdx.x];
  if (how == 'l') cudaGridDependencySynchronize();
}
int main(int argc, char** argv) {
  float* x;
  cudaMalloc(&x, 256);
  cudaLaunchAttribute attribute[1] = {};
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = argv[1][1] != 'o';
  cudaLaunchConfig_t config = {1, 32, 0, nullptr, attribute, 1};
  first<<<1, 32>>>(x);
  switch (argv[1][0]) {
    case 'w': cudaLaunchKernelEx(&config, second<'w'>, x, x + 32); break;
    case 'p': cudaLaunchKernelEx(&config, second<'p'>, x, x + 32); break;
    case 'l': cudaLaunchKernelEx(&config, second<'l'>, x, x + 32); break;
    case 'n': cudaLaunchKernelEx(&config, second<'n'>, x, x + 32); break;
  }
  return cudaDeviceSynchronize();
}
"""
MISSING = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(float* x, Undeclared y) {
  x[0] = __shfl_down(x[0], 1);
  cg::this_cluster().sync();
}
int main() {}
"""

LONG = """
#include <cstdio>
__global__ void k(int* x, long n) {
  for (long i = 0; i < n; ++i) x[blockIdx.x] += i;
}
int main(int argc, char** argv) {
  int* x;
  cudaMallocManaged(&x, 4000);
  switch (argv[1][0]) {
    case 'g': k<<<1000, 1>>>(x, 2000000); break;       // the grid of (1000, 1, 1) blocks
    case 'k': k<<<1, 1>>>(x, 1000000000000); break;    // the loop of the kernel
    case 'n': for (;;) k<<<1, 1>>>(x, 100);            // the number of launches
    case 'h': for (long i = 0; i >= 0; i += 2) x[i % 1000] += i;  // the host was busy
  }
  for (int i = 0; i < 1000; ++i) puts(cudaGetErrorName(cudaDeviceSynchronize()));
}
"""

# The host ends itself: a, c and t behind an error that it has seen; the others without one.
ENDS = """
#include <cassert>
#include <cstdlib>
#include <stdexcept>
__global__ void k(int* x) { *x = 1; }
int main(int argc, char** argv) {
  int* x = nullptr;
  const char how = argv[1][0];
  if (how == 'c') assert(argc == 1);
  if (how == 'a' || how == 't') k<<<1, 2048>>>(x);
  if (cudaGetLastError() != cudaSuccess && how == 'a') abort();
  if (how == 't' || how == 'T') throw std::runtime_error("too many threads");
  if (how == 'f') free((char*)malloc(64) + 16);
  *(volatile int*)x = 1;
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

    def results(self, text, *arguments):
        """Those of a program with each of these arguments; it is compiled once."""
        path = self.folder / "program.cu"
        path.write_text(text)
        program = Compiler(pathlib.Path(BUILD), ROOT).compile([path], self.folder)
        for words in arguments:
            yield lab.run(program, words.split(), self.folder, 60, subprocess.PIPE)

    def test_kernels_cannot_reach_memory_of_the_host(self):
        lines = HOST_MEMORY.splitlines()
        used = {"u": "of_host[thr"}
        for kind, result in zip("vmnstgu", self.results(HOST_MEMORY, *"vmnstgu")):
            with self.subTest(kind):
                line = next(i for i, text in enumerate(lines, 1) if used.get(kind, "+= 1") in text)
                self.assertEqual(result.kinds, ["host memory"])
                found = result.findings[0]
                self.assertTrue(found["where"].endswith(f"program.cu:{line}"), found["where"])
                self.assertIn("cudaMemcpy", found["message"])
                if kind in "tgu":
                    self.assertIn("of_main" if kind == "t" else "of_host", found["message"])
                self.assertIn("cudaErrorIllegalAddress", result.output)
        (right,) = self.results(HOST_MEMORY, "r")
        self.assertEqual((right.findings, right.output), ([], "cudaSuccess\n"))

    def test_kernels_cannot_call_functions_of_the_host(self):
        text = "#define FROM_ELSEWHERE\n" + OF_HOST.replace("\n", "", 1)
        *wrong, right = self.results(text, *"01234")
        for which, result in enumerate(wrong):
            line = next(i for i, t in enumerate(text.splitlines(), 1) if t.endswith(f"// {which}"))
            self.assertEqual(result.kinds, ["host function"])
            self.assertTrue(result.findings[0]["where"].endswith(f":{line}"), result.findings)
            self.assertIn("__host__ __device__", result.findings[0]["message"])
        self.assertEqual(right.findings, [])

    def test_a_barrier_of_the_grid_behind_fences_of_all_threads(self):
        words = ("0", "1", "2", "3", "4", "8", "16")
        for how, result in zip(map(int, words), self.results(GRID_BARRIERS, *words)):
            with self.subTest(how):
                self.assertEqual(result.kinds[:1], [] if how < 2 else ["race"])

    def test_volatile_data_behind_a_flag(self):
        for how, result in enumerate(self.results(VOLATILE_DATA, *"01234567")):
            with self.subTest(how):
                self.assertEqual(result.kinds, ["race"] if how & 4 else [])

    def test_an_event_stands_for_what_was_launched_before_it(self):
        for how, result in zip("flrFLR", self.results(EVENTS, *"flrFLR")):
            with self.subTest(how):
                self.assertEqual(result.kinds, [] if how in "rR" else ["race"])

    def test_local_variables_that_nothing_sets(self):
        done = self.lab(UNSET, "--", "both", name="unset.cu")
        compiler = json.loads((pathlib.Path(BUILD) / "cuda_lab/toolchain.json").read_text())
        if "-ftrivial-auto-var-init=pattern" not in compiler["flags"]:
            self.skipTest("this compiler leaves no pattern")
        line = next(i for i, t in enumerate(UNSET.splitlines(), 1) if "// stored" in t)
        self.assertIn(f"unwritten: unset.cu:{line}\n", done.stdout)
        self.assertRegex(done.stdout, f"note: unset.cu:{line + 3}: .*most.* uninitialized")
        done = self.lab(UNSET, "--json")
        self.assertEqual(done.returncode, 0, done.stdout)
        kinds = {finding["kind"] for finding in json.loads(done.stdout)["findings"]}
        self.assertEqual(kinds, {"uninitialized"})

    def test_a_dependent_launch_waits_for_the_one_before(self):
        words = ("w", "p", "no", "l", "n")
        for how, result in zip(words, self.results(DEPENDENT, *words)):
            with self.subTest(how):
                self.assertEqual(result.kinds, [] if how in ("w", "p", "no") else ["race"])
                if result.findings:
                    self.assertIn("cudaGridDependency", result.findings[0]["message"])

    def test_advice_stands_before_other_errors(self):
        lines = self.lab(MISSING).stderr.splitlines()
        self.assertIn("__shfl_down_sync(0xffffffff", lines[0])
        self.assertIn("this_cluster: not in the lab: clusters", lines[1])
        self.assertIn("Undeclared", lines[2])
        for text, part in (("#include <cuda/ptx>", "Hopper"), ("#include <cuda/functional>", "libcu++"),
                           ("#include <omp.h>\nint n = omp_get_max_threads();", "OpenMP")):
            self.assertIn(part, self.lab(f"{text}\nint main() {{}}").stderr.splitlines()[0])

    def test_the_end_of_the_time_is_that_of_the_program(self):
        (self.folder / "long.cu").write_text(LONG)
        program = Compiler(pathlib.Path(BUILD), ROOT).compile([self.folder / "long.cu"], self.folder)
        advice = dict(re.findall(r"case '(.)'.*// (.*)", LONG))
        for how, seconds in (("g", 6), ("k", 1), ("n", 1), ("h", 1)):
            with self.subTest(how), tempfile.TemporaryFile("w+") as errors:
                pipe = subprocess.PIPE
                result = lab.run(program, [how], self.folder, seconds, pipe, errors)
                self.assertEqual((result.output, result.status), ("", 128 + signal.SIGALRM))
                self.assertIn(advice[how], json.dumps(result.report))
                self.assertEqual(result.kinds, [] if how == "h" else ["time limit"])
                errors.seek(0)
                if how == "g":
                    self.assertRegex(errors.read(), r"launch 1, k: block \d+ of 1000")

    def test_what_the_program_ends_itself_for_is_no_crash(self):
        kinds = {"a": ["launch"], "c": [], "t": ["launch"]}
        for how, result in zip("actTfs", self.results(ENDS, *"actTfs")):
            with self.subTest(how):
                self.assertEqual(result.kinds, kinds.get(how, ["host crash"]))
                self.assertNotEqual(result.status, 0)
                self.assertIn("program.cu:", result.report["end"])

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

    def test_barriers_of_the_grid_need_a_launch_whose_blocks_all_run_at_once(self):
        right, large, ordinary, asked = self.results(GRIDS, "r", "l", "o", "v")
        self.assertEqual((right.findings, right.output.split()[0]), ([], "cudaSuccess"))
        self.assertEqual(large.kinds, ["launch"])
        self.assertIn("65 blocks at once, and 64 fit", large.findings[0]["message"])
        self.assertEqual(large.output.split()[0], "cudaErrorCooperativeLaunchTooLarge")
        self.assertEqual(ordinary.kinds, ["barrier"])
        self.assertTrue(ordinary.findings[0]["where"].endswith(":7"))
        self.assertIn("cudaLaunchCooperativeKernel", ordinary.findings[0]["message"])
        self.assertEqual(ordinary.output.split()[0], "cudaErrorLaunchFailure")
        self.assertEqual((asked.kinds, asked.output.split()[1]), (["barrier"], "0"))

    def test_what_nvcc_compiles_too(self):
        (self.folder / "least.h").write_text("unsigned least(unsigned a, unsigned b);\n")
        (self.folder / "host.cpp").write_text(HOST_ALONE)
        done = self.lab(COMPILES, "host.cpp", name="main.cu")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "2147483647 0 3 1 4 4.5 2")
        self.assertEqual([float(x) for x in lines[1].split()], FP8)

    def test_what_is_constant_in_a_launch_is_not_written(self):
        changed, in_place, read_back, right = self.results(CONSTANTS, *"cibr")
        for result, line in ((changed, 4), (in_place, 5), (read_back, 10)):
            self.assertEqual(result.kinds, ["constant"])
            self.assertTrue(result.findings[0]["where"].endswith(f":{line}"), result.findings)
        self.assertIn("weights", changed.findings[0]["message"])
        self.assertEqual(right.findings, [])

    def test_a_file_with_headers_of_its_own_and_arguments(self):
        (self.folder / "inner folder/helper.cuh").write_text(HELPER)
        run = self.lab(USES_HELPER)
        self.assertIn("78 none\n", run.stdout)
        self.assertIn("Nothing wrong was seen.", run.stdout)
        self.assertEqual(run.returncode, 0, run.stderr)
        run = self.lab(USES_HELPER, "--", "--counts")
        self.assertIn("78 --counts\n", run.stdout)
        self.assertNotIn("requests", run.stdout)
        self.assertIn("The program ended with status 1.", run.stdout)
        self.assertEqual(run.returncode, 1)

    def test_findings_name_the_lines_of_the_file(self):
        run = self.lab(RACE, "--counts", "--html", "page.html")
        self.assertIn("race: my kernel.cu:", run.stdout)
        self.assertRegex(run.stdout, r"write my kernel.cu:4\n")
        self.assertEqual(run.returncode, 1)
        page = (self.folder / "page.html").read_text()
        self.assertIn('<tr class="found" id="line-5">', page)
        self.assertIn("s[63 - threadIdx.x]", page)

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
        self.assertEqual([line.split(":")[1] for line in lines], ["2", "4", "7", "8", "9"])
        parts = ("cublas_v2.h", "mapa.shared::cluster", "cudaTextureObject_t", "cudaGraphCreate",
                 "missing_function")  # fmt: skip
        for line, part in zip(lines, parts):
            self.assertTrue(line.startswith("my kernel.cu:"), line)
            self.assertIn(part, line)

    def test_bytes_and_variables_of_the_device(self):
        run = self.lab(BYTES)
        self.assertIn("3 7\n", run.stdout)
        self.assertIn("Nothing wrong was seen.", run.stdout)
        run = self.lab(BYTES, "--", "beyond")
        self.assertIn("out of bounds: my kernel.cu:14", run.stdout)

    def test_what_students_write(self):
        run = self.lab(STUDENTS)
        self.assertIn("7 2 5\n", run.stdout, run.stderr)
        self.assertIn("Nothing wrong was seen.", run.stdout)

    def test_launches_with_attributes(self):
        done = self.lab(LAUNCHES)
        self.assertIn(f"2 {801}\n", done.stdout)
        self.assertIn("clusters of (2, 1, 1) blocks", " ".join(done.stdout.split()))

    def test_a_step_as_one_file(self):
        text = flatten.flatten("05_flash_forward", "05_tensor_cores")
        done = self.lab(text)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("PASS"), 4)
        self.assertIn("Nothing wrong was seen", done.stdout)

    def test_errors_are_those_of_cuda(self):
        run = self.lab(ERRORS)
        self.assertEqual(
            run.stdout.splitlines()[:9],
            ["cudaErrorMemoryAllocation", "cudaErrorMemoryAllocation", "cudaErrorInvalidValue",
             "cudaErrorInvalidValue", "cudaErrorInvalidValue", "cudaErrorInvalidValue",
             "cudaSuccess", "cudaErrorInvalidConfiguration", "cudaErrorInvalidDevice"],
        )  # fmt: skip

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
