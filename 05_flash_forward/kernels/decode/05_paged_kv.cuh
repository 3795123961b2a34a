/// @file
/// Paged K and V: the keys and values of a sequence lie in pages of a cache, and a block table, or
/// page table, says in which. A tile is copied in runs of 16 rows, each of them in one page; the
/// lanes of a warp look up the runs of eight tiles at once, at least eight tiles ahead.
///
/// Source: Kwon et al., Efficient memory management for large language model serving with
/// PagedAttention, SOSP 2023.
#pragma once

#include "05_flash_forward/kernels/decode/04_even_tiles.cuh"

namespace fa::FA_TARGET {

/// Tokens of a page: a multiple of this, so that a run of so many rows of a tile lies in one page.
constexpr int kPageMultiple = 16;

/// Where the pages of each sequence are.
struct PagedKv {
  const int* block_table;  ///< [batch, most_pages]: indices of pages
  int most_pages;          ///< of a sequence
  int cache_pages;         ///< in the cache
  int page_size;           ///< tokens, a multiple of kPageMultiple
};

/// Runs of a tile.
template <class Tile>
constexpr int kRunsOfTile = Tile::block_n / kPageMultiple;
/// Tiles whose runs the lanes of a warp look up at once.
template <class Tile>
constexpr int kTilesLookedUp = kWarp / kRunsOfTile<Tile>;

/// Where the first row of a run is.
struct PageRun {
  int page;
  int token;  ///< in the page
};

/// The lane's run, counted from the first one of a tile. Its page is in the cache even where the
/// table has another index, and it is page 0 beyond the last key.
template <class Tile>
__device__ PageRun find_run(const PagedKv& pages, int batch, int tile,
                            int length_k) {
  const int key = tile * Tile::block_n +
                  static_cast<int>(threadIdx.x % kWarp) * kPageMultiple;
  if (key >= length_k) return {0, 0};
  const int page = pages.block_table[std::int64_t{batch} * pages.most_pages +
                                     key / pages.page_size];
  return {page >= 0 && page < pages.cache_pages ? page : 0,
          key % pages.page_size};
}

/// Issues copies of a tile's rows of K, or of V, from their pages; see copy_keys_async().
/// @param rows       of this head in the first page
/// @param run        of find_run()
/// @param first_lane which has the tile's first run
/// @param before     keys of the tile that come before the first one
/// @param keys       of the sequence from the tile on
template <class Tile, class T>
__device__ void copy_runs_async(T* tile, const T* rows,
                                const RowStrides& strides, int head_dim,
                                const PageRun& run, int first_lane,
                                int before, int keys) {
#pragma unroll
  for (int i = 0; i < kRunsOfTile<Tile>; ++i) {
    const std::int64_t page =
        __shfl_sync(kAllLanes, run.page, first_lane + i);
    const int token = __shfl_sync(kAllLanes, run.token, first_lane + i);
    const int row0 = i * kPageMultiple;
    copy_keys_async<Tile, kPageMultiple>(
        tile + row0 * Tile::d,
        rows + page * strides.batch + token * strides.row, strides.row, 0,
        before - row0, keys - row0, head_dim);
  }
}

/// Attention of tiles of several items.
/// @tparam Tile a DecodeTile
/// @tparam T    half or bfloat16
/// @param a         k and v are the cache: k_strides.batch is from a page to the next
/// @param lengths_k keys of each sequence, at most a.length_k; null: all have a.length_k
/// @param states    for two parts of a tile of rows for each block
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, kDecodeBlocks)
    decode_paged_kv(DecodeAttention<T> a, const int* lengths_k, PagedKv pages,
                    SplitStates states, unsigned* counters) {
  attend_to_list<Tile>(
      a, lengths_k, states, counters,
      [&](const DecodeAttention<T>& own, const DecodeItem& item,
          const StridedTiles& tiles) {
        constexpr int group = kTilesLookedUp<Tile>;
        const auto find = [&](int tile) {
          return find_run<Tile>(pages, item.batch, tile, own.length_k);
        };
        //! [copies_from_pages]
        // This head in the cache
        const T* const k = a.k + item.kv_head * a.k_strides.head;
        const T* const v = a.v + item.kv_head * a.v_strides.head;
        // 1: the first two look-ups
        PageRun run = find(tiles.begin), next = find(tiles.begin + group);
        attend_to_tiles<Tile>(
            own, item, tiles, [&](int tile, T* k_tile, T* v_tile) {
              // The four lanes of the tile begin with this one.
              const int in_group = (tile - tiles.begin) % group;
              const int lane = in_group * kRunsOfTile<Tile>;
              // Zeros after the last key and, with windows, before the first
              const int before = own.first_key - tile * Tile::block_n;
              const int keys = own.length_k - tile * Tile::block_n;
              copy_runs_async<Tile>(k_tile, k, a.k_strides, a.head_dim, run,
                                    lane, before, keys);
              copy_runs_async<Tile>(v_tile, v, a.v_strides, a.head_dim, run,
                                    lane, before, keys);
              if (in_group + 1 < group) return;
              // 2: the last of eight tiles has been issued
              run = next;
              next = find(tile + 1 + group);
            });
        //! [copies_from_pages]
      });
}

/// Launches the kernel.
/// @param a         as launch_even_tiles() has it, but k and v are the cache: k_strides.batch is
///                  from a page to the next
/// @param lengths_k in the memory of the device: keys of each sequence; null: all have length_k,
///                  for which the table must have pages
/// @param workspace of even_tiles_workspace(), with counters that are 0
/// @throws std::invalid_argument for a page_size that is not a multiple of kPageMultiple, and for
///   fewer pages in the table than length_k needs
template <int d, class T>
void launch_paged_kv(const DecodeAttention<T>& a, const int* lengths_k,
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
           {static_cast<unsigned>(blocks), Tile::threads,
            decode_bytes<Tile, T>(), Tile::stages},
           a, lengths_k, pages,
           states_at(workspace.states, even_tiles_slots<Tile>(a, blocks),
                     Tile::block_m, d),
           workspace.counters);
  });
}

FA_LAUNCH_16_BIT(decode, DecodeAttention,
                 (const int*, const PagedKv&, const Stream&,
                  const DecodeWorkspace&),
                 launch_paged_kv, (64), (128));

FA_STEP_ROW(decode, 5) {
  return row.paged()("05_paged_kv", "block table", half{}, bfloat16{})
      .needs(kNeedsMma)
      .no_dropout()
      .head_dims(HeadDims<64, 128>{})
      .tile(16, 64, 0, 3, 64)
      .tile(16, 64, 0, 3, 128)
      .shared_bytes(
          [](auto d) { return decode_bytes<DecodeTile<d, 1>, half>(); })
      .lengths()
      .floats([](const auto& a, auto d) {
        return even_tiles_workspace<d>(a).states;
      })
      .zeros([](const auto& a, auto d) {
        return even_tiles_workspace<d>(a).counters;
      })
      .launch([](auto& a, auto d, auto& stream, float* states,
                 unsigned* counters) {
        launch_paged_kv<d>(a, a.lengths_k, a.pages, stream,
                           {states, counters});
      });
}

}  // namespace fa::FA_TARGET
