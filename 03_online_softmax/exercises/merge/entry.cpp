#include "03_online_softmax/state.hpp"
#include "common/classroom/prelude_cpu.hpp"

namespace online = fa::online;
using State = online::State<online::BaseE<double>, double>;
using Exact = online::State<online::BaseTwo, online::Combination>;

// What the lesson has is to be written, not called.
namespace fa::online {

template <>
constexpr ::State merge(const ::State&, const ::State&) = delete;
template <>
constexpr ::Exact merge(const ::Exact&, const ::Exact&) = delete;

}  // namespace fa::online

#include "student/merge.hpp"

FA_ENTRY(merge, [](const State& a, const State& b) { return student::merge_normalised(a, b); });
FA_ENTRY(merge_exact, [](const std::vector<std::pair<Exact, Exact>>& parts) {
  std::vector<Exact> result;
  for (const auto& [a, b] : parts) {
    result.push_back(student::merge_normalised(a, b));
  }
  return result;
});
