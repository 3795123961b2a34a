#ifdef FA_ENTRIES  // the student's process
#include "common/gpu/tensor_map.cuh"

// A matrix with rows of 64 elements, of which it uses the first `cols`.
static DeviceBuffer<bfloat16> of_16_bits(const std::vector<float>& numbers, int rows, int cols) {
  std::vector<bfloat16> matrix(static_cast<std::size_t>(rows * 64), static_cast<bfloat16>(NAN));
  for (int i = 0; i < rows * cols; ++i) {
    matrix[i / cols * 64 + i % cols] = static_cast<bfloat16>(numbers[i]);
  }
  return on_device(matrix);
}

FA_ENTRY(multiply,
         [](const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
           std::string error;
           const Launched result = watched([&] {
             const auto on_a = of_16_bits(a, m, k), on_b = of_16_bits(b, k, n);
             DeviceBuffer<float> c(std::int64_t{m} * n);
             error = thrown([&] {
               launch(multiply_tile, {{1}, {kWarpgroup}, sizeof(TileStorage)},
                      tensor_map(on_a.data(), {1, 1, m, k}, {0, 0, 64}, 64),
                      tensor_map(on_b.data(), {1, 1, k, n}, {0, 0, 64}, 64), c.data(), m, n);
             });
             return from_device(c);
           });
           return std::pair(result, error);
         });
#else  // the grader
#include "04_tiled_matmul/exercises/grading/matmul.hpp"
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

const std::vector<Reason> kReasons = {
    {"copy",
     "a tile is used before it has arrived: wait at the barrier for phase 0; it must expect the "
     "bytes of both tiles"},
    {"wgmma",
     "the sums are touched while wgmma is in flight: wgmma_commit() and wgmma_wait<0>(d) before "
     "the store"},
    {"operand",
     "wgmma reads what is not there: is the descriptor's address that of the tile, and does it "
     "stay inside of it?"},
    {"unwritten",
     "wgmma reads what no copy has written: how many bytes is it from 16 steps of k to the next "
     "16?"},
    {"proxy",
     "the barrier may not be initialised when the copy begins: fence_barrier_init() follows "
     "init()"},
    {"barrier",
     "a thread may wait at the barrier before it is initialised: __syncthreads() follows"},
    {"out of bounds",
     "C is written beside its m x n elements: guard the store, and a row of C has n elements"},
    {"race", "threads write the same element of C"}};

// A wgmma without a fence is reported first, with its own message.
std::vector<Reason> reasons(const Seen& seen) {
  std::vector<Reason> result = kReasons;
  const auto& findings = seen.report.findings;
  if (std::any_of(findings.begin(), findings.end(), [](const auto& finding) {
        return finding.kind == "wgmma" &&
               finding.message.find("wgmma_fence() is missing") != std::string::npos;
      })) {
    result.insert(result.begin(), {"wgmma",
                                   "wgmma_fence(d) is missing before the first wgmma: nothing "
                                   "orders what the threads did to d, here d = 0, before it"});
  }
  return result;
}

// Small whole numbers, whose sums are exact.
std::vector<float> whole(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(static_cast<float>(fa::random_bits(seed, static_cast<std::uint64_t>(i)) % 9) -
                     4);
  }
  return result;
}

struct Case : Launched {
  std::vector<float> a, b;
};

Launched multiply(const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  return call_waiting(kReasons,
                      "the bytes that are announced must be those that TMA copies, two whole tiles "
                      "of 64 x 64 elements of 2 bytes.",
                      "multiply", a, b, m, n, k);
}

Case run(int m, int n, int k) {
  Case result;
  result.a = whole(m * k, 1);
  result.b = whole(k * n, 2);
  static_cast<Launched&>(result) = multiply(result.a, result.b, m, n, k);
  return result;
}

// C with d[i] of each lane stored to another row and column: to(warp, lane, i).
template <class To>
std::vector<double> stored(const std::vector<double>& right, int m, int n, To to) {
  std::vector<double> result(right.size(), NAN);
  for (int thread = 0; thread < 128; ++thread) {
    const int warp = thread / 32, lane = thread % 32;
    for (int i = 0; i < 32; ++i) {
      const int row = 16 * warp + i / 2 % 2 * 8 + lane / 4;
      const int col = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const auto [to_row, to_col] = to(warp, lane, i);
      if (row < m && col < n && to_row < m && to_col < n) {
        result[to_row * n + to_col] = right[row * n + col];
      }
    }
  }
  return result;
}

// The right C, and the mistakes.
std::pair<std::vector<double>, std::vector<Mistake>> expected(const Case& c, int m, int n, int k) {
  const auto of_a = [&](int row, int l) { return row < m && l < k ? double{c.a[row * k + l]} : 0; };
  const auto of_b = [&](int l, int col) { return l < k && col < n ? double{c.b[l * n + col]} : 0; };
  const auto matmul = [&](auto a, auto b, int depth = 64) {
    std::vector<double> result;
    for (int row = 0; row < m; ++row) {
      for (int col = 0; col < n; ++col) {
        double sum = 0;
        for (int l = 0; l < depth; ++l) sum += a(row, l) * b(l, col);
        result.push_back(sum);
      }
    }
    return result;
  };
  const auto right = matmul(of_a, of_b);
  std::vector<Mistake> result{
      {"C is 0: nothing was multiplied", std::vector<double>(right.size(), 0)},
      {"this is A B^T: B is stored as [k, n], so its descriptor is of Major::kMN",
       matmul(of_a, [&](int l, int col) { return of_b(col, l); })},
      {"only the first 16 steps of k were multiplied", matmul(of_a, of_b, 16)},
      {"the first 16 steps of k were multiplied four times: move both descriptors on",
       matmul([&](int row, int l) { return of_a(row, l % 16); },
              [&](int l, int col) { return of_b(l % 16, col); })},
      {"A's descriptor stays at its first 16 columns: 16 steps of k are 32 bytes further in A",
       matmul([&](int row, int l) { return of_a(row, l % 16); }, of_b)},
      {"B's descriptor stays at its first 16 rows: 16 steps of k are 16 rows of 128 bytes further "
       "in B",
       matmul(of_a, [&](int l, int col) { return of_b(l % 16, col); })},
      {"B moves on by 32 bytes, as A does: its rows are 16 steps of k, and 16 of them are 16 * 128 "
       "bytes",
       matmul(of_a,
              [&](int l, int col) {
                const int at = l % 16 * 64 + col + l / 16 * 16;
                return of_b(at / 64, at % 64);
              })},
      {"A moves on by 16 bytes: 16 steps of k are 16 elements of 2 bytes",
       matmul([&](int row, int l) { return of_a(row, l / 16 * 8 + l % 16); }, of_b)},
      {"the two bits of i are swapped: d[4 j + 2 h + e] is 8 h rows further down and e columns "
       "further right",
       stored(right, m, n,
              [](int warp, int lane, int i) {
                return std::pair(16 * warp + i % 2 * 8 + lane / 4,
                                 i / 4 * 8 + lane % 4 * 2 + i / 2 % 2);
              })},
      {"the last wgmma did not add: only the last 16 steps of k are in C",
       matmul(of_a, [&](int l, int col) { return l < 48 ? 0 : of_b(l, col); })},
      {"the sums are right, but not stored where they belong: d[i] of a thread lies in two rows",
       stored(right, m, n, [](int warp, int lane, int i) {
         return std::pair(16 * warp + lane / 2, 32 * (lane % 2) + i);
       })}};
  if (c.seen.report.findings.empty()) {
    result.push_back({"nothing was written", std::vector<double>(right.size(), NAN)});
  }
  return {right, result};
}

void grade(int m, int n, int k) {
  const Case c = run(m, n, k);
  const auto [right, mistakes] = expected(c, m, n, k);
  if (unexplained(c.seen, {"C", c.out, n}, right, 0, mistakes)) {
    explain_matmul(
        [=](const std::vector<float>& of_a, const std::vector<float>& of_b) {
          return multiply(of_a, of_b, m, n, k).out;
        },
        m, n, k);
  }
  check_result(c.seen, reasons(c.seen), {"C", c.out, n}, right, 0, mistakes,
               fmt::format("m {}, n {}, k {}", m, n, k));
}

}  // namespace

FA_STAGE(easy) {
  grade(64, 64, 64);
}

FA_STAGE(odd) {
  grade(63, 63, 64);
  grade(64, 64, 40);
  grade(37, 51, 64);
  grade(1, 3, 5);
}

FA_STAGE(races) {
  for (const int size : {64, 33}) {
    const Case c = run(size, size, size);
    needs_watching(c.seen);
    require_no_findings(c.seen, reasons(c.seen));
  }
}
#endif
