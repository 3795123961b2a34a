/// @file
/// The functions of hopper.cuh in the lab. Include hopper.cuh, not this file.
#pragma once

#include <type_traits>

#include "common/lab/async.hpp"

namespace fa::FA_TARGET {

using TensorMap = lab::TensorBox;
struct RaggedMap {
  TensorMap map;
};
constexpr int kRaggedRows = 1 << 30;

template <class T>
T* peer_shared(T* pointer, int rank, SourceLocation location = caller_location()) {
  return static_cast<T*>(lab::peer_shared(pointer, rank, location));
}
inline int cluster_rank() {
  return lab::current->rank;
}
inline void cluster_arrive(SourceLocation location = caller_location()) {
  lab::arrive_at_cluster(location);
}
inline void cluster_wait(SourceLocation location = caller_location()) {
  lab::wait_at_cluster(location);
}

/// The lab knows its state by its address.
class Mbarrier {
 public:
  void init(int arrivals, SourceLocation location = caller_location()) {
    lab::init_barrier(this, arrivals, location);
  }
  void arrive(SourceLocation location = caller_location()) {
    lab::arrive_at_barrier(this, 0, location);
  }
  void arrive_at_peer(int rank, SourceLocation location = caller_location()) {
    lab::arrive_at_barrier(lab::peer_shared(this, rank, location), 0, location);
  }
  void arrive_and_expect(int bytes, SourceLocation location = caller_location()) {
    lab::arrive_at_barrier(this, bytes, location);
  }
  void wait(int parity, SourceLocation location = caller_location()) {
    lab::wait_at_barrier(this, parity, location);
  }
  std::uint32_t address() const { return lab::shared_offset(this); }

 private:
  [[maybe_unused]] std::uint64_t state_;
};
static_assert(sizeof(Mbarrier) == 8, "as on a GPU");

inline std::uint32_t shared_address(const void* pointer,
                                    SourceLocation location = caller_location()) {
  return lab::operand_offset(pointer, location);
}

inline void fence_barrier_init() {
  lab::fence_barriers();
}
inline void fence_async_proxy() {
  lab::fence_async();
}
inline void fence_async_proxy_global() {
  lab::fence_async_global();
}

inline void named_barrier_wait(int id, int threads, SourceLocation location = caller_location()) {
  lab::named_barrier(id, threads, true, location);
}
inline void named_barrier_arrive(int id, int threads, SourceLocation location = caller_location()) {
  lab::named_barrier(id, threads, false, location);
}

template <int registers>
void setmaxnreg_dec(SourceLocation location = caller_location()) {
  lab::set_registers(registers, location);
}
template <int registers>
void setmaxnreg_inc(SourceLocation location = caller_location()) {
  lab::set_registers(registers, location);
}

/// A copy of a box, which begins at an index of each of its sizes.
inline lab::BulkCopy box_copy(lab::BulkCopy::Kind kind, const void* shared, const TensorMap& map,
                              const std::array<std::int64_t, 5>& at,
                              const SourceLocation& location) {
  auto* begin = static_cast<std::byte*>(const_cast<void*>(shared));
  return {kind, begin, map.bytes(), nullptr, map, at, location};
}
/// A copy of bytes between shared memory and another place.
inline lab::BulkCopy bytes_copy(lab::BulkCopy::Kind kind, const void* shared, const void* other,
                                int bytes, const SourceLocation& location) {
  return {kind,
          static_cast<std::byte*>(const_cast<void*>(shared)),
          static_cast<std::size_t>(bytes),
          static_cast<std::byte*>(const_cast<void*>(other)),
          {},
          {},
          location};
}
inline void tma_load(void* shared, const TensorMap& map, Mbarrier& barrier, int col, int row,
                     int head, int batch, CacheHint, SourceLocation location = caller_location()) {
  lab::begin_load(
      box_copy(lab::BulkCopy::Kind::kLoadBox, shared, map, {0, batch, head, row, col}, location),
      &barrier);
}
inline void tma_load(void* shared, const RaggedMap& map, Mbarrier& barrier, int col, int row,
                     int head, int end, CacheHint, SourceLocation location = caller_location()) {
  lab::begin_load(box_copy(lab::BulkCopy::Kind::kLoadBox, shared, map.map,
                           {kRaggedRows, end, head, row, col}, location),
                  &barrier);
}
inline void tma_load_multicast(void* shared, const TensorMap& map, Mbarrier& barrier, int col,
                               int row, int head, int batch, unsigned blocks,
                               SourceLocation location = caller_location()) {
  lab::begin_multicast(
      box_copy(lab::BulkCopy::Kind::kLoadBox, shared, map, {0, batch, head, row, col}, location),
      &barrier, blocks);
}
inline void bulk_copy_to_peer(void* to, const void* from, int bytes, Mbarrier& barrier, int rank,
                              SourceLocation location = caller_location()) {
  lab::begin_multicast(bytes_copy(lab::BulkCopy::Kind::kPeerBytes, to, from, bytes, location),
                       &barrier, 1u << rank);
}
inline void bulk_load(void* shared, const void* global, int bytes, Mbarrier& barrier,
                      SourceLocation location = caller_location()) {
  lab::begin_load(bytes_copy(lab::BulkCopy::Kind::kLoadBytes, shared, global, bytes, location),
                  &barrier);
}
inline void tma_store(const TensorMap& map, const void* shared, int col, int row, int head,
                      int batch, SourceLocation location = caller_location()) {
  lab::begin_store(
      box_copy(lab::BulkCopy::Kind::kStoreBox, shared, map, {0, batch, head, row, col}, location));
}
inline void tma_store(const RaggedMap& map, const void* shared, int col, int row, int head, int end,
                      SourceLocation location = caller_location()) {
  lab::begin_store(box_copy(lab::BulkCopy::Kind::kStoreBox, shared, map.map,
                            {kRaggedRows, end, head, row, col}, location));
}
inline void bulk_store(float* global, const float* shared, int bytes,
                       SourceLocation location = caller_location()) {
  lab::begin_store(bytes_copy(lab::BulkCopy::Kind::kStoreFloats, shared, global, bytes, location));
}
inline void bulk_add(float* global, const float* shared, int bytes,
                     SourceLocation location = caller_location()) {
  lab::begin_store(bytes_copy(lab::BulkCopy::Kind::kAddFloats, shared, global, bytes, location));
}
inline void bulk_commit() {
  lab::commit_stores();
}
template <int pending>
void bulk_wait_read() {
  lab::wait_stores(pending, false);
}
template <int pending>
void bulk_wait() {
  lab::wait_stores(pending, true);
}
inline void prefetch_map(const TensorMap&) {}

/// Both forms of stmatrix. To the observer each lane writes the row that it names.
template <bool transposed>
FA_UNWATCHED void store_matrices(void* row, const std::uint32_t (&r)[4],
                                 const SourceLocation& location) {
  lab::note_access(row, 16, true, location);
  struct Pairs {
    std::uint16_t of[4][2];  // matrix, element
  } own;
  std::memcpy(&own, r, sizeof own);
  const WarpExchange<Pairs> pairs(own, location);
  const int lane = lab::current->lane, matrix = lane / 8, i = lane % 8;
  std::uint16_t elements[8];
  for (int j = 0; j < 8; ++j) {
    const int from = transposed ? 4 * j + i / 2 : 4 * i + j / 2;
    elements[j] = pairs.of_lane(from).of[matrix][transposed ? i % 2 : j % 2];
  }
  std::memcpy(row, elements, sizeof elements);
}
inline void stmatrix_x4(void* row, const std::uint32_t (&r)[4],
                        SourceLocation location = caller_location()) {
  store_matrices<false>(row, r, location);
}
inline void stmatrix_x4_transposed(void* row, const std::uint32_t (&r)[4],
                                   SourceLocation location = caller_location()) {
  store_matrices<true>(row, r, location);
}

/// The lab's compiler moves nothing over a call that may write the registers.
template <class R, int n>
void fence_operand(R (&)[n]) {}

template <class T>
void fence_address(T*&) {}

template <class... Registers>
void wgmma_fence(Registers&... registers) {
  (lab::fence_registers(registers), ...);
}
template <class... Registers>
void wgmma_commit(Registers&...) {
  lab::commit_wgmma();
}
template <int pending, class... Registers>
void wgmma_wait(Registers&...) {
  lab::wait_wgmma(pending);
}

template <Major, int>
struct MatrixDescriptor;

/// What the lab calls a type of elements.
template <class T>
constexpr lab::WgmmaType kWgmmaType = std::is_same_v<T, half>       ? lab::WgmmaType::kHalf
                                      : std::is_same_v<T, bfloat16> ? lab::WgmmaType::kBFloat16
                                                                    : lab::WgmmaType::kE4m3;

template <class T, int r, Major major_a, int panel_a, Major major_b, int panel_b>
void wgmma(float (&d)[r], const MatrixDescriptor<major_a, panel_a>& a,
           const MatrixDescriptor<major_b, panel_b>& b, bool adds,
           SourceLocation location = caller_location()) {
  static_assert(wgmma_takes(r), "32 to 192 columns by 16, or 256");
  lab::begin_wgmma({r, kWgmmaType<T>, major_a == Major::kMN, major_b == Major::kMN, adds, false,
                    a.bits(), b.bits()},
                   {d, nullptr}, location);
}
template <class T, int r, Major major_b, int panel_b>
void wgmma(float (&d)[r], const std::uint32_t (&a)[4], const MatrixDescriptor<major_b, panel_b>& b,
           bool adds, SourceLocation location = caller_location()) {
  static_assert(wgmma_takes(r), "32 to 192 columns by 16, or 256");
  lab::begin_wgmma({r, kWgmmaType<T>, false, major_b == Major::kMN, adds, false, 0, b.bits()},
                   {d, a}, location);
}

}  // namespace fa::FA_TARGET
