// Ring attention on GPUs without NCCL: ranks are threads that share one device, a GPU or the lab,
// and copy through the host's memory.
#include <cstdlib>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/src/checker.hpp"
#include "06_flash_backward/ring/device_results.cuh"

namespace fa::FA_TARGET {
namespace {

using ring::Group;
using ring::RowOrder;

// Transfers happen as late as they may, when a rank waits: until then what is received is NaN, and
// a rank that writes what it sends corrupts it.
class LateLinks {
 public:
  explicit LateLinks(Group& group) : group_(group) {}
  void shift(const std::vector<RingMessage>& messages, const Stream& stream) {
    if (!messages_.empty()) throw std::logic_error("two transfers at the same time");
    group_.begin_transfer();
    stream.synchronize();
    messages_ = messages;
    for (const RingMessage& message : messages) {
      device_poison(message.receive, static_cast<std::size_t>(message.receive_bytes));
    }
  }
  void wait(const Stream& stream) {
    if (messages_.empty()) return;
    stream.synchronize();
    std::vector<std::vector<char>> sent(messages_.size());
    std::vector<std::int64_t> addresses;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i].resize(static_cast<std::size_t>(messages_[i].send_bytes));
      device_copy(sent[i].data(), messages_[i].send, sent[i].size(), CopyKind::kToHost);
      addresses.push_back(reinterpret_cast<std::int64_t>(&sent[i]));
    }
    const auto all = group_.all_gather(addresses, "the left rank");
    const auto left = static_cast<std::size_t>((group_.rank() + group_.size() - 1) % group_.size());
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const auto& from =
          *reinterpret_cast<const std::vector<char>*>(all[left * messages_.size() + i]);
      if (static_cast<std::int64_t>(from.size()) != messages_[i].receive_bytes) {
        throw std::logic_error("a message has another size than its buffer");
      }
      device_copy(messages_[i].receive, from.data(), from.size(), CopyKind::kToDevice);
    }
    group_.all_gather(addresses, "the end of all copies");  // what they copied is still needed
    messages_.clear();
  }
  void synchronize(const Stream& stream) { stream.synchronize(); }

 private:
  Group& group_;
  std::vector<RingMessage> messages_;
};

void check(const AttentionShape& shape, bool causal, RowOrder order, int ranks) {
  const ring::Problem problem{shape, causal, order, ranks};
  const attention::Problem whole = attention_problem(problem);
  CAPTURE(whole.text());
  CAPTURE(ranks);
  const auto inputs = backward::make_inputs(whole, attention::Values::kNormal, 1);
  RingResults results;
  ring::run_threads("test", ranks, 100, [&](Group& group) {
    LateLinks links(group);
    auto own = ring_results(group, links, problem, inputs);
    if (group.rank() == 0) results = std::move(own);
  });
  auto verdicts = flash::Checker(whole, inputs.forward).check("ring", results.outputs);
  for (const auto& verdict : backward::Checker(whole, inputs).check("ring", results.gradients)) {
    verdicts.push_back(verdict);
  }
  for (const auto& verdict : verdicts) {
    INFO(verdict.report());
    CHECK(verdict.accepted);
  }
}

void check_orders(const AttentionShape& shape, int ranks) {
  check(shape, false, RowOrder::kContiguous, ranks);
  check(shape, true, RowOrder::kContiguous, ranks);
  check(shape, true, RowOrder::kZigZag, ranks);
}

TEST_CASE("a ring of ranks gives what one device gives: odd lengths, groups of heads") {
  for (const int ranks : {1, 2, 3, 4}) check_orders({2, 4, 2, 61, 61, 16}, ranks);
}

TEST_CASE("queries and keys of different lengths, also with rows that see no key") {
  for (const int ranks : {2, 3}) {
    check_orders({1, 4, 1, 19, 83, 8}, ranks);
    check_orders({1, 2, 2, 83, 19, 24}, ranks);
  }
}

TEST_CASE("ranks without queries or keys") {
  check_orders({1, 2, 1, 3, 2, 8}, 4);
  check_orders({1, 2, 1, 1, 29, 8}, 3);
  check_orders({1, 2, 1, 29, 1, 8}, 3);
}

TEST_CASE("parts that begin within a tile, and rows as wide as a warp") {
  check_orders({1, 1, 1, 270, 270, 128}, 2);
  check_orders({1, 1, 1, 70, 70, 256}, 2);
}

TEST_CASE("the memory of a rank is proportional to the length divided by the ranks") {
  const auto bytes = [](int ranks, std::int64_t length) {
    const std::int64_t before = taken_bytes();
    const DeviceRank rank({{1, 2, 2, length, length, 64}, true, RowOrder::kZigZag, ranks}, 0);
    return static_cast<double>(taken_bytes() - before);
  };
  const double of_four = bytes(4, 4096);
  CHECK(of_four > 0);
  CHECK(bytes(8, 8192) == doctest::Approx(of_four).epsilon(0.02));
  CHECK(bytes(8, 4096) == doctest::Approx(of_four / 2).epsilon(0.02));
  CHECK(bytes(4, 8192) == doctest::Approx(2 * of_four).epsilon(0.02));
  CHECK(bytes(2, 2048) < of_four);  // one block arrives, not two
}

std::string failure_of(int ranks, double limit, const std::function<void(Group&)>& body) {
  try {
    ring::run_threads("test", ranks, limit, body);
  } catch (const ring::RankFailure& failure) {
    return failure.what();
  }
  return "";
}

TEST_CASE("a rank that throws ends the others, with its message only") {
  CHECK(failure_of(3, 100, [](Group& group) {
          if (group.rank() == 1) throw std::runtime_error("out of memory");
          group.all_gather(std::vector<std::int64_t>{1}, "nothing");
        }) == "rank 1: out of memory");
}

TEST_CASE("a rank that stops is named after the time limit") {
  const std::string message = failure_of(3, 2, [](Group& group) {
    const auto start = Group::Clock::now();
    while (group.rank() == 2) {
      group.check_wait(start + std::chrono::seconds(20), "the end of the test");
    }
    group.all_gather(std::vector<std::int64_t>{1}, "K and V");
  });
  CHECK(message.find(
            "rank 2 did not answer for 2 s: it has stopped or is slow (--timeout); rank ") == 0);
}

TEST_CASE("parameters that differ are named") {
  CHECK(failure_of(3, 100, [](Group& group) {
          group.agree({{"batch", 2}, {"length_q", group.rank() == 1 ? 301 : 300}});
        }) == "rank 1 has length_q 301, rank 0 has 300; all ranks must have the same");
}

}  // namespace
}  // namespace fa::FA_TARGET
