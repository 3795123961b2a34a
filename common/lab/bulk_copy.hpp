/// @file
/// Copies by TMA and cp.async.bulk: boxes of tensors and runs of bytes.
///
/// Source: NVIDIA, PTX ISA, sections on cp.async.bulk and cp.async.bulk.tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/lab/thread.hpp"

namespace fa::lab {

/// A tensor as TMA knows it, and the box that one copy takes. The last index is the fastest one.
struct TensorBox {
  std::byte* data = nullptr;              ///< element 0
  std::array<std::int64_t, 5> sizes{};    ///< of a RaggedMap or 1; batch, heads, rows, cols
  std::array<std::int64_t, 4> strides{};  ///< of all but the last, in bytes
  std::array<int, 5> box{1, 1, 1, 1, 1};  ///< elements along each index
  int element_bytes = 2;
  int swizzle_bytes = 0;  ///< that are swizzled together: 128, 64, 32, or 0 for none

  /// Of a row of the box.
  int row_bytes() const { return box[4] * element_bytes; }
  /// What a box takes of shared memory.
  std::size_t bytes() const {
    return static_cast<std::size_t>(box[0] * box[1] * box[2] * box[3] * row_bytes());
  }
};

/// Where a box begins in shared memory: multiples of this.
inline constexpr int kBoxAlignment = 128;

/// Bytes that lie side by side in global memory, and where they are in shared memory.
struct Piece {
  std::byte* global = nullptr;
  std::byte* shared = nullptr;  ///< before it is swizzled
  std::size_t size = 0;
};

/// An asynchronous copy between global and shared memory.
struct BulkCopy {
  /// What it does.
  enum class Kind {
    kLoadBox,      ///< a box to shared memory, swizzled; 0 outside the tensor
    kLoadBytes,    ///< bytes to shared memory
    kPeerBytes,    ///< bytes of shared memory to that of another block of the cluster
    kStoreBox,     ///< a box to global memory
    kStoreFloats,  ///< floats to global memory
    kAddFloats     ///< floats, added to those in global memory
  };
  Kind kind = Kind::kLoadBytes;
  std::byte* shared = nullptr;       ///< where it begins there
  std::size_t size = 0;              ///< bytes in shared memory
  std::byte* global = nullptr;       ///< bytes and floats: the other end
  TensorBox box;                     ///< boxes: the other end
  std::array<std::int64_t, 5> at{};  ///< where the box begins: an index of each of its sizes
  SourceLocation location;           ///< where the kernel issued it

  /// Whether it copies a box, which may be swizzled in shared memory.
  bool of_box() const { return kind == Kind::kLoadBox || kind == Kind::kStoreBox; }
  /// Where a byte of its shared memory lies after swizzling.
  std::byte* place(std::byte* address) const;
  /// The part that lies in the tensor.
  std::vector<Piece> pieces() const;
  /// Checks its addresses and sizes.
  /// @param begin,bytes dynamic shared memory of the block that it uses
  /// @throws std::runtime_error for what TMA does not allow
  void check(const std::byte* begin, std::size_t bytes) const;
  /// Copies.
  void perform() const;
  /// Reports what it does to global memory, if there is an observer.
  void note_global() const;
};

/// Where a byte of a swizzled panel stands: bits 4 to 6 of its address, exclusive or bits 7 to 9.
/// Where rows have 64 bytes, only bits 4 and 5 change; with 32 bytes only bit 4.
/// @param address   or an offset that means the same
/// @param row_bytes 128, 64, 32; less: nothing is swizzled
inline std::uintptr_t swizzled(std::uintptr_t address, int row_bytes) {
  const unsigned most = row_bytes > 16 ? 0x70 : 0;
  return address ^ (address >> 3 & (static_cast<unsigned>(row_bytes) - 16) & most);
}

/// The bulk stores and additions that a thread has in flight.
struct Stores {
  std::vector<BulkCopy> open;                ///< in no group yet
  std::deque<std::vector<BulkCopy>> groups;  ///< committed ones
  std::uint32_t ended = 0;                   ///< groups
  bool arrived = true;                       ///< in global memory, all of them
};

}  // namespace fa::lab
