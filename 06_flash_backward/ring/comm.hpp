/// @file
/// Lesson 06: MPI with counts and with a time limit on every wait. All calls are non-blocking ones
/// followed by wait(), so that a rank that ended or hangs stops the others within seconds.
///
/// Source: MPI: A Message-Passing Interface Standard, version 3.1, chapters 3.7 and 5.12.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace fa::ring {

/// The type of elements in a message.
template <class T>
MPI_Datatype mpi_type() {
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<T, std::int64_t>) return MPI_INT64_T;
}

/// What arrived at a rank from other ranks. A collective counts as one message from each.
struct Arrived {
  std::int64_t bytes = 0, messages = 0;
};

/// A parameter on which all ranks must agree.
struct Agreed {
  std::string name;
  std::int64_t value;
  bool readable = true;  ///< false: the value stands for words and is not printed
};
using Agreement = std::vector<Agreed>;  ///< all of them

/// The ranks of this run.
class Comm {
 public:
  /// Messages that have been started.
  struct Transfer {
    std::vector<MPI_Request> requests;
    std::string what;  ///< for messages about faults
  };

  /// @param program name for messages about faults
  /// @param limit   seconds that a wait may take
  Comm(std::string program, double limit);

  /// This rank, counted from 0.
  int rank() const { return rank_; }
  /// How many ranks there are.
  int size() const { return size_; }
  /// The rank before this one in the ring.
  int left() const { return (rank_ + size_ - 1) % size_; }
  /// The rank behind this one in the ring.
  int right() const { return (rank_ + 1) % size_; }

  /// Sends to the right neighbour, receives from the left one, and waits for neither.
  template <class T>
  Transfer shift(const T* send, std::int64_t send_count, T* receive, std::int64_t receive_count,
                 int tag, const std::string& what) {
    begin_transfer();
    Transfer transfer{{MPI_REQUEST_NULL, MPI_REQUEST_NULL}, what};
    MPI_Irecv(receive, count_of(receive_count), mpi_type<T>(), left(), tag, comm_,
              &transfer.requests[0]);
    MPI_Isend(send, count_of(send_count), mpi_type<T>(), right(), tag, comm_,
              &transfer.requests[1]);
    if (size_ > 1) arrived(receive_count * std::int64_t{sizeof(T)}, 1);
    return transfer;
  }

  /// Waits for both directions; stops all ranks when the limit is exceeded.
  void wait(Transfer& transfer);

  /// Collects `counts[r]` elements of each rank r in the order of the ranks.
  template <class T>
  std::vector<T> all_gather(const T* own, const std::vector<std::int64_t>& counts,
                            const std::string& what) {
    begin_transfer();
    const auto [sizes, places] = layout_of(counts);
    std::vector<T> all(static_cast<std::size_t>(sum(counts)));
    Transfer transfer{{MPI_REQUEST_NULL}, what};
    MPI_Iallgatherv(own, sizes[static_cast<std::size_t>(rank_)], mpi_type<T>(), all.data(),
                    sizes.data(), places.data(), mpi_type<T>(), comm_, &transfer.requests[0]);
    wait(transfer);
    arrived((sum(counts) - counts[static_cast<std::size_t>(rank_)]) * std::int64_t{sizeof(T)},
            size_ - 1);
    return all;
  }

  /// Adds the vectors of all ranks; rank r receives its `counts[r]` elements of the sum.
  template <class T>
  void reduce_scatter(const T* all, const std::vector<std::int64_t>& counts, T* own,
                      const std::string& what) {
    begin_transfer();
    const auto sizes = layout_of(counts).first;
    Transfer transfer{{MPI_REQUEST_NULL}, what};
    MPI_Ireduce_scatter(all, own, sizes.data(), mpi_type<T>(), MPI_SUM, comm_,
                        &transfer.requests[0]);
    wait(transfer);
    arrived((size_ - 1) * counts[static_cast<std::size_t>(rank_)] * std::int64_t{sizeof(T)},
            size_ - 1);
  }

  /// Sends `send_counts[r]` elements to each rank r; receives likewise, in the order of the ranks.
  template <class T>
  std::vector<T> all_to_all(const std::vector<T>& send,
                            const std::vector<std::int64_t>& send_counts,
                            const std::vector<std::int64_t>& receive_counts,
                            const std::string& what) {
    begin_transfer();
    const auto [to_sizes, to_places] = layout_of(send_counts);
    const auto [sizes, places] = layout_of(receive_counts);
    std::vector<T> result(static_cast<std::size_t>(sum(receive_counts)));
    Transfer transfer{{MPI_REQUEST_NULL}, what};
    MPI_Ialltoallv(send.data(), to_sizes.data(), to_places.data(), mpi_type<T>(), result.data(),
                   sizes.data(), places.data(), mpi_type<T>(), comm_, &transfer.requests[0]);
    wait(transfer);
    arrived((sum(receive_counts) - receive_counts[static_cast<std::size_t>(rank_)]) *
                std::int64_t{sizeof(T)},
            size_ - 1);
    return result;
  }

  /// Stops all ranks with one message when their values differ: it names the rank that differs
  /// from most.
  void agree(const Agreement& values);

  /// Stops all ranks; prints the message of this one.
  [[noreturn]] void fail(const std::string& message);

  /// The same where all ranks have found the same fault: rank 0 prints it.
  [[noreturn]] void fail_together(const std::string& message);

  /// Waits until all ranks are here.
  void barrier();

  /// Sets the seconds that a wait may take.
  void set_limit(double limit) { limit_ = limit; }

  /// What has arrived since the last call.
  Arrived take_arrived() { return std::exchange(arrived_, {}); }

  /// Makes this rank misbehave at its next transfer: "exit", "kill", "stop" or "throw"; for tests.
  void set_fault(std::string kind) { fault_ = std::move(kind); }

 private:
  static int count_of(std::int64_t count) {
    if (count > std::numeric_limits<int>::max()) {
      throw std::runtime_error(fmt::format(
          "a message of {} elements; MPI 3 counts with int, so at most 2147483647", count));
    }
    return static_cast<int>(count);
  }
  static std::int64_t sum(const std::vector<std::int64_t>& counts);
  static std::pair<std::vector<int>, std::vector<int>> layout_of(
      const std::vector<std::int64_t>& counts);
  void arrived(std::int64_t bytes, std::int64_t messages);
  void begin_transfer();
  bool anyone_reports();
  [[noreturn]] void find_stopped_rank(const std::string& what);

  std::string program_, fault_;
  double limit_;
  int rank_ = 0, size_ = 1;
  MPI_Comm comm_ = MPI_COMM_NULL, faults_ = MPI_COMM_NULL;
  Arrived arrived_;
};

}  // namespace fa::ring
