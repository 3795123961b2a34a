// The finished kernels over a matrix of problems: all of it on a GPU, a thinner one in the lab. And random problems,
// other ones in each run.
#include <cstdlib>
#include <cstring>
#include <random>

#include <doctest/doctest.h>

#include "05_flash_forward/machine.hpp"

using namespace fa;
using flash::Layout;
using flash::Machine;
using flash::Problem;
using flash::Rung;
using flash::Type;

namespace {

// The GPU where there is one, else the lab.
const Machine& best_machine() {
  static const std::vector<Machine> machines = flash::machines();
  for (const Machine& machine : machines) {
    if (machine.kind == "gpu" && machine.available) return machine;
  }
  return machines.front();
}
bool on_gpu() {
  return best_machine().kind == "gpu";
}

// The last rung that takes a type is the finished one.
const Rung& finished_rung(Type type) {
  const Rung* result = nullptr;
  for (const Rung& rung : best_machine().rungs) {
    for (const Type taken : rung.types) {
      if (taken == type) result = &rung;
    }
  }
  REQUIRE(result != nullptr);
  return *result;
}

void check(const Problem& problem, std::uint64_t seed) {
  const flash::Inputs inputs =
      flash::make_inputs(problem, flash::Values::kNormal, seed);
  const Rung& rung = finished_rung(problem.type);
  const flash::Prepared prepared = rung.prepare(problem, inputs);
  prepared.launch();
  for (const Verdict& verdict :
       flash::Judge(problem, inputs).judge(rung.name, prepared.result())) {
    CAPTURE(problem.text());
    CAPTURE(verdict.report());
    CHECK(verdict.accepted);
  }
}

// Types x head dimensions x masks x groups x lengths x dropout.
void check_matrix(Type type) {
  using Lengths = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const std::vector<std::int64_t> head_dims =
      on_gpu() ? std::vector<std::int64_t>{32, 40, 64, 72, 128, 256}
               : std::vector<std::int64_t>{40, 64, 128};
  const Lengths lengths =
      on_gpu() ? Lengths{{1, 1}, {17, 17}, {113, 203}, {1023, 1024}, {799, 3}}
               : Lengths{{17, 17}, {113, 203}, {199, 3}};
  std::uint64_t seed = 0;
  for (const std::int64_t head_dim : head_dims) {
    for (const bool causal : {false, true}) {
      for (const std::int64_t kv_heads : {4, 2, 1}) {
        for (const auto& [length_q, length_k] : lengths) {
          for (const double dropout : {0.0, 0.17}) {
            Problem problem;
            problem.type = type;
            problem.shape = {1, 4, kv_heads, length_q, length_k, head_dim};
            problem.causal = causal;
            problem.dropout = dropout;
            problem.seed = ++seed;
            check(problem, seed);
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("the matrix of problems in float32") {
  check_matrix(Type::kFloat32);
}
TEST_CASE("the matrix of problems in float16") {
  check_matrix(Type::kFloat16);
}
TEST_CASE("the matrix of problems in bfloat16") {
  check_matrix(Type::kBFloat16);
}

TEST_CASE("a hundred random problems, other ones in each run") {
  // FA_FUZZ_SEED repeats a run.
  const char* given = std::getenv("FA_FUZZ_SEED");
  const std::uint64_t first = given != nullptr
                                  ? std::strtoull(given, nullptr, 10)
                                  : std::random_device{}();
  MESSAGE("FA_FUZZ_SEED=" << first);
  std::mt19937_64 random(first);
  const auto below = [&](std::uint64_t n) {
    return static_cast<std::int64_t>(random() % n);
  };
  const std::uint64_t longest = on_gpu() ? 700 : 150;
  for (int i = 0; i < 100; ++i) {
    Problem problem;
    problem.type = std::vector{Type::kFloat32, Type::kFloat16,
                               Type::kBFloat16}[random() % 3];
    const std::int64_t kv_heads = 1 + below(3);
    problem.shape = {1 + below(2),       kv_heads * (1 + below(3)),
                     kv_heads,           1 + below(longest),
                     1 + below(longest), 8 * (1 + below(on_gpu() ? 32 : 16))};
    problem.layout =
        below(2) == 0 ? Layout::kHeadsFirst : Layout::kLengthFirst;
    problem.causal = below(2) == 0;
    problem.dropout =
        below(2) == 0 ? 0 : 0.01 * static_cast<double>(below(90));
    problem.seed = random();
    CAPTURE(first);
    CAPTURE(i);
    check(problem, random());
  }
}

TEST_CASE("repeated runs are equal to the last bit") {
  const int repeats = on_gpu() ? 250 : 5;
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBFloat16}) {
    Problem problem;
    problem.type = type;
    problem.shape = {2, 4, 2, 300, 257, 64};
    problem.causal = true;
    const auto inputs =
        flash::make_inputs(problem, flash::Values::kNormal, 1);
    const auto prepared = finished_rung(type).prepare(problem, inputs);
    prepared.launch();
    const flash::Outputs first = prepared.result();
    for (int i = 1; i < repeats; ++i) {
      prepared.launch();
      const flash::Outputs again = prepared.result();
      const auto same = [](const auto& a, const auto& b) {
        return std::memcmp(
                   a.data(), b.data(),
                   sizeof(float) * static_cast<std::size_t>(a.count())) == 0;
      };
      CAPTURE(i);
      REQUIRE(same(first.o, again.o));
      REQUIRE(same(first.lse, again.lse));
    }
  }
}
