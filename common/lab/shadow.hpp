/// @file
/// Shadow memory: what is remembered of each piece of memory that watched kernels may use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/lab/order.hpp"
#include "common/lab/program.hpp"
#include "common/lab/traffic.hpp"

namespace fa::lab {

/// The last accesses to a piece of memory.
struct Cell {
  Access write;            ///< of ordinary writes
  Access atomic_write;     ///< of atomic ones
  Access read;             ///< of reads
  Access other_read;       ///< by another thread than `read`
  bool written = false;    ///< by anything, since it was last unwritten
  bool in_flight = false;  ///< an asynchronous copy will write it
};
/// Bytes of a cell at first. Neighbouring 16-bit elements are no race; the first access to a single
/// byte of a region splits its cells, so that neighbouring bytes are none either.
inline constexpr std::size_t kCellBytes = 2;

/// A read by something that runs beside the threads.
struct AsyncRead {
  std::uint32_t thread = 0;         ///< Order::id() of the agent
  std::uint32_t time = 0;           ///< its group
  std::uint32_t site = 0;           ///< see Sites
  AsyncUse use = AsyncUse::kWgmma;  ///< what it is
};
/// Bytes that it reads together.
inline constexpr std::size_t kGrainBytes = 16;

/// A buffer, a `__device__` variable, or the shared memory of a block.
struct Region {
  Memory memory = Memory::kGlobal;                  ///< of this kind
  const std::byte* begin = nullptr;                 ///< its first byte
  std::size_t size = 0;                             ///< bytes
  std::vector<Cell> cells;                          ///< all of them
  std::size_t cell_bytes = kCellBytes;              ///< of each
  std::vector<std::vector<AsyncRead>> async_reads;  ///< of each grain; or none
  std::string variable;                             ///< its name, where it is one

  /// Starts over with memory that was never written.
  void set(const void* start, std::size_t bytes) {
    begin = static_cast<const std::byte*>(start);
    size = bytes;
    clear();
  }
  /// Forgets all accesses.
  void clear() {
    cells.assign((size + cell_bytes - 1) / cell_bytes, {});
    async_reads.clear();
  }
  /// Makes a cell of each byte.
  void split() {
    std::vector<Cell> bytes(cells.size() * cell_bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = cells[i / cell_bytes];
    cells = std::move(bytes);
    cell_bytes = 1;
  }
  /// Whether a byte is in it.
  bool contains(const std::byte* address) const {
    return address >= begin && address < begin + size;
  }
  /// Calls visit(cell) for the cells of some bytes, as far as they are in it.
  template <class Visit>
  void for_cells(const std::byte* address, std::size_t bytes, Visit visit) {
    const auto offset = static_cast<std::size_t>(address - begin);
    const std::size_t end = std::min(offset + bytes, size);
    if (cell_bytes > 1 && (offset % cell_bytes != 0 || bytes % cell_bytes != 0)) split();
    for (std::size_t i = offset / cell_bytes; i < (end + cell_bytes - 1) / cell_bytes; ++i) {
      visit(cells[i]);
    }
  }
  /// "byte 12 of a buffer of 400 bytes in global memory".
  std::string name(std::ptrdiff_t offset) const;
};

/// All memory of a watch.
class ShadowMemory {
 public:
  ShadowMemory();

  /// A buffer comes.
  void allocated(const void* memory, std::size_t bytes);
  /// A buffer goes.
  void released(const void* memory);
  /// The shared memory of a block begins unwritten.
  /// @param memory dynamic
  /// @param bytes  of it
  /// @param rank   of the block in its cluster; its other blocks follow the first
  void block_begins(const void* memory, std::size_t bytes, int rank) {
    if (rank == 0) statics.clear();
    dynamics.resize(static_cast<std::size_t>(rank) + 1);
    dynamics.back().memory = Memory::kDynamicShared;
    dynamics.back().set(memory, bytes);
  }

  /// What is known of the shared memory of a block that waits for others, and its contents where
  /// blocks have the same addresses.
  struct OfBlock {
    std::vector<Cell> cells;
    std::vector<std::vector<AsyncRead>> async_reads;
    std::vector<std::byte> statics;
    std::vector<Region> dynamics;
  };
  /// Another block runs: exchanges what belongs to the running one for what belongs to that.
  void exchange(OfBlock& other);
  /// Whether it is known where static arrays are.
  bool knows_statics() const;

  /// The region with an address in it or in the room beside it; null for registers and arguments.
  Region* find(const std::byte* address) {
    if (statics.contains(address)) return &statics;
    for (Region& dynamic : dynamics) {
      if (address >= dynamic.begin - kRoom && address < dynamic.begin + dynamic.size + kRoom) {
        return &dynamic;
      }
    }
    Region* const found = buffer(address);
    return found != nullptr ? found : variable(address);
  }
  /// The same for global memory only.
  Region* buffer(const std::byte* address);
  /// The same for shared memory only, without the room.
  Region* shared(const std::byte* address) {
    if (statics.contains(address)) return &statics;
    for (Region& dynamic : dynamics) {
      if (dynamic.contains(address)) return &dynamic;
    }
    return nullptr;
  }
  /// The block of the cluster whose dynamic shared memory a region is; -1 for other regions.
  int rank_of(const Region& region) const {
    const bool is_dynamic = region.memory == Memory::kDynamicShared;
    return is_dynamic ? static_cast<int>(&region - dynamics.data()) : -1;
  }

  Region statics;                ///< thread-local memory, where __shared__ arrays are
  std::vector<Region> dynamics;  ///< dynamic shared memory of each block of the cluster

 private:
  // The variable of the program with an address in it; null for others.
  Region* variable(const std::byte* address);

  struct Piece {
    std::byte* begin;
    std::size_t size;
  };
  std::vector<Piece> static_arrays_;
  // Of the program's variables those that kernels have used.
  std::map<std::uintptr_t, Region> used_variables_;
  // Watched on either side of buffers and of dynamic shared memory.
  static constexpr std::ptrdiff_t kRoom = 4096;
  std::map<const std::byte*, Region> buffers_;  // by their ends with the room
  Region* last_buffer_ = nullptr;
};

}  // namespace fa::lab
