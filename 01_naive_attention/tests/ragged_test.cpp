// Sequences of different lengths, packed or paged, against loops over the definition.
#include "01_naive_attention/ragged.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include <doctest/doctest.h>

#include "common/tensor/random.hpp"

using namespace fa;
using Lengths = std::vector<std::int32_t>;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One element of O, or LSE: the definition for one query with none of lesson 01's code.
// score(j) and value(j) of the keys that the query sees.
template <class Score, class Value>
std::pair<double, double> one_query(std::int64_t visible, Score score, Value value) {
  double l = 0, o = 0;
  for (std::int64_t j = 0; j < visible; ++j) {
    l += std::exp(score(j));
    o += std::exp(score(j)) * value(j);
  }
  return {l == 0 ? 0 : o / l, std::log(l)};
}

void check_close(double result, double expected) {
  if (expected == -kInfinity) {
    CHECK(result == expected);
  } else {
    CHECK(result == doctest::Approx(expected).epsilon(1e-12));
  }
}

Lengths running_sum(const Lengths& lengths) {
  Lengths sums{0};
  for (const std::int32_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

void check_varlen(const Lengths& lengths_q, const Lengths& lengths_k, bool causal) {
  constexpr std::int64_t heads = 4, kv_heads = 2, d = 3, d_v = 2;
  const Lengths cu_q = running_sum(lengths_q), cu_k = running_sum(lengths_k);
  const auto q = normal_tensor<double, 3>({cu_q.back(), heads, d}, 1);
  const auto k = normal_tensor<double, 3>({cu_k.back(), kv_heads, d}, 2);
  const auto v = normal_tensor<double, 3>({cu_k.back(), kv_heads, d_v}, 3);
  AttentionOptions options;
  options.causal = causal;
  options.scale = 0.7;
  const auto result = naive::forward_varlen<double>(q, k, v, cu_q, cu_k, options);
  REQUIRE(result.o.shape() == Shape<3>{cu_q.back(), heads, d_v});
  REQUIRE(result.lse.shape() == Shape<2>{heads, cu_q.back()});
  for (std::size_t s = 0; s < lengths_q.size(); ++s) {
    for (std::int64_t i = 0; i < lengths_q[s]; ++i) {
      const std::int64_t seen =
          causal ? std::max<std::int64_t>(0, i + 1 + lengths_k[s] - lengths_q[s]) : lengths_k[s];
      const std::int64_t token = cu_q[s] + i, first = cu_k[s];
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto score = [&](std::int64_t j) {
          double dot = 0;
          for (std::int64_t e = 0; e < d; ++e) dot += q(token, h, e) * k(first + j, h / 2, e);
          return 0.7 * dot;
        };
        for (std::int64_t e = 0; e < d_v; ++e) {
          const auto [o, lse] =
              one_query(seen, score, [&](std::int64_t j) { return v(first + j, h / 2, e); });
          check_close(result.o(token, h, e), o);
          check_close(result.lse(h, token), lse);
        }
      }
    }
  }
}

// A cache of pages in which sequence b has the pages that `table` says.
void check_paged(const Tensor<std::int32_t, 2>& pages, const Lengths& lengths,
                 std::int64_t page_size, std::int64_t length_q, bool causal) {
  constexpr std::int64_t heads = 2, kv_heads = 1, d = 3, d_v = 4, cache_pages = 7;
  const std::int64_t batch = pages.size(0);
  const auto q = normal_tensor<double, 4>({batch, heads, length_q, d}, 1);
  const auto k = normal_tensor<double, 4>({cache_pages, page_size, kv_heads, d}, 2);
  const auto v = normal_tensor<double, 4>({cache_pages, page_size, kv_heads, d_v}, 3);
  AttentionOptions options;
  options.causal = causal;
  const auto result = naive::forward_paged<double>(q, k, v, {pages, lengths}, options);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < length_q; ++i) {
        const std::int64_t seen =
            causal ? std::max<std::int64_t>(0, i + 1 + length - length_q) : length;
        const auto score = [&](std::int64_t j) {
          double dot = 0;
          for (std::int64_t e = 0; e < d; ++e) {
            dot += q(b, h, i, e) * k(pages(b, j / page_size), j % page_size, 0, e);
          }
          return dot / std::sqrt(3.0);
        };
        for (std::int64_t e = 0; e < d_v; ++e) {
          const auto [o, lse] = one_query(seen, score, [&](std::int64_t j) {
            return v(pages(b, j / page_size), j % page_size, 0, e);
          });
          check_close(result.o(b, h, i, e), o);
          check_close(result.lse(b, h, i), lse);
        }
      }
    }
  }
}

Tensor<std::int32_t, 2> table_of(const std::vector<Lengths>& rows) {
  Tensor<std::int32_t, 2> table(
      {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())});
  std::size_t i = 0;
  for (const Lengths& row : rows) {
    for (const std::int32_t page : row) table.data()[i++] = page;
  }
  return table;
}

// What a check says about a table; "" when it accepts it.
std::string objection(const Tensor<std::int32_t, 2>& pages, const Lengths& lengths,
                      std::int64_t cache_pages, std::int64_t page_size) {
  try {
    BlockTable{pages, lengths}.check(cache_pages, page_size);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}
std::string objection(const Lengths& cu_seqlens, std::int64_t tokens) {
  try {
    check_cu_seqlens("cu_seqlens_k", cu_seqlens, tokens);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("packed sequences attend to their own keys only") {
  for (const bool causal : {false, true}) {
    check_varlen({5}, {5}, causal);
    check_varlen({1, 4, 2}, {3, 4, 7}, causal);
    check_varlen({0, 3, 0, 1, 0}, {2, 3, 0, 1, 5}, causal);  // no query
    check_varlen({2, 3, 1}, {4, 0, 1}, causal);              // no key
    check_varlen({6, 1}, {2, 1}, causal);                    // rows that see no key
  }
}

TEST_CASE("a paged cache gives what its tokens give in order") {
  for (const bool causal : {false, true}) {
    check_paged(table_of({{4, 1, 6}, {0, 5, 3}}), {12, 12}, 4, 2, causal);
    check_paged(table_of({{4, 1, 6}, {0, 5, 3}}), {1, 10}, 4, 3, causal);  // a half-full page
    check_paged(table_of({{2, 0}, {2, 1}}), {5, 8}, 4, 1, causal);         // a shared page
    check_paged(table_of({{-1, 99}, {6, -7}}), {0, 3}, 4, 2, causal);      // unused elements
    check_paged(table_of({{3, 2, 1, 0}}), {4}, 1, 1, causal);
  }
}

TEST_CASE("sequences of different lengths have no dropout, and as many lengths as rows") {
  const auto q = normal_tensor<double, 3>({4, 2, 3}, 1), k = normal_tensor<double, 3>({4, 1, 3}, 2);
  AttentionOptions options;
  const auto keep = random_keep_mask<4>({1, 2, 4, 4}, 0.5, 5);
  options.dropout_keep = keep;
  options.dropout_probability = 0.5;
  CHECK_THROWS_WITH_AS(naive::forward_varlen<double>(q, k, k, {0, 4}, {0, 4}, options),
                       "a dropout mask of shape [1, 2, 4, 4]; sequences of different lengths have "
                       "no dropout",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(naive::forward_varlen<double>(q, k, k, {0, 4}, {0, 2, 4}),
                       "cu_seqlens_q has 1 sequences and cu_seqlens_k 2; they must have as many",
                       std::invalid_argument);
  const auto q4 = normal_tensor<double, 4>({1, 2, 1, 3}, 1);
  const auto cache = normal_tensor<double, 4>({2, 4, 1, 3}, 2);
  CHECK_THROWS_WITH_AS(
      naive::forward_paged<double>(q4, cache, cache, {table_of({{0}, {1}}), {4, 4}}),
      "q has batch 1, and the block table has 2 rows; they must be as many", std::invalid_argument);
}

TEST_CASE("cu_seqlens must begin with 0, never decrease and end with the number of tokens") {
  CHECK(objection({0, 3, 3, 7}, 7).empty());
  CHECK(objection({}, 7) ==
        "cu_seqlens_k has 0 elements; it must have one more than there are sequences, at least 2");
  CHECK(objection({0}, 0) ==
        "cu_seqlens_k has 1 elements; it must have one more than there are sequences, at least 2");
  CHECK(objection({1, 7}, 7) == "cu_seqlens_k[0] is 1; it must be 0");
  CHECK(objection({0, 5, 4, 7}, 7) ==
        "cu_seqlens_k[2] is 4, less than cu_seqlens_k[1], which is 5");
  CHECK(objection({0, 3, 8}, 7) ==
        "cu_seqlens_k[2], the last one, is 8; it must be 7, the number of tokens");
  CHECK(objection({0, 3, 6}, 7) ==
        "cu_seqlens_k[2], the last one, is 6; it must be 7, the number of tokens");
}

TEST_CASE("a block table names pages of the cache, as many as a length needs") {
  const auto table = table_of({{0, 2, 9}, {1, -1, 3}});
  CHECK(objection(table, {8, 4}, 4, 4).empty());
  CHECK(objection(table, {8}, 4, 4) ==
        "the block table has 2 rows, and there are 1 lengths; they must be as many");
  CHECK(objection(table, {9, 4}, 4, 4) ==
        "the block table has page 9 in row 0, column 2; allowed are 0 to 3");
  CHECK(objection(table, {8, 5}, 4, 4) ==
        "the block table has page -1 in row 1, column 1; allowed are 0 to 3");
  CHECK(objection(table, {8, 13}, 4, 4) ==
        "sequence 1 has length 13; allowed are 0 to 12, in 3 pages of 4");
  CHECK(objection(table, {-1, 4}, 4, 4) ==
        "sequence 0 has length -1; allowed are 0 to 12, in 3 pages of 4");
  CHECK(objection(table, {8, 4}, 4, 0) == "page_size is 0; it must be at least 1");
}
