/// @file
/// What graders say of rules for tiles. Students' files cannot include what is in this folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "05_flash_forward/exercises/tile_kinds.hpp"
#include "common/classroom/grader.hpp"

namespace fa::classroom {

/// Whether a query sees a key.
using Sees = std::function<bool(int query, int key)>;

/// The case, in words.
inline std::string words(const Mask& m) {
  return fmt::format("{} queries, {} keys, reach {}, tiles of {} queries and {} keys", m.length_q,
                     m.length_k, m.reach, m.block_m, m.block_n);
}

/// Refuses kinds of tiles that change a result, and shows the key that is lost or seen.
/// @param kinds of tile_kinds()
/// @param tight refuses those that only cost time, too
inline void check_kinds(const Mask& m, const std::vector<int>& kinds, const Sees& sees,
                        bool tight) {
  const int columns = (m.length_k + m.block_n - 1) / m.block_n;
  for (int tile = 0; tile < static_cast<int>(kinds.size()); ++tile) {
    const int query0 = tile / columns * m.block_m, key0 = tile % columns * m.block_n;
    const int query1 = std::min(query0 + m.block_m, m.length_q) - 1;
    const int key1 = std::min(key0 + m.block_n, m.length_k) - 1;
    int seen[2] = {-1, -1}, masked[2] = {-1, -1};  // a query and a key
    for (int query = query0; query <= query1; ++query) {
      for (int key = key0; key <= key1; ++key) {
        int* const pair = sees(query, key) ? seen : masked;
        pair[0] = query;
        pair[1] = key;
      }
    }
    const std::string of =
        fmt::format("the tile of queries {} to {} and keys {} to {} ", query0, query1, key0, key1);
    const std::string where = " (case: " + words(m) + ")";
    require(kinds[tile] != 0 || seen[0] < 0,
            fmt::format("a key is lost: {}is skipped, and query {} sees key {}{}", of, seen[0],
                        seen[1], where));
    require(kinds[tile] != 2 || masked[0] < 0,
            fmt::format("{}is called whole, so no score of it is masked, and query {} does not see "
                        "key {}{}",
                        of, masked[0], masked[1], where));
    if (!tight) continue;
    require(kinds[tile] == 0 || seen[0] >= 0,
            of + "is multiplied although no query sees a key of it" + where);
    require(kinds[tile] == 2 || masked[0] >= 0,
            of + "asks for a mask, and every query sees all of its keys" + where);
  }
}

}  // namespace fa::classroom
