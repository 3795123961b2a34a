/// @file
/// What the watched lab sees of a kernel, for the sections of lessons: summed up, as text, as JSON,
/// as a picture.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/lab/program.hpp"

namespace fa::lab {

/// The line of shared memory with the most conflicts of banks, drawn.
struct BankPicture {
  std::int64_t wavefronts = 0;  ///< of the line
  std::int64_t ideal = 0;       ///< without bank conflicts
  std::string where;            ///< file:line
  std::string svg;              ///< of the line's worst request
};

/// What is watched, for the report.
struct TraceName {
  std::string kernel;                             ///< its name
  std::string group;                              ///< title of what it computes
  std::vector<std::vector<std::int64_t>> inputs;  ///< shapes
};

/// What a kernel asked of memory, and what was wrong with it.
struct Trace {
  std::int64_t findings = 0;          ///< 0 when nothing is wrong
  std::int64_t global_bytes = 0;      ///< asked for, reads and writes
  std::int64_t written_bytes = 0;     ///< of these, writes
  std::int64_t sectors = 0;           ///< 32-byte pieces of global memory that were moved
  std::int64_t sectors_ideal = 0;     ///< if the lanes of each warp stood side by side
  std::int64_t wavefronts = 0;        ///< rounds of shared memory
  std::int64_t wavefronts_ideal = 0;  ///< without bank conflicts
  std::string text;                   ///< the whole report, for people
  std::string json;                   ///< the same and the sums, an object
  std::optional<BankPicture> banks;   ///< none without shared memory
  Coverage coverage;                  ///< lines of the kernel
};

/// A problem that a kernel is watched with.
struct TracedProblem {
  std::string name;            ///< its sizes, for people
  std::function<void()> work;  ///< launches kernels of the machine "watched"
};

/// Watches what some work launches, kernels of the machine "watched"; none where this build has no
/// watched lab.
/// @throws what the work throws; a std::runtime_error then also says what was found
std::optional<Trace> trace(const TraceName& name, const std::function<void()>& work);

/// Watches a kernel with several problems, one after the other; none where this build has no
/// watched lab. The name has the shapes of the first problem.
/// @return the findings and the coverage of all problems, each finding with the problems that
/// showed it; the counts of the first problem
std::optional<Trace> trace(const TraceName& name, const std::vector<TracedProblem>& problems);

/// Whether it is known which lines were reached: not with clang, which gives code to other lines.
#if defined(__clang__)
constexpr bool kLinesAreKnown = false;
#else
constexpr bool kLinesAreKnown = true;
#endif
/// What unreached_text() says where it names no line.
constexpr const char* kAllReached = kLinesAreKnown
                                        ? "Every line of the kernels was reached.\n"
                                        : "Which lines were reached is known with g++ only.\n";

/// The lines that were never reached, for people: "07.cuh:57, 61; 08.cuh:3"; empty when there are
/// none, or they are not known.
std::string unreached(const Coverage& coverage);

/// The same as a message.
std::string unreached_text(const Coverage& coverage);

/// The traces of several kernels, as files.
class TraceFiles {
 public:
  /// Adds a trace.
  void add(const Trace& trace);
  /// Whether none was added.
  bool empty() const { return json_.empty(); }
  /// Writes what was asked for, and prints where it is.
  /// @param json file for all reports; empty: none
  /// @param svg  file for the banks of the worst line of shared memory; empty: none
  /// @throws std::runtime_error when a file cannot be written
  void write(const std::string& json, const std::string& svg) const;

 private:
  std::string json_;
  std::optional<BankPicture> worst_;
};

}  // namespace fa::lab
