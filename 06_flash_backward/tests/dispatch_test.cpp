// Which kernels are chosen for a GPU and the code that a build has for it, and that what is chosen
// computes gradients: all choices run on this build's backends, whatever GPU they are made for.
#include <tuple>

#include <doctest/doctest.h>

#include "06_flash_backward/src/backend.hpp"
#include "common/attention/tests/step_tests.hpp"
#include "common/gpu/tests/gpus.hpp"

using namespace fa;
using namespace fa::attention;
using backward::Backend;

namespace {

// What lessons 05 and 06 test alike.
using Tests = StepTests<backward::Checker, backward::backends, backward::make_inputs>;

std::string chosen(const DeviceProperties& gpu, Type type, std::int64_t head_dim,
                   bool deterministic) {
  return Tests::all().front().chosen(problem_of(type, {1, 1, 1, 9, 8, head_dim}), deterministic,
                                     gpu);
}

// The choice for a GPU on all backends, deterministic or not.
void check_choice(const DeviceProperties& gpu, const Problem& problem) {
  for (const bool deterministic : {false, true}) {
    // The same launch again: any_gpu does not depend on it.
    if (deterministic && Tests::all().front().chosen(problem, true, gpu) == "any_gpu") continue;
    CAPTURE(deterministic);
    Tests::check_choice(gpu, problem, [&](const Backend& backend) {
      return backend.dispatched(deterministic, gpu);
    });
  }
}
void check_choice(const DeviceProperties& gpu, Type type, std::int64_t head_dim, double dropout) {
  Problem problem = problem_of(type, {2, 4, 2, 70, 75, head_dim}, true);
  problem.dropout = dropout;
  check_choice(gpu, problem);
}

}  // namespace

TEST_CASE("16 bits: the chosen kernels can run on the GPU with this build's code") {
  for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
    for (const int head_dim : {32, 64, 96, 128, 192, 256}) {
      for (const bool deterministic : {false, true}) {
        CAPTURE(head_dim);
        CAPTURE(deterministic);
        for (const DeviceProperties& gpu : {gpus::kT4, gpus::kA100With75}) {
          CHECK(chosen(gpu, type, head_dim, deterministic) == "any_gpu");
        }
        for (const DeviceProperties& gpu :
             {gpus::kA100, gpus::kRtx4090, gpus::kH100With80, gpus::kH100With90, gpus::kB200}) {
          CHECK(chosen(gpu, type, head_dim, deterministic) ==
                (deterministic ? "07_deterministic" : "06_swizzled_pipeline"));
        }
        CHECK(chosen(gpus::kH100, type, head_dim, deterministic) ==
              (head_dim <= 128                     ? "15_dependent_launch"
               : head_dim == 192 && !deterministic ? "18_block_pairs"
                                                   : "13_wide_heads"));
      }
    }
  }
}

TEST_CASE("192 columns of q and k, 128 of v: on Hopper, or any_gpu") {
  Problem problem = problem_of(Type::kBFloat16, {2, 4, 2, 70, 75, kMlaHeadDim}, true);
  problem.head_dim_v = kMlaHeadDimV;
  for (const Type type : kTypes) {
    problem.type = type;
    for (const double dropout : {0.0, 0.17}) {
      problem.dropout = dropout;
      for (const bool deterministic : {false, true}) {
        const auto chosen = [&](const DeviceProperties& gpu) {
          return Tests::all().front().chosen(problem, deterministic, gpu);
        };
        CHECK(chosen(gpus::kH100) == (type == Type::kFloat32 || dropout > 0 ? "any_gpu"
                                      : deterministic                       ? "13_wide_heads"
                                                                            : "18_block_pairs"));
        CHECK(chosen(gpus::kT4) == "any_gpu");
        CHECK(chosen(gpus::kA100) == "any_gpu");
      }
      check_choice(gpus::kH100, problem);
    }
  }
}

TEST_CASE("few heads of K and V: on Hopper the query heads of a group are divided") {
  DeviceProperties gpu = gpus::kH100;
  gpu.sm_count = 132;
  for (const auto& [heads, kv_heads, head_dim, name] : {std::tuple{32, 1, 64, "19_split_groups"},
                                                        {8, 1, 128, "19_split_groups"},
                                                        {32, 8, 96, "15_dependent_launch"},
                                                        {8, 8, 128, "15_dependent_launch"},
                                                        {8, 1, 192, "20_split_wide_groups"},
                                                        {8, 1, 256, "20_split_wide_groups"}}) {
    for (const bool deterministic : {false, true}) {
      const Problem problem =
          problem_of(Type::kBFloat16, {1, heads, kv_heads, 2048, 2048, head_dim}, head_dim > 128);
      CHECK(Tests::all().front().chosen(problem, deterministic, gpu) == name);
    }
  }
  for (const int kv_heads : {1, 2}) {
    Problem problem = problem_of(Type::kBFloat16, {1, 6, kv_heads, 150, 140, 192}, kv_heads == 2);
    check_choice(gpu, problem);
    problem.head_dim_v = kMlaHeadDimV;
    check_choice(gpu, problem);
    check_choice(gpu, problem_of(Type::kFloat16, {1, 6, kv_heads, 330, 140, 256}, kv_heads == 2));
  }
  for (const auto& [sms, group] : {std::pair{132, 2}, {132, 3}, {6, 7}, {132, 5}, {132, 8}}) {
    gpu.sm_count = sms;
    for (const int head_dim : {64, 72, 128}) {
      const Problem problem = problem_of(group % 2 == 0 ? Type::kBFloat16 : Type::kFloat16,
                                         {1, group, 1, 150, 140, head_dim}, group == 7);
      CHECK(Tests::all().front().chosen(problem, true, gpu) == "19_split_groups");
      check_choice(gpu, problem);
    }
  }
}

TEST_CASE("float32: the chosen kernels can run on the GPU") {
  for (const int head_dim : {32, 64, 128, 256}) {
    CAPTURE(head_dim);
    CHECK(chosen(gpus::kT4, Type::kFloat32, head_dim, false) ==
          (head_dim <= 64 ? "04_atomics" : "any_gpu"));
    CHECK(chosen(gpus::kRtx4090, Type::kFloat32, head_dim, true) ==
          (head_dim <= 128 ? "03_two_kernels" : "any_gpu"));
    for (const DeviceProperties& gpu : {gpus::kA100, gpus::kH100}) {
      CHECK(chosen(gpu, Type::kFloat32, head_dim, false) ==
            (head_dim == 256 ? "04_atomics" : "17_split_tf32"));
    }
    CHECK(chosen(gpus::kH100With80, Type::kFloat32, head_dim, true) == "03_two_kernels");
  }
}

TEST_CASE("the kernels chosen for other GPUs compute gradients") {
  for (const double dropout : {0.17, 0.0}) {
    if (dropout == 0 && Tests::few()) continue;
    for (const Type type : kTypes) check_choice(gpus::kT4, type, 72, dropout);
    check_choice(gpus::kT4, Type::kFloat16, 256, dropout);
    check_choice(gpus::kRtx4090, Type::kFloat32, 64, dropout);
    check_choice(gpus::kRtx4090, Type::kFloat32, 128, dropout);
    check_choice(gpus::kRtx4090, Type::kFloat16, 128, dropout);
    check_choice(gpus::kRtx4090, Type::kBFloat16, 256, dropout);
  }
}

TEST_CASE("blocks of the chosen kernels fit the shared memory of their GPU") {
  for (const bool deterministic : {false, true}) {
    Tests::check_shared_memory({gpus::kT4, gpus::kA100, gpus::kRtx4090, gpus::kH100, gpus::kB200},
                               [&](const Backend& lab, const DeviceProperties& gpu) {
                                 return lab.dispatched(deterministic, gpu);
                               });
  }
}

TEST_CASE("a GPU leaves steps out that it cannot run, and says why") {
  const auto all = Tests::all().front().steps;
  auto steps = all;
  const auto left_out = fit_ladder(steps, gpus::kT4);
  std::size_t narrower = 0;  // steps that stay for fewer columns
  for (const auto& step : steps) {
    CHECK(can_run(gpus::kT4, step.needs));
    narrower +=
        step.max_head_dim < attention::find_step(Tests::all().front(), step.name).max_head_dim;
  }
  CHECK(narrower > 0);
  CHECK(steps.size() + left_out.size() == all.size() + narrower);
  CHECK(left_out.front().find("above 64") != std::string::npos);
  CHECK(left_out.back().find("sm_90a") != std::string::npos);
}
