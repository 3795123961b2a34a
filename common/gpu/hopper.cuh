/// @file
/// What kernels for the Hopper architecture are written with, beside kernel.cuh: asynchronous
/// copies of whole tiles (the tensor memory accelerator, TMA), barriers that count them (mbarrier),
/// and matmuls that a warpgroup of four warps issues and that read shared memory by themselves
/// (wgmma).
/// Under nvcc they are instructions of sm_90a; elsewhere the lab emulates them on the CPU and
/// reports what a kernel does not wait for.
///
/// Source: NVIDIA, PTX ISA, sections on mbarrier, cp.async.bulk.tensor, wgmma and setmaxnreg.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Threads of a warpgroup: four warps, which wgmma takes together.
constexpr int kWarpgroup = 128;
/// Bytes of a row of a panel, which are swizzled together.
constexpr int kPanelBytes = 128;
/// The same of a narrow panel, which has its own swizzle: for tiles of 32, 96 ... columns.
constexpr int kNarrowPanelBytes = 64;
/// Alignment of a panel in shared memory: the swizzle takes bits of the address.
constexpr int kPanelAlignment = 1024;

/// How long the L2 cache should keep what is read.
enum class CacheHint {
  kEvictNormal,  ///< the default policy
  kEvictLast,    ///< other blocks will read it, too
  kEvictFirst    ///< no other block will read it
};

/// Along which index neighbours of an operand of wgmma are neighbours in memory.
enum class Major {
  kK,   ///< K, which is summed over: as in Q and K of Q K^T
  kMN,  ///< M or N: as in V of P V, whose rows are summed over
};

/// Whether wgmma() is written for so many accumulators of a thread, which are half of the columns.
constexpr bool wgmma_takes(int sums) {
  return (sums % 8 == 0 && sums >= 16 && sums <= 96) || sums == 128;
}

}  // namespace fa::FA_TARGET

#if defined(__CUDACC__)
#include "common/gpu/hopper_cuda.cuh"
#else
#include "common/gpu/hopper_lab.hpp"
#endif

namespace fa::FA_TARGET {

/// Which warpgroup of the block this thread is in. All lanes take part.
__device__ inline int warpgroup_index() {
  return warp_uniform(threadIdx.x / kWarpgroup);
}

/// Where an operand of wgmma lies in shared memory, as the instruction takes it. Its bits: 0 to 13
/// address / 16; 16 to 29 and 32 to 45 two distances / 16; 62 and 63 the swizzle, 1 for panels of
/// 128 bytes and 2 for those of 64.
template <Major layout, int panel_bytes = kPanelBytes>
struct MatrixDescriptor {
  std::uint32_t low;  ///< bits 0 to 31; the others are always the same

  /// As PTX takes them. The second distance is that from 8 rows of a panel to the next 8.
  __device__ std::uint64_t bits() const {
    constexpr std::uint64_t swizzle = panel_bytes == kPanelBytes ? 1 : 2;
    return low | std::uint64_t{8 * panel_bytes >> 4} << 32 | swizzle << 62;
  }
  /// So many bytes further on, a multiple of 16.
  __device__ MatrixDescriptor operator+(int bytes) const {
    return {low + static_cast<std::uint32_t>(bytes >> 4)};
  }
};

/// Describes an operand in swizzled panels. It begins at `shared`: 1024 bytes align a panel, and 32
/// bytes are 16 elements along its rows. `leading` are the bytes from a panel to the next, which
/// only Major::kMN uses.
template <Major layout, int panel_bytes = kPanelBytes>
__device__ MatrixDescriptor<layout, panel_bytes> matrix_descriptor(const void* shared,
                                                                   int leading) {
  return {(shared_address(shared) & 0x3ffff) >> 4 | static_cast<std::uint32_t>(leading >> 4) << 16};
}

/// A tile in shared memory as TMA writes it and wgmma reads it: panels of 64 columns of 16 bits, one
/// after the other; in a panel 128 bytes a row; in a row, 16-byte piece p stands at place
/// p ^ (row % 8). What the last panel has beyond the tile's columns is copied with it.
/// Narrow panels have 64 bytes a row, and piece p stands at place p ^ (row / 2 % 4).
/// @tparam T           half, bfloat16, or e4m3 with twice as many columns in as many bytes
/// @tparam row_count   rows, a multiple of 8
/// @tparam col_count   columns, a multiple of 32 bytes
/// @tparam panel_bytes of a row of a panel: kPanelBytes or kNarrowPanelBytes
template <class T, int row_count, int col_count, int panel_bytes = kPanelBytes>
struct __align__(kPanelAlignment) SwizzledTile {
  /// @{ Of the tile, and of a panel. The last panel may be used in part.
  using Element = T;
  static constexpr int rows = row_count, cols = col_count;
  static constexpr int size = sizeof(T), piece_cols = 16 / size;
  static constexpr int panel_cols = panel_bytes / size;
  static constexpr int panels = (cols + panel_cols - 1) / panel_cols;
  static constexpr int panel_size = rows * panel_cols;  // elements
  static constexpr int bytes = panels * rows * panel_bytes;
  /// @}
  static_assert(size <= 2 && rows % 8 == 0 && cols % (2 * piece_cols) == 0,
                "elements of 16 or 8 bits, whole wgmma instructions");

  T data[panels * panel_size];  ///< use at()

  /// The 16 bytes from a row and a multiple of as many columns on.
  __device__ T* at(int row, int col) {
    constexpr int pieces = panel_bytes / 16;  // of a row
    const int swizzle = row * pieces / 8 % pieces;
    return data + col / panel_cols * panel_size + row * panel_cols +
           ((col % panel_cols) ^ (swizzle * piece_cols));
  }

  /// 16 columns of some rows, of 8 bits 32, summed over columns, as both operands of Q K^T are. The
  /// first row is a multiple of 8, the first column one of 16 or 32.
  __device__ MatrixDescriptor<Major::kK, panel_bytes> by_rows(int row, int col) const {
    return matrix_descriptor<Major::kK, panel_bytes>(data, 0) +
           size * (col / panel_cols * panel_size + row * panel_cols + col % panel_cols);
  }

  /// 16 rows of some columns of 16 bits, summed over rows, as the right operand of P V is. The first
  /// row is a multiple of 16; the first column is that of a panel, or a multiple of 16 where no column
  /// is in the next panel.
  __device__ MatrixDescriptor<Major::kMN, panel_bytes> by_columns(int row, int col) const {
    static_assert(size == 2, "wgmma sums over the columns of both operands of 8 bits");
    return matrix_descriptor<Major::kMN, panel_bytes>(data, 2 * panel_size) +
           2 * (col / panel_cols * panel_size + row * panel_cols + col % panel_cols);
  }
};

/// Begins to load a SwizzledTile, as high as the map's box, from a tensor; what lies outside of the
/// tensor is 0. One thread calls it. The tile begins at (row, col) of a head of a sequence;
/// `barrier` counts Tile::bytes when they have arrived.
template <class Tile>
__device__ void load_tile(Tile& tile, const TensorMap& map, Mbarrier& barrier, int row, int head,
                          int batch, CacheHint hint = CacheHint::kEvictNormal, int col = 0,
                          SourceLocation location = caller_location()) {
#pragma unroll
  for (int panel = 0; panel < Tile::panels; ++panel) {
    tma_load(tile.data + panel * Tile::panel_size, map, barrier, col + panel * Tile::panel_cols,
             row, head, batch, hint, location);
  }
}

/// The same from a matrix, with the tensor_map() of a matrix: the tile begins at (row, col).
template <class Tile>
__device__ void load_tile(Tile& tile, const TensorMap& map, Mbarrier& barrier, int row, int col,
                          SourceLocation location = caller_location()) {
  load_tile(tile, map, barrier, row, 0, 0, CacheHint::kEvictNormal, col, location);
}

/// Begins to write a tile to a tensor; what lies outside the tensor is not written. One thread
/// calls it, and closes the group with bulk_commit().
template <class Tile>
__device__ void store_tile(const TensorMap& map, const Tile& tile, int row, int head, int batch,
                           int col = 0, SourceLocation location = caller_location()) {
#pragma unroll
  for (int panel = 0; panel < Tile::panels; ++panel) {
    tma_store(map, tile.data + panel * Tile::panel_size, col + panel * Tile::panel_cols, row, head,
              batch, location);
  }
}

/// The same to a matrix.
template <class Tile>
__device__ void store_tile(const TensorMap& map, const Tile& tile, int row, int col,
                           SourceLocation location = caller_location()) {
  store_tile(map, tile, row, 0, 0, col, location);
}

/// tma_load_multicast() from a matrix.
__device__ inline void tma_load_multicast(void* shared, const TensorMap& map, Mbarrier& barrier,
                                          int col, int row, unsigned blocks,
                                          SourceLocation location = caller_location()) {
  tma_load_multicast(shared, map, barrier, col, row, 0, 0, blocks, location);
}

/// A stage of a circular buffer, and the phase of its barriers: how often the buffer has wrapped,
/// modulo 2.
template <int stages>
struct PipelineState {
  int stage = 0;   ///< which one
  int parity = 0;  ///< of the rounds so far

  /// To the next one.
  __device__ void advance() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Two barriers for each stage of a circular buffer: the producer waits until a stage is empty and
/// fills it, consumers wait until it is full and release it. The names are CUTLASS's.
template <int stages>
struct Pipeline {
  Mbarrier full[stages];   ///< a stage's bytes have arrived
  Mbarrier empty[stages];  ///< all consumers are done with it

  /// One thread calls it before others use the barriers: fence_barrier_init() and __syncthreads()
  /// follow. So many consumers call consumer_release() for each stage.
  __device__ void init(int consumers, SourceLocation location = caller_location()) {
    for (int i = 0; i < stages; ++i) {
      full[i].init(1, location);
      empty[i].init(consumers, location);
    }
  }
  /// Producer: waits until a stage is empty, and expects so many bytes. The producer's state begins
  /// as a consumer's does: the phase is flipped here.
  /// @return the barrier that copies report to, CUTLASS's producer_get_barrier()
  __device__ Mbarrier& producer_acquire(const PipelineState<stages>& at, int bytes,
                                        SourceLocation location = caller_location()) {
    const int before = at.parity ^ 1;  // all are empty at the beginning
    empty[at.stage].wait(before, location);
    full[at.stage].arrive_and_expect(bytes, location);
    return full[at.stage];
  }
  /// Consumer: waits until a stage's bytes have arrived.
  __device__ void consumer_wait(const PipelineState<stages>& at,
                                SourceLocation location = caller_location()) {
    full[at.stage].wait(at.parity, location);
  }
  /// Consumer: is done with a stage.
  __device__ void consumer_release(const PipelineState<stages>& at,
                                   SourceLocation location = caller_location()) {
    empty[at.stage].arrive(location);
  }
};

}  // namespace fa::FA_TARGET
