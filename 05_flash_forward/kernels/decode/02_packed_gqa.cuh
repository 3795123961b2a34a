/// @file
/// Packed GQA: the query heads of a group are rows of one tile, so that each key is read once for
/// all of them, and both matmuls run on tensor cores. cp.async keeps several stages of K and V in
/// flight; the warps of a block divide the keys of a stage. The second kernel is that of step 01.
#pragma once

#include "05_flash_forward/kernels/decode/01_split_kv.cuh"
#include "05_flash_forward/kernels/decode/decode_tile.cuh"

namespace fa::FA_TARGET {

/// Issues copies of a tile of K and V, with zeros before a first key and beyond the last one.
template <class Tile, class T>
__device__ void load_kv_tile(const Attention<T>& a, const DecodeItem& item,
                             int tile, T* k_tile, T* v_tile,
                             int first_key = 0) {
  const T* const k =
      a.k + item.batch * a.k_strides.batch + item.kv_head * a.k_strides.head;
  const T* const v =
      a.v + item.batch * a.v_strides.batch + item.kv_head * a.v_strides.head;
  copy_keys_async<Tile, Tile::block_n>(k_tile, k, a.k_strides.row,
                                       tile * Tile::block_n, first_key,
                                       a.length_k, a.head_dim);
  copy_keys_async<Tile, Tile::block_n>(v_tile, v, a.v_strides.row,
                                       tile * Tile::block_n, first_key,
                                       a.length_k, a.head_dim);
}

/// Tiles from `begin` up to, not including, `end`, every step-th of them.
struct StridedTiles {
  int begin;
  int end;
  int step;
};

/// Attention of an item's rows to some tiles. On return the states of the warps are in shared
/// memory: see merged_warps().
/// @tparam Tile a DecodeTile
/// @param load  issues copies of a tile: load(tile, k_tile, v_tile)
template <class Tile, template <class> class A, class T, class Load>
__device__ void attend_to_tiles(const A<T>& a, const DecodeItem& item,
                                const StridedTiles& tiles, Load load) {
  constexpr int d = Tile::d, stages = Tile::stages, keys = Tile::block_n;
  using Warp = typename Tile::Warp;
  T* const k_smem = dynamic_shared<T>();
  T* const v_smem = k_smem + stages * Tile::kv_size;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int warp_row = item.row0 + warp % Tile::row_warps * 16;
  const int warp_key = warp / Tile::row_warps * Warp::block_n;
  const float exponent_scale = a.scale * kLog2E;
  const KeyInterval seen = keys_of_all_rows(a, item.row0, Tile::block_m);
  const int first_whole = ceil_div(seen.begin, keys);
  const int unmasked = seen.end / keys;
  const auto load_stage = [&](int i) {
    const int tile = tiles.begin + i * tiles.step;
    const int at = i % stages * Tile::kv_size;
    if (tile < tiles.end) load(tile, k_smem + at, v_smem + at);
    cp_async_commit();  // an empty group counts, too
  };
#pragma unroll
  for (int i = 0; i < stages - 1; ++i) load_stage(i);
  std::uint32_t q[d / 16][4];
  load_q_fragments<d>(q, a, item, warp_row, lane);
  Accumulators<Warp, d> o = {};
  WarpRowState<Warp> state;
  init_row_state(state);
  //! [decode_step]
  int i = 0, tile = tiles.begin;
  const auto step = [&](auto edge) {
    constexpr bool masked = decltype(edge)::value;
    cp_async_wait<stages - 2>();
    __syncthreads();  // arrived; no warp still reads what load_stage() fills
    load_stage(i + stages - 1);
    const int at = i % stages * Tile::kv_size + warp_key * d;
    Accumulators<Warp, Warp::block_n> s = {};
    // S = Q K^T
    multiply_fragments_k<d>(s, q, k_smem + at, lane);
    if constexpr (masked) {
      mask_rows(s, a, warp_row, tile * keys + warp_key, lane);
    }
    // P = exp2(exponent_scale (S - m))
    softmax_step_base_2<Warp, masked>(s, o, state, exponent_scale);
    // O += P V
    multiply_p_v<d>(o, s, v_smem + at, lane);
    ++i;
    tile += tiles.step;
  };
  while (tile < tiles.end && tile < first_whole) step(std::true_type{});
  while (tile < tiles.end && tile < unmasked) step(std::false_type{});
  while (tile < tiles.end) step(std::true_type{});
  __syncthreads();  // no warp still reads the tiles; states overwrite them
  store_warp_state<Tile>(o, state, lane);
  __syncthreads();  // the states are complete
  //! [decode_step]
}

/// Part `part` of `parts` of the tiles that the rows of an item see: every parts-th tile, so that the
/// blocks of an item read neighbouring memory. No two parts differ by more than a tile.
template <class Tile, class T>
__device__ StridedTiles part_of_tiles(const Attention<T>& a,
                                      const DecodeItem& item, int part,
                                      int parts) {
  const int last_query = query_of_row(a, item.row0 + Tile::block_m - 1);
  return {part, ceil_div(visible_keys(a, last_query), Tile::block_n), parts};
}

/// The states of a part of the keys, for a tile of rows.
/// @tparam Tile a DecodeTile
/// @tparam T    half or bfloat16
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, kDecodeBlocks)
    decode_packed_gqa(Attention<T> a, SplitStates states, int parts) {
  const int part = blockIdx.x;
  const DecodeItem item = item_of_block<Tile>(a);
  attend_to_tiles<Tile>(a, item, part_of_tiles<Tile>(a, item, part, parts),
                        [&](int tile, T* k_tile, T* v_tile) {
                          load_kv_tile<Tile>(a, item, tile, k_tile, v_tile);
                        });
  for_rows_of_warp<Tile>(a, item, [&](int row, int query, int head) {
    store_state(states, part, state_row(a, item.batch, head, query),
                merged_warps<Tile>(row, a.scale * kLog2E));
  });
}

/// Parts of each row's keys here: as many blocks as run at once.
template <class Tile, class T>
int packed_gqa_parts(const Attention<T>& a) {
  return parts_for_all_sms(
      std::int64_t{a.batch} * a.kv_heads * row_tiles_of<Tile>(a), a.length_k,
      kDecodeBlocks * device_properties().sm_count);
}

/// Floats of workspace that launch_packed_gqa() needs.
template <int d, class T>
std::int64_t packed_gqa_workspace(const Attention<T>& a) {
  const int rows = numbered_rows(a);
  return with_decode_tile<d>(a, [&](auto tile) {
    return state_floats(packed_gqa_parts<decltype(tile)>(a), rows, d);
  });
}

/// Launches both kernels.
/// @param a with a head_dim of at most d
template <int d, class T>
void launch_packed_gqa(const Attention<T>& a, const Stream& stream,
                       float* workspace) {
  with_decode_tile<d>(a, [&](auto tile) {
    using Tile = decltype(tile);
    const int parts = packed_gqa_parts<Tile>(a);
    const int rows = numbered_rows(a);
    const SplitStates states = states_at(workspace, parts, rows, d);
    launch(stream, decode_packed_gqa<Tile, T>,
           {decode_grid<Tile>(a, parts), Tile::threads,
            decode_bytes<Tile, T>(), Tile::stages},
           a, states, parts);
    launch_merge_parts<d>(a, states, parts, stream);
  });
}

FA_LAUNCH_16_BIT(decode, Attention, (const Stream&, float*),
                 launch_packed_gqa, (64), (128));

FA_STEP_ROW(decode, 2) {
  return row("02_packed_gqa", "heads of a group as rows of a tile", half{},
             bfloat16{})
      .needs(kNeedsMma)
      .no_dropout()
      .head_dims(HeadDims<64, 128>{})
      .tile(16, 64, 0, 3, 64)
      .tile(16, 64, 0, 3, 128)
      .shared_bytes(
          [](auto d) { return decode_bytes<DecodeTile<d, 1>, half>(); })
      .floats(
          [](const auto& a, auto d) { return packed_gqa_workspace<d>(a); })
      .launch([](auto& a, auto d, auto& stream, float* states) {
        launch_packed_gqa<d>(a, stream, states);
      });
}

}  // namespace fa::FA_TARGET
