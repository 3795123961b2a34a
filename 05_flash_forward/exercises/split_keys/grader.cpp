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

std::vector<Wrong> wrongs(const Inputs& in) {
  const Sizes& s = in.sizes;
  const auto scale = static_cast<double>(in.scale);
  const Score scaled = [=](int, int, int, double product) { return scale * product; };
  // The largest score of each head's and warp's keys, which are dealt round robin.
  std::vector<double> m(static_cast<std::size_t>(s.heads * kDecodeWarps), kMinusInfinity);
  const auto of_part = [&](int head, int key) -> double& {
    return m[static_cast<std::size_t>(head * kDecodeWarps + key % kDecodeWarps)];
  };
  attention(in, [&](int head, int, int key, double product) {
    of_part(head, key) = std::max(of_part(head, key), scale * product);
    return 0.0;
  });
  const Rows added = attention(in, [&](int head, int, int key, double product) {
    return scale * product - of_part(head, key);
  });
  return {{"sums that are relative to different maxima were added: each warp's l and o need the "
           "factor e^(m - m_all)",
           {added.o, {}}},
          {"the last keys are left out: the number of keys is not a multiple of the number of "
           "warps",
           attention(in,
                     [&](int, int, int key, double product) {
                       return key < s.length_k / kDecodeWarps * kDecodeWarps ? scale * product
                                                                             : kMinusInfinity;
                     })},
          {"head h uses keys and values of h % kv_heads; the heads of a group are neighbours: h / "
           "(heads / kv_heads)",
           attention(in, scaled, [&](int head) { return head % s.kv_heads; })}};
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
