/// @file
/// Lengths from the memory of the device, and the same number of tiles for each block. The tiles of
/// all items form one list, and each block takes a range of it, whatever the lengths of the
/// sequences: it begins in the middle of one item and ends in the middle of another. One launch,
/// and one CUDA graph, serve all steps of a generation.
///
/// Source of the division: Osama, Merrill, Cecka, Garland, Owens, Stream-K: work-centric parallel
/// decomposition for dense matrix-matrix multiplication on the GPU, 2023.
#pragma once

#include <limits>
#include <stdexcept>

#include "05_flash_forward/kernels/decode/03_one_launch.cuh"

namespace fa::FA_TARGET {

/// Tiles of a block, at least, as long as there are other blocks: for one tile the merge costs more
/// than the block saves.
constexpr int kLeastTiles = 2;

/// The keys of a sequence: its length in the memory of the device, or all of them without one.
/// Lengths out of range become the nearest that is allowed.
template <class T>
__device__ int keys_of_sequence(const Attention<T>& a, const int* lengths_k,
                                int batch) {
  if (lengths_k == nullptr) return a.length_k;
  const int length = lengths_k[batch];
  return length < 0 ? 0 : length < a.length_k ? length : a.length_k;
}

/// The part of the list of tiles that belongs to a sequence.
struct SequenceTiles {
  int batch;
  int keys;   ///< its length
  int tiles;  ///< of each item; one at least, which writes O
  int first;  ///< where its first item begins in the list
};

/// Tiles of a place in the list: one, or those of a part where parts have a fixed size.
template <class Tile, class T>
__device__ int tiles_of_place(const DecodeAttention<T>& a) {
  return a.part_keys > 0 ? a.part_keys / Tile::block_n : 1;
}

/// The list of all tiles of a head of K and V: for each sequence the items, for each item the tiles
/// of keys. Where parts have a fixed size each of its tiles is a whole part.
template <class Tile, class T>
struct TileList {
  const DecodeAttention<T>& a;
  const int* lengths_k;

  /// Items of a sequence.
  __device__ int items() const { return row_tiles_of<Tile>(a); }
  /// Without its place in the list. There is none behind the last one, and its length is not read.
  __device__ SequenceTiles sequence(int batch) const {
    const int keys =
        batch < a.batch ? keys_of_sequence(a, lengths_k, batch) : 0;
    const int tiles = tiles_of_item(keys);
    return {batch, keys, tiles > 0 ? tiles : 1, 0};
  }
  /// Tiles of an item, as many for each of them: with a window at most those of its rows' windows.
  __device__ int tiles_of_item(int keys) const {
    const int size = tiles_of_place<Tile>(a) * Tile::block_n;
    const int tiles = ceil_div(keys, size);
    if (a.window == 0) return tiles;
    const int others = ceil_div(Tile::block_m - 1, group_size(a));
    const int last = a.length_q - 1;
    const int of_windows =
        ceil_div(a.window - 1 + (others < last ? others : last), size) + 1;
    return of_windows < tiles ? of_windows : tiles;
  }
  /// Tiles of all sequences. A warp calls it.
  __device__ int total() const {
    int tiles = 0;
    for (int batch = threadIdx.x % kWarp; batch < a.batch; batch += kWarp) {
      tiles += sequence(batch).tiles;
    }
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      tiles += __shfl_xor_sync(kAllLanes, tiles, distance);
    }
    return tiles * items();
  }
  /// The sequence that a place in the list belongs to; the one behind the last where lengths have
  /// become smaller since total(). A warp calls it, and each lane looks at one of 32 sequences.
  //! [sequence_at]
  __device__ SequenceTiles sequence_at(int place) const {
    const int lane = threadIdx.x % kWarp;
    int before = 0;  // tiles of sequences before batch0
    SequenceTiles result{a.batch, 0, 1, place};
    for (int batch0 = 0; batch0 < a.batch; batch0 += kWarp) {
      const SequenceTiles seen = sequence(batch0 + lane);
      const int own = seen.batch < a.batch ? seen.tiles * items() : 0;
      int until = own;  // tiles up to this sequence and with it
#pragma unroll
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const int other = __shfl_up_sync(kAllLanes, until, distance);
        if (lane >= distance) until += other;
      }
      const int of_warp = __shfl_sync(kAllLanes, until, kWarp - 1);
      if (place < before + of_warp) {
        // Binary search for the first lane with place < before + until.
        int found = 0;
#pragma unroll
        for (int step = kWarp / 2; step > 0; step /= 2) {
          const int ends = __shfl_sync(kAllLanes, until, found + step - 1);
          if (before + ends <= place) found += step;
        }
        // As that lane has read it: the length may be another one now.
        result = {batch0 + found, __shfl_sync(kAllLanes, seen.keys, found),
                  __shfl_sync(kAllLanes, seen.tiles, found),
                  before + __shfl_sync(kAllLanes, until - own, found)};
        break;
      }
      before += of_warp;
    }
    return result;
  }
  //! [sequence_at]
};

/// How the list is divided among blocks, and where the states of their parts are. A block has two
/// parts at most that are not whole items: its first and its last.
struct EvenTiles {
  int total;
  int blocks;  ///< with work: at most as many as tiles
  int slots;   ///< before those of this head's blocks, or parts

  /// Where a block begins; the next one's begin is its end. The first blocks have a tile more.
  //! [even_tiles]
  __device__ int begin(int block) const {
    const int each = total / blocks, longer = total % blocks;
    return each * block + (block < longer ? block : longer);
  }
  /// The block that has a place in the list.
  __device__ int block_of(int place) const {
    const int each = total / blocks, longer = total % blocks;
    const int of_longer = longer * (each + 1);
    return place < of_longer ? place / (each + 1)
                             : longer + (place - of_longer) / each;
  }
  //! [even_tiles]
  /// Where a block leaves its part of an item that begins at `first`.
  __device__ int slot(int block, int first) const {
    return slots + 2 * block + (begin(block) < first ? 1 : 0);
  }
};

/// A block's part of an item.
struct ItemPart {
  DecodeItem item;
  int index;  ///< of the item, in its sequence
  int first;  ///< where the item begins in the list
  int tiles;  ///< of the item
  int begin;  ///< the part's first tile of the item
  int end;    ///< the tile after the last one
};

/// Writes O of a part that is the whole item; else leaves its state, and the last block to do so
/// for this item merges all of them.
/// @param block of those of this head
template <class Tile, class T>
__device__ void finish_part(const DecodeAttention<T>& a, const ItemPart& part,
                            const EvenTiles& even, int block,
                            const SplitStates& states, unsigned* counter) {
  const DecodeItem& item = part.item;
  const float exponent_scale = a.scale * kLog2E;
  const bool is_whole = part.begin == 0 && part.end == part.tiles;
  const bool fixed = a.part_keys > 0;  // a slot for each part
  const int first_slot = even.slots + part.first;
  for_rows_of_warp<Tile>(a, item, [&](int row, int query, int head) {
    const auto merged = merged_warps<Tile>(row, exponent_scale);
    if (is_whole) {
      store_output(a, item.batch, head, query, merged);
    } else {
      store_state(
          states,
          fixed ? first_slot + part.begin : even.slot(block, part.first), row,
          merged);
    }
  });
  if (is_whole) return;
  const int first_block = even.block_of(part.first);
  const int last = even.block_of(part.first + part.tiles - 1);
  // At most those that exist, should lengths change during the launch.
  const int end_block = last < even.blocks ? last + 1 : even.blocks;
  const int parts = fixed ? part.tiles : end_block - first_block;
  if (!last_to_arrive(counter, parts)) return;
  for_rows_of_warp<Tile>(a, item, [&](int row, int query, int head) {
    const auto slot_of = [&](int i) {
      return fixed ? first_slot + i : even.slot(first_block + i, part.first);
    };
    store_output(
        a, item.batch, head, query,
        merge_row<Tile::d>(states, parts, row, exponent_scale, slot_of));
  });
}

/// The tiles of keys of a part, of those that its rows see.
template <class Tile, class T>
__device__ StridedTiles tiles_of_part(const DecodeAttention<T>& own,
                                      const ItemPart& part) {
  const int keys = keys_of_some_row(own, part.item.row0, Tile::block_m).end;
  const int size = tiles_of_place<Tile>(own);
  const int first = own.first_key / Tile::block_n;
  const int end = ceil_div(keys, Tile::block_n);
  // Parts of a fixed size begin at multiples of it, whatever the window is.
  const int before = first / size * size;
  const int own_begin = before + part.begin * size;
  const int own_end = before + part.end * size;
  return {own_begin < first ? first : own_begin,
          own_end < end ? own_end : end, 1};
}

/// Attention of a block's tiles, which may be of several items. Blocks beyond those with work
/// return.
/// @param attend leaves the states of the warps for a part of an item, given the attention of its
///               sequence: attend(own, item, tiles)
template <class Tile, class T, class Attend>
__device__ void attend_to_list(const DecodeAttention<T>& a,
                               const int* lengths_k,
                               const SplitStates& states, unsigned* counters,
                               Attend attend) {
  const TileList<Tile, T> list{a, lengths_k};
  const bool fixed = a.part_keys > 0;
  const int total = list.total();
  const int most = fixed ? total : ceil_div(total, kLeastTiles);
  const int all_blocks = static_cast<int>(gridDim.x) / a.kv_heads;
  const int head = static_cast<int>(blockIdx.x) % a.kv_heads;
  const int block = static_cast<int>(blockIdx.x) / a.kv_heads;
  const EvenTiles even{total, most < all_blocks ? most : all_blocks,
                       head * (fixed ? total : 2 * all_blocks)};
  if (block >= even.blocks) return;
  int place = even.begin(block);
  const int end_of_block = even.begin(block + 1);
  SequenceTiles sequence = list.sequence_at(place);
  //! [item_loop]
  while (place < end_of_block && sequence.batch < a.batch) {
    // 1: the item's number in its sequence, its first place, and the first
    // of its tiles in this part
    ItemPart part;
    part.index = (place - sequence.first) / sequence.tiles;
    part.first = sequence.first + part.index * sequence.tiles;
    part.tiles = sequence.tiles;
    part.begin = place - part.first;
    // 2: up to the end of the item, or of the block's range
    const int left = end_of_block - part.first;
    part.end = part.tiles < left ? part.tiles : left;
    if (fixed) part.end = part.begin + 1;  // a place then stands for a part
    part.item = {sequence.batch, head, part.index * Tile::block_m};
    // The problem of this sequence alone, and the loop of step 02 on the part
    const DecodeAttention<T> own = attention_of_rows(
        a, sequence.batch, sequence.keys, part.item.row0, Tile::block_m);
    attend(own, part.item, tiles_of_part<Tile>(own, part));
    // The end of step 03: for a whole item write O, otherwise store states,
    // add to the item's counter, and merge if this block is the last
    const int row = sequence.batch * a.kv_heads + head;
    finish_part<Tile>(a, part, even, block, states,
                      counters + row * list.items() + part.index);
    __syncthreads();  // before the next tiles overwrite the warps' states
    // 3: the next item, or the next sequence
    place = part.first + part.end;
    if (part.end == part.tiles && part.index + 1 == list.items()) {
      sequence = list.sequence(sequence.batch + 1);
      sequence.first = place;
    }
  }
  //! [item_loop]
}

/// Attention of tiles of several items.
/// @tparam Tile a DecodeTile
/// @tparam T    half or bfloat16
/// @param lengths_k keys of each sequence, at most a.length_k; null: all have a.length_k
/// @param states    for two parts of a tile of rows for each block
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, kDecodeBlocks)
    decode_even_tiles(DecodeAttention<T> a, const int* lengths_k,
                      SplitStates states, unsigned* counters) {
  attend_to_list<Tile>(
      a, lengths_k, states, counters,
      [&](const DecodeAttention<T>& own, const DecodeItem& item,
          const StridedTiles& tiles) {
        attend_to_tiles<Tile>(own, item, tiles, [&](int tile, T* k, T* v) {
          load_kv_tile<Tile>(own, item, tile, k, v, own.first_key);
        });
      });
}

/// Blocks of a launch: as many for each head, and two at least. Blocks of different heads that have the
/// same tiles are neighbours: rows of these heads lie side by side.
/// @param of_sm blocks on each SM, at most kDecodeBlocks
template <class T>
int even_blocks(const Attention<T>& a, int of_sm) {
  const int at_once = of_sm * device_properties().sm_count;
  return a.kv_heads * std::max(2, at_once / a.kv_heads);
}

/// Items of all sequences and heads.
template <class Tile, class T>
std::int64_t all_items(const Attention<T>& a) {
  return std::int64_t{a.batch} * a.kv_heads * row_tiles_of<Tile>(a);
}
/// Whether ints number the tiles of all items, whatever the lengths.
template <int d, class T>
bool can_list_tiles(const Attention<T>& a) {
  if (all_rows(a) > kMostRows) return false;
  return with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    const std::int64_t tiles = ceil_div(a.length_k, Tile::block_n);
    return all_items<Tile>(a) <=
           std::numeric_limits<int>::max() / (tiles + 1);
  });
}

/// States of 16 or 64 rows that the blocks may leave.
template <class Tile, class T>
std::int64_t even_tiles_slots(const DecodeAttention<T>& a, int blocks) {
  return a.part_keys == 0
             ? 2 * blocks
             : all_items<Tile>(a) * ceil_div(a.length_k, a.part_keys);
}

/// What launch_even_tiles() needs, whatever the lengths.
/// @throws std::invalid_argument where can_list_tiles() does not hold
template <int d, class T>
DecodeWorkspaceSize even_tiles_workspace(const DecodeAttention<T>& a) {
  if (!can_list_tiles<d>(a)) {
    throw std::invalid_argument(fmt::format(
        "batch is {}, heads {}, length_q {} and length_k {}; with lengths or "
        "pages allowed are so many that ints number the tiles of keys",
        a.batch, a.heads, a.length_q, a.length_k));
  }
  return with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    return DecodeWorkspaceSize{
        state_floats(even_tiles_slots<Tile>(a, even_blocks(a, kDecodeBlocks)),
                     Tile::block_m, d),
        all_items<Tile>(a)};
  });
}

/// Launches the kernel.
/// @param a         with a head_dim of at most d; length_k is the most that a sequence has
/// @param lengths_k in the memory of the device: keys of each sequence; null: all have length_k
/// @param workspace of even_tiles_workspace(), with counters that are 0
template <int d, class T>
void launch_even_tiles(const DecodeAttention<T>& a, const int* lengths_k,
                       const Stream& stream,
                       const DecodeWorkspace& workspace) {
  with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    const int blocks = even_blocks(a, 1);  // they keep the memory busy
    launch(stream, decode_even_tiles<Tile, T>,
           {static_cast<unsigned>(blocks), Tile::threads,
            decode_bytes<Tile, T>(), Tile::stages},
           a, lengths_k,
           states_at(workspace.states, even_tiles_slots<Tile>(a, blocks),
                     Tile::block_m, d),
           workspace.counters);
  });
}

FA_LAUNCH_16_BIT(decode, DecodeAttention,
                 (const int*, const Stream&, const DecodeWorkspace&),
                 launch_even_tiles, (64), (128));

FA_STEP_ROW(decode, 4) {
  return row("04_even_tiles", "lengths on the device, even pieces", half{},
             bfloat16{})
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
        launch_even_tiles<d>(a, a.lengths_k, stream, {states, counters});
      });
}

}  // namespace fa::FA_TARGET
