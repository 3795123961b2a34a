#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include <numeric>

#include <fmt/ranges.h>

#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kTileRows = 8;
constexpr int kColumns = 16;
// Position p has the embedding kAdded + p, in all columns: a sum of some shows how many they are.
constexpr int kAdded = 1024;

// Which of its tiles a sequence has in a slot; the block returns where it has none.
struct Found {
  int sequence;
  int tile;
  int rows;
  bool returns;
};

// What a wrong answer does differently.
enum class Wrong {
  kNothing,
  kNoPlus,          // first slots without + i
  kNoPlusInSearch,  // the same in the search alone
  kRoundedUp,       // first slots round up
  kStrict,          // the last sequence whose first slot is before this one
  kLowerBound,      // the first sequence whose first slot is not before this one
  kNotTheLast,      // the search ends before the last sequence
  kFirstOfEquals,   // of several sequences that begin at the same row
  kStopsAtEmpty,    // the search ends at a sequence without rows
  kTileOfList,      // the slot is the tile's number
  kTileOfTensor,    // the tile's number among those of all sequences
  kWholeTile,       // every tile has all rows
  kEnd,             // the end is taken for the length
  kEndOfAll,        // the end of the last sequence
  kFullTiles,       // tiles that are not full are left out
  kRest,            // tiles behind the last full one have the rest of the rows
  kRestOfZero,      // the last tile has length % 8 rows
};

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

  // What the block of a slot finds.
  Found find(int slot, Wrong wrong) const {
    const auto first = [&](int i, bool searches) {
      const bool no_plus = wrong == Wrong::kNoPlus || (wrong == Wrong::kNoPlusInSearch && searches);
      return (begin(i) + (wrong == Wrong::kRoundedUp ? kTileRows - 1 : 0)) / kTileRows +
             (no_plus ? 0 : i);
    };
    int i = 0;
    const int last = sequences() - (wrong == Wrong::kNotTheLast ? 2 : 1);
    while (i < last && !(wrong == Wrong::kStopsAtEmpty && length(i) == 0) &&
           (wrong == Wrong::kLowerBound ? first(i, true) < slot
                                        : first(i + 1, true) + (wrong == Wrong::kStrict) <= slot)) {
      ++i;
    }
    while (wrong == Wrong::kFirstOfEquals && i > 0 && begin(i - 1) == begin(i)) --i;
    const int tile = slot - (wrong == Wrong::kTileOfList     ? 0
                             : wrong == Wrong::kTileOfTensor ? i
                                                             : first(i, false));
    const int rows = wrong == Wrong::kEnd        ? begin(i + 1)
                     : wrong == Wrong::kEndOfAll ? begin(sequences()) - begin(i)
                                                 : length(i);
    const int left = rows - tile * kTileRows;
    const bool full_only = wrong == Wrong::kFullTiles;
    Found found{i, tile, std::min(kTileRows, left), left < (full_only ? kTileRows : 1)};
    if (wrong == Wrong::kWholeTile) found.rows = kTileRows;
    if (wrong == Wrong::kRest) {
      found = {i, tile, tile < rows / kTileRows ? kTileRows : rows % kTileRows, false};
    }
    if (wrong == Wrong::kRestOfZero && tile == (rows - 1) / kTileRows) {
      found.rows = rows % kTileRows;
    }
    return found;
  }

  // What the launch leaves, likewise.
  std::vector<double> result(Wrong wrong) const {
    std::vector<double> slots_found;
    std::vector<float> all = x();
    for (int slot = 0; slot < slots(); ++slot) {
      const Found found = find(slot, wrong);
      slots_found.push_back(found.returns ? -1 : found.sequence);
      for (int row = 0; row < (found.returns ? 0 : found.rows); ++row) {
        const int position = found.tile * kTileRows + row;
        const int token = begin(found.sequence) + position;
        const auto of_row = all.begin() + (room() + token) * kColumns;
        std::for_each(of_row, of_row + kColumns,
                      [&](float& value) { value += static_cast<float>(kAdded + position); });
      }
    }
    slots_found.insert(slots_found.end(), all.begin(), all.end());
    return slots_found;
  }
};

const std::vector<std::pair<Wrong, std::string>> kMistakes = {
    {Wrong::kNoPlus,
     "sequences may share a slot: sequence i has the slots from floor(begin / 8) + i on"},
    {Wrong::kNoPlusInSearch,
     "the search finds sequences by another first slot than the tile's number has: both are "
     "floor(begin / 8) + i"},
    {Wrong::kRoundedUp,
     "begin / 8 rounds down in the first slot of a sequence; rounded up, the list has too few "
     "slots"},
    {Wrong::kStrict, "a sequence has its own first slot, too: compare with <="},
    {Wrong::kLowerBound,
     "it finds the first sequence whose first slot is this one or later; it is the last one whose "
     "first slot is this one or earlier"},
    {Wrong::kNotTheLast, "the last sequence is never found"},
    {Wrong::kFirstOfEquals,
     "of sequences that begin at the same row it finds the first of several; all but the last have "
     "no rows"},
    {Wrong::kStopsAtEmpty, "the search ends at a sequence without rows"},
    {Wrong::kTileOfList, "a tile's number counts from the sequence's first slot, not from slot 0"},
    {Wrong::kTileOfTensor,
     "a tile's number counts from the sequence's first slot, not from the first tile of all"},
    {Wrong::kWholeTile,
     "a tile ends where its sequence ends, which may be before it is a whole tile of 8 rows"},
    {Wrong::kEnd,
     "a sequence has cu_seqlens[i + 1] - cu_seqlens[i] rows; cu_seqlens[i + 1] counts from row 0"},
    {Wrong::kEndOfAll,
     "a tile ends where its own sequence ends, not at the end of the last sequence"},
    {Wrong::kFullTiles, "the last tile of a sequence, which is not full, was left out"},
    {Wrong::kRest,
     "behind the last tile of a sequence there may be a slot without a tile: its block must "
     "return"},
    {Wrong::kRestOfZero, "a last tile has 8 rows, not 0, if the length is a multiple of 8"},
};

const std::vector<Reason> kReasons = {
    {"out of bounds",
     "it reads beside cu_seqlens, or another array: sequences are numbered from 0 to "
     "sequences - 1, and slots behind those of the last one are empty"},
    own_elements(),
    {"race",
     "a thread uses an element that another one writes, with no barrier between them; and no two "
     "blocks change the same row"}};

// The first slot or row that is wrong, in words.
std::string difference(const Case& c, const std::vector<double>& out) {
  const std::vector<double> right = c.result(Wrong::kNothing);
  const auto slots = static_cast<std::ptrdiff_t>(c.slots());
  const std::vector<float> before = c.x();
  const bool rows_agree = std::equal(right.begin() + slots, right.end(), out.begin() + slots);
  if (!rows_agree && std::equal(before.begin(), before.end(), out.begin() + slots)) {
    return "no row of x was changed: every block returned, or rows is 0";
  }
  for (int slot = 0; slot < c.slots(); ++slot) {
    const auto at = static_cast<std::size_t>(slot);
    const Found wanted = c.find(slot, Wrong::kNothing);
    const int i = wanted.sequence;
    if (out[at] == right[at]) continue;
    if (wanted.returns) {
      const int length = c.length(i), last = c.first_slot(i) + (length - 1) / kTileRows;
      return fmt::format(
          "{}: slot {} is empty, and its block {}; sequence {} has length {}{}",
          rows_agree ? "a slot without a tile was given a sequence"
                     : "a slot without a tile wrote rows",
          slot, out[at] == i ? "did not return" : fmt::format("took sequence {:.0f}", out[at]), i,
          length, length == 0 ? "" : fmt::format(", and its last tile is in slot {}", last));
    }
    return fmt::format("slot {} has tile {} of sequence {}, which begins in slot {}; its block {}",
                       slot, wanted.tile, i, c.first_slot(i),
                       out[at] < 0 ? "returned" : fmt::format("found sequence {:.0f}", out[at]));
  }
  for (int token = -c.room(); token < c.tokens() + c.room(); ++token) {
    const std::int64_t first = std::int64_t{c.room() + token} * kColumns;
    for (std::int64_t at = first; at < first + kColumns; ++at) {
      const auto in_out = static_cast<std::size_t>(slots + at);
      if (out[in_out] == right[in_out]) continue;
      const double added = out[in_out] - before[static_cast<std::size_t>(at)];
      const double times = std::round(added / kAdded);
      if (token < 0 || token >= c.begin(c.sequences())) {
        return fmt::format("row {} of x is of no sequence, and was changed", token);
      }
      int i = 0;
      while (c.begin(i + 1) <= token) ++i;
      const int position = token - c.begin(i);
      return fmt::format(
          "sequence {} begins in slot {}; row {} of its tile {} {}", i, c.first_slot(i),
          position % kTileRows, position / kTileRows,
          times == 0 ? "was left as it was"
          : times == 1
              ? fmt::format("has the embedding of position {:.0f}, and {} is right", added - kAdded,
                            position)
              : fmt::format("was changed {:.0f} times: by its own block, and by another whose "
                            "tile does not end where its sequence ends",
                            times));
    }
  }
  return {};
}

void grade(const Case& c) {
  const Launched launched = c.launched();
  const std::vector<double> right = c.result(Wrong::kNothing);
  const std::string differs = difference(c, launched.out);
  std::vector<Mistake> mistakes;
  for (const auto& [wrong, says] : kMistakes) {
    mistakes.push_back({says + ". Here " + differs, c.result(wrong)});
  }
  if (!found(launched.seen, "out of bounds")) mistakes.push_back({differs, launched.out});
  check_result(launched.seen, kReasons, {"sequence_of_slot and x", launched.out}, right, 0,
               mistakes, c.where());
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
  // sequence. Of cu_seqlens each of the four warps reads a sector at a time.
  const std::int64_t copies = c.tokens() * 7, steps = 8;
  note("sectors of global memory", launched.seen.sectors);
  budget("sectors of global memory", launched.seen.sectors, copies + 4 * c.slots() * (steps + 5),
         "find the sequence by bisection: 256 sequences take 8 steps", copies);
}
#endif
