#ifdef FA_ENTRIES  // the student's process
#include "05_flash_forward/exercises/attention.hpp"
#include "common/classroom/prelude_lab.hpp"
#include "student/rescale.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

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

// What an answer does when the maximum rises, and at the end.
struct Answer {
  std::function<double(double m, double m_new)> of_l, of_o;
  std::function<double(double sum, double l)> o;
  std::function<double(double m, double l)> lse;
};

double power_of(double a, double b) {
  return a == kMinusInfinity ? 0 : std::exp(a - b);
}

const Answer kRight = {
    power_of, power_of, [](double sum, double l) { return l == 0 ? 0 : sum / l; },
    [](double m, double l) { return l == 0 ? kMinusInfinity : m + std::log(l); }};

// Tile by tile, as the kernel goes.
Rows simulated(const Inputs& in, const Answer& answer) {
  const Sizes& s = in.sizes;
  Rows result;
  for (int head = 0; head < s.heads; ++head) {
    const int kv_head = head / (s.heads / s.kv_heads);
    for (int query = 0; query < s.length_q; ++query) {
      const int last = query / kFlash2Queries * kFlash2Queries + kFlash2Queries - 1;
      double m = kMinusInfinity, l = 0;
      std::vector<double> o(static_cast<std::size_t>(s.head_dim), 0.0);
      for (int key0 = 0; key0 < s.length_k; key0 += kFlash2Keys) {
        if (!sees(s, last, key0)) break;  // the block is done
        double m_new = m;
        std::vector<double> x;
        for (int key = key0; key < key0 + kFlash2Keys; ++key) {
          x.push_back(sees(s, query, key) ? static_cast<double>(in.scale) *
                                                product_of(in, head, kv_head, query, key)
                                          : kMinusInfinity);
          m_new = std::max(m_new, x.back());
        }
        l *= answer.of_l(m, m_new);
        for (double& sum : o) sum *= answer.of_o(m, m_new);
        m = m_new;
        for (int j = 0; j < kFlash2Keys; ++j) {
          const double p = power_of(x[j], m);
          l += p;
          if (p == 0) continue;
          const float* v = in.v.data() + (kv_head * s.length_k + key0 + j) * s.head_dim;
          for (int e = 0; e < s.head_dim; ++e) {
            o[e] += p * static_cast<double>(v[e]);
          }
        }
      }
      for (const double sum : o) result.o.push_back(answer.o(sum, l));
      result.lse.push_back(answer.lse(m, l));
    }
  }
  return result;
}

std::vector<Wrong> wrongs(const Inputs& in) {
  const auto one = [](double, double) { return 1.0; };
  const auto bare = [](double a, double b) { return std::exp(a - b); };
  const auto base_2 = [](double a, double b) { return a == kMinusInfinity ? 0 : std::exp2(a - b); };
  const auto undivided = [](double sum, double) { return sum; };
  std::vector<Wrong> result;
  const auto add = [&](const std::string& says, auto change) {
    Answer answer = kRight;
    change(answer);
    result.push_back({says, simulated(in, answer)});
  };
  const Rows right = attention(in);
  result.push_back(
      {"all of it is NaN. Was m never raised to m_new? Or is the rescale factor upside down, "
       "e^(m_new - m)? Both are infinite at the first tile",
       {all(right.o, NAN), all(right.lse, NAN)}});
  result.push_back({"the LSE was never written", {right.o, all(right.lse, NAN)}});
  add("o was not rescaled when the maximum rose", [&](Answer& a) { a.of_o = one; });
  add("l was not rescaled when the maximum rose", [&](Answer& a) { a.of_l = one; });
  add("neither l nor o was rescaled when the maximum rose: was m overwritten before the rescale "
      "factor was computed?",
      [&](Answer& a) { a.of_l = a.of_o = one; });
  add("the rescale factor is a power of 2; scores need powers of e",
      [&](Answer& a) { a.of_l = a.of_o = base_2; });
  add("o was not divided by l at the end", [&](Answer& a) { a.o = undivided; });
  add("a row that sees no key is NaN: 0 / 0",
      [](Answer& a) { a.o = [](double sum, double l) { return sum / l; }; });
  add("a row that sees no key is NaN: its m and m_new are both -infinity, and -infinity - "
      "-infinity is not a number",
      [&](Answer& a) { a.of_l = a.of_o = bare; });
  const double scale = static_cast<double>(in.scale);
  const auto lse = [&](const std::string& says, auto of) {
    add(says, [&](Answer& a) {
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

// Cases of before, in which only one thing changes.
void grade_variations(const Sizes& sizes) {
  Inputs apart = random_inputs<float>(sizes, 2);
  apart.gap = 4;
  check_strides(launched(apart), apart, attention(apart), 2e-5);
  for (const float level : {-2e4f, 2e4f}) {
    const Inputs in = inputs_around<float>(level, sizes);
    check_level(launched(in), in, attention(in), level);
  }
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
  grade_variations({1, 1, 70, 133, 32, false});
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
