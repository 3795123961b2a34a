#include <fmt/format.h>

#include "05_flash_forward/src/ladder.hpp"
#include "05_flash_forward/src/sections.hpp"

namespace fa::flash {
namespace {

using ladder::Traffic;

// The traffic of a rung, as its loops over tiles have it.
struct TrafficFormula {
  std::string kernel;  // the rung
  std::string tiles;   // "keys" or "queries": what the outer tiles are of
  std::string reads;   // with {0} tiles, N and D, for people
  std::string writes;  // the same
  // One head, no mask, lengths that are whole tiles: n queries, and as many
  // keys. d is a multiple of the rung's tiles where it has tiles of columns.
  Traffic (*traffic)(const Tiles& tiles, std::int64_t n, std::int64_t d);
};

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

std::vector<TrafficFormula> traffic_formulas() {
  return {
      {"01_unfused", "keys", "4 {0} N D + 3 N^2", "2 N^2 + N D + N",
       of_unfused},
      {"02_flash_1", "keys", "(2 {0} + 1) N D + 2 ({0} - 1) N",
       "{0} (N D + 3 N)", of_flash_1},
      {"03_flash_2", "queries", "(2 {0} + 1) N D", "N D + N", of_flash_2}};
}

}  // namespace

void show_traffic(cli::Program& program, const Backend& watched) {
  const auto formulas = traffic_formulas();
  fmt::print(
      "Elements read and written by one head: N queries, N keys, head_dim D, "
      "float32,\nno mask\n\n");
  cli::Table rules({"kernel", "tile", "reads", "writes"});
  for (const TrafficFormula& formula : formulas) {
    const Tiles& tiles = find_rung(watched, formula.kernel).tiles.front();
    const auto rows = formula.tiles == "keys" ? tiles.keys : tiles.queries;
    const std::string count = fmt::format("N/{}", rows);
    rules.add({formula.kernel, fmt::format("{} {}", rows, formula.tiles),
               fmt::format(fmt::runtime(formula.reads), count),
               fmt::format(fmt::runtime(formula.writes), count)});
  }
  fmt::print("{}\n", rules.text());

  cli::Table table({"kernel", "N", "D", "reads", "writes", "sum by formula",
                    "4 N D", "sum / 4 N D"});
  const auto inputs_of = [](const Problem& problem) {
    return make_inputs(problem, Values::kNormal, 1);
  };
  std::vector<std::int64_t> off;  // of each formula, summed up
  for (const TrafficFormula& formula : formulas) {
    const Rung& rung = find_rung(watched, formula.kernel);
    off.push_back(0);
    for (const std::int64_t d : {32, 64}) {
      for (const std::int64_t n : {64, 128, 192}) {
        const Traffic counted = ladder::count_traffic(rung, n, d, inputs_of);
        const std::int64_t least = 4 * n * d;
        off.back() += ladder::add_traffic(
            table, rung.name, n, d, counted,
            formula.traffic(rung.tiles.front(), n, d), least);
      }
    }
  }
  fmt::print("{}\n", table.text());
  for (std::size_t i = 0; i < formulas.size(); ++i) {
    program.check_none(fmt::format("{}, formula", formulas[i].kernel), off[i],
                       "unexpected element");
  }
}

}  // namespace fa::flash
