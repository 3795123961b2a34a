// The input of programs: q, k, v and tokens.
#include "common/cli/input.hpp"

#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/cli/tests/good_input.hpp"
#include "common/data/files.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::cli;
using fa::testing::contains;
using fa::testing::message_of;
using fa::testing::Outcome;
using fa::testing::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {

std::string input_refusal(const fs::path& directory) {
  return message_of<std::invalid_argument>([&] { read_input(directory); });
}

}  // namespace

TEST_CASE("the lines of a text file come without their ends") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "lines.txt";
  write_file(path, "one\n\ntwo words\nwindows\r\nlast");
  CHECK(read_lines(path) == std::vector<std::string>{"one", "", "two words", "windows", "last"});
  write_file(path, "");
  CHECK(read_lines(path).empty());
  for (const fs::path& unreadable : {directory.path() / "missing.txt", directory.path()}) {
    CHECK(message_of<std::invalid_argument>([&] { read_lines(unreadable); }) ==
          unreadable.string() + ": cannot be read");
  }
}

TEST_CASE("good input is read with its tokens") {
  const TemporaryDirectory directory;
  write_good_input(directory.path());
  const Input input = read_input(directory.path());
  CHECK(input.directory == directory.path());
  CHECK(input.q.shape() == Shape<4>{1, 2, 5, 4});
  CHECK(input.k.shape() == Shape<4>{1, 2, 3, 4});
  CHECK(input.v.shape() == Shape<4>{1, 2, 3, 4});
  const auto q = normal_tensor<float, 4>({1, 2, 5, 4}, 1);
  const auto v = normal_tensor<float, 4>({1, 2, 3, 4}, 3);
  CHECK(input.q(0, 1, 4, 3) == q(0, 1, 4, 3));
  CHECK(input.v(0, 1, 2, 3) == v(0, 1, 2, 3));
  CHECK(input.tokens == std::vector<std::string>{"[CLS]", "Alice", "[SEP]"});
  fs::remove(directory.path() / "tokens.txt");
  CHECK(read_input(directory.path()).tokens.empty());
}

TEST_CASE("control characters of tokens are shown, not obeyed") {
  const TemporaryDirectory directory;
  write_good_input(directory.path());
  write_file(directory.path() / "tokens.txt", "\x1b[31mred\nno\tUTF-8 \xff\r\ngrößer\n");
  CHECK(read_input(directory.path()).tokens ==
        std::vector<std::string>{"\\x1b[31mred", "no\\x09UTF-8 \\xff", "größer"});
}

TEST_CASE("input of other types is rounded to float32") {
  const TemporaryDirectory directory;
  write_good_input(directory.path());
  const auto wide = normal_tensor<double, 4>({1, 2, 5, 4}, 1);
  const auto narrow = normal_tensor<half, 4>({1, 2, 3, 4}, 2);
  write_npy(directory.path() / "q.npy", wide);
  write_npy(directory.path() / "k.npy", narrow);
  const Input input = read_input(directory.path());
  CHECK(input.q(0, 0, 1, 2) == static_cast<float>(wide(0, 0, 1, 2)));
  CHECK(input.k(0, 0, 1, 2) == static_cast<float>(narrow(0, 0, 1, 2)));
}

TEST_CASE("input that is missing is named") {
  const TemporaryDirectory directory;
  const std::string name = directory.path().string();
  CHECK(input_refusal(directory.path() / "nowhere") == name + "/nowhere: is not a directory");
  CHECK(input_refusal(directory.path()) == name + "/q.npy: there is no such file");
  write_good_input(directory.path());
  CHECK(input_refusal(directory.path()) == "");
  CHECK(input_refusal(directory.path() / "q.npy") == name + "/q.npy: is not a directory");
  for (const char* file : {"q.npy", "k.npy", "v.npy"}) {
    write_good_input(directory.path());
    fs::remove(directory.path() / file);
    CHECK(input_refusal(directory.path()) == name + "/" + file + ": there is no such file");
  }
}

TEST_CASE("input that is not finite is refused with its place") {
  const TemporaryDirectory directory;
  const auto refusal = [&](auto bad, const std::string& file) {
    write_good_input(directory.path());
    auto tensor = normal_tensor<decltype(bad), 4>({1, 2, 3, 4}, 4);
    tensor(0, 1, 2, 3) = bad;
    write_npy(directory.path() / file, tensor);
    const std::string message = input_refusal(directory.path());
    const std::string start = (directory.path() / file).string() + ": element [0, 1, 2, 3] is ";
    REQUIRE(message.substr(0, start.size()) == start);
    return message.substr(start.size());
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const std::string rest = "; every element must be a finite float32";
  CHECK(refusal(std::numeric_limits<float>::quiet_NaN(), "q.npy") == "nan" + rest);
  CHECK(refusal(infinity, "k.npy") == "inf" + rest);
  CHECK(refusal(-infinity, "v.npy") == "-inf" + rest);
  CHECK(refusal(1e300, "v.npy") == "inf" + rest);  // too large for float32
}

TEST_CASE("input of the wrong shape is refused") {
  const TemporaryDirectory directory;
  const std::string name = directory.path().string();
  write_good_input(directory.path());
  write_npy(directory.path() / "k.npy", normal_tensor<float, 3>({2, 3, 4}, 2));
  CHECK(input_refusal(directory.path()) ==
        name + "/k.npy: has shape [2, 3, 4], which is 3 dimensions; 4 are needed");
  write_npy(directory.path() / "k.npy", Tensor<float, 4>({1, 2, 0, 4}));
  CHECK(input_refusal(directory.path()) ==
        name + "/k.npy: has shape [1, 2, 0, 4]; every size must be at least 1");
  write_good_input(directory.path());
  write_file(directory.path() / "q.npy", "no array");
  CHECK(contains(input_refusal(directory.path()), "/q.npy: is not a .npy file"));
  write_good_input(directory.path());
  write_file(directory.path() / "tokens.txt", "[CLS]\n[SEP]\n");
  CHECK(input_refusal(directory.path()) ==
        name + "/tokens.txt: has 2 tokens, but k.npy has 3 keys");
}
