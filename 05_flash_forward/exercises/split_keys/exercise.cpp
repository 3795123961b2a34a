#if defined(FA_STUDENT)
#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Warps of a block.
constexpr int kDecodeWarps = 4;

/// Attention for one query of each head: length_q is 1, and head_dim is 64.
/// blockIdx.x is the head, threadIdx.y the warp (of kDecodeWarps), and
/// threadIdx.x the lane.
__global__ void decode(Attention<float> a) {
#ifdef FA_SOLUTION
  constexpr int d = 64, per_lane = d / kWarp;
  __shared__ float m_smem[kDecodeWarps], l_smem[kDecodeWarps];
  __shared__ float o_smem[kDecodeWarps][d];
  const int lane = threadIdx.x, warp = threadIdx.y;
  const auto h = head_of(a, 0, blockIdx.x);
  float q[per_lane], o[per_lane] = {}, m = -INFINITY, l = 0;
  for (int i = 0; i < per_lane; ++i) q[i] = h.q[lane + kWarp * i];
  for (int key = warp; key < a.length_k; key += kDecodeWarps) {
    const float* k = h.k + key * a.k_strides.row;
    const float* v = h.v + key * a.v_strides.row;
    float product = 0;
    for (int i = 0; i < per_lane; ++i) product += q[i] * k[lane + kWarp * i];
    const float s = a.scale * warp_sum(product);
    const float m_new = fmaxf(m, s);
    const float rescale = exp_diff(m, m_new);
    const float p = exp_diff(s, m_new);
    m = m_new;
    l = rescale * l + p;
    for (int i = 0; i < per_lane; ++i) {
      o[i] = rescale * o[i] + p * v[lane + kWarp * i];
    }
  }
  if (lane == 0) {
    m_smem[warp] = m;
    l_smem[warp] = l;
  }
  for (int i = 0; i < per_lane; ++i) o_smem[warp][lane + kWarp * i] = o[i];
  __syncthreads();  // all warps have said what they know
  if (warp > 0) return;
  float m_all = -INFINITY, l_all = 0, o_all[per_lane] = {};
  for (int w = 0; w < kDecodeWarps; ++w) m_all = fmaxf(m_all, m_smem[w]);
  for (int w = 0; w < kDecodeWarps; ++w) {
    const float weight = exp_diff(m_smem[w], m_all);
    l_all += weight * l_smem[w];
    for (int i = 0; i < per_lane; ++i) {
      o_all[i] += weight * o_smem[w][lane + kWarp * i];
    }
  }
  for (int i = 0; i < per_lane; ++i) {
    h.o[lane + kWarp * i] = l_all == 0 ? 0 : o_all[i] / l_all;
  }
  if (lane == 0) h.lse[0] = log_sum(m_all, l_all);
#else
  // TODO: each warp goes over its own keys, and has m, l and o of these. Then
  // the warps meet in shared memory, and one of them merges and writes.
  (void)a;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "05_flash_forward/exercises/attention.hpp"

FA_ENTRY(run, [](const Inputs& in) {
  return run<float>(in, [](const Attention<float>& a) {
    launch(decode, {{static_cast<unsigned>(a.heads)}, {kWarp, kDecodeWarps}}, a);
  });
});
#elif defined(FA_GRADER)
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
  require_divided(launched(random_inputs<float>({1, 1, 1, 64, kHeadDim, false})).seen);
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
         "K, V or q is read too often. Two loads with lanes 8 bytes apart touch each sector twice: "
         "lanes stand side by side, or load two at once. And q is read once, not for each key",
         heads * (2 * keys + 2) * row / 32);
  require(ran.seen.wavefronts <= 4 * ran.seen.ideal,
          fmt::format("bank conflicts: {} wavefronts of shared memory, and {} without conflicts",
                      ran.seen.wavefronts, ran.seen.ideal));
}
#endif
/* Other answers, as changes of the solution
# added: sums are added as they are
@ easy: relative to different maxima were added
- const float weight = exp_diff(m_smem[w], m_all);
+     const float weight = 1;

# rounded_down: as many keys for each warp, and the rest is left out
@ odd: the last keys are left out
- for (int key = warp; key < a.length_k; key += kDecodeWarps) {
+   for (int key = warp; key < a.length_k / kDecodeWarps * kDecodeWarps;
+        key += kDecodeWarps) {

# all_write: each warp merges, and writes the same
@ races: do several write the same number
- if (warp > 0) return;
+

# pairs: a lane has two neighbours, so that lanes stand 8 bytes apart
@ traffic: side by side
- for (int i = 0; i < per_lane; ++i) product += q[i] * k[lane + kWarp * i];
+     for (int i = 0; i < per_lane; ++i) product += q[i] * k[2 * lane + i];
- for (int i = 0; i < per_lane; ++i) q[i] = h.q[lane + kWarp * i];
+   for (int i = 0; i < per_lane; ++i) q[i] = h.q[2 * lane + i];

# one_warp: three warps have no keys
@ traffic: one warp loads and stores
- for (int key = warp; key < a.length_k; key += kDecodeWarps) {
+   for (int key = warp == 0 ? 0 : a.length_k; key < a.length_k; ++key) {

# pieces: each warp has neighbouring keys
@ right
- for (int key = warp; key < a.length_k; key += kDecodeWarps) {
+  const int each = (a.length_k + kDecodeWarps - 1) / kDecodeWarps;
+  for (int key = warp * each; key < a.length_k && key < (warp + 1) * each; ++key) {

# serial_base_two: each lane adds the products of all lanes, and scores are multiplied by log2 e
@ right
- for (int i = 0; i < per_lane; ++i) product += q[i] * k[lane + kWarp * i];
+    for (int i = 0; i < per_lane; ++i) {
+      const float part = q[i] * k[lane + kWarp * i];
+      for (int j = 0; j < kWarp; ++j) product += __shfl_sync(0xffffffffu, part, j);
+    }
- const float s = a.scale * warp_sum(product);
+    const float s = a.scale * 1.44269504f * product;
- const float rescale = exp_diff(m, m_new);
- const float p = exp_diff(s, m_new);
+    const float rescale = exp2f(m - m_new);
+    const float p = exp2f(s - m_new);
- const float weight = exp_diff(m_smem[w], m_all);
+    const float weight = m_smem[w] == -INFINITY ? 0 : exp2f(m_smem[w] - m_all);
- if (lane == 0) h.lse[0] = log_sum(m_all, l_all);
+  if (lane == 0) h.lse[0] = l_all == 0 ? -INFINITY : 0.693147181f * (m_all + log2f(l_all));
*/
