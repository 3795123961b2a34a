// One wgmma for each layout of its operands in shared memory: four swizzles, A and B by rows and by
// columns, m64n16k16 and m64n72k16 with f16.
#include <cstdint>
#include <cuda_fp16.h>

#include "../arrays.cuh"

constexpr int M = 64, K = 16;

// Where element (i, k) of an operand is, in bytes, and its descriptor. Without a swizzle 8 rows of 16
// bytes lie together; with one, 8 rows of a panel do, whose bytes are exchanged by their addresses.
struct Layout {
  int panel, swizzle;  // bytes of a row of a panel; bits 62 and 63
  bool by_columns;     // neighbours are of one column: M or N is the fast index
  int extent;          // rows: M or N
  __host__ __device__ int lbo() const { return by_columns ? (swizzle ? 16 * panel : 8 * 16) : extent * 16; }
  __host__ __device__ int sbo() const { return by_columns ? (swizzle ? 8 * panel : 2 * 8 * 16) : 8 * panel; }
  __host__ __device__ int place(int i, int k) const {
    const int wide = panel / 2;
    int at;
    if (by_columns) {
      at = swizzle ? i / wide * lbo() + k / 8 * sbo() + k % 8 * panel + i % wide * 2
                   : i / 8 * sbo() + k / 8 * lbo() + k % 8 * 16 + i % 8 * 2;
    } else {
      at = i / 8 * sbo() + i % 8 * panel + (swizzle ? 2 * k : k / 8 * lbo() + k % 8 * 2);
    }
    return at ^ (at >> 3 & (panel - 16) & 0x70);
  }
  __device__ uint64_t descriptor(const void *p) const {
    const uint64_t address = (uint32_t)__cvta_generic_to_shared(p);
    return (address & 0x3ffff) >> 4 | (uint64_t)(lbo() >> 4) << 16 | (uint64_t)(sbo() >> 4) << 32 | (uint64_t)swizzle << 62;
  }
};

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D8(i) D4(i), D4(i + 4)
#define TEXT8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TEXT36                                                                                              \
  TEXT8 ", %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, " \
        "%27, %28, %29, %30, %31, %32, %33, %34, %35"
#define WGMMA(n, text, A, B, TA, TB, ...)                                                          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" text "}, %" #A ", %" #B \
               ", 1, 1, 1, %" #TA ", %" #TB ";"                                                    \
               : __VA_ARGS__                                                                       \
               : "l"(a.descriptor(operand_a)), "l"(b.descriptor(operand_b)), "n"(ta), "n"(tb))

template <int n, int ta, int tb>
__global__ void __launch_bounds__(128) multiply(Layout a, Layout b, const half *x, const half *y, float *out) {
  __shared__ alignas(1024) unsigned char operand_a[16384], operand_b[16384];
  for (int i = threadIdx.x; i < M * K; i += 128) *(half *)(operand_a + a.place(i / K, i % K)) = x[i];
  for (int i = threadIdx.x; i < n * K; i += 128) *(half *)(operand_b + b.place(i / K, i % K)) = y[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  float d[n / 2];
  for (float &sum : d) sum = 0;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  if constexpr (n == 16) {
    WGMMA(16, TEXT8, 8, 9, 10, 11, D8(0));
  } else {
    WGMMA(72, TEXT36, 36, 37, 38, 39, D8(0), D8(8), D8(16), D8(24), D4(32));
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  for (int i = 0; i < n / 2; ++i) {
    out[(row + 8 * (i / 2 % 2)) * n + 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2] = d[i];
  }
}

template <int n, int ta, int tb>
int wrong(int swizzle) {
  const int panel = swizzle == 0 ? 16 : 256 >> swizzle;
  const Layout a{panel, swizzle, ta != 0, M}, b{panel, swizzle, tb != 0, n};
  const auto x = numbers<half>(M * K, [](int i) { return __float2half(i * 7 % 23 - 11); });
  const auto y = numbers<half>(n * K, [](int i) { return __float2half(i * 5 % 19 - 9); });
  float *out = on_device(std::vector<float>(M * n));
  multiply<n, ta, tb><<<1, 128>>>(a, b, on_device(x), on_device(y), out);
  printf("n %d, swizzle %d, A by columns %d, B by columns %d: ", n, swizzle, ta, tb);
  return check(out, M * n, [&](int i) {
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += __half2float(x[i / n * K + k]) * __half2float(y[i % n * K + k]);
    return sum;
  });
}

int main() {
  int all = 0;
  for (int s = 0; s < 4; ++s) {
    all += wrong<16, 0, 0>(s) + wrong<16, 0, 1>(s) + wrong<16, 1, 0>(s) + wrong<16, 1, 1>(s);
    all += wrong<72, 0, 0>(s) + wrong<72, 0, 1>(s) + wrong<72, 1, 0>(s) + wrong<72, 1, 1>(s);
  }
  return all;
}
