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
  write_file(directory.path() / "tokens.txt", "\x1b[31mred\nno\tUTF-8 \xff\r\ngrößer");
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
  CHECK(contains(input_refusal(directory.path() / "nowhere"), name + "/nowhere"));
  for (const char* file : {"q.npy", "k.npy", "v.npy"}) {
    write_good_input(directory.path());
    CHECK(input_refusal(directory.path()) == "");
    fs::remove(directory.path() / file);
    CHECK(contains(input_refusal(directory.path()), name + "/" + file));
  }
}

TEST_CASE("input that is not finite is refused with its place") {
  const TemporaryDirectory directory;
  const auto refused = [&](auto bad, const std::string& file, const std::string& value) {
    write_good_input(directory.path());
    auto tensor = normal_tensor<decltype(bad), 4>({1, 2, 3, 4}, 4);
    tensor(0, 1, 2, 3) = bad;
    write_npy(directory.path() / file, tensor);
    const std::string message = input_refusal(directory.path());
    CHECK(contains(message, (directory.path() / file).string()));
    CHECK(contains(message, "[0, 1, 2, 3] is " + value));
  };
  const float infinity = std::numeric_limits<float>::infinity();
  refused(std::numeric_limits<float>::quiet_NaN(), "q.npy", "nan");
  refused(infinity, "k.npy", "inf");
  refused(-infinity, "v.npy", "-inf");
  refused(1e300, "v.npy", "inf");  // too large for float32
}

TEST_CASE("input of the wrong shape is refused") {
  const TemporaryDirectory directory;
  const auto refused = [&](const char* file, const std::string& part) {
    const std::string message = input_refusal(directory.path());
    CHECK(contains(message, file));
    CHECK(contains(message, part));
    write_good_input(directory.path());
  };
  write_good_input(directory.path());
  write_npy(directory.path() / "k.npy", normal_tensor<float, 3>({2, 3, 4}, 2));
  refused("k.npy", "[2, 3, 4]");
  write_npy(directory.path() / "k.npy", Tensor<float, 4>({1, 2, 0, 4}));
  refused("k.npy", "[1, 2, 0, 4]");
  write_file(directory.path() / "q.npy", "no array");
  refused("q.npy", ".npy");
  write_file(directory.path() / "tokens.txt", "[CLS]\n[SEP]\n");
  refused("tokens.txt", "2 tokens");
}
