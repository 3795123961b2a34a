#ifdef FA_ENTRIES  // the student's process
#include "05_flash_forward/exercises/attention.hpp"

FA_ENTRY(run, [](const Inputs& in) {
  return run<float>(in, [](const Attention<float>& a) {
    launch(flash_2<32>,
           {{static_cast<unsigned>(ceil_div(a.length_q, kFlash2Queries)),
             static_cast<unsigned>(a.heads)},
            {kFlash2Queries}},
           a);
  });
});
#else  // the grader
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

// Queries of a block, keys of a tile.
constexpr int kFlash2Queries = 64, kFlash2Keys = 32;

// Tile by tile, as the kernel goes.
Rows simulated(const Inputs& in, const OnlineSoftmax& answer) {
  return online(
      in,
      [&](int, int query, int key, double product) {
        return sees(in.sizes, query, key) ? static_cast<double>(in.scale) * product
                                          : kMinusInfinity;
      },
      answer);
}

std::vector<Wrong> wrongs(const Inputs& in) {
  const auto one = [](double, double) { return 1.0; };
  const auto bare = [](double a, double b) { return std::exp(a - b); };
  const auto base_2 = [](double a, double b) { return a == kMinusInfinity ? 0 : std::exp2(a - b); };
  const auto undivided = [](double sum, double) { return sum; };
  std::vector<Wrong> result;
  const auto add = [&](const std::string& says, auto change) {
    OnlineSoftmax answer{kFlash2Keys, kFlash2Queries};
    change(answer);
    result.push_back({says, simulated(in, answer)});
  };
  const Rows right = attention(in);
  result.push_back(
      {"all of it is NaN. Was m never raised to m_new? Or is the rescale factor upside down, "
       "e^(m_new - m)? Both are infinite at the first tile",
       {all(right.o, NAN), all(right.lse, NAN)}});
  result.push_back({"the LSE was never written", {right.o, all(right.lse, NAN)}});
  add("o was not rescaled when the maximum rose", [&](OnlineSoftmax& a) { a.of_o = one; });
  add("l was not rescaled when the maximum rose", [&](OnlineSoftmax& a) { a.of_l = one; });
  add("neither l nor o was rescaled when the maximum rose: was m overwritten before the rescale "
      "factor was computed?",
      [&](OnlineSoftmax& a) { a.of_l = a.of_o = one; });
  add("the rescale factor is a power of 2; scores need powers of e",
      [&](OnlineSoftmax& a) { a.of_l = a.of_o = base_2; });
  add("o was not divided by l at the end", [&](OnlineSoftmax& a) { a.o = undivided; });
  add("a row that sees no key is NaN: 0 / 0",
      [](OnlineSoftmax& a) { a.o = [](double sum, double l) { return sum / l; }; });
  add("a row that sees no key is NaN: its m and m_new are both -infinity, and -infinity - "
      "-infinity is not a number",
      [&](OnlineSoftmax& a) { a.of_l = a.of_o = bare; });
  const double scale = static_cast<double>(in.scale);
  const auto lse = [&](const std::string& says, auto of) {
    add(says, [&](OnlineSoftmax& a) {
      a.lse = [=](double m, double l) { return l == 0 ? kMinusInfinity : of(m, l); };
    });
  };
  lse("m is missing from the LSE: l is a sum of e^(score - m)",
      [](double, double l) { return std::log(l); });
  const std::string in_base_2 = "the LSE is a natural logarithm, and this is one in base 2";
  lse(in_base_2, [](double m, double l) { return m + std::log2(l); });
  lse(in_base_2, [](double m, double l) { return (m + std::log(l)) / std::log(2.0); });
  lse("this is m + l; the LSE is m + ln(l)", [](double m, double l) { return m + l; });
  lse("m was scaled twice: scores are scaled already",
      [=](double m, double l) { return scale * m + std::log(l); });
  return result;
}

void grade(const Sizes& sizes) {
  const Inputs in = random_inputs<float>(sizes, 2);
  check_rows(launched(in), {}, in, attention(in), 2e-5, wrongs(in));
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 1, 64, 32, 32, false});
  grade({1, 1, 64, 5, 32, false});
}

FA_STAGE(odd) {
  grade({1, 1, 70, 133, 32, false});
  grade({2, 1, 67, 99, 32, true});
  grade({1, 1, 90, 40, 32, true});
  check_variations(
      {1, 1, 70, 133, 32, false}, launched, [](const Inputs& in) { return attention(in); }, 2e-5,
      2);
}

FA_STAGE(races) {
  const Ran ran = launched(random_inputs<float>({2, 1, 70, 75, 24, true}));
  require_no_races(ran.seen);
}

FA_STAGE(traffic) {
  const int n = 128, d = 32, tiles = n / kFlash2Queries;
  const Ran ran = launched(random_inputs<float>({1, 1, n, n, d, false}));
  needs_watching(ran.seen);
  const std::int64_t least = 4 * ((2 * tiles + 2) * n * d + n);
  budget("bytes of global memory", ran.seen.bytes, least, "m, l and o stay in registers", least);
}
#endif
