#include "common/lab/address_space.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <sys/mman.h>

#include <fmt/format.h>

namespace fa::lab {
namespace {

// Nothing is reserved between mappings: limits of address space would count it.
constexpr std::size_t kPage = 4096;
// An odd number of pages, so that not all begin at the same place of the processor's tables.
constexpr std::size_t kStackDistance = 257 * kPage;
constexpr std::size_t kSlotBytes = (std::size_t{1} << 35) + kPage;
constexpr std::size_t kSlotCount = (kLastSlot - kFirstSlot) / kSlotBytes;

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

// At an address, if the system can.
std::byte* map_at(std::uintptr_t address, std::size_t bytes) {
  void* const memory = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

struct Mapping {
  Purpose purpose;
  std::size_t size;
  std::size_t slot, slots;  // none: where the system put it
  bool freed;
};
std::size_t mapped_bytes(std::size_t bytes) {
  return kMargin + (bytes + kPage - 1) / kPage * kPage + kMargin;
}

class Mappings {
 public:
  std::byte* add(std::size_t bytes, Purpose purpose) {
    const std::lock_guard lock(mutex_);
    // Half a slot stays empty on either side.
    const std::size_t slots = mapped_bytes(bytes) / kSlotBytes + 1;
    const std::size_t slot = free_slots(slots);
    const std::uintptr_t middle =
        slot < kSlotCount ? (kFirstSlot + slot * kSlotBytes + kSlotBytes / 2) / kPage * kPage : 0;
    std::byte* memory = map_at(middle, mapped_bytes(bytes));
    if (memory == nullptr) return nullptr;
    const bool placed = number(memory) == middle;
    std::memset(memory, 0xff, kMargin);
    memory += kMargin;
    if (placed) {
      next_ = slot + slots;
      std::fill_n(used_.begin() + static_cast<std::ptrdiff_t>(slot), slots, true);
      forget(slot, slots);
    }
    by_address_[number(memory)] = {purpose, bytes, slot, placed ? slots : 0, false};
    return memory;
  }
  void remove(std::byte* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = by_address_.find(number(memory));
    Mapping& mapping = found->second;
    munmap(memory - kMargin, mapped_bytes(mapping.size));
    mapping.freed = true;
    if (mapping.slots == 0) {
      by_address_.erase(found);
    } else {
      std::fill_n(used_.begin() + static_cast<std::ptrdiff_t>(mapping.slot), mapping.slots, false);
    }
  }
  std::optional<NearMemory> near(std::uintptr_t address) {
    const std::lock_guard lock(mutex_);
    std::optional<NearMemory> nearest;
    std::uintptr_t distance = kSlotBytes / 2;
    const auto consider = [&](const std::pair<const std::uintptr_t, Mapping>& entry) {
      const auto& [begin, mapping] = entry;
      const std::uintptr_t reach = mapping.slots > 0 ? kSlotBytes / 2 : kMargin;
      const std::uintptr_t end = begin + std::max<std::size_t>(mapping.size, 1);
      const std::uintptr_t away = address < begin  ? begin - address
                                  : address >= end ? address - end + 1
                                                   : 0;
      if (away > reach || away >= distance) return;
      distance = away;
      nearest = {mapping.purpose, static_cast<std::ptrdiff_t>(address - begin), mapping.size,
                 mapping.freed};
    };
    const auto after = by_address_.upper_bound(address);
    if (after != by_address_.end()) consider(*after);
    if (after != by_address_.begin()) consider(*std::prev(after));
    return nearest;
  }

 private:
  // The first of so many that are not used, as late after the last ones as possible.
  std::size_t free_slots(std::size_t count) const {
    for (const std::size_t begin : {next_, std::size_t{0}}) {
      std::size_t free = 0;
      for (std::size_t i = begin; i < kSlotCount; ++i) {
        free = used_[i] ? 0 : free + 1;
        if (free == count) return i + 1 - count;
      }
    }
    return kSlotCount;
  }
  // What was freed there is over now.
  void forget(std::size_t slot, std::size_t slots) {
    const std::uintptr_t begin = kFirstSlot + slot * kSlotBytes;
    by_address_.erase(by_address_.lower_bound(begin),
                      by_address_.lower_bound(begin + slots * kSlotBytes));
  }

  std::mutex mutex_;
  std::map<std::uintptr_t, Mapping> by_address_;
  std::array<bool, kSlotCount> used_{};
  std::size_t next_ = 0;
};

// Never destroyed: buffers may be freed when the program ends.
Mappings& mappings() {
  static Mappings* const result = new Mappings;
  return *result;
}

}  // namespace

std::byte* map_memory(std::size_t bytes, Purpose purpose) {
  std::byte* const memory = mappings().add(bytes, purpose);
  if (memory != nullptr && purpose == Purpose::kBuffer) {
    std::memset(memory + bytes, 0xff, mapped_bytes(bytes) - kMargin - bytes);
  }
  return memory;
}

void unmap_memory(std::byte* memory) {
  mappings().remove(memory);
}

std::size_t placed_shared = 0;
Variables placed_variables;

std::string NearMemory::text() const {
  const std::size_t before = purpose == Purpose::kDynamicShared ? placed_shared : 0;
  const char* advice = "a guard is probably missing, or off by one";
  if (purpose == Purpose::kDynamicShared) {
    advice = "the launch asks for too little, or an index is wrong";
  } else if (freed) {
    advice = "keep the buffer until the last kernel that uses it has ended";
  }
  return fmt::format("byte {} of {} of {} bytes{}; {}",
                     offset - static_cast<std::ptrdiff_t>(before),
                     purpose == Purpose::kBuffer ? "a buffer" : "the dynamic shared memory",
                     size - before, freed ? " that was freed" : "", advice);
}

std::optional<NearMemory> memory_near(const void* address) {
  return mappings().near(number(address));
}

std::byte* map_stack() {
  static std::mutex mutex;
  static std::uintptr_t next = kFirstStack;
  const std::lock_guard lock(mutex);
  next += kStackDistance;
  std::byte* const memory = map_at(next - kStackBytes, kStackBytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace fa::lab
