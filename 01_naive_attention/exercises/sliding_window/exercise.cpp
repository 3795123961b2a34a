#if defined(FA_STUDENT)
#include <algorithm>
#include <cstdint>

namespace student {

/// Query i sees the keys from first_key() to end_key(), exclusive.
struct Window {
  std::int64_t length_q = 0;  ///< queries
  std::int64_t length_k = 0;  ///< keys
  std::int64_t window = 0;    ///< keys that a query sees at most, at least 1

  std::int64_t end_key(std::int64_t i) const {
#ifdef FA_SOLUTION
    const std::int64_t end = i + length_k - length_q + 1;
    return std::max<std::int64_t>(0, end);
#else
    // The causal mask, aligned to the last query and key. It may stay as it is.
    return std::max<std::int64_t>(0, i + length_k - length_q + 1);
#endif
  }
  std::int64_t first_key(std::int64_t i) const {
#ifdef FA_SOLUTION
    const std::int64_t first = end_key(i) - window;
    return std::max<std::int64_t>(0, first);
#else
    // TODO: this sees everything that came before.
    (void)i;
    return 0;
#endif
  }
};

}  // namespace student
#elif defined(FA_ENTRIES)
FA_ENTRY(window, [](std::int64_t queries, std::int64_t keys, std::int64_t window) {
  const student::Window bounds{queries, keys, window};
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < queries; ++i) {
    result.push_back(bounds.first_key(i));
    result.push_back(bounds.end_key(i));
  }
  return result;
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

// What the student's window says of all queries.
class Bounds {
 public:
  Bounds(std::int64_t queries, std::int64_t keys, std::int64_t window)
      : all_(call<std::vector<std::int64_t>>("window", queries, keys, window)) {}
  std::int64_t first_key(std::int64_t i) const { return all_.at(2 * i); }
  std::int64_t end_key(std::int64_t i) const { return all_.at(2 * i + 1); }

 private:
  std::vector<std::int64_t> all_;
};

void grade(std::int64_t queries, std::int64_t keys, std::int64_t window) {
  const Bounds bounds(queries, keys, window);
  const std::string where = fmt::format("{} queries, {} keys, window {}", queries, keys, window);
  const std::int64_t shift = keys - queries;
  const auto mask = [&](auto sees) {
    std::vector<double> result;
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t j = 0; j < keys; ++j) result.push_back(sees(i, j) ? 1 : 0);
    }
    return result;
  };
  // A query sees so many keys, the last of which is its own.
  const auto from = [&](std::int64_t count) {
    return mask([=](auto i, auto j) { return j <= i + shift && j > i + shift - count; });
  };
  check({"sees",
         mask([&](auto i, auto j) { return bounds.first_key(i) <= j && j < bounds.end_key(i); }),
         keys},
        from(window), 0,
        {{"the window is not there: a query sees everything before it", from(keys + queries)},
         {"the query itself is one of the window's keys", from(window + 1)},
         {"one key too few: the window counts the query itself, once", from(window - 1)},
         {"first_key is aligned to the top left; query i stands at key i + length_k - length_q",
          mask([&](auto i, auto j) { return j <= i + shift && j > i - window; })}},
        where);
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t first = bounds.first_key(i), end = bounds.end_key(i);
    const std::string of = fmt::format("query {} sees {} to {} (case: {}); ", i, first, end, where);
    require(first >= 0, of + "that begins before the first key");
    require(end <= keys, of + "that ends after the last key");
    require(first <= end, of + "an empty range has first_key == end_key");
  }
}

}  // namespace

FA_STAGE(easy) {
  grade(8, 8, 3);
  grade(20, 20, 7);
}

FA_STAGE(odd) {
  grade(7, 9, 2);  // a window at the top left cuts off keys here, too
  grade(3, 9, 4);
  grade(1, 30, 8);
  grade(9, 4, 2);  // the first five see nothing
  grade(6, 6, 1);
  grade(6, 6, 100);
  // Longer than an int counts.
  const std::int64_t keys = std::int64_t{3} << 31;
  for (const std::int64_t window : {keys - 1000, std::int64_t{1000}}) {
    const Bounds bounds(2, keys, window);
    require(bounds.end_key(1) == keys && bounds.first_key(1) == keys - window,
            fmt::format("with {} keys and a window of {} the last query sees {} to {}: are all "
                        "positions 64 bits wide?",
                        keys, window, bounds.first_key(1), bounds.end_key(1)));
  }
}

FA_STAGE(traffic) {
  const Bounds bounds(4096, 4096, 128);
  std::int64_t scores = 0, least = 0;
  for (std::int64_t i = 0; i < 4096; ++i) {
    scores += bounds.end_key(i) - bounds.first_key(i);
    least += std::min<std::int64_t>(i + 1, 128);
  }
  note("scores for 4096 tokens and a window of 128", scores);
  require(scores == least, fmt::format("{} scores are computed, and {} would do", scores, least));
}
#endif
/* Other answers, as changes of the solution
# one_more: the window does not count the query itself
@ easy: the query itself is one of the window
- const std::int64_t first = end_key(i) - window;
+   const std::int64_t first = end_key(i) - 1 - window;

# negative_first: the range begins before the first key
@ easy: before the first key
- return std::max<std::int64_t>(0, first);
+   return first;

# top_left_first: only first_key stands at the query's own number
@ odd: first_key is aligned to the top left
- const std::int64_t first = end_key(i) - window;
+   const std::int64_t first = i - window + 1;

# narrow_first: an int holds the first key
@ odd: 64 bits wide
- const std::int64_t first = end_key(i) - window;
+   const int first = static_cast<int>(end_key(i) - window);
- return std::max<std::int64_t>(0, first);
+   return std::max(0, first);

# choice: choices in place of maxima, and a lambda
@ right
- const std::int64_t end = i + length_k - length_q + 1;
- return std::max<std::int64_t>(0, end);
+    return length_q - i > length_k ? 0 : length_k - (length_q - 1 - i);
- const std::int64_t first = end_key(i) - window;
- return std::max<std::int64_t>(0, first);
+    return [this](std::int64_t end) { return end < window ? std::int64_t{} : end - window; }(end_key(i));
*/
