// The decode kernels on every backend of this build that can run here: lengths, groups, masks,
// caches with sequences of different lengths, pages.
#include "05_flash_forward/src/decode.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "05_flash_forward/kernels/decode/split_count.hpp"
#include "common/attention/tests/step_tests.hpp"
#include "common/parallel/parallel_for.hpp"

using namespace fa;
using namespace fa::attention;
using flash::decode::DecodeChecker;
using flash::decode::DecodeInputs;
using Lengths = std::vector<std::int32_t>;

namespace {

constexpr Type kTypes16[] = {Type::kFloat16, Type::kBFloat16};

using Tests = StepTests<DecodeChecker, flash::decode::backends, flash::decode::decode_inputs>;

// The step that takes packed queries, and works with pages or without.
bool takes_packed_queries(const flash::decode::LadderStep& step) {
  return step.name == "07_chunked_prefill";
}

// All steps, or those that read lengths, or the one that packs queries.
void check_inputs(const Problem& problem, const DecodeInputs& inputs) {
  const bool packed = !inputs.lengths_q.empty() || inputs.page_size == 0;
  const bool lengths = !inputs.lengths_k.empty();
  Tests::check_everywhere(problem, inputs,
                          packed    ? 1
                          : lengths ? 3
                                    : 7,
                          [&](const flash::decode::LadderStep& step) {
                            return packed ? takes_packed_queries(step)
                                          : !lengths || step.supports_lengths;
                          });
}

void check_lengths(Problem problem, const Lengths& lengths_k, int page_size,
                   const Lengths& lengths_q = {}, int parts = 0) {
  problem.shape.batch = static_cast<std::int64_t>(lengths_k.size());
  DecodeInputs inputs = flash::decode::decode_inputs(problem, Values::kNormal, 1);
  inputs.lengths_k = lengths_k;
  inputs.lengths_q = lengths_q;
  inputs.page_size = page_size;
  inputs.parts = parts;
  CAPTURE(page_size);
  CAPTURE(parts);
  check_inputs(problem, inputs);
}

// 16 queries, or 1, on 8 heads and 2.
Problem of_lengths(Type type, std::int64_t length_q, std::int64_t most, bool causal) {
  return problem_of(type, {1, 8, 2, length_q, most, 64}, causal);
}

// Step 05 in the lab.
const flash::decode::LadderStep& paged_step() {
  return Tests::all().front().steps[4];
}

}  // namespace

TEST_CASE("one query, with lengths around the edges of tiles and of parts") {
  for (const Type type : kTypes16) {
    for (const int length_k : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 300, 1000}) {
      Tests::check_everywhere(problem_of(type, {1, 4, 1, 1, length_k, 64}));
      Tests::check_everywhere(problem_of(type, {2, 4, 2, 1, length_k, 128}, true));
    }
  }
}

TEST_CASE("groups of any size, up to several tiles of rows") {
  for (const int group : {1, 2, 3, 8, 16, 17, 40, 70}) {
    Tests::check_everywhere(problem_of(Type::kBFloat16, {1, 2 * group, 2, 1, 200, 64}));
  }
}

TEST_CASE("several queries see the keys up to their own, and some see none") {
  for (const bool causal : {false, true}) {
    for (const auto& [length_q, length_k] :
         {std::pair{2, 70}, {5, 5}, {16, 300}, {16, 3}, {33, 130}, {7, 64}}) {
      Tests::check_everywhere(
          problem_of(Type::kFloat16, {1, 8, 2, length_q, length_k, 64}, causal));
    }
  }
}

TEST_CASE("head dimensions that are multiples of 8 are padded") {
  for (const int head_dim : {8, 40, 72, 96, 120}) {
    Tests::check_everywhere(problem_of(Type::kBFloat16, {1, 4, 2, 3, 150, head_dim}, true));
  }
  CHECK_THROWS_AS(paged_step().check(problem_of(Type::kBFloat16, {1, 1, 1, 1, 9, 136})),
                  std::invalid_argument);
}

TEST_CASE("a cache with layout [batch, length, heads, head_dim]") {
  Problem problem = problem_of(Type::kBFloat16, {2, 6, 2, 3, 150, 64}, true);
  problem.layout = Layout::kLengthFirst;
  Tests::check_everywhere(problem);
}

TEST_CASE("scores of +-1e4, and maxima that rise from key to key") {
  for (const Type type : kTypes16) {
    for (const Values values : {Values::kLarge, Values::kRising}) {
      Tests::check_everywhere(problem_of(type, {1, 4, 1, 1, 700, 64}), values);
      Tests::check_everywhere(problem_of(type, {1, 4, 1, 9, 700, 64}, true), values);
    }
  }
}

TEST_CASE("sequences of different lengths, empty ones and lengths out of range among them") {
  for (const Type type : kTypes16) {
    for (const bool causal : {false, true}) {
      check_lengths(of_lengths(type, 1, 300, causal), {0, 1, 300, 64, 65, 129, 0}, 16);
      check_lengths(of_lengths(type, 16, 200, causal), {200, 0, 3, 17, 64}, 64);
    }
  }
  check_lengths(of_lengths(Type::kFloat16, 1, 100, false), {-5, 101, 1 << 30, 100}, 16);
  check_lengths(of_lengths(Type::kFloat16, 1, 100, false), {0}, 16);
  check_lengths(of_lengths(Type::kFloat16, 2, 1000, true), {1000, 1}, 32);
}

TEST_CASE("blocks that end one item and begin another") {
  for (const auto& [batch, length_k] : {std::pair{5, 192}, {7, 320}, {3, 700}}) {
    Tests::check_everywhere(problem_of(Type::kFloat16, {batch, 4, 1, 2, length_k, 64}));
  }
}

TEST_CASE("more sequences than a warp has lanes") {
  Lengths lengths_k;
  for (int i = 0; i < 70; ++i) lengths_k.push_back(i < 64 ? i * 37 % 101 : 900);
  check_lengths(problem_of(Type::kBFloat16, {1, 2, 1, 1, 900, 8}), lengths_k, 16);
}

TEST_CASE("blocks with more tiles than a warp looks up at once, twice") {
  for (const int head_dim : {64, 128}) {
    // With as many heads as the lab has SMs each head has two blocks, of 20 tiles each.
    const int heads = std::max(16, thread_count());
    check_lengths(problem_of(Type::kBFloat16, {1, heads, heads, 1, 2500, head_dim}), {2500}, 16);
  }
}

TEST_CASE("pages of any multiple of 16 tokens") {
  for (const int page_size : {16, 32, 48, 64, 80, 256}) {
    check_lengths(of_lengths(Type::kBFloat16, 1, 333, false), {333, 40, 256}, page_size);
    Problem wide = problem_of(Type::kFloat16, {1, 4, 1, 2, 333, 128}, true);
    wide.layout = page_size % 32 == 0 ? Layout::kLengthFirst : Layout::kHeadsFirst;
    check_lengths(wide, {333, 39, 17}, page_size);
  }
  const Problem problem = of_lengths(Type::kBFloat16, 1, 100, false);
  DecodeInputs inputs = flash::decode::decode_inputs(problem, Values::kNormal, 1);
  inputs.page_size = 24;
  CHECK_THROWS_AS(paged_step().run(problem, inputs), std::invalid_argument);
}

TEST_CASE("a chunk of a prompt sees the cache and the tokens of the chunk before its own") {
  // Up to three tiles of 64 rows for a head of K and V; the chunk's own keys are the last ones.
  for (const auto& [length_q, most] : {std::pair{17, 333}, {40, 520}}) {
    const Lengths lengths_k = {most, length_q, most - 63, length_q - 1};
    check_lengths(of_lengths(Type::kBFloat16, length_q, most, true), lengths_k, 64);
    check_lengths(of_lengths(Type::kFloat16, length_q, most, false), lengths_k, 16);
  }
}

TEST_CASE("prompts, chunks and single queries in one launch, with pages of any size and without") {
  const Lengths queries = {1, 300, 0, 64, 16, 1, 33, 7};
  const Lengths keys = {290, 300, 77, 65, 0, 1, 400, 3};  // 7 queries on 3 keys
  for (const int page_size : {0, 16, 48, 64, 128}) {
    for (const bool causal : {false, true}) {
      const bool wide = causal == (page_size % 32 == 0);
      Problem problem = problem_of(wide ? Type::kFloat16 : Type::kBFloat16,
                                   {1, 6, 2, 300, 400, wide ? 128 : 40}, causal);
      problem.layout = causal ? Layout::kLengthFirst : Layout::kHeadsFirst;
      check_lengths(problem, keys, page_size, queries);
    }
  }
}

TEST_CASE("keys are split in parts, some of which the mask hides, or the end of a sequence") {
  // Two tiles of rows, on the edge of the mask in up to three tiles of keys: with as many parts as
  // tiles some begin behind the edge.
  for (const int parts : {2, 3, 5, 16}) {
    for (const bool causal : {false, true}) {
      check_lengths(problem_of(Type::kBFloat16, {1, 1, 1, 200, 500, 64}, causal),
                    {500, 200, 130, 0}, parts % 2 == 0 ? 0 : 16, {200, 190, 1, 7}, parts);
    }
  }
  for (const int page_size : {0, 16}) {
    check_lengths(problem_of(Type::kFloat16, {1, 4, 1, 5, 2000, 128}, true), {2000, 0}, page_size,
                  {5, 1}, 16);
  }
}

TEST_CASE("chunks of 1 to 300 queries, in each of 40 sequences or in one of them") {
  Lengths queries, keys;
  for (int i = 0; i < 40; ++i) {
    queries.push_back(i == 17 ? 300 : i % 5);
    keys.push_back(i == 17 ? 517 : i * 53 % 301);
  }
  check_lengths(problem_of(Type::kBFloat16, {1, 4, 2, 300, 517, 64}, true), keys, 64, queries);
  for (const int chunk : {1, 15, 63, 65, 129, 300}) {
    check_lengths(problem_of(Type::kFloat16, {1, 2, 2, chunk, 517, 64}, true), {517, 300, chunk},
                  0);
  }
}

TEST_CASE("every launch gives the same bits, and leaves the counters at 0") {
  for (const AttentionShape& shape :
       {AttentionShape{1, 4, 1, 3, 700, 64}, AttentionShape{3, 8, 2, 1, 330, 128}}) {
    const Problem problem = problem_of(Type::kBFloat16, shape, true);
    const DecodeInputs inputs = flash::decode::decode_inputs(problem, Values::kNormal, 1);
    for (const flash::decode::LadderStep& step : Tests::best().steps) {
      check_repeats(step, problem, inputs, Tests::on_gpu() ? 250 : 4,
                    [](const Outputs& first, const Outputs& again) {
                      return same_bits(first.o, again.o) && same_bits(first.lse, again.lse);
                    });
    }
  }
}

TEST_CASE("every decode kernel is right in the watched lab, with no finding") {
  const auto* const watched = find_backend(Tests::all(), "watched");
  if (watched == nullptr) return;
  lab::Coverage coverage;
  for (const flash::decode::LadderStep& step : watched->steps) {
    for (const bool causal : {false, true}) {
      const auto check = [&](const AttentionShape& shape, auto change) {
        const Problem problem = problem_of(step.types.back(), shape, causal);
        DecodeInputs inputs = flash::decode::decode_inputs(problem, Values::kNormal, 1);
        change(inputs);
        coverage.add(check_watched(step, problem, inputs, DecodeChecker(problem, inputs)));
      };
      for (const AttentionShape& shape :
           {AttentionShape{2, 4, 2, 1, 5, 64}, {1, 3, 1, 9, 330, 40}, {2, 4, 2, 16, 3, 64}}) {
        check(shape, [](auto&) {});
      }
      check({2, 4, 2, 1, 500, 128}, [&](auto& in) {
        if (step.supports_lengths) in.lengths_k = {470, 0};
      });
      if (!step.supports_lengths) continue;
      check({34, 1, 1, 1, 1100, 8}, [](auto& in) {
        in.lengths_k.assign(32, 1);  // more than half of the tiles are of the last two sequences
        in.lengths_k.insert(in.lengths_k.end(), {1100, 1000});
      });
      check({2, 2, 1, 3, 300, 40}, [&](auto& in) {
        in.lengths_k = {290, 40}, in.sinks = {1, 2};
        if (causal) in.window = 150, in.part_keys = 128;
        if (!causal) in.tree = {1, 2, 5, 0, 3, 7};
      });
      for (const int parts : {0, 3, 40}) {
        if (!takes_packed_queries(step)) continue;
        check({3, 2, 1, 200, 300, 64}, [&](auto& in) {
          in.lengths_q = {1, 200, 0}, in.lengths_k = {0, 290, 300};
          in.page_size = 0, in.parts = parts;
        });
      }
    }
  }
  CHECK(lab::unreached_text(coverage) == kAllReached);
}

TEST_CASE("the number of parts fills the SMs, and no more") {
  constexpr double row = 1.0 / 64;  // of an item, for each key of a tile
  // 8 heads of K and V, 132 SMs: 16 parts fill 128 of them, and 33 parts twice as many places.
  CHECK(split_count(8, 512, 132, 4 * row) == 16);
  // A wave and more without parts: splitting costs the merge and gains little.
  CHECK(split_count(132, 64, 132, row) == 1);
  // 38 parts would fill the last wave, but 64 rows of 32 keys leave more states than they save.
  CHECK(split_count(128, 1024, 132, 1 * row) == 38);
  CHECK(split_count(128, 1024, 132, 64.0 / 32) == 1);
  // Never more parts than tiles, or than a warp can read.
  CHECK(split_count(1, 3, 132, row) == 3);
  CHECK(split_count(1, 1 << 20, 10'000, row) <= kMostParts);
  // What is chosen costs no more than any other number.
  for (const int items : {1, 7, 8, 64, 200, 265, 512, 1000}) {
    for (const int tiles : {1, 2, 31, 64, 512, 5000}) {
      for (const double rows : {row, 0.25, 2.0}) {
        const int best = split_count(items, tiles, 132, rows);
        CHECK(best >= 1);
        for (int parts = 1; parts <= std::min(tiles, kMostParts); ++parts) {
          CHECK(split_cost(items, tiles, 132, best, rows) <=
                split_cost(items, tiles, 132, parts, rows));
        }
      }
    }
  }
}
