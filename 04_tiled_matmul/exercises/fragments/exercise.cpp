#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Element (row, l) of A, which is stored transposed: row l of the array has 16 elements.
/// @return 0 for l >= k
__device__ inline bfloat16 element_a(const bfloat16* a, int k, int row, int l) {
  return l < k ? a[16 * l + row] : from_float<bfloat16>(0.0f);
}
/// Element (l, col) of B, whose rows have 8 elements.
/// @return 0 for l >= k
__device__ inline bfloat16 element_b(const bfloat16* b, int k, int l, int col) {
  return l < k ? b[8 * l + col] : from_float<bfloat16>(0.0f);
}

/// C = A B; A is 16 x k, B is k x 8, C is 16 x 8 and row-major. One warp.
__global__ void mma_by_hand(const bfloat16* a, const bfloat16* b, float* c, int k) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  float d[4] = {};
  for (int l0 = 0; l0 < k; l0 += 16) {
    std::uint32_t a_frag[4] = {}, b_frag[2] = {};
#ifdef FA_SOLUTION
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, l = l0 + 2 * t + i / 2 * 8;
      a_frag[i] = pack2(element_a(a, k, row, l), element_a(a, k, row, l + 1));
    }
    for (int i = 0; i < 2; ++i) {
      const int l = l0 + 2 * t + 8 * i;
      b_frag[i] = pack2(element_b(b, k, l, g), element_b(b, k, l + 1, g));
    }
#else
    // TODO: the two elements of each register, packed by pack2(first, second).
    (void)a, (void)b, (void)g, (void)t;
#endif
    mma_m16n8k16<bfloat16>(d, a_frag, b_frag);
  }
#ifdef FA_SOLUTION
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, col = 2 * t + i % 2;
    c[8 * row + col] = d[i];
  }
#else
  // TODO: where do the four elements of d belong? (Here they are all stored to the wrong places.)
  for (int i = 0; i < 4; ++i) c[4 * lane + i] = d[i];
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(multiply, [](const std::vector<float>& a, const std::vector<float>& b, int k) {
  return watched([&] {
    const auto on_a = on_device(std::vector<bfloat16>(a.begin(), a.end())),
               on_b = on_device(std::vector<bfloat16>(b.begin(), b.end()));
    DeviceBuffer<float> c(16 * 8);
    launch(mma_by_hand, {{1}, {32}}, on_a.data(), on_b.data(), c.data(), k);
    return from_device(c);
  });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/matmul.hpp"

using namespace fa::classroom;

namespace {

Launched multiply(const std::vector<float>& a, const std::vector<float>& b, int k) {
  return call<Launched>("multiply", a, b, k);
}

void grade(int k) {
  const MatmulSizes sizes{16, 8, k, StoredA::kByColumns};
  const std::vector<float> a = whole_numbers(16 * k, 1), b = whole_numbers(8 * k, 2);
  const Launched c = multiply(a, b, k);
  check_matmul(
      c.seen,
      {{"out of bounds",
        "an element outside of A, B or C: rows of A are 0 to 15, columns of B and C are 0 to 7"}},
      c.out, matmul(a, b, sizes), 0, sizes,
      [=](const auto& of_a, const auto& of_b) { return multiply(of_a, of_b, k).out; },
      {{"C is 0: the fragments are empty", std::vector<double>(16 * 8, 0)}});
}

}  // namespace

FA_STAGE(easy) {
  grade(16);
}

FA_STAGE(odd) {
  grade(48);
  grade(23);
  grade(1);
  grade(9);
}

FA_STAGE(races) {
  const Seen seen = multiply(whole_numbers(16 * 40, 1), whole_numbers(8 * 40, 2), 40).seen;
  require_no_races(seen);
  // Of 2 bytes each: A and B once. C has 4.
  const std::int64_t least = 2 * 40 * (16 + 8) + 4 * 16 * 8;
  budget("bytes of global memory", seen.bytes, least,
         "a warp's fragments hold each element once, and mma multiplies them", least);
}
#endif
/* Other answers, as changes of the solution
# quarters: registers 1 and 2 of A
@ easy: an element is taken for another one
- const int row = g + i % 2 * 8, l = l0 + 2 * t + i / 2 * 8;
+ const int row = g + i / 2 * 8, l = l0 + 2 * t + i % 2 * 8;

# stored_in_order: C in the order of lanes
@ easy: an element is taken for another one
- c[8 * row + col] = d[i];
+ (void)row, (void)col;
+ c[4 * lane + i] = d[i];

# first_step_only: l0 is forgotten
@ odd: numbers are added that are not products
- const int l = l0 + 2 * t + 8 * i;
+ const int l = 2 * t + 8 * i;

# by_hand: the sums without mma
@ races: mma multiplies them
- mma_m16n8k16<bfloat16>(d, a_frag, b_frag);
+ for (int i = 0; i < 4; ++i) {
+   for (int l = l0; l < l0 + 16; ++l) {
+     d[i] += to_float(element_a(a, k, g + i / 2 * 8, l)) * to_float(element_b(b, k, l, 2 * t + i % 2));
+   }
+ }

# unrolled: each register by itself
@ right
- for (int i = 0; i < 4; ++i) {
- const int row = g + i % 2 * 8, l = l0 + 2 * t + i / 2 * 8;
- a_frag[i] = pack2(element_a(a, k, row, l), element_a(a, k, row, l + 1));
- }
+    const int l = l0 + 2 * t;
+    a_frag[0] = pack2(element_a(a, k, g, l), element_a(a, k, g, l + 1));
+    a_frag[1] = pack2(element_a(a, k, g + 8, l), element_a(a, k, g + 8, l + 1));
+    a_frag[2] = pack2(element_a(a, k, g, l + 8), element_a(a, k, g, l + 9));
+    a_frag[3] = pack2(element_a(a, k, g + 8, l + 8), element_a(a, k, g + 8, l + 9));
*/
