// The program of the lesson, run as a reader runs it.
#include <doctest/doctest.h>

#include "common/attention/tests/problems.hpp"
#include "common/cli/tests/good_input.hpp"
#include "common/tensor/npy.hpp"
#include "common/testing/process.hpp"
#include "common/testing/sections.hpp"

using namespace fa;
using namespace fa::testing;

TEST_CASE("kernels are timed on a GPU only, when asked") {
  const auto result = run(kProgram + " --device cpu --section time");
  CHECK(result.status == 0);
  CHECK(result.output == "No GPU is used, so no kernel is timed.\n");
}

// Without --all its longest part, which needs all kernels.
TEST_CASE("the walk is right, on the CPU, and saves the last step") {
  const bool whole = attention::wants_all_tests();
  const TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto saved = directory.path() / "saved";
  const auto result = run(kProgram + " --device cpu --size 20" + (whole ? "" : " --section real") +
                          " --summary " + quoted(summary) + " --save " + quoted(saved));
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CAPTURE(result.error);
  CHECK_FALSE(contains(result.error, "06_flash_backward:"));  // but progress
  CHECK_FALSE(contains(result.output, "FAIL"));
  CHECK_FALSE(contains(result.output, "timed"));  // only with --verbose
  const std::string lines = file_bytes(summary);
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
  const TemporaryDirectory directory;
  const auto& path = directory.path();
  cli::write_gqa_input(path, 7, 5);
  for (const char* section : {"tiles", "real"}) {
    const auto result =
        run(kProgram + " --device cpu --section " + section + " --input " + quoted(path));
    CAPTURE(result.output);
    CHECK(result.status == 0);
    CHECK(result.error == "");
  }
}

TEST_CASE("trace writes a JSON report and draws the worst line") {
  check_trace("--size 20 --kernel 06_swizzled_pipeline",
              [](const auto& output, const auto& json, const auto&) {
                CHECK(contains(output, "PASS  06_swizzled_pipeline, causal: no findings"));
                CHECK(python_says("[(k[\"kernel\"], k[\"inputs\"]) for k in "
                                  "json.load(open(file))] == 2 * "
                                  "[(\"06_swizzled_pipeline\", 3 * [[1, 1, 20, 64]])]",
                                  json) == "True\n");
              });
}

TEST_CASE("the order of operations of a Hopper kernel is printed") {
  check_operations("10_delayed_dq", "256 queries, 256 keys",
                   {"warp 8 (producer)", "warp 9 (adder)", "    wait     floats to add"}, "07");
}

TEST_CASE("a step for wide heads alone is launched with those") {
  const auto one = traced("--size 20 --kernel 13");
  if (is_traced(one)) CHECK(contains(one.output, "float16, D 136, causal"));
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
  const TemporaryDirectory directory;
  check_refused(
      kProgram,
      {{"--nonsense", "--nonsense"},
       {"--size 16385", "--size"},
       {"--section nowhere", "there is no such section"},
       {"--section tiles --input " + quoted(directory.path()), "q.npy: there is no such file"},
       {"--device cpu --section timeline --kernel 99", "a file in 06_flash_backward/kernels"},
       {"--device cpu --section time --results file", "none is used"}});
}
