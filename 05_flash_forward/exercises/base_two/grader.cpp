#ifdef FA_ENTRIES  // the student's process
#include "05_flash_forward/exercises/attention.hpp"
#include "student/base_two.cuh"
// After the student's kernel.
#include "05_flash_forward/exercises/edge_masks_entry.hpp"
#else  // the grader
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

constexpr double kOneByLn2 = 1.4426950408889634;

// What an answer does with products.
struct Answer {
  double c;           // the exponent's factor
  double of_m;        // the factor of m at the end
  bool of_o = true;   // whether o is rescaled
  bool of_l = true;   // whether l is
  bool same = false;  // whether all probabilities are 1
};

// Tile by tile from the last one, as the kernel goes.
Rows simulated(const Inputs& in, const Answer& answer) {
  const auto power = [c = answer.c](double a, double b) {
    return a == kMinusInfinity ? 0 : std::exp2((a - b) * c);
  };
  const auto one = [](double, double) { return 1.0; };
  OnlineSoftmax by{tile_keys, tile_rows, true, power, power, power};
  if (!answer.of_l) by.of_l = one;
  if (!answer.of_o) by.of_o = one;
  if (answer.same) by.p = one;
  by.lse = [of_m = answer.of_m](double m, double l) {
    return l == 0 ? kMinusInfinity : of_m * m + std::log(l);
  };
  return online(
      in,
      [&](int, int query, int key, double product) {
        return sees(in.sizes, query, key) ? product : kMinusInfinity;
      },
      by);
}

std::vector<Wrong> wrongs(const Inputs& in) {
  const auto scale = static_cast<double>(in.scale);
  const double c = scale * kOneByLn2;
  const Rows right = attention(in);
  std::vector<Wrong> result;
  const auto add = [&](const std::string& says, const Answer& answer) {
    result.push_back({says, simulated(in, answer)});
  };
  result.push_back(
      {"all of it is NaN. Is the rescale factor inverted, 2^(c m - c m_before)? It is infinite at "
       "the first tile",
       {all(right.o, NAN), all(right.lse, NAN)}});
  for (const double of_m : {1.0, scale, c}) {
    add("all probabilities are the same: products must become powers of 2",
        {c, of_m, false, false, true});
    add("neither l nor o was rescaled when the maximum rose: was state.m overwritten before the "
        "rescale factor was computed?",
        {c, of_m, false, false});
    add("l was not rescaled when the maximum rose", {c, of_m, true, false});
    add("o was not rescaled when the maximum rose: it is multiplied by rescale[h]",
        {c, of_m, false, true});
    add("this is 2^(scale (x - m)): a natural exponent taken for one of base 2; the factor is "
        "scale / ln 2",
        {scale, of_m});
    add("the factor of the exponent is multiplied by ln 2, not divided by it",
        {scale / kOneByLn2, of_m});
    if (std::abs(scale - 1 / std::sqrt(32)) > 1e-6) {
      add("the scale is a.scale; here it is not 1 / sqrt(head_dim)",
          {kOneByLn2 / std::sqrt(32), of_m});
    }
    add("the exponent is not scaled", {kOneByLn2, of_m});
    add("the exponent is scaled twice", {scale * c, of_m});
  }
  add("m of the LSE is not scaled: here m is the largest product, not the largest score", {c, 1});
  add("m of the LSE is scaled for powers of 2; the LSE is a natural logarithm", {c, c});
  add("m of the LSE was scaled twice", {c, scale * scale});
  if (tile_rows == 64) {
    // Each second 16 rows of a warp.
    Rows first_only = right, not_scaled = simulated(in, {c, 1});
    for (std::size_t i = 0; i < right.lse.size(); ++i) {
      if (i % 32 >= 16) first_only.lse[i] = not_scaled.lse[i];
    }
    result.push_back(
        {"m of the LSE is not scaled in the second 16 rows of a warp: state.m[i] has "
         "Tile::row_tiles times two rows",
         first_only});
  }
  // Rows whose first tile is fully masked stay NaN.
  Rows unguarded = right;
  const Sizes& s = in.sizes;
  for (int query = 0; query < s.length_q; ++query) {
    const int last = query / tile_rows * tile_rows + tile_rows - 1;
    int last_tile = -1;
    for (int key = 0; key < s.length_k; key += tile_keys) {
      if (sees(s, last, key)) last_tile = key;
    }
    if (last_tile < 0 || sees(s, query, last_tile)) continue;
    unguarded.lse[query] = NAN;
    std::fill_n(unguarded.o.begin() + query * s.head_dim, s.head_dim, NAN);
  }
  result.push_back(
      {"a row whose tile is masked is NaN: m is -infinity, and -infinity - -infinity is not a "
       "number",
       unguarded});
  return result;
}

void grade(const Sizes& sizes, float spread = 1, float scale = 0, bool large = false) {
  const Inputs in = random_inputs<fa::half>(sizes, spread, scale);
  const Ran ran = run_tiled(in, large);
  const Rows right = attention(in);
  // Weights and O are rounded to float16; the largest is 65504.
  if (spread > 8 && !agree(ran.rows.o, right.o, 3e-3)) {
    for (const double x : ran.rows.o) {
      if (!std::isnan(x)) continue;
      refuse("the largest product is not subtracted: 2^(c x) is infinite in float16 (case: " +
             words(sizes) + ", large scores)");
    }
  }
  check_rows(ran, {}, in, right, 3e-3, wrongs(in));
}

// A case of before, with scores far from 0.
void grade_levels(const Sizes& sizes) {
  for (const float level : {-2e4f, 2e4f}) {
    const Inputs in = inputs_around<fa::half>(level, sizes);
    check_level(run_tiled(in), in, attention(in), level);
  }
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 1, 32, 48, 32, false});
}

FA_STAGE(odd) {
  grade({1, 1, 37, 71, 32, false});
  grade({1, 1, 45, 60, 32, true});
  grade({1, 1, 50, 33, 32, true});
  grade({1, 1, 20, 40, 32, false}, 16);
  grade({1, 1, 20, 40, 32, false}, 1, 0.3f);
  grade_levels({1, 1, 37, 71, 32, false});
  // Each warp has 32 queries here, so i is 0 and 1.
  grade({1, 1, 70, 101, 32, true}, 1, 0, true);
}

FA_STAGE(races) {
  const Ran ran = run_tiled(random_inputs<fa::half>({1, 1, 50, 33, 32, true}));
  require_no_races(ran.seen);
}

FA_STAGE(traffic) {
  const int n = 64, row = 2 * 32;
  const Ran ran = run_tiled(random_inputs<fa::half>({1, 1, n, n, 32, false}));
  needs_watching(ran.seen);
  const std::int64_t least = n / tile_rows * n * 2 * row + n * 2 * row + 4 * n;
  budget("bytes of global memory", ran.seen.bytes, least, "all that a step needs is in registers",
         least);
}
#endif
