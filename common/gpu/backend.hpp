/// @file
/// What runs a lesson's kernels: the lab, the watched lab or a GPU. Programs and tests choose among
/// them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/gpu/device.hpp"

namespace fa {

/// A backend without kernels; that of a lesson adds its own.
struct BackendBase {
  std::string kind;             ///< "lab", "watched" or "gpu"
  bool available = false;       ///< whether it can run here
  DeviceProperties properties;  ///< its name and limits, when available
  /// Median time of some work in milliseconds, repeated so often; none where times say nothing.
  std::function<std::optional<double>(const std::function<void()>&, int repeats)> milliseconds;
  /// What the kernels that some work launches take, in their order.
  std::function<std::vector<KernelResources>(const std::function<void()>&)> resources;
  /// Kernels of the lesson that it cannot run: a message with the reason for each.
  std::vector<std::string> left_out{};
};

/// The backend of a kind, or null.
template <class Backend>
const Backend* find_backend(const std::vector<Backend>& backends, const std::string& kind) {
  for (const Backend& backend : backends) {
    if (backend.kind == kind) return &backend;
  }
  return nullptr;
}

}  // namespace fa
