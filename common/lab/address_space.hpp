/// @file
/// Where the lab's memory lies: each buffer, each block's shared memory and each stack far from all
/// others, so that a wild index meets memory that is not there, and its address says what it was
/// meant for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace fa::lab {

/// Addresses that no system uses by itself, on processors with 47 bits of them or more: of stacks
/// up to kFirstSlot, of other mappings up to kLastSlot. Elsewhere memory lies where the system puts
/// it.
inline constexpr std::uintptr_t kFirstStack = 0x180000000000;
inline constexpr std::uintptr_t kFirstSlot = 0x200000000000;  ///< see kFirstStack
inline constexpr std::uintptr_t kLastSlot = 0x500000000000;   ///< see kFirstStack

/// What a mapping is for.
enum class Purpose { kBuffer, kDynamicShared };

/// Bytes before and behind each mapping that exist and are 0xff: what lands just beside a buffer is
/// a finding of the watched lab, and does not end the launch.
inline constexpr std::size_t kMargin = 4096;

/// Memory for one purpose: aligned to 4096 bytes, with kMargin bytes on either side. Those of a
/// buffer are 0xff. Beyond them nothing is mapped as far as an index of 32 bits reaches, while
/// addresses last.
/// @return null when there is not enough
std::byte* map_memory(std::size_t bytes, Purpose purpose);
/// Gives it back. Its addresses stay unused for as long as possible.
void unmap_memory(std::byte* memory);

/// For std::unique_ptr.
struct UnmapMemory {
  /// As unmap_memory().
  void operator()(std::byte* memory) const { unmap_memory(memory); }
};

/// An address as an offset from the memory next to it.
struct NearMemory {
  Purpose purpose = Purpose::kBuffer;  ///< of that memory
  std::ptrdiff_t offset = 0;           ///< from its first byte
  std::size_t size = 0;                ///< its bytes
  bool freed = false;                  ///< it was unmapped since
  /// Whether some bytes there belong to it.
  bool contains(std::size_t bytes) const {
    return !freed && offset >= 0 && static_cast<std::size_t>(offset) + bytes <= size;
  }
  /// "byte 4000 of a buffer of 4000 bytes; a guard is probably missing, or off by one".
  std::string text() const;
};
/// The memory next to an address; nothing for addresses that are far from all of them.
std::optional<NearMemory> memory_near(const void* address);

/// Bytes in front of a block's dynamic shared memory: the __shared__ variables of any CUDA file.
extern std::size_t placed_shared;

/// Variables in some memory: sizes and names by their offsets.
using Variables = std::map<std::ptrdiff_t, std::pair<std::size_t, std::string>>;
/// Those in placed_shared.
extern Variables placed_variables;

/// Bytes of a fiber's stack: the 512 KiB of local memory that CUDA allows a thread, and what
/// functions of the lab need besides.
inline constexpr std::size_t kStackBytes = 640 * 1024;
/// Memory for the stack of a fiber; below it nothing is mapped as far as again half its size.
/// @throws std::bad_alloc
std::byte* map_stack();

/// Whether an address is where stacks are, or between them.
inline bool is_among_stacks(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= kFirstStack && at < kFirstSlot;
}
/// The same for what map_memory() returns.
inline bool is_among_mappings(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= kFirstSlot && at < kLastSlot;
}

}  // namespace fa::lab
