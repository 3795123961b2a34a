// Ranks that are threads of this process, and ranks that are processes of MPI.
//
// Source: MPI: A Message-Passing Interface Standard, version 3.1, chapter 3.7.
#include "06_flash_backward/ring/comm.hpp"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#if defined(FA_MPI)
#include <mpi.h>
#endif

namespace fa::ring {
namespace {

constexpr int kFailedStatus = 2;  // cli::kCannotDo

void print_error(int rank, const std::exception& error) {
  fmt::print(stderr, "rank {}: {}\n", rank, error.what());
  std::fflush(stderr);
}

bool mpirun_started_this() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// What the threads of a run share.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<Message>> posted;  // from a rank to another, unread
  std::map<int, int> unread;  // messages of each rank that no rank has read yet
};

class ThreadComm : public Comm {
 public:
  ThreadComm(Shared& shared, int rank, int size) : Comm(rank, size), shared_(shared) {}

  void wait() override {
    std::unique_lock<std::mutex> lock(shared_.mutex);
    for (const Message& to : receives_) {
      auto& from = shared_.posted[{to.rank, rank()}];
      shared_.changed.wait(lock, [&] { return !from.empty(); });
      if (from.front().bytes != to.bytes) {
        throw std::logic_error(fmt::format("receives {} bytes from rank {}, which sends {}",
                                           to.bytes, to.rank, from.front().bytes));
      }
      if (to.bytes > 0) std::memcpy(to.data, from.front().data, static_cast<std::size_t>(to.bytes));
      from.pop_front();
      --shared_.unread[to.rank];
      shared_.changed.notify_all();
    }
    receives_.clear();
    // What this rank sent may be written when all of it has been read.
    shared_.changed.wait(lock, [&] { return shared_.unread[rank()] == 0; });
  }

 private:
  void begin(const Messages& messages) override {
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    receives_ = messages.receives;
    // Copies are made in wait(), as late as possible: until then what is received is NaN.
    for (const Message& to : receives_) {
      if (to.bytes > 0) std::memset(to.data, 0xff, static_cast<std::size_t>(to.bytes));
    }
    for (const Message& m : messages.sends) {
      shared_.posted[{rank(), m.rank}].push_back(m);
      ++shared_.unread[rank()];
    }
    shared_.changed.notify_all();
  }

  Shared& shared_;
  std::vector<Message> receives_;
};

}  // namespace

void run_threads(int ranks, const std::function<void(Comm&)>& body) {
  Shared shared;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&shared, rank, ranks, &body] {
      ThreadComm comm(shared, rank, ranks);
      try {
        body(comm);
      } catch (const std::exception& error) {  // the others would wait for it forever
        print_error(rank, error);
        _exit(kFailedStatus);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

#if defined(FA_MPI)
namespace {

int count_of(const Message& message) {
  if (message.bytes > std::numeric_limits<int>::max()) {
    throw std::runtime_error(fmt::format(
        "a message of {} bytes; MPI 3 counts with int, so at most 2147483647", message.bytes));
  }
  return static_cast<int>(message.bytes);
}

// clang-format off
//! [mpi]
class MpiComm : public Comm {
 public:
  using Comm::Comm;
  void wait() override {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(),
                MPI_STATUSES_IGNORE);
    requests_.clear();
  }

 private:
  void begin(const Messages& messages) override {
    for (const Message& from : messages.receives) {
      MPI_Irecv(from.data, count_of(from), MPI_BYTE, from.rank, 0,
                MPI_COMM_WORLD, &requests_.emplace_back());
    }
    for (const Message& to : messages.sends) {
      MPI_Isend(to.data, count_of(to), MPI_BYTE, to.rank, 0, MPI_COMM_WORLD,
                &requests_.emplace_back());
    }
  }
  std::vector<MPI_Request> requests_;
};
//! [mpi]
// clang-format on

// MPI from its first use to the end of the process; false where mpirun did not start this.
bool use_mpi() {
  struct Mpi {
    Mpi() { MPI_Init(nullptr, nullptr); }
    ~Mpi() { MPI_Finalize(); }
  };
  if (mpirun_started_this()) static const Mpi mpi;
  return mpirun_started_this();
}

}  // namespace

int mpi_rank() {
  int rank = 0;
  if (use_mpi()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int mpi_ranks() {
  int ranks = 0;
  if (use_mpi()) MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}
void run_processes(const std::function<void(Comm&)>& body) {
  MpiComm comm(mpi_rank(), mpi_ranks());
  try {
    body(comm);
  } catch (const std::exception& error) {
    print_error(comm.rank(), error);
    MPI_Abort(MPI_COMM_WORLD, kFailedStatus);
  }
}

#else

int mpi_rank() {
  return 0;
}
int mpi_ranks() {
  if (!mpirun_started_this()) return 0;
  throw std::runtime_error("this build has no MPI: start the program without mpirun");
}
void run_processes(const std::function<void(Comm&)>&) {}
#endif

}  // namespace fa::ring
