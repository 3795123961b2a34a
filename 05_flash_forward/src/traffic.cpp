#include <cstdlib>

#include <fmt/format.h>

#include "05_flash_forward/src/sections.hpp"
#include "common/cli/table.hpp"
#include "common/lab/trace.hpp"

namespace fa::flash {
namespace {

// Each of the D / t x T blocks of a product reads T tiles of both factors; the softmax reads its
// row three times.
Traffic of_unfused(const Tiles& tiles, std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / tiles.keys;
  return {4 * t * n * d + 3 * n * n, 2 * n * n + n * d + n};
}

// K and V once; for each tile of keys Q is read, O, m and l are read (not for the first one) and
// written, and LSE.
Traffic of_flash_1(const Tiles& tiles, std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / tiles.keys;
  return {2 * n * d + t * n * d + (t - 1) * n * (d + 2), t * n * (d + 3)};
}

// Q, O and LSE once; K and V for each tile of queries.
Traffic of_flash_2(const Tiles& tiles, std::int64_t n, std::int64_t d) {
  const std::int64_t t = n / tiles.queries;
  return {n * d + 2 * t * n * d, n * d + n};
}

// Counted by the watched lab.
Traffic counted(const Rung& rung, std::int64_t n, std::int64_t d) {
  Problem problem;
  problem.shape = {1, 1, 1, n, n, d};
  const Inputs inputs = make_inputs(problem, Values::kNormal, 1);
  const auto seen = lab::trace(
      {rung.name, "", {}}, [&] { rung.prepare(problem, inputs).launch(); });
  constexpr std::int64_t bytes = sizeof(float);
  return {(seen->global_bytes - seen->written_bytes) / bytes,
          seen->written_bytes / bytes};
}

}  // namespace

std::vector<TrafficFormula> traffic_formulas() {
  return {{"01_unfused", "keys", "4 T N D + 3 N^2", "2 N^2 + N D + N",
           of_unfused},
          {"02_flash_1", "keys", "(2 T + 1) N D + 2 (T - 1) N",
           "T (N D + 3 N)", of_flash_1},
          {"03_flash_2", "queries", "(2 T + 1) N D", "N D + N", of_flash_2}};
}

void show_traffic(cli::Program& program, const Backend& watched) {
  const auto formulas = traffic_formulas();
  fmt::print(
      "Elements read and written by one head: N queries, N keys, head_dim D, "
      "float32,\nno mask\n\n");
  cli::Table rules({"kernel", "T", "reads", "writes"});
  for (const TrafficFormula& formula : formulas) {
    const Tiles& tiles = find_rung(watched, formula.kernel).tiles.front();
    rules.add(
        {formula.kernel,
         fmt::format("N / {} {}",
                     formula.tiles == "keys" ? tiles.keys : tiles.queries,
                     formula.tiles),
         formula.reads, formula.writes});
  }
  fmt::print("{}\n", rules.text());

  cli::Table table({"kernel", "N", "D", "reads", "writes", "sum by formula",
                    "4 N D", "sum / 4 N D"});
  std::int64_t four_holds = 0;
  std::vector<std::int64_t> off;  // of each formula, summed up
  for (const TrafficFormula& formula : formulas) {
    const Rung& rung = find_rung(watched, formula.kernel);
    off.push_back(0);
    for (const std::int64_t d : {32, 64}) {
      for (const std::int64_t n : {64, 128, 256}) {
        const Traffic is = counted(rung, n, d);
        const Traffic should = formula.traffic(rung.tiles.front(), n, d);
        off.back() += std::abs(is.reads - should.reads) +
                      std::abs(is.writes - should.writes);
        const std::int64_t all = is.reads + is.writes, four = 4 * n * d;
        four_holds += all == four ? 1 : 0;
        table.add({rung.name, std::to_string(n), std::to_string(d),
                   std::to_string(is.reads), std::to_string(is.writes),
                   std::to_string(should.reads + should.writes),
                   std::to_string(four),
                   fmt::format("{:.2f}", static_cast<double>(all) /
                                             static_cast<double>(four))});
      }
    }
  }
  fmt::print("{}\n", table.text());
  for (std::size_t i = 0; i < formulas.size(); ++i) {
    program.check_none(fmt::format("{}, formula", formulas[i].kernel), off[i],
                       "unexpected element");
  }
  program.check_none("traffic of exactly 4 N D", four_holds, "row");
}

}  // namespace fa::flash
