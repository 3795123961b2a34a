// Progress on standard error.
#include "common/cli/progress.hpp"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <stdlib.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::cli;
using fa::testing::contains;
using fa::testing::Outcome;
using fa::testing::run_in_child;

namespace {

using Clock = std::chrono::steady_clock;

void work(Progress& progress, int steps, std::chrono::milliseconds each) {
  for (int i = 0; i < steps; ++i) {
    std::this_thread::sleep_for(each);
    progress.step();
  }
}

}  // namespace

TEST_CASE("progress prints nothing for two seconds, then a percentage") {
  const Outcome outcome = run_in_child([] {
    const auto start = Clock::now();
    Progress progress("waiting", 1000);
    const auto step_until = [&](std::chrono::milliseconds end) {
      while (Clock::now() < start + end) {
        progress.step();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    };
    step_until(std::chrono::milliseconds(1500));
    std::fprintf(stderr, "so far nothing\n");
    step_until(std::chrono::milliseconds(2050));
    progress.step();
    return 0;
  });
  CHECK(outcome.output == "");
  INFO(outcome.error);
  CHECK(outcome.error.substr(0, 24) == "so far nothing\nwaiting: ");
  CHECK(contains(outcome.error, " s left\n"));
  // One line: not on a terminal, the next would come ten seconds later.
  CHECK(outcome.error.find('\n', 15) == outcome.error.size() - 1);
  CHECK(!contains(outcome.error, "\r"));
}

TEST_CASE("progress on quick work is silent") {
  const Outcome outcome = run_in_child([] {
    Progress progress("quick", 1000);
    for (int i = 0; i < 1000; ++i) progress.step();
    return 0;
  });
  CHECK(outcome.status == 0);
  CHECK(outcome.output + outcome.error == "");
}

TEST_CASE("progress prints the percentage done and the time left") {
  const auto start = Clock::now();
  const Outcome outcome = run_in_child([] {
    Progress progress("counted", 11, std::chrono::milliseconds(0));
    work(progress, 1, std::chrono::milliseconds(300));
    return 0;
  });
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  const std::string before = "counted: 9 %, about ";
  REQUIRE(outcome.error.substr(0, before.size()) == before);
  const double left = std::stod(outcome.error.substr(before.size()));
  CHECK(left >= 3);  // ten more of at least 0.3 s each
  CHECK(left <= 10 * elapsed + 0.5);
}

TEST_CASE("progress redraws its line on a terminal and clears it") {
  constexpr int kNoTerminal = 98;
  const Outcome outcome = run_in_child([] {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return kNoTerminal;
    const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    if (other_end < 0 || dup2(other_end, STDERR_FILENO) < 0) return kNoTerminal;
    {
      Progress progress("drawn", 2, std::chrono::milliseconds(0));
      work(progress, 1, std::chrono::milliseconds(1));
      work(progress, 1, std::chrono::milliseconds(201));
    }
    // With its other end closed, reading the terminal comes to an end.
    close(STDERR_FILENO);
    close(other_end);
    char text[200];
    for (ssize_t size; (size = read(terminal, text, sizeof text)) > 0;)
      std::printf("%.*s", static_cast<int>(size), text);
    return 0;
  });
  if (outcome.status == kNoTerminal) {
    std::puts("skipped: this machine has no pseudo-terminals");
    std::exit(77);
  }
  CHECK(outcome.status == 0);
  CHECK(outcome.output ==
        "\rdrawn: 50 %, about 0 s left\033[K\rdrawn: 100 %, about 0 s left\033[K\r\033[K");
}

TEST_CASE("progress adds a note") {
  const Outcome outcome = run_in_child([] {
    Progress progress("noted", 1, std::chrono::milliseconds(0));
    progress.step("loss 2.5");
    return 0;
  });
  CHECK(outcome.error == "noted: 100 %, about 0 s left, loss 2.5\n");
}

TEST_CASE("step() may be called by several threads") {
  const Outcome outcome = run_in_child([] {
    Progress progress("together", 400, std::chrono::milliseconds(0));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { work(progress, 100, std::chrono::milliseconds(0)); });
    }
    for (std::thread& thread : threads) thread.join();
    return 0;
  });
  CHECK(outcome.status == 0);
  CHECK(outcome.error.substr(0, 10) == "together: ");
  CHECK(outcome.error.find('\n') == outcome.error.size() - 1);
}
