#include "common/lab/bulk_copy.hpp"

#include <algorithm>
#include <cstring>

#include "common/lab/address_space.hpp"
#include "common/lab/engine.hpp"
#include "common/lab/lab_thread.hpp"

namespace fa::lab {
namespace {

constexpr std::size_t kChunk = 16;  // bytes that a swizzle leaves together

// Copies bytes between a row of a box and global memory.
void copy_swizzled(const BulkCopy& copy, const Piece& piece) {
  for (std::size_t i = 0; i < piece.size;) {
    std::byte* const at = piece.shared + i;
    const std::size_t to_end = kChunk - reinterpret_cast<std::uintptr_t>(at) % kChunk;
    const std::size_t bytes = std::min(to_end, piece.size - i);
    if (copy.kind == BulkCopy::Kind::kLoadBox) {
      std::memcpy(copy.place(at), piece.global + i, bytes);
    } else {
      std::memcpy(piece.global + i, copy.place(at), bytes);
    }
    i += bytes;
  }
}

void add_floats(const Piece& piece) {
  for (std::size_t i = 0; i < piece.size; i += sizeof(float)) {
    auto* const to = reinterpret_cast<float*>(piece.global + i);
    float value, old, sum;
    std::memcpy(&value, piece.shared + i, sizeof value);
    __atomic_load(to, &old, __ATOMIC_RELAXED);
    do {
      sum = old + value;
    } while (!__atomic_compare_exchange(to, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
}

}  // namespace

std::byte* BulkCopy::place(std::byte* address) const {
  const auto before = reinterpret_cast<std::uintptr_t>(address);
  return address + (static_cast<std::ptrdiff_t>(fa::lab::swizzled(before, box.swizzle_bytes)) -
                    static_cast<std::ptrdiff_t>(before));
}

std::vector<Piece> BulkCopy::pieces() const {
  if (!of_box()) return {{global, shared, size}};
  std::vector<Piece> result;
  const std::int64_t begin = std::max<std::int64_t>(0, -at[4]);
  const std::int64_t end = std::min<std::int64_t>(box.box[4], box.sizes[4] - at[4]);
  if (begin >= end) return result;
  const std::int64_t width = box.element_bytes;
  std::byte* row = shared;
  std::array<int, 4> i{};  // in the box
  for (;; row += box.row_bytes()) {
    auto address = reinterpret_cast<std::uintptr_t>(box.data);  // wraps, as TMA's addresses do
    bool inside = true;
    for (std::size_t k = 0; k < i.size(); ++k) {
      const std::int64_t index = at[k] + i[k];
      inside = inside && index >= 0 && index < box.sizes[k];
      address += static_cast<std::uintptr_t>(index) * static_cast<std::uintptr_t>(box.strides[k]);
    }
    if (inside) {
      address += static_cast<std::uintptr_t>((at[4] + begin) * width);
      result.push_back({reinterpret_cast<std::byte*>(address), row + begin * width,
                        static_cast<std::size_t>((end - begin) * width)});
    }
    std::size_t k = i.size();
    while (k > 0 && ++i[k - 1] == box.box[k - 1]) i[--k] = 0;
    if (k == 0) return result;
  }
}

void BulkCopy::perform() const {
  if (kind == Kind::kLoadBytes || kind == Kind::kPeerBytes) {
    std::memcpy(shared, global, size);
    return;
  }
  if (kind == Kind::kStoreFloats) {
    std::memcpy(global, shared, size);
    return;
  }
  if (kind == Kind::kLoadBox) std::memset(shared, 0, size);
  for (const Piece& piece : pieces()) {
    if (kind == Kind::kAddFloats) {
      add_floats(piece);
    } else {
      copy_swizzled(*this, piece);
    }
  }
}

void BulkCopy::check(const std::byte* begin, std::size_t bytes) const {
  const std::size_t alignment = of_box() ? kBoxAlignment : 16;
  if (reinterpret_cast<std::uintptr_t>(shared) % alignment != 0) {
    fail(location, "a copy to or from an address in shared memory that is not a multiple of {}",
         alignment);
  }
  if (size % 16 != 0 || reinterpret_cast<std::uintptr_t>(global) % 16 != 0) {
    fail(location,
         "a copy of {} bytes to or from global memory; allowed are multiples of 16, at addresses "
         "that are multiples of 16",
         size);
  }
  if (of_box() && box.swizzle_bytes > 0 && at[4] * box.element_bytes % 16 != 0) {
    fail(location,
         "a box whose first column is {}; allowed are multiples of {}, which are 16 bytes", at[4],
         16 / box.element_bytes);
  }
  if (kind == Kind::kStoreBox && *std::min_element(at.begin(), at.end()) < 0) {
    fail(location,
         "a box is stored at the coordinates {}, {}, {}, {}, the fastest first; none of these may "
         "be negative",
         at[4], at[3], at[2], at[1]);
  }
  const auto offset = shared - begin;
  const auto end = static_cast<std::ptrdiff_t>(bytes);
  if (offset > -static_cast<std::ptrdiff_t>(kMargin) && offset < end &&
      offset + static_cast<std::ptrdiff_t>(size) > end) {
    fail(
        location,
        "a copy of {} bytes at byte {} of the dynamic shared memory, which has {}; the launch asks "
        "for too little, or an index is wrong",
        size, offset, end);
  }
}

void BulkCopy::note_global() const {
  if (observer == nullptr || kind == Kind::kPeerBytes) return;
  const std::vector<Piece> all = pieces();
  if (all.empty()) return;
  std::vector<const void*> rows;
  for (const Piece& piece : all) rows.push_back(piece.global);
  observer->moves(rows, all.front().size, kind != Kind::kLoadBox && kind != Kind::kLoadBytes,
                  kind == Kind::kAddFloats, location);
}

}  // namespace fa::lab
