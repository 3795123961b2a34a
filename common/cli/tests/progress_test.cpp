// Progress on standard error.
#include "common/cli/progress.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::cli;
using fa::testing::Outcome;
using fa::testing::run_in_child;

TEST_CASE("progress prints nothing before its delay, then percentage and time left") {
  const Outcome quick = run_in_child([] {
    Progress progress("quick", 1000);
    for (int i = 0; i < 1000; ++i) progress.step();
    return 0;
  });
  CHECK(quick.output + quick.error == "");
  const Outcome outcome = run_in_child([] {
    Progress progress("counted", 11, std::chrono::milliseconds(100));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    progress.step();
    progress.step();  // not on a terminal, the next line would come ten seconds later
    return 0;
  });
  INFO(outcome.error);
  const std::string before = "counted: 9 %, about ";
  REQUIRE(outcome.error.substr(0, before.size()) == before);
  CHECK(std::stod(outcome.error.substr(before.size())) >= 3);  // ten more of at least 0.3 s each
  CHECK(outcome.error.find('\n') == outcome.error.size() - 1);
}

TEST_CASE("step() may be called by several threads") {
  const Outcome outcome = run_in_child([] {
    Progress progress("together", 400, std::chrono::milliseconds(0));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int step = 0; step < 100; ++step) progress.step();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return 0;
  });
  CHECK(outcome.status == 0);
  CHECK(outcome.error.substr(0, 10) == "together: ");
  CHECK(outcome.error.find('\n') == outcome.error.size() - 1);
}
