#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

constexpr int kHeadDim = 32, kQueries = 64;

std::vector<float> slopes_of(const Sizes& sizes) {
  std::vector<float> slopes;
  for (int head = 0; head < sizes.heads; ++head) {
    slopes.push_back(0.5f / static_cast<float>(head + 1));
  }
  return slopes;
}

Ran launched(const Inputs& in) {
  return call<Ran>("run", in, slopes_of(in.sizes));
}

// Attention with some other bias and mask.
using Bias = std::function<double(double slope, int distance)>;
using Sees = std::function<bool(int query, int key)>;
Rows attention_with(const Inputs& in, const Bias& bias, const Sees& seen,
                    const std::function<int(int)>& kv_head = nullptr, double scale = 0) {
  const std::vector<float> slopes = slopes_of(in.sizes);
  const int shift = in.sizes.length_k - in.sizes.length_q;
  if (scale == 0) scale = static_cast<double>(in.scale);
  return attention(
      in,
      [&](int head, int query, int key, double product) {
        if (!seen(query, key)) return kMinusInfinity;
        return scale * product - bias(static_cast<double>(slopes[static_cast<std::size_t>(head)]),
                                      query + shift - key);
      },
      kv_head);
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

double right_bias(double slope, int distance) {
  return slope * std::abs(distance);
}

Sees right_mask(const Sizes& sizes) {
  return [=](int query, int key) { return sees(sizes, query, key); };
}

Rows right_rows(const Inputs& in) {
  return attention_with(in, right_bias, right_mask(in.sizes));
}

// Another bias or scale, or nothing at all.
std::vector<Wrong> wrong_scores(const Inputs& in, const Rows& right) {
  const int shift = in.sizes.length_k - in.sizes.length_q;
  const auto with = [&](const Bias& bias) {
    return attention_with(in, bias, right_mask(in.sizes));
  };
  const auto with_scale = [&](double scale) {
    return attention_with(in, right_bias, right_mask(in.sizes), nullptr, scale);
  };
  return {{"nothing was written", {all(right.o, NAN), all(right.lse, NAN)}},
          {"the LSE was never written", {right.o, all(right.lse, NAN)}},
          {"the bias is left out", with([](double, int) { return 0.0; })},
          {"the bias is added where it must be subtracted: distant keys count more",
           with([](double slope, int distance) { return -slope * std::abs(distance); })},
          {"the distance has a sign here: without a mask a key after the query must also lose",
           with([](double slope, int distance) { return slope * distance; })},
          {"the distance is |i - j|; with unequal lengths query i stands at key i + length_k - "
           "length_q",
           with([&](double slope, int distance) { return slope * std::abs(distance - shift); })},
          {"the bias is multiplied by the scale, too", with([&](double slope, int distance) {
             return static_cast<double>(in.scale) * slope * std::abs(distance);
           })},
          {"the scale is a.scale; here it is not 1 / sqrt(head_dim)",
           with_scale(1 / std::sqrt(kHeadDim))},
          {"the product of q and k is 0 everywhere: are Q and K loaded?", with_scale(1e-30)},
          {"the scores are not scaled", with_scale(1)}};
}

// Other keys count.
std::vector<Wrong> wrong_keys(const Inputs& in) {
  const Sizes& sizes = in.sizes;
  const int shift = sizes.length_k - sizes.length_q;
  const auto with = [&](const Sees& mask) { return attention_with(in, right_bias, mask); };
  // The loop over keys ends with the tile of the last key that this query of the block sees.
  const auto until = [&](int of_block) {
    return with([=](int query, int key) {
      const int end = std::max(query / kQueries * kQueries + of_block + 1 + shift, 0);
      return sees(sizes, query, key) && (!sizes.causal || key < (end + 31) / 32 * 32);
    });
  };
  return {
      {"no key is masked", with([&](int, int key) { return key < sizes.length_k; })},
      {"the mask is aligned top left; the last query sees all keys", with([&](int query, int key) {
         return key < sizes.length_k && (!sizes.causal || key <= query);
       })},
      {"the mask is off by one: a query does not see the key at its own place",
       with([&](int query, int key) {
         return key < sizes.length_k && (!sizes.causal || key < query + shift);
       })},
      {"keys beyond the last one count as well: their scores must be -infinity, not the product "
       "with a row of zeros",
       with([&](int query, int key) {
         return key < (sizes.length_k + 31) / 32 * 32 && (!sizes.causal || key <= query + shift);
       })},
      {"the loop over keys ends where those of a block's first query end; it must continue to "
       "those "
       "of its last one",
       until(0)},
      {"the loop over keys ends before the last key of the block's last query",
       until(kQueries - 2)},
      {"the last keys are left out: the number of keys is not a multiple of the tile",
       with([&](int query, int key) {
         return sees(sizes, query, key) && key < sizes.length_k / 32 * 32;
       })},
      {"head h uses keys and values of h % kv_heads; the heads of a group are neighbours: h / "
       "(heads / kv_heads)",
       attention_with(in, right_bias, right_mask(sizes),
                      [&](int head) { return head % sizes.kv_heads; })}};
}

// With one block: the loop and the loads end too early, and what is not loaded is 0.
std::vector<Wrong> early_ends(const Inputs& in) {
  const Sizes& sizes = in.sizes;
  const int shift = sizes.length_k - sizes.length_q;
  std::vector<Wrong> result;
  if (!sizes.causal || sizes.length_q > kQueries) return result;
  for (const auto& [of, end] :
       {std::pair("first query end; it must continue to those of its last one",
                  std::max(1 + shift, 0)),
        {"last query but one end", std::max(kQueries - 1 + shift, 0)}}) {
    Inputs cut = in;
    for (int row = 0; row < sizes.kv_heads * sizes.length_k; ++row) {
      if (row % sizes.length_k < end) continue;
      std::fill_n(cut.k.begin() + row * kHeadDim, kHeadDim, 0.0f);
      std::fill_n(cut.v.begin() + row * kHeadDim, kHeadDim, 0.0f);
    }
    multiply(cut);
    result.push_back({std::string("the loop over keys ends where those of a block's ") + of,
                      attention_with(cut, right_bias, [&, last = end](int query, int key) {
                        return sees(sizes, query, key) && key < (last + 31) / 32 * 32;
                      })});
  }
  return result;
}

// l, or O, or both keep what belongs to an older maximum. The tile of keys is the student's choice.
std::vector<Wrong> not_rescaled(const Inputs& in, const Score& score) {
  std::vector<Wrong> result;
  for (const int keys : {1, 8, 16, 32, 64, 128}) {
    const std::string where = fmt::format("when the maximum rose (as with tiles of {} {})", keys,
                                          keys == 1 ? "key" : "keys");
    OnlineSoftmax l_only{keys}, o_only{keys}, none{keys};
    o_only.of_l = l_only.of_o = none.of_l = none.of_o = [](double, double) { return 1.0; };
    result.push_back({"neither l nor O was rescaled " + where, online(in, score, none)});
    result.push_back({"l was not rescaled " + where, online(in, score, o_only)});
    result.push_back({"O was not rescaled " + where, online(in, score, l_only)});
  }
  return result;
}

// The end of a row: the division by l, the LSE, and rows that see no key.
std::vector<Wrong> wrong_ends(const Inputs& in, const Rows& right, const Score& score) {
  const Sizes& sizes = in.sizes;
  Rows base_2 = right, nan_rows = right, nan_sums = right, log_of_l = right, undivided = right;
  for (std::size_t i = 0; i < right.lse.size(); ++i) {
    base_2.lse[i] /= std::log(2.0);
    const bool empty = std::isinf(right.lse[i]);
    const auto head = static_cast<int>(i) / sizes.length_q,
               query = static_cast<int>(i) % sizes.length_q;
    double m = kMinusInfinity;
    for (int key = 0; key < sizes.length_k; ++key) {
      const int kv_head = head / (sizes.heads / sizes.kv_heads);
      m = std::max(m, score(head, query, key, product_of(in, head, kv_head, query, key)));
    }
    if (empty) nan_sums.lse[i] = NAN;
    if (!empty) log_of_l.lse[i] -= m;
    for (std::size_t e = i * kHeadDim; e < (i + 1) * kHeadDim; ++e) {
      if (empty) nan_rows.o[e] = nan_sums.o[e] = NAN;
      if (!empty) undivided.o[e] *= std::exp(right.lse[i] - m);
    }
  }
  return {
      {"all of it is NaN. Was m never raised to m_new? Or is the rescale factor upside down, "
       "e^(m_new - m)? Both are infinite at the first tile",
       {all(right.o, NAN), all(right.lse, NAN)}},
      {"a row that sees no key is NaN: its m is -infinity, and expf(-infinity - -infinity) is not "
       "a number; exp_diff(x, m) is 0 there",
       nan_sums},
      {"m is missing from the LSE: it is m + ln(l)", log_of_l},
      {"O is not divided by l", undivided},
      {"the LSE is in base 2; it is a natural logarithm", base_2},
      {"a row that sees no key is NaN: 0 / 0. Its O is 0", nan_rows}};
}

void grade(const Sizes& sizes, float spread = 1, float scale = 0) {
  const Inputs in = random_inputs<float>(sizes, spread, scale);
  const Ran ran = launched(in);
  if (found(ran.seen, "unwritten") || found(ran.seen, "barrier")) {
    require_no_findings(ran.seen, kReasons);
  }
  const Rows right = right_rows(in);
  const Score score = [&](int head, int query, int key, double product) {
    if (!sees(sizes, query, key)) return kMinusInfinity;
    const auto slope = static_cast<double>(slopes_of(sizes)[static_cast<std::size_t>(head)]);
    const int distance = query + sizes.length_k - sizes.length_q - key;
    return static_cast<double>(in.scale) * product - right_bias(slope, distance);
  };
  std::vector<Wrong> wrongs;
  for (const auto& some : {wrong_scores(in, right), wrong_keys(in), early_ends(in),
                           not_rescaled(in, score), wrong_ends(in, right, score)}) {
    wrongs.insert(wrongs.end(), some.begin(), some.end());
  }
  check_rows(ran, kReasons, in, right, 3e-5 * spread, wrongs);
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
    budget("bytes of Q, K, V, O and LSE", ran.seen.bytes, tensors,
           "does a block read each key that it needs once, and no key that the mask hides from all "
           "its queries, not even in its last tile?",
           tensors);
  }
}
#endif
