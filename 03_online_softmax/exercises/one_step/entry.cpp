#include "common/classroom/prelude_cpu.hpp"
#include "student/one_step.hpp"

namespace online = fa::online;
using State = online::State<online::BaseE<double>, double>;
using Exact = online::State<online::BaseTwo, online::Combination>;

namespace {

// As in the lesson's proof.
struct Row {
  std::array<int, online::Combination::kCapacity> scores;
  std::size_t length;
};

}  // namespace

// m, l, O and the output after a row; the value of key j is j + 1.
FA_ENTRY(row, [](const std::vector<double>& scores) {
  State x;
  double value = 0;
  for (const double s : scores) student::OneStep::step(x, s, value += 1);
  return std::vector<double>{x.m, x.l, x.o, student::OneStep::output(x)};
});
FA_ENTRY(exact_rows, [](const std::vector<Row>& rows) {
  std::vector<std::pair<Exact, online::Combination>> result;
  for (const Row& row : rows) {
    Exact x;
    for (std::size_t j = 0; j < row.length; ++j) {
      student::OneStep::step(x, row.scores.at(j), online::Combination::value(j));
    }
    result.emplace_back(x, student::OneStep::output(x));
  }
  return result;
});
