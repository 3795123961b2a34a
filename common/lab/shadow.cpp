#include "common/lab/shadow.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "common/lab/program.hpp"

namespace fa::lab {
namespace {

// Whether a variable may be one of a kernel's `__device__` ones: those of the lab, of libraries and
// of the compiler are not.
bool is_of_kernels(const std::string& name) {
  for (const char* part : {"_ZN2fa3lab", "_ZNSt", "_ZSt", "_ZGV", "_ZT", "_ZN3fmt", "_ZN5Eigen",
                           "_ZN7doctest", "_ZN5boost", "lab_cuda."}) {
    if (name.compare(0, std::strlen(part), part) == 0) return false;
  }
  return true;
}

// "counter", of "_ZN2fa14on_watched_lab7counterE".
std::string name_of(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  if (!name) return symbol;
  const std::string full = name.get();
  const std::size_t end = full.rfind("::");
  return end == std::string::npos ? full : full.substr(end + 2);
}

}  // namespace

// Where a static array begins is not known.
std::string Region::name(std::ptrdiff_t offset) const {
  switch (memory) {
    case Memory::kStaticShared:
      return "a static array in shared memory";
    case Memory::kDynamicShared:
      return fmt::format("byte {} of the dynamic shared memory", offset);
    default:
      if (!variable.empty()) return fmt::format("byte {} of the variable {}", offset, variable);
      return fmt::format("byte {} of a buffer of {} bytes in global memory", offset, size);
  }
}

ShadowMemory::ShadowMemory() {
  statics.memory = Memory::kStaticShared;
  const Program program = Program::running();
  statics.set(program.thread_locals, program.thread_local_bytes);
  for (Symbol& symbol : Symbol::of_this_program()) {
    if (symbol.kind == STT_OBJECT && is_of_kernels(symbol.name)) {
      variables_.push_back(std::move(symbol));
    }
  }
  std::sort(variables_.begin(), variables_.end(),
            [](const Symbol& a, const Symbol& b) { return a.begin + a.size < b.begin + b.size; });
}

Region* ShadowMemory::variable(const std::byte* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto found = std::upper_bound(variables_.begin(), variables_.end(), at,
                                      [](std::uintptr_t value, const Symbol& symbol) {
                                        return value < symbol.begin + symbol.size;
                                      });
  if (found == variables_.end() || at < found->begin) return nullptr;
  const auto [entry, is_new] = used_variables_.try_emplace(found->begin);
  Region& region = entry->second;
  if (is_new) {
    region.set(reinterpret_cast<const void*>(found->begin), found->size);
    for (Cell& cell : region.cells) cell.written = true;  // by its initialiser
    region.variable = name_of(found->name);
  }
  return &region;
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
