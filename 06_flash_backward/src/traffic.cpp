#include "06_flash_backward/src/traffic.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/src/ladder.hpp"

namespace fa::backward {
namespace {

namespace ladder = flash::ladder;
using ladder::Traffic;

// The traffic of a rung, as its loops over tiles have it.
struct TrafficFormula {
  std::string kernel;  // the rung
  std::string reads;   // with N, D, T = N / 32 and R, padded rows, for people
  std::string writes;  // likewise
  // One head, no mask: n queries, and as many keys; n and d are multiples of
  // 32.
  Traffic (*traffic)(std::int64_t n, std::int64_t d);
};

constexpr std::int64_t kTile = 32;      // of all these rungs
constexpr std::int64_t kPadding = 128;  // of rows in the workspace

// A number for each padded row: delta, and in rungs 03 and 04 also inv_row_sum.
std::int64_t padded(std::int64_t n) {
  return (n + kPadding - 1) / kPadding * kPadding;
}
// What recomputed_row_sums() reads: Q once, K for each tile of 64 queries, and LSE by the 16
// threads of a row.
std::int64_t of_row_sums(std::int64_t n, std::int64_t d) {
  return n * d + n / (2 * kTile) * n * d + 16 * n;
}

// Each of five products reads T tiles of both factors for each of its tiles: 2 T N D for a product
// with one side D. S and dP are written; the kernel for rows reads S four times and dP twice, and
// writes both.
Traffic of_unfused(std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / kTile;
  return {10 * t * n * d + 6 * n * n, 4 * n * n + 3 * n * d};
}

// O and dO are read for delta. Of each element of P the kernels read LSE, P for the row sum and
// for dS, the row sum and delta, and write P twice and dS.
Traffic of_preprocess(std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / kTile;
  return {10 * t * n * d + 5 * n * n + 2 * n * d,
          3 * n * n + 3 * n * d + padded(n) + n};
}

// Two kernels keep two tiles each and have the other two come T times; LSE, delta and the row sum
// come for each 2 x 2 scores.
Traffic of_two_kernels(std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / kTile;
  return {4 * t * n * d + 3 * n * n + 6 * n * d + of_row_sums(n, d),
          3 * n * d + 2 * padded(n)};
}

// One of them; and T additions to each element of dQ, which is zeroed before.
Traffic of_atomics(std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / kTile;
  return {2 * t * n * d + 3 * n * n / 2 + 4 * n * d + of_row_sums(n, d),
          t * n * d + 3 * n * d + 2 * padded(n)};
}

std::vector<TrafficFormula> traffic_formulas() {
  return {{"01_unfused", "10 T N D + 6 N^2", "4 N^2 + 3 N D", of_unfused},
          {"02_preprocess", "10 T N D + 5 N^2 + 2 N D",
           "3 N^2 + 3 N D + R + N", of_preprocess},
          {"03_two_kernels", "9/2 T N D + 3 N^2 + 7 N D + 16 N",
           "3 N D + 2 R", of_two_kernels},
          {"04_atomics", "5/2 T N D + 3/2 N^2 + 5 N D + 16 N",
           "T N D + 3 N D + 2 R", of_atomics}};
}

}  // namespace

void show_traffic(cli::Program& program, const Backend& watched) {
  fmt::print(
      "Elements read and written by one head: N queries, N keys, head_dim D, "
      "float32,\nno mask; T = N / {}, and R is N rounded up to a multiple of "
      "{}\n\n",
      kTile, kPadding);
  cli::Table rules({"kernel", "reads", "writes and additions"});
  cli::Table table({"kernel", "N", "D", "reads", "writes", "sum by formula",
                    "8 N D", "sum / 8 N D"});
  const auto inputs_of = [](const Problem& problem) {
    return backward::make_inputs(problem, Values::kNormal, 1);
  };
  std::vector<std::int64_t> off;  // of each formula, summed up
  for (const TrafficFormula& formula : traffic_formulas()) {
    rules.add({formula.kernel, formula.reads, formula.writes});
    off.push_back(0);
    const Rung& rung = flash::find_rung(watched, formula.kernel);
    for (const auto& [n, d] : {std::pair{64, 32}, {64, 64}, {128, 32}}) {
      const Traffic counted = ladder::count_traffic(rung, n, d, inputs_of);
      off.back() +=
          ladder::add_traffic(table, rung.name, n, d, counted,
                              formula.traffic(n, d), std::int64_t{8} * n * d);
    }
  }
  fmt::print("{}\n{}\n", rules.text(), table.text());
  for (std::size_t i = 0; i < off.size(); ++i) {
    program.check_none(
        fmt::format("{}, formula", traffic_formulas()[i].kernel), off[i],
        "unexpected element");
  }
}

}  // namespace fa::backward
