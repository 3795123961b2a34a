// The lesson's program.
#include <algorithm>

#include <doctest/doctest.h>

#include "common/cli/tests/good_input.hpp"
#include "common/tensor/npy.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using testing::contains;
using testing::quoted;
using testing::run;

namespace {

const std::string kProgram = FA_PROGRAM;

}  // namespace

TEST_CASE("all sections pass on the shipped input and write their files") {
  const testing::TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result =
      run(kProgram + " --save " + quoted(directory.path()) + " --summary " + quoted(summary));
  CHECK(result.status == 0);
  CHECK(result.error == "");
  CHECK_FALSE(contains(result.output, "FAIL"));
  const std::string lines = testing::file_bytes(summary);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 6);
  CHECK(contains(lines, "PASS\t02_safe_softmax\tP of the input"));
  const auto weights = read_npy<float, 4>(directory.path() / "weights.npy");
  CHECK(weights.size(2) == weights.size(3));
  double sum = 0;
  for (std::int64_t j = 0; j < weights.size(3); ++j) {
    sum += weights(0, 1, 2, j);
  }
  CHECK(sum == doctest::Approx(1).epsilon(1e-5));
  const std::string picture = testing::file_bytes(directory.path() / "exp_ranges.svg");
  CHECK(contains(picture, "float16"));
  CHECK(contains(picture, "</svg>"));
}

TEST_CASE("the program takes GQA and unequal lengths") {
  const testing::TemporaryDirectory directory;
  const auto& path = directory.path();
  cli::write_gqa_input(path, 5, 9);
  const auto result = run(kProgram + " --input " + quoted(path));
  CHECK(result.status == 0);
  CHECK(contains(result.output, "40 rows of 9 scores"));
}

TEST_CASE("the program refuses what it cannot use: one sentence, exit 2") {
  const testing::TemporaryDirectory directory;
  const auto& path = directory.path();
  const std::string ours = "--input " + quoted(path);
  testing::check_refused(kProgram, {{"--nonsense", "--nonsense"},
                                    {"--section nowhere", "there is no such section"},
                                    {ours, "q.npy: there is no such file"}});
  cli::write_uneven_heads(path);
  testing::check_refused(kProgram, {{ours, "multiple of kv_heads"}});
}
