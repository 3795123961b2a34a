/// @file
/// With which problems kernels of attention are watched, forward and backward.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/src/backend.hpp"

namespace fa::flash {

/// The problems with which a rung is watched. They are chosen so that every branch is taken, for each form of its tiles:
/// - few queries, less than a tile, and keys one beyond a tile; with dropout where the rung drops weights;
/// - few keys, not much more than half a tile, and queries one beyond two tiles: with the mask a whole tile of queries
///   sees no key. Two sequences of four heads that share two heads of keys;
/// - whole tiles of all columns, where a block goes through tiles two more than there are stages: no guard applies, and
///   every stage is used again. Where blocks persist there are heads enough for three tiles of queries for each of
///   two blocks;
/// - ragged: one query and one key beyond whole tiles, as many tiles as there are stages and one more, fewer columns than
///   the kernel is compiled for; two heads share one of keys.
/// @param rung   what it takes
/// @param type   of the inputs
/// @param causal the mask
inline std::vector<Problem> watched_problems(const RungInfo& rung, Type type,
                                             bool causal) {
  std::vector<Problem> problems;
  const auto add = [&](const AttentionShape& shape,
                       bool has_dropout = false) {
    Problem problem;
    problem.type = type;
    problem.shape = shape;
    problem.causal = causal;
    problem.dropout = has_dropout ? 0.17 : 0;
    problem.seed = 5;
    problems.push_back(problem);
  };
  const auto whole = [](std::int64_t tile, std::int64_t stages) {
    return stages == 0 ? tile : (stages + 2) * tile;
  };
  const auto ragged = [](std::int64_t tile, std::int64_t stages) {
    return (stages == 0 ? 1 : stages) * tile + 1;
  };
  for (const Tiles& t : rung.tiles) {
    const std::int64_t d = t.head_dim, narrow = d - 24;
    add({1, 1, 1, t.queries / 2 + 1, t.keys + 1, d}, rung.supports_dropout);
    add({2, 4, 2, 2 * t.queries + 1, t.keys / 2 + 1, narrow});
    const std::int64_t heads = t.persists ? 6 : 1;
    add({1, heads, heads, whole(t.queries, t.query_stages),
         whole(t.keys, t.key_stages), d});
    add({1, 2, 1, ragged(t.queries, t.query_stages),
         ragged(t.keys, t.key_stages), narrow});
  }
  return problems;
}

/// The sizes of a watched problem in words: "2 x 4 on 2 heads, 257 queries, 33 keys, D 40, causal".
inline std::string watched_words(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  return fmt::format("{} x {} on {} heads, {} queries, {} keys, D {}{}{}",
                     s.batch, s.heads, s.kv_heads, s.length_q, s.length_k,
                     s.head_dim, problem.causal ? ", causal" : "",
                     problem.dropout > 0 ? ", dropout" : "");
}

}  // namespace fa::flash
