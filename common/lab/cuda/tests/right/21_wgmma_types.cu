// wgmma with types of 8 bits, also two of them, with TF32, and with sums in float16.
#include <cstdint>
#include <cstring>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "../arrays.cuh"

constexpr int M = 64, N = 8, BYTES = 32;  // of a row, along K

// Tensor cores read the upper 19 bits.
struct Tf32 {
  uint32_t bits;
  Tf32() = default;
  explicit Tf32(float x) {
    memcpy(&bits, &x, 4);
    bits |= 0x1fff;
  }
  operator float() const {
    const uint32_t used = bits & ~0x1fffu;
    float x;
    return memcpy(&x, &used, 4), x;
  }
};
using E4m3 = __nv_fp8_e4m3;
using E5m2 = __nv_fp8_e5m2;

// Without a swizzle: 8 rows of 16 bytes lie together, first all rows with the same k.
__device__ int place(int row, int byte, int rows) { return byte / 16 * rows * 16 + row * 16 + byte % 16; }
__device__ uint64_t descriptor(const void *p, int rows) {
  return (uint64_t)(__cvta_generic_to_shared(p) & 0x3ffff) >> 4 | (uint64_t)rows << 16 | (uint64_t)8 << 32;
}
#define WGMMA(text, registers, last, ...)                                                         \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8" text " {" registers "}, " last ";" : __VA_ARGS__ \
               : "l"(descriptor(a, M)), "l"(descriptor(b, N)), "n"(1))
#define FLOATS(text) WGMMA(text, "%0, %1, %2, %3", "%4, %5, %6, 1, 1", "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]))
#define HALVES(text, more) WGMMA(text, "%0, %1", "%2, %3, %4, -1, 1" more, "+r"(h[0]), "+r"(h[1]))

template <class A, class B, bool halves>
__global__ void multiply(const A *x, const B *y, float *out) {
  __shared__ alignas(128) unsigned char a[M * BYTES], b[N * BYTES];
  constexpr int size = sizeof(A), k = BYTES / size;
  for (int i = threadIdx.x; i < M * k; i += 128) *(A *)(a + place(i / k, i % k * size, M)) = x[i];
  for (int i = threadIdx.x; i < N * k; i += 128) *(B *)(b + place(i / k, i % k * size, N)) = y[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  float d[4] = {1, 1, 1, 1};
  uint32_t h[2] = {0x3c003c00, 0x3c003c00};  // 1
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  if constexpr (halves && size == 2) HALVES("k16.f16.f16.f16", ", 0, 0");
  else if constexpr (halves) HALVES("k32.f16.e5m2.e4m3", "");
  else if constexpr (size == 4) FLOATS("k8.f32.tf32.tf32");
  else if constexpr (!std::is_same_v<A, B>) FLOATS("k32.f32.e4m3.e5m2");
  else FLOATS("k32.f32.e5m2.e5m2");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  for (int i = 0; i < 4; ++i) {
    const __half2 two = *(__half2 *)&h[i / 2];
    out[(row + i / 2 * 8) * N + threadIdx.x % 4 * 2 + i % 2] =
        halves ? __half2float(i % 2 ? two.y : two.x) : d[i];
  }
}

template <class A, class B, bool halves = false>
int wrong(const char *name) {
  constexpr int k = BYTES / sizeof(A);
  const auto x = numbers<A>(M * k, [](int i) { return A(float(i * 7 % 13 - 6)); });
  const auto y = numbers<B>(N * k, [](int i) { return B(float(i * 5 % 11 - 5) / 4); });
  float *out = on_device(std::vector<float>(M * N));
  multiply<A, B, halves><<<1, 128>>>(on_device(x), on_device(y), out);
  printf("%s: ", name);
  return check(out, M * N, [&](int i) {
    float sum = 0;
    for (int l = 0; l < k; ++l) sum += float(x[i / N * k + l]) * float(y[i % N * k + l]);
    return halves ? 1 - sum : 1 + sum;
  });
}

int main() {
  return wrong<E5m2, E5m2>("e5m2") + wrong<E4m3, E5m2>("e4m3 and e5m2") + wrong<Tf32, Tf32>("tf32") +
         wrong<half, half, true>("f16, sums in f16") + wrong<E5m2, E4m3, true>("8 bits, sums in f16");
}
