// In builds that have no watched lab: on macOS, and with sanitizers.
#include "04_tiled_matmul/trace.hpp"

namespace fa::tiled {

std::optional<Trace> trace(const Group&, const Kernel&, const Inputs&) {
  return std::nullopt;
}

}  // namespace fa::tiled
