#include "common/tensor/npy.hpp"

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/data/files.hpp"

namespace fa {
namespace {

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the .npy files of this course are little-endian, and so must the machine be"
#endif

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicBytes = 6;
// NumPy pads its header so that the elements start aligned.
constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kMaxHeaderBytes = 1 << 16;

struct DtypeCode {
  const char* code;  // without the byte-order mark
  const char* name;
  std::int64_t bytes;
};
constexpr DtypeCode kDtypes[] = {
    {"f8", "float64", 8}, {"f4", "float32", 4}, {"f2", "float16", 2}, {"V2", "bfloat16", 2}};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", printable(path.string()), why));
}

// The header is a Python dictionary literal with three known keys. Finds the text after one of
// them.
std::string_view value_of(const std::filesystem::path& path, std::string_view header,
                          const std::string& key) {
  const std::string quoted = "'" + key + "':";
  const auto at = header.find(quoted);
  if (at == std::string_view::npos) refuse(path, fmt::format("the header has no entry '{}'", key));
  std::string_view rest = header.substr(at + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

std::string parse_dtype(const std::filesystem::path& path, std::string_view value) {
  const char quote = value.empty() ? '\0' : value.front();
  const auto end = value.find(quote, 1);
  if ((quote != '\'' && quote != '"') || end == std::string_view::npos) {
    refuse(path,
           "holds a structured or unreadable element type; allowed are float64, float32, "
           "float16 and bfloat16");
  }
  const std::string code(value.substr(1, end - 1));
  // The first character is the byte order; opaque bytes may have none (|).
  const std::string kind = code.substr(std::min<std::size_t>(1, code.size()));
  for (const DtypeCode& known : kDtypes) {
    if (kind != known.code) continue;
    if (code[0] == '<' || (code[0] == '|' && kind[0] == 'V')) return known.name;
    if (code[0] == '>')
      refuse(path, fmt::format("holds big-endian {}; save it as little-endian", known.name));
  }
  refuse(path, fmt::format("holds elements of type '{}'; allowed are "
                           "float64, float32, float16 and bfloat16",
                           printable(code)));
}

std::vector<std::int64_t> parse_shape(const std::filesystem::path& path, std::string_view value) {
  const auto end = value.find(')');
  if (value.empty() || value.front() != '(' || end == std::string_view::npos) {
    refuse(path, "the header has no readable shape");
  }
  std::vector<std::int64_t> shape;
  std::int64_t number = -1;  // -1: between numbers
  for (char c : value.substr(1, end - 1)) {
    if (c >= '0' && c <= '9') {
      number = std::max<std::int64_t>(number, 0) * 10 + (c - '0');
      if (number > (std::int64_t{1} << 48)) refuse(path, "the header has a size that is too large");
    } else if (c == ',' || c == ' ') {
      if (number >= 0) shape.push_back(number);
      number = -1;
    } else {
      refuse(path, "the header has no readable shape");
    }
  }
  if (number >= 0) shape.push_back(number);
  return shape;
}

std::int64_t bytes_of(const std::string& dtype) {
  for (const DtypeCode& known : kDtypes) {
    if (dtype == known.name) return known.bytes;
  }
  return 0;
}

template <int Rank>
Shape<Rank> fixed_rank(const std::filesystem::path& path, const NpyHeader& header) {
  if (header.shape.size() != Rank) {
    refuse(path, fmt::format("has shape [{}], which is {} dimensions; {} are needed",
                             fmt::join(header.shape, ", "), header.shape.size(), Rank));
  }
  Shape<Rank> shape{};
  for (int axis = 0; axis < Rank; ++axis) shape[axis] = header.shape[axis];
  return shape;
}

// Reads elements of type T.
template <class T>
void read_elements(const std::filesystem::path& path, const NpyHeader& header,
                   View<T, 1> elements) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(header.data_offset);
  const auto bytes = static_cast<std::streamsize>(elements.count() * sizeof(T));
  file.read(reinterpret_cast<char*>(elements.data()), bytes);
  if (file.gcount() != bytes) refuse(path, "could not be read to its end");
}

// Reads elements of type Stored and rounds them to type T.
template <class Stored, class T>
void read_converted(const std::filesystem::path& path, const NpyHeader& header,
                    View<T, 1> elements) {
  Tensor<Stored, 1> stored(elements.shape());
  read_elements(path, header, stored.view());
  copy(stored.view(), elements);
}

}  // namespace

NpyHeader read_npy_header(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) refuse(path, "there is no such file");
  if (!std::filesystem::is_regular_file(path, error)) refuse(path, "is not a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be opened for reading");

  unsigned char start[kMagicBytes + 2];
  file.read(reinterpret_cast<char*>(start), sizeof start);
  if (file.gcount() != sizeof start || std::memcmp(start, kMagic, kMagicBytes) != 0) {
    refuse(path, "is not a .npy file (it does not begin as NumPy writes it)");
  }
  const int version = start[kMagicBytes];
  if (version < 1 || version > 3) {
    refuse(path, fmt::format("has .npy version {}; versions 1 to 3 are known", version));
  }
  unsigned char length_bytes[4] = {};
  const int length_size = version == 1 ? 2 : 4;
  file.read(reinterpret_cast<char*>(length_bytes), length_size);
  std::int64_t length = 0;
  for (int i = 3; i >= 0; --i) length = length * 256 + length_bytes[i];
  if (!file || length > kMaxHeaderBytes)
    refuse(path, "is truncated or damaged: no readable header");
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(text.data(), length);
  if (file.gcount() != length) refuse(path, "is truncated: it ends inside its header");

  NpyHeader header;
  header.dtype = parse_dtype(path, value_of(path, text, "descr"));
  header.shape = parse_shape(path, value_of(path, text, "shape"));
  header.data_offset = static_cast<std::int64_t>(sizeof start) + length_size + length;
  const std::string_view order = value_of(path, text, "fortran_order");
  if (order.substr(0, 4) == "True") {
    refuse(path, "is stored column-major (fortran_order); save np.ascontiguousarray(x) instead");
  }
  if (order.substr(0, 5) != "False") refuse(path, "the header does not say its order");

  std::int64_t needed = bytes_of(header.dtype);
  bool empty = false;
  for (std::int64_t size : header.shape) {
    if (size == 0) {
      empty = true;
    } else if (needed > std::numeric_limits<std::int64_t>::max() / size) {
      refuse(path, "the header has a shape that is too large");
    } else {
      needed *= size;
    }
  }
  if (empty) needed = 0;
  const auto present =
      static_cast<std::int64_t>(std::filesystem::file_size(path)) - header.data_offset;
  if (present != needed) {
    refuse(path, fmt::format("{}: shape [{}] of {} needs {} bytes of elements, the file has {}",
                             present < needed ? "is truncated" : "is too long",
                             fmt::join(header.shape, ", "), header.dtype, needed, present));
  }
  return header;
}

template <class T, int Rank>
Tensor<T, Rank> read_npy_as(const std::filesystem::path& path) {
  const NpyHeader header = read_npy_header(path);
  Tensor<T, Rank> result(fixed_rank<Rank>(path, header));
  const View<T, 1> elements(result.data(), {result.count()});
  if (header.dtype == FloatTraits<T>::name) {
    read_elements(path, header, elements);
  } else if (header.dtype == FloatTraits<double>::name) {
    read_converted<double>(path, header, elements);
  } else if (header.dtype == FloatTraits<float>::name) {
    read_converted<float>(path, header, elements);
  } else if (header.dtype == FloatTraits<half>::name) {
    read_converted<half>(path, header, elements);
  } else {
    read_converted<bfloat16>(path, header, elements);
  }
  return result;
}

template <class T, int Rank>
Tensor<T, Rank> read_npy(const std::filesystem::path& path) {
  const NpyHeader header = read_npy_header(path);
  if (header.dtype != FloatTraits<T>::name) {
    refuse(path, fmt::format("holds {}; {} is needed", header.dtype, FloatTraits<T>::name));
  }
  return read_npy_as<T, Rank>(path);
}

template <class T, int Rank>
void write_npy(const std::filesystem::path& path, View<const T, Rank> view) {
  std::string code;
  for (const DtypeCode& known : kDtypes) {
    if (std::string(known.name) == FloatTraits<T>::name) code = known.code;
  }
  // Python writes a one-element tuple with a comma: (5,).
  std::string header = fmt::format("{{'descr': '<{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   code, fmt::join(view.shape(), ", "), Rank == 1 ? "," : "");
  const std::size_t unpadded = kMagicBytes + 2 + 2 + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header.push_back('\n');

  const char version_and_length[4] = {1, 0, static_cast<char>(header.size() & 0xff),
                                      static_cast<char>(header.size() >> 8)};
  const Tensor<T, Rank> packed = converted<T>(view);
  write_file(path, [&](std::ostream& file) {
    file.write(kMagic, kMagicBytes);
    file.write(version_and_length, sizeof version_and_length);
    file << header;
    file.write(reinterpret_cast<const char*>(packed.data()),
               static_cast<std::streamsize>(packed.count() * sizeof(T)));
  });
}

#define FA_NPY_FOR(T, RANK)                                                    \
  template Tensor<T, RANK> read_npy<T, RANK>(const std::filesystem::path&);    \
  template Tensor<T, RANK> read_npy_as<T, RANK>(const std::filesystem::path&); \
  template void write_npy<T, RANK>(const std::filesystem::path&, View<const T, RANK>);
#define FA_NPY_FOR_RANKS(T) FA_NPY_FOR(T, 1) FA_NPY_FOR(T, 2) FA_NPY_FOR(T, 3) FA_NPY_FOR(T, 4)
FA_NPY_FOR_RANKS(double)
FA_NPY_FOR_RANKS(float)
FA_NPY_FOR_RANKS(half)
FA_NPY_FOR_RANKS(bfloat16)

}  // namespace fa
