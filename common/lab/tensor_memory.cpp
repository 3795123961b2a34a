#include "common/lab/tensor_memory.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/lab/lab_thread.hpp"
#include "common/lab/operand.hpp"

namespace fa::lab {
namespace {

constexpr std::uint32_t kPoison = 0xffbfffff;  // a NaN that signals
constexpr int kLeftColumns = kDepth / 2;       // of A in tensor memory
constexpr const char* kKind = "tcgen05";

int lane_of(std::uint32_t address) {
  return static_cast<int>(address >> 16);
}
int column_of(std::uint32_t address) {
  return static_cast<int>(address & 0xffff);
}
int columns_of(std::uint32_t descriptor) {
  return static_cast<int>(descriptor >> 17 & 0x3f) * 8;
}

// The bits of a shared memory descriptor that are always the same: 46 to 48 are 1, 49 to 61 are 0,
// as the lab knows no base offset, no absolute addresses and no atoms of 32 bytes.
constexpr std::uint64_t kFixedBits = std::uint64_t{0xffff} << 46, kFixed = std::uint64_t{1} << 46;

}  // namespace

std::string wrong_descriptor(const TensorMatmul& matmul) {
  const std::uint32_t bits = matmul.descriptor;
  const std::uint32_t type_a = bits >> 7 & 7, type_b = bits >> 10 & 7;
  const int rows = static_cast<int>(bits >> 24 & 0x1f) * 16, columns = columns_of(bits);
  constexpr std::uint32_t zero = 0xe080604f;  // reserved, sparse, saturating, negated, shifted
  if ((bits & zero) != 0) return fmt::format("has bits {:#x} that must be 0", bits & zero);
  if ((bits >> 4 & 3) != 1) return fmt::format("gives D the type {}, not 1", bits >> 4 & 3);
  if (type_a > 1 || type_a != type_b) {
    return fmt::format("gives A and B the types {} and {}; both must be 0 or both 1", type_a,
                       type_b);
  }
  if (rows != TensorMemory::kLanes) return fmt::format("says {} rows; the lab knows 128", rows);
  if (columns % 16 != 0 || columns < 16 || columns > 256) {
    return fmt::format("says {} columns; allowed are multiples of 16 from 16 to 256", columns);
  }
  const auto major = [](bool mn) { return mn ? "MN-major" : "K-major"; };
  const bool mn_a = (bits >> 15 & 1) != 0, mn_b = (bits >> 16 & 1) != 0;
  if (mn_a != matmul.mn_major_a) {
    return fmt::format("says that A is {}; it is {}", major(mn_a), major(matmul.mn_major_a));
  }
  if (mn_b != matmul.mn_major_b) {
    return fmt::format("says that B is {}; it is {}", major(mn_b), major(matmul.mn_major_b));
  }
  return "";
}

void TensorMemory::begin(const std::byte* shared, std::size_t shared_bytes) {
  shared_ = shared;
  shared_bytes_ = shared_bytes;
  allocations_.clear();
  freed_.clear();
  relinquished_ = {};
  fewest_columns_ = kColumns;
  sums_.clear();
  queues_.clear();
  moves_.clear();
}

// ---------------------------------------------------------------- allocation

std::uint32_t TensorMemory::allocate(int columns, const SourceLocation& location) {
  const auto end_with = [&](const std::string& message) {
    note_finding(kKind, location, {}, message);
    fail(location, "{}", message);
  };
  if (columns < 32 || columns > kColumns || (columns & (columns - 1)) != 0) {
    end_with(
        fmt::format("{} columns of tensor memory; allowed are 32, 64, 128, 256 and 512", columns));
  }
  if (relinquished_.line > 0) {
    end_with(fmt::format("tcgen05_alloc() after tcgen05_relinquish_alloc_permit(), at {}",
                         text_of(relinquished_)));
  }
  // The first gap that is large enough.
  int first = 0;
  std::size_t i = 0;
  for (; i < allocations_.size() && allocations_[i].first < first + columns; ++i) {
    first = allocations_[i].first + allocations_[i].columns;
  }
  if (first + columns > kColumns) {
    int held = 0;
    for (const Allocation& one : allocations_) held += one.columns;
    end_with(
        fmt::format("asks for {} columns of tensor memory of which this block has {} of 512 "
                    "already, the first at {}: it waits for ever",
                    columns, held, text_of(allocations_.front().location)));
  }
  if (columns > fewest_columns_) {
    note_finding(kKind, location, fewest_at_,
                 fmt::format("allocates {} columns of tensor memory after {} at the other line; "
                             "no allocation of a block may be larger than an earlier one",
                             columns, fewest_columns_));
  } else {
    fewest_columns_ = columns;
    fewest_at_ = location;
  }
  const auto at = allocations_.begin() + static_cast<std::ptrdiff_t>(i);
  allocations_.insert(at, {first, columns, location});
  words_.resize(kLanes * kColumns);
  for (int lane = 0; lane < kLanes; ++lane) {
    std::fill_n(&word(lane, first), columns, kPoison);
  }
  if (observer != nullptr) observer->tensor_allocated(first, columns);
  return static_cast<std::uint32_t>(first);
}

void TensorMemory::free(std::uint32_t address, int columns, const SourceLocation& location) {
  const auto found =
      std::find_if(allocations_.begin(), allocations_.end(), [&](const Allocation& one) {
        return static_cast<std::uint32_t>(one.first) == address && one.columns == columns;
      });
  if (found == allocations_.end()) {
    const auto freed = freed_.find(column_of(address));
    return finding_or_fail(
        kKind, location, freed == freed_.end() ? SourceLocation{} : freed->second,
        fmt::format("frees {} columns of tensor memory from column {} on, which no tcgen05_alloc() "
                    "has given{}",
                    columns, column_of(address),
                    freed == freed_.end() ? "" : ": the other line has freed them"));
  }
  if (observer != nullptr) {
    observer->tensor_uses({TensorUse::Kind::kFree, column_of(address), columns, -1}, location);
  }
  for (int i = 0; i < columns; ++i) freed_[column_of(address) + i] = location;
  allocations_.erase(found);
}

// Whether columns are allocated; else it is a finding.
bool TensorMemory::reaches(const char* what, int first, int columns,
                           const SourceLocation& location) const {
  int next = first;
  for (const Allocation& one : allocations_) {
    if (one.first <= next) next = std::max(next, one.first + one.columns);
  }
  if (next >= first + columns) return true;
  const auto freed = freed_.find(next);
  finding_or_fail(kKind, location, freed == freed_.end() ? SourceLocation{} : freed->second,
                  fmt::format("{} uses column {} of tensor memory, which {}", what, next,
                              freed == freed_.end() ? "no tcgen05_alloc() of this block has given"
                                                    : "the other line has freed"));
  return false;
}

// ---------------------------------------------------------------- matmuls

// The accumulators of a matmul, which are lent to it from now on.
TensorMemory::Sums& TensorMemory::sums_of(const TensorMatmul& matmul, int columns) {
  const int first = column_of(matmul.d);
  const auto known = std::find_if(sums_.begin(), sums_.end(), [&](const Sums& sums) {
    return sums.first == first && sums.columns == columns;
  });
  if (known != sums_.end()) return *known;
  sums_.push_back({first, columns, {}, 0});
  Sums& sums = sums_.back();
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int column = first; column < first + columns; ++column) {
      float value = 0;
      if (matmul.adds) std::memcpy(&value, &word(lane, column), sizeof value);
      sums.tile.push_back(value);
      word(lane, column) = kPoison;
    }
  }
  return sums;
}

void TensorMemory::begin(const TensorMatmul& matmul, const SourceLocation& location) {
  const std::string wrong = wrong_descriptor(matmul);
  if (!wrong.empty()) {
    return finding_or_fail(
        kKind, location, {},
        fmt::format("the instruction descriptor {:#010x} {}; ptxas does not see that, and what a "
                    "GPU does is undefined",
                    matmul.descriptor, wrong));
  }
  for (const std::uint64_t bits : {matmul.a_in_tensor_memory ? kFixed : matmul.a, matmul.b}) {
    if ((bits & kFixedBits) == kFixed) continue;
    return finding_or_fail(
        kKind, location, {},
        fmt::format("the operand descriptor {:#018x} is none of tcgen05: bits 46 to 48 must be 1, "
                    "as tcgen05_bits() makes them",
                    bits));
  }
  const int columns = columns_of(matmul.descriptor);
  if (lane_of(matmul.d) != 0 ||
      (matmul.a_in_tensor_memory && lane_of(static_cast<std::uint32_t>(matmul.a)) != 0)) {
    return finding_or_fail(
        kKind, location, {},
        "a matmul of 128 rows whose accumulators or left operand do not begin in "
        "lane 0 of tensor memory");
  }
  if (!reaches("a matmul", column_of(matmul.d), columns, location)) return;
  if (matmul.a_in_tensor_memory &&
      !reaches("a matmul", static_cast<int>(matmul.a), kLeftColumns, location)) {
    return;
  }
  Queue& queue = queues_[current->place];
  queue.any = true;
  if (observer != nullptr) note_uses(queue, matmul, columns, location);
  Sums& sums = sums_of(matmul, columns);
  ++sums.in_flight;
  queue.open.push_back({matmul, columns, &sums, location});
}

// Reports to the observer what a matmul uses from now on.
void TensorMemory::note_uses(const Queue& queue, const TensorMatmul& matmul, int columns,
                             const SourceLocation& location) const {
  std::vector<const void*> read;
  const auto reads = [&](const std::byte* at, std::size_t, std::size_t) { read.push_back(at); };
  const std::uint32_t when = queue.committed + 1;
  if (matmul.a_in_tensor_memory) {
    observer->tensor_uses({TensorUse::Kind::kLeft, static_cast<int>(matmul.a), kLeftColumns, -1,
                           true, false, &queue, when},
                          location);
  } else {
    Operand(shared_, shared_bytes_, matmul.a, WgmmaType::kHalf, matmul.mn_major_a, location)
        .for_chunks(0, kLanes, reads);
  }
  Operand(shared_, shared_bytes_, matmul.b, WgmmaType::kHalf, matmul.mn_major_b, location)
      .for_chunks(0, static_cast<std::size_t>(columns), reads);
  observer->async_uses(&queue, AsyncUse::kTensorMatmul, when, read, Operand::kChunk, location);
  observer->tensor_uses(
      {TensorUse::Kind::kSums, column_of(matmul.d), columns, -1, matmul.adds, true, &queue, when},
      location);
}

TensorGroup TensorMemory::commit(const SourceLocation& location) {
  Queue& queue = queues_[current->place];
  if (!queue.any) {
    note_finding(
        kKind, location, {},
        fmt::format("thread {} commits, but has issued no tcgen05_mma(): a commit waits for "
                    "those of its own thread only",
                    current->number));
  }
  queue.groups.push_back({++queue.committed, std::exchange(queue.open, {})});
  return {this, &queue, current->place, queue.committed};
}

void TensorMemory::finish(const TensorGroup& group) {
  Queue& queue = queues_[group.thread];
  while (!queue.groups.empty() && queue.groups.front().number <= group.number) {
    for (const Matmul& matmul : queue.groups.front().matmuls) {
      compute(matmul);
      Sums& sums = *matmul.sums;
      if (--sums.in_flight > 0) continue;
      for (int lane = 0; lane < kLanes; ++lane) {
        std::memcpy(&word(lane, sums.first),
                    &sums.tile[static_cast<std::size_t>(lane * sums.columns)],
                    sizeof(float) * static_cast<std::size_t>(sums.columns));
      }
      sums_.remove_if([done = matmul.sums](const Sums& one) { return &one == done; });
    }
    queue.groups.pop_front();
  }
}

void TensorMemory::compute(const Matmul& matmul) {
  const TensorMatmul& what = matmul.what;
  const auto columns = static_cast<std::size_t>(matmul.columns);
  std::vector<float>& tile = matmul.sums->tile;
  if (!what.adds) std::fill(tile.begin(), tile.end(), 0.0f);
  std::vector<float> b(kDepth * columns);
  float a[kDepth * kRows];
  const auto multiply_as = [&](auto type) {
    using T = decltype(type);
    Operand(shared_, shared_bytes_, what.b, WgmmaType::kHalf, what.mn_major_b, matmul.location)
        .fetch<T>(0, columns, b.data(), columns);
    for (int row = 0; row < kLanes; row += kRows) {
      if (what.a_in_tensor_memory) {
        for (int i = 0; i < kRows; ++i) {
          float elements[kDepth];
          widen<T>(&word(row + i, static_cast<int>(what.a)), elements);
          for (int k = 0; k < kDepth; ++k) a[k * kRows + i] = elements[k];
        }
      } else {
        Operand(shared_, shared_bytes_, what.a, WgmmaType::kHalf, what.mn_major_a, matmul.location)
            .fetch<T>(static_cast<std::size_t>(row), kRows, a, kRows);
      }
      multiply<16>(a, b.data(), columns, &tile[static_cast<std::size_t>(row) * columns]);
    }
  };
  if ((what.descriptor >> 7 & 7) == 0) {
    multiply_as(half{});
  } else {
    multiply_as(bfloat16{});
  }
}

// ---------------------------------------------------------------- loads and stores

// Whether a warp may use what its lanes ask for; else it is a finding.
bool TensorMemory::reaches_quarter(const char* what, const std::array<TensorLane, kWarpSize>& lanes,
                                   int columns, const SourceLocation& location) const {
  const std::uint32_t address = lanes[0].address;
  if (std::any_of(lanes.begin(), lanes.end(),
                  [&](const TensorLane& lane) { return lane.address != address; })) {
    finding_or_fail(kKind, location, {},
                    fmt::format("lanes of a warp call {} with different addresses", what));
    return false;
  }
  const int warp = current->number / kWarpSize, first = warp % 4 * kWarpSize;
  if (lane_of(address) != first) {
    finding_or_fail(
        kKind, location, {},
        fmt::format("warp {} calls {} for lanes from {} on; a warp reaches the quarter of tensor "
                    "memory that its number modulo 4 says, which is here lanes {} to {}: see "
                    "tensor_quarter()",
                    warp, what, lane_of(address), first, first + kWarpSize - 1));
    return false;
  }
  return reaches(what, column_of(address), columns, location);
}

void TensorMemory::load(const std::array<TensorLane, kWarpSize>& lanes, int columns,
                        const SourceLocation& location) {
  const std::uint32_t address = lanes[0].address;
  if (!reaches_quarter("tcgen05_ld()", lanes, columns, location)) return;
  Moves& moves = moves_[current->place / kWarpSize];
  Move move{{}, {}, lane_of(address), column_of(address), columns, location};
  const int first_thread = current->place - current->lane;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    std::uint32_t* const to = lanes[static_cast<std::size_t>(lane)].registers;
    move.registers[static_cast<std::size_t>(lane)] = to;
    std::fill_n(to, columns, kPoison);
    if (observer == nullptr) continue;
    observer->registers_lent(first_thread + lane, to,
                             sizeof(float) * static_cast<std::size_t>(columns), LentTo::kLoaded,
                             &moves, moves.waited + 1, location);
  }
  if (observer != nullptr) {
    observer->tensor_uses(
        {TensorUse::Kind::kLoad, move.column, columns, move.lane / kWarpSize, true}, location);
  }
  moves.loads.push_back(move);
}

void TensorMemory::store(const std::array<TensorLane, kWarpSize>& lanes, int columns,
                         const SourceLocation& location) {
  const std::uint32_t address = lanes[0].address;
  if (!reaches_quarter("tcgen05_st()", lanes, columns, location)) return;
  Move move{{}, {}, lane_of(address), column_of(address), columns, location};
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const std::uint32_t* const from = lanes[static_cast<std::size_t>(lane)].registers;
    move.values.insert(move.values.end(), from, from + columns);
    std::fill_n(&word(move.lane + lane, move.column), columns, kPoison);
  }
  if (observer != nullptr) {
    observer->tensor_uses(
        {TensorUse::Kind::kStore, move.column, columns, move.lane / kWarpSize, false, true},
        location);
  }
  moves_[current->place / kWarpSize].stores.push_back(move);
}

void TensorMemory::wait_loads() {
  Moves& moves = moves_[current->place / kWarpSize];
  for (const Move& move : std::exchange(moves.loads, {})) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      std::memcpy(move.registers[static_cast<std::size_t>(lane)],
                  &word(move.lane + lane, move.column),
                  sizeof(float) * static_cast<std::size_t>(move.columns));
    }
  }
  ++moves.waited;
  if (observer == nullptr) return;
  observer->async_ends(&moves, moves.waited, true);
  observer->tensor_waited(false);
}

void TensorMemory::wait_stores() {
  for (const Move& move : std::exchange(moves_[current->place / kWarpSize].stores, {})) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      std::copy_n(&move.values[static_cast<std::size_t>(lane * move.columns)], move.columns,
                  &word(move.lane + lane, move.column));
    }
  }
  if (observer != nullptr) observer->tensor_waited(true);
}

void TensorMemory::check_end() const {
  for (const Allocation& one : allocations_) {
    note_finding(
        kKind, one.location, {},
        fmt::format("the block ends without tcgen05_dealloc() of these {} columns of tensor "
                    "memory: the next block of the SM may wait for them for ever",
                    one.columns));
  }
  for (const auto& [thread, queue] : queues_) {
    for (const Matmul& matmul : queue.open) {
      note_finding(
          kKind, matmul.location, {},
          "the block ends without a tcgen05_commit() of this thread after this line, so no "
          "thread can wait for it");
    }
    for (const Group& group : queue.groups) {
      for (const Matmul& matmul : group.matmuls) {
        note_finding(kKind, matmul.location, {},
                     "the block ends while this matmul may be in flight: no thread has waited for "
                     "the mbarrier of its tcgen05_commit()");
      }
    }
  }
  for (const auto& [warp, moves] : moves_) {
    for (const auto* list : {&moves.loads, &moves.stores}) {
      for (const Move& move : *list) {
        note_finding(kKind, move.location, {},
                     fmt::format("the block ends without a tcgen05_wait_{}() after this line",
                                 list == &moves.loads ? "ld" : "st"));
      }
    }
  }
}

}  // namespace fa::lab
