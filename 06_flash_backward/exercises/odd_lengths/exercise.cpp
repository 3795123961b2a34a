#if defined(FA_STUDENT)
#include "06_flash_backward/kernels/03_two_kernels.cuh"

// Of its own, because the lesson's kernel has the same name.
namespace fa::FA_TARGET::student {

/// dK and dV. A block owns keys and loops over the queries of all heads that share them.
// listing: 06_flash_backward/kernels/03_two_kernels.cuh#keys

}  // namespace fa::FA_TARGET::student
#elif defined(FA_ENTRIES)
#include "06_flash_backward/exercises/on_device.cuh"

// What the lesson has is to be written, not called.
namespace fa::FA_TARGET {

template <>
void __launch_bounds__(256) backward_keys<32>(AttentionGradient<float>) = delete;

}  // namespace fa::FA_TARGET

#include "student/odd_lengths.cuh"

namespace plain = fa::backward::plain;

FA_ENTRY(run, [](const plain::Problem& x) {
  std::pair<Seen, plain::Gradients> result;
  result.first = watch([&] {
    const plain::OnDevice device(x);
    launch(fa::FA_TARGET::student::backward_keys<32>, plain::tile_launch(x.length_k, 1), device.a);
    result.second = device.gradients();
  });
  return result;
});
#elif defined(FA_GRADER)
#include "06_flash_backward/exercises/grading/mistakes.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;
using plain::MistakeKind;
using plain::Problem;

namespace {

const std::vector<Reason> kReasons{
    {"barrier", "some threads never come to a barrier that others wait at"},
    {"out of bounds",
     "it writes beside the gradients: threads without a key have nothing to store"},
    {"unwritten", "a tile is read where no thread has written"},
    {"same value",
     "several threads store the same row of a gradient: a thread without a key must store nothing, "
     "and with a clamped number it has the key of another thread"},
    {"race", "a barrier is missing: one thread writes what another one reads"}};

void grade(const Problem& x) {
  const plain::Ran c = plain::run(x);
  const std::string where =
      fmt::format("{} heads share the keys, {} queries, {} keys, head_dim {}{}", x.heads,
                  x.length_q, x.length_k, x.head_dim, x.causal ? ", causal" : "");
  // float32 sums over queries of numbers of size 1.
  plain::check_gradients(
      c, kReasons, x, 2e-5, where,
      {{MistakeKind::kFirstHeadOnly, "of the heads that share the keys only the first one is used"},
       {MistakeKind::kLastHeadOnly,
        "of the heads that share the keys only the last one is left: the sums begin before the "
        "loop over heads"},
       {MistakeKind::kMaskForgotten, "masked keys have a probability above 0"}},
      {{MistakeKind::kNoScaleInDk, "dK without the scale"}});
}

}  // namespace

FA_STAGE(found) {
  const Evidence given = evidence("a line and a number of threads");
  require(given.numbers.size() == 2, "not found: the answer is two numbers");
  require(given.lines.size() >= 1 && given.lines[0].find("__syncthreads") != std::string::npos,
          "not found: that line of the file as it was is not a barrier");
  require(given.lines[0].find("the tiles are loaded") != std::string::npos,
          "not found: an earlier barrier is not reached by all threads");
  // The last 8 of 40 keys; 8 threads have the same key.
  require(given.numbers[1] == 8 * 8, "not found: another number of threads reaches that barrier");
}

FA_STAGE(easy) {
  grade(plain::random_problem(1, 20, 32, 16));
  grade(plain::random_problem(1, 40, 32, 8));
}

FA_STAGE(odd) {
  grade(plain::random_problem(1, 33, 40, 24));
  grade(plain::random_problem(2, 7, 5, 8, true));
  grade(plain::random_problem(1, 1, 33, 8, true));
}

FA_STAGE(races) {
  const plain::Ran c = plain::run(plain::random_problem(2, 40, 33, 16, true));
  require_no_races(c.seen, kReasons);
}
#endif
/* Other answers, as changes of the solution
# start: what the student begins with
@ start
- const int row = threadIdx.x / 8;  // a key, for the sums
+   const int row = threadIdx.x / 8;  // a key, for the sums
+   if (key0 + row >= a.length_k) return;  // no key, no work

# no_guard: threads without a key store, too
@ odd: beside
- if (key >= a.length_k) return;
+

# clamped_row: the same for its sums
@ races: a clamped number
- const int row = threadIdx.x / 8;  // a key, for the sums
+ const int row = min(key0 + int(threadIdx.x) / 8, a.length_k - 1) - key0;

# sums_begin_anew: each head assigns
@ odd: only the last one is left
- const auto head = gradient_head(a, batch, kv_head * group + member);
+     const auto head = gradient_head(a, batch, kv_head * group + member);
+     for (int c = 0; c < Tile::fours; ++c) all_d_k[c] = all_d_v[c] = {};

# nested: the stores in a block of their own
@ right
- if (key >= a.length_k) return;
- ...
- all_d_v, 1.0f, a.head_dim);
+  bool exists = key < a.length_k;
+  __syncthreads();
+  if (exists) {
+    const auto store = [&](auto* to, const auto& strides, const auto& row_of, float factor) { store_float_row<Tile>(kv_rows(to, strides, batch, kv_head) + key * strides.row, row_of, factor, a.head_dim); };
+    store(a.d_v, a.d_v_strides, all_d_v, 1.0f);
+    store(a.d_k, a.d_k_strides, all_d_k, a.scale);
+  }
*/
