/// @file
/// Endless loops in which threads still yield: with a barrier or a warp operation in them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/lab/lab_thread.hpp"

namespace fa::lab {

/// Whether the threads of a block do the same again and again: for longest_run all that they had on
/// their stacks, their registers among it, has returned within a few of their steps.
class Repetition {
 public:
  /// A block begins, or waits for another one.
  void forget() {
    chosen_ = nullptr;
    repeats_ = false;
  }
  /// A thread has yielded.
  /// @return whether to end the launch
  bool is_endless(const Threads& threads, const LabThread& yielded) {
    if (chosen_ == nullptr) return ++yields_ % kBetween == 0 && choose(threads, yielded);
    return &yielded == chosen_ && compare(threads);
  }
  /// The same of a thread that is about to yield.
  /// @return whether there is nothing to look at when it has
  bool passes(const LabThread& yields) {
    if (chosen_ != nullptr) return &yields != chosen_;
    if ((yields_ + 1) % kBetween == 0) return false;
    ++yields_;
    return true;
  }

 private:
  static constexpr std::int64_t kBetween = 1 << 20;  // yields from one look to the next
  bool choose(const Threads& threads, const LabThread& yielded);
  bool compare(const Threads& threads);

  std::int64_t yields_ = 0;
  const LabThread* chosen_ = nullptr;  // after whose next yields stacks are compared
  int left_ = 0;                       // of these
  std::uint64_t stack_ = 0;            // when it was chosen: of its own
  std::uint64_t stacks_ = 0;           // and of all
  bool repeats_ = false;
  std::chrono::nanoseconds since_{};  // time of this processor
};

}  // namespace fa::lab
