// The program of the lesson, run as a reader runs it.
#include <algorithm>

#include <doctest/doctest.h>

#include "04_tiled_matmul/machine.hpp"
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
  CHECK(contains(lines, "18_block_product"));
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

TEST_CASE("a GPU that is not there is refused: one sentence, exit 2") {
  // Hides all GPUs from CUDA, so that it holds on every machine.
  const std::string words =
      testing::refusal("CUDA_VISIBLE_DEVICES= " + kProgram + " --device gpu");
  CAPTURE(words);
  const auto machines = tiled::machines();
  const bool compiled = std::any_of(
      machines.begin(), machines.end(),
      [](const tiled::Machine& machine) { return machine.kind == "gpu"; });
  CHECK(contains(words, compiled ? "there is no NVIDIA GPU here"
                                 : "this build has no code for GPUs"));
}
