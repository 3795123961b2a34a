/// @file
/// A lab that ends endless loops sooner, for tests.
#pragma once

#include <chrono>

#include "common/lab/progress.hpp"

namespace fa::testing {

/// While it lives, they end after a second.
struct ImpatientLab {
  ImpatientLab() { lab::longest_run = std::chrono::seconds(1); }
  ~ImpatientLab() { lab::longest_run = lab::kLongestRun; }
  ImpatientLab(const ImpatientLab&) = delete;
  ImpatientLab& operator=(const ImpatientLab&) = delete;
};

}  // namespace fa::testing
