#include "06_flash_backward/ring/comm.hpp"

#include <csignal>
#include <cstdio>
#include <map>
#include <set>
#include <thread>
#include <unistd.h>

#include <fmt/ranges.h>

namespace fa::ring {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kReport = 1;        // the tag of "I am waiting", on a communicator of its own
constexpr double kGrace = 0.5;    // seconds in which the others must report
constexpr int kFailedStatus = 2;  // cli::kCannotDo

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void pause_briefly() {
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// The errors of MPI calls, which name their rank and cause.
void stop_after_error(MPI_Comm* comm, int* code, ...) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0, rank = 0;
  MPI_Error_string(*code, text, &length);
  MPI_Comm_rank(*comm, &rank);
  fmt::print(stderr, "ring_attention: rank {}: {}\n", rank, text);
  MPI_Abort(MPI_COMM_WORLD, kFailedStatus);
}

// Another rank prints the message and ends all.
[[noreturn]] void wait_for_the_end() {
  std::this_thread::sleep_for(std::chrono::seconds(5));
  _exit(kFailedStatus);
}

}  // namespace

Comm::Comm(std::string program, double limit) : program_(std::move(program)), limit_(limit) {
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  MPI_Comm_dup(MPI_COMM_WORLD, &faults_);
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(stop_after_error, &handler);
  MPI_Comm_set_errhandler(comm_, handler);
  MPI_Comm_set_errhandler(faults_, handler);
  MPI_Errhandler_free(&handler);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

// clang-format off
//! [wait]
void Comm::wait(Transfer& transfer) {
  const auto start = Clock::now();
  for (int done = 0; done == 0;) {
    MPI_Testall(static_cast<int>(transfer.requests.size()),
                transfer.requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) return;
    if (seconds_since(start) > limit_ || anyone_reports()) {
      find_stopped_rank(transfer.what);
    }
    pause_briefly();  // other ranks may share this core
  }
}
//! [wait]
// clang-format on

// Sends a report to all ranks: this rank waits. Ranks that wait, or begin to within kGrace, find it
// and do the same; a rank without a report is the cause. The lowest rank that waits prints the
// message.
void Comm::find_stopped_rank(const std::string& what) {
  std::vector<MPI_Request> sent(static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) {
    MPI_Isend(nullptr, 0, MPI_INT, r, kReport, faults_, &sent[static_cast<std::size_t>(r)]);
  }
  std::set<int> waiting{rank_}, silent;
  const auto start = Clock::now();
  for (; seconds_since(start) < kGrace; pause_briefly()) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kReport, faults_, &there, &status);
    if (there == 0) continue;
    MPI_Recv(nullptr, 0, MPI_INT, status.MPI_SOURCE, kReport, faults_, MPI_STATUS_IGNORE);
    waiting.insert(status.MPI_SOURCE);
  }
  for (int r = 0; r < size_; ++r) {
    if (waiting.count(r) == 0) silent.insert(r);
  }
  if (*waiting.begin() == rank_) {
    fail(silent.empty() ? fmt::format("all ranks wait for longer than {} s; rank {} "
                                      "waits for {}",
                                      limit_, rank_, what)
                        : fmt::format("rank {} did not answer for {} s: it has stopped "
                                      "or is slow (--timeout); rank {} waited for {}",
                                      fmt::join(silent, ", "), limit_, rank_, what));
  }
  wait_for_the_end();
}

bool Comm::anyone_reports() {
  int there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, kReport, faults_, &there, MPI_STATUS_IGNORE);
  return there != 0;
}

void Comm::fail(const std::string& message) {
  fmt::print(stderr, "{}: {}\n", program_, message);
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, kFailedStatus);
  _exit(kFailedStatus);
}

void Comm::fail_together(const std::string& message) {
  if (rank_ == 0) fail(message);
  wait_for_the_end();
}

void Comm::barrier() {
  Transfer transfer{{MPI_REQUEST_NULL}, "the end of the other ranks"};
  MPI_Ibarrier(comm_, &transfer.requests[0]);
  wait(transfer);
}

void Comm::agree(const Agreement& values) {
  std::vector<std::int64_t> own;
  for (const auto& value : values) own.push_back(value.value);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size_),
                                         static_cast<std::int64_t>(own.size()));
  const auto all = all_gather(own.data(), counts, "the parameters of the other ranks");
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::map<std::int64_t, int> ranks_with;
    const auto of = [&](int r) { return all[static_cast<std::size_t>(r) * values.size() + i]; };
    for (int r = 0; r < size_; ++r) ++ranks_with[of(r)];
    if (ranks_with.size() == 1) continue;
    std::int64_t most = of(0);
    for (const auto& [value, count] : ranks_with) {
      if (count > ranks_with[most]) most = value;
    }
    int other = 0;
    while (of(other) == most) ++other;
    int same = 0;
    while (of(same) != most) ++same;
    const std::string& name = values[i].name;
    fail_together(
        values[i].readable
            ? fmt::format("rank {} has {} {}, rank {} has {}; all ranks must have the same", other,
                          name, of(other), same, most)
            : fmt::format("rank {} has another {} than rank {}; all ranks must have the "
                          "same",
                          other, name, same));
  }
}

std::int64_t Comm::sum(const std::vector<std::int64_t>& counts) {
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  return total;
}

std::pair<std::vector<int>, std::vector<int>> Comm::layout_of(
    const std::vector<std::int64_t>& counts) {
  count_of(sum(counts));
  std::vector<int> sizes, places;
  int place = 0;
  for (const std::int64_t count : counts) {
    sizes.push_back(count_of(count));
    places.push_back(place);
    place += sizes.back();
  }
  return {sizes, places};
}

void Comm::arrived(std::int64_t bytes, std::int64_t messages) {
  arrived_.bytes += bytes;
  arrived_.messages += messages;
}

void Comm::begin_transfer() {
  if (fault_.empty()) return;
  if (fault_ == "exit") _exit(3);
  if (fault_ == "kill") raise(SIGKILL);
  if (fault_ == "stop") raise(SIGSTOP);
  throw std::runtime_error("out of memory (a fault that was asked for)");
}

}  // namespace fa::ring
