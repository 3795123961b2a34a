/// @file
/// For graders of kernels: launches in the watched lab, what was seen as counts, and findings as
/// refusals. Where there is no watched lab, results are graded and the rest is skipped.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/classroom/grader.hpp"
#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/lab/watch.hpp"
#include "common/tensor/random.hpp"

namespace fa::classroom {

/// What the lab saw of some launches.
struct Seen {
  bool watched = false;         ///< whether there is a watched lab
  lab::Report report;           ///< findings, and counts line by line
  std::int64_t bytes = 0;       ///< of global memory, asked for
  std::int64_t sectors = 0;     ///< of global memory
  std::int64_t wavefronts = 0;  ///< of shared memory
  std::int64_t ideal = 0;       ///< wavefronts without bank conflicts
  std::int64_t atomics = 0;     ///< requests by atomic operations
};

/// Watches what `work` launches; it makes its buffers itself.
inline Seen watch(const std::function<void()>& work) {
  Seen seen;
#if defined(FA_LAB_WATCHED)
  const lab::Watch watching;
  work();
  seen.watched = true;
  seen.report = watching.report();
  for (const lab::LineTraffic& line : seen.report.traffic) {
    seen.atomics += line.atomics;
    if (line.shared) {
      seen.wavefronts += line.wavefronts;
      seen.ideal += line.ideal;
    } else {
      seen.bytes += line.bytes;
      seen.sectors += line.sectors;
    }
  }
#else
  work();
#endif
  return seen;
}

/// Skips the stage where nothing was watched.
inline void needs_watching(const Seen& seen) {
  if (!seen.watched) {
    skip("this machine has no watched lab, which needs Linux");
  }
}

/// True when a finding of a kind was made: see lab::Finding::kind.
inline bool found(const Seen& seen, const std::string& kind) {
  for (const lab::Finding& finding : seen.report.findings) {
    if (finding.kind == kind) return true;
  }
  return false;
}

/// What to tell who made a finding of some kind.
using Reason = std::pair<std::string, std::string>;

/// Refuses when the lab found something: the reason of the first kind that was found, and then the
/// lab's own words.
/// @param seen    of a launch
/// @param reasons kind and misconception, in the order in which they are tried
inline void require_no_findings(const Seen& seen, const std::vector<Reason>& reasons = {}) {
  if (seen.report.findings.empty()) return;
  std::string why = "the lab found what a GPU would not tell you";
  for (const auto& [kind, says] : reasons) {
    if (found(seen, kind)) {
      why = says;
      break;
    }
  }
  refuse(why + "\n\n" + seen.report.findings_text());
}

/// check() for what a kernel wrote: a mistake that explains the result comes first, then what the
/// lab found, then where the numbers differ.
/// @param seen      of the launch
/// @param reasons   as for require_no_findings()
/// @param out       the student's
/// @param reference as many numbers
/// @param tolerance largest difference that is allowed
/// @param mistakes  tried in their order
/// @param where     the case
inline void check_result(const Seen& seen, const std::vector<Reason>& reasons, const Table& out,
                         const std::vector<double>& reference, double tolerance,
                         const std::vector<Mistake>& mistakes, const std::string& where) {
  if (agree(out.values, reference, tolerance)) {
    // What lands beside a matrix may leave the result as it is, and end the next launch.
    if (found(seen, "out of bounds")) require_no_findings(seen, reasons);
    return;
  }
  for (const Mistake& mistake : mistakes) {
    if (agree(out.values, mistake.result, tolerance)) {
      refuse(mistake.says + " (case: " + where + ")");
    }
  }
  require_no_findings(seen, reasons);
  check(out, reference, tolerance, {}, where);
}

/// Random numbers, as float, for a seed.
inline std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(static_cast<float>(random_normal(seed, static_cast<std::uint64_t>(i))));
  }
  return result;
}

/// A buffer on the device with these numbers.
inline FA_TARGET::DeviceBuffer<float> on_device(const std::vector<float>& numbers) {
  FA_TARGET::DeviceBuffer<float> buffer(static_cast<std::int64_t>(numbers.size()));
  buffer.upload(numbers.data());
  return buffer;
}

/// What is in a buffer, for check().
inline std::vector<double> from_device(const FA_TARGET::DeviceBuffer<float>& buffer) {
  std::vector<float> numbers(static_cast<std::size_t>(buffer.count()));
  buffer.download(numbers.data());
  return {numbers.begin(), numbers.end()};
}

/// Numbers on the device for a kernel to write, with room on either side: what lands far beside
/// them is seen, and does not end the program.
class Field {
 public:
  /// @param count numbers, all NaN at first
  explicit Field(std::int64_t count) : buffer_(count + 2 * kRoom) {}
  /// The first number, for kernels.
  float* data() { return buffer_.data() + kRoom; }
  /// The numbers.
  /// @throws Refused when something beside them was written
  std::vector<double> numbers() const {
    const std::vector<double> all = from_device(buffer_);
    const auto end = all.end() - kRoom;
    const auto written = [](double x) { return !std::isnan(x); };
    if (std::any_of(all.begin(), all.begin() + kRoom, written) ||
        std::any_of(end, all.end(), written)) {
      refuse("it writes beside the result: the tail is not masked");
    }
    return {all.begin() + kRoom, end};
  }

 private:
  static constexpr std::int64_t kRoom = 1 << 17;
  FA_TARGET::DeviceBuffer<float> buffer_;
};

}  // namespace fa::classroom
