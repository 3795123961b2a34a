// Ranks that are processes of MPI; where MPI is not installed, functions that say so.
//
// Source: MPI: A Message-Passing Interface Standard, version 3.1, chapter 3.7.
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "06_flash_backward/ring/comm.hpp"

#if defined(FA_MPI)
#include <chrono>
#include <cstdio>
#include <limits>
#include <mpi.h>
#include <thread>
#endif

namespace fa::ring {

bool mpi_started_this() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

#if defined(FA_MPI)
namespace {

class MpiComm : public Comm {
 public:
  MpiComm(std::string program, double limit, int rank)
      : Comm(rank, mpi_ranks()), program_(std::move(program)), limit_(limit) {}

  // clang-format off
  //! [wait]
  void wait() override {
    const auto start = std::chrono::steady_clock::now();
    for (int done = 0; done == 0;) {
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                  MPI_STATUSES_IGNORE);
      const std::chrono::duration<double> waited =
          std::chrono::steady_clock::now() - start;
      if (done == 0 && waited.count() > limit_) {
        fail(fmt::format("rank {} waited for messages for {} s (--timeout)",
                         rank(), limit_));
      }
      std::this_thread::yield();  // other ranks may share this core
    }
    requests_.clear();
  }
  //! [wait]
  // clang-format on
  [[noreturn]] void fail(const std::string& message) override {
    fmt::print(stderr, "{}: {}\n", program_, message);
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
    std::abort();
  }

 private:
  // clang-format off
  //! [begin]
  void begin(const Messages& messages) override {
    for (const Message& from : messages.receives) {
      requests_.emplace_back();
      MPI_Irecv(from.data, count_of(from), MPI_BYTE, from.rank, 0,
                MPI_COMM_WORLD, &requests_.back());
    }
    for (const Message& to : messages.sends) {
      requests_.emplace_back();
      MPI_Isend(to.data, count_of(to), MPI_BYTE, to.rank, 0, MPI_COMM_WORLD,
                &requests_.back());
    }
  }
  //! [begin]
  // clang-format on
  static int count_of(const Message& message) {
    if (message.bytes > std::numeric_limits<int>::max()) {
      throw std::runtime_error(fmt::format(
          "a message of {} bytes; MPI 3 counts with int, so at most 2147483647", message.bytes));
    }
    return static_cast<int>(message.bytes);
  }

  std::string program_;
  double limit_;
  std::vector<MPI_Request> requests_;
};

int mpi_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace

int begin_mpi(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  return mpi_rank();
}
int mpi_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}
void end_mpi() {
  MPI_Finalize();
}
void run_processes(const std::string& program, double limit,
                   const std::function<void(Comm&)>& body) {
  MpiComm comm(program, limit, mpi_rank());
  try {
    body(comm);
    gather(comm, 0);  // no rank ends before the others
  } catch (const std::exception& error) {
    comm.fail(fmt::format("rank {}: {}", comm.rank(), error.what()));
  }
}

#else

int begin_mpi(int /*argc*/, char** /*argv*/) {
  throw std::runtime_error("this build has no MPI: start the program without mpirun");
}
int mpi_ranks() {
  return 1;
}
void end_mpi() {}
void run_processes(const std::string&, double, const std::function<void(Comm&)>&) {}
#endif

}  // namespace fa::ring
