#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Threads of a block.
constexpr int kThreads = 128;

/// Blocks of kThreads for n elements.
inline unsigned blocks_for(std::int64_t n) {
#ifdef FA_SOLUTION
  return static_cast<unsigned>(ceil_div(n, std::int64_t{kThreads}));
#else
  // TODO
  (void)n;
  return 1;
#endif
}

/// c[i] = a[i] + b[i] for i < n.
// listing: 04_tiled_matmul/kernels/01_vector_add.cuh#vector_add

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(blocks_for, [](std::int64_t n) { return blocks_for(n); });
FA_ENTRY(add, [](const std::vector<float>& a, const std::vector<float>& b) {
  const auto n = static_cast<std::int64_t>(a.size());
  const unsigned blocks = blocks_for(n);
  return watched([&] {
    const auto on_a = on_device(a), on_b = on_device(b);
    DeviceBuffer<float> c(n);
    launch(vector_add, {{blocks}, {kThreads}}, on_a.data(), on_b.data(), c.data(), n);
    return from_device(c);
  });
});
// Blocks for n elements, of which only those from `first` on exist, as many as a has.
FA_ENTRY(far, [](const std::vector<float>& a, const std::vector<float>& b, std::int64_t first,
                 std::int64_t n) {
  const auto count = static_cast<std::int64_t>(a.size());
  const auto before = static_cast<unsigned>(first / kThreads);
  return watched([&] {
    const auto on_a = on_device(a), on_b = on_device(b);
    DeviceBuffer<float> c(count);
    const auto blocks = static_cast<unsigned>(ceil_div(count, std::int64_t{kThreads}));
    launch(far_blocks<vector_add, const float*, const float*, float*, std::int64_t>,
           {{blocks}, {kThreads}}, fa::Size(before), fa::Size(before + blocks), on_a.data() - first,
           on_b.data() - first, c.data() - first, n);
    return from_device(c);
  });
});
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kThreads = 128;

unsigned blocks_for(std::int64_t n) {
  return call<unsigned>("blocks_for", n);
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct Case : Launched {
  std::vector<double> right;
};

Case run(std::int64_t n) {
  Case result;
  const std::vector<float> a = random_floats(n, 1), b = random_floats(n, 2);
  for (std::size_t i = 0; i < a.size(); ++i) {
    result.right.push_back(static_cast<double>(a[i] + b[i]));
  }
  const unsigned blocks = blocks_for(n);
  require(blocks >= 1 && blocks <= 4 * n, fmt::format("blocks_for({}) is {}", n, blocks));
  static_cast<Launched&>(result) = call<Launched>("add", a, b);
  return result;
}

// The right result up to some element, and nothing after it.
std::vector<double> up_to(std::vector<double> right, std::int64_t count) {
  for (std::size_t i = static_cast<std::size_t>(count); i < right.size(); ++i) right[i] = NAN;
  return right;
}

void grade(std::int64_t n) {
  const Case c = run(n);
  check_result(
      c.seen,
      {{"out of bounds",
        "the tail is not masked: the last block has threads whose element does not exist"}},
      {"c", c.out}, c.right, 0,
      {{"the number of blocks was rounded down: no thread computes the last elements",
        up_to(c.right, n / kThreads * kThreads)},
       {"only the first block's elements were computed: all blocks compute the same",
        up_to(c.right, std::min<std::int64_t>(n, kThreads))}},
      fmt::format("{} elements", n));
  const std::int64_t blocks = ceil_div(n, kThreads);
  require(blocks_for(n) <= blocks,
          fmt::format("one block too many for {} elements: {}, and {} would do", n, blocks_for(n),
                      blocks));
}

}  // namespace

//! [stages]
FA_STAGE(easy) {
  grade(256);
  grade(1024);
}

FA_STAGE(odd) {
  grade(100);
  grade(1);
  grade(129);
  grade(1000);
}
//! [stages]

FA_STAGE(races) {
  require_no_races(run(1000).seen);
}

FA_STAGE(traffic) {
  const Case c = run(4096);
  needs_watching(c.seen);
  const std::int64_t least = 3 * 4096 / 8;
  budget("sectors of global memory", c.seen.sectors, least,
         "neighbouring threads should touch neighbouring elements", least);
}

FA_STAGE(large) {
  for (const std::int64_t n :
       {(std::int64_t{1} << 24) + 1, (std::int64_t{1} << 31) - 1, (std::int64_t{1} << 32) + 5}) {
    require(blocks_for(n) == ceil_div(n, kThreads),
            fmt::format("blocks_for({}) is {}, and {} would do: a float does not hold these "
                        "numbers, nor does an int",
                        n, blocks_for(n), ceil_div(n, kThreads)));
  }
  // Blocks of a large grid, with elements only there: the last ones, and two in the middle.
  const auto grade_far = [](std::int64_t first, std::int64_t count, std::int64_t n) {
    const std::vector<float> a = random_floats(count, 1), b = random_floats(count, 2);
    const std::string message = fmt::format(
        "element {} of {} is not computed: numbers from 2^31 on do not fit into an int, and those "
        "from 2^32 on do not fit into 32 bits, in which blockIdx.x * blockDim.x is computed",
        first, n);
    const auto far = call_or<Launched>(message, "far", a, b, first, n);
    for (std::size_t i = 0; i < a.size(); ++i) {
      require(far.out[i] == static_cast<double>(a[i] + b[i]), message);
    }
  };
  const std::int64_t two_31 = std::int64_t{1} << 31, two_32 = 2 * two_31;
  grade_far(two_31, 300, two_31 + 300);
  grade_far(two_32, 300, two_32 + 300);
  grade_far(two_31, 256, two_32 + 5);
}
#endif
/* Other answers, as changes of the solution
# start: what the student begins with
@ start
- const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
- if (i < n) {  // the tail guard
- c[i] = a[i] + b[i];
- }
+   // TODO: which element is this thread's?
+   (void)a, (void)b, (void)c, (void)n;

# floor_grid: the number of blocks is rounded down
@ odd: rounded down
- return static_cast<unsigned>(ceil_div(n, std::int64_t{kThreads}));
+ return static_cast<unsigned>(n < kThreads ? 1 : n / kThreads);

# no_guard: the tail is not masked
@ odd: the tail is not masked
- if (i < n) {  // the tail guard
+ {

# strided: neighbouring threads touch elements that are far apart
@ traffic: neighbouring threads
- const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
+ const std::int64_t i = std::int64_t{threadIdx.x} * gridDim.x + blockIdx.x;

# int_index: an int holds the element's number
@ large: do not fit into 32 bits
- const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
+ const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);

# division: a quotient and a remainder
@ right
- return static_cast<unsigned>(ceil_div(n, std::int64_t{kThreads}));
+  std::int64_t blocks = n / 128; if (n % 128 != 0) blocks++; return (unsigned)blocks;
*/
