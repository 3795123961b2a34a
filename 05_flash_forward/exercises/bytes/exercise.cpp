#include "05_flash_forward/exercises/attention.hpp"
#include "05_flash_forward/exercises/grading/attention.hpp"
#include "05_flash_forward/kernels/01_unfused.cuh"
#include "05_flash_forward/kernels/02_flash_1.cuh"
#include "05_flash_forward/kernels/03_flash_2.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

namespace {

constexpr int kLength = FA_LENGTH, kHeadDim = 32;

unsigned blocks(int length, int tile) {
  return static_cast<unsigned>(ceil_div(length, tile));
}

template <class Go>
Seen counted(const Sizes& sizes, Go go) {
  const Seen seen = run<float>(random_inputs<float>(sizes), go).seen;
  needs_watching(seen);
  return seen;
}

Seen of_unfused() {
  return counted({1, 1, kLength, kLength, kHeadDim, false}, [](const Attention<float>& a) {
    const unsigned tiles = blocks(kLength, kUnfusedTile), tiles_d = blocks(kHeadDim, kUnfusedTile);
    const fa::Size block{kUnfusedTile, kUnfusedTile};
    DeviceBuffer<float> scores(kLength * kLength);
    launch(unfused_scores, {{tiles, tiles}, block}, a, scores.data());
    launch(unfused_probs, {{kLength / 4}, {32, 4}}, a, scores.data());
    launch(unfused_output, {{tiles_d, tiles}, block}, a, scores.data());
  });
}

Seen of_flash_1() {
  return counted({1, 1, kLength, kLength, kHeadDim, false}, [](const Attention<float>& a) {
    DeviceBuffer<float> running(2 * kLength);
    launch(flash_1<kHeadDim>, {{1}, {kFlash1Queries}}, a, running.data());
  });
}

Seen of_flash_2(const Sizes& sizes) {
  return counted(sizes, [](const Attention<float>& a) {
    launch(flash_2<kHeadDim>, {{blocks(a.length_q, kFlash2Queries)}, {kFlash2Queries}}, a);
  });
}

// Tiles of K and V that flash_2 loads, in rows: what it reads without Q.
std::int64_t rows_loaded(int queries, int keys, bool causal) {
  const Seen seen = of_flash_2({1, 1, queries, keys, kHeadDim, causal});
  const std::int64_t row = 4 * kHeadDim;
  return (seen.bytes - queries * (2 * row + 4)) / (2 * row);
}

// Tiles that the queries' blocks load when a rule says up to where.
template <class Rule>
double tiles_by(int queries, Rule rule) {
  double tiles = 0;
  for (int query0 = 0; query0 < queries; query0 += kFlash2Queries) {
    tiles += rule(query0);
  }
  return tiles;
}

// The first length whose scores have an offset beyond a limit.
double first_beyond(std::int64_t heads, std::int64_t bytes, std::int64_t limit) {
  std::int64_t n = 1;
  while (bytes * (heads * n * n - 1) <= limit) ++n;
  return static_cast<double>(n);
}

}  // namespace

FA_QUESTIONS {
  const auto number = [](std::int64_t x) { return static_cast<double>(x); };
  const Seen unfused = of_unfused(), flash_1 = of_flash_1(),
             flash_2 = of_flash_2({1, 1, kLength, kLength, kHeadDim, false});
  const double n = kLength, d = kHeadDim, tiles = n / 32, score_bytes = 4 * n * n;
  const double of_1 = number(flash_1.bytes), of_2 = number(flash_2.bytes),
               of_3 = number(unfused.bytes);

  constexpr int queries = FA_QUERIES, keys = FA_KEYS;
  // Without the mask all blocks load all rows, ragged at the end as with it.
  const double every =
      blocks(queries, kFlash2Queries) * static_cast<double>(blocks(keys, kFlash2Keys));
  const auto tiles_up_to = [&](int seen) {
    return static_cast<double>(blocks(std::min(std::max(seen, 0), keys), kFlash2Keys));
  };
  const auto right = [&](int query0) {
    return tiles_up_to(query0 + kFlash2Queries + keys - queries);
  };
  // The rule is the kernel's, or else the question would be wrong.
  std::int64_t rows = 0;
  for (int query0 = 0; query0 < queries; query0 += kFlash2Queries) {
    rows += std::min<std::int64_t>(keys, kFlash2Keys * static_cast<std::int64_t>(right(query0)));
  }
  require(
      rows == rows_loaded(queries, keys, true) &&
          rows_loaded(queries, keys, false) == std::int64_t{keys} * blocks(queries, kFlash2Queries),
      "the kernel loads other tiles than the grader thinks");
  const double visited = tiles_by(queries, right);
  const double top_left =
      tiles_by(queries, [&](int query0) { return tiles_up_to(query0 + kFlash2Queries); });

  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  const std::string elements = "these are elements; each has 4 bytes";
  return {
      exactly("unfused_bytes", of_3,
              {{of_3 / 4, elements},
               {of_3 - 2 * score_bytes,
                "the softmax reads its row three times: maximum, sum, probabilities"},
               {4 * (4 * n * d + n) + 6 * score_bytes,
                fmt::format("each tile of a matmul is read again for each row or column of tiles: "
                            "Q, K and V {} times",
                            tiles)}}),
      exactly(
          "flash_1_bytes", of_1,
          {{of_1 / 4, elements},
           {of_1 + 4 * n * (d + 2),
            "for the first tile of keys O, m and l are not read: there is nothing yet"},
           {of_1 - 4 * (tiles - 1) * n, "the LSE is written with each tile of keys, not once"}}),
      exactly("flash_2_bytes", of_2,
              {{of_2 / 4, elements},
               {4 * (4 * n * d + n),
                fmt::format("each block of 64 queries reads all of K and V: {} times in all",
                            kLength / kFlash2Queries)},
               {of_2 - 4 * n, "the LSE is missing"}}),
      exactly(
          "flash_2_sectors", number(flash_2.sectors),
          {{of_2 / 32,
            "this would be so if neighbouring lanes read neighbours everywhere. But each reads its "
            "own row of Q, 16 bytes of a sector at a time, and writes O the same way"},
           {number(flash_2.sectors) - 4 * n * d / 32,
            "O is written as Q is read: half a sector at a time"}}),
      exactly(
          "skipped_tiles", every - visited,
          {{visited, "these are loaded; how many are not?"},
           {every - top_left, fmt::format("the mask is aligned bottom right: query 0 sees {} keys",
                                          keys - queries + 1)}}),
      exactly(
          "first_overflow", first_beyond(FA_HEADS, 1, largest),
          {{first_beyond(FA_HEADS, 1, 2 * largest + 1), "an int has a sign: it ends at 2^31 - 1"},
           {first_beyond(1, 1, largest),
            fmt::format("this is for one head; all {} lie in one tensor", FA_HEADS)},
           {first_beyond(FA_HEADS, 4, largest), "these are bytes; an offset counts elements"}})};
}
