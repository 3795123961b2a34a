#include "common/lab/async.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/tensor/dtype.hpp"

namespace fa::lab {
namespace {

constexpr std::size_t kChunk = 16;  // bytes that a swizzle leaves together
constexpr int kDepth = 16;          // of a product
constexpr int kRows = 16;           // of a product, in one warp
// A sum that is in flight: a NaN that signals, so that arithmetic with it gives another one.
constexpr std::uint32_t kPoisonedSum = 0xffbfffff;

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

// An operand of wgmma as its descriptor tells of it.
class Operand {
 public:
  Operand(const Products::Setting& setting, std::uint64_t descriptor, bool turned,
          const SourceLocation& location)
      : setting_(setting),
        address_((descriptor & 0x3fff) << 4),
        leading_((descriptor >> 16 & 0x3fff) << 4),
        stride_((descriptor >> 32 & 0x3fff) << 4),
        panel_bytes_(descriptor >> 62 == 1 ? 128 : 64),
        turned_(turned),
        location_(location) {
    if (descriptor >> 62 != 1 && descriptor >> 62 != 2) {
      throw std::runtime_error(
          fmt::format("{}:{}: a matrix descriptor with swizzle {}; the lab knows 1 and 2, "
                      "panels of 128 and 64 bytes",
                      location.file, location.line, descriptor >> 62));
    }
  }
  // The 16 bytes with element (i, k), (i, k + 1) and so on; or, transposed, (i, k), (i + 1, k) and
  // so on.
  const std::byte* chunk(std::size_t i, std::size_t k) const {
    const std::size_t cols = panel_bytes_ / 2;
    const std::size_t offset = turned_ ? address_ + i / cols * leading_ + k / 8 * stride_ +
                                             k % 8 * panel_bytes_ + 2 * (i % cols)
                                       : address_ + i / 8 * stride_ + i % 8 * panel_bytes_ + 2 * k;
    const std::size_t at = swizzled(offset, static_cast<int>(panel_bytes_));
    if (at + kChunk > setting_.shared_bytes) {
      throw std::runtime_error(
          fmt::format("{}:{}: wgmma reads byte {} of the dynamic shared memory, which "
                      "has "
                      "{}; the launch asks for too little, or a descriptor is wrong",
                      location_.file, location_.line, at, setting_.shared_bytes));
    }
    return setting_.shared + at;
  }
  // Visits all chunks of rows first to first + count, with i and k of each.
  template <class Visit>
  void for_chunks(std::size_t first, std::size_t count, Visit visit) const {
    const std::size_t step_i = turned_ ? 8 : 1, step_k = turned_ ? 1 : 8;
    for (std::size_t i = 0; i < count; i += step_i) {
      for (std::size_t k = 0; k < kDepth; k += step_k) {
        visit(chunk(first + i, k), i, k);
      }
    }
  }
  // Its numbers, element (first + i, k) at to[k * distance + i].
  template <class T>
  void fetch(std::size_t first, std::size_t count, float* to, std::size_t distance) const {
    for_chunks(first, count, [&](const std::byte* from, std::size_t i, std::size_t k) {
      T numbers[8];
      std::memcpy(static_cast<void*>(numbers), from, kChunk);
      float* const at = to + k * distance + i;
      const std::size_t step = turned_ ? 1 : distance;
      for (std::size_t n = 0; n < 8; ++n) {
        at[n * step] = static_cast<float>(numbers[n]);
      }
    });
  }

 private:
  const Products::Setting& setting_;
  std::size_t address_, leading_, stride_, panel_bytes_;
  bool turned_;
  SourceLocation location_;
};

// The fragment of A in registers, as in mma.m16n8k16: to[k * kRows + row].
template <class T>
void fetch_fragments(const std::array<const std::uint32_t*, kWarpSize>& a, float* to) {
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    const std::size_t g = lane / 4, t = lane % 4;
    for (std::size_t i = 0; i < 4; ++i) {
      T pair[2];
      std::memcpy(static_cast<void*>(pair), a[lane] + i, sizeof pair);
      for (std::size_t e = 0; e < 2; ++e) {
        to[(2 * t + 8 * (i / 2) + e) * kRows + g + 8 * (i % 2)] = static_cast<float>(pair[e]);
      }
    }
  }
}

// tile += A B, numbers summed in the order of k. cols is a multiple of 16.
void multiply(const float* a, const float* b, std::size_t cols, float* tile) {
  constexpr std::size_t together = 16;
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t first = 0; first < cols; first += together) {
      float sum[together];
      float* const at = tile + row * cols + first;
      std::memcpy(sum, at, sizeof sum);
      for (std::size_t k = 0; k < kDepth; ++k) {
        const float factor = a[k * kRows + row];
        const float* const of_b = b + k * cols + first;
        for (std::size_t i = 0; i < together; ++i) sum[i] += factor * of_b[i];
      }
      std::memcpy(at, sum, sizeof sum);
    }
  }
}

// Visits the elements of a lane's sums: its index, and where it stands in a tile.
template <class Visit>
void for_sums(std::size_t lane, std::size_t cols, Visit visit) {
  const std::size_t g = lane / 4, t = lane % 4;
  for (std::size_t j = 0; j < cols / 8; ++j) {
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t e = 0; e < 2; ++e) {
        visit(4 * j + 2 * h + e, (8 * h + g) * cols + 8 * j + 2 * t + e);
      }
    }
  }
}

}  // namespace

std::byte* BulkCopy::place(std::byte* address) const {
  const auto before = reinterpret_cast<std::uintptr_t>(address);
  return address + (static_cast<std::ptrdiff_t>(fa::lab::swizzled(before, box.row_bytes)) -
                    static_cast<std::ptrdiff_t>(before));
}

std::vector<Piece> BulkCopy::pieces() const {
  if (!swizzled()) return {{global, shared, size}};
  std::vector<Piece> result;
  for (std::size_t i = 0; i < 2; ++i) {
    if (at[i] < 0 || at[i] >= box.sizes[i]) return result;
  }
  const std::int64_t cols = box.row_bytes / 2;
  const std::int64_t begin = std::max<std::int64_t>(0, -at[3]);
  const std::int64_t end = std::min(cols, box.sizes[3] - at[3]);
  if (begin >= end) return result;
  for (int i = 0; i < box.rows; ++i) {
    const std::int64_t row = at[2] + i;
    if (row < 0 || row >= box.sizes[2]) continue;
    result.push_back({box.data + at[0] * box.strides[0] + at[1] * box.strides[1] +
                          row * box.strides[2] + (at[3] + begin) * 2,
                      shared + std::ptrdiff_t{i} * box.row_bytes + begin * 2,
                      static_cast<std::size_t>(end - begin) * 2});
  }
  return result;
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

void BarrierState::land() {
  // In place: most often all of them land.
  std::size_t left = 0;
  for (auto& entry : copies) {
    if (entry.first < phases) {
      entry.second.perform();
    } else {
      if (&copies[left] != &entry) copies[left] = entry;
      ++left;
    }
  }
  copies.resize(left);
}

// ---------------------------------------------------------------- products

void Products::begin(const Setting& setting, const ProductShape& shape,
                     const std::array<ProductOfLane, kWarpSize>& lanes,
                     const SourceLocation& location) {
  Product product{shape, {}, nullptr, location, {}};
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    product.a[lane] = lanes[lane].a;
  }
  const auto known = std::find_if(sums_.begin(), sums_.end(),
                                  [&](const Sums& sums) { return sums.lanes[0] == lanes[0].sums; });
  const std::size_t count = static_cast<std::size_t>(shape.sums);
  if (known != sums_.end()) {
    product.sums = &*known;
  } else {
    sums_.push_back({});
    Sums& sums = sums_.back();
    sums.cols = 2 * count;
    sums.tile.resize(kRows * sums.cols);
    for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
      sums.lanes[lane] = lanes[lane].sums;
      if (shape.adds) {
        for_sums(lane, sums.cols, [&](std::size_t i, std::size_t of_tile) {
          sums.tile[of_tile] = lanes[lane].sums[i];
        });
      }
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(lanes[lane].sums + i, &kPoisonedSum, sizeof kPoisonedSum);
      }
    }
    product.sums = &sums;
  }
  ++product.sums->under_way;
  product.sums->last = location;
  if (observer != nullptr) {
    tell_of(setting, product);
    if (product.a[0] != nullptr) {
      for (const std::uint32_t* a : product.a) {
        product.a_before.insert(product.a_before.end(), a, a + 4);
      }
    }
  }
  open_.push_back(std::move(product));
}

// Some compilers let the observer see only some of the accesses to registers: what they left is
// seen here.
void Products::check(const Sums& sums) {
  for (const float* of_lane : sums.lanes) {
    for (std::size_t i = 0; i < sums.cols / 2; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, of_lane + i, sizeof bits);
      if (bits == kPoisonedSum) continue;
      observer->registers_changed(sums.last,
                                  "sums of this wgmma() were written while it was under "
                                  "way; a wgmma_wait() is probably missing");
      return;
    }
  }
}
void Products::check(const Product& product) {
  for (std::size_t i = 0; i < product.a_before.size(); ++i) {
    if (product.a[i / 4][i % 4] == product.a_before[i]) continue;
    observer->registers_changed(product.location,
                                "the left operand of this wgmma(), in registers, was "
                                "overwritten while it was in flight; a wgmma_wait() "
                                "is probably missing");
    return;
  }
}

// Tells the observer what a product reads from now on, and which registers it has.
void Products::tell_of(const Setting& setting, const Product& product) const {
  const ProductShape& shape = product.shape;
  const auto reads = [&](const std::byte* at, std::size_t, std::size_t) {
    observer->async_uses(this, AsyncUse::kProduct, committed_ + 1, at, kChunk, product.location);
  };
  if (product.a[0] == nullptr) {
    // All 64 rows: PTX does not promise that a warp reads its own ones only.
    Operand(setting, shape.a, shape.turned_a, product.location)
        .for_chunks(0, 4 * std::size_t{kRows}, reads);
  }
  Operand(setting, shape.b, shape.turned_b, product.location)
      .for_chunks(0, 2 * static_cast<std::size_t>(shape.sums), reads);
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    const int thread = setting.first_thread + static_cast<int>(lane);
    observer->registers_lent(thread, product.sums->lanes[lane],
                             sizeof(float) * static_cast<std::size_t>(shape.sums), true, this,
                             committed_ + 1, product.location);
    if (product.a[lane] != nullptr) {
      observer->registers_lent(thread, product.a[lane], kChunk, false, this, committed_ + 1,
                               product.location);
    }
  }
}

void Products::compute(const Setting& setting, const Product& product) const {
  constexpr std::size_t most = 256;
  const ProductShape& shape = product.shape;
  Sums& sums = *product.sums;
  const std::size_t cols = sums.cols;
  float a[kDepth * kRows];
  thread_local std::array<float, kDepth * most> b;
  const auto fetch = [&](auto type) {
    using T = decltype(type);
    if (product.a[0] != nullptr) {
      fetch_fragments<T>(product.a, a);
    } else {
      Operand(setting, shape.a, shape.turned_a, product.location)
          .fetch<T>(static_cast<std::size_t>(setting.first_row), kRows, a, kRows);
    }
    Operand(setting, shape.b, shape.turned_b, product.location).fetch<T>(0, cols, b.data(), cols);
  };
  if (shape.half) {
    fetch(half{});
  } else {
    fetch(bfloat16{});
  }
  if (!shape.adds) std::fill(sums.tile.begin(), sums.tile.end(), 0.0f);
  multiply(a, b.data(), cols, sums.tile.data());
}

void Products::commit() {
  groups_.push_back(std::exchange(open_, {}));
  ++committed_;
}

void Products::wait(const Setting& setting, std::size_t pending) {
  while (groups_.size() > pending) {
    for (const Product& product : groups_.front()) {
      if (observer != nullptr) check(product);
      compute(setting, product);
      --product.sums->under_way;
    }
    groups_.pop_front();
    ++ended_;
  }
  for (auto sums = sums_.begin(); sums != sums_.end();) {
    if (sums->under_way > 0) {
      ++sums;
      continue;
    }
    if (observer != nullptr) check(*sums);
    for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
      for_sums(lane, sums->cols, [&](std::size_t i, std::size_t of_tile) {
        sums->lanes[lane][i] = sums->tile[of_tile];
      });
    }
    sums = sums_.erase(sums);
  }
}

void Products::clear() {
  *this = Products();
}

const SourceLocation* Products::uncommitted() const {
  return open_.empty() ? nullptr : &open_.front().location;
}

const SourceLocation* Products::unfinished() const {
  for (const auto& group : groups_) {
    if (!group.empty()) return &group.front().location;
  }
  return nullptr;
}

void Stores::clear() {
  *this = Stores();
}

}  // namespace fa::lab
