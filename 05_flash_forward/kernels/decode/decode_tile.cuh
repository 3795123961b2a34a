/// @file
/// What the decode kernels with tensor cores share: the tile, in which the heads of a group are
/// rows side by side, its operands, its mask, and the states that its warps leave.
#pragma once

#include "05_flash_forward/kernels/decode/split_state.cuh"
#include "05_flash_forward/library/mma_loop.cuh"

namespace fa::FA_TARGET {

/// A warp's part of a tile, as softmax_step_base_2() has it: 16 rows, and some of the keys.
template <int head_dim, int keys>
struct DecodeWarpTile {
  static constexpr int d = head_dim;
  static constexpr int row_tiles = 1;
  static constexpr int block_n = keys;
};

/// Tile sizes. Four warps: `row_warp_count` of them have different rows, the others different keys
/// of the same rows.
/// @tparam head_dim       columns, at least those of the inputs
/// @tparam row_warp_count 1, 2 or 4
template <int head_dim, int row_warp_count>
struct DecodeTile {
  static constexpr int d = head_dim;
  static constexpr int warps = 4;
  static constexpr int threads = warps * kWarp;
  static constexpr int row_warps = row_warp_count;
  static constexpr int key_warps = warps / row_warps;
  static constexpr int block_m = 16 * row_warps;  // rows
  static constexpr int block_n = 64;              // keys of a stage
  static constexpr int kv_size = block_n * d;     // elements
  // 96 or 64 KiB: two blocks on an SM of sm_80 and newer, but for those of
  // sm_86 and sm_89, which take one.
  static constexpr int stages = d == 128 ? 3 : 4;
  using Warp = DecodeWarpTile<d, block_n / key_warps>;
  // Of rows of O in shared memory: 8 more, which avoids bank conflicts.
  static constexpr int pitch = d + 8;
};

/// Blocks of such a kernel on one SM.
constexpr int kDecodeBlocks = 2;

/// Bytes of all stages of K and V, whose place the states of the warps take in the end.
template <class Tile, class T>
constexpr std::size_t decode_bytes() {
  constexpr std::size_t tiles = 2 * Tile::stages * Tile::kv_size * sizeof(T);
  static_assert(tiles >= Tile::warps * 16 * (Tile::pitch + 2) * sizeof(float),
                "the states must fit");
  return tiles;
}

/// Rows of a head of K and V: the heads of its group side by side, then the next query. All heads
/// have at most kMostRows.
template <class T>
__host__ __device__ int packed_rows(const Attention<T>& a) {
  return group_size(a) * a.length_q;
}
/// The query of such a row, which may be beyond the last one.
template <class T>
__device__ int query_of_row(const Attention<T>& a, int row) {
  return row / group_size(a);
}
/// Its head, among those of the group.
template <class T>
__device__ int head_in_group(const Attention<T>& a, int row) {
  return row % group_size(a);
}
/// Keys begin <= j < end of a sequence; from first_draft on those that draft_bits() has.
struct KeyInterval {
  int begin, end, first_draft;
};
/// The keys that a query sees.
template <class T>
__device__ KeyInterval visible_range(const Attention<T>& a, int query) {
  const int end = visible_keys(a, query);
  return {0, end, end};
}
/// The same with a window or a tree.
template <class T>
__device__ KeyInterval visible_range(const DecodeAttention<T>& a, int query) {
  const int end = visible_keys(a, query), before = a.length_k - a.length_q;
  const int begin = query + 1 + before - a.window;
  return {a.window == 0 || begin < 0 ? 0 : begin, end,
          a.tree == nullptr ? end
          : before < 0      ? 0
                            : before};
}
/// Bit i says whether a tree shows a query key `key` + i.
template <class T>
__device__ unsigned draft_bits(const Attention<T>&, int, int) {
  return ~0u;
}
/// The same where there may be a tree: keys before its draft keys are visible.
template <class T>
__device__ unsigned draft_bits(const DecodeAttention<T>& a, int query,
                               int key) {
  if (a.tree == nullptr) return ~0u;
  const int words = ceil_div(a.length_q, 32);
  const int last = a.length_q - 1;  // rows beyond it are not stored
  const std::uint32_t* const row =
      a.tree + std::int64_t{query < last ? query : last} * words;
  const int bit = key - (a.length_k - a.length_q);  // of the row, or before
  const auto word = [&](int i) {
    return i < 0 ? ~0u : i < words ? row[i] : 0;
  };
  const int first = bit >> 5;
  return static_cast<unsigned>(
      (std::uint64_t{word(first + 1)} << 32 | word(first)) >> (bit & 31));
}
/// Keys that some of the rows from row0 on see; none where no row exists.
template <template <class> class A, class T>
__device__ KeyInterval keys_of_some_row(const A<T>& a, int row0, int rows) {
  if (row0 >= packed_rows(a)) return {};
  KeyInterval keys = visible_range(a, query_of_row(a, row0 + rows - 1));
  keys.begin = visible_range(a, query_of_row(a, row0)).begin;
  return keys;
}
/// Keys that all of them see.
template <template <class> class A, class T>
__device__ KeyInterval keys_of_all_rows(const A<T>& a, int row0, int rows) {
  KeyInterval keys = visible_range(a, query_of_row(a, row0));
  keys.begin = visible_range(a, query_of_row(a, row0 + rows - 1)).begin;
  keys.end = keys.first_draft;
  return keys;
}
/// The attention of a sequence, for an item with rows from row0 on.
template <class T>
__device__ DecodeAttention<T> attention_of_rows(DecodeAttention<T> a,
                                                int batch, int keys, int row0,
                                                int rows) {
  a.length_k = keys;
  if (a.tree != nullptr) {
    a.tree += std::int64_t{batch} * a.length_q * ceil_div(a.length_q, 32);
  }
  a.first_key = keys_of_some_row(a, row0, rows).begin;
  return a;
}
/// Tiles of these rows.
template <class Tile, class T>
__host__ __device__ int row_tiles_of(const Attention<T>& a) {
  return ceil_div(packed_rows(a), Tile::block_m);
}

/// The rows of each of them, for each key of a tile: see split_cost().
template <class Tile, class T>
double rows_per_key(const Attention<T>& a) {
  return static_cast<double>(packed_rows(a)) / row_tiles_of<Tile>(a) /
         Tile::block_n;
}

/// A block's work: a tile of rows of a head of K and V.
struct DecodeItem {
  int batch;
  int kv_head;
  int row0;  ///< the first of its rows
};

/// Issues copies of `rows` rows of K, or of V, from key row0 on; those before a first key and from
/// `end` on become 0, since memory there may hold NaN.
template <class Tile, int rows, class T>
__device__ void copy_keys_async(T* tile, const T* from, std::int64_t stride,
                                int row0, int first, int end, int head_dim) {
  for_row_pieces<rows, Tile::d, Tile::threads>(
      from, stride, row0, end, head_dim, threadIdx.x,
      [=](int row, int col, const T* piece, bool inside) {
        cp_async16(tile + swizzled<Tile::d>(row, col), piece,
                   inside && row0 + row >= first);
      });
}

/// The left operand of Q K^T for 16 rows from row0 on, straight from global memory; 0 beyond the
/// last row and beyond head_dim.
template <int d, class T>
__device__ void load_q_fragments(std::uint32_t (&q)[d / 16][4],
                                 const Attention<T>& a,
                                 const DecodeItem& item, int row0, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = row0 + fragment_row(lane, 2 * h);
    const bool exists = row < packed_rows(a);
    const int head = item.kv_head * group_size(a) + head_in_group(a, row);
    const T* const from =
        a.q + item.batch * a.q_strides.batch + head * a.q_strides.head +
        query_of_row(a, row) * a.q_strides.row + fragment_column(lane, 0);
#pragma unroll
    for (int kk = 0; kk < d; kk += 8) {
      q[kk / 16][kk / 8 % 2 * 2 + h] =
          exists && kk < a.head_dim ? load_pair(from + kk) : 0;
    }
  }
}

/// S += Q K^T for a warp; see multiply_q_k(), which reads Q from shared memory.
/// @param k_smem the warp's first key in the swizzled tile
template <int d, class T, int key_tiles>
__device__ void multiply_fragments_k(float (&s)[1][key_tiles][4],
                                     const std::uint32_t (&q)[d / 16][4],
                                     const T* k_smem, int lane) {
  const int of_k = swizzled<d>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll
  for (int kk = 0; kk < d; kk += 16) {
#pragma unroll
    for (int j = 0; j < key_tiles / 2; ++j) {
      std::uint32_t k_frag[4];  // of 16 keys
      ldmatrix_x4(k_frag, k_smem + (of_k ^ kk) + 16 * j * d);
      const std::uint32_t low[2] = {k_frag[0], k_frag[1]};
      const std::uint32_t high[2] = {k_frag[2], k_frag[3]};
      mma_m16n8k16<T>(s[0][2 * j], q[kk / 16], low);
      mma_m16n8k16<T>(s[0][2 * j + 1], q[kk / 16], high);
    }
  }
}

/// Masks the scores of keys that a row does not see.
/// @param row0 the first of the warp's rows
/// @param key0 the first of its keys
template <template <class> class A, class T, int key_tiles>
__device__ void mask_rows(float (&s)[1][key_tiles][4], const A<T>& a,
                          int row0, int key0, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = query_of_row(a, row0 + fragment_row(lane, 2 * h));
    const KeyInterval visible = visible_range(a, query);
#pragma unroll
    for (int j = 0; j < key_tiles; ++j) {
      const unsigned bits = draft_bits(a, query, key0 + 8 * j);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int i = fragment_column(lane, e), key = key0 + 8 * j + i;
        if (key < visible.begin || key >= visible.end ||
            (bits >> i & 1) == 0) {
          s[0][j][2 * h + e] = -INFINITY;
        }
      }
    }
  }
}

/// The states of a block's warps in its shared memory: a part for each warp with the same rows.
template <class Tile>
__device__ SplitStates warp_states() {
  return states_at(dynamic_shared<float>(), Tile::key_warps, Tile::block_m,
                   Tile::pitch);
}

/// A warp leaves its state there. All copies to shared memory have been read.
template <class Tile>
__device__ void store_warp_state(
    const Accumulators<typename Tile::Warp, Tile::d>& o,
    const WarpRowState<typename Tile::Warp>& state, int lane) {
  const int warp = threadIdx.x / kWarp;
  const SplitStates states = warp_states<Tile>();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp / Tile::row_warps * Tile::block_m +
                    warp % Tile::row_warps * 16 + fragment_row(lane, 2 * h);
    const float l = warp_sum<4>(state.l[0][h]);
#pragma unroll
    for (int j = 0; j < Tile::d / 8; ++j) {
      store2(states.o + row * states.pitch + 8 * j + fragment_column(lane, 0),
             o[0][j][2 * h], o[0][j][2 * h + 1]);
    }
    if (lane % 4 == 0) {
      states.m[row] = state.m[0][h];
      states.l[row] = l;
    }
  }
}

/// The state of all of the block's warps for one of its rows; a warp calls it when they are there.
template <class Tile>
__device__ RowSplit<Tile::d> merged_warps(int row, float exponent_scale) {
  return merge_row<Tile::d>(warp_states<Tile>(), Tile::key_warps, row,
                            exponent_scale, [](int part) { return part; });
}

/// Calls work(row, query, head) for each of the item's rows that exists; a warp has a row.
template <class Tile, class T, class Work>
__device__ void for_rows_of_warp(const Attention<T>& a,
                                 const DecodeItem& item, Work work) {
  for (int row = threadIdx.x / kWarp; row < Tile::block_m;
       row += Tile::warps) {
    const int packed = item.row0 + row;
    if (packed >= packed_rows(a)) return;
    work(row, query_of_row(a, packed),
         item.kv_head * group_size(a) + head_in_group(a, packed));
  }
}

/// The grid of kernels whose blocks have a part of an item each.
template <class Tile, class T>
Size decode_grid(const Attention<T>& a, int parts) {
  return {static_cast<unsigned>(parts),
          static_cast<unsigned>(row_tiles_of<Tile>(a) * a.kv_heads),
          static_cast<unsigned>(a.batch)};
}
/// A block's item in such a grid.
template <class Tile, class T>
__device__ DecodeItem item_of_block(const Attention<T>& a) {
  return {static_cast<int>(blockIdx.z),
          static_cast<int>(blockIdx.y % a.kv_heads),
          static_cast<int>(blockIdx.y / a.kv_heads) * Tile::block_m};
}

/// Calls work(Tile{}) with the tile for a problem: of 16 rows if these suffice, or 64.
template <int d, class T, class Work>
auto with_decode_tile(const Attention<T>& a, Work work) {
  return packed_rows(a) <= 16 ? work(DecodeTile<d, 1>{})
                              : work(DecodeTile<d, 4>{});
}

}  // namespace fa::FA_TARGET
