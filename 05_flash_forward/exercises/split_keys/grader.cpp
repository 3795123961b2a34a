#ifdef FA_ENTRIES  // the student's process
#include "05_flash_forward/exercises/attention.hpp"

FA_ENTRY(run, [](const Inputs& in) {
  return run<float>(in, [](const Attention<float>& a) {
    launch(decode, {{static_cast<unsigned>(a.heads)}, {kWarp, kDecodeWarps}}, a);
  });
});
#else  // the grader
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

constexpr int kHeadDim = 64, kDecodeWarps = 4;

// Which warp has a key, when keys are dealt round robin or in contiguous ranges.
int owner(const Sizes& s, bool pieces, int key) {
  return pieces ? key / ceil_div(s.length_k, kDecodeWarps) : key % kDecodeWarps;
}

// One head's part of the keys, as a warp has it.
struct Part {
  double m = kMinusInfinity, l = 0;
  std::vector<double> o = std::vector<double>(kHeadDim, 0.0);
};

std::vector<Part> parts(const Inputs& in, int head, bool pieces) {
  const Sizes& s = in.sizes;
  const int kv_head = head / (s.heads / s.kv_heads);
  std::vector<Part> result(kDecodeWarps);
  for (int pass = 0; pass < 2; ++pass) {
    for (int key = 0; key < s.length_k; ++key) {
      Part& part = result[owner(s, pieces, key)];
      const double score = static_cast<double>(in.scale) * product_of(in, head, kv_head, 0, key);
      if (pass == 0) {
        part.m = std::max(part.m, score);
        continue;
      }
      const double p = std::exp(score - part.m);
      part.l += p;
      for (int e = 0; e < kHeadDim; ++e) {
        part.o[e] += p * static_cast<double>(in.v[(kv_head * s.length_k + key) * kHeadDim + e]);
      }
    }
  }
  return result;
}

// Parts that are merged with some weights.
Rows merged(const Inputs& in, bool pieces, const std::function<double(const Part&, double m)>& of_l,
            const std::function<double(const Part&, double m)>& of_o) {
  Rows rows;
  for (int head = 0; head < in.sizes.heads; ++head) {
    const std::vector<Part> all_parts = parts(in, head, pieces);
    double m = kMinusInfinity, l = 0;
    std::vector<double> o(kHeadDim, 0.0);
    for (const Part& part : all_parts) m = std::max(m, part.m);
    for (const Part& part : all_parts) {
      l += of_l(part, m) * part.l;
      for (int e = 0; e < kHeadDim; ++e) o[e] += of_o(part, m) * part.o[e];
    }
    for (const double x : o) rows.o.push_back(l == 0 ? 0 : x / l);
    rows.lse.push_back(l == 0 ? kMinusInfinity : m + std::log(l));
  }
  return rows;
}

double weight(const Part& part, double m) {
  return part.m == kMinusInfinity ? 0 : std::exp(part.m - m);
}

std::vector<Wrong> wrongs(const Inputs& in) {
  const Sizes& s = in.sizes;
  const auto scale = static_cast<double>(in.scale);
  const Rows right = attention(in);
  const auto some = [&](auto which) {
    return attention(in, [&](int, int, int key, double product) {
      return key < s.length_k && which(key) ? scale * product : kMinusInfinity;
    });
  };
  const auto scaled = [&](double by) {
    return attention(in, [&](int, int, int key, double product) {
      return key < s.length_k ? by * product : kMinusInfinity;
    });
  };
  const auto one = [](const Part&, double) { return 1.0; };
  std::vector<Wrong> result{
      {s.length_k > 0 ? "nothing was written" : "without any key it is NaN: -infinity - -infinity",
       {all(right.o, NAN), all(right.lse, NAN)}},
      {"the LSE was never written", {right.o, all(right.lse, NAN)}}};
  for (const bool pieces : {false, true}) {
    for (int w = 0; w < kDecodeWarps; ++w) {
      result.push_back(
          {fmt::format("only the keys of warp {} are in the result: the warps were not merged", w),
           some([=](int key) { return owner(s, pieces, key) == w; })});
    }
    result.push_back(
        {"sums that are relative to different maxima were added: each warp's l and o need the "
         "weight e^(m - m_all)",
         merged(in, pieces, one, one)});
    result.push_back(
        {"the warps' o was not rescaled to the common maximum", merged(in, pieces, weight, one)});
    result.push_back(
        {"the warps' l was not rescaled to the common maximum", merged(in, pieces, one, weight)});
  }
  result.insert(
      result.end(),
      {{"the last keys are left out: the number of keys is not a multiple of the number of warps",
        some([&](int key) { return key < s.length_k / kDecodeWarps * kDecodeWarps; })},
       {"the scale is a.scale; here it is not 1 / sqrt(head_dim)", scaled(1 / std::sqrt(kHeadDim))},
       {"the scores are not scaled", scaled(1)},
       {"the scores are scaled twice", scaled(scale * scale)},
       {"head h uses keys and values of h % kv_heads; the heads of a group are neighbours: h / "
        "(heads / kv_heads)",
        attention(
            in,
            [&](int, int, int key, double product) {
              return key < s.length_k ? scale * product : kMinusInfinity;
            },
            [&](int head) { return head % s.kv_heads; })}});
  // What it is when nothing is subtracted: infinite, and infinity / infinity.
  Rows overflow = right;
  for (std::size_t i = 0; i < right.lse.size(); ++i) {
    if (right.lse[i] < 88) continue;
    overflow.lse[i] = std::numeric_limits<double>::infinity();
    std::fill_n(overflow.o.begin() + static_cast<std::ptrdiff_t>(i) * kHeadDim, kHeadDim, NAN);
  }
  result.push_back({"no maximum is subtracted: e^score is infinite for a large score", overflow});
  result.push_back({"without any key O is NaN: 0 / 0", {all(right.o, NAN), right.lse}});
  Rows base_2 = right;
  for (double& lse : base_2.lse) lse /= std::log(2.0);
  result.push_back({"the LSE is in base 2; it is a natural logarithm", base_2});
  return result;
}

const std::vector<Reason> kReasons = {
    {"barrier", "some threads never come to the barrier"},
    {"out of bounds", "it reads or writes beside the tensors"},
    {"unwritten",
     "what another warp puts into shared memory is read before it is there: __syncwarp() waits for "
     "the own warp only"},
    own_elements(),
    {"race",
     "two threads use the same memory, and nothing orders them. Is a barrier missing? Or do "
     "several write the same number, where one lane should?"}};

void grade(const Sizes& sizes, float spread = 1, float scale = 0) {
  const Inputs in = random_inputs<float>(sizes, spread, scale);
  const Ran ran = launched(in);
  // Memory that no thread wrote may be 0 by chance, and look like another mistake.
  if (found(ran.seen, "unwritten")) require_no_findings(ran.seen, kReasons);
  check_rows(ran, kReasons, in, attention(in), 2e-5 * spread, wrongs(in));
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 1, 1, 64, kHeadDim, false});
  grade({2, 2, 1, 8, kHeadDim, false}, 3);
}

FA_STAGE(odd) {
  grade({1, 1, 1, 71, kHeadDim, false});
  grade({1, 1, 1, 3, kHeadDim, false});
  grade({6, 2, 1, 33, kHeadDim, false});
  grade({2, 1, 1, 0, kHeadDim, false});
  grade({4, 1, 1, 30, kHeadDim, false}, 60);
  grade({1, 1, 1, 40, kHeadDim, false}, 1, 0.3f);
  grade({8, 1, 1, 5, kHeadDim, false},
        400);  // each warp has the largest score of some head
  check_variations(
      {6, 2, 1, 33, kHeadDim, false}, launched, [](const Inputs& in) { return attention(in); },
      2e-5);
}

FA_STAGE(races) {
  for (const int keys : {64, 2}) {
    const Ran ran = launched(random_inputs<float>({4, 2, 1, keys, kHeadDim, false}));
    require_no_races(ran.seen, kReasons);
  }
}

FA_STAGE(traffic) {
  const int heads = 2, keys = 128;
  const Ran ran = launched(random_inputs<float>({heads, 2, 1, keys, kHeadDim, false}));
  needs_watching(ran.seen);
  const std::int64_t row = 4 * kHeadDim,
                     most = heads * (2 * keys + 2 * kDecodeWarps) * row / 32 + heads * kDecodeWarps;
  note("sectors of global memory", ran.seen.sectors);
  note("wavefronts of shared memory", ran.seen.wavefronts);
  require(ran.seen.atomics == 0,
          fmt::format("{} atomic requests, where the warps can meet in shared memory",
                      ran.seen.atomics));
  budget("sectors of global memory", ran.seen.sectors, most,
         "is each row read once, and by lanes that stand side by side?",
         heads * (2 * keys + 2) * row / 32);
  require(ran.seen.wavefronts <= 4 * ran.seen.ideal,
          fmt::format("bank conflicts: {} wavefronts of shared memory, and {} without conflicts",
                      ran.seen.wavefronts, ran.seen.ideal));
}
#endif
