#include <cstring>
#include <stdexcept>
#include <unistd.h>

#include <fmt/format.h>

#include "common/lab/address_space.hpp"
#include "common/lab/engine.hpp"

namespace fa::lab {

void* allocate(std::size_t bytes) {
  // Systems promise more than they have, and kill the program that takes it.
  const std::size_t in_all = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const memory = bytes <= in_all ? map_memory(bytes, Purpose::kBuffer) : nullptr;
  if (memory == nullptr) {
    throw std::runtime_error(fmt::format(
        "{} bytes of memory were asked for; the lab's machine has {} in all", bytes, in_all));
  }
  if (observer != nullptr) observer->allocated(memory, bytes);
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  if (observer != nullptr) observer->released(memory);
  unmap_memory(static_cast<std::byte*>(memory));
}

void upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  std::memcpy(to, from, bytes);
  if (observer != nullptr) observer->host_wrote(to, bytes, false);
}

void download(void* to, const void* from, std::size_t bytes) {
  synchronize();
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void fill(void* memory, int byte, std::size_t bytes, bool unwritten) {
  if (bytes == 0) return;
  std::memset(memory, byte, bytes);
  if (observer != nullptr) observer->host_wrote(memory, bytes, unwritten);
}

}  // namespace fa::lab
