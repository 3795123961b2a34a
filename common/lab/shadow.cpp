#include "common/lab/shadow.hpp"

#include <fmt/format.h>

#include "common/lab/program.hpp"

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
  const Program program = Program::running();
  statics.set(program.thread_locals, program.thread_local_bytes);
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
