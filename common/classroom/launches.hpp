/// @file
/// For entries of kernels, and for graders that launch kernels of the lessons: launches in the watched
/// lab, and buffers; precompiled. Where there is no watched lab, kernels run unobserved.
#pragma once

// clang-format off
#include "common/gpu/kernel_watched.hpp"  // first
// clang-format on

#include "common/classroom/entry.hpp"
#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/gpu/words_lab.hpp"

namespace fa::classroom {

/// Sets what finds the lines of addresses in place of addr2line.
bool find_lines_by(std::string (*lines)(const std::string& addresses));

/// For each entry: the grader finds the lines of this program, which may start no other.
inline bool lines_from_grader() {
  return find_lines_by([](const std::string& addresses) {
    return unpacked<std::string>(call_back(0, packed(addresses)));
  });
}

/// Watches what `work` launches; it makes its buffers itself.
Seen watch(const std::function<void()>& work);

/// The same for work that returns what its kernel wrote.
Launched watched(const std::function<std::vector<double>()>& work);

/// A kernel for blocks that lie far in a large grid: block 0 of the launch is numbered as block
/// `first` of `grid`. Give it arrays that begin as far before their first element as these blocks
/// are away, and an index of 32 bits overflows.
template <auto kernel, class... Arguments>
__global__ void far_blocks(fa::Size first, fa::Size grid, Arguments... arguments) {
  auto* const thread = const_cast<lab::Thread*>(lab::current);
  const lab::Thread own = *thread;
  thread->block_index.x += first.x;
  thread->block_index.y += first.y;
  thread->grid_size = grid;
  kernel(arguments...);
  thread->block_index = own.block_index;
  thread->grid_size = own.grid_size;
}

/// Rows, of an element of 4 bytes for each lane, that one warp has written to shared memory when
/// another warp first reads one: how far a producer runs ahead of its consumer.
double rows_ahead(const Seen& seen, int writer, int reader);

/// What the work throws, for call_waiting(); empty when it throws nothing.
std::string thrown(const std::function<void()>& work);

/// A buffer on the device with these elements.
template <class T>
FA_TARGET::DeviceBuffer<T> on_device(const std::vector<T>& elements) {
  FA_TARGET::DeviceBuffer<T> buffer(static_cast<std::int64_t>(elements.size()));
  buffer.upload(elements.data());
  return buffer;
}

/// The numbers in a buffer, for check().
template <class T>
std::vector<double> from_device(const FA_TARGET::DeviceBuffer<T>& buffer) {
  std::vector<T> numbers(static_cast<std::size_t>(buffer.count()));
  buffer.download(numbers.data());
  return {numbers.begin(), numbers.end()};
}

/// Numbers on the device for a kernel to write, with room on either side: what lands far beside
/// them is seen, and does not end the program.
class Field {
 public:
  /// @param count numbers, all NaN at first
  explicit Field(std::int64_t count);
  /// The first number, for kernels.
  float* data();
  /// The numbers.
  std::vector<double> numbers() const;
  /// Whether something beside the numbers was written.
  bool written_beside() const;

 private:
  static constexpr std::int64_t kRoom = 1 << 17;
  FA_TARGET::DeviceBuffer<float> buffer_;
};

/// Launches a puzzle's kernel with the arrays that it reads and the one that it writes, its last
/// parameters, and the grid and block.
using Launcher = std::function<void(const std::vector<const float*>& in, float* out,
                                    const std::vector<int>& sizes, const Launch& launched)>;

/// Runs a puzzle's kernel and notes which thread touches which element; from Puzzle to Played, both
/// as bytes.
std::string play(const std::string& puzzle, const Launcher& run);

/// The same for a kernel whose parameters are the arrays that it reads and the one that it writes,
/// and the sizes.
template <class... Parameters>
std::string play(const std::string& puzzle, void (*kernel)(Parameters...)) {
  constexpr std::size_t arrays = (std::size_t{0} + ... + std::is_pointer_v<Parameters>);
  constexpr int written = (0 + ... + std::is_same_v<Parameters, float*>);
  static_assert(written == 1, "the parameters of the kernel must be those of the start");
  return play(puzzle, [kernel](const std::vector<const float*>& in, float* out,
                               const std::vector<int>& sizes, const Launch& launched) {
    if (in.size() + 1 != arrays || sizes.size() + arrays != sizeof...(Parameters)) {
      fail("the parameters of the kernel must be those of the start");
    }
    auto array = in.begin();
    auto size = sizes.begin();
    const auto next = [&](auto parameter) {
      using Parameter = decltype(parameter);
      if constexpr (std::is_same_v<Parameter, float*>) {
        return out;
      } else if constexpr (std::is_pointer_v<Parameter>) {
        return static_cast<Parameter>(*array++);
      } else {
        return static_cast<Parameter>(*size++);
      }
    };
    const std::tuple<Parameters...> arguments{next(Parameters{})...};  // from left to right
    std::apply([&](auto... values) { FA_TARGET::launch(kernel, launched, values...); }, arguments);
  });
}

}  // namespace fa::classroom
