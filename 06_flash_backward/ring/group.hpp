/// @file
/// Lesson 06, ring attention on GPUs: the ranks of a run, as threads of one process or as processes
/// of MPI, and how they end together when one fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace fa::ring {

/// A failure whose message names its rank.
struct RankFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Ends a rank after the failure of another one, which has the message.
struct Ended {};

/// The ranks of a run, seen from one of them.
class Group {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param limit seconds that a rank waits for another one
  Group(int rank, int size, double limit) : rank_(rank), size_(size), limit_(limit) {}
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// This rank, counted from 0.
  int rank() const { return rank_; }
  /// How many ranks there are.
  int size() const { return size_; }

  /// Collects `counts[r]` elements of each rank r in the order of the ranks. All ranks wait.
  /// @tparam T of a multiple of 4 bytes
  template <class T>
  std::vector<T> all_gather(const std::vector<T>& own, const std::vector<std::int64_t>& counts,
                            const std::string& what) {
    std::vector<std::int64_t> bytes;
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) {
      sum += count;
      bytes.push_back(count * std::int64_t{sizeof(T)});
    }
    std::vector<T> all(static_cast<std::size_t>(sum));
    gather(own.data(), all.data(), bytes, what);
    return all;
  }
  /// The same with as many elements of every rank.
  template <class T>
  std::vector<T> all_gather(const std::vector<T>& own, const std::string& what) {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(size_),
                                           static_cast<std::int64_t>(own.size()));
    return all_gather(own, counts, what);
  }
  /// Fails when a parameter differs between ranks, with its name.
  void agree(const std::vector<std::pair<std::string, std::int64_t>>& parameters);

  /// Notes that this rank begins a transfer. Here begins a fault that fault_of() names: "throw",
  /// "stop", "exit" or "kill".
  void begin_transfer();
  /// The fault that the environment asks of a rank, for tests: "stop" for rank 1 with
  /// RING_FAULT=1:stop; empty for none.
  static std::string fault_of(int rank);
  /// For loops that wait.
  /// @param start when the wait began
  /// @param what  is waited for
  /// @throws RankFailure when the wait takes longer than the limit
  /// @throws Ended       when another rank has failed
  void check_wait(Clock::time_point start, const std::string& what);

 protected:
  /// Brings bytes of all ranks together.
  /// @param own   this rank's
  /// @param all   of all ranks, behind one another
  /// @param bytes of each rank
  /// @param what  is waited for
  virtual void gather(const void* own, void* all, const std::vector<std::int64_t>& bytes,
                      const std::string& what) = 0;
  /// Whether another rank has failed.
  virtual bool another_failed() = 0;
  /// Counts what this rank has begun: the ranks that stopped have begun the least.
  virtual void advance() {}
  /// The ranks that others wait for, as text.
  virtual std::string stopped_ranks() = 0;
  /// Ends a wait that took too long.
  /// @throws RankFailure
  [[noreturn]] void stop_waiting(const std::string& what);
  /// Seconds that a rank waits for another one.
  double limit() const { return limit_; }

 private:
  int rank_, size_;
  double limit_;
};

/// Runs the body on a thread for each rank, and returns when all have ended. When one throws, the
/// others end, too, within seconds: those that do not are left behind, and the process ends with
/// status 2 after the message.
/// @param program name for that message
/// @param limit   seconds that a rank waits for another one
/// @throws RankFailure with the first failure
void run_threads(const std::string& program, int ranks, double limit,
                 const std::function<void(Group&)>& body);

}  // namespace fa::ring
