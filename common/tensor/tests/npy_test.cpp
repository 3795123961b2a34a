// Files of NumPy. Those in npy_fixtures.txt were written by NumPy and PyTorch themselves
// (npy_fixtures.py).
#include "common/tensor/npy.hpp"

#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <doctest/doctest.h>

#include "common/data/files.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using fa::testing::contains;
using fa::testing::file_bytes;
using fa::testing::message_of;
using fa::testing::TemporaryDirectory;
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

// What npy_fixtures.py puts at position i.
double fixture_value(std::uint64_t i) {
  return (static_cast<double>(i) - 2) * 0.75;
}

template <class T, int Rank>
Tensor<T, Rank> fixture_tensor(const Shape<Rank>& shape) {
  Tensor<T, Rank> result(shape);
  fill_with(result.view(), fixture_value);
  return result;
}

template <class T, int Rank>
bool same_bytes(const Tensor<T, Rank>& a, const Tensor<T, Rank>& b) {
  return a.shape() == b.shape() &&
         (a.count() == 0 || std::memcmp(a.data(), b.data(), sizeof(T) * a.count()) == 0);
}

// Reads a fixture, compares it with what it must hold, writes it, and compares that with the
// fixture.
template <class T, int Rank>
void check_fixture(const std::string& name, const Shape<Rank>& shape) {
  INFO(name);
  const auto wanted = fixture_tensor<T, Rank>(shape);
  CHECK(same_bytes(read_npy<T, Rank>(fixture(name)), wanted));
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

std::string refusal_of_fixture(const std::string& name) {
  return message_of<std::invalid_argument>([&] { read_npy<float, 2>(fixture(name)); });
}

// Writes and reads a tensor, some of whose elements are easily lost on the way.
template <class T, int Rank>
void check_round_trip(Tensor<T, Rank> tensor) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::int64_t i = 0;
  for (double x : {-0.0, infinity, -infinity, std::nan(""), largest<T>(),
                   smallest_normal<T>() * epsilon<T>()}) {
    tensor.data()[i++] = static_cast<T>(static_cast<accumulator_t<T>>(x));
  }
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "x.npy";
  write_npy(path, tensor);
  CHECK(same_bytes(read_npy<T, Rank>(path), tensor));
  CHECK(fs::file_size(path) == 128 + sizeof(T) * tensor.count());
}

}  // namespace

TEST_CASE("the four types are read and written byte for byte as NumPy does") {
  check_fixture<double, 2>("float64_rank2", {2, 3});
  check_fixture<float, 2>("float32_rank2", {2, 3});
  check_fixture<half, 2>("float16_rank2", {2, 3});
  check_fixture<bfloat16, 2>("bfloat16_rank2", {2, 3});
}

TEST_CASE("ranks 1 to 4 are read and written byte for byte as NumPy does") {
  check_fixture<float, 1>("float32_rank1", {5});
  check_fixture<float, 2>("float32_empty", {0, 3});
  check_fixture<float, 3>("float32_rank3", {2, 1, 3});
  check_fixture<float, 4>("float32_rank4", {1, 2, 3, 2});
}

TEST_CASE("versions 2 and 3 of the format are read") {
  const auto wanted = fixture_tensor<float, 2>({2, 3});
  for (const char* name : {"float32_version2", "float32_version3"}) {
    CHECK(file_bytes(fixture(name)) != file_bytes(fixture("float32_rank2")));
    CHECK(same_bytes(read_npy<float, 2>(fixture(name)), wanted));
  }
}

TEST_CASE("arrays from PyTorch are read as they are") {
  const auto wanted = fixture_tensor<float, 2>({2, 3});
  CHECK(same_bytes(read_npy<float, 2>(fixture("torch_float32")), wanted));
  const auto transposed = read_npy<float, 2>(fixture("torch_transposed"));
  REQUIRE(transposed.shape() == Shape<2>{3, 2});
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) CHECK(transposed(i, j) == wanted(j, i));
  }
}

TEST_CASE("a header tells type and shape of any rank") {
  const auto shape_of = [](const std::string& name) {
    return read_npy_header(fixture(name)).shape;
  };
  CHECK(shape_of("float32_rank0").empty());
  CHECK(shape_of("float32_rank1") == std::vector<std::int64_t>{5});
  CHECK(shape_of("float32_rank5") == std::vector<std::int64_t>{1, 1, 2, 1, 2});
  CHECK(shape_of("float32_empty") == std::vector<std::int64_t>{0, 3});
  CHECK(read_npy_header(fixture("bfloat16_rank2")).dtype == "bfloat16");
  CHECK(read_npy_header(fixture("float64_rank2")).dtype == "float64");
  CHECK(read_npy_header(fixture("float16_rank2")).data_offset == 128);
}

TEST_CASE("what was written is read back bit for bit") {
  check_round_trip(normal_tensor<double, 1>({7}, 1));
  check_round_trip(normal_tensor<float, 2>({3, 4}, 2));
  check_round_trip(normal_tensor<half, 3>({2, 3, 4}, 3));
  check_round_trip(normal_tensor<bfloat16, 4>({2, 3, 4, 5}, 4));
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

TEST_CASE("read_npy_as rounds what it finds to the type that is wanted") {
  const auto wanted = fixture_tensor<float, 2>({2, 3});
  for (const char* name : {"float64_rank2", "float32_rank2", "float16_rank2", "bfloat16_rank2"}) {
    CHECK(same_bytes(read_npy_as<float, 2>(fixture(name)), wanted));
  }
  const TemporaryDirectory directory;
  const auto wide = normal_tensor<double, 1>({50}, 6);
  write_npy(directory.path() / "x.npy", wide);
  CHECK(same_bytes(read_npy_as<half, 1>(directory.path() / "x.npy"), converted<half>(wide)));
}

TEST_CASE("read_npy takes no other type than the one that is wanted") {
  const std::string path = fixture("float64_rank2").string();
  CHECK(refusal_of_fixture("float64_rank2") == path + ": holds float64; float32 is needed");
  CHECK(contains(refusal_of_fixture("bfloat16_rank2"), "holds bfloat16; float32 is needed"));
  CHECK(contains(
      message_of<std::invalid_argument>([] { read_npy<half, 2>(fixture("bfloat16_rank2")); }),
      "holds bfloat16; float16 is needed"));
}

TEST_CASE("another number of dimensions is refused") {
  const std::string path = fixture("float32_rank3").string();
  CHECK(refusal_of_fixture("float32_rank3") ==
        path + ": has shape [2, 1, 3], which is 3 dimensions; 2 are needed");
  for (const char* name : {"float32_rank0", "float32_rank1", "float32_rank4", "float32_rank5"}) {
    CHECK(contains(refusal_of_fixture(name), "dimensions; 2 are needed"));
    CHECK(
        contains(message_of<std::invalid_argument>([&] { read_npy_as<double, 2>(fixture(name)); }),
                 "dimensions; 2 are needed"));
  }
}

TEST_CASE("other element types are refused by name") {
  const std::string allowed = "; allowed are float64, float32, float16 and bfloat16";
  const auto refused = [&](const std::string& name, const std::string& why) {
    CHECK(refusal_of_fixture(name) == fixture(name).string() + ": " + why);
  };
  refused("refused_int32", "holds elements of type '<i4'" + allowed);
  refused("refused_bool", "holds elements of type '|b1'" + allowed);
  refused("refused_complex64", "holds elements of type '<c8'" + allowed);
  refused("refused_structured", "holds a structured or unreadable element type" + allowed);
  refused("refused_big_endian", "holds big-endian float32; save it as little-endian");
  // Unknown byte orders are no types.
  for (const char* code : {"f4", "?f4", "|f4", "4", "", "<f44"}) {
    CHECK(refusal_of(
              npy_bytes(1, header_text("'" + std::string(code) + "'", "False", "(2, 3)"), 24)) ==
          "holds elements of type '" + std::string(code) + "'" + allowed);
  }
}

TEST_CASE("column-major order is refused with what to do about it") {
  for (const char* name : {"refused_fortran_order", "refused_torch_transposed_view"}) {
    CHECK(refusal_of_fixture(name) == fixture(name).string() +
                                          ": is stored column-major (fortran_order); save "
                                          "np.ascontiguousarray(x) instead");
  }
}

TEST_CASE("a path that is not a file is refused") {
  const TemporaryDirectory directory;
  const auto refusal = [](const fs::path& path) {
    return message_of<std::invalid_argument>([&] { read_npy<float, 2>(path); });
  };
  const std::string name = directory.path().string();
  CHECK(refusal(directory.path()) == name + ": is not a file");
  CHECK(refusal(directory.path() / "x.npy") == name + "/x.npy: there is no such file");
  CHECK(refusal("/dev/null") == "/dev/null: is not a file");
}

TEST_CASE("a file of something else is refused") {
  const std::string sentence = "is not a .npy file (it does not begin as NumPy writes it)";
  CHECK(refusal_of("") == sentence);
  CHECK(refusal_of("\x93NUM") == sentence);
  CHECK(refusal_of(std::string("\x93NUMPY\x01", 7)) == sentence);
  CHECK(refusal_of("PK\x03\x04 and what else a zip file holds") == sentence);
  CHECK(refusal_of(std::string(200, '\0')) == sentence);
  const std::string header = header_text("'<f4'", "False", "(2, 3)");
  CHECK(refusal_of(npy_bytes(0, header, 24)) == "has .npy version 0; versions 1 to 3 are known");
  CHECK(refusal_of(npy_bytes(4, header, 24)) == "has .npy version 4; versions 1 to 3 are known");
}

TEST_CASE("a truncated file is refused wherever it ends") {
  for (const char* name : {"float32_rank2", "float32_version2"}) {
    const std::string whole = file_bytes(fixture(name));
    REQUIRE(refusal_of(whole) == "");
    const std::size_t length_end = whole[6] == 1 ? 10 : 12;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::string why = refusal_of(whole.substr(0, size));
      if (size < 8) {
        CHECK(contains(why, "is not a .npy file"));
      } else if (size < length_end) {
        CHECK(why == "is truncated or damaged: no readable header");
      } else if (size < 128) {
        CHECK(why == "is truncated: it ends inside its header");
      } else {
        CHECK(why ==
              "is truncated: shape [2, 3] of float32 needs 24 bytes of elements, the file has " +
                  std::to_string(size - 128));
      }
    }
    CHECK(refusal_of(whole + "\n") ==
          "is too long: shape [2, 3] of float32 needs 24 bytes of elements, the file has 25");
  }
}

TEST_CASE("absurd sizes are refused before memory is asked for") {
  const auto refusal = [](const std::string& shape) {
    return refusal_of(npy_bytes(1, header_text("'<f4'", "False", shape), 24));
  };
  REQUIRE(refusal("(2, 3)") == "");
  CHECK(contains(refusal("(1000000000000, 1)"),
                 "is truncated: shape [1000000000000, 1] of float32 needs 4000000000000 bytes"));
  CHECK(refusal("(4294967296, 4294967296)") == "the header has a shape that is too large");
  // 4 times 2^31 times 2^32 is 2^65: its low 64 bits would look like nothing.
  CHECK(refusal("(2147483648, 4294967296)") == "the header has a shape that is too large");
  CHECK(refusal("(0, 200000000000000, 200000000000000)") ==
        "the header has a shape that is too large");
  CHECK(refusal("(99999999999999999999, 3)") == "the header has a size that is too large");
  // A header of 4 GiB, in a file of some bytes.
  std::string bytes = npy_bytes(2, header_text("'<f4'", "False", "(2, 3)"), 24);
  bytes.replace(8, 4, "\xff\xff\xff\xff");
  CHECK(refusal_of(bytes) == "is truncated or damaged: no readable header");
}

TEST_CASE("a header that cannot be read is refused by what is missing") {
  const auto refusal = [](const std::string& header) {
    return refusal_of(npy_bytes(1, header, 24));
  };
  CHECK(refusal("") == "the header has no entry 'descr'");
  CHECK(refusal("{'shape': (2, 3), 'fortran_order': False}") == "the header has no entry 'descr'");
  CHECK(refusal("{'descr': '<f4', 'fortran_order': False}") == "the header has no entry 'shape'");
  CHECK(refusal("{'descr': '<f4', 'shape': (2, 3)}") == "the header has no entry 'fortran_order'");
  const std::string unreadable_type =
      "holds a structured or unreadable element type; allowed are float64, "
      "float32, float16 and bfloat16";
  CHECK(refusal("{'descr':") == unreadable_type);
  CHECK(refusal("{'descr': '<f4") == unreadable_type);
  CHECK(refusal(header_text("None", "False", "(2, 3)")) == unreadable_type);
  const std::string unreadable_shape = "the header has no readable shape";
  for (const char* shape : {"2", "[2, 3]", "(2, 3", "(2, -3)", "(2.0, 3)", "(a, b)", "(2, (3,))"})
    CHECK(refusal(header_text("'<f4'", "False", shape)) == unreadable_shape);
  for (const char* order : {"Maybe", "0", "false"})
    CHECK(refusal(header_text("'<f4'", order, "(2, 3)")) == "the header does not say its order");
  // Order of entries and spaces do not matter.
  CHECK(refusal("{'shape':(2,3),'fortran_order':False,'descr':'<f4'}") == "");
}

TEST_CASE("control characters of a header are shown, not obeyed") {
  CHECK(refusal_of(npy_bytes(1, header_text("'<\x1b]0;f4\a\x9b'", "False", "(2, 3)"), 24)) ==
        "holds elements of type '<\\x1b]0;f4\\x07\\x9b'; allowed are float64, "
        "float32, float16 and bfloat16");
  CHECK(message_of<std::invalid_argument>([&] { read_npy<float, 2>("no\x1b[2J.npy"); }) ==
        "no\\x1b[2J.npy: there is no such file");
}

TEST_CASE("a damaged file is read or refused but never more than that") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "x.npy";
  int read = 0, refused = 0, changed = 0;
  const auto try_bytes = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    try {  // another exception than std::invalid_argument fails the test
      const auto tensor = read_npy_as<double, 2>(path);
      ++read;
      // No more elements than the file has bytes for.
      REQUIRE(tensor.count() * 2 <= static_cast<std::int64_t>(bytes.size()));
    } catch (const std::invalid_argument& error) {
      ++refused;
      REQUIRE(contains(error.what(), path.string() + ": "));
      REQUIRE(printable(error.what()) == error.what());
    }
  };
  const std::string original = file_bytes(fixture("float32_rank2"));
  std::uint64_t drawn = 0;
  const auto random_below = [&](std::size_t n) {
    return static_cast<std::size_t>(random_bits(2024, drawn++) % n);
  };
  // Every byte of the file, many values.
  for (std::size_t at = 0; at < original.size(); ++at) {
    for (int i = 0; i < 16; ++i) {
      std::string bytes = original;
      bytes[at] = static_cast<char>(random_below(256));
      changed += bytes != original;
      try_bytes(bytes);
    }
  }
  // Several bytes of the readable part, by characters that mean something there; then cut or
  // lengthened.
  const std::string meaningful = "0123456789(),' {}:<>|fV-";
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = original;
    for (std::size_t k = random_below(4) + 1; k > 0; --k)
      bytes[8 + random_below(64)] = meaningful[random_below(meaningful.size())];
    if (i % 3 == 0) bytes.resize(random_below(2 * bytes.size()));
    changed += bytes != original;
    try_bytes(bytes);
  }
  CHECK(changed > 3500);
  CHECK(read > 100);  // damage among the elements is not seen
  CHECK(refused > 1000);
}

TEST_CASE("a file is replaced as a whole and leaves nothing beside it") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "x.npy";
  write_npy(path, normal_tensor<double, 2>({30, 40}, 1));
  write_npy(path, fixture_tensor<float, 2>({2, 3}));
  CHECK(file_bytes(path) == file_bytes(fixture("float32_rank2")));
  const fs::directory_iterator entries(directory.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("what cannot be written is said and leaves nothing behind") {
  const TemporaryDirectory directory;
  const auto tensor = fixture_tensor<float, 2>({2, 3});
  const auto refusal = [&](const fs::path& path) {
    return message_of<std::runtime_error>([&] { write_npy(path, tensor); });
  };
  const fs::path missing = directory.path() / "missing" / "x.npy";
  CHECK(refusal(missing) == missing.string() + ": cannot be written: there is no folder " +
                                missing.parent_path().string());
  CHECK(!fs::exists(directory.path() / "missing"));
  // A directory is in the way.
  const fs::path occupied = directory.path() / "occupied";
  fs::create_directories(occupied / "by_something");
  CHECK(refusal(occupied) == occupied.string() + ": cannot be written: it is a folder");
  CHECK(fs::is_directory(occupied / "by_something"));
  const fs::directory_iterator entries(directory.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("a file that cannot be finished leaves the old one alone") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "x.npy";
  write_npy(path, fixture_tensor<float, 2>({2, 3}));
  const auto child = testing::run_in_child([&] {
    // As on a full disk: no file may grow past 4096 bytes.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    write_npy(path, normal_tensor<double, 2>({100, 100}, 1));
    return 0;
  });
  CHECK(child.status == 99);
  CHECK(child.error == path.string() + ": cannot be written: File too large\n");
  CHECK(file_bytes(path) == file_bytes(fixture("float32_rank2")));
  const fs::directory_iterator entries(directory.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}
