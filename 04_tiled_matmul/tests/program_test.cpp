// The program of the lesson, run as a reader runs it.
#include <algorithm>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

using namespace fa;
using testing::contains;
using testing::run;

namespace {
const std::string kProgram = FA_PROGRAM;
}

TEST_CASE("the whole walk is right, on the CPU") {
  const testing::TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result = run(kProgram + " --device cpu --size 40 --summary '" +
                          summary.string() + "'");
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(result.error == "");
  CHECK_FALSE(contains(result.output, "WRONG"));
  CHECK(contains(result.output, "No GPU is used, so no kernel is timed."));
  const std::string lines = testing::file_bytes(summary);
  CHECK(contains(lines, "04_tiled_matmul\t01_vector_add"));
  CHECK(contains(lines, "16_block_product"));
}

TEST_CASE("a kernel is launched once, for programs that watch") {
  const auto result = run(kProgram +
                          " --device cpu --section once --size 40 "
                          "--kernel 07_matmul_naive");
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 2);
  for (const char* group : {"matmul", "matmul_bt"}) {
    CHECK(contains(result.output,
                   std::string("{\"kernel\": \"07_matmul_naive\", \"group\": "
                               "\"") +
                       group + "\", \"size\": 40, "));
  }
}

TEST_CASE("the program refuses what it cannot use: one sentence, exit 2") {
  const auto refused = [](const std::string& arguments,
                          const std::string& why) {
    const std::string words = testing::refusal(kProgram + " " + arguments);
    CAPTURE(arguments);
    CAPTURE(words);
    CHECK(contains(words, why));
  };
  refused("--size -1", "--size");
  refused("--size many", "--size");
  refused("--device tpu", "--device");
  refused("--nonsense", "--nonsense");
  refused("--section nowhere", "there is no such section");
}

TEST_CASE("a GPU that is not there is refused") {
  // Hides all GPUs from CUDA, so that it holds on every machine.
  const auto result =
      run("CUDA_VISIBLE_DEVICES= " + kProgram + " --device gpu");
  CHECK(result.status == 2);
  CHECK(contains(result.error, "there is no NVIDIA GPU here"));
}
