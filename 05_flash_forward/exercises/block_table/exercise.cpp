#if defined(FA_STUDENT)
#include <cstdint>

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Columns of a key.
constexpr int kColumns = 64;
/// Threads of a block.
constexpr int kThreads = 128;

/// A cache in pages; see the task.
struct Pages {
  const float* cache;
  const int* block_table;
  const int* lengths;
  int cache_pages;
  int page_size;
  int most_pages;
};

/// Copies the keys of sequence blockIdx.x.
__global__ void gather_keys(Pages pages, float* out) {
  const int sequence = blockIdx.x;
  const int most = pages.most_pages * pages.page_size;
  float* const rows = out + std::int64_t{sequence} * most * kColumns;
#ifdef FA_SOLUTION
  const int given = pages.lengths[sequence];
  const int length = given < 0 ? 0 : given < most ? given : most;
  const int* const table = pages.block_table + std::int64_t{sequence} * pages.most_pages;
  const int column = threadIdx.x % kColumns;
  for (int key = threadIdx.x / kColumns; key < most; key += kThreads / kColumns) {
    float value = 0;
    if (key < length) {
      const int found = table[key / pages.page_size];
      const std::int64_t page = found >= 0 && found < pages.cache_pages ? found : 0;
      const std::int64_t row = page * pages.page_size + key % pages.page_size;
      value = pages.cache[row * kColumns + column];
    }
    rows[key * kColumns + column] = value;
  }
#else
  // TODO: row j of `rows` is key j of the sequence, or zeros.
  (void)rows;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
// The cache begins `far` elements before the one that the kernel is given, and its pages there are
// those with numbers from far / elements of a page on.
FA_ENTRY(gather, [](const std::vector<float>& cache, const std::vector<int>& block_table,
                    const std::vector<int>& lengths, int page_size, std::int64_t far_pages) {
  return watched([&] {
    const auto keys = on_device(cache);
    const auto table = on_device(block_table), of_lengths = on_device(lengths);
    const std::int64_t of_page = std::int64_t{page_size} * kColumns;
    const int batch = static_cast<int>(lengths.size());
    const int most_pages = static_cast<int>(block_table.size()) / batch;
    const auto cache_pages = static_cast<std::int64_t>(cache.size()) / of_page + far_pages;
    DeviceBuffer<float> out(std::int64_t{batch} * most_pages * of_page);
    const Pages pages{keys.data() - far_pages * of_page, table.data(), of_lengths.data(),
                      static_cast<int>(cache_pages),     page_size,    most_pages};
    launch(gather_keys, {{static_cast<unsigned>(batch)}, {kThreads}}, pages, out.data());
    return from_device(out);
  });
});
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kColumns = 64;

struct Case {
  int page_size;
  std::vector<int> lengths;
  std::vector<int> table;  // [batch, most_pages]
  int cache_pages;
  std::int64_t far_pages = 0;  // pages of the cache before the first one in memory
  std::string what = "";

  int most_pages() const { return static_cast<int>(table.size() / lengths.size()); }
  int most() const { return most_pages() * page_size; }
  std::string where() const {
    return fmt::format("{} sequences, pages of {} keys{}", lengths.size(), page_size, what);
  }
  // As random as needed, and NaN where no sequence has a key.
  std::vector<float> cache() const {
    const std::int64_t of_page = std::int64_t{page_size} * kColumns;
    const std::vector<float> all = random_floats(cache_pages * of_page, 1);
    std::vector<float> result(all.size(), NAN);
    each([&](int, int, std::int64_t row) {
      std::copy_n(all.begin() + row * kColumns, kColumns, result.begin() + row * kColumns);
    });
    return result;
  }
  // Calls work(sequence, key, row of the cache) for each key.
  void each(const std::function<void(int, int, std::int64_t)>& work) const {
    for (int b = 0; b < static_cast<int>(lengths.size()); ++b) {
      for (int key = 0; key < std::clamp(lengths[static_cast<std::size_t>(b)], 0, most()); ++key) {
        work(b, key, row_of(b, key));
      }
    }
  }
  // Of a key, with a page that is in the cache.
  std::int64_t row_of(int b, int key, std::int64_t in_place = 0) const {
    std::int64_t page = table[static_cast<std::size_t>(b * most_pages() + key / page_size)];
    if (page < 0 || page >= far_pages + cache_pages) page = in_place;
    return (page - far_pages) * page_size + key % page_size;
  }
};

// What is copied when each key is in some row of the cache; NaN for a row that it does not have.
template <class RowOf>
std::vector<double> copied(const Case& c, const std::vector<float>& cache, RowOf row_of) {
  std::vector<double> out(c.lengths.size() * static_cast<std::size_t>(c.most() * kColumns), 0.0);
  c.each([&](int b, int key, std::int64_t) {
    const std::int64_t from = row_of(b, key) * kColumns;
    const auto to = static_cast<std::size_t>((std::int64_t{b} * c.most() + key) * kColumns);
    const bool inside = from >= 0 && from < static_cast<std::int64_t>(cache.size());
    for (std::size_t e = 0; e < kColumns; ++e) {
      out[to + e] = inside ? cache[static_cast<std::size_t>(from) + e] : NAN;
    }
  });
  return out;
}

const std::vector<Reason> kReasons = {
    {"out of bounds",
     "it reads or writes beside the arrays: a length above most_pages * page_size, a page that is "
     "not in the cache, or an offset that overflows 32 bits"},
    own_elements(),
    {"race",
     "nothing orders two threads that use the same place: each has elements of its own, and "
     "what they share may change only behind a barrier"}};

void grade(const Case& c) {
  const std::vector<float> cache = c.cache();
  const auto launched = call_or<Launched>(
      "it reads or writes far beside the arrays: a page that is not in the cache, a length above "
      "most_pages * page_size, or an offset that overflows 32 bits (" +
          c.where() + ")",
      "gather", cache, c.table, c.lengths, c.page_size, c.far_pages);
  const auto right = copied(c, cache, [&](int b, int key) { return c.row_of(b, key); });
  check_result(
      launched.seen, kReasons, {"out", launched.out, kColumns}, right, 0,
      {{"the page of key j is block_table[...]; here it is page i of the cache for place i",
        copied(c, cache, [](int, int key) { return std::int64_t{key}; })},
       {"all sequences read the first row of the table: row b begins at b * most_pages",
        copied(c, cache, [&](int, int key) { return c.row_of(0, key); })},
       {"a page that is not in the cache counts as page 0, not as the last one",
        copied(c, cache, [&](int b, int key) { return c.row_of(b, key, c.cache_pages - 1); })}},
      c.where() + "; rows without a key are zeros");
}

}  // namespace

FA_STAGE(easy) {
  grade({4, {12, 12, 12}, {5, 0, 6, 2, 3, 0, 7, 1, 4}, 9});
  grade({16, {32}, {3, 1}, 4});
}

FA_STAGE(odd) {
  grade({4, {11, 5, 1, 0}, {5, 0, 6, 2, 3, 0, 7, 0, 0, 0, 0, 0}, 9});
  grade({16, {17, 33}, {3, 1, 2, 0, 5, 4}, 6});
  grade({1, {3, 2}, {4, 2, 0, 1, 3, 0}, 5});
  grade({4, {-3, 9, 1 << 30, 8}, {2, 1, 3, 0}, 4, 0, ", lengths below 0 and above the most"});
  grade({4, {6, 2}, {2, 1, 1 << 30, 3, -9, 77}, 4, 0, ", numbers behind the last pages"});
  grade({4, {6, 12}, {2, -1, 0, 3, 4, 1}, 4, 0, ", pages that are not in the cache"});
  grade({4, {4, 4}, {-2000000000, 2000000000}, 4, 0, ", pages that are not in the cache"});
  grade({16, {32}, {(1 << 22) + 2, (1 << 22) + 1}, 3, 1 << 22, ", a cache of 16 GiB"});
}

FA_STAGE(races) {
  const Case c{4, {7, 12}, {1, 3, 0, 5, 2, 4}, 6};
  const auto launched =
      call<Launched>("gather", c.cache(), c.table, c.lengths, c.page_size, c.far_pages);
  require_no_races(launched.seen, kReasons);
}

FA_STAGE(traffic) {
  const Case c{16, {64, 64}, {1, 3, 0, 5, 2, 4, 7, 6}, 8};
  const auto launched =
      call<Launched>("gather", c.cache(), c.table, c.lengths, c.page_size, c.far_pages);
  needs_watching(launched.seen);
  const std::int64_t keys = 2 * 64, of_key = kColumns * 4 / 32;
  note("sectors of global memory", launched.seen.sectors);
  budget("sectors of global memory", launched.seen.sectors, keys * (2 * of_key + 4),
         "is each key read once, and by threads that stand side by side?", keys * 2 * of_key);
  require_divided(call<Launched>("gather", c.cache(), std::vector<int>{1, 3, 2, 0},
                                 std::vector<int>{64}, c.page_size, c.far_pages)
                      .seen);
}
#endif
/* Other answers, as changes of the solution
# no_table: keys lie one behind another
@ easy: page i of the cache
- const int found = table[key / pages.page_size];
+       const int found = key / pages.page_size;

# trusted_table: a page that is not in the cache
@ odd: page that is not in the cache
- const std::int64_t page = found >= 0 && found < pages.cache_pages ? found : 0;
+       const std::int64_t page = found;

# last_page: its number is trusted when it is not full
@ odd: not in the cache
- const std::int64_t page = found >= 0 && found < pages.cache_pages ? found : 0;
+       const bool full = key / pages.page_size < length / pages.page_size;
+       const std::int64_t page = !full || (found >= 0 && found < pages.cache_pages) ? found : 0;

# by_columns: a thread copies a key
@ traffic: side by side
- const int column = threadIdx.x % kColumns;
- for (int key = threadIdx.x / kColumns; key < most; key += kThreads / kColumns) {
+   for (int key = threadIdx.x; key < most; key += kThreads) {
+    for (int column = 0; column < kColumns; ++column) {
- rows[key * kColumns + column] = value;
+     rows[key * kColumns + column] = value;
+    }

# one_warp: three warps have nothing to do
@ traffic: one warp loads and stores
- const int column = threadIdx.x % kColumns;
- for (int key = threadIdx.x / kColumns; key < most; key += kThreads / kColumns) {
+  const int first = threadIdx.x < kWarp ? threadIdx.x : most * kColumns;
+  for (int i = first; i < most * kColumns; i += kWarp) {
+    const int key = i / kColumns, column = i % kColumns;

# a_warp_for_a_key: two columns for each lane
@ right
- const int column = threadIdx.x % kColumns;
- for (int key = threadIdx.x / kColumns; key < most; key += kThreads / kColumns) {
+  for (int i = threadIdx.x; i < most * kColumns; i += kThreads) {
+    const int key = i / kColumns, column = i % kColumns;
*/
