#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Warps in a block.
constexpr int kSoftmaxWarps = 4;
/// Lanes that work on a row: a warp has two rows.
constexpr int kRowLanes = 16;

// listing: 04_tiled_matmul/kernels/06_softmax_online.cuh#exp_diff

/// Each row of y is the softmax of that row of x; zeros for a row of -infinity.
/// Launched with blocks of 32 x kSoftmaxWarps; each block has 2 * kSoftmaxWarps rows.
__global__ void softmax_half_warps(const float* x, float* y, int rows, int cols) {
  const int warp = blockIdx.x * kSoftmaxWarps + threadIdx.y;
  const int row = 2 * warp + threadIdx.x / kRowLanes;
  const int lane = threadIdx.x % kRowLanes;
  const std::int64_t begin = std::int64_t{row} * cols;
  // What follows is skipped where there is no such row. No lane returns: shuffles need all of them.
  const int end = row < rows ? cols : 0;

  float m = -INFINITY, l = 0;  // of this lane's elements
  for (int j = lane; j < end; j += kRowLanes) {
    const float m_new = fmaxf(m, x[begin + j]);
    l = exp_diff(m, m_new) * l + exp_diff(x[begin + j], m_new);
    m = m_new;
  }
#ifdef FA_SOLUTION
  for (int distance = kRowLanes / 2; distance > 0; distance /= 2) {
    const float other_m = __shfl_xor_sync(kAllLanes, m, distance);
    const float other_l = __shfl_xor_sync(kAllLanes, l, distance);
    const float m_new = fmaxf(m, other_m);
    l = exp_diff(m, m_new) * l + exp_diff(other_m, m_new) * other_l;
    m = m_new;
  }
#else
  // TODO: m and l of the whole row, in each of its 16 lanes.
#endif
  for (int j = lane; j < end; j += kRowLanes) {
    y[begin + j] = l == 0 ? 0.0f : exp_diff(x[begin + j], m) / l;
  }
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(softmax, [](const std::vector<float>& matrix, int rows, int cols) {
  return watched([&] {
    const auto x = on_device(matrix);
    DeviceBuffer<float> y(std::int64_t{rows} * cols);
    launch(softmax_half_warps,
           {{static_cast<unsigned>(ceil_div(rows, 2 * kSoftmaxWarps))}, {32, kSoftmaxWarps}},
           x.data(), y.data(), rows, cols);
    return from_device(y);
  });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/softmax.hpp"

using namespace fa::classroom;

namespace {

SoftmaxCase run(SoftmaxCase c) {
  static_cast<Launched&>(c) = call<Launched>("softmax", c.x, c.rows, c.cols);
  return c;
}

void grade(int rows, int cols, int masked_row = -1, float level = 0, bool ties = false) {
  const SoftmaxCase c = run(softmax_case(rows, cols, masked_row, level, ties));
  std::vector<Mistake> mistakes{
      {"each lane divides by its own sum: the lanes were not merged", RowSoftmax(c, 16).y}};
  // The right result up to a factor for each lane.
  std::vector<double> by_lane = RowSoftmax(c).y;
  bool differ = false;
  for (int row = 0; row < rows && cols > 16; ++row) {
    double* const y = by_lane.data() + row * cols;
    std::vector<double> factors(16, 1.0);
    for (int j = 0; j < cols; ++j) {
      if (y[j] > 1e-9) factors[j % 16] = c.out[row * cols + j] / y[j];
    }
    differ = differ || std::abs(factors[0] - factors[8]) > 1e-3 * std::abs(factors[0]);
    for (int j = 0; j < cols; ++j) y[j] *= factors[j % 16];
  }
  if (differ) {
    mistakes.push_back(
        {"the 16 lanes of a row divide by different sums: does each lane get what all others have, "
         "and is the old m kept until l is rescaled from it?",
         by_lane});
  }
  check_softmax(c, c.out, {}, mistakes);
}

}  // namespace

FA_STAGE(easy) {
  grade(4, 32);
  grade(8, 64);
}

FA_STAGE(odd) {
  grade(5, 7);
  grade(3, 113);
  grade(1, 1);
  grade(4, 40, 2);
  grade(3, 50, -1, -2e4f);
  grade(3, 50, -1, 2e4f);
  grade(3, 50, -1, 0, true);
  grade(3, 50, -1, -3.4e38f);
}

FA_STAGE(races) {
  for (const int cols : {7, 96}) {
    require_no_races(run(softmax_case(6, cols)).seen);
  }
}

FA_STAGE(traffic) {
  const SoftmaxCase c = run(softmax_case(16, 128));
  needs_watching(c.seen);
  const std::int64_t least = 3 * 16 * 128 * 4;
  note("wavefronts of shared memory", c.seen.wavefronts);
  require(c.seen.atomics == 0,
          fmt::format("{} atomic requests, where lanes of one warp can exchange by shuffles",
                      c.seen.atomics));
  budget("bytes of global memory", c.seen.bytes, least, "", least);
  require(c.seen.wavefronts == 0, "lanes of one warp need no shared memory to agree");
}
#endif
/* Other answers, as changes of the solution
# l_not_rescaled: the sums are added as they are
@ easy: relative to different maxima
- l = exp_diff(m, m_new) * l + exp_diff(other_m, m_new) * other_l;
+     l = l + other_l;

# shuffle_down: only lane 0 knows the end
@ easy: lanes of a row divide by different sums
- const float other_m = __shfl_xor_sync(kAllLanes, m, distance);
- const float other_l = __shfl_xor_sync(kAllLanes, l, distance);
+     const float other_m = __shfl_down_sync(kAllLanes, m, distance);
+     const float other_l = __shfl_down_sync(kAllLanes, l, distance);

# no_element_is_nan: a lane without elements
@ odd: -infinity - -infinity
- l = exp_diff(m, m_new) * l + exp_diff(other_m, m_new) * other_l;
+     l = expf(m - m_new) * l + expf(other_m - m_new) * other_l;

# through_y: the exponentials are stored, and read again for the division
@ traffic: bytes of global memory
- y[begin + j] = l == 0 ? 0.0f : exp_diff(x[begin + j], m) / l;
+     y[begin + j] = exp_diff(x[begin + j], m);
+     if (l != 0) y[begin + j] /= l;

# down_and_broadcast: shuffles down within 16 lanes, and one from lane 0
@ right
- const float other_m = __shfl_xor_sync(kAllLanes, m, distance);
- const float other_l = __shfl_xor_sync(kAllLanes, l, distance);
+    const float2 other = make_float2(__shfl_down_sync(kAllLanes, m, distance, kRowLanes), __shfl_down_sync(kAllLanes, l, distance, kRowLanes));
+    const float other_m = other.x, other_l = other.y;
- for (int j = lane; j < end; j += kRowLanes) {
- y[begin + j] = l == 0 ? 0.0f : exp_diff(x[begin + j], m) / l;
- }
+  m = __shfl_sync(kAllLanes, m, 0, kRowLanes);
+  l = __shfl_sync(kAllLanes, l, 0, kRowLanes);
+  for (int j = lane; j < end; j += kRowLanes) {
+    y[begin + j] = l > 0 ? __expf(__ldg(x + begin + j) - m) / l : 0.0f;
+  }
*/
