#include "06_flash_backward/ring/comm.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include <fmt/ranges.h>

namespace fa::ring {
namespace {

constexpr int kFailedStatus = 2;  // cli::kCannotDo

// What the threads of a run share.
struct Shared {
  std::string program;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<Message>> posted;  // from a rank to another, unread
  std::vector<int> unread;          // messages of each rank that no rank has read yet
  std::vector<std::int64_t> begun;  // transfers of each rank
  std::int64_t progress = 0;        // counts whatever happens
  int ended = 0;                    // ranks

  void note() {
    ++progress;
    changed.notify_all();
  }
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
        fail(fmt::format("rank {} receives {} bytes from rank {}, which sends {}", rank(), to.bytes,
                         to.rank, from.front().bytes));
      }
      if (to.bytes > 0) std::memcpy(to.data, from.front().data, static_cast<std::size_t>(to.bytes));
      from.pop_front();
      --shared_.unread[static_cast<std::size_t>(to.rank)];
      shared_.note();
    }
    receives_.clear();
    // What this rank sent may be written when all of it has been read.
    shared_.changed.wait(lock,
                         [&] { return shared_.unread[static_cast<std::size_t>(rank())] == 0; });
  }
  void note_progress() override {
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    ++shared_.begun[static_cast<std::size_t>(rank())];
    shared_.note();
  }
  [[noreturn]] void fail(const std::string& message) override {
    fmt::print(stderr, "{}: {}\n", shared_.program, message);
    std::fflush(stderr);
    _exit(kFailedStatus);
  }

 private:
  void begin(const Messages& messages) override {
    note_progress();
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    receives_ = messages.receives;
    // Copies are made in wait(), as late as possible: until then what is received is NaN.
    for (const Message& to : receives_) {
      if (to.bytes > 0) std::memset(to.data, 0xff, static_cast<std::size_t>(to.bytes));
    }
    for (const Message& m : messages.sends) {
      shared_.posted[{rank(), m.rank}].push_back(m);
      ++shared_.unread[static_cast<std::size_t>(rank())];
    }
    shared_.changed.notify_all();
  }

  Shared& shared_;
  std::vector<Message> receives_;
};

}  // namespace

void Comm::start(const Messages& messages) {
  if (fault_ == "throw") throw std::runtime_error("a fault that was asked for");
  while (fault_ == "stop") std::this_thread::sleep_for(std::chrono::seconds(1));
  for (const Message& from : messages.receives) {
    if (from.rank == rank_) continue;
    arrived_.bytes += from.bytes;
    ++arrived_.messages;
  }
  begin(messages);
}

void run_threads(const std::string& program, int ranks, double limit,
                 const std::function<void(Comm&)>& body) {
  Shared shared;
  shared.program = program;
  shared.unread.resize(static_cast<std::size_t>(ranks));
  shared.begun.resize(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&shared, rank, ranks, &body] {
      ThreadComm comm(shared, rank, ranks);
      try {
        body(comm);
      } catch (const std::exception& error) {
        comm.fail(fmt::format("rank {}: {}", rank, error.what()));
      }
      const std::lock_guard<std::mutex> lock(shared.mutex);
      ++shared.ended;
      shared.note();
    });
  }
  {
    std::unique_lock<std::mutex> lock(shared.mutex);
    while (shared.ended < ranks) {
      const std::int64_t before = shared.progress;
      if (!shared.changed.wait_for(lock, std::chrono::duration<double>(limit),
                                   [&] { return shared.progress != before; })) {
        fmt::print(stderr,
                   "{}: no message for {} s (--timeout); transfers that ranks 0 to {} have begun: "
                   "{}\n",
                   program, limit, ranks - 1, fmt::join(shared.begun, ", "));
        std::fflush(stderr);
        _exit(kFailedStatus);
      }
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace fa::ring
