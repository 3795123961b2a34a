#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Rows of a tile.
constexpr int kTileRows = 8;
/// Columns of a row.
constexpr int kColumns = 16;
/// Threads of a block, one for each element of a tile.
constexpr int kThreads = kTileRows * kColumns;

/// Blocks of the grid, one for each slot. The host does not know cu_seqlens.
inline int slot_count(int tokens, int sequences) {
  return tokens / kTileRows + sequences;
}

/// Adds to each row of x the embedding of its position in its sequence.
__global__ void add_positions(const int* cu_seqlens, int sequences, const float* embeddings,
                              float* x, int* sequence_of_slot) {
  const int slot = blockIdx.x;
#ifdef FA_SOLUTION
  int low = 0, high = sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (cu_seqlens[middle] / kTileRows + middle <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const int sequence = low;
  const int begin = cu_seqlens[sequence];
  const int length = cu_seqlens[sequence + 1] - begin;
  const int tile = slot - (begin / kTileRows + sequence);
  if (tile * kTileRows >= length) return;
  const int rows = min(kTileRows, length - tile * kTileRows);
#else
  // TODO: a block whose slot is empty returns here. For the others: the
  // sequence, the number of the tile in it, and how many rows the tile has.
  const int sequence = 0, tile = 0, rows = 0;
  (void)sequences;
#endif
  if (threadIdx.x == 0) sequence_of_slot[slot] = sequence;
  const int row = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
  if (row >= rows) return;
  const int position = tile * kTileRows + row;
  const int token = cu_seqlens[sequence] + position;
  x[token * kColumns + column] += embeddings[position * kColumns + column];
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
// sequence_of_slot, and then x. On either side of the rows that count, x and the embeddings have
// `room` more, so that a tile at the wrong place is a wrong result and not an access out of bounds.
FA_ENTRY(run, [](const std::vector<int>& cu_seqlens, int tokens, int room,
                 const std::vector<float>& embeddings, const std::vector<float>& rows) {
  return watched([&] {
    const int sequences = static_cast<int>(cu_seqlens.size()) - 1;
    const int slots = slot_count(tokens, sequences);
    const auto begins = on_device(cu_seqlens);
    const auto of_position = on_device(embeddings);
    auto x = on_device(rows);
    auto found = on_device(std::vector<int>(static_cast<std::size_t>(slots), -1));
    launch(add_positions, {{static_cast<unsigned>(slots)}, {kThreads}}, begins.data(), sequences,
           of_position.data() + room * kColumns, x.data() + room * kColumns, found.data());
    std::vector<double> all = from_device(found);
    for (const double value : from_device(x)) all.push_back(value);
    return all;
  });
});
#elif defined(FA_GRADER)
#include <numeric>

#include <fmt/ranges.h>

#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kTileRows = 8;
constexpr int kColumns = 16;
// Position p has the embedding kAdded + p, in all columns: a sum of some shows how many they are.
constexpr int kAdded = 1024;

struct Case {
  std::vector<int> lengths;
  int more = 0;  // rows behind the last sequence

  int sequences() const { return static_cast<int>(lengths.size()); }
  int length(int i) const { return lengths[static_cast<std::size_t>(i)]; }
  int begin(int i) const { return std::accumulate(lengths.begin(), lengths.begin() + i, 0); }
  int tokens() const { return begin(sequences()) + more; }
  int slots() const { return tokens() / kTileRows + sequences(); }
  int first_slot(int i) const { return begin(i) / kTileRows + i; }
  int room() const { return tokens() + kTileRows * (sequences() + 1); }
  std::vector<int> cu_seqlens() const {
    std::vector<int> result;
    for (int i = 0; i <= sequences(); ++i) result.push_back(begin(i));
    return result;
  }
  std::vector<float> embeddings() const {
    std::vector<float> result;
    for (int p = -room(); p < tokens() + room(); ++p) {
      result.insert(result.end(), kColumns, static_cast<float>(kAdded + p));
    }
    return result;
  }
  std::vector<float> x() const {
    std::vector<float> result;
    for (int i = 0; i < (tokens() + 2 * room()) * kColumns; ++i) {
      result.push_back(static_cast<float>(i % 7));
    }
    return result;
  }
  std::string where() const {
    const bool all_one = sequences() > 8 && *std::max_element(lengths.begin(), lengths.end()) == 1;
    return (all_one ? fmt::format("{} sequences of one row", sequences())
                    : fmt::format("sequences of {} rows", fmt::join(lengths, ", "))) +
           (more == 0 ? "" : fmt::format(", and {} rows behind the last one", more));
  }

  Launched launched() const {
    return call<Launched>("run", cu_seqlens(), tokens(), room(), embeddings(), x());
  }

  // What the launch must leave: the sequence of each slot, -1 for an empty one, and x.
  std::vector<double> right() const {
    std::vector<double> result;
    for (int slot = 0, i = 0; slot < slots(); ++slot) {
      while (i + 1 < sequences() && first_slot(i + 1) <= slot) ++i;
      result.push_back((slot - first_slot(i)) * kTileRows < length(i) ? i : -1);
    }
    std::vector<float> all = x();
    for (int i = 0; i < sequences(); ++i) {
      for (int at = 0; at < length(i) * kColumns; ++at) {
        all[static_cast<std::size_t>((room() + begin(i)) * kColumns + at)] +=
            static_cast<float>(kAdded + at / kColumns);
      }
    }
    result.insert(result.end(), all.begin(), all.end());
    return result;
  }
};

const std::vector<Reason> kReasons = {
    {"out of bounds",
     "it reads beside cu_seqlens, or another array: sequences are numbered from 0 to "
     "sequences - 1, and slots behind those of the last one are empty"},
    own_elements(),
    {"race",
     "a thread uses an element that another one writes: a barrier is missing, or two blocks change "
     "the same row, because a tile does not end where its sequence ends"}};

void grade(const Case& c) {
  const Launched launched = c.launched();
  const std::vector<double> right = c.right();
  const auto part = [](const std::vector<double>& all, int begin, int count) {
    return std::vector<double>(all.begin() + begin, all.begin() + begin + count);
  };
  const int slots = c.slots(), first = slots + c.room() * kColumns, count = c.tokens() * kColumns;
  require(launched.out.size() == right.size(), "x or sequence_of_slot has another size");
  check_result(launched.seen, kReasons, {"sequence_of_slot", part(launched.out, 0, slots)},
               part(right, 0, slots), 0, {},
               c.where() +
                   "; -1: the slot is empty, and its block returns; the first tile of sequence i "
                   "is in slot floor(begin / 8) + i");
  check_result(
      launched.seen, kReasons, {"x", part(launched.out, first, count), kColumns},
      part(right, first, count), 0, {},
      c.where() + "; row p of a sequence gets 1024 + p, and a tile ends where its sequence ends");
  check_result(launched.seen, kReasons, {"what lies beside x", launched.out}, right, 0, {},
               c.where());
}

}  // namespace

FA_STAGE(easy) {
  grade({{8, 24, 16}});
  grade({{8}});
  grade({{24, 8, 8, 16}});
}

FA_STAGE(odd) {
  grade({{10, 6, 19}});
  grade({{8, 1, 7, 9}});
  grade({{9, 0, 0, 12, 10, 0}});
  grade({{0, 0, 5, 0, 16}});
  grade({std::vector<int>(40, 1)});
  grade({{1, 100, 1}});
  grade({{0, 0}});
  grade({{13, 3}, 24});
  grade({{0, 7, 0}, 40});
}

FA_STAGE(races) {
  require_no_races(Case{{10, 6, 0, 19}}.launched().seen, kReasons);
}

FA_STAGE(traffic) {
  const int sequences = 256;
  const Case c{std::vector<int>(sequences, 1)};
  const Launched launched = c.launched();
  needs_watching(launched.seen);
  // A row is read and written, and its embedding is read: two sectors each. One is the slot's
  // sequence. Of cu_seqlens each of the four warps reads a sector at a time, or, where its lanes
  // search together, 32 of them and then what is left.
  const std::int64_t copies = c.tokens() * 7, steps = 8;
  note("sectors of global memory", launched.seen.sectors);
  budget("sectors of global memory", launched.seen.sectors, copies + 4 * c.slots() * (32 + steps),
         "find the sequence by bisection: 256 sequences take 8 steps", copies);
}
#endif
/* Other answers, as changes of the solution
# no_return: an empty slot gets a sequence
@ easy: the slot is empty, and its block returns
- if (tile * kTileRows >= length) return;
+

# no_barrier: the other threads do not wait for the one that searches
@ races: a barrier is missing
- int low = 0, high = sequences - 1;
- ...
- const int sequence = low;
+   __shared__ int found;
+   if (threadIdx.x == 0) {
+     int low = 0, high = sequences - 1;
+     while (low < high) {
+       const int middle = (low + high + 1) / 2;
+       const bool behind = cu_seqlens[middle] / kTileRows + middle > slot;
+       if (behind) high = middle - 1;
+       if (!behind) low = middle;
+     }
+     found = low;
+   }
+   const int sequence = found;

# linear: all sequences before it are read
@ traffic: bisection
- int low = 0, high = sequences - 1;
- ...
- high = middle - 1;
- }
- }
+   int low = 0;
+   while (low + 1 < sequences && cu_seqlens[low + 1] / kTileRows + low + 1 <= slot) ++low;

# lanes: the lanes of a warp search together
@ right
- int low = 0, high = sequences - 1;
- ...
- high = middle - 1;
- }
- }
+   int low = 0, high = sequences;
+   while (high - low > 1) {
+     const int step = ceil_div(high - low, kWarp), i = low + static_cast<int>(threadIdx.x % kWarp) * step;
+     const bool behind = i < high && cu_seqlens[i] / kTileRows + i <= slot;
+     low += (__popc(__ballot_sync(kAllLanes, behind)) - 1) * step;
+     high = min(low + step, high);
+   }

# rows_first: rows that may be less than none
@ right
- const int length = cu_seqlens[sequence + 1] - begin;
+
- if (tile * kTileRows >= length) return;
- const int rows = min(kTileRows, length - tile * kTileRows);
+   int rows = cu_seqlens[sequence + 1] - (begin + tile * kTileRows);
+   if (rows < 1) return;
+   if (rows > kTileRows) rows = kTileRows;
*/
