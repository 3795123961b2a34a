// Files of NumPy. Those in npy_fixtures.txt, a name and bytes in each line, were written by NumPy (by
// npy_fixtures.py, beside it until commit 4c7b1771). Their element i, in row-major order, is
// (i - 2) * 0.75.
#include "common/tensor/npy.hpp"

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "common/data/files.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::testing;
namespace fs = std::filesystem;

namespace {

// A file of npy_fixtures.txt.
fs::path fixture(const std::string& name) {
  static const TemporaryDirectory directory;
  fs::path path = directory.path() / (name + ".npy");
  std::ifstream list(FA_NPY_FIXTURES);
  for (std::string file, hex; list >> file >> hex;) {
    if (file != name) continue;
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    write_file(path, bytes);
    return path;
  }
  throw std::invalid_argument("npy_fixtures.txt has no " + name);
}

// What the fixtures have at position i.
double fixture_value(std::uint64_t i) {
  return (static_cast<double>(i) - 2) * 0.75;
}

template <class T, int Rank>
Tensor<T, Rank> fixture_tensor(const Shape<Rank>& shape) {
  Tensor<T, Rank> result(shape);
  fill_with(result.view(), fixture_value);
  return result;
}

// Reads a fixture, compares it with what it must hold, writes it, and compares that with the
// fixture.
template <class T, int Rank>
void check_fixture(const std::string& name, const Shape<Rank>& shape) {
  INFO(name);
  const auto wanted = fixture_tensor<T, Rank>(shape);
  CHECK(same_bits(read_npy<T, Rank>(fixture(name)), wanted));
  const TemporaryDirectory directory;
  write_npy(directory.path() / "x.npy", wanted);
  CHECK(file_bytes(directory.path() / "x.npy") == file_bytes(fixture(name)));
}

// A .npy file by hand, right or wrong: magic, version, length of the header, header, elements.
std::string npy_bytes(int version, const std::string& header, std::size_t element_bytes) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + std::string(element_bytes, '\0');
}

std::string header_text(const std::string& descr, const std::string& order,
                        const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

// What read_npy<float, 2> says of a file with these bytes, without the file's name.
std::string refusal_of(const std::string& bytes) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "x.npy";
  write_file(path, bytes);
  std::string message = message_of<std::invalid_argument>([&] { read_npy<float, 2>(path); });
  if (message.empty()) return message;
  const std::string start = path.string() + ": ";
  REQUIRE(message.substr(0, start.size()) == start);
  return message.substr(start.size());
}

}  // namespace

TEST_CASE("three types and ranks 1 to 4 are read and written byte for byte as NumPy does") {
  check_fixture<double, 2>("float64_rank2", {2, 3});
  check_fixture<float, 2>("float32_rank2", {2, 3});
  check_fixture<half, 2>("float16_rank2", {2, 3});
  check_fixture<float, 1>("float32_rank1", {5});
  check_fixture<float, 2>("float32_empty", {0, 3});
  check_fixture<float, 3>("float32_rank3", {2, 1, 3});
  check_fixture<float, 4>("float32_rank4", {1, 2, 3, 2});
}

TEST_CASE("versions 2 and 3 of the format are read") {
  const auto wanted = fixture_tensor<float, 2>({2, 3});
  for (const char* name : {"float32_version2", "float32_version3"}) {
    CHECK(file_bytes(fixture(name)) != file_bytes(fixture("float32_rank2")));
    CHECK(same_bits(read_npy<float, 2>(fixture(name)), wanted));
  }
}

TEST_CASE("a strided view is written as its elements in row-major order") {
  const TemporaryDirectory directory;
  const auto tensor = normal_tensor<float, 4>({2, 5, 3, 4}, 5);
  const View<const float, 4> view = tensor.view().swap_axes(1, 2).narrow(2, 1, 4);
  write_npy<float, 4>(directory.path() / "view.npy", view);
  write_npy(directory.path() / "copy.npy", converted<float>(view));
  CHECK(file_bytes(directory.path() / "view.npy") == file_bytes(directory.path() / "copy.npy"));
  const auto back = read_npy<float, 4>(directory.path() / "view.npy");
  REQUIRE(back.shape() == Shape<4>{2, 3, 3, 4});
  CHECK(back(1, 2, 0, 3) == tensor(1, 1, 2, 3));
}

TEST_CASE("read_npy rounds what it finds to the type that is wanted") {
  const auto wanted = fixture_tensor<float, 2>({2, 3});
  for (const char* name : {"float64_rank2", "float32_rank2", "float16_rank2"}) {
    CHECK(same_bits(read_npy<float, 2>(fixture(name)), wanted));
  }
}

TEST_CASE("files that cannot be read are refused by name, with what they hold") {
  // Name, and a part of the reason.
  const std::pair<const char*, const char*> cases[] = {
      {"refused_bfloat16", "V2"},
      {"float32_rank0", "0 dimensions"},
      {"float32_rank1", "1 dimensions"},
      {"float32_rank3", "[2, 1, 3]"},
      {"float32_rank5", "5 dimensions"},
      {"refused_int32", "<i4"},
      {"refused_bool", "|b1"},
      {"refused_complex64", "<c8"},
      {"refused_structured", "type"},
      {"refused_big_endian", ">f4"},
      {"refused_fortran_order", "fortran_order"},
      {"refused_fortran_order", "ascontiguousarray"}};
  for (const auto& one : cases) {
    CAPTURE(one.first);
    const std::string why = refusal_of(file_bytes(fixture(one.first)));
    CHECK(contains(why, one.second));
  }
}

TEST_CASE("headers that NumPy does not write are refused") {
  const auto refusal = [](const std::string& header) {
    return refusal_of(npy_bytes(1, header, 24));
  };
  REQUIRE(refusal(header_text("'<f4'", "False", "(2, 3)")) == "");
  REQUIRE(refusal("{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}") == "");
  for (const char* descr : {"'f4'", "'|f4'", "'4'", "''", "'<f44'", "None"}) {
    CHECK(contains(refusal(header_text(descr, "False", "(2, 3)")), "float16"));
  }
  for (const char* shape : {"2", "[2, 3]", "(2, 3", "(2, -3)", "(2.0, 3)", "(a, b)", "(2, (3,))",
                            "(99999999999999999999, 3)"}) {
    CHECK(contains(refusal(header_text("'<f4'", "False", shape)), "shape"));
  }
  CHECK(contains(refusal(header_text("'<f4'", "0", "(2, 3)")), "fortran_order"));
  CHECK(contains(refusal(""), "descr"));
  CHECK(contains(refusal("{'descr': '<f4', 'fortran_order': False}"), "shape"));
  // Absurd sizes; 4 times 2^31 times 2^32 is 2^65, whose low 64 bits would look like nothing.
  for (const char* shape :
       {"(1000000000000, 1)", "(4294967296, 4294967296)", "(2147483648, 4294967296)"}) {
    CHECK(contains(refusal(header_text("'<f4'", "False", shape)), "truncated"));
  }
  CHECK(contains(refusal(header_text("'<\x1b]0;f4\a\x9b'", "False", "(2, 3)")),
                 "'<\\x1b]0;f4\\x07\\x9b'"));
}

TEST_CASE("a path that is not a .npy file is refused") {
  const TemporaryDirectory directory;
  for (const fs::path& path :
       {directory.path(), directory.path() / "x\x1b.npy", fs::path("/dev/null")}) {
    const auto why = message_of<std::invalid_argument>([&] { read_npy<float, 2>(path); });
    CHECK(contains(why, printable(path.string())));
  }
  const std::string header = header_text("'<f4'", "False", "(2, 3)");
  for (const std::string& bytes : {std::string(), std::string(200, '\0'), std::string("PK\x03\x04"),
                                   npy_bytes(0, header, 24), npy_bytes(4, header, 24)}) {
    CHECK(contains(refusal_of(bytes), ".npy"));
  }
}

TEST_CASE("a truncated file is refused wherever it ends") {
  for (const char* name : {"float32_rank2", "float32_version2"}) {
    const std::string whole = file_bytes(fixture(name));
    REQUIRE(refusal_of(whole) == "");
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CHECK(refusal_of(whole.substr(0, size)) != "");
    }
    CHECK(contains(refusal_of(whole + "\n"), "25"));
    std::string longer = whole;
    longer[9] = '\xff';  // a header of 65 kB
    CHECK(contains(refusal_of(longer), "header"));
  }
}
