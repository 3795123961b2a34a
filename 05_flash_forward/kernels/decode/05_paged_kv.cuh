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

/// Attention of tiles of several items. Blocks beyond those with work return.
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
  constexpr int d = Tile::d, stages = Tile::stages, keys = Tile::block_n;
  using Warp = typename Tile::Warp;
  T* const k_smem = dynamic_shared<T>();
  T* const v_smem = k_smem + stages * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp,
            warp = thread / kWarp;
  const int warp_key = warp / Tile::row_warps * Warp::block_n;
  const float exponent_scale = a.scale * kLog2E;
  //! [own_tiles]
  const TileList<Tile, T> list{a, lengths_k};
  const int total = list.total(), most = ceil_div(total, kLeastTiles);
  const int all_blocks = static_cast<int>(gridDim.x);
  const EvenTiles even{total, most < all_blocks ? most : all_blocks};
  const int block = static_cast<int>(blockIdx.x);
  if (block >= even.blocks) return;
  int place = even.begin(block);
  const int end_of_block = even.begin(block + 1);
  SequenceTiles sequence = list.sequence_at(place);
  //! [own_tiles]
  while (place < end_of_block) {
    //! [item]
    const int index = (place - sequence.first) / sequence.tiles;
    const int first = sequence.first + index * sequence.tiles;
    const DecodeItem item{sequence.batch, index % a.kv_heads,
                          index / a.kv_heads * Tile::block_m};
    const int begin = place - first;
    const int end = sequence.tiles < end_of_block - first
                        ? sequence.tiles
                        : end_of_block - first;
    //! [item]
    Attention<T> own = a;  // this sequence
    own.length_k = sequence.keys;
    const int warp_row = item.row0 + warp % Tile::row_warps * 16;
    const int unmasked = visible_keys(own, query_of_row(a, item.row0)) / keys;
    const T* const k = a.k + item.kv_head * a.k_strides.head;
    const T* const v = a.v + item.kv_head * a.v_strides.head;
    //! [load]
    // This lane's piece of the next tile that is loaded.
    PagePiece piece = find_piece<d>(pages, item.batch, begin, own.length_k);
    const auto load = [&](int tile) {
      if (tile < end) {
        const int at = (tile - begin) % stages * Tile::kv_size;
        copy_pieces_async<Tile>(k_smem + at, v_smem + at, k, v, a, piece,
                                tile * keys, own.length_k);
        piece = find_piece<d>(pages, item.batch, tile + 1, own.length_k);
      }
      cp_async_commit();  // an empty group counts, too
    };
    //! [load]
#pragma unroll
    for (int i = 0; i < stages - 1; ++i) load(begin + i);
    std::uint32_t q[d / 16][4];
    load_q_fragments<d>(q, a, item, warp_row, lane);
    Accumulators<Warp, d> o = {};
    WarpRowState<Warp> state;
    init_row_state(state);
    const auto step = [&](int tile, auto edge) {
      constexpr bool masked = decltype(edge)::value;
      cp_async_wait<stages - 2>();
      __syncthreads();  // this tile has arrived, no warp reads the last one
      load(tile + stages - 1);
      const int at = (tile - begin) % stages * Tile::kv_size + warp_key * d;
      Accumulators<Warp, Warp::block_n> s = {};
      // S = Q K^T
      multiply_fragments_k<d>(s, q, k_smem + at, lane);
      if constexpr (masked) {
        mask_rows(s, own, warp_row, tile * keys + warp_key, lane);
      }
      // P = exp2(scale (S - m))
      softmax_step_base_2<Warp, masked>(s, o, state, exponent_scale);
      // O += P V
      multiply_p_v<d>(o, s, v_smem + at, lane);
    };
    int tile = begin;
    for (; tile < end && tile < unmasked; ++tile) {
      step(tile, std::false_type{});
    }
    for (; tile < end; ++tile) step(tile, std::true_type{});
    __syncthreads();  // no warp reads the tiles, whose place states take
    store_warp_state<Tile>(o, state, lane);
    __syncthreads();  // the states are complete
    //! [merge]
    const bool is_whole = begin == 0 && end == sequence.tiles;
    for_rows_of_warp<Tile>(a, item, [&](int row, int query, int head) {
      const auto merged =
          merge_row<d>(warp_states<Tile>(), Tile::key_warps, row,
                       exponent_scale, [](int i) { return i; });
      if (is_whole) {
        store_output(a, item.batch, head, query, merged);
      } else {
        store_state(states, even.slot(block, first), row, merged);
      }
    });
    if (!is_whole) {
      const int first_block = even.block_of(first);
      const int parts =
          even.block_of(first + sequence.tiles - 1) - first_block + 1;
      if (last_to_arrive(counters + item.batch * list.items() + index,
                         parts)) {
        for_rows_of_warp<Tile>(a, item, [&](int row, int query, int head) {
          store_output(
              a, item.batch, head, query,
              merge_row<d>(states, parts, row, exponent_scale, [&](int part) {
                return even.slot(first_block + part, first);
              }));
        });
      }
    }
    __syncthreads();  // no warp reads the states, whose place tiles take
    //! [merge]
    place = first + end;
    if (place < end_of_block && index + 1 == list.items()) {
      sequence = list.sequence(sequence.batch + 1);
      sequence.first = place;
    }
  }
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
    const int blocks = even_blocks();
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
