/// @file
/// What is wrong with the watched kernels: notes findings while kernels run, and writes each
/// mistake once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/lab/sites.hpp"

namespace fa::lab {

struct Finding;

/// Everything that was found in the launches of a watch.
class Findings {
 public:
  /// Notes a finding. Of several at the same lines the one over the largest distance is reported:
  /// what fixes it fixes the others as well.
  /// `other` is the other line, 0: none; `distance` that of two threads: 0 in a warp, 1 in a block,
  /// 2 beyond.
  void add(const std::string& kind, std::uint32_t site, std::uint32_t other,
           const std::string& message, int distance = 0);
  /// The same for what was found earlier, at this call stack.
  void add(const std::string& kind, std::uint32_t site, std::uint32_t other,
           const std::string& message, int distance, const std::vector<std::uintptr_t>& stack);
  /// Whether there is one of a kind at these lines.
  bool has(const std::string& kind, std::uint32_t site, std::uint32_t other) const;
  /// Whether there is a finding of a kind with this other line.
  bool has(const std::string& kind, std::uint32_t other) const;
  /// The code addresses that report() needs the lines of.
  std::vector<std::uintptr_t> codes() const;
  /// One finding for each mistake: several instructions may stand in one line, and two lines meet
  /// in either order.
  std::vector<Finding> report(const Sites& sites, const SourceLines& lines) const;

 private:
  struct Found {
    std::string kind;
    std::uint32_t site, other;
    std::string message;
    int distance;
    std::int64_t count;
    std::vector<std::uintptr_t> stack;  // where it was found
  };
  // Counts one that is known already.
  bool count(const std::string& kind, std::uint32_t site, std::uint32_t other,
             const std::string& message, int distance);
  std::vector<Found> found_;
};

}  // namespace fa::lab
