// Tiled attention against lesson 01: tile sizes, edges, masks, hard logits, threads and memory.
#include "03_online_softmax/tiled.hpp"

#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "01_naive_attention/tests/problem.hpp"
#include "common/check/acceptance.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using doctest::Contains;
using online::tiled_forward;
using online::Tiles;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSizes[] = {1, 2, 3, 7, 16, 64, 100};

using Problem = testing::Problem<float>;

// The references of a problem, computed once for many tile sizes.
struct References {
  explicit References(const Problem& p)
      : q(converted<double>(p.q)),
        k(converted<double>(p.k)),
        v(converted<double>(p.v)),
        ref(naive::forward<double>(q, k, v, p.options)),
        plain(naive::forward<float>(p.q, p.k, p.v, p.options)) {}

  Tensor<double, 4> q, k, v;
  naive::Forward<double> ref;
  naive::Forward<float> plain;
};

// Checks O and LSE of one tile size, float by the acceptance rule and double to a few last digits.
void check_tiles(const Problem& p, const References& references, const Tiles& tiles) {
  CAPTURE(to_string(p.q.shape()));
  CAPTURE(to_string(p.k.shape()));
  CAPTURE(p.options.causal);
  CAPTURE(tiles.block_m);
  CAPTURE(tiles.block_n);
  const auto out = tiled_forward<float>(p.q, p.k, p.v, p.options, tiles);
  // Tiles of one or two keys add to O key by key. The textbook's single matmul adds in packets,
  // which rounds less, so the plain rule applies to larger tiles only.
  const bool key_by_key = p.k.size(2) / tiles.block_n > 250;
  const double factor = key_by_key ? 3 * kForwardFactor : kForwardFactor;
  const Verdict o = accept("o", out.o, references.ref.o, references.plain.o, factor);
  CHECK_MESSAGE(o.accepted, o.report());
  const Verdict lse = accept("lse", out.lse, references.ref.lse, references.plain.lse);
  CHECK_MESSAGE(lse.accepted, lse.report());

  const auto out64 =
      tiled_forward<double>(references.q, references.k, references.v, p.options, tiles);
  const Distance o64 = distance(out64.o.view(), references.ref.o.view());
  const Distance lse64 = distance(out64.lse.view(), references.ref.lse.view());
  // A score of size x has an error of x epsilon, and its exp that relative error.
  const double allowed = 1e-14 * (1 + lse64.max_reference);
  CHECK(o64.invalid == 0);
  CHECK(o64.max_error <= allowed);
  CHECK(lse64.invalid == 0);
  CHECK(lse64.max_error <= allowed);
}

void check_tiles(const Problem& p, const std::vector<Tiles>& all) {
  const References references(p);
  for (const Tiles& tiles : all) check_tiles(p, references, tiles);
}

void check_every_tile_size(const Problem& p) {
  std::vector<Tiles> all{{}, {kHuge, kHuge}};
  for (const std::int64_t block_m : kSizes) {
    for (const std::int64_t block_n : kSizes) all.push_back({block_m, block_n});
  }
  check_tiles(p, all);
}

}  // namespace

TEST_CASE("tiles of every size give the answers of lesson 01") {
  const std::pair<std::int64_t, std::int64_t> lengths[] = {{1, 1},     {17, 17}, {113, 203},
                                                           {203, 113}, {799, 3}, {3, 799}};
  for (const auto& [length_q, length_k] : lengths) {
    for (const bool causal : {false, true}) {
      check_every_tile_size(Problem({1, 1, length_q, 8}, {1, 1, length_k, 8}, causal));
    }
  }
}

TEST_CASE("batches, groups of heads, a given scale, and any number of columns of q, k and v") {
  for (const std::int64_t head_dim : {1, 3, 17, 33}) {
    for (const std::int64_t kv_heads : {1, 2, 6}) {
      const Problem p({2, 6, 21, head_dim}, {2, kv_heads, 37, head_dim}, true, 0.2, -0.7, 16);
      check_tiles(p, {{8, 8}, {5, 7}, {64, 128}});
    }
  }
}

TEST_CASE("dropout removes elements from O and none from LSE") {
  for (const bool causal : {false, true}) {
    for (const double probability : {0.1, 0.5, 0.9}) {
      const Problem p({1, 2, 37, 8}, {1, 2, 53, 8}, causal, probability);
      std::vector<Tiles> all;
      for (const std::int64_t size : kSizes) {
        all.push_back({size, size});
        all.push_back({size, 16});
      }
      check_tiles(p, all);
      AttentionOptions nothing_dropped = p.options;
      nothing_dropped.dropout_keep = {};
      CHECK(same_bits(tiled_forward<float>(p.q, p.k, p.v, p.options, {8, 8}).lse,
                      tiled_forward<float>(p.q, p.k, p.v, nothing_dropped, {8, 8}).lse));
    }
  }
}

TEST_CASE("views with any strides give the bits that row-major ones give") {
  const Problem p({2, 4, 19, 6}, {2, 2, 23, 6}, true, 0.3);
  const Tiles tiles{8, 8};
  const auto expected = tiled_forward<float>(p.q, p.k, p.v, p.options, tiles);
  const auto equal = [&](View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                         const AttentionOptions& options) {
    const auto out = tiled_forward<float>(q, k, v, options, tiles);
    CHECK(same_bits(out.o, expected.o));
    CHECK(same_bits(out.lse, expected.lse));
  };
  // Memory [B, N, H, D], [B, H, D, N], ... seen as [B, H, N, D].
  for (const auto& [first, second] :
       std::vector<std::pair<int, int>>{{1, 2}, {2, 3}, {0, 3}, {1, 3}}) {
    const auto moved = [&, a = first, b = second](const auto& tensor) {
      const auto swapped = tensor.view().swap_axes(a, b);
      return converted<std::decay_t<decltype(tensor.data()[0])>>(swapped);
    };
    const auto q = moved(p.q), k = moved(p.k), v = moved(p.v);
    const auto keep = moved(p.keep);
    AttentionOptions options = p.options;
    options.dropout_keep = keep.view().swap_axes(first, second);
    equal(q.view().swap_axes(first, second), k.view().swap_axes(first, second),
          v.view().swap_axes(first, second), options);
  }
  // Strides may be negative or 0: reversed in memory, and one key for every head.
  Tensor<float, 4> reversed(p.k.shape());
  View<float, 4> backwards(reversed.data() + reversed.count() - 1, p.k.shape(),
                           row_major_strides(p.k.shape()));
  Shape<4> strides = backwards.strides();
  for (std::int64_t& stride : strides) stride = -stride;
  backwards = View<float, 4>(backwards.data(), p.k.shape(), strides);
  copy(p.k.view(), backwards);
  equal(p.q, backwards, p.v, p.options);

  strides = row_major_strides(p.k.shape());
  strides[1] = 0;
  const View<const float, 4> repeated(p.k.data(), p.k.shape(), strides);
  const auto dense = converted<float>(repeated);
  CHECK(same_bits(tiled_forward<float>(p.q, repeated, p.v).o,
                  tiled_forward<float>(p.q, dense, p.v).o));
}

TEST_CASE("masked keys and values do not reach a query") {
  // A masked value of NaN would make O NaN even with P = 0, if its tile were not skipped.
  Problem p({1, 1, 32, 8}, {1, 1, 32, 8}, true);
  const auto before = tiled_forward<float>(p.q, p.k, p.v, p.options, {8, 8});
  poison(p.k.view().narrow(2, 16, 32));
  poison(p.v.view().narrow(2, 16, 32));
  const auto after = tiled_forward<float>(p.q, p.k, p.v, p.options, {8, 8});
  for (std::int64_t i = 0; i < 32; ++i) {
    CHECK(std::isnan(after.lse(0, 0, i)) == (i >= 16));
    for (std::int64_t c = 0; c < 8; ++c) {
      CHECK(std::isnan(after.o(0, 0, i, c)) == (i >= 16));
      if (i < 16) CHECK(after.o(0, 0, i, c) == before.o(0, 0, i, c));
    }
  }
}

TEST_CASE("logits of 1e4 either way do not overflow") {
  for (const bool causal : {false, true}) {
    Problem p({1, 1, 70, 16}, {1, 1, 90, 16}, causal, 0, 1.0);
    // The first element alone alternates between logits of 1e4, -1e4 and about 0.
    for (std::int64_t i = 0; i < 70; ++i) p.q(0, 0, i, 0) = 100;
    for (std::int64_t j = 0; j < 90; ++j) {
      p.k(0, 0, j, 0) = static_cast<float>(100 * (j % 3 - 1));
    }
    check_every_tile_size(p);
    // All of them -1e4: exp(s) is 0 for every key, the softmax is not.
    for (std::int64_t j = 0; j < 90; ++j) p.k(0, 0, j, 0) = -100;
    check_every_tile_size(p);
  }
}

TEST_CASE("maxima that rise or fall with every key and every tile") {
  for (const double step : {0.5, -0.5, 20.0, -20.0, 200.0, -200.0}) {
    Problem p({1, 1, 40, 4}, {1, 1, 64, 4}, false, 0, 1.0);
    for (std::int64_t i = 0; i < 40; ++i) p.q(0, 0, i, 0) = 1;
    for (std::int64_t j = 0; j < 64; ++j) {
      p.k(0, 0, j, 0) = static_cast<float>(step * static_cast<double>(j));
    }
    CAPTURE(step);
    check_every_tile_size(p);
  }
}

TEST_CASE("scores that overflow to -infinity count as masked") {
  Problem p({1, 1, 20, 4}, {1, 1, 24, 4}, false, 0, 1.0);
  for (std::int64_t i = 0; i < 20; ++i) {
    for (std::int64_t c = 0; c < 4; ++c) p.q(0, 0, i, c) = 1e30f;
  }
  const auto overflow = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = 0; j < 24; ++j) {
      for (std::int64_t c = 0; c < 4; ++c) {
        p.k(0, 0, j, c) = j >= begin && j < end ? -1e30f : (c % 2 == 0 ? 1e-30f : 0.f);
      }
    }
  };
  // A whole tile, parts of two, and last every key.
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 8}, {8, 16}, {16, 24}, {4, 12}, {0, 24}}) {
    overflow(begin, end);
    const auto out = tiled_forward<float>(p.q, p.k, p.v, p.options, {8, 8});
    const auto expected = naive::forward<float>(p.q, p.k, p.v, p.options);
    const auto o = converted<double>(expected.o);
    const auto lse = converted<double>(expected.lse);
    const Distance o_off = distance<float, 4>(out.o, o);
    const Distance lse_off = distance<float, 3>(out.lse, lse);
    CHECK(o_off.invalid == 0);
    CHECK(o_off.max_error < 1e-6);
    CHECK(lse_off.invalid == 0);
    CHECK(lse_off.max_error < 1e-6);
    CHECK(std::isinf(out.lse(0, 0, 0)) == (end - begin == 24));
  }
}

TEST_CASE("NaN in the inputs is not lost") {
  for (const std::int64_t length_k : {1, 7, 24}) {
    Problem p({1, 1, 9, 4}, {1, 1, length_k, 4});
    p.q(0, 0, 3, 2) = std::numeric_limits<float>::quiet_NaN();
    for (const std::int64_t size : kSizes) {
      const auto out = tiled_forward<float>(p.q, p.k, p.v, p.options, {size, size});
      for (std::int64_t i = 0; i < 9; ++i) {
        CHECK(std::isnan(out.lse(0, 0, i)) == (i == 3));
        CHECK(std::isnan(out.o(0, 0, i, 0)) == (i == 3));
      }
    }
  }
}

TEST_CASE("the number of threads does not change a bit") {
  const Problem p({2, 4, 75, 16}, {2, 2, 90, 16}, true, 0.1);
  const Tiles tiles{16, 32};
  std::optional<naive::Forward<float>> first;
  for (const int count : {1, 2, 3, 8}) {
    const testing::Threads threads(count);
    const auto out = tiled_forward<float>(p.q, p.k, p.v, p.options, tiles);
    if (!first) first = out;
    CHECK(same_bits(out.o, first->o));
    CHECK(same_bits(out.lse, first->lse));
  }
}

TEST_CASE("tile_done is called once for each query tile") {
  const Problem p({2, 3, 75, 4}, {2, 1, 20, 4}, true);
  for (const std::int64_t block_m : {1, 16, 25, 74, 75, 76}) {
    std::atomic<std::int64_t> calls{0};
    const Tiles tiles{block_m, 8};
    tiled_forward<float>(p.q, p.k, p.v, p.options, tiles, [&] { ++calls; });
    CHECK(calls ==
          2 * 3 * static_cast<std::int64_t>(std::ceil(75.0 / static_cast<double>(block_m))));
    CHECK(calls == online::tile_count({2, 3, 1, 75, 20, 4}, tiles));
  }
  CHECK(online::tile_count({1, 2, 2, 30, 40, 4}, {kHuge, kHuge}) == 2);
  CHECK_THROWS_WITH_AS(tiled_forward<float>(p.q, p.k, p.v, p.options, {},
                                            [] { throw std::runtime_error("enough"); }),
                       "enough", std::runtime_error);
}

TEST_CASE("sizes and options that do not fit are refused") {
  Problem p({1, 2, 3, 4}, {1, 2, 5, 4}, false, 0.5);
  const auto call = [&](const Tiles& tiles) {
    return tiled_forward<float>(p.q, p.k, p.v, p.options, tiles);
  };
  CHECK_THROWS_WITH_AS(call({0, 64}), Contains("0 queries"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(call({64, -3}), Contains("-3 keys"), std::invalid_argument);
  CHECK_THROWS_AS(online::tile_count({1, 2, 2, 3, 5, 4}, {0, 1}), std::invalid_argument);
  CHECK_THROWS_AS(tiled_forward<float>(p.q, p.k, p.q), std::invalid_argument);
  p.options.dropout_probability = 1;
  CHECK_THROWS_AS(call({}), std::invalid_argument);
}

#if defined(__linux__)
TEST_CASE("memory grows with the length, not with its square") {
  const std::int64_t length = 4096;  // its square: 64 MiB of float
  const Problem p({1, 1, length, 4}, {1, 1, length, 4}, true);
  const double start = testing::peak_mebibytes([] {});
  const double tiled = testing::peak_mebibytes([&] {
    const testing::Threads threads(2);
    tiled_forward<float>(p.q, p.k, p.v, p.options);
  });
  const double textbook =
      testing::peak_mebibytes([&] { naive::forward<float>(p.q, p.k, p.v, p.options); });
  CHECK(textbook - start > 64);  // the measurement works
  CHECK(tiled - start < 16);     // threads, tiles and 80 KiB of result
}
#endif
