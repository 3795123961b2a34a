// One wgmma for each layout of its operands in shared memory: four swizzles, A and B by rows and by
// columns, m64n16k16 and m64n72k16 with f16; then for other types, also of 8 bits mixed, and sums.
#include <cstdint>
#include <cstring>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "../arrays.cuh"

constexpr int M = 64;
template <class T>
constexpr int K = 32 / sizeof(T);

// Tensor cores read the upper 19 bits.
struct Tf32 {
  uint32_t bits;
  Tf32() = default;
  explicit Tf32(float x) : bits(reinterpret_cast<uint32_t &>(x) | 0x1fff) {}
  operator float() const {
    const uint32_t used = bits & ~0x1fffu;
    return reinterpret_cast<const float &>(used);
  }
};
using E4m3 = __nv_fp8_e4m3;
using E5m2 = __nv_fp8_e5m2;

// Where element (i, k) of an operand is, in bytes, and its descriptor. Without a swizzle 8 rows of 16
// bytes lie together; with one, 8 rows of a panel do, whose bytes are exchanged by their addresses.
struct Layout {
  int panel, swizzle;  // bytes of a row of a panel; bits 62 and 63
  bool by_columns;     // neighbours are of one column: M or N is the fast index; of 2 bytes
  int extent, size;    // rows: M or N; bytes of an element
  __host__ __device__ int lbo() const { return by_columns ? (swizzle ? 16 * panel : 8 * 16) : extent * 16; }
  __host__ __device__ int sbo() const { return by_columns ? (swizzle ? 8 * panel : 2 * 8 * 16) : 8 * panel; }
  __host__ __device__ int place(int i, int k) const {
    const int wide = panel / 2, byte = k * size;
    int at;
    if (by_columns) {
      at = swizzle ? i / wide * lbo() + k / 8 * sbo() + k % 8 * panel + i % wide * 2
                   : i / 8 * sbo() + k / 8 * lbo() + k % 8 * 16 + i % 8 * 2;
    } else {
      at = i / 8 * sbo() + i % 8 * panel + (swizzle ? byte : byte / 16 * lbo() + byte % 16);
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
#define H4 "+r"(h[0]), "+r"(h[1]), "+r"(h[2]), "+r"(h[3])
#define TEXT4 "%0, %1, %2, %3"
#define TEXT8 TEXT4 ", %4, %5, %6, %7"
#define TEXT36                                                                                              \
  TEXT8 ", %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, " \
        "%27, %28, %29, %30, %31, %32, %33, %34, %35"
#define WGMMA(what, sums, operands, ...)                                                       \
  asm volatile("wgmma.mma_async.sync.aligned.m64" what " {" sums "}, " operands ";"            \
               : __VA_ARGS__                                                                   \
               : "l"(a.descriptor(operand_a)), "l"(b.descriptor(operand_b)), "n"(ta), "n"(tb))

template <class A, class B, int n, bool halves, int ta, int tb>
__global__ void __launch_bounds__(128) multiply(Layout a, Layout b, const A *x, const B *y, float *out) {
  __shared__ alignas(1024) unsigned char operand_a[M * 128], operand_b[n * 128];
  for (int i = threadIdx.x; i < M * K<A>; i += 128) *(A *)(operand_a + a.place(i / K<A>, i % K<A>)) = x[i];
  for (int i = threadIdx.x; i < n * K<B>; i += 128) *(B *)(operand_b + b.place(i / K<B>, i % K<B>)) = y[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  float d[n / 2];
  for (float &sum : d) sum = 1;
  uint32_t h[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00};  // 1, of two float16
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  if constexpr (n == 72) {
    WGMMA("n72k16.f32.f16.f16", TEXT36, "%36, %37, 1, 1, 1, %38, %39", D8(0), D8(8), D8(16), D8(24), D4(32));
  } else if constexpr (halves && sizeof(A) == 2) {
    WGMMA("n16k16.f16.f16.f16", TEXT4, "%4, %5, 1, 1, 1, %6, %7", H4);
  } else if constexpr (halves) {
    WGMMA("n16k32.f16.e5m2.e4m3", TEXT4, "%4, %5, 1, 1, 1", H4);
  } else if constexpr (sizeof(A) == 2) {
    WGMMA("n16k16.f32.f16.f16", TEXT8, "%8, %9, 1, 1, 1, %10, %11", D8(0));
  } else if constexpr (sizeof(A) == 4) {
    WGMMA("n16k8.f32.tf32.tf32", TEXT8, "%8, %9, 1, 1, 1", D8(0));
  } else if constexpr (std::is_same_v<A, B>) {
    WGMMA("n16k32.f32.e5m2.e5m2", TEXT8, "%8, %9, 1, 1, 1", D8(0));
  } else {
    WGMMA("n16k32.f32.e4m3.e5m2", TEXT8, "%8, %9, 1, 1, 1", D8(0));
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  for (int i = 0; i < n / 2; ++i) {
    const float sum = halves ? __half2float(((half *)h)[i]) : d[i];
    out[(row + 8 * (i / 2 % 2)) * n + 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2] = sum;
  }
}

template <class A, class B, int n, bool halves = false, int ta = 0, int tb = 0>
int wrong(int swizzle) {
  constexpr int k = K<A>;
  const int panel = swizzle == 0 ? 16 : 256 >> swizzle;
  const Layout a{panel, swizzle, ta != 0, M, sizeof(A)}, b{panel, swizzle, tb != 0, n, sizeof(B)};
  const auto x = numbers<A>(M * k, [](int i) { return A(float(i * 7 % 13 - 6)); });
  const auto y = numbers<B>(n * k, [](int i) { return B(float(i * 5 % 11 - 5)); });
  float *out = on_device(std::vector<float>(M * n));
  const int more = n == 72 ? 110 << 10 : 0;  // with all static arrays more than descriptors reach
  auto *const kernel = multiply<A, B, n, halves, ta, tb>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, more);
  kernel<<<1, 128, more>>>(a, b, on_device(x), on_device(y), out);
  printf("k %d, n %d, swizzle %d, A by columns %d, B by columns %d: ", k, n, swizzle, ta, tb);
  return check(out, M * n, [&](int i) {
    float sum = 1;
    for (int l = 0; l < k; ++l) sum += float(x[i / n * k + l]) * float(y[i % n * k + l]);
    return sum;
  });
}
template <class T, int n>
int all_orders(int s) {
  return wrong<T, T, n>(s) + wrong<T, T, n, false, 0, 1>(s) + wrong<T, T, n, false, 1, 0>(s) +
         wrong<T, T, n, false, 1, 1>(s);
}

int main() {
  int all = 0;
  for (int s = 0; s < 4; ++s) {
    all += all_orders<half, 16>(s) + all_orders<half, 72>(s) + wrong<half, half, 16, true>(s);
    all += wrong<E5m2, E5m2, 16>(s) + wrong<E4m3, E5m2, 16>(s) + wrong<E5m2, E4m3, 16, true>(s);
    all += wrong<Tf32, Tf32, 16>(s);
  }
  return all;
}
