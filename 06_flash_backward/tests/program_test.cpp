// The program of the lesson, run as a reader runs it.
#include <algorithm>

#include <doctest/doctest.h>

#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "common/attention/tests/problems.hpp"
#include "common/cli/tests/good_input.hpp"
#include "common/tensor/npy.hpp"
#include "common/testing/process.hpp"
#include "common/testing/sections.hpp"

using namespace fa;
using testing::contains;
using testing::python_says;
using testing::run;

namespace {

const std::string kProgram = FA_PROGRAM;

// A GPU whose n-th measurement takes n milliseconds. Nothing is computed.
backward::Backend clockwork() {
  backward::Backend backend = backward::backends().front();
  backend.kind = "gpu";
  for (backward::LadderStep& step : backend.steps) {
    step.start = [](const auto&, const auto&) { return backward::LadderStep::Prepared(); };
  }
  backend.milliseconds = [count = 0](const auto&, int) mutable {
    return std::optional<double>(++count);
  };
  backend.resources = [](const auto&) { return std::vector<KernelResources>(1); };
  backend.forward = [](const attention::Problem& problem, const attention::Inputs&) {
    return attention::Outputs{Tensor<float, 4>(problem.shape_of_q()),
                              Tensor<float, 3>({1, 1, problem.shape.length_q})};
  };
  return backend;
}

// A field of a row; 0 where there is none.
template <class T>
T field(const cli::Measurement& row, const std::string& name) {
  for (const auto& [key, value] : row) {
    if (key == name) return std::get<T>(value);
  }
  return T();
}

}  // namespace

TEST_CASE("kernels are timed on a GPU only, when asked") {
  const auto result = run(kProgram + " --device cpu --section time");
  CHECK(result.status == 0);
  CHECK(result.output == "No GPU is used, so no kernel is timed.\n");
}

// Without --all its longest part, which needs all kernels.
TEST_CASE("the walk is right, on the CPU, and saves the last step") {
  const bool whole = attention::wants_all_tests();
  const testing::TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto saved = directory.path() / "saved";
  const auto result =
      run(kProgram + " --device cpu --size 20" + (whole ? "" : " --section real") + " --summary " +
          testing::quoted(summary) + " --save " + testing::quoted(saved));
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CAPTURE(result.error);
  CHECK_FALSE(contains(result.error, "06_flash_backward:"));  // but progress
  CHECK_FALSE(contains(result.output, "FAIL"));
  CHECK_FALSE(contains(result.output, "timed"));  // only with --verbose
  const std::string lines = testing::file_bytes(summary);
  std::vector<std::string> wanted{"06_flash_backward\t01_unfused, float32, d_q",
                                  "07_deterministic, bfloat16, causal, d_v",
                                  "11_ordered_dq, bfloat16, causal, d_v"};
  if (whole) {
    wanted.insert(wanted.end(), {"06_flash_backward\tslope along u",
                                 "d_k, tiles of 37 x 53, causal", "13_wide_heads, causal: findings",
                                 "additional memory, formula: unexpected bytes",
                                 "deterministic kernels: differences", "loss curve"});
  }
  for (const std::string& line : wanted) {
    CAPTURE(line);
    CHECK(contains(lines, line));
  }
  for (const char* name : {"d_q.npy", "d_k.npy", "d_v.npy"}) {
    CHECK(read_npy<float, 4>(saved / name).shape() == Shape<4>{1, 12, 135, 32});
  }
}

TEST_CASE("the program accepts GQA and unequal lengths") {
  const testing::TemporaryDirectory directory;
  const auto& path = directory.path();
  cli::write_gqa_input(path, 7, 5);
  for (const char* section : {"tiles", "real"}) {
    const auto result =
        run(kProgram + " --device cpu --section " + section + " --input " + testing::quoted(path));
    CAPTURE(result.output);
    CHECK(result.status == 0);
    CHECK(result.error == "");
  }
}

TEST_CASE("trace writes a JSON report and draws the worst line") {
  testing::check_trace(kProgram, "--size 20 --kernel 06_swizzled_pipeline",
                       [](const auto& output, const auto& json, const auto&) {
                         CHECK(contains(output, "PASS  06_swizzled_pipeline, causal: no findings"));
                         CHECK(python_says("[(k[\"kernel\"], k[\"inputs\"]) for k in "
                                           "json.load(open(file))] == 2 * "
                                           "[(\"06_swizzled_pipeline\", 3 * [[1, 1, 20, 64]])]",
                                           json) == "True\n");
                       });
}

TEST_CASE("the order of operations of a Hopper kernel is printed") {
  testing::check_operations(kProgram, "10_delayed_dq", "256 queries, 256 keys",
                            {"warp 8 (producer)", "warp 9 (adder)", "    wait     floats to add"},
                            "07");
}

TEST_CASE("slow steps are timed at one length, and determinism has a price") {
  const backward::Backend backend = clockwork();
  for (const std::int64_t head_dim : {64, 128, 256}) {
    const auto rows = backward::time_steps(backend, {attention::Type::kBFloat16, head_dim, true});
    const auto row_of = [&](const std::string& kernel, std::int64_t length) {
      return std::find_if(rows.begin(), rows.end(), [&](const cli::Measurement& row) {
        return field<std::string>(row, "kernel") == kernel &&
               field<std::int64_t>(row, "length") == length;
      });
    };
    std::size_t expected = 0;
    const backward::LadderStep* before = nullptr;
    for (const backward::LadderStep& step : backend.steps) {
      CAPTURE(step.name);
      const auto row = row_of(step.name, 4096);
      if (step.supports(attention::timed_problem(attention::Type::kBFloat16, head_dim, true, 1))) {
        expected += step.slow ? 1 : 5;
        REQUIRE(row != rows.end());
        const double ms = field<double>(*row, "milliseconds");
        // Five matmuls of 2 N^2 D for each of 4 sequences' heads, half of it masked.
        CHECK(field<double>(*row, "tflops") ==
              doctest::Approx(5.0 * 4 * 2048 * 4096 * 4096 / ms / 1e9));
        if (before != nullptr && step.deterministic && !before->deterministic) {
          const auto other = row_of(before->name, 4096);
          CHECK(field<double>(*row, "deterministic_price") ==
                (other == rows.end()
                     ? 0
                     : doctest::Approx(ms / field<double>(*other, "milliseconds"))));
        }
      } else {
        CHECK(row == rows.end());
      }
      before = &step;
    }
    CHECK(rows.size() == expected);
  }
}

TEST_CASE("a step for wide heads alone is launched with those") {
  const auto one = testing::traced(kProgram, "--size 20 --kernel 13");
  if (testing::is_traced(one)) CHECK(contains(one.output, "float16, D 136, causal"));
}

TEST_CASE("the statements of the derivation hold, and the tape's gradients are right") {
  for (const char* section : {"derivation", "wrong", "autograd", "transformer"}) {
    const auto result = run(kProgram + " --device cpu --section " + section);
    CAPTURE(result.output);
    CHECK(result.status == 0);
    CHECK(contains(result.output, "PASS"));
  }
}

TEST_CASE("the program refuses what it cannot use: one sentence, exit 2") {
  const testing::TemporaryDirectory directory;
  testing::check_refused(
      kProgram,
      {{"--nonsense", "--nonsense"},
       {"--size 16385", "--size"},
       {"--section nowhere", "there is no such section"},
       {"--section tiles --input " + testing::quoted(directory.path()),
        "q.npy: there is no such file"},
       {"--device cpu --section timeline --kernel 99", "a file in 06_flash_backward/kernels"},
       {"--device cpu --section time --results file", "none is used"}});
}
