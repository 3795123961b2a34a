#if defined(FA_STUDENT)
#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Threads of a block, and columns of x.
constexpr int kColumns = 128;

/// Writes lse[column] = ln(sum of e^x) over the n rows of x, [n, kColumns].
/// Launched with a block for each part of the rows.
__global__ void lse_of_columns(const float* x, float* lse, float* states_m, float* states_l,
                               unsigned* counter, int n) {
  const int part = blockIdx.x, parts = gridDim.x, column = threadIdx.x;
  const int begin = n * part / parts, end = n * (part + 1) / parts;
  float m = -INFINITY, l = 0;
  for (int row = begin; row < end; ++row) {
    const float value = x[row * kColumns + column];
    const float m_new = fmaxf(m, value);
    l = exp_diff(m, m_new) * l + exp_diff(value, m_new);
    m = m_new;
  }
  states_m[part * kColumns + column] = m;
  states_l[part * kColumns + column] = l;
#ifdef FA_SOLUTION
  __shared__ bool is_last;
  __syncthreads();  // all states of this block are stored
  if (threadIdx.x == 0) {
    __threadfence();  // before the addition, for all threads
    const unsigned before = atomic_add_acquire(counter, 1);
    is_last = before + 1 == gridDim.x;
    if (is_last) *counter = 0;
  }
  __syncthreads();  // is_last is set
  if (!is_last) return;
  float m_all = -INFINITY, l_all = 0;
  for (int p = 0; p < parts; ++p) {
    m_all = fmaxf(m_all, states_m[p * kColumns + column]);
  }
  for (int p = 0; p < parts; ++p) {
    l_all += exp_diff(states_m[p * kColumns + column], m_all) * states_l[p * kColumns + column];
  }
  lse[column] = log_sum(m_all, l_all);
#else
  // TODO: the last block to arrive merges the states of all parts.
  (void)lse, (void)counter;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
// lse of each matrix, by launches one after the other with the same counter, and then the counter.
// With the first matrix block 0 arrives last.
FA_ENTRY(run, [](const std::vector<std::vector<float>>& matrices, int parts) {
  return watched([&] {
    auto counter = on_device(std::vector<unsigned>{0});
    DeviceBuffer<float> m(parts * kColumns), l(parts * kColumns);
    std::vector<double> all;
    for (const std::vector<float>& matrix : matrices) {
      const auto x = on_device(matrix);
      DeviceBuffer<float> lse(kColumns);
      const unsigned grid = parts, first = matrix == matrices[0] && grid > 1;
      const auto launch_blocks = [&](unsigned begin, unsigned end) {
        launch(far_blocks<lse_of_columns, const float*, float*, float*, float*, unsigned*, int>,
               {{end - begin}, {kColumns}}, fa::Size(begin), fa::Size(grid), x.data(), lse.data(),
               m.data(), l.data(), counter.data(), static_cast<int>(matrix.size()) / kColumns);
      };
      launch_blocks(first, grid);
      if (first > 0) launch_blocks(0, first);
      for (const double value : from_device(lse)) all.push_back(value);
    }
    all.push_back(from_device(counter)[0]);
    return all;
  });
});
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kColumns = 128;
const std::string kUnordered =
    "nothing orders a store before a load of another thread. All threads of a block have stored "
    "(barrier), these stores come before the addition (fence), only the block that arrives last, "
    "whatever its number, continues, the addition comes before its loads (acquire), and all of its "
    "threads learn of it (barrier)";

const std::vector<Reason> kReasons = {
    {"barrier", "only some threads come to the barrier: no thread may leave before it"},
    {"out of bounds", "it reads or writes beside the arrays"},
    {"unwritten", kUnordered},
    {"race", kUnordered}};

using Matrix = std::vector<float>;

// Launches one after the other, with the same counter.
struct Case {
  std::vector<Matrix> matrices;
  int parts;

  int rows(const Matrix& x) const { return static_cast<int>(x.size()) / kColumns; }
  std::string where() const {
    std::string rows_of;
    for (const Matrix& x : matrices) rows_of += fmt::format(" {}", rows(x));
    return fmt::format("{} parts, launches with rows:{}", parts, rows_of);
  }
};

// The lse that all launches must write, column by column, and the counter in the end.
std::vector<double> right_of(const Case& c) {
  std::vector<double> all;
  for (const Matrix& x : c.matrices) {
    for (int column = 0; column < kColumns; ++column) {
      double m = kMinusInfinity, l = 0;
      for (int row = 0; row < c.rows(x); ++row) {
        m = std::max(m, static_cast<double>(x[row * kColumns + column]));
      }
      for (int row = 0; row < c.rows(x) && m != kMinusInfinity; ++row) {
        l += std::exp(x[row * kColumns + column] - m);
      }
      all.push_back(m + std::log(l));
    }
  }
  all.push_back(0);
  return all;
}

Matrix random_matrix(int rows, std::uint64_t seed, float spread = 2) {
  Matrix x = random_floats(std::int64_t{rows} * kColumns, seed);
  for (float& value : x) value *= spread;
  return x;
}

void grade(const Case& c, double tolerance = 1e-4) {
  const auto launched = call<Launched>("run", c.matrices, c.parts);
  const auto first = launched.out.begin();
  require(
      launched.out.back() == 0 ||
          !std::all_of(first, first + kColumns, [](double x) { return std::isnan(x); }),
      "the first launch has written no lse: which block finds that it is the last? The addition "
      "returns the value before: parts - 1 for it, where one thread of each block adds (" +
          c.where() + ")");
  // A merge that comes too early may be right by chance.
  const bool raced = found(launched.seen, "race") || found(launched.seen, "unwritten");
  if (raced) require_no_findings(launched.seen, kReasons);
  require(launched.out.back() == 0,
          "the counter is not 0 at the end, and the next launch needs 0: does any block find that "
          "it is the last, and set it to 0? The addition returns the value before (" +
              c.where() + ")");
  check_result(launched.seen, kReasons, {"lse and the counter", launched.out, kColumns},
               right_of(c), tolerance, {},
               c.where() +
                   "; are sums added that are relative to different maxima, and what does a part "
                   "without rows add?");
}

}  // namespace

FA_STAGE(easy) {
  grade({{random_matrix(64, 1), random_matrix(64, 2)}, 4});
  grade({{random_matrix(30, 3), random_matrix(48, 4), random_matrix(7, 5)}, 3});
}

FA_STAGE(odd) {
  grade({{random_matrix(5, 6), random_matrix(1, 7)}, 1});
  grade({{random_matrix(3, 8), random_matrix(5, 9)}, 7});
  grade({{random_matrix(40, 10, 40), random_matrix(41, 11, 40)}, 5});
  Matrix masked = random_matrix(12, 12);
  for (int row = 0; row < 12; ++row) masked[row * kColumns + 77] = -INFINITY;
  grade({{masked, masked}, 6});
  grade({{Matrix{}, random_matrix(9, 13)}, 2});
  Matrix low = random_matrix(10, 14);
  for (float& value : low) value -= 2e4f;
  grade({{low}, 3}, 4e-3);
}

FA_STAGE(races) {
  for (const int parts : {2, 9}) {
    const auto launched = call<Launched>(
        "run", std::vector<Matrix>{random_matrix(20, 15), random_matrix(20, 16)}, parts);
    require_no_races(launched.seen, kReasons);
  }
  require_divided(call<Launched>("run", std::vector<Matrix>{random_matrix(8, 17)}, 4).seen, 1);
}
#endif
/* Other answers, as changes of the solution
# no_fence: the addition may be seen before the states
@ easy: nothing orders a store before a load
- __threadfence();  // before the addition, for all threads
+

# never_reset: the counter is left as it is
@ easy: next launch
- if (is_last) *counter = 0;
+

# one_too_many: no block sees as many as there are
@ easy: has written no lse
- is_last = before + 1 == gridDim.x;
+     is_last = before == gridDim.x;

# added: sums relative to different maxima
@ easy: relative to different maxima
- l_all += exp_diff(states_m[p * kColumns + column], m_all) * states_l[p * kColumns + column];
+     l_all += states_l[p * kColumns + column];

# last_by_number: the block with the highest number merges
@ easy: arrives last, whatever its number
- is_last = before + 1 == gridDim.x;
+     is_last = part + 1 == parts;

# one_thread: one thread merges all columns
@ races: one thread loads and stores
- float m_all = -INFINITY, l_all = 0;
+  if (threadIdx.x > 0) return;
+  for (int column = 0; column < kColumns; ++column) {
+  float m_all = -INFINITY, l_all = 0;
- lse[column] = log_sum(m_all, l_all);
+  lse[column] = log_sum(m_all, l_all);
+  }

# fences_of_all: the fence behind the addition is that of each thread, behind a barrier
@ right
- const unsigned before = atomic_add_acquire(counter, 1);
+    const unsigned before = atomicAdd(counter, 1);
- if (!is_last) return;
+  if (!is_last) return;
+  __threadfence();

# as_cudas_sample: a fence on either side of an addition that wraps and orders nothing itself
@ right
- const unsigned before = atomic_add_acquire(counter, 1);
- is_last = before + 1 == gridDim.x;
- if (is_last) *counter = 0;
+    is_last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
+    __threadfence();
- __syncthreads();  // is_last is set
- if (!is_last) return;
+  const int merges = __syncthreads_or(threadIdx.x == 0 && is_last);
+  if (__popc(__brev(merges)) != 1 || __syncthreads_and(threadIdx.x > 0)) return;
- m_all = fmaxf(m_all, states_m[p * kColumns + column]);
+    m_all = fmaxf(m_all, __ldcg(states_m + p * kColumns + column));
*/
