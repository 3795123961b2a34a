// How kernels are timed, with a backend that only notes that it ran them.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "04_tiled_matmul/src/sections.hpp"

using namespace fa;
using tiled::Group;
using tiled::Inputs;
using tiled::Kernel;
using tiled::Prepared;

TEST_CASE("kernels are interleaved, and the median of their rounds counts") {
  std::vector<std::string> launched;
  Group group;
  group.name = "none that cuBLAS knows";
  group.inputs = [](std::int64_t, std::int64_t, std::int64_t) { return Inputs{}; };
  group.flops = [](double m, double n, double k) { return 2 * m * n * k; };
  group.bytes = [](double, double, double) { return 1.0; };
  for (const char* name : {"slow", "quick"}) {
    group.kernels.push_back({name, "", [&launched, name](const Inputs&) {
                               return Prepared{[&launched, name] { launched.push_back(name); }, {}};
                             }});
  }
  tiled::Backend backend;
  std::map<std::string, int> rounds;
  backend.milliseconds = [&](const std::function<void()>& work, int repeats) {
    CHECK(repeats >= 1);
    work();
    const std::string& name = launched.back();
    // A first round that is slower than all others, and a quick one.
    const int round = rounds[name]++;
    const double own = name == "slow" ? 8 : 2;
    return std::optional<double>(round == 0 ? 100 * own : round == 1 ? own / 2 : own);
  };
  backend.resources = [](const std::function<void()>&) { return std::vector<KernelResources>{}; };
  const auto rows = tiled::time_kernels(backend, group, 1000);
  REQUIRE(launched.size() >= 6);
  // In each round each kernel once, and not always in the same order.
  std::set<std::string> first;
  for (std::size_t i = 0; i + 1 < launched.size(); i += 2) {
    CHECK(launched[i] != launched[i + 1]);
    first.insert(launched[i]);
  }
  CHECK(first.size() == 2);
  REQUIRE(rows.size() == 2);
  const auto value = [&](std::size_t row, const std::string& field) {
    const auto found = std::find_if(rows[row].begin(), rows[row].end(),
                                    [&](const auto& pair) { return pair.first == field; });
    REQUIRE(found != rows[row].end());
    return std::get<double>(found->second);
  };
  CHECK(value(0, "milliseconds") == 8);
  CHECK(value(1, "milliseconds") == 2);
  CHECK(value(1, "tflops") == doctest::Approx(1.0));
}
