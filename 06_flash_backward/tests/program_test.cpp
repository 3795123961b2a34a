// The program of the lesson, run as a reader runs it.

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

TEST_CASE("section once launches a step with and without the mask") {
  testing::check_once(kProgram, "06_swizzled_pipeline", {"float16, D 64", "float16, D 64, causal"},
                      20);
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

TEST_CASE("the slow steps are timed at one length, five products counted") {
  const backward::Backend backend = clockwork();
  const auto rows = backward::time_steps(backend, {attention::Type::kBFloat16, 64, true});
  REQUIRE(rows.size() == 51);  // 05 once, others five times, 13 and 16 not at all
  CHECK(field<std::string>(rows[0], "kernel") == "05_tensor_cores");
  CHECK(field<std::int64_t>(rows[0], "length") == 4096);
  // Five products of 2 N^2 D for each of 4 x 32 heads, half of it masked, in a millisecond.
  CHECK(field<double>(rows[0], "tflops") == doctest::Approx(5.0 * 128 * 4096 * 4096 * 64 / 1e9));
  CHECK(field<std::string>(rows[10], "kernel") == "07_deterministic");
}

TEST_CASE("the price of determinism is a ratio at the same length") {
  const backward::Backend backend = clockwork();
  const auto rows = backward::time_steps(backend, {attention::Type::kFloat16, 128, false});
  REQUIRE(rows.size() == 46);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double price = field<double>(rows[i], "deterministic_price");
    const auto at = static_cast<double>(i);                          // it took i + 1 milliseconds
    const bool same_bits = (i > 5 && i < 11) || (i > 25 && i < 31);  // steps 07 and 11
    CHECK(price == doctest::Approx(same_bits ? (at + 1) / (at - 4) : 0));
  }
  const auto alone = backward::time_steps(backend, {attention::Type::kFloat16, 128, false, "07"});
  REQUIRE(alone.size() == 5);
  CHECK(field<double>(alone[0], "deterministic_price") == 0);
}

TEST_CASE("a step for wide heads alone is timed with those, and priced") {
  const backward::Backend backend = clockwork();
  const auto rows = backward::time_steps(backend, {attention::Type::kBFloat16, 256, false});
  REQUIRE(rows.size() == 20);  // steps 06, 07, 13 and 20
  CHECK(field<std::string>(rows[10], "kernel") == "13_wide_heads");
  CHECK(field<double>(rows[10], "deterministic_price") == 0);
  const auto once = run(kProgram + " --device cpu --section once --size 20 --kernel 13");
  CHECK(contains(once.output, "\"group\": \"float16, D 136, causal\""));
}

TEST_CASE("the program refuses what it cannot use: one sentence, exit 2") {
  const testing::TemporaryDirectory directory;
  testing::check_refused(
      kProgram, {{"--nonsense", "--nonsense"},
                 {"--size 16385", "--size"},
                 {"--section nowhere", "there is no such section"},
                 {"--section tiles --input " + testing::quoted(directory.path()),
                  "q.npy: there is no such file"},
                 {"--device cpu --section once --kernel 99", "a file in 06_flash_backward/kernels"},
                 {"--device cpu --section timeline --kernel 99", "no such kernel"},
                 {"--device cpu --section time --results file", "none is used"}});
}
