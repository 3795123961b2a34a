#if defined(FA_STUDENT)
namespace student {

/// An element of a tile of dQ.
struct Element {
  int query;   ///< 0 to 31
  int column;  ///< 0 to 63
};

/// Where an element is in memory: 0 to 2047.
inline int place_of(int query, int column) {
#ifdef FA_SOLUTION
  const int warp = query / 16 + column / 32 * 2;
  const int j = column % 32 / 8;
  const int lane = query % 8 * 4 + column % 8 / 2;
  const int value = column % 2 + query % 16 / 8 * 2;
  return ((warp * 4 + j) * 32 + lane) * 4 + value;
#else
  (void)query, (void)column;  // TODO
  return 0;
#endif
}

/// Which element is at a place.
inline Element element_at(int place) {
#ifdef FA_SOLUTION
  const int at = place % 4, l = place / 4 % 32, n = place / 128;
  return {n / 4 % 2 * 16 + at / 2 * 8 + l / 4, n / 8 * 32 + n % 4 * 8 + l % 4 * 2 + at % 2};
#else
  (void)place;  // TODO
  return {0, 0};
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
FA_ENTRY(places, [] {
  std::vector<double> result;
  for (int query = 0; query < 32; ++query) {
    for (int column = 0; column < 64; ++column) {
      result.push_back(student::place_of(query, column));
    }
  }
  return result;
});

FA_ENTRY(elements, [] {
  std::vector<double> result;
  for (int place = 0; place < 32 * 64; ++place) {
    const student::Element element = student::element_at(place);
    result.push_back(element.query);
    result.push_back(element.column);
  }
  return result;
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr int kQueries = 32, kColumns = 64;

// A register of a lane: an element of dQ and its place in memory.
struct Register {
  int warp, j, lane, value;

  int query() const { return 16 * (warp % 2) + lane / 4 + value / 2 * 8; }
  int column() const { return 32 * (warp / 2) + 8 * j + lane % 4 * 2 + value % 2; }
  int place() const { return ((warp * 4 + j) * 32 + lane) * 4 + value; }
};

std::vector<Register> registers() {
  std::vector<Register> all;
  for (int i = 0; i < kQueries * kColumns; ++i) {
    all.push_back({i / 512, i / 128 % 4, i / 4 % 32, i % 4});
  }
  return all;
}

// The place of each element, or the elements of each place, by a rule for the place of a register.
template <class Place>
std::vector<double> expected(bool by_places, Place place_of) {
  std::vector<double> result(static_cast<std::size_t>((by_places ? 2 : 1) * kQueries * kColumns));
  for (const Register& r : registers()) {
    const auto place = static_cast<std::size_t>(place_of(r));
    if (by_places) {
      result[2 * place] = r.query();
      result[2 * place + 1] = r.column();
    } else {
      result[static_cast<std::size_t>(r.query() * kColumns + r.column())] = place_of(r);
    }
  }
  return result;
}

void grade(const std::string& entry, const Table& table, bool by_places) {
  const auto with = [&](auto place_of) { return expected(by_places, place_of); };
  check(table, with([](const Register& r) { return r.place(); }), 0,
        {{"all elements have the same place", std::vector<double>(table.values.size(), 0.0)},
         {"this is the order of a matrix, row by row",
          with([](const Register& r) { return r.query() * kColumns + r.column(); })},
         {"the warps are divided the other way: warp 1 has the next 16 queries, not the next 32 "
          "columns",
          with([](const Register& r) {
            return Register{r.warp / 2 + r.warp % 2 * 2, r.j, r.lane, r.value}.place();
          })}},
        entry);
}

}  // namespace

FA_STAGE(easy) {
  grade("row: a query, column: a column",
        {"place_of", call<std::vector<double>>("places"), kColumns}, false);
}

FA_STAGE(odd) {
  grade("row: a place, column 0: the query, 1: the column",
        {"element_at", call<std::vector<double>>("elements"), 2}, true);
}
#endif
/* Other answers, as changes of the solution
# row_major: a matrix
@ easy: row by row
- return ((warp * 4 + j) * 32 + lane) * 4 + value;
+   (void)warp, (void)j, (void)lane, (void)value; return query * 64 + column;

# warps: columns first
@ easy: the warps are divided the other way
- const int warp = query / 16 + column / 32 * 2;
+   const int warp = query / 16 * 2 + column / 32;

# inverse_warps: the inverse with warps exchanged
@ odd: the warps are divided the other way
- return {n / 4 % 2 * 16 + at / 2 * 8 + l / 4, n / 8 * 32 + n % 4 * 8 + l % 4 * 2 + at % 2};
+   return {n / 8 * 16 + at / 2 * 8 + l / 4, n / 4 % 2 * 32 + n % 4 * 8 + l % 4 * 2 + at % 2};

# bits: bit by bit
@ right
- const int warp = query / 16 + column / 32 * 2;
- ...
- return ((warp * 4 + j) * 32 + lane) * 4 + value;
+  return (column & 1) | (query >> 3 & 1) << 1 | (column >> 1 & 3) << 2 | (query & 7) << 4 | (column >> 3 & 3) << 7 | (query >> 4 & 1) << 9 | (column >> 5 & 1) << 10;
*/
