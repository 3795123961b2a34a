/// @file
/// Values as bytes: how the grader and the process that runs the student's code exchange arguments
/// and results. Known are numbers and other trivially copyable types, strings, vectors, pairs,
/// matrices, tensors, and every struct with a function `parts(x)` in its namespace that returns
/// std::tie() of its members. Below stands what a watched launch saw, and the launches of puzzles,
/// of which each access is noted so that a grader can draw which thread touches what.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/lab/watch.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::classroom {

struct Seen;

/// Writes or reads bytes. Which of the two is a flag, so that each type lists its members once.
class Wire {
 public:
  /// For writing.
  Wire() = default;
  /// For reading.
  explicit Wire(std::string bytes) : bytes_(std::move(bytes)), reads_(true) {}
  /// What was written.
  const std::string& bytes() const { return bytes_; }

  /// Passes a value in the wire's direction.
  /// @throws std::runtime_error when bytes are missing
  template <class T>
  void pass(T& value) {
    if constexpr (is_tuple<T>::value) {
      std::apply([&](auto&... parts) { (pass(parts), ...); }, value);
    } else if constexpr (has_parts<T>::value) {
      auto members = parts(value);
      pass(members);
    } else {
      static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                    "this type needs a function parts(x)");
      raw(&value, sizeof(T));
    }
  }
  /// @{ The same for texts and vectors, with their lengths, and tables, with their sizes.
  void pass(std::string& text);
  template <class T>
  void pass(std::vector<T>& values) {
    static_assert(!std::is_same_v<T, bool>, "use std::uint8_t");
    values.resize(size(values.size(), 1));
    if constexpr (std::is_arithmetic_v<T>) {
      raw(values.data(), values.size() * sizeof(T));
    } else {
      for (T& value : values) pass(value);
    }
  }
  template <class T>
  void pass(Matrix<T>& matrix) {
    std::int64_t rows = matrix.rows(), cols = matrix.cols();
    pass(rows);
    pass(cols);
    check(rows >= 0 && cols >= 0 && rows <= kMost && cols <= kMost);
    if (reads_) check(static_cast<std::size_t>(rows * cols) * sizeof(T) <= left());
    matrix.resize(rows, cols);
    raw(matrix.data(), static_cast<std::size_t>(matrix.size()) * sizeof(T));
  }
  template <class T, int Rank>
  void pass(Tensor<T, Rank>& tensor) {
    Shape<Rank> shape = tensor.shape();
    for (auto& length : shape) {
      pass(length);
      check(length >= 0 && length <= kMost);
    }
    if (reads_) tensor = Tensor<T, Rank>(shape);
    raw(tensor.data(), static_cast<std::size_t>(tensor.count()) * sizeof(T));
  }
  /// @}
  /// The same for what the lab saw; its coverage and touches stay where they are.
  void pass(Seen& seen);
  /// Refuses bytes that no value has asked for.
  void end() const;

 private:
  template <class T>
  struct is_tuple : std::false_type {};
  template <class... T>
  struct is_tuple<std::tuple<T...>> : std::true_type {};
  template <class A, class B>
  struct is_tuple<std::pair<A, B>> : std::true_type {};
  template <class T, class = void>
  struct has_parts : std::false_type {};
  template <class T>
  struct has_parts<T, std::void_t<decltype(parts(std::declval<T&>()))>> : std::true_type {};

  static constexpr std::int64_t kMost = 1 << 24;
  static void check(bool holds);
  std::size_t left() const { return bytes_.size() - place_; }
  std::size_t size(std::size_t own, std::size_t each);
  void raw(void* data, std::size_t count);

  std::string bytes_;
  bool reads_ = false;
  std::size_t place_ = 0;
};

/// The values as bytes.
template <class... T>
std::string packed(const T&... values) {
  Wire wire;
  (wire.pass(const_cast<T&>(values)), ...);  // writing changes nothing
  return wire.bytes();
}

/// A value from bytes.
template <class T>
T unpacked(const std::string& bytes) {
  Wire wire(bytes);
  T value{};
  wire.pass(value);
  wire.end();
  return value;
}

/// A message between the two processes, as one letter and bytes: (c)all, (r)esult, (f)ailure, and
/// (b)ack for a function of the grader that the student's code calls.
struct Message {
  char kind = 0;      ///< 0 when the other process has ended
  std::string bytes;  ///< what it holds
};

/// Writes a message; false when the other process has ended.
bool send(int fd, const Message& message);
/// Waits for a message.
Message receive(int fd);

/// What the lab saw of some launches.
struct Seen {
  bool watched = false;               ///< whether there is a watched lab
  lab::Report report;                 ///< findings, and counts line by line
  std::int64_t bytes = 0;             ///< of global memory, requested
  std::int64_t sectors = 0;           ///< of global memory
  std::int64_t wavefronts = 0;        ///< of shared memory
  std::int64_t ideal = 0;             ///< wavefronts without bank conflicts
  std::int64_t atomics = 0;           ///< requests by atomic operations
  double of_warp = 0;                 ///< of a block's bytes in global memory, most of a warp
  double of_thread = 0;               ///< the same of a thread
  std::vector<lab::Touch> touches{};  ///< one by one; for entries only
};

/// What a launch gave.
struct Launched {
  Seen seen;                ///< by the lab
  std::vector<double> out;  ///< what the kernel wrote; NaN where it did not
};
/// The members, for Wire.
inline auto parts(Launched& x) {
  return std::tie(x.seen, x.out);
}

/// A launch of a puzzle's kernel.
struct Puzzle {
  std::vector<std::vector<float>> in;   ///< arrays that it reads
  std::int64_t out = 0;                 ///< elements of the array that it writes
  std::vector<int> sizes;               ///< its last parameters
  std::array<unsigned, 2> grid{1, 1};   ///< blocks, x and y
  std::array<unsigned, 2> block{1, 1};  ///< threads of a block, x and y
};
/// The members, for Wire.
inline auto parts(Puzzle& x) {
  return std::tie(x.in, x.out, x.sizes, x.grid, x.block);
}

/// A load or store of one element by one thread.
struct Place {
  int block = 0;             ///< in the grid, x fastest
  int thread = 0;            ///< in the block, x fastest
  int array = 0;             ///< in the order of the parameters; -1 is shared memory
  std::int64_t element = 0;  ///< of the array, which may be outside of it
  int write = 0;             ///< 1 for a store
};

/// What came of it.
struct Played {
  Seen seen;                  ///< by the lab
  std::vector<double> out;    ///< what the kernel wrote; NaN where it did not
  std::vector<Place> places;  ///< in their order; none without a watched lab
};
/// The members, for Wire.
inline auto parts(Played& x) {
  return std::tie(x.seen, x.out, x.places);
}

/// Random numbers, as float, for a seed.
inline std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  const auto numbers = normal_tensor<float, 1>({count}, seed);
  return {numbers.data(), numbers.data() + count};
}

}  // namespace fa::classroom
