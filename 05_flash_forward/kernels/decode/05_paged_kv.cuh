/// @file
/// Paged K and V: the keys and values of a sequence lie in pages of a cache, and a block table says
/// in which. A tile is copied in pieces of 8 or 16 rows, each of them in one page; the pages of the
/// next tile are looked up while the last ones are in flight.
///
/// Source: Kwon et al., Efficient memory management for large language model serving with
/// PagedAttention, SOSP 2023.
#pragma once

#include "05_flash_forward/kernels/decode/04_even_tiles.cuh"

namespace fa::FA_TARGET {

/// Tokens of a page: a multiple of this, so that a piece of a tile lies in one page.
constexpr int kPageMultiple = 16;

/// Where the pages of each sequence are.
struct PagedKv {
  const int* block_table;  ///< [batch, most_pages]: indices of pages
  int most_pages;          ///< of a sequence
  int cache_pages;         ///< in the cache
  int page_size;           ///< tokens, a multiple of kPageMultiple
};

/// Rows of a tile that all threads copy at once: a piece.
template <int d>
constexpr int kPieceRows = DecodeTile<d, 1>::threads * 8 / d;

/// Where the first row of a piece is.
struct PagePiece {
  int page;
  int token;  ///< in the page
};

/// Piece `lane` of a tile: the lanes of a warp look up all pieces. Its page is in the cache even
/// where the table has another index, and it is page 0 beyond the last key.
//! [find_piece]
template <int d>
__device__ PagePiece find_piece(const PagedKv& pages, int batch, int tile,
                                int length_k) {
  constexpr int keys = DecodeTile<d, 1>::block_n;
  const int lane = threadIdx.x % kWarp;
  const int key = tile * keys + lane * kPieceRows<d>;
  if (lane >= keys / kPieceRows<d> || key >= length_k) return {0, 0};
  const int page = pages.block_table[std::int64_t{batch} * pages.most_pages +
                                     key / pages.page_size];
  return {page >= 0 && page < pages.cache_pages ? page : 0,
          key % pages.page_size};
}
//! [find_piece]

/// Issues copies of a tile's rows of K and V from their pages; see copy_rows_async().
/// @param k     of this head in the first page, as v
/// @param piece of find_piece() for this tile
//! [copy_pieces]
template <class Tile, class T>
__device__ void copy_pieces_async(T* k_tile, T* v_tile, const T* k,
                                  const T* v, const Attention<T>& a,
                                  const PagePiece& piece, int key0,
                                  int length_k) {
  constexpr int d = Tile::d, rows = kPieceRows<d>;
  const int row = threadIdx.x / (d / 8), col = threadIdx.x % (d / 8) * 8;
#pragma unroll
  for (int i = 0; i < Tile::block_n / rows; ++i) {
    const std::int64_t page = __shfl_sync(kAllLanes, piece.page, i);
    const int token = __shfl_sync(kAllLanes, piece.token, i) + row;
    const int to = swizzled<d>(i * rows + row, col);
    const bool inside = key0 + i * rows + row < length_k && col < a.head_dim;
    cp_async16(k_tile + to,
               k + page * a.k_strides.batch + token * a.k_strides.row + col,
               inside);
    cp_async16(v_tile + to,
               v + page * a.v_strides.batch + token * a.v_strides.row + col,
               inside);
  }
}
//! [copy_pieces]

/// Attention of tiles of several items.
/// @tparam Tile a DecodeTile
/// @tparam T    half or bfloat16
/// @param a         k and v are the cache: k_strides.batch is from a page to the next
/// @param lengths_k keys of each sequence, at most a.length_k; null: all have a.length_k
/// @param states    for two parts of a tile of rows for each block
//! [paged_kv]
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, kDecodeBlocks)
    decode_paged_kv(Attention<T> a, const int* lengths_k, PagedKv pages,
                    SplitStates states, unsigned* counters) {
  attend_to_list<Tile>(
      a, lengths_k, states, counters,
      [&](const Attention<T>& own, const DecodeItem& item,
          const StridedTiles& tiles) {
        const auto find = [&](int tile) {
          return find_piece<Tile::d>(pages, item.batch, tile, own.length_k);
        };
        const T* const k = a.k + item.kv_head * a.k_strides.head;
        const T* const v = a.v + item.kv_head * a.v_strides.head;
        PagePiece piece =
            find(tiles.begin);  // of the next tile that is loaded
        attend_to_tiles<Tile>(
            own, item, tiles, [&](int tile, T* k_tile, T* v_tile) {
              copy_pieces_async<Tile>(k_tile, v_tile, k, v, a, piece,
                                      tile * Tile::block_n, own.length_k);
              piece = find(tile + 1);
            });
      });
}
//! [paged_kv]

/// Launches the kernel.
/// @param a         as launch_even_tiles() has it, but k and v are the cache: k_strides.batch is
///                  from a page to the next
/// @param lengths_k in the memory of the device: keys of each sequence; null: all have length_k,
///                  for which the table must have pages
/// @param workspace of even_tiles_workspace(), with counters that are 0
/// @throws std::invalid_argument for a page_size that is not a multiple of kPageMultiple, and for
///   fewer pages in the table than length_k needs
//! [launch]
template <int d, class T>
void launch_paged_kv(const Attention<T>& a, const int* lengths_k,
                     const PagedKv& pages, const Stream& stream,
                     const DecodeWorkspace& workspace) {
  if (pages.page_size < 1 || pages.page_size % kPageMultiple != 0) {
    throw std::invalid_argument(
        fmt::format("page_size is {}; allowed are multiples of {}",
                    pages.page_size, kPageMultiple));
  }
  if (std::int64_t{pages.most_pages} * pages.page_size < a.length_k) {
    throw std::invalid_argument(fmt::format(
        "a block table with {} pages of {} tokens for a sequence, and {} "
        "keys; it must have {} pages",
        pages.most_pages, pages.page_size, a.length_k,
        ceil_div(a.length_k, pages.page_size)));
  }
  with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    // With one on each SM pages of 16 tokens were read a sixth slower.
    const int blocks = even_blocks(a, kDecodeBlocks);
    launch(stream, decode_paged_kv<Tile, T>,
           {{static_cast<unsigned>(blocks)},
            {Tile::threads},
            decode_bytes<Tile, T>(),
            Tile::stages},
           a, lengths_k, pages,
           states_at(workspace.states, 2 * blocks, Tile::block_m, d),
           workspace.counters);
  });
}
//! [launch]

}  // namespace fa::FA_TARGET
