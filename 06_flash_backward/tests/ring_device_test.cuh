// Ring attention on GPUs without NCCL: ranks are threads that share one device, a GPU or the lab,
// and copy through the host's memory.
#include <vector>

#include <doctest/doctest.h>

#include "06_flash_backward/ring/device_engine.cuh"
#include "06_flash_backward/ring/forms.hpp"

namespace fa::FA_TARGET {
namespace {

using ring::Comm;
using ring::Message;
using ring::Messages;
using ring::Method;

// Transfers happen as late as they may, when a rank waits: until then what is received is NaN, and
// a rank that writes what it sends corrupts it.
class LateLinks {
 public:
  LateLinks(Comm& comm, const Stream& stream) : comm_(comm), stream_(stream) {}
  void start(const Messages& messages) {
    if (in_flight_) throw std::logic_error("two transfers at the same time");
    in_flight_ = true;
    stream_.synchronize();
    messages_ = messages;
    for (const Message& m : messages.receives) {
      device_poison(m.data, static_cast<std::size_t>(m.bytes));
    }
  }
  void wait() {
    if (!in_flight_) throw std::logic_error("no transfer to wait for");
    in_flight_ = false;
    stream_.synchronize();
    std::vector<std::vector<char>> host;  // of all messages
    Messages on_host;
    for (const Message& m : messages_.sends) {
      host.emplace_back(static_cast<std::size_t>(m.bytes));
      device_copy(host.back().data(), m.data, host.back().size(), CopyKind::kToHost);
      on_host.send(m.rank, host.back().data(), m.bytes);
    }
    for (const Message& m : messages_.receives) {
      host.emplace_back(static_cast<std::size_t>(m.bytes));
      on_host.receive(m.rank, host.back().data(), m.bytes);
    }
    comm_.start(on_host);
    comm_.wait();
    for (std::size_t i = 0; i < messages_.receives.size(); ++i) {
      const auto& from = host[messages_.sends.size() + i];
      device_copy(messages_.receives[i].data, from.data(), from.size(), CopyKind::kToDevice);
    }
  }

 private:
  Comm& comm_;
  const Stream& stream_;
  Messages messages_;
  bool in_flight_ = false;
};

using Engine = DeviceEngine<LateLinks>;

void check(const AttentionShape& shape, int ranks) {
  for (const bool causal : {false, true}) {
    const ring::Reference reference(shape, causal, attention::Type::kBFloat16);
    for (const Method method : ring::kMethods) {
      CAPTURE(reference.whole.text());
      CAPTURE(ranks);
      CAPTURE(ring::name_of(method));
      ring::Results results;
      ring::run_threads(ranks, [&](Comm& comm) {
        const Stream stream;
        LateLinks links(comm, stream);
        Engine engine(links, stream);
        const ring::Problem problem{shape, causal, order_of(method), ranks};
        auto own = ring::results_of(comm, engine, problem, method, reference.inputs);
        if (comm.rank() == 0) results = std::move(own);
      });
      for (const Verdict& verdict : reference.check(results)) {
        INFO(verdict.report());
        CHECK(verdict.accepted);
      }
    }
  }
}

TEST_CASE("ranks give what one device gives: odd lengths, groups of heads") {
  for (const int ranks : {1, 2, 3, 4}) check({2, 4, 2, 61, 61, 16}, ranks);
}

TEST_CASE("queries and keys of different lengths, also with rows that see no key") {
  for (const int ranks : {2, 3}) {
    check({1, 4, 1, 19, 83, 8}, ranks);
    check({1, 2, 2, 83, 19, 24}, ranks);
  }
}

TEST_CASE("ranks without queries or keys") {
  check({1, 2, 1, 3, 2, 8}, 4);
  check({1, 2, 1, 1, 29, 8}, 3);
  check({1, 2, 1, 29, 1, 8}, 3);
}

TEST_CASE("parts that begin within a tile, and rows as wide as a warp") {
  check({1, 1, 1, 270, 270, 128}, 2);
  check({1, 1, 1, 70, 70, 256}, 2);
}

TEST_CASE("the memory of a rank is proportional to the length divided by the ranks") {
  const auto bytes = [](int ranks, std::int64_t length) {
    std::int64_t result = 0;
    const ring::Problem problem{
        {1, 2, 2, length, length, 16}, true, ring::RowOrder::kZigZag, ranks};
    ring::run_threads(ranks, [&](Comm& comm) {
      const Stream stream;
      LateLinks links(comm, stream);
      Engine engine(links, stream);
      const std::int64_t before = taken_bytes();
      ring::Rank<Engine> rank(engine, problem, comm.rank());
      for (auto* x : {&rank.q, &rank.kv, &rank.d_o}) x->zero();
      ring::forward(rank, Method::kZigZag);
      ring::backward(rank, Method::kZigZag);
      if (comm.rank() == 0) result = taken_bytes() - before;
    });
    return static_cast<double>(result);
  };
  const double of_two = bytes(2, 512);
  CHECK(bytes(4, 1024) == doctest::Approx(of_two).epsilon(0.05));
  CHECK(bytes(4, 512) == doctest::Approx(of_two / 2).epsilon(0.05));
}

}  // namespace
}  // namespace fa::FA_TARGET
