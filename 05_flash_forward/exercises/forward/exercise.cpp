#if defined(FA_STUDENT)
#include "05_flash_forward/kernels/float_rows.cuh"

namespace fa::FA_TARGET {

namespace student {

/// Attention with a linear bias, in float32, head_dim 32.
/// Launched with blocks of 64; grid of ceil(length_q / 64) x heads.
/// @param slopes of the heads
__global__ void flash_alibi(Attention<float> a, const float* slopes) {
#ifdef FA_SOLUTION
  constexpr int d = 32, queries = 64, keys = 32;
  __shared__ float k_smem[keys][d], v_smem[keys][d];
  const auto h = head_of(a, 0, blockIdx.y);
  const float slope = slopes[blockIdx.y];
  const int query0 = blockIdx.x * queries;
  const int query = query0 + threadIdx.x;
  const bool exists = query < a.length_q;
  const int place = query + a.length_k - a.length_q;
  const int visible = exists ? visible_keys(a, query) : 0;
  const int end = visible_keys(a, query0 + queries - 1);
  float q[d] = {}, o[d] = {}, m = -INFINITY, l = 0;
  for (int e = 0; e < d && exists; ++e) q[e] = h.q[query * a.q_strides.row + e];
  for (int key0 = 0; key0 < end; key0 += keys) {
    for (int e = threadIdx.x; e < keys * d; e += queries) {
      const int row = key0 + e / d, col = e % d;
      const bool inside = row < end;
      k_smem[e / d][col] = inside ? h.k[row * a.k_strides.row + col] : 0.0f;
      v_smem[e / d][col] = inside ? h.v[row * a.v_strides.row + col] : 0.0f;
    }
    __syncthreads();  // the tiles have arrived
    float s[keys], m_new = m;
    for (int j = 0; j < keys; ++j) {
      float product = 0;
      for (int e = 0; e < d; ++e) product += q[e] * k_smem[j][e];
      const float distance = fabsf(static_cast<float>(place - key0 - j));
      s[j] = a.scale * product - slope * distance;
      if (key0 + j >= visible) s[j] = -INFINITY;
      m_new = fmaxf(m_new, s[j]);
    }
    const float rescale = exp_diff(m, m_new);
    m = m_new;
    l *= rescale;
    for (float& x : o) x *= rescale;
    for (int j = 0; j < keys; ++j) {
      const float p = exp_diff(s[j], m);
      l += p;
      for (int e = 0; e < d; ++e) o[e] += p * v_smem[j][e];
    }
    __syncthreads();  // no thread reads the tiles any longer
  }
  if (!exists) return;
  for (int e = 0; e < d; ++e) {
    h.o[query * a.o_strides.row + e] = l == 0 ? 0 : o[e] / l;
  }
  h.lse[query] = log_sum(m, l);
#else
  // TODO: the whole kernel.
  (void)a;
  (void)slopes;
#endif
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "05_flash_forward/exercises/attention.hpp"

static void launched(const Attention<float>& a, const float* slopes) {
  launch(fa::FA_TARGET::student::flash_alibi,
         {{static_cast<unsigned>(ceil_div(a.length_q, 64)), static_cast<unsigned>(a.heads)}, {64}},
         a, slopes);
}

FA_ENTRY(run, [](const Inputs& in, const std::vector<float>& slopes) {
  return run<float>(in, [&](const Attention<float>& a) { launched(a, on_device(slopes).data()); });
});

// The slopes are in the host's memory here: the lab does not count reads of it.
FA_ENTRY(run_without_counting_slopes, [](const Inputs& in, const std::vector<float>& slopes) {
  return run<float>(in, [&](const Attention<float>& a) { launched(a, slopes.data()); });
});
#elif defined(FA_GRADER)
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

constexpr int kHeadDim = 32;

std::vector<float> slopes_of(const Sizes& sizes) {
  std::vector<float> slopes;
  for (int head = 0; head < sizes.heads; ++head) {
    slopes.push_back(0.5f / static_cast<float>(head + 1));
  }
  return slopes;
}

Ran launched(const Inputs& in) {
  return fa::classroom::launched(in, slopes_of(in.sizes));
}

// The bias of ALiBi, and keys; a wrong answer has another one of the two.
using Bias = std::function<double(double slope, int distance)>;
using SeesKey = std::function<bool(int query, int key)>;

double right_bias(double slope, int distance) {
  return slope * std::abs(distance);
}

Rows attention_with(const Inputs& in, const Bias& bias, const SeesKey& seen,
                    const std::function<int(int)>& kv_head = nullptr) {
  const std::vector<float> slopes = slopes_of(in.sizes);
  const int shift = in.sizes.length_k - in.sizes.length_q;
  return attention(
      in,
      [&](int head, int query, int key, double product) {
        if (!seen(query, key)) return kMinusInfinity;
        const auto slope = static_cast<double>(slopes[static_cast<std::size_t>(head)]);
        return static_cast<double>(in.scale) * product - bias(slope, query + shift - key);
      },
      kv_head);
}

Rows right_rows(const Inputs& in) {
  return attention_with(in, right_bias,
                        [&](int query, int key) { return sees(in.sizes, query, key); });
}

const std::vector<Reason> kReasons = {
    {"barrier",
     "some threads never come to a barrier: a thread without a query must stay in the loop"},
    {"out of bounds",
     "it reads or writes beside the tensors: queries and keys end inside of a tile"},
    {"unwritten",
     "shared memory is read before it was written: is there a barrier between copying a tile and "
     "using it, and is all of the last tile written?"},
    own_elements(),
    {"race",
     "a tile is overwritten while other warps still read it, or two threads write the same "
     "element"}};

std::vector<Wrong> wrongs(const Inputs& in) {
  const Sizes& s = in.sizes;
  const SeesKey seen = [&](int query, int key) { return sees(s, query, key); };
  const int shift = s.length_k - s.length_q;
  return {
      {"the bias is left out", attention_with(
                                   in, [](double, int) { return 0.0; }, seen)},
      {"the distance is |i - j|; with unequal lengths query i stands at key i + length_k - "
       "length_q",
       attention_with(
           in, [&](double slope, int distance) { return slope * std::abs(distance - shift); },
           seen)},
      {"the bias has the factor scale, too: it is subtracted from a score that is scaled",
       attention_with(
           in,
           [&](double slope, int distance) {
             return static_cast<double>(in.scale) * slope * std::abs(distance);
           },
           seen)},
      {"the distance has a sign here, so a key after the query's own place counts more: take |...|",
       attention_with(
           in, [](double slope, int distance) { return slope * distance; }, seen)},
      {"the bias is added; it is subtracted, so that distant keys count less",
       attention_with(
           in, [](double slope, int distance) { return -right_bias(slope, distance); }, seen)},
      {"all heads have the slope of head 0: that of head h is slopes[h]",
       attention_with(
           in, [&](double, int distance) { return right_bias(slopes_of(s)[0], distance); }, seen)},
      {"head h uses keys and values of h % kv_heads; the heads of a group are neighbours: h / "
       "(heads / kv_heads)",
       attention_with(in, right_bias, seen, [&](int head) { return head % s.kv_heads; })}};
}

void grade(const Sizes& sizes, float spread = 1, float scale = 0) {
  const Inputs in = random_inputs<float>(sizes, spread, scale);
  const Ran ran = launched(in);
  if (found(ran.seen, "unwritten") || found(ran.seen, "barrier")) {
    require_no_findings(ran.seen, kReasons);
  }
  check_rows(ran, kReasons, in, right_rows(in), 3e-5 * spread, wrongs(in));
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 1, 64, 64, kHeadDim, false});
}

FA_STAGE(odd) {
  grade({1, 1, 70, 45, kHeadDim, false});
  grade({2, 2, 33, 70, kHeadDim, true});
  // The last query of a block is the only one that sees a key of the last tile.
  grade({1, 1, 64, 65, kHeadDim, true});
  grade({4, 2, 70, 33, kHeadDim, true});
  grade({1, 1, 1, 1, kHeadDim, true});
  grade({1, 1, 5, 40, kHeadDim, true}, 60);
  grade({1, 1, 20, 40, kHeadDim, true}, 1, 0.3f);
  check_variations({2, 2, 33, 70, kHeadDim, true}, launched, right_rows, 3e-5);
}

FA_STAGE(races) {
  const Ran ran = launched(random_inputs<float>({2, 1, 70, 101, kHeadDim, true}));
  require_no_races(ran.seen, kReasons);
}

FA_STAGE(traffic) {
  // Two blocks each; in the second case the last key of the first block is the 87th.
  for (const auto& [n, keys, of_blocks] : {std::tuple(128, 128, 64 + 128), {100, 123, 87 + 123}}) {
    const Inputs in = random_inputs<float>({1, 1, n, keys, kHeadDim, true});
    const Ran ran = call<Ran>("run_without_counting_slopes", in, slopes_of(in.sizes));
    needs_watching(ran.seen);
    // K and V of the blocks, Q and O; LSE.
    const std::int64_t tensors = (2 * of_blocks + 2 * n) * 4 * kHeadDim + 4 * n;
    budget("bytes of Q, K, V, O and LSE (" + words(in.sizes) + ")", ran.seen.bytes, tensors,
           "does a block read each key that it needs once, into shared memory, and no key that is "
           "masked for all its queries, not even in its last tile?",
           tensors);
  }
}
#endif
/* Other answers, as changes of the solution
# one_barrier: a fast warp overwrites
@ easy: overwritten while other warps
- __syncthreads();  // no thread reads the tiles any longer
+

# signed: a distance below 0 makes a score larger
@ easy: the distance has a sign here
- const float distance = fabsf(static_cast<float>(place - key0 - j));
+       const float distance = static_cast<float>(place - key0 - j);

# slope_of_head_0: of all heads
@ odd: all heads have the slope of head 0
- const float slope = slopes[blockIdx.y];
+   const float slope = slopes[0];

# no_lse: it is forgotten
@ easy: the LSE was never written
- h.lse[query] = log_sum(m, l);
+

# large_tiles: more static shared memory than there is
@ easy: too much static shared memory
- constexpr int d = 32, queries = 64, keys = 32;
+   constexpr int d = 32, queries = 64, keys = 256;

# kv_head: a key head for each head
@ odd: h % kv_heads
- const auto h = head_of(a, 0, blockIdx.y);
+   auto h = head_of(a, 0, blockIdx.y);
+   h.k = a.k + blockIdx.y % a.kv_heads * a.k_strides.head;
+   h.v = a.v + blockIdx.y % a.kv_heads * a.v_strides.head;

# head_of_q: K and V have as many heads as Q
@ odd: Is the head of K and V that of the group
- const auto h = head_of(a, 0, blockIdx.y);
+   auto h = head_of(a, 0, blockIdx.y);
+   h.k = a.k + blockIdx.y * a.k_strides.head;
+   h.v = a.v + blockIdx.y * a.v_strides.head;

# whole_tiles: the last tile is loaded up to its end
@ traffic: no key that is masked for all
- const bool inside = row < end;
+       const bool inside = row < a.length_k;

# slope_in_loop: each use of the slope reads it from global memory
@ right
- const float slope = slopes[blockIdx.y];
+
- s[j] = a.scale * product - slope * distance;
+       s[j] = a.scale * product - slopes[blockIdx.y] * distance;

# clever_per_key: a step of the softmax for each key
@ right
- float s[keys], m_new = m;
- ...
- for (int e = 0; e < d; ++e) o[e] += p * v_smem[j][e];
- }
+    for (int j = 0; j < keys && key0 + j < visible; ++j) {
+      float product = 0;
+      for (int e = 0; e < d; ++e) product = fmaf(q[e], k_smem[j][e], product);
+      const int away = place - key0 - j;
+      const float s = a.scale * product - slope * (away < 0 ? -away : away);
+      const float m_new = fmaxf(m, s), c = exp_diff(m, m_new), p = exp_diff(s, m_new);
+      l = l * c + p; m = m_new;
+      for (int e = 0; e < d; ++e) o[e] = o[e] * c + p * v_smem[j][e];
+    }
*/
