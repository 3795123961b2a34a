// The timelines of the model show the purpose of each rung for Hopper.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/src/sections.hpp"

using namespace fa;
using flash::Rung;
using lab::Span;
using lab::Timeline;
using Kind = Span::Kind;

namespace {

const flash::Backend& backend() {
  static const std::vector<flash::Backend> all = flash::backends();
  return all.front();
}

// The timeline that is drawn of a rung.
const Timeline& drawn(const std::string& name) {
  static std::map<std::string, Timeline> known;
  if (known.count(name) == 0) {
    const Rung& rung = attention::find_rung(backend(), name);
    known[name] = flash::timeline_of(rung, flash::drawn_problem(rung));
  }
  return known[name];
}

// Cycles in which a warp computes while tensor cores work for it.
double work_under_matmuls(const Timeline& timeline, int warp) {
  double both = 0;
  for (const Span& work : timeline.warps) {
    if (work.warp != warp || work.kind != Kind::kWork) continue;
    for (const Span& product : timeline.matmuls) {
      if (product.warp != warp) continue;
      both += std::max(0.0, std::min(work.end, product.end) - std::max(work.begin, product.begin));
    }
  }
  return both;
}

// How often the tensor cores switch from one warp to another.
int changes(const Timeline& timeline) {
  int result = 0;
  for (std::size_t i = 1; i < timeline.matmuls.size(); ++i) {
    result += timeline.matmuls[i].warp != timeline.matmuls[i - 1].warp;
  }
  return result;
}

// When a block's first copy of Q, or the first store of O, begins.
double first(const Timeline& timeline, Kind kind, double after) {
  for (const Span& copy : timeline.copies) {
    if (copy.kind == kind && copy.begin > after && copy.tensor % 3 == 0) {
      return copy.begin;
    }
  }
  return -1;
}

}  // namespace

const char* const kRungs[] = {"09_wgmma", "10_warp_specialized", "11_overlap", "12_ping_pong",
                              "13_persistent"};

TEST_CASE("tensor cores do the same work in rungs 09 to 13, in less time") {
  for (const char* name : kRungs) {
    CAPTURE(std::string(name));
    // Two blocks of two warpgroups, 4 tiles of keys: two matmuls of 2 * 64 * 128 * 128 operations,
    // 4096 a cycle.
    CHECK(drawn(name).tensor_busy == doctest::Approx(2 * 2 * 4 * 2 * (2. * 64 * 128 * 128 / 4096)));
  }
  const auto busy = [](const char* name) { return drawn(name).tensor_share(); };
  for (const char* name : {"10_warp_specialized", "11_overlap", "12_ping_pong"}) {
    CAPTURE(std::string(name));
    CHECK(busy(name) > busy("09_wgmma") + 0.1);
    CHECK(busy(name) < busy("13_persistent") - 0.1);
  }
}

TEST_CASE("where the matmuls of two warps alternate, each rung is better") {
  lab::Costs alternating;
  alternating.waiting_matmuls = 1;
  double range = 0;
  for (const char* name : kRungs) {
    CAPTURE(std::string(name));
    const Rung& rung = attention::find_rung(backend(), name);
    const Timeline timeline = flash::timeline_of(rung, flash::drawn_problem(rung), alternating);
    CHECK(timeline.tensor_share() > range);
    range = timeline.tensor_share();
    if (rung.name == "11_overlap") CHECK(changes(timeline) > 100);
    if (rung.name == "12_ping_pong") CHECK(changes(timeline) < 40);
  }
}

TEST_CASE("rungs 09 and 10 compute their softmax while no matmul is in flight") {
  for (const int warp : {0, 4}) {
    CHECK(work_under_matmuls(drawn("09_wgmma"), warp) == 0);
    CHECK(work_under_matmuls(drawn("10_warp_specialized"), warp) == 0);
  }
}

TEST_CASE("the producer of rung 10 issues copies while a consumer computes") {
  const auto copies_under_work = [](const std::string& name) {
    int count = 0;
    for (const Span& copy : drawn(name).copies) {
      for (const Span& work : drawn(name).warps) {
        count += copy.kind == Kind::kLoad && work.warp == 0 && work.kind == Kind::kWork &&
                 copy.begin > work.begin && copy.begin < work.end;
      }
    }
    return count;
  };
  CHECK(copies_under_work("10_warp_specialized") > 0);
}

TEST_CASE("from rung 11 on the softmax overlaps the matmuls of the same warp") {
  for (const char* name : {"11_overlap", "12_ping_pong", "13_persistent"}) {
    for (const int warp : {0, 4}) {
      CAPTURE(std::string(name));
      CHECK(work_under_matmuls(drawn(name), warp) > 1000);
    }
  }
}

TEST_CASE("rung 13 loads the next Q before it stores O, rung 12 after that") {
  const auto next_q_before_o = [](const std::string& name) {
    const Timeline& timeline = drawn(name);
    const double o = first(timeline, Kind::kStore, 0);
    REQUIRE(o > 0);
    // The Q of the first block comes before any matmul.
    return first(timeline, Kind::kLoad, timeline.matmuls.front().end) < o;
  };
  CHECK(next_q_before_o("13_persistent"));
  CHECK_FALSE(next_q_before_o("12_ping_pong"));
  CHECK(drawn("12_ping_pong").blocks.size() == 2);
  CHECK(drawn("13_persistent").blocks.size() == 1);
}

TEST_CASE("under the mask rung 15 has fewer matmuls than rung 14") {
  const Rung& last = attention::find_rung(backend(), "15_warpgroup_tiles");
  attention::Problem problem = flash::drawn_problem(last);
  CHECK(problem.causal);
  const Timeline causal = flash::timeline_of(last, problem);
  const Timeline before =
      flash::timeline_of(attention::find_rung(backend(), "14_lazy_rescaling"), problem);
  CHECK(causal.tensor_busy < before.tensor_busy);
  CHECK(causal.cycles < before.cycles);
  problem.causal = false;
  CHECK(flash::timeline_of(last, problem).tensor_busy > causal.tensor_busy);
}

TEST_CASE("with long rows the warpgroups of rung 10 alternate by themselves") {
  attention::Problem problem =
      flash::drawn_problem(attention::find_rung(backend(), "12_ping_pong"));
  problem.shape.length_k = 2048;
  const auto range = [&](const char* name, const lab::Costs& costs) {
    return flash::timeline_of(attention::find_rung(backend(), name), problem, costs).tensor_share();
  };
  // In rungs 11 and 12 a stage of V is freed after the softmax, and the copy of the next one is
  // late.
  CHECK(range("10_warp_specialized", {}) > range("12_ping_pong", {}));
  lab::Costs at_once;
  at_once.copy_latency = 0;
  at_once.copied_bytes = 1 << 20;
  CHECK(range("10_warp_specialized", at_once) < range("12_ping_pong", at_once));
  CHECK(range("11_overlap", at_once) > range("11_overlap", {}) + 0.1);
}
