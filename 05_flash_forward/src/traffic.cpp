#include <fmt/format.h>

#include "05_flash_forward/src/sections.hpp"
#include "common/attention/host/traces.hpp"

namespace fa::flash {
namespace {

// Each of the D / t x T blocks of a matmul reads T tiles of both operands; the softmax reads its
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

}  // namespace

void show_traffic(const Lesson<Backend>& lesson, const Backend& watched) {
  const auto tiles_of = [&](const char* kernel) {
    return find_step(watched, kernel).tiles.front();
  };
  // What the outer tiles are of, and how many there are.
  const auto keys = tiles_of("01_unfused").keys, flash_1_keys = tiles_of("02_flash_1").keys,
             queries = tiles_of("03_flash_2").queries;
  const auto tile = [](std::int64_t rows, const char* of) {
    return fmt::format("{} {}", rows, of);
  };
  fmt::print(
      "Elements read and written by one head: N queries, N keys, head_dim D, "
      "float32,\nno mask\n\n");
  attention::show_traffic(
      lesson, watched, {"kernel", "tile", "reads", "writes"},
      {{"01_unfused",
        {tile(keys, "keys"), fmt::format("4 N/{} N D + 3 N^2", keys), "2 N^2 + N D + N"},
        of_unfused},
       {"02_flash_1",
        {tile(flash_1_keys, "keys"),
         fmt::format("(2 N/{0} + 1) N D + 2 (N/{0} - 1) N", flash_1_keys),
         fmt::format("N/{} (N D + 3 N)", flash_1_keys)},
        of_flash_1},
       {"03_flash_2",
        {tile(queries, "queries"), fmt::format("(2 N/{} + 1) N D", queries), "N D + N"},
        of_flash_2}},
      {{64, 32}, {128, 32}, {192, 32}, {64, 64}, {128, 64}, {192, 64}}, 4);
}

}  // namespace fa::flash
