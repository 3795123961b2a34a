// Which kernel is chosen for a GPU and the code that a build has for it, and that what is chosen
// computes attention: all choices run on this build's backends, whatever GPU they are made for.
#include <tuple>

#include <doctest/doctest.h>

#include "05_flash_forward/src/backend.hpp"
#include "common/attention/tests/step_tests.hpp"
#include "common/gpu/tests/gpus.hpp"

using namespace fa;
using namespace fa::attention;
using flash::Backend;

namespace {

// What lessons 05 and 06 test alike.
using Tests = StepTests<flash::Checker, flash::backends, make_inputs>;

std::string chosen(const DeviceProperties& gpu, Type type, std::int64_t head_dim,
                   double dropout = 0) {
  Problem problem = problem_of(type, {1, 1, 1, 9, 8, head_dim});
  problem.dropout = dropout;
  return Tests::all().front().chosen(problem, gpu);
}

// The choice for a GPU on all backends, with and without the mask.
void check_choice(const DeviceProperties& gpu, Type type, std::int64_t head_dim, double dropout) {
  for (const bool causal : {false, true}) {
    Problem problem = problem_of(type, {2, 4, 2, 70, 75, head_dim}, causal);
    problem.dropout = dropout;
    Tests::check_choice(gpu, problem,
                        [&](const Backend& backend) { return backend.dispatched(gpu); });
  }
}

}  // namespace

TEST_CASE("16 bits: the chosen kernel can run on the GPU with this build's code") {
  for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
    for (const int head_dim : {32, 64, 72, 96, 104, 128, 160, 192, 256}) {
      CAPTURE(head_dim);
      for (const DeviceProperties& gpu : {gpus::kT4, gpus::kA100With75}) {
        CHECK(chosen(gpu, type, head_dim) == "any_gpu");
      }
      for (const DeviceProperties& gpu :
           {gpus::kA100, gpus::kRtx4090, gpus::kH100With80, gpus::kH100With90, gpus::kB200}) {
        CHECK(chosen(gpu, type, head_dim) == "08_edge_masks");
      }
      CHECK(chosen(gpus::kH100, type, head_dim) ==
            (head_dim <= 64 ? "16_mirrored_tiles" : "15_warpgroup_tiles"));
      CHECK(chosen(gpus::kH100, type, head_dim, 0.5) == "08_edge_masks");
      CHECK(chosen(gpus::kT4, type, head_dim, 0.5) == "any_gpu");
    }
  }
}

TEST_CASE("128 columns on Hopper: half a tile left over, of queries or keys, takes step 15") {
  for (const auto& [length_q, length_k, step] :
       std::vector<std::tuple<int, int, const char*>>{{512, 512, "14_lazy_rescaling"},
                                                      {512, 513, "15_warpgroup_tiles"},
                                                      {512, 576, "15_warpgroup_tiles"},
                                                      {512, 577, "14_lazy_rescaling"},
                                                      {513, 512, "15_warpgroup_tiles"},
                                                      {577, 640, "14_lazy_rescaling"}}) {
    const int queries = length_q, keys = length_k;  // bindings cannot be captured
    CAPTURE(queries);
    CAPTURE(keys);
    const Problem problem = problem_of(Type::kFloat16, {4, 64, 64, queries, keys, 128});
    CHECK(Tests::all().front().chosen(problem, gpus::kH100) == std::string(step));
  }
}

TEST_CASE("192 columns of q and k, 128 of v: one kernel, or any_gpu") {
  Problem problem = problem_of(Type::kBFloat16, {2, 4, 2, 70, 75, kMlaHeadDim});
  problem.head_dim_v = kMlaHeadDimV;
  for (const Type type : kTypes) {
    problem.type = type;
    for (const double dropout : {0.0, 0.17}) {
      problem.dropout = dropout;
      for (const auto& gpu : {gpus::kT4, gpus::kA100, gpus::kH100, gpus::kB200}) {
        const bool hopper = gpu.name == gpus::kH100.name && type != Type::kFloat32 && dropout == 0;
        CHECK(Tests::all().front().chosen(problem, gpu) ==
              (hopper ? "15_warpgroup_tiles" : "any_gpu"));
      }
      for (const bool causal : {false, true}) {
        problem.causal = causal;
        Tests::check_choice(gpus::kH100, problem,
                            [](const Backend& backend) { return backend.dispatched(gpus::kH100); });
      }
    }
  }
}

TEST_CASE("tiles are mirrored in small problems, those of a tile for each SM") {
  const auto chosen = [](int heads, int head_dim, bool causal) {
    return Tests::all().front().chosen(
        problem_of(Type::kBFloat16, {2, heads, 1, 129, 200, head_dim}, causal), gpus::kH100);
  };
  REQUIRE(gpus::kH100.sm_count == 4);
  for (const int head_dim : {64, 128, 256}) {
    CAPTURE(head_dim);
    const bool wide = head_dim > 64;
    CHECK(chosen(1, head_dim, true) == "16_mirrored_tiles");
    CHECK((chosen(1, head_dim, false) != "16_mirrored_tiles") == wide);
    CHECK(chosen(2, head_dim, true) != "16_mirrored_tiles");
    CHECK(chosen(2, head_dim, false) != "16_mirrored_tiles");
  }
}

TEST_CASE("what runs on Hopper computes the same bits as the step that it is named after") {
  struct Case {
    int heads, length_q, length_k, head_dim, head_dim_v;
    const char* name;
  };
  for (const Case& c : {Case{8, 128, 321, 104, 104, "14_lazy_rescaling"},
                        {8, 321, 128, 128, 128, "14_lazy_rescaling"},
                        {8, 130, 203, 128, 128, "15_warpgroup_tiles"},
                        {8, 203, 130, 64, 64, "15_warpgroup_tiles"},
                        {8, 130, 257, 96, 96, "15_warpgroup_tiles"},
                        {8, 130, 203, 192, 192, "15_warpgroup_tiles"},
                        {8, 203, 130, 256, 256, "15_warpgroup_tiles"},
                        {1, 203, 300, 64, 64, "16_mirrored_tiles"},
                        {1, 300, 203, 128, 128, "16_mirrored_tiles"},
                        {1, 203, 300, 256, 256, "16_mirrored_tiles"},
                        {8, 130, 203, kMlaHeadDim, kMlaHeadDimV, "15_warpgroup_tiles"}}) {
    for (const bool causal : {false, true}) {
      Problem problem =
          problem_of(Type::kBFloat16, {1, c.heads, 1, c.length_q, c.length_k, c.head_dim}, causal);
      if (c.head_dim_v != c.head_dim) problem.head_dim_v = c.head_dim_v;
      CAPTURE(problem.text());
      const auto inputs = make_inputs(problem, Values::kRising, 1);
      for (const Backend& backend : Tests::all()) {
        if (!backend.available || backend.kind == "watched") continue;
        if (c.heads == 1 && c.head_dim > 64 && !causal) continue;  // not mirrored
        REQUIRE(backend.chosen(problem, gpus::kH100) == std::string(c.name));
        const auto out = backend.dispatched(gpus::kH100).run(problem, inputs);
        const auto expected = find_step(backend, c.name).run(problem, inputs);
        CHECK(same_bits(out.o, expected.o));
        CHECK(same_bits(out.lse, expected.lse));
      }
    }
  }
}

TEST_CASE("float32: the chosen kernel can run on the GPU with this build's code") {
  for (const int head_dim : {32, 64, 128, 256}) {
    CAPTURE(head_dim);
    CHECK(chosen(gpus::kT4, Type::kFloat32, head_dim) == "any_gpu");
    for (const DeviceProperties& gpu :
         {gpus::kA100, gpus::kRtx4090, gpus::kH100, gpus::kH100With80, gpus::kB200}) {
      CAPTURE(gpu.name);
      CHECK(chosen(gpu, Type::kFloat32, head_dim) ==
            (head_dim == 256 ? "04_register_tiles" : "17_split_tf32"));
    }
  }
}

TEST_CASE("the kernels chosen for other GPUs compute attention") {
  for (const double dropout : {0.17, 0.0}) {
    if (dropout == 0 && Tests::few()) continue;
    for (const Type type : kTypes) {
      check_choice(gpus::kT4, type, 40, dropout);
      check_choice(gpus::kT4, type, 256, dropout);
    }
    for (const int head_dim : {64, 128, 256}) {  // smaller tiles
      check_choice(gpus::kRtx4090, Type::kFloat32, head_dim, dropout);
      check_choice(gpus::kA100, Type::kFloat32, head_dim, dropout);
    }
    check_choice(gpus::kRtx4090, Type::kBFloat16, 256, dropout);
  }
}

TEST_CASE("blocks of the chosen kernels fit the shared memory of their GPU") {
  Tests::check_shared_memory(
      {gpus::kT4, gpus::kA100, gpus::kRtx4090, gpus::kH100, gpus::kB200},
      [](const Backend& lab, const DeviceProperties& gpu) { return lab.dispatched(gpu); });
}
