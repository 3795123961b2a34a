#include "05_flash_forward/src/backend.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace fa::flash {

std::int64_t RungInfo::head_dim_near(std::int64_t head_dim) const {
  return std::clamp(head_dim, min_head_dim, max_head_dim);
}

bool RungInfo::supports(const Problem& problem) const {
  const std::int64_t d = problem.shape.head_dim;
  return std::find(types.begin(), types.end(), problem.type) != types.end() &&
         d % 8 == 0 && d >= min_head_dim && d <= max_head_dim &&
         (supports_dropout || problem.dropout == 0);
}

void RungInfo::check(const Problem& problem) const {
  if (supports(problem)) return;
  if (!supports_dropout && problem.dropout > 0) {
    throw std::invalid_argument(fmt::format(
        "{} does not support dropout; dropout is {}, allowed is 0", name,
        problem.dropout));
  }
  std::string allowed;
  for (const Type type : types) {
    allowed += (allowed.empty() ? "" : " or ") + name_of(type);
  }
  const std::string from =
      min_head_dim > 8 ? fmt::format("from {} ", min_head_dim) : "";
  throw std::invalid_argument(fmt::format(
      "{} supports {} with a head_dim that is a multiple of 8 {}up "
      "to {}, not {} with {}",
      name, allowed, from, max_head_dim, name_of(problem.type),
      problem.shape.head_dim));
}

std::string RungInfo::fit(const DeviceProperties& device) {
  const std::string lacks = missing(device, needs);
  if (!lacks.empty()) {
    max_head_dim = min_head_dim - 1;
    return fmt::format("{} is left out: it {}", name, lacks);
  }
  std::string too_large;  // the last head dimension that is
  while (shared_bytes && max_head_dim >= min_head_dim) {
    const std::string why =
        missing(device, Needs{}.with_shared(shared_bytes(max_head_dim)));
    if (why.empty()) break;
    too_large = why;
    max_head_dim -= 8;
  }
  if (too_large.empty()) return "";
  return max_head_dim < min_head_dim
             ? fmt::format("{} is left out: it {}", name, too_large)
             : fmt::format("{} is left out with a head_dim above {}: it {}",
                           name, max_head_dim, too_large);
}

const Rung& find_rung(const Backend& backend, const std::string& name) {
  const auto found =
      std::find_if(backend.rungs.begin(), backend.rungs.end(),
                   [&](const Rung& rung) { return rung.name == name; });
  if (found == backend.rungs.end()) {
    throw std::logic_error("there is no rung " + name);
  }
  return *found;
}

}  // namespace fa::flash
