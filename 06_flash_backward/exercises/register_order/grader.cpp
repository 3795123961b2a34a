#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include "common/classroom/grader.hpp"

#include <array>

using namespace fa::classroom;

namespace {

constexpr int kQueries = 32, kColumns = 64;

// What a lane holds, and where it stores it; by the description, register by register.
struct Register {
  int warp, j, lane, value;

  int query(int warp_rows = 2) const { return 16 * (warp % warp_rows) + lane / 4 + value / 2 * 8; }
  int column(int warp_rows = 2) const {
    return 32 * (warp / warp_rows) + 8 * j + lane % 4 * 2 + value % 2;
  }
  int place() const { return ((warp * 4 + j) * 32 + lane) * 4 + value; }
};

using Rule = std::function<std::array<int, 3>(const Register&)>;

// query, column and place of each register; by elements, or by places.
std::vector<double> places(const Rule& rule) {
  std::vector<double> result(kQueries * kColumns, -1);
  for (int i = 0; i < kQueries * kColumns; ++i) {
    const auto [query, column, place] = rule({i / 512, i / 128 % 4, i / 4 % 32, i % 4});
    result[static_cast<std::size_t>(query % 32 * kColumns + column % 64)] = place;
  }
  return result;
}
std::vector<double> elements(const Rule& rule) {
  std::vector<double> result(2 * kQueries * kColumns, -1);
  for (int i = 0; i < kQueries * kColumns; ++i) {
    const auto [query, column, place] = rule({i / 512, i / 128 % 4, i / 4 % 32, i % 4});
    result[static_cast<std::size_t>(2 * place)] = query;
    result[static_cast<std::size_t>(2 * place + 1)] = column;
  }
  return result;
}

std::array<int, 3> right(const Register& r) {
  return {r.query(), r.column(), r.place()};
}

const std::vector<std::pair<std::string, Rule>> kWrong = {
    {"this is the order of a matrix, row by row",
     [](const Register& r) -> std::array<int, 3> {
       return {r.query(), r.column(), r.query() * kColumns + r.column()};
     }},
    {"the warps are divided the other way: warp 1 has the next 16 queries, not the next 32 columns",
     [](const Register& r) -> std::array<int, 3> {
       const Register other{r.warp / 2 + r.warp % 2 * 2, r.j, r.lane, r.value};
       return {r.query(), r.column(), other.place()};
     }},
    {"in an accumulator a lane's values 2 and 3 are in row l / 4 + 8; here they are 8 rows and 2 "
     "columns in the wrong order",
     [](const Register& r) -> std::array<int, 3> {
       const Register other{r.warp, r.j, r.lane, r.value / 2 + r.value % 2 * 2};
       return {r.query(), r.column(), other.place()};
     }},
    {"rows and columns of a lane are exchanged: row l / 4, columns 2 (l % 4)",
     [](const Register& r) -> std::array<int, 3> {
       const Register other{r.warp, r.j, r.lane % 4 * 8 + r.lane / 4, r.value};
       return {r.query(), r.column(), other.place()};
     }},
    {"a lane's four values are neighbours in memory; here the lanes are, value by value",
     [](const Register& r) -> std::array<int, 3> {
       return {r.query(), r.column(), (r.warp * 4 + r.j) * 128 + r.value * 32 + r.lane};
     }},
    {"of a warp the accumulators follow one another, and of these the lanes; here a lane has all "
     "its accumulators together",
     [](const Register& r) -> std::array<int, 3> {
       return {r.query(), r.column(), (r.warp * 32 + r.lane) * 16 + r.j * 4 + r.value};
     }}};

void grade(const std::string& entry, const Table& table, bool by_places) {
  std::vector<Mistake> mistakes;
  for (const auto& [says, rule] : kWrong) {
    mistakes.push_back({says, by_places ? elements(rule) : places(rule)});
  }
  mistakes.push_back(
      {"all elements have the same place", std::vector<double>(table.values.size(), 0.0)});
  check(table, by_places ? elements(right) : places(right), 0, mistakes, entry);
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
