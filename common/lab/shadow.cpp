#include "common/lab/shadow.hpp"

#include <link.h>

#include <fmt/format.h>

namespace fa::lab {

// Where a static array begins is not known.
std::string Region::name(std::ptrdiff_t offset) const {
  switch (memory) {
    case Memory::kStaticShared:
      return "a static array in shared memory";
    case Memory::kDynamicShared:
      return fmt::format("byte {} of the dynamic shared memory", offset);
    default:
      return fmt::format("byte {} of a buffer of {} bytes in global memory", offset, size);
  }
}

ShadowMemory::ShadowMemory() {
  statics.memory = Memory::kStaticShared;
  // The executable's thread-local variables on this thread.
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* region) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
          static_cast<Region*>(region)->set(info->dlpi_tls_data, info->dlpi_phdr[i].p_memsz);
        }
        return 1;  // the executable comes first
      },
      &statics);
}

void ShadowMemory::allocated(const void* memory, std::size_t bytes) {
  const auto* end = static_cast<const std::byte*>(memory) + bytes + kRoom;
  buffers_[end].set(memory, bytes);
  last_buffer_ = nullptr;
}

void ShadowMemory::released(const void* memory) {
  const auto found = buffers_.upper_bound(static_cast<const std::byte*>(memory));
  if (found != buffers_.end()) buffers_.erase(found);
  last_buffer_ = nullptr;
}

Region* ShadowMemory::buffer(const std::byte* address) {
  if (last_buffer_ != nullptr && last_buffer_->contains(address)) {
    return last_buffer_;
  }
  const auto found = buffers_.upper_bound(address);
  if (found == buffers_.end() || address < found->second.begin - kRoom) {
    return nullptr;
  }
  return last_buffer_ = &found->second;
}

}  // namespace fa::lab
