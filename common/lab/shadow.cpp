#include "common/lab/shadow.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <memory>
#include <stdexcept>

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

void check_static_shared(const void* kernel) {
  constexpr std::size_t most = 48 * 1024;
  std::string of_kernel = "?";  // how the names of its variables begin
  for (const Symbol& symbol : Symbol::of_this_program()) {
    const bool is_kernel = symbol.begin == reinterpret_cast<std::uintptr_t>(kernel);
    if (is_kernel && symbol.kind == STT_FUNC && symbol.name.compare(0, 2, "_Z") == 0) {
      of_kernel = "_ZZ" + symbol.name.substr(2) + "E";
    }
  }
  std::string arrays;
  std::size_t bytes = 0;
  for (const Symbol& symbol : kernel_symbols().statics) {
    if (symbol.name.compare(0, of_kernel.size(), of_kernel) != 0) continue;
    arrays += fmt::format("{}{} has {}", bytes > 0 ? ", " : "", name_of(symbol.name), symbol.size);
    bytes += symbol.size;
  }
  if (bytes > most) {
    throw std::runtime_error(fmt::format(
        "too much static shared memory: {} bytes in a kernel ({}), and nvcc allows {}. Take "
        "smaller tiles, or dynamic shared memory, extern __shared__, which has room for more after "
        "cudaFuncSetAttribute()",
        bytes, arrays, most));
  }
}

namespace {
// The variable with an offset in it, of shared memory; null where none is known.
const Variables::value_type* variable_at(const Region& region, std::ptrdiff_t offset) {
  const bool is_static = region.memory == Memory::kStaticShared;
  const Variables& all = is_static ? region.variables : placed_variables;
  const auto after = all.upper_bound(offset);
  if (region.memory == Memory::kGlobal || after == all.begin()) return nullptr;
  const auto& found = *std::prev(after);
  return offset < found.first + static_cast<std::ptrdiff_t>(found.second.first) ? &found : nullptr;
}
}  // namespace

std::string Region::barrier_name(std::ptrdiff_t offset) const {
  constexpr std::size_t bytes = 8, most = 64 * bytes;  // of an array of them; more is a struct
  const auto* const found = variable_at(*this, offset);
  if (found == nullptr) return "";
  const auto& [all, name] = found->second;
  const auto at = static_cast<std::size_t>(offset - found->first);
  if (all > most) return fmt::format("in byte {} of {}", at, name);
  return all == bytes ? name : fmt::format("{}[{}]", name, at / bytes);
}

std::string Region::name(std::ptrdiff_t offset) const {
  const auto in_dynamic = offset - static_cast<std::ptrdiff_t>(placed_shared);
  const bool dynamic = memory == Memory::kDynamicShared;
  if (memory == Memory::kStaticShared || (dynamic && offset >= 0 && in_dynamic < 0)) {
    const auto* const found = variable_at(*this, offset);
    return found == nullptr ? "a __shared__ variable or array"
                            : fmt::format("the __shared__ variable {}", found->second.second);
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
  statics.variables.clear();
  for (const Symbol& symbol : kernel_symbols().statics) {
    statics.variables[static_cast<std::ptrdiff_t>(symbol.begin - program.load_address)] = {
        symbol.size, name_of(symbol.name)};
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
  for (const auto& [begin, variable] : statics.variables) bytes += variable.first;
  const bool begins = other.statics.empty();
  other.statics.resize(bytes);
  std::byte* kept = other.statics.data();
  for (const auto& [begin, variable] : statics.variables) {
    std::byte* const first = const_cast<std::byte*>(statics.begin) + begin;
    if (begins) {
      std::copy_n(first, variable.first, kept);
    } else {
      std::swap_ranges(first, first + variable.first, kept);
    }
    kept += variable.first;
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
