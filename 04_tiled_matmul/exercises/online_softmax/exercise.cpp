#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Warps of a block.
constexpr int kWarps = 4;
/// Threads of a block.
constexpr int kThreads = kWarps * kWarp;

// listing: 04_tiled_matmul/kernels/06_softmax_online.cuh#exp_diff

/// (m, l) becomes the state of its own elements and of the others'.
__device__ inline void merge(float& m, float& l, float other_m, float other_l) {
#ifdef FA_SOLUTION
  const float m_new = fmaxf(m, other_m);
  l = exp_diff(m, m_new) * l + exp_diff(other_m, m_new) * other_l;
  m = m_new;
#else
  // TODO
  (void)m, (void)l, (void)other_m, (void)other_l;
#endif
}

/// Block r computes the softmax of row r of x, and lse[r] = ln(sum of e^x).
/// For a row of -infinity, y is 0 and lse is -infinity.
__global__ void softmax_block(const float* x, float* y, float* lse, int cols) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * cols;
#ifdef FA_SOLUTION
  __shared__ float m_smem[kWarps], l_smem[kWarps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  float m = -INFINITY, l = 0;
  for (int j = threadIdx.x; j < cols; j += kThreads) {
    merge(m, l, x[begin + j], 1);
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other_m = __shfl_xor_sync(kAllLanes, m, distance);
    const float other_l = __shfl_xor_sync(kAllLanes, l, distance);
    merge(m, l, other_m, other_l);
  }
  if (lane == 0) {
    m_smem[warp] = m;
    l_smem[warp] = l;
  }
  __syncthreads();  // the states of all warps are there
  m = -INFINITY, l = 0;
  for (int w = 0; w < kWarps; ++w) merge(m, l, m_smem[w], l_smem[w]);
  for (int j = threadIdx.x; j < cols; j += kThreads) {
    y[begin + j] = l == 0 ? 0.0f : exp_diff(x[begin + j], m) / l;
  }
  if (threadIdx.x == 0) lse[blockIdx.x] = m + logf(l);
#else
  // TODO: one pass for (m, l), merged over the lanes and over the warps; one pass for y.
  (void)x, (void)y, (void)lse, (void)cols, (void)begin;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
// The rows of y, and then lse.
FA_ENTRY(softmax, [](const std::vector<float>& matrix, int rows, int cols) {
  std::string error;
  Launched result = watched([&] {
    const auto x = on_device(matrix);
    DeviceBuffer<float> y(std::int64_t{rows} * cols), lse(rows);
    error = thrown([&] {
      launch(softmax_block, {{static_cast<unsigned>(rows)}, {kThreads}}, x.data(), y.data(),
             lse.data(), cols);
    });
    std::vector<double> all = from_device(y);
    for (const double value : from_device(lse)) all.push_back(value);
    return all;
  });
  return std::pair(result, error);
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/softmax.hpp"

using namespace fa::classroom;

namespace {

const std::vector<Reason> kReasons = {
    {"barrier", "only some threads come to the barrier: no thread may return early"},
    {"unwritten",
     "shared memory is read where no warp has stored: is there a barrier after the store, and has "
     "every warp stored its state?"},
    {"race", "a barrier is missing between storing and reading the states of the warps"}};

SoftmaxCase run(SoftmaxCase c) {
  static_cast<Launched&>(c) = call_waiting(
      kReasons, "shuffles need all lanes and barriers all threads, so no thread may return early.",
      "softmax", c.x, c.rows, c.cols);
  return c;
}

void grade(int rows, int cols, int masked_row = -1, float level = 0, bool ties = false) {
  const SoftmaxCase c = run(softmax_case(rows, cols, masked_row, level, ties));
  require(static_cast<std::int64_t>(c.out.size()) == std::int64_t{rows} * (cols + 1),
          "y and lse have another size");
  const auto end_of_y = c.out.begin() + std::int64_t{rows} * cols;
  const std::vector<double> y(c.out.begin(), end_of_y), lse(end_of_y, c.out.end());
  check_softmax(c, y, kReasons,
                {{"the four warps were not merged: each of them divides by its own sum",
                  RowSoftmax(c, 4, 32).y}});
  const RowSoftmax right(c);
  std::vector<double> of_log2 = right.lse;
  for (int i = 0; i < rows; ++i) of_log2[i] += right.log_l[i] * (1 / std::log(2.0) - 1);
  check_result(c.seen, kReasons, {"lse", lse}, right.lse, level == 0 ? 1e-5 : 1e-2,
               {{"lse lacks the maximum: it is m + ln l", right.log_l},
                {"lse has log2 l in place of ln l", of_log2}},
               c.where);
}

}  // namespace

FA_STAGE(easy) {
  grade(2, 256);
  grade(3, 128);
}

FA_STAGE(odd) {
  grade(2, 300);
  grade(1, 1);
  grade(3, 37);
  grade(3, 131, 1);
  grade(2, 20, 0);
  grade(2, 200, -1, -2e4f);
  grade(2, 200, -1, 2e4f);
  grade(2, 200, -1, 0, true);
  grade(2, 60, -1, -3.4e38f);  // a usual mask in place of -infinity
}

FA_STAGE(races) {
  for (const int cols : {20, 300}) {
    require_no_races(run(softmax_case(2, cols)).seen);
  }
}

FA_STAGE(traffic) {
  constexpr int rows = 4, cols = 512;
  const SoftmaxCase c = run(softmax_case(rows, cols));
  needs_watching(c.seen);
  require_divided(c.seen);
  const std::int64_t least = (3 * cols + 1) * rows * 4;
  note("wavefronts of shared memory", c.seen.wavefronts);
  require(c.seen.atomics == 0, "atomics follow one another; lanes and warps can merge in a tree");
  budget("bytes of global memory", c.seen.bytes, least,
         "x is read twice, y written once, lse written by one thread", (2 * cols + 1) * rows * 4);
  require(c.seen.wavefronts <= rows * 128,
          fmt::format("{} wavefronts of shared memory: merge the lanes of a warp by shuffles, so "
                      "that only four states go through it",
                      c.seen.wavefronts));
}
#endif
/* Other answers, as changes of the solution
# warps_apart: each warp divides by its own sum
@ easy: the four warps were not merged
- m = -INFINITY, l = 0;
- for (int w = 0; w < kWarps; ++w) merge(m, l, m_smem[w], l_smem[w]);

# lse_without_max: ln l
@ easy: lse lacks the maximum
- if (threadIdx.x == 0) lse[blockIdx.x] = m + logf(l);
+ if (threadIdx.x == 0) lse[blockIdx.x] = logf(l);

# finite_start: m starts at a large negative number
@ odd: only -infinity is below every element
- float m = -INFINITY, l = 0;
+   float m = -1e30f, l = 0;

# all_through_shared: every thread stores its state
@ traffic: wavefronts of shared memory
- __shared__ float m_smem[kWarps], l_smem[kWarps];
+ __shared__ float m_smem[kThreads], l_smem[kThreads];
- for (int distance = kWarp / 2; distance > 0; distance /= 2) {
+ for (int distance = 0; distance > 0; distance /= 2) {
- if (lane == 0) {
- m_smem[warp] = m;
- l_smem[warp] = l;
- }
+ (void)lane, (void)warp;
+ m_smem[threadIdx.x] = m;
+ l_smem[threadIdx.x] = l;
- for (int w = 0; w < kWarps; ++w) merge(m, l, m_smem[w], l_smem[w]);
+ for (int w = 0; w < kThreads; ++w) merge(m, l, m_smem[w], l_smem[w]);

# one_warp: three warps have nothing to do
@ traffic: one warp loads and stores
- for (int j = threadIdx.x; j < cols; j += kThreads) {
- merge(m, l, x[begin + j], 1);
+  const int first = warp == 0 ? lane : cols;
+  for (int j = first; j < cols; j += kWarp) {
+    merge(m, l, x[begin + j], 1);
- for (int j = threadIdx.x; j < cols; j += kThreads) {
- y[begin + j] = l == 0 ? 0.0f : exp_diff(x[begin + j], m) / l;
+  for (int j = first; j < cols; j += kWarp) {
+    y[begin + j] = l == 0 ? 0.0f : exp_diff(x[begin + j], m) / l;

# down: a lane merges those above it, so lane 0 has the state of its warp
@ right
- const float other_m = __shfl_xor_sync(kAllLanes, m, distance);
- const float other_l = __shfl_xor_sync(kAllLanes, l, distance);
+    const float other_m = __shfl_down_sync(kAllLanes, m, distance);
+    const float other_l = __shfl_down_sync(kAllLanes, l, distance);
*/
