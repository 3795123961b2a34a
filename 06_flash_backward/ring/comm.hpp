/// @file
/// Lesson 06: the ranks of a run and the messages between them. Every form of ring attention needs
/// two operations: begin to send to some ranks and to receive from some, and wait for that. Ranks
/// are threads of one process, or processes of MPI; nccl_main.cu has GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace fa::ring {

/// Bytes for another rank, or from it.
struct Message {
  int rank;
  void* data;
  std::int64_t bytes;
};

/// What a rank sends and receives at the same time. Messages between two ranks arrive in the order
/// in which they are sent. A rank may send to itself.
struct Messages {
  std::vector<Message> sends, receives;

  /// @{ Adds a message of `count` elements.
  template <class T>
  void send(int to, const T* data, std::int64_t count) {
    sends.push_back({to, const_cast<T*>(data), count * std::int64_t{sizeof(T)}});
  }
  template <class T>
  void receive(int from, T* data, std::int64_t count) {
    receives.push_back({from, data, count * std::int64_t{sizeof(T)}});
  }
  /// @}
  /// Adds all of `more`.
  void add(const Messages& more) {
    sends.insert(sends.end(), more.sends.begin(), more.sends.end());
    receives.insert(receives.end(), more.receives.begin(), more.receives.end());
  }
};

/// What arrived at a rank from other ranks.
struct Arrived {
  std::int64_t bytes = 0, messages = 0;
};

/// The ranks of a run, seen from one of them.
class Comm {
 public:
  /// One of `size` ranks.
  Comm(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  /// This rank, counted from 0.
  int rank() const { return rank_; }
  /// How many ranks there are.
  int size() const { return size_; }
  /// Begins to send and to receive, and waits for neither. Until wait() returns, what is sent must
  /// not be written, and what is received not be used. Only one call may be in flight.
  void start(const Messages& messages) {
    for (const Message& from : messages.receives) {
      if (from.rank == rank_) continue;
      arrived_.bytes += from.bytes;
      ++arrived_.messages;
    }
    begin(messages);
  }
  /// Waits for the messages of start().
  virtual void wait() = 0;
  /// What has arrived since the last call.
  Arrived take_arrived() { return std::exchange(arrived_, {}); }

 protected:
  /// What start() does.
  virtual void begin(const Messages& messages) = 0;

 private:
  int rank_, size_;
  Arrived arrived_;
};

/// Collects `counts[r]` elements of each rank r in the order of the ranks.
template <class T>
std::vector<T> gather(Comm& comm, const std::vector<T>& own,
                      const std::vector<std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) sum += count;
  std::vector<T> all(static_cast<std::size_t>(sum));
  Messages messages;
  T* to = all.data();
  for (int r = 0; r < comm.size(); ++r) {
    const std::int64_t count = counts[static_cast<std::size_t>(r)];
    messages.send(r, own.data(), counts[static_cast<std::size_t>(comm.rank())]);
    messages.receive(r, to, count);
    to += count;
  }
  comm.start(messages);
  comm.wait();
  return all;
}

/// Collects one number of each rank; also a barrier.
template <class T>
std::vector<T> gather(Comm& comm, T own) {
  return gather(comm, std::vector<T>{own},
                std::vector<std::int64_t>(static_cast<std::size_t>(comm.size()), 1));
}

/// Runs the body on a thread for each rank. When one throws, the process ends with its message and
/// status 2.
void run_threads(int ranks, const std::function<void(Comm&)>& body);

/// @{ Processes of MPI as ranks, where mpirun has started this one; else there are none.
int mpi_rank();   ///< of this process; 0 without MPI
int mpi_ranks();  ///< how many processes there are; 0 without MPI
/// Runs the body with all processes as ranks. When one throws, all end with status 2.
void run_processes(const std::function<void(Comm&)>& body);
/// @}

}  // namespace fa::ring
