// Memory of the device and of the host, copies between them, and indices that leave an array.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <regex>
#include <string>

#include <fmt/format.h>

#include "common/lab/block.hpp"
#include "common/lab/cuda/state.hpp"

using lab_cuda::Owner;
using lab_cuda::pending_error;
using lab_cuda::report;
using lab_cuda::state;

namespace lab_cuda {

const std::pair<const std::byte* const, Allocation>* State::find(const void* address) const {
  const auto lock = lock_card();
  const auto* const byte = static_cast<const std::byte*>(address);
  auto after = allocations.upper_bound(byte);
  if (after == allocations.begin()) return nullptr;
  const auto found = std::prev(after);
  return byte < found->first + std::max<std::size_t>(found->second.bytes, 1) ? &*found : nullptr;
}

namespace {

cudaError_t allocate(void** pointer, std::size_t bytes, Owner owner) {
  const auto lock = lock_card();
  if (const cudaError_t error = pending_error()) return report(error);
  if (pointer == nullptr) return report(cudaErrorInvalidValue);
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  constexpr std::size_t of_card = std::size_t{80} << 30;
  try {
    if (bytes > of_card) return report(cudaErrorMemoryAllocation);
    *pointer = fa::lab::allocate(bytes);
  } catch (const std::exception&) {
    return report(cudaErrorMemoryAllocation);
  }
  // What the host owns is zero at first; what it has not written it cannot tell from that.
  const bool unwritten = owner == Owner::kDevice;
  fa::lab::fill(*pointer, unwritten ? 0xff : 0, bytes, unwritten);
  state().allocations[static_cast<const std::byte*>(*pointer)] = {bytes, owner};
  state().freed.erase(*pointer);
  return cudaSuccess;
}

cudaError_t release(void* pointer, bool of_host) {
  const auto lock = lock_card();
  if (pointer == nullptr) return pending_error();
  auto& all = state().allocations;
  const auto found = all.find(static_cast<const std::byte*>(pointer));
  if (found == all.end() || (found->second.owner == Owner::kHost) != of_host) {
    return report(cudaErrorInvalidValue, state().freed.count(pointer) > 0
                                             ? "that memory is freed already"
                                         : found != all.end() ? "another function frees such memory"
                                                              : "no allocation begins there");
  }
  all.erase(found);
  state().freed.insert(pointer);
  fa::lab::release(pointer);
  return pending_error();
}

// Whether some bytes lie in one allocation, or in memory that is only the program's.
bool fits(const void* pointer, std::size_t bytes, bool must_be_device) {
  const auto* const found = state().find(pointer);
  if (found == nullptr) return !must_be_device;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - found->first);
  return offset + bytes <= found->second.bytes;
}

bool is_device_only(const void* pointer) {
  const auto* const found = state().find(pointer);
  return found != nullptr && found->second.owner == Owner::kDevice;
}

// Why some bytes do not fit, in words.
std::string misfit(const char* side, const void* pointer, std::size_t bytes) {
  const auto* const found = state().find(pointer);
  if (found == nullptr) {
    return fmt::format("the {} is {}", side,
                       state().freed.count(pointer) > 0 ? "freed" : "no memory of the device");
  }
  const auto offset = static_cast<const std::byte*>(pointer) - found->first;
  return fmt::format("{} bytes from byte {} of the {}, which has {}", bytes, offset, side,
                     found->second.bytes);
}

cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = pending_error()) return report(error);
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr) return report(cudaErrorInvalidValue, "a pointer is null");
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return report(cudaErrorInvalidMemcpyDirection);
  }
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault &&
      ((!to_device && is_device_only(to)) || (!from_device && is_device_only(from)))) {
    return report(cudaErrorInvalidValue,
                  "the direction is wrong: memory of the device is named as the host's");
  }
  if (!fits(to, bytes, to_device)) {
    return report(cudaErrorInvalidValue, misfit("destination", to, bytes));
  }
  if (fits(from, bytes, from_device)) return cudaSuccess;
  return report(cudaErrorInvalidValue, misfit("source", from, bytes));
}

void copy(void* to, const void* from, std::size_t bytes) {
  const auto lock = lock_card();
  if (state().find(to) != nullptr) {
    fa::lab::upload(to, from, bytes);
  } else {
    fa::lab::download(to, from, bytes);
    state().watch.copied_to_host(to, from, bytes);
  }
}

}  // namespace

cudaError_t copy_symbol(const void* symbol, std::size_t size, void* to, const void* from,
                        std::size_t bytes, std::size_t offset) {
  if (const cudaError_t error = pending_error()) return report(error);
  if (state().find(symbol) == nullptr) return report(cudaErrorInvalidSymbol);
  if (offset + bytes > size) {
    return report(cudaErrorInvalidValue,
                  fmt::format("{} bytes from byte {} of a variable of {}", bytes, offset, size));
  }
  auto* const at = static_cast<std::byte*>(const_cast<void*>(symbol)) + offset;
  if (to == nullptr) {
    copy(at, from, bytes);
  } else {
    copy(to, at, bytes);
  }
  return cudaSuccess;
}

void* make_variable(const void* image, std::size_t bytes, const char* name, Variable kind) {
  void* const memory = fa::lab::allocate(bytes);
  fa::lab::upload(memory, image, bytes);
  state().allocations[static_cast<const std::byte*>(memory)] = {
      bytes, kind == Variable::kManaged ? Owner::kManaged : Owner::kDevice};
  if (kind == Variable::kConstant) state().watch.is_constant(memory, name);
  return memory;
}

bool is_global(const void* pointer) {
  return state().find(pointer) != nullptr;
}

// ---------------------------------------------------------------- the heap of kernels

namespace {
std::map<const void*, std::size_t> heap;  // what kernels have allocated
std::size_t heap_bytes = 0, most_heap_bytes = 8 << 20;
}  // namespace

void* heap_malloc(std::size_t bytes) {
  if (!in_kernel()) return std::malloc(bytes);
  if (bytes == 0 || bytes > most_heap_bytes - heap_bytes) return nullptr;
  try {
    void* const memory = fa::lab::allocate(bytes);
    std::memset(memory, 0xff, bytes);
    heap[memory] = bytes;
    heap_bytes += bytes;
    state().freed.erase(memory);
    return memory;
  } catch (const std::exception&) {
    return nullptr;  // too many for the system
  }
}
bool heap_delete(void* memory) {
  const auto found = heap.find(memory);
  if (found == heap.end()) {
    if (state().freed.count(memory) == 0) return false;
    add_here("device heap", "a kernel deletes or frees memory that is freed already");
    return true;
  }
  heap_bytes -= found->second;
  heap.erase(found);
  state().freed.insert(memory);
  fa::lab::release(memory);
  return true;
}
void heap_free(void* memory) {
  if (!in_kernel()) return std::free(memory);
  if (memory == nullptr || heap_delete(memory)) return;
  add_here("device heap", "a kernel frees what malloc() of a kernel has not allocated");
}

}  // namespace lab_cuda

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return lab_cuda::allocate(pointer, bytes, Owner::kDevice);
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (device != 0) return report(cudaErrorInvalidDevice);
  *pool = reinterpret_cast<cudaMemPool_t>(1);
  return pending_error();
}
cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  if (limit == cudaLimitMallocHeapSize) lab_cuda::most_heap_bytes = value;
  return pending_error();
}
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  *value = limit == cudaLimitMallocHeapSize ? lab_cuda::most_heap_bytes : 1024;
  return pending_error();
}
cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  if (bytes == 0) return report(cudaErrorInvalidValue);
  return lab_cuda::allocate(pointer, bytes, Owner::kManaged);
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes, unsigned) {
  return lab_cuda::allocate(pointer, bytes, Owner::kHost);
}
cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                            std::size_t height) {
  constexpr std::size_t unit = 512;
  *pitch = (width + unit - 1) / unit * unit;
  return lab_cuda::allocate(pointer, *pitch * height, Owner::kDevice);
}
cudaError_t cudaFree(void* pointer) {
  return lab_cuda::release(pointer, false);
}
cudaError_t cudaFreeHost(void* pointer) {
  return lab_cuda::release(pointer, true);
}
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  if (pointer == nullptr || bytes == 0) return report(cudaErrorInvalidValue);
  const bool fresh =
      state().registered.try_emplace(static_cast<const std::byte*>(pointer), bytes).second;
  return fresh ? pending_error() : report(cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* pointer) {
  const bool known = state().registered.erase(static_cast<const std::byte*>(pointer)) > 0;
  return known ? pending_error() : report(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = lab_cuda::check_copy(to, from, bytes, kind)) return error;
  if (bytes > 0) lab_cuda::copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return report(cudaErrorInvalidPitchValue);
  for (std::size_t row = 0; row < height; ++row) {
    const cudaError_t error =
        cudaMemcpy(static_cast<std::byte*>(to) + row * to_pitch,
                   static_cast<const std::byte*>(from) + row * from_pitch, width, kind);
    if (error != cudaSuccess) return error;
  }
  return pending_error();
}
cudaError_t cudaMemset(void* pointer, int byte, std::size_t bytes) {
  const auto lock = lab_cuda::lock_card();
  if (const cudaError_t error = pending_error()) return report(error);
  if (bytes == 0) return cudaSuccess;
  if (!lab_cuda::fits(pointer, bytes, true)) {
    return report(cudaErrorInvalidValue, lab_cuda::misfit("memory", pointer, bytes));
  }
  fa::lab::fill(pointer, byte, bytes, false);
  return cudaSuccess;
}
cudaError_t cudaMemset2D(void* pointer, std::size_t pitch, int byte, std::size_t width,
                         std::size_t height) {
  if (width > pitch) return report(cudaErrorInvalidValue);
  for (std::size_t row = 0; row < height; ++row) {
    const auto error = cudaMemset(static_cast<std::byte*>(pointer) + row * pitch, byte, width);
    if (error != cudaSuccess) return error;
  }
  return pending_error();
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  *total = std::size_t{80} << 30;
  *free_bytes = *total;
  for (const auto& [begin, allocation] : state().allocations) *free_bytes -= allocation.bytes;
  return pending_error();
}
cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t, int, cudaStream_t) {
  const auto* const found = state().find(pointer);
  const bool managed = found != nullptr && found->second.owner == Owner::kManaged;
  return managed ? pending_error() : report(cudaErrorInvalidValue);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const auto* const found = state().find(pointer);
  void* const address = const_cast<void*>(pointer);
  *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, address};
  if (found == nullptr) return pending_error();
  constexpr cudaMemoryType kTypes[] = {cudaMemoryTypeDevice, cudaMemoryTypeManaged,
                                       cudaMemoryTypeHost};  // of Owner
  const Owner owner = found->second.owner;
  *attributes = {kTypes[static_cast<int>(owner)], 0, address,
                 owner == Owner::kDevice ? nullptr : address};
  return pending_error();
}

// Of kernels and, to fit it, of the host.
void* operator new(std::size_t bytes) {
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  if (!lab_cuda::in_kernel() || !lab_cuda::heap_delete(memory)) std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

// ---------------------------------------------------------------- indices

// What code compiled with -fsanitize=bounds calls where an index leaves an array of a known size:
// local arrays and static shared ones, whose neighbours are the thread's or block's own memory. The
// name and the layouts are those of GCC and Clang.
namespace {

struct Type {
  std::uint16_t kind, info;  // of an integer: twice the logarithm of its bits, and 1 if signed
  char name[1];              // "'float [8]'", and longer
};
struct OutOfBounds {
  const char* file;
  std::uint32_t line, column;
  const Type *array, *index;
};

// `tile[0][i]`, by which all of an array of several dimensions is used as one row.
bool is_flat(const OutOfBounds& at) {
  static std::map<std::pair<std::string, std::uint32_t>, bool> known;
  const auto [found, fresh] = known.try_emplace({at.file, at.line}, false);
  if (fresh) {
    std::ifstream file(at.file);
    std::string text;
    for (std::uint32_t i = 0; i < at.line && std::getline(file, text); ++i) continue;
    found->second = std::regex_search(text, std::regex(R"(\[\s*0\s*\]\s*\[)"));
  }
  return found->second;
}

std::string index_text(const Type& type, std::uintptr_t index) {
  if (type.kind != 0 || type.info >> 1 > 6) return "";
  const int unused = 64 - (1 << (type.info >> 1));
  if ((type.info & 1) == 0) return fmt::format("{} ", index << unused >> unused);
  return fmt::format("{} ", static_cast<std::int64_t>(index << unused) >> unused);
}

}  // namespace

extern "C" void __ubsan_handle_out_of_bounds(const OutOfBounds* at, std::uintptr_t index) {
  namespace lab = fa::lab;
  if (lab::current == nullptr || lab::observer == nullptr || is_flat(*at)) return;
  const std::string quoted = at->array->name;
  const lab::Thread& thread = *lab::current;
  lab::observer->finds(
      "out of bounds", {at->file, static_cast<int>(at->line)}, {},
      fmt::format("thread {} (warp {}, lane {}) of block ({}, {}, {}) uses index {}of an array of "
                  "type {}, whose last index is {}: other memory lies there",
                  thread.number, thread.number / lab::kWarpSize, thread.lane, thread.block_index.x,
                  thread.block_index.y, thread.block_index.z, index_text(*at->index, index),
                  quoted.substr(1, quoted.size() - 2),
                  std::stoll(quoted.substr(quoted.find('[') + 1)) - 1));
}
