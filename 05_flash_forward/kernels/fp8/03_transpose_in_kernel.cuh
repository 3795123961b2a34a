/// @file
/// V transposed in the kernel: TMA loads it as it lies, and two warps of the producer transpose each
/// tile in shared memory. Nothing runs ahead of attention, and V^T takes no global memory; but each
/// block of queries transposes V for itself.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, section 3.3.
#pragma once

#include "05_flash_forward/kernels/fp8/01_e4m3.cuh"

namespace fa::FA_TARGET {

/// The tiles of 01_e4m3, for registers and stages of this kernel.
template <int d>
struct TransposingTile : Fp8TileFor<d, false> {
  // V as TMA loads it; 64 columns in narrow panels, which have no gaps.
  static constexpr int raw_panel_bytes =
      d == 64 ? kNarrowPanelBytes : kPanelBytes;
  using RawTile =
      SwizzledTile<e4m3, TransposingTile::block_n, d, raw_panel_bytes>;
};
template <int d>
struct TilePv<TransposingTile<d>> : TilePv<Fp8TileFor<d, false>> {};

/// @{ As in 01_e4m3.
template <>
constexpr int kProducerRegisters<TransposingTile<256>> = 24;
template <>
constexpr int kConsumerRegisters<TransposingTile<256>> = 240;
/// @}

/// The warps of the producer's warpgroup that transpose are its last two.
constexpr int kTransposingThreads = 64;
/// Their named barrier, the last one.
constexpr int kTransposingBarrier = 15;

/// Shared memory of a block: V has stages as it lies, too.
template <class Tile>
struct TransposingShared : PersistentShared<Tile> {
  typename Tile::RawTile raw[Tile::stages];
  Pipeline<Tile::stages> raw_pipe;  // from TMA to the warps that transpose
};

/// Initialises a block's barriers; all threads call it.
template <class Tile>
__device__ void init_barriers(TransposingShared<Tile>& shared) {
  if (threadIdx.x == 0) shared.raw_pipe.init(1);
  init_barriers<Tile>(shared, 1 + kTransposingThreads / kWarp);
}

/// Loads a tile of V as it lies.
template <int d, class Tile = TransposingTile<d>>
__device__ void load_v(PersistentShared<TransposingTile<d>>& shared,
                       const TransposedMap& v,
                       const PipelineState<Tile::stages>& write, int key0,
                       int kv_head, int batch) {
  auto& own = static_cast<TransposingShared<Tile>&>(shared);
  load_tile(own.raw[write.stage], v.map,
            own.raw_pipe.producer_acquire(write, Tile::RawTile::bytes), key0,
            kv_head, batch, CacheHint::kEvictLast);
}

/// Transposes a tile, with the keys in the order of key_at().
/// ldmatrix moves pairs of bytes. Transposed, lane 4 g + t has of 8 keys columns 2 g and 2 g + 1 of
/// keys 2 t and 2 t + 1: of 16 keys what places 4 t to 4 t + 3 of two rows of V^T need.
//! [transpose_tile]
template <class To, class From>
__device__ void transpose_tile(To& to, From& from) {
  const int thread = threadIdx.x % kTransposingThreads;
  const int matrix = thread / 8, row = thread % 8;
  // Bytes 0, 2 of both words are of the even column, bytes 1, 3 of the odd
  // one. Half of the lanes begin with the even column, the others with the
  // odd one: so stmatrix has no bank conflicts.
  const bool even = thread % kWarp < kWarp / 2;
  const std::uint32_t first = even ? 0x6420 : 0x7531;
  const std::uint32_t second = first ^ 0x1111;
  const int to_row = 2 * row + (row / 4 ^ matrix % 2);
#pragma unroll 1
  for (int col = 0; col < From::cols; col += 16) {
#pragma unroll
    for (int key = 0; key < From::rows; key += kTransposingThreads) {
      std::uint32_t v_frag[4], transposed[4];
      ldmatrix_x4_transposed(v_frag, from.at(key + thread, col));
#pragma unroll
      for (int i = 0; i < 4; i += 2) {  // 16 keys
        transposed[i] = __byte_perm(v_frag[i], v_frag[i + 1], first);
        transposed[i + 1] = __byte_perm(v_frag[i], v_frag[i + 1], second);
      }
      stmatrix_x4(to.at(col + to_row, key + matrix / 2 * 16), transposed);
    }
  }
}
//! [transpose_tile]

/// The loop of the warps that transpose.
template <class Tile>
__device__ void transpose_tiles(TransposingShared<Tile>& shared,
                                const Fp8Attention& a) {
  PipelineState<1> read;
  PipelineState<Tile::stages> at;  // of V, and of V^T
  WorkTile work;
  for (; next_work_tile(shared, read, work); read.parity ^= 1) {
    // The count stands above the parity: with 256 columns the producer has no
    // register for it.
    read.parity += 2 * loaded_tiles<Tile>(a, work.block);
    for (; read.parity > 1; read.parity -= 2) {
      shared.raw_pipe.consumer_wait(at);
      shared.v_pipe.empty[at.stage].wait(at.parity ^ 1);
      transpose_tile(shared.v[at.stage], shared.raw[at.stage]);
      fence_async_proxy();  // wgmma sees what this thread wrote
      named_barrier_wait(kTransposingBarrier, kTransposingThreads);
      if (threadIdx.x % kTransposingThreads == 0) {
        shared.raw_pipe.consumer_release(at);
        shared.v_pipe.full[at.stage].arrive();
      }
      at.advance();
    }
  }
}

/// Attention in 8 bits with V as it lies, in flash_hopper().
struct TransposingWork : Fp8Work {
  /// @{ As ForwardWork has it.
  template <class Tile>
  using Shared = TransposingShared<Tile>;
  template <class Tile>
  __device__ void produce(TransposingShared<Tile>& shared) const {
    if (threadIdx.x % kWarpgroup >= 2 * kWarp) {
      return transpose_tiles(shared, all.a);
    }
    ForwardWork::produce(shared);
  }
  /// @}
};

/// Launches the kernel.
/// @tparam d            64, 128 or 256 columns, at least head_dim
/// @param  tile_counter as in launch_forward()
/// @throws as fp8_maps()
template <int d>
void launch_fp8_transposing(const Fp8Attention& a, const Stream& stream,
                            unsigned* tile_counter) {
  using Tile = TransposingTile<d>;
  const RowStrides& strides = a.v_strides;
  const Fp8Maps maps = fp8_maps<Tile>(
      a, tensor_map(a.v8, {a.batch, a.kv_heads, a.length_k, a.head_dim},
                    {strides.batch, strides.head, strides.row}, Tile::block_n,
                    Tile::raw_panel_bytes));
  const TileScheduler scheduler = tile_scheduler(a, Tile::block_m);
  launch_hopper<Tile>(stream, persistent_blocks(scheduler),
                      TransposingWork{{{{}, maps, scheduler, tile_counter}}});
}

FA_LAUNCH(fp8, launch_fp8_transposing<64>(const Fp8Attention&, const Stream&,
                                          unsigned*));
FA_LAUNCH(fp8, launch_fp8_transposing<128>(const Fp8Attention&, const Stream&,
                                           unsigned*));
FA_LAUNCH(fp8, launch_fp8_transposing<256>(const Fp8Attention&, const Stream&,
                                           unsigned*));

FA_STEP_ROW(fp8, 3) {
  return fp8_row<false>(row("03_transpose_in_kernel",
                            "V transposed in shared memory", bfloat16{}))
      .tile_counter()
      .launch([](auto& a, auto d, auto& stream, unsigned* tile_counter) {
        launch_fp8_transposing<d>(a, stream, tile_counter);
      });
}

}  // namespace fa::FA_TARGET
