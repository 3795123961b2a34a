#include "06_flash_backward/ring/group.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

#include <fmt/ranges.h>

namespace fa::ring {
namespace {

constexpr int kFailedStatus = 2;                  // cli::kCannotDo
constexpr auto kGrace = std::chrono::seconds(5);  // for the other ranks to end

// What the threads of a run share.
struct Shared {
  explicit Shared(int ranks)
      : posted(static_cast<std::size_t>(ranks)), begun(static_cast<std::size_t>(ranks)) {}
  void fail(const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!failure) failure = message;
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<const void*> posted;  // by each rank, in a gather
  std::vector<std::int64_t> begun;  // gathers and transfers of each rank
  int arrived = 0, ended = 0;       // ranks
  std::int64_t meetings = 0;        // that are over
  std::optional<std::string> failure;
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(Shared& shared, int rank, int size, double limit)
      : Group(rank, size, limit), shared_(shared) {}

 private:
  void gather(const void* own, void* all, const std::vector<std::int64_t>& bytes,
              const std::string& what) override {
    advance();
    std::unique_lock<std::mutex> lock(shared_.mutex);
    shared_.posted[static_cast<std::size_t>(rank())] = own;
    meet(lock, what);
    auto* to = static_cast<char*>(all);
    for (std::size_t r = 0; r < bytes.size(); ++r) {
      if (bytes[r] > 0) std::memcpy(to, shared_.posted[r], static_cast<std::size_t>(bytes[r]));
      to += bytes[r];
    }
    meet(lock, what);  // all ranks have copied `own`
  }
  void meet(std::unique_lock<std::mutex>& lock, const std::string& what) {
    const std::int64_t meeting = shared_.meetings;
    if (++shared_.arrived == size()) {
      shared_.arrived = 0;
      ++shared_.meetings;
      shared_.changed.notify_all();
    }
    const bool over = shared_.changed.wait_for(lock, std::chrono::duration<double>(limit()), [&] {
      return shared_.meetings != meeting || shared_.failure.has_value();
    });
    if (shared_.meetings != meeting) return;
    if (over) throw Ended{};
    lock.unlock();
    stop_waiting(what);
  }
  bool another_failed() override {
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    return shared_.failure.has_value();
  }
  void advance() override {
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    ++shared_.begun[static_cast<std::size_t>(rank())];
  }
  std::string stopped_ranks() override {
    const std::lock_guard<std::mutex> lock(shared_.mutex);
    const auto [least, most] = std::minmax_element(shared_.begun.begin(), shared_.begun.end());
    std::vector<int> ranks;
    for (int r = 0; r < size(); ++r) {
      if (*least < *most && shared_.begun[static_cast<std::size_t>(r)] == *least) {
        ranks.push_back(r);
      }
    }
    return fmt::format("{}", fmt::join(ranks, ", "));
  }

  Shared& shared_;
};

void run_rank(Shared& shared, int rank, int ranks, double limit,
              const std::function<void(Group&)>& body) {
  try {
    ThreadGroup group(shared, rank, ranks, limit);
    body(group);
  } catch (const Ended&) {
  } catch (const RankFailure& failure) {
    shared.fail(failure.what());
  } catch (const std::exception& error) {
    shared.fail(fmt::format("rank {}: {}", rank, error.what()));
  }
  const std::lock_guard<std::mutex> lock(shared.mutex);
  ++shared.ended;
  shared.changed.notify_all();
}

}  // namespace

void Group::agree(const std::vector<std::pair<std::string, std::int64_t>>& parameters) {
  std::vector<std::int64_t> own;
  for (const auto& parameter : parameters) own.push_back(parameter.second);
  const auto all = all_gather(own, "the parameters of the other ranks");
  for (std::size_t i = 0; i < own.size(); ++i) {
    for (int r = 1; r < size_; ++r) {
      const std::int64_t other = all[static_cast<std::size_t>(r) * own.size() + i];
      if (other == all[i]) continue;
      throw RankFailure(
          fmt::format("rank {} has {} {}, rank 0 has {}; all ranks must have the same", r,
                      parameters[i].first, other, all[i]));
    }
  }
}

void Group::begin_transfer() {
  const std::string kind = fault_of(rank_);
  if (kind == "exit") _exit(3);
  if (kind == "kill") raise(SIGKILL);
  if (kind == "throw") throw std::runtime_error("out of memory (a fault that was asked for)");
  while (kind == "stop") std::this_thread::sleep_for(std::chrono::seconds(1));
  advance();
}

std::string Group::fault_of(int rank) {
  const char* const fault = std::getenv("RING_FAULT");
  const std::string of_rank = fmt::format("{}:", rank);
  if (fault == nullptr || std::string(fault).rfind(of_rank, 0) != 0) return "";
  return fault + of_rank.size();
}

void Group::check_wait(Clock::time_point start, const std::string& what) {
  if (another_failed()) throw Ended{};
  if (std::chrono::duration<double>(Clock::now() - start).count() > limit_) stop_waiting(what);
}

void Group::stop_waiting(const std::string& what) {
  const std::string stopped = stopped_ranks();
  if (stopped.empty()) {
    throw RankFailure(fmt::format("all ranks wait for longer than {} s; rank {} waits for {}",
                                  limit_, rank_, what));
  }
  throw RankFailure(
      fmt::format("rank {} did not answer for {} s: it has stopped or is slow (--timeout); rank {} "
                  "waited for {}",
                  stopped, limit_, rank_, what));
}

void run_threads(const std::string& program, int ranks, double limit,
                 const std::function<void(Group&)>& body) {
  Shared shared(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back(
        [&shared, rank, ranks, limit, &body] { run_rank(shared, rank, ranks, limit, body); });
  }
  {
    std::unique_lock<std::mutex> lock(shared.mutex);
    const auto all_ended = [&] { return shared.ended == ranks; };
    shared.changed.wait(lock, [&] { return all_ended() || shared.failure.has_value(); });
    if (!shared.changed.wait_for(lock, kGrace, all_ended)) {
      fmt::print(stderr, "{}: {}\n", program, *shared.failure);
      std::fflush(stderr);
      _exit(kFailedStatus);
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (shared.failure) throw RankFailure(*shared.failure);
}

}  // namespace fa::ring
