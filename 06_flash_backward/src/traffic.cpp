#include <fmt/format.h>

#include "06_flash_backward/src/sections.hpp"
#include "common/attention/host/traces.hpp"

namespace fa::backward {
namespace {

// One head, no mask: n queries, and as many keys; n and d are multiples of 32. For people N, D,
// T = N / 32, and R, padded rows.
constexpr std::int64_t kTile = 32;      // of all these steps
constexpr std::int64_t kPadding = 128;  // of rows in the workspace

// A number for each padded row: delta, and in steps 03 and 04 also inv_row_sum.
std::int64_t padded(std::int64_t n) {
  return (n + kPadding - 1) / kPadding * kPadding;
}
// What recomputed_row_sums() reads: Q once, K for each tile of 64 queries, and LSE by the 16
// threads of a row.
std::int64_t of_row_sums(std::int64_t n, std::int64_t d) {
  return n * d + n / (2 * kTile) * n * d + 16 * n;
}

// Each of five matmuls reads T tiles of both operands for each of its tiles: 2 T N D for a matmul
// with one side D. S and dP are written; the kernel for rows reads S four times and dP twice, and
// writes both.
Traffic of_unfused(const Tiles&, std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / kTile;
  return {10 * t * n * d + 6 * n * n, 4 * n * n + 3 * n * d};
}

// O and dO are read for delta. Of each element of P the kernels read LSE, P for the row sum and
// for dS, the row sum and delta, and write P twice and dS.
Traffic of_preprocess(const Tiles&, std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / kTile;
  return {10 * t * n * d + 5 * n * n + 2 * n * d, 3 * n * n + 3 * n * d + padded(n) + n};
}

// Two kernels keep two tiles each and have the other two come T times; LSE, delta and the row sum
// come for each 2 x 2 scores.
Traffic of_two_kernels(const Tiles&, std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / kTile;
  return {4 * t * n * d + 3 * n * n + 6 * n * d + of_row_sums(n, d), 3 * n * d + 2 * padded(n)};
}

// One of them; and T additions to each element of dQ, which is zeroed before.
Traffic of_atomics(const Tiles&, std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / kTile;
  return {2 * t * n * d + 3 * n * n / 2 + 4 * n * d + of_row_sums(n, d),
          t * n * d + 3 * n * d + 2 * padded(n)};
}

}  // namespace

void show_traffic(const Lesson<Backend>& lesson, const Backend& watched) {
  fmt::print(
      "Elements read and written by one head: N queries, N keys, head_dim D, "
      "float32,\nno mask; T = N / {}, and R is N rounded up to a multiple of {}\n\n",
      kTile, kPadding);
  attention::show_traffic(
      lesson, watched, {"kernel", "reads", "writes and additions"},
      {{"01_unfused", {"10 T N D + 6 N^2", "4 N^2 + 3 N D"}, of_unfused},
       {"02_preprocess", {"10 T N D + 5 N^2 + 2 N D", "3 N^2 + 3 N D + R + N"}, of_preprocess},
       {"03_two_kernels", {"9/2 T N D + 3 N^2 + 7 N D + 16 N", "3 N D + 2 R"}, of_two_kernels},
       {"04_atomics", {"5/2 T N D + 3/2 N^2 + 5 N D + 16 N", "T N D + 3 N D + 2 R"}, of_atomics}},
      {{64, 32}, {64, 64}, {128, 32}}, 8);
}

}  // namespace fa::backward
