/// @file
/// A cache of keys and values in e4m3, with queries of 16 bits: half the bytes are read. They are
/// codes in shared memory, too, and become float16, which is exact, in registers. Lengths, pages and
/// the division among blocks are those of steps 04 and 05.
#pragma once

#include "05_flash_forward/kernels/decode/05_paged_kv.cuh"

namespace fa::FA_TARGET {

/// Keys and values as codes, whose strides are those of Attention's k and v, and their scales: one
/// for all, or one for each page (without pages, each sequence) and head of K and V.
struct EightBitCache {
  const e4m3* k;
  const e4m3* v;
  const float* k_scales;
  const float* v_scales;
  bool per_head;  ///< [pages or batch, kv_heads]; else [1]
  PagedKv pages;  ///< without a block_table: none
};

/// Tile sizes. To cp.async, ldmatrix and the swizzle two neighbouring codes are one element.
template <int head_dim, int row_warp_count>
struct EightBitTile : DecodeTile<head_dim, row_warp_count> {
  // With 16 rows a warp has 32 keys of a stage, twice as many as DecodeTile's:
  // what it does once for a stage is half as much for each key.
  static constexpr int block_n = row_warp_count == 1 ? 128 : 64;
  static constexpr int kv_size = block_n * head_dim;
  static constexpr int pairs = head_dim / 2;  // of codes in a row
  static constexpr int kv_pairs = kv_size / 2;
  static constexpr int stages = kv_size == 128 * 128 ? 3 : 6;  // 48 to 96 KiB
  using Warp = DecodeWarpTile<head_dim, block_n * row_warp_count / 4>;
};

/// P is stored times 2^15, which float16 still holds: what becomes 0 is below 2^-40, so that n keys
/// lose at most n 2^-40 of a row's sum.
constexpr float kProbsScale = 32768;

/// The left operand of Q K^T for 16 rows, in float16, where a lane has four neighbours of each 16
/// columns, as a register has four codes of K. A row is multiplied by a power of two that brings its
/// largest element to [2^15, 2^16), since bfloat16 has a larger range: of its elements only those
/// below 2^-32 of the largest lose bits.
/// @param unit what S must be multiplied by in return, for each of the lane's rows
template <int d, class T>
__device__ void load_scaled_q(std::uint32_t (&q)[d / 16][4], float (&unit)[2],
                              const Attention<T>& a, const DecodeItem& item,
                              int row0, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = row0 + fragment_row(lane, 2 * h);
    const bool exists = row < packed_rows(a);
    const int head = item.kv_head * group_size(a) + head_in_group(a, row);
    const T* const from =
        a.q + item.batch * a.q_strides.batch + head * a.q_strides.head +
        query_of_row(a, row) * a.q_strides.row + lane % 4 * 4;
    float own[d / 16][4], largest = 0;
#pragma unroll
    for (int i = 0; i < d / 16; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::uint32_t pair = exists && 16 * i < a.head_dim
                                       ? load_pair(from + 16 * i + e / 2 * 2)
                                       : 0;
        T two[2];
        memcpy(static_cast<void*>(two), &pair, sizeof two);
        own[i][e] = to_float(two[e % 2]);
        largest = fmaxf(largest, fabsf(own[i][e]));
      }
    }
    const std::uint32_t bits = __float_as_uint(warp_max<4>(largest)) >> 23;
    const std::uint32_t exponent = bits < 16 ? 16 : bits;  // biased
    unit[h] = __uint_as_float((exponent - 15) << 23);
    const float factor = __uint_as_float((269 - exponent) << 23);
#pragma unroll
    for (int i = 0; i < d / 16; ++i) {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        q[i][e + h] = pack2<half>(factor * own[i][e], factor * own[i][e + 1]);
      }
    }
  }
}

/// S += Q K^T for a warp, without scales; see load_scaled_q().
/// @param k_smem the warp's first key in the swizzled tile
template <int d, int key_tiles>
__device__ void multiply_q_codes(float (&s)[1][key_tiles][4],
                                 const std::uint32_t (&q)[d / 16][4],
                                 const std::uint16_t* k_smem, int lane) {
  const int of_k =
      swizzled<d / 2>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll
  for (int kk = 0; kk < d; kk += 32) {
#pragma unroll
    for (int j = 0; j < key_tiles / 2; ++j) {
      std::uint32_t codes[4];  // [2 of 8 keys][2 of 16 columns]
      ldmatrix_x4(codes, k_smem + (of_k ^ kk / 2) + 8 * j * d);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        std::uint32_t k_frag[2];  // of four neighbours
        unpack_e4m3(k_frag, codes[i]);
        mma_m16n8k16<half>(s[0][2 * j + i / 2], q[kk / 16 + i % 2], k_frag);
      }
    }
  }
}

/// O += P V for a warp. Accumulators 2 i and 2 i + 1 of O are of the even and of the odd ones of 16
/// columns.
/// @param p        P times kProbsScale
/// @param v_smem   the warp's first key in the swizzled tile
/// @param v_scales of its runs of 16 keys
template <int d, int key_tiles>
__device__ void multiply_p_codes(float (&o)[1][d / 8][4],
                                 const float (&p)[1][key_tiles][4],
                                 const std::uint16_t* v_smem,
                                 const float* v_scales, int lane) {
  const int of_v = swizzled<d / 2>(lane % 16, lane / 16 * 8);
#pragma unroll
  for (int key = 0; key < 8 * key_tiles; key += 16) {
    const float scale = v_scales[key / 16] * (1 / kProbsScale);
    std::uint32_t p_frag[4];
    probs_as_operand<half>(p_frag, p[0], key);
#pragma unroll
    for (int column = 0; column < d; column += 32) {
      std::uint32_t codes[4];  // [2 of 16 columns][2 of 8 keys]
      ldmatrix_x4_transposed(codes,
                             v_smem + (of_v ^ column / 2) + key * (d / 2));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // Two columns of a key, and of the next one: pair the keys.
        std::uint32_t low[2], high[2];  // of the first and the last 8 keys
        unpack_e4m3(low, __byte_perm(codes[2 * i], 0, 0x3120));
        unpack_e4m3(high, __byte_perm(codes[2 * i + 1], 0, 0x3120));
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const std::uint32_t v_frag[2] = {low[odd], high[odd]};
          float sums[4] = {};
          mma_m16n8k16<half>(sums, p_frag, v_frag);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            o[0][column / 8 + 2 * i + odd][e] += scale * sums[e];
          }
        }
      }
    }
  }
}

/// store_warp_state() for the columns of multiply_p_codes().
template <class Tile>
__device__ void store_eight_bit_state(
    const Accumulators<typename Tile::Warp, Tile::d>& o,
    const WarpRowState<typename Tile::Warp>& state, int lane) {
  const int warp = threadIdx.x / kWarp;
  const SplitStates states = warp_states<Tile>();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp / Tile::row_warps * Tile::block_m +
                    warp % Tile::row_warps * 16 + fragment_row(lane, 2 * h);
    float* const to = states.o + row * states.pitch + lane % 4 * 4;
    const int e = 2 * h;
#pragma unroll
    for (int j = 0; j < Tile::d / 8; j += 2) {
      store4(to + 8 * j, make_float4(o[0][j][e], o[0][j + 1][e],
                                     o[0][j][e + 1], o[0][j + 1][e + 1]));
    }
    const float l = warp_sum<4>(state.l[0][h]);
    if (lane % 4 != 0) continue;
    states.m[row] = state.m[0][h];
    states.l[row] = l;
  }
}

/// attend_to_tiles() of step 02 for codes. Half of the threads copy K and its scales, half V.
template <class Tile, class T>
__device__ void attend_to_codes(const DecodeAttention<T>& a,
                                const EightBitCache& cache,
                                const DecodeItem& item,
                                const StridedTiles& tiles) {
  constexpr int d = Tile::d, stages = Tile::stages, keys = Tile::block_n;
  constexpr int runs = kRunsOfTile<Tile>, group = kTilesLookedUp<Tile>;
  constexpr int threads = Tile::threads / 2;
  using Warp = typename Tile::Warp;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const bool of_v = warp * kWarp >= threads;
  // [K, V][stage] of codes, then of the scales of runs.
  auto* const codes_smem = dynamic_shared<std::uint16_t>();
  auto* const scales_smem =
      reinterpret_cast<float*>(codes_smem + 2 * stages * Tile::kv_pairs);
  const RowStrides strides = of_v ? a.v_strides : a.k_strides;
  const e4m3* const codes =
      (of_v ? cache.v : cache.k) + item.kv_head * strides.head;
  const float* const scales = (of_v ? cache.v_scales : cache.k_scales) +
                              (cache.per_head ? item.kv_head : 0);
  const std::int64_t heads = a.kv_heads;
  const auto find = [&](int tile) {  // without pages a sequence is one
    return cache.pages.block_table == nullptr
               ? PageRun{item.batch, tile * keys + lane * kPageMultiple}
               : find_run<Tile>(cache.pages, item.batch, tile, a.length_k);
  };
  PageRun run = find(tiles.begin), next = find(tiles.begin + group);
  const auto load_stage = [&](int i) {
    const int tile = tiles.begin + i, first_lane = i % group * runs;
    const int stage = i % stages + (of_v ? stages : 0);
    const int left = a.length_k - tile * keys;
    if (tile < tiles.end) {
      const std::int64_t own =
          run.page * strides.batch + run.token * strides.row;
#pragma unroll
      for (int r = 0; r < runs; ++r) {
        const auto offset = __shfl_sync(kAllLanes, own, first_lane + r);
        for_row_pieces<kPageMultiple, Tile::pairs, threads>(
            reinterpret_cast<const std::uint16_t*>(codes + offset),
            strides.row / 2, 0, left - r * kPageMultiple, a.head_dim / 2,
            threadIdx.x % threads,
            [&](int row, int col, const std::uint16_t* from, bool inside) {
              row += r * kPageMultiple;
              cp_async16(codes_smem + stage * Tile::kv_pairs +
                             swizzled<Tile::pairs>(row, col),
                         from, inside);
            });
      }
      const int r = lane - first_lane;
      if (warp * kWarp % threads == 0 && r >= 0 && r < runs) {
        cp_async4(scales_smem + stage * runs + r,
                  scales + (cache.per_head ? run.page * heads : 0),
                  r * kPageMultiple < left);  // 0 for a page that is not read
      }
      if (i % group + 1 == group) {
        run = next;
        next = find(tile + 1 + group);
      }
    }
    cp_async_commit();  // an empty group counts, too
  };
#pragma unroll 1
  for (int i = 0; i < stages - 1; ++i) load_stage(i);
  const int warp_row = item.row0 + warp % Tile::row_warps * 16;
  const int warp_key = warp / Tile::row_warps * Warp::block_n;
  const int unmasked = visible_keys(a, query_of_row(a, item.row0)) / keys;
  std::uint32_t q[d / 16][4];
  float unit[2];
  load_scaled_q<d>(q, unit, a, item, warp_row, lane);
  Accumulators<Warp, d> o = {};
  WarpRowState<Warp> state;
  init_row_state(state);
  int i = 0, tile = tiles.begin;
  const auto step = [&](auto edge) {
    constexpr bool masked = decltype(edge)::value;
    cp_async_wait<stages - 2>();
    __syncthreads();  // arrived; no warp still reads what load_stage() fills
    load_stage(i + stages - 1);
    const auto* const k_smem =
        codes_smem + i % stages * Tile::kv_pairs + warp_key * Tile::pairs;
    const float* const k_scales =
        scales_smem + i % stages * runs + warp_key / kPageMultiple;
    Accumulators<Warp, Warp::block_n> s = {};
    //! [eight_bit_scales]
    // S = Q K^T
    multiply_q_codes<d>(s, q, k_smem, lane);
#pragma unroll
    for (int j = 0; j < Warp::block_n / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[0][j][e] *= unit[e / 2] * k_scales[j / 2];
    }
    if constexpr (masked) {
      mask_rows(s, a, warp_row, tile * keys + warp_key, lane);
    }
    // P = exp2(exponent_scale (S - m)), at most 1 however large S is
    softmax_step_base_2<Warp, masked, true>(s, o, state, a.scale * kLog2E);
    scale_scores<Warp>(s, kProbsScale);
    // O += v_scale P V
    multiply_p_codes<d>(o, s, k_smem + stages * Tile::kv_pairs,
                        k_scales + stages * runs, lane);
    //! [eight_bit_scales]
    ++i;
    ++tile;
  };
  while (tile < tiles.end && tile < unmasked) step(std::false_type{});
  while (tile < tiles.end) step(std::true_type{});
  __syncthreads();  // no warp still reads the tiles; states overwrite them
  store_eight_bit_state<Tile>(o, state, lane);
  __syncthreads();  // the states are complete
}

/// Attention of tiles of several items.
/// @tparam Tile an EightBitTile
/// @tparam T    half or bfloat16, of Q and O
/// @param a         its k and v are not used, their strides are the cache's
/// @param lengths_k keys of each sequence, at most a.length_k; null: all have a.length_k
/// @param states    for two parts of a tile of rows for each block
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::threads, kDecodeBlocks)
    decode_eight_bit_cache(DecodeAttention<T> a, EightBitCache cache,
                           const int* lengths_k, SplitStates states,
                           unsigned* counters) {
  attend_to_list<Tile>(
      a, lengths_k, states, counters,
      [&](const DecodeAttention<T>& own, const DecodeItem& item,
          const StridedTiles& tiles) {
        attend_to_codes<Tile>(own, cache, item, tiles);
      });
}

/// Launches the kernel.
/// @param a         as launch_even_tiles() has it, with a head_dim that is a multiple of 16; its k
///                  and v are not used, their strides are the cache's
/// @param workspace of even_tiles_workspace(), with counters that are 0
template <int d, class T>
void launch_eight_bit_cache(const DecodeAttention<T>& a,
                            const EightBitCache& cache, const int* lengths_k,
                            const Stream& stream,
                            const DecodeWorkspace& workspace) {
  const auto with_tile = [&](auto tile) {
    using Tile = decltype(tile);
    const int blocks = even_blocks(a, kDecodeBlocks);
    launch(stream, decode_eight_bit_cache<Tile, T>,
           {static_cast<unsigned>(blocks), Tile::threads,
            decode_bytes<Tile, e4m3>() +
                2 * Tile::stages * kRunsOfTile<Tile> * sizeof(float),
            Tile::stages},
           a, cache, lengths_k,
           states_at(workspace.states, 2 * blocks, Tile::block_m, d),
           workspace.counters);
  };
  packed_rows(a) <= 16 ? with_tile(EightBitTile<d, 1>{})
                       : with_tile(EightBitTile<d, 4>{});
}

FA_LAUNCH_16_BIT(decode, DecodeAttention,
                 (const EightBitCache&, const int*, const Stream&,
                  const DecodeWorkspace&),
                 launch_eight_bit_cache, (64), (128));

}  // namespace fa::FA_TARGET
