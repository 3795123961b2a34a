// In builds that have no watched lab: on macOS, and with sanitizers.
#include "common/lab/trace.hpp"

namespace fa::lab {

std::optional<Trace> trace(const TraceName&, const std::function<void()>&) {
  return std::nullopt;
}
std::optional<Trace> trace(const TraceName&, const std::vector<TracedProblem>&) {
  return std::nullopt;
}

}  // namespace fa::lab
