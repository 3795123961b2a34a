/// @file
/// For graders of kernels: what the lab saw as counts, and findings as refusals. Where there is no
/// watched lab, results are graded and the rest is skipped. Below stands what the graders of the
/// puzzles share: a drawing of which thread touches what, from the trace of the student's own kernel,
/// and the mistakes that every puzzle knows.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/classroom/grader.hpp"

namespace fa::classroom {

/// Skips the stage where nothing was watched.
inline void needs_watching(const Seen& seen) {
  if (!seen.watched) skip("this machine has no watched lab, which needs Linux");
}

/// True when a finding of a kind was made: see lab::Finding::kind. Stores of the same value count
/// as races: in an exercise each thread has an element of its own. "blocks" are the races of which
/// both stores stand at one line and are of two blocks, "bytes" the copies that bring more bytes
/// than their mbarrier expects.
bool found(const Seen& seen, const std::string& kind);

/// A kind of finding, and the message for it.
using Reason = std::pair<std::string, std::string>;

/// The reason for "blocks", where no two blocks share an element; it stands before that for "race".
Reason own_elements();

/// Refuses when the lab found something: the reason of the first kind that was found, and then the
/// lab's own words. Reasons are tried in their order.
void require_no_findings(const Seen& seen, const std::vector<Reason>& reasons = {});

/// Skips the stage where nothing was watched, and refuses findings as require_no_findings() does.
void require_no_races(const Seen& seen, const std::vector<Reason>& reasons = {});

/// Refuses when one thread loads and stores more than a twentieth of what its block does in global
/// memory, or one warp more than `of_warp`. For launches of at most 16,000 accesses.
void require_divided(const Seen& seen, double of_warp = 0.55);

/// True when the launches have stored nothing in global memory, and the result still is NaN.
bool nothing_written(const Seen& seen, const std::vector<double>& out);

/// check() for what a kernel wrote: a mistake that explains the result comes first, then what the
/// lab found, then where the numbers differ. The parameters are those of both functions.
/// @param explain called in place of check() where that recognises nothing; may refuse
void check_result(const Seen& seen, const std::vector<Reason>& reasons, const Table& out,
                  const std::vector<double>& reference, double tolerance,
                  const std::vector<Mistake>& mistakes, const std::string& where,
                  const std::function<void()>& explain = {});

/// For kernels whose threads may wait forever: calls an entry that launches and returns what the
/// launch threw beside its result. What the lab found before a deadlock is reported first, then
/// this exercise's likely cause and the lab's words.
/// @param likely    the likely cause of a deadlock, for the message
template <class... Arguments>
Launched call_waiting(const std::vector<Reason>& reasons, const std::string& likely,
                      const std::string& entry, const Arguments&... arguments) {
  const auto [launched, error] = call<std::pair<Launched, std::string>>(entry, arguments...);
  if (error.empty()) return launched;
  require_no_findings(launched.seen, reasons);
  if (error.find("deadlock") == std::string::npos) refuse("the launch failed: " + error);
  refuse("threads wait forever: " + likely + "\n\n" + error);
}

/// An array in a drawing: those that are read in the order of the parameters, then the output.
struct Drawn {
  std::string name;       ///< "x"
  std::int64_t size = 0;  ///< elements
  std::int64_t cols = 0;  ///< of a matrix; 0 for a vector
};

/// How often an array was read: see Place::array.
std::int64_t reads(const Played& played, int array);

/// The most elements that one thread loads: work that is not shared shows in loads, while a store
/// may also clear a tile.
std::int64_t most_loads(const Played& played);

/// A case of a puzzle's grader.
struct PuzzleCase {
  Puzzle puzzle;
  std::vector<Drawn> arrays;      ///< as the parameters of the kernel
  std::vector<double> right;      ///< the output
  std::vector<Mistake> mistakes;  ///< in the order in which they are tried
  std::vector<Reason> reasons;    ///< for findings of the lab
  std::string where;              ///< the case, in words
  /// Whether the output depends on every element of the input.
  bool reads_all = true;
  /// Elements of the output that one thread may write.
  std::int64_t per_thread = 1;
  /// The message when several threads write the same element.
  std::string twice =
      "each element of the output belongs to one thread. A kernel has no loop over all elements: "
      "the launch has taken its place";
};

/// Runs the kernel, draws it, and refuses a wrong result; in the stage "races" also each finding.
Played play_puzzle(const PuzzleCase& c, const std::string& stage = {});

/// A vector of a function of its index.
template <class F>
std::vector<double> made(std::int64_t size, F f) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < size; ++i) result.push_back(f(i));
  return result;
}

}  // namespace fa::classroom

/// FA_PLAY(odd, make(1), make(7)); is a stage that plays cases, one after the other.
#define FA_PLAY(stage, ...)                                  \
  FA_STAGE(stage) {                                          \
    for (const fa::classroom::PuzzleCase& c : {__VA_ARGS__}) \
      fa::classroom::play_puzzle(c, #stage);                 \
  }                                                          \
  static_assert(true)
