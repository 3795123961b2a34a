// The program of the lesson, run as a reader runs it.
#include <doctest/doctest.h>

#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using testing::contains;
using testing::run;

namespace {

const std::string kProgram = FA_PROGRAM;

}  // namespace

TEST_CASE("the whole walk is right") {
  const testing::TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result =
      run(kProgram + " --summary " + testing::quoted(summary));
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CAPTURE(result.error);  // progress, where training takes long
  CHECK_FALSE(contains(result.error, "06_flash_backward"));
  CHECK_FALSE(contains(result.output, "WRONG"));
  const std::string lines = testing::file_bytes(summary);
  CHECK(contains(lines, "06_flash_backward\tslope along u"));
  CHECK(contains(lines, "d_k by tiles of 37 x 53, causal"));
  CHECK(contains(lines, "loss curve"));
}

TEST_CASE("the program takes masks, grouped heads and uneven lengths") {
  const testing::TemporaryDirectory directory;
  const auto& path = directory.path();
  write_npy(path / "q.npy", normal_tensor<double, 4>({2, 4, 7, 16}, 1));
  write_npy(path / "k.npy", normal_tensor<half, 4>({2, 2, 5, 16}, 2));
  write_npy(path / "v.npy", normal_tensor<float, 4>({2, 2, 5, 16}, 3));
  const auto result =
      run(kProgram + " --section tiles --input " + testing::quoted(path));
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(result.error == "");
}

TEST_CASE("the program refuses what it cannot use: one sentence, exit 2") {
  const testing::TemporaryDirectory directory;
  const auto refused = [](const std::string& arguments, const char* why) {
    const std::string words = testing::refusal(kProgram + " " + arguments);
    CAPTURE(arguments);
    CAPTURE(words);
    CHECK(contains(words, why));
  };
  refused("--nonsense", "--nonsense");
  refused("--section nowhere", "there is no such section");
  refused("--section tiles --input " + testing::quoted(directory.path()),
          "q.npy: there is no such file");
}
