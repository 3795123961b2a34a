#include "common/lab/shadow.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <memory>

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
  if (symbol.find("_Z") != 0) return symbol;  // not mangled: "h" would be a type
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  if (!name) return symbol;
  const std::string full = name.get();
  const std::size_t end = full.rfind("::");
  return end == std::string::npos ? full : full.substr(end + 2);
}

// Of the symbols of this program those that are memory of kernels, each by its end.
struct KernelSymbols {
  std::vector<Symbol> statics, variables;  // `__shared__` and `__device__`
};
const KernelSymbols& kernel_symbols() {
  static const KernelSymbols all = [] {
    KernelSymbols result;
    for (const Symbol& symbol : Symbol::of_this_program()) {
      if (!is_of_kernels(symbol.name)) continue;
      if (symbol.kind == STT_TLS) result.statics.push_back(symbol);
      if (symbol.kind == STT_OBJECT) result.variables.push_back(symbol);
    }
    const auto ends_before = [](const Symbol& a, const Symbol& b) {
      return a.begin + a.size < b.begin + b.size;
    };
    std::sort(result.statics.begin(), result.statics.end(), ends_before);
    std::sort(result.variables.begin(), result.variables.end(), ends_before);
    return result;
  }();
  return all;
}

}  // namespace

// Where a static array begins is not known.
std::string Region::name(std::ptrdiff_t offset) const {
  const auto in_dynamic = offset - static_cast<std::ptrdiff_t>(placed_shared);
  const bool dynamic = memory == Memory::kDynamicShared;
  if (memory == Memory::kStaticShared || (dynamic && offset >= 0 && in_dynamic < 0)) {
    return "a __shared__ variable or array";
  }
  if (dynamic) return fmt::format("byte {} of the dynamic shared memory", in_dynamic);
  if (!variable.empty()) return fmt::format("byte {} of the variable {}", offset, variable);
  return fmt::format("byte {} of a buffer of {} bytes in global memory", offset, size);
}

ShadowMemory::ShadowMemory() {
  statics.memory = Memory::kStaticShared;
  follow_thread();
  first_variable_ = ~std::uintptr_t{0};
  for (const Symbol& symbol : kernel_symbols().variables) {
    first_variable_ = std::min(first_variable_, symbol.begin);
    end_of_variables_ = std::max(end_of_variables_, symbol.begin + symbol.size);
  }
}

void ShadowMemory::follow_thread() {
  const Program program = Program::running();
  if (program.thread_locals == statics.begin) return;
  statics.set(program.thread_locals, program.thread_local_bytes);
  static_arrays_.clear();
  auto* const thread_locals = static_cast<std::byte*>(const_cast<void*>(program.thread_locals));
  for (const Symbol& symbol : kernel_symbols().statics) {
    static_arrays_.push_back({thread_locals + (symbol.begin - program.load_address), symbol.size});
  }
}

bool ShadowMemory::knows_statics() const {
  return !Symbol::of_this_program().empty();
}

void ShadowMemory::exchange(OfBlock& other) {
  statics.pages.swap(other.pages);
  statics.async_reads.swap(other.async_reads);
  dynamics.swap(other.dynamics);
  std::size_t bytes = 0;
  for (const Piece& piece : static_arrays_) bytes += piece.size;
  const bool begins = other.statics.empty();
  other.statics.resize(bytes);
  std::byte* kept = other.statics.data();
  for (const Piece& piece : static_arrays_) {
    if (begins) {
      std::copy_n(piece.begin, piece.size, kept);
    } else {
      std::swap_ranges(piece.begin, piece.begin + piece.size, kept);
    }
    kept += piece.size;
  }
}

Region* ShadowMemory::variable(const std::byte* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at < first_variable_ || at >= end_of_variables_) return nullptr;
  const std::byte*& recent = recent_in(recent_no_variables_, address, 8);
  if (recent == address) return nullptr;
  const std::vector<Symbol>& all = kernel_symbols().variables;
  const auto found =
      std::upper_bound(all.begin(), all.end(), at, [](std::uintptr_t value, const Symbol& symbol) {
        return value < symbol.begin + symbol.size;
      });
  if (found == all.end() || at < found->begin) {
    recent = address;
    return nullptr;
  }
  const auto [entry, is_new] = used_variables_.try_emplace(found->begin);
  Region& region = entry->second;
  if (is_new) {
    region.set(reinterpret_cast<const void*>(found->begin), found->size);
    region.for_cells(region.begin, region.size, [](Cell& cell) {
      cell.written = true;  // by its initialiser
    });
    region.variable = name_of(found->name);
  }
  return &region;
}

void ShadowMemory::allocated(const void* memory, std::size_t bytes) {
  const auto* end = static_cast<const std::byte*>(memory) + bytes + kRoom;
  Region& region = buffers_[end];
  region.set(memory, bytes);
  const std::byte* const begin = region.begin - kRoom;
  first_buffer_ = first_buffer_ == nullptr ? begin : std::min(first_buffer_, begin);
  end_of_buffers_ = std::max(end_of_buffers_, end);
  recent_buffers_.fill(nullptr);
}

void ShadowMemory::released(const void* memory) {
  const auto found = buffers_.upper_bound(static_cast<const std::byte*>(memory));
  if (found != buffers_.end()) buffers_.erase(found);
  recent_buffers_.fill(nullptr);
}

Region* ShadowMemory::search(const std::byte* address, Region*& recent) {
  const auto found = buffers_.upper_bound(address);
  if (found == buffers_.end() || address < found->second.begin - kRoom) {
    return nullptr;
  }
  return recent = &found->second;
}

}  // namespace fa::lab
