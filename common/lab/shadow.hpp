/// @file
/// Shadow memory: what is remembered of each piece of memory that watched kernels may use.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/lab/address_space.hpp"
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

  /// Whether another cell has the same writes.
  bool has_writes_of(const Cell& other) const {
    return write == other.write && atomic_write == other.atomic_write && written == other.written &&
           in_flight == other.in_flight;
  }
  /// Whether it has the same reads.
  bool has_reads_of(const Cell& other) const {
    return read == other.read && other_read == other.other_read;
  }
};

/// The cells of a page of memory, which share nothing: neighbouring elements are no race, however
/// small they are.
struct Page {
  static constexpr std::size_t kBytes = 512;  ///< of memory
  std::vector<Cell> cells;                    ///< all of them; none before the first access
  int cell_bits = 4;  ///< 1 << cell_bits bytes of each: no access was smaller

  /// Makes the cells small enough for an access to `bytes` bytes at `offset`.
  void split_for(std::size_t offset, std::size_t bytes) {
    const std::size_t cell_bytes = std::size_t{1} << cell_bits;
    if (cells.empty()) cells.resize(kBytes / cell_bytes);
    if (((offset | bytes) & (cell_bytes - 1)) == 0) return;
    while (((offset | bytes) >> cell_bits << cell_bits) != (offset | bytes)) --cell_bits;
    std::vector<Cell> pieces(kBytes >> cell_bits);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = cells[(i << cell_bits) / cell_bytes];
    }
    cells = std::move(pieces);
  }
};

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
  std::vector<Page> pages;                          ///< all of them
  std::vector<std::vector<AsyncRead>> async_reads;  ///< of each grain; or none
  std::string variable;                             ///< its name, where it is one
  Variables variables;                              ///< in static memory

  /// Starts over with memory that was never written.
  void set(const void* start, std::size_t bytes) {
    begin = static_cast<const std::byte*>(start);
    size = bytes;
    clear();
  }
  /// Forgets all accesses.
  void clear() {
    pages.resize((size + Page::kBytes - 1) / Page::kBytes);
    for (Page& page : pages) page.cells.clear();
    async_reads.clear();
  }
  /// Whether a byte is in it.
  bool contains(const std::byte* address) const {
    return address >= begin && address < begin + size;
  }
  /// Calls visit(first, end) for the cells of some bytes, as far as they are in it: once for each
  /// page.
  template <class Visit>
  void for_pages(const std::byte* address, std::size_t bytes, Visit visit) {
    auto offset = static_cast<std::size_t>(address - begin);
    for (const std::size_t end = std::min(offset + bytes, size); offset < end;) {
      Page& page = pages[offset / Page::kBytes];
      const std::size_t first = offset % Page::kBytes;
      const std::size_t count = std::min(end - offset, Page::kBytes - first);
      page.split_for(first, count);
      Cell* const cells = page.cells.data();
      visit(cells + (first >> page.cell_bits), cells + ((first + count) >> page.cell_bits));
      offset += count;
    }
  }
  /// Calls visit(cell) for each of these cells.
  template <class Visit>
  void for_cells(const std::byte* address, std::size_t bytes, Visit visit) {
    for_pages(address, bytes, [&](Cell* cell, const Cell* end) {
      for (; cell != end; ++cell) visit(*cell);
    });
  }
  /// "byte 12 of a buffer of 400 bytes in global memory".
  std::string name(std::ptrdiff_t offset) const;
  /// Of an mbarrier there: "full[1]"; empty where no name is known.
  std::string barrier_name(std::ptrdiff_t offset) const;
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
    std::vector<Page> pages;
    std::vector<std::vector<AsyncRead>> async_reads;
    std::vector<std::byte> statics;
    std::vector<Region> dynamics;
  };
  /// Another block runs: exchanges what belongs to the running one for what belongs to that.
  void exchange(OfBlock& other);
  /// Static shared memory is that of the host's running thread, on which kernels run.
  void follow_thread();
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
  Region* buffer(const std::byte* address) {
    if (address < first_buffer_ || address >= end_of_buffers_) return nullptr;
    Region*& recent = recent_in(recent_buffers_, address, kRoom);
    return recent != nullptr && recent->contains(address) ? recent : search(address, recent);
  }
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
  // The buffer with an address in it or in the room beside it, if there is one: `recent` from now on.
  Region* search(const std::byte* address, Region*& recent);
  // Each access asks: what was asked for last is found without a search.
  template <class Recent>
  static Recent& recent_in(std::array<Recent, 64>& all, const std::byte* address,
                           std::uintptr_t unit) {
    return all[reinterpret_cast<std::uintptr_t>(address) / unit % all.size()];
  }

  std::uintptr_t first_variable_ = 0, end_of_variables_ = 0;  // of the program
  // Those that kernels have used.
  std::map<std::uintptr_t, Region> used_variables_;
  // Watched on either side of buffers and of dynamic shared memory.
  static constexpr std::ptrdiff_t kRoom = 4096;
  std::map<const std::byte*, Region> buffers_;  // by their ends with the room
  const std::byte *first_buffer_ = nullptr, *end_of_buffers_ = nullptr;  // with the room
  std::array<Region*, 64> recent_buffers_{};
  std::array<const std::byte*, 64> recent_no_variables_{};  // addresses in none
};

/// Refuses a kernel of the course whose `__shared__` variables and arrays have more than 48 KiB, as
/// nvcc does; those of the functions that it calls are not counted.
/// @throws std::runtime_error that names them
void check_static_shared(const void* kernel);

}  // namespace fa::lab
