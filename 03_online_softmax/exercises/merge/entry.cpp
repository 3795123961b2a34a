#include "common/classroom/prelude_cpu.hpp"
#include "student/merge.hpp"

namespace online = fa::online;
using State = online::State<online::BaseE<double>, double>;
using Exact = online::State<online::BaseTwo, online::Combination>;

FA_ENTRY(merge, [](const State& a, const State& b) {
  return student::merge_normalised(a, b);
});
FA_ENTRY(merge_exact, [](const std::vector<std::pair<Exact, Exact>>& parts) {
  std::vector<Exact> result;
  for (const auto& [a, b] : parts) {
    result.push_back(student::merge_normalised(a, b));
  }
  return result;
});
