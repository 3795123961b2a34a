#include "common/tensor/npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

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
constexpr std::uint64_t kMaxHeaderBytes = 1 << 16;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 60;

struct Dtype {
  const char* code;  // without the byte order
  const char* name;
  std::uint64_t bytes;
};
constexpr Dtype kDtypes[] = {{"f8", "float64", 8}, {"f4", "float32", 4}, {"f2", "float16", 2}};

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", printable(path.string()), why));
}

// What the header, a Python dictionary, has behind a key: `'f4'` or `(2, 3)` up to a character.
std::string value_of(const std::filesystem::path& path, const std::string& header,
                     const std::string& key, char end) {
  const std::string quoted = "'" + key + "': ";
  const auto at = header.find(quoted);
  const auto begin = at + quoted.size();
  const auto stop = at == std::string::npos ? at : header.find(end, begin + 1);
  if (stop == std::string::npos) {
    refuse(path, fmt::format("the header has no readable entry '{}'", key));
  }
  return header.substr(begin, stop - begin + 1);
}

const Dtype& parse_dtype(const std::filesystem::path& path, const std::string& value) {
  for (const Dtype& known : kDtypes) {
    if (value == fmt::format("'<{}'", known.code)) return known;
  }
  refuse(path, fmt::format("holds elements of type {}; allowed are little-endian float64, float32 "
                           "and float16",
                           printable(value)));
}

std::vector<std::int64_t> parse_shape(const std::filesystem::path& path, const std::string& value) {
  std::vector<std::int64_t> shape;
  const char* at = value.data();
  const char* const end = at + value.size();
  while (++at < end) {  // behind '(', a comma or a blank
    if (*at == ' ' || *at == ')') continue;
    std::int64_t size = -1;
    at = std::from_chars(at, end, size).ptr;
    if (value[0] != '(' || size < 0 || (*at != ',' && *at != ')')) {
      refuse(path, fmt::format("the header has shape {}", printable(value)));
    }
    shape.push_back(size);
  }
  return shape;
}

// Reads bytes; false at the end of the file.
bool read_bytes(std::istream& file, void* bytes, std::uint64_t count) {
  file.read(static_cast<char*>(bytes), static_cast<std::streamsize>(count));
  return static_cast<std::uint64_t>(file.gcount()) == count;
}

// Reads magic, version, length and the header itself.
std::string read_header(const std::filesystem::path& path, std::istream& file) {
  unsigned char start[kMagicBytes + 2];
  if (!read_bytes(file, start, sizeof start) || std::memcmp(start, kMagic, kMagicBytes) != 0) {
    refuse(path, "is not a .npy file (it does not begin as NumPy writes it)");
  }
  const int version = start[kMagicBytes];
  if (version < 1 || version > 3) {
    refuse(path, fmt::format("has .npy version {}; versions 1 to 3 are known", version));
  }
  unsigned char length_bytes[4] = {};
  const bool whole = read_bytes(file, length_bytes, version == 1 ? 2 : 4);
  std::uint64_t length = 0;
  for (int i = 3; i >= 0; --i) length = length * 256 + length_bytes[i];
  std::string header(std::min(length, kMaxHeaderBytes), '\0');
  if (!whole || length > kMaxHeaderBytes || !read_bytes(file, header.data(), length)) {
    refuse(path, "is truncated or damaged: it ends inside its header");
  }
  return header;
}

// Reads elements of type Stored and rounds them to type T; false at the end of the file.
template <class Stored, class T>
bool read_elements(std::istream& file, View<T, 1> elements) {
  Tensor<Stored, 1> stored(elements.shape());
  const bool whole = read_bytes(file, stored.data(), sizeof(Stored) * stored.count());
  copy(stored.view(), elements);
  return whole;
}

}  // namespace

template <class T, int Rank>
Tensor<T, Rank> read_npy(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) refuse(path, "there is no such file");
  if (!std::filesystem::is_regular_file(path, error)) refuse(path, "is not a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be opened for reading");
  const std::string header = read_header(path, file);
  const Dtype dtype = parse_dtype(path, value_of(path, header, "descr", '\''));
  if (value_of(path, header, "fortran_order", 'e') != "False") {
    refuse(path, "is stored column-major (fortran_order); save np.ascontiguousarray(x) instead");
  }
  const auto sizes = parse_shape(path, value_of(path, header, "shape", ')'));
  const std::string shown = fmt::format("shape [{}]", fmt::join(sizes, ", "));
  if (sizes.size() != Rank) {
    refuse(path,
           fmt::format("has {}, which is {} dimensions; {} are needed", shown, sizes.size(), Rank));
  }
  Shape<Rank> shape{};
  std::copy(sizes.begin(), sizes.end(), shape.begin());
  // The file is compared with the shape before memory is asked for.
  std::uint64_t count = 1;
  for (const std::int64_t size : sizes) {
    const auto factor = static_cast<std::uint64_t>(size);
    count = factor > 0 && count > kMaxElements / factor ? kMaxElements : count * factor;
  }
  const std::uint64_t needed = count * dtype.bytes,
                      present = std::filesystem::file_size(path) -
                                static_cast<std::uint64_t>(file.tellg());
  if (present != needed) {
    refuse(path, fmt::format("is {}: {} of {} needs {} bytes of elements, the file has {}",
                             present < needed ? "truncated" : "too long", shown, dtype.name, needed,
                             present));
  }
  Tensor<T, Rank> result(shape);
  const View<T, 1> elements(result.data(), {result.count()});
  const bool whole = dtype.bytes == 8   ? read_elements<double>(file, elements)
                     : dtype.bytes == 4 ? read_elements<float>(file, elements)
                                        : read_elements<half>(file, elements);
  if (!whole) refuse(path, "could not be read to its end");
  return result;
}

template <class T, int Rank>
void write_npy(const std::filesystem::path& path, View<const T, Rank> view) {
  const auto* const dtype = std::find_if(std::begin(kDtypes), std::end(kDtypes), [](auto& each) {
    return std::string_view(each.name) == FloatTraits<T>::name;
  });
  // Python writes a one-element tuple with a comma: (5,).
  std::string header =
      fmt::format("{{'descr': '<{}', 'fortran_order': False, 'shape': ({}{}), }}", dtype->code,
                  fmt::join(view.shape(), ", "), Rank == 1 ? "," : "");
  const std::size_t unpadded = kMagicBytes + 2 + 2 + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header.push_back('\n');

  std::string text(kMagic);
  text += {1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  text += header;
  const Tensor<T, Rank> packed = converted<T>(view);
  text.append(reinterpret_cast<const char*>(packed.data()), packed.count() * sizeof(T));
  write_file(path, text);
}

#define FA_NPY_FOR(T, RANK)                                                 \
  template Tensor<T, RANK> read_npy<T, RANK>(const std::filesystem::path&); \
  template void write_npy<T, RANK>(const std::filesystem::path&, View<const T, RANK>);
#define FA_NPY_FOR_RANKS(T) FA_NPY_FOR(T, 1) FA_NPY_FOR(T, 2) FA_NPY_FOR(T, 3) FA_NPY_FOR(T, 4)
FA_NPY_FOR_RANKS(double)
FA_NPY_FOR_RANKS(float)
FA_NPY_FOR_RANKS(half)

}  // namespace fa
