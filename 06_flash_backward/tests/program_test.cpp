// The program of the lesson, run as a reader runs it.
#include <doctest/doctest.h>

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
  CHECK(result.error == "");
  CHECK_FALSE(contains(result.output, "WRONG"));
  const std::string lines = testing::file_bytes(summary);
  CHECK(contains(lines, "06_flash_backward\tslope along u"));
  CHECK(contains(lines, "d_k by tiles of 37 x 53, causal"));
}
