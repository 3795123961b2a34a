/// @file
/// Which kernel fa_decode() launches: the fastest by a model of their times.
/// Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include <limits>

#include "05_flash_forward/interface/checks.cuh"
#include "05_flash_forward/kernels/decode/07_chunked_prefill.cuh"
#include "05_flash_forward/kernels/decode/eight_bit_cache.cuh"
#include "05_flash_forward/src/decode_cost.hpp"
#include "05_flash_forward/src/dispatch.cuh"

namespace fa::FA_TARGET {
namespace {

// Whether nothing is asked for that only kernels 04, 05 and 07 have.
template <class T>
bool is_plain(const DecodeAttention<T>& a) {
  return a.window == 0 && a.part_keys == 0 && a.sinks == nullptr && a.tree == nullptr;
}

// Beside those of fa_decode_kernel: the one for a cache in 8 bits.
constexpr int kEightBitCache = FA_DECODE_CHUNKED_PREFILL + 1;

// Whether a kernel, an fa_decode_kernel, computes a problem here.
template <int d, class T>
bool supports(int kernel, const DecodeAttention<T>& a, const ChunkSequences& of) {
  const bool paged = of.pages.block_table != nullptr, packed = of.cu_seqlens_q != nullptr;
  const bool all_keys = !paged && !packed && of.lengths_k == nullptr && is_plain(a);
  if (kernel == FA_DECODE_FORWARD) return all_keys;
  if (all_rows(a) > kMostRows) return false;
  switch (kernel) {
    case FA_DECODE_PACKED_GQA:
    case FA_DECODE_ONE_LAUNCH:
    case FA_DECODE_WGMMA:
      return all_keys &&
             with_decode_tile<d>(
                 a, [&](auto tile) { return decode_grid<decltype(tile)>(a, 1).y <= kMaxGrid; }) &&
             (kernel != FA_DECODE_WGMMA ||
              (can_run(device_properties(), kNeedsHopper) && can_use_tma(a)));
    case FA_DECODE_EVEN_TILES:
      return !paged && !packed && can_list_tiles<d>(a);
    case FA_DECODE_PAGED_KV:
      return paged && !packed && can_list_tiles<d>(a);
    default:
      return can_run(device_properties(), kNeedsHopper) && can_chunk<d>(a, of);
  }
}

// The workspace of a kernel that supports the problem.
template <int d, class T>
DecodeWorkspaceSize decode_workspace(int kernel, const DecodeAttention<T>& a,
                                     const ChunkSequences& of) {
  switch (kernel) {
    case FA_DECODE_FORWARD:
      return {0, 1};  // the counter of a tile scheduler
    case FA_DECODE_PACKED_GQA:
      return {packed_gqa_workspace<d>(a), 0};
    case FA_DECODE_ONE_LAUNCH:
      return one_launch_workspace<d>(a);
    case FA_DECODE_WGMMA:
      return {decode_wgmma_workspace<d>(a), 0};
    case FA_DECODE_CHUNKED_PREFILL:
      return chunks_workspace<d>(a, of);
    default:
      return even_tiles_workspace<d>(a);
  }
}

// What such a kernel has to do for sequences with all keys.
template <int d, class T>
DecodeWork decode_work(int kernel, const DecodeAttention<T>& a, const ChunkSequences& of,
                       const DeviceProperties& gpu) {
  const DecodeRates rates;
  const double rows = static_cast<double>(group_size(a)) * a.length_q;
  const double heads = static_cast<double>(a.batch) * a.kv_heads;
  const double keys =  // that a query sees
      std::min<double>(most_visible_keys(a),
                       a.causal ? std::max(1.0, a.length_k - std::min(a.length_q, a.length_k) / 2.0)
                                : a.length_k);
  DecodeWork work{};
  work.parts = 1;
  work.bytes = sizeof(T) * a.head_dim * heads * 2 * (most_visible_keys(a) + rows);
  work.state_bytes = sizeof(float) * static_cast<double>(decode_workspace<d>(kernel, a, of).states);
  const auto tiles = [&](double rate, int block_m, int parts, double rows_of_head, double all) {
    work.rate = rate;
    work.items = all * std::ceil(rows_of_head / block_m);
    work.item_flops = 4.0 * block_m * d * keys;
    work.parts = parts;
  };
  switch (kernel) {
    case FA_DECODE_FORWARD:
      tiles(prefers_hopper(gpu) ? rates.forward : rates.mma_forward, 2 * kQueries, 1, a.length_q,
            heads * group_size(a));
      break;
    case FA_DECODE_WGMMA:
      tiles(rates.wgmma, kQueries, decode_wgmma_parts<WgmmaDecodeTile<T, d>>(a), rows, heads);
      break;
    case FA_DECODE_CHUNKED_PREFILL:
      work.start = rates.chunks_start;
      with_chunk_tile<d>(a, of, [&](auto tile) {
        using Tile = decltype(tile);
        tiles(Tile::consumers > 1 ? rates.chunks : rates.half_chunks, Tile::block_m,
              chunk_parts<Tile>(a, of), rows, heads);
      });
      break;
    default:
      using Tile = DecodeTile<d, 4>;
      tiles(rates.mma, Tile::block_m, 1, rows, heads);
      work.even = true;
      work.finish_clocks = rates.row_clocks * Tile::block_m / Tile::warps;
      if (kernel == FA_DECODE_PACKED_GQA) {
        work.parts = packed_gqa_parts<Tile>(a);
      } else if (all_items<Tile>(a) %
                     even_blocks(a, kernel == FA_DECODE_PAGED_KV ? kDecodeBlocks : 1) !=
                 0) {
        work.finish_clocks += rates.merged_row_clocks * Tile::block_m / Tile::warps;
      }
  }
  return work;
}

// The kernel that a call takes: the one that it names, or the fastest on a GPU of those that support
// it here.
template <int d, class T>
int decode_kernel(const DecodeAttention<T>& a, const ChunkSequences& of, int named,
                  const DeviceProperties& gpu = device_properties()) {
  if (named != FA_DECODE_FASTEST) {
    if (supports<d>(named, a, of)) return named;
    refuse("kernel is {}, which does not support the problem on this device; 0 is the fastest",
           named);
  }
  const bool paged = of.pages.block_table != nullptr;
  const bool all_keys = !paged && of.lengths_k == nullptr && is_plain(a);
  const int even = paged ? FA_DECODE_PAGED_KV : FA_DECODE_EVEN_TILES;
  if (a.part_keys > 0) {  // a rule that no other sequence changes
    const bool chunks = of.cu_seqlens_q != nullptr || (prefers_hopper(gpu) && packed_rows(a) > 64);
    const int fixed = chunks ? int{FA_DECODE_CHUNKED_PREFILL} : even;
    if (supports<d>(fixed, a, of)) return fixed;
    refuse(
        "part_keys is {}, which asks for kernel {}: it does not support the problem on this "
        "device; allowed are 0, and another kernel by its name",
        a.part_keys, fixed);
  }
  const int few = all_keys ? FA_DECODE_ONE_LAUNCH : even;
  if (supports<d>(few, a, of) && packed_rows(a) <= 16) return few;
  int best = FA_DECODE_FASTEST;
  double least = std::numeric_limits<double>::infinity();
  for (const int kernel : {int{FA_DECODE_FORWARD}, int{FA_DECODE_CHUNKED_PREFILL},
                           int{FA_DECODE_WGMMA}, int{FA_DECODE_PACKED_GQA}, even}) {
    const bool hopper = kernel == FA_DECODE_CHUNKED_PREFILL || kernel == FA_DECODE_WGMMA;
    if (!supports<d>(kernel, a, of) ||
        (hopper && !prefers_hopper(gpu) && of.cu_seqlens_q == nullptr)) {
      continue;
    }
    const double seconds = decode_seconds(decode_work<d>(kernel, a, of, gpu), gpu);
    if (seconds < least) {
      least = seconds;
      best = kernel;
    }
  }
  if (best != FA_DECODE_FASTEST) return best;
  if (of.cu_seqlens_q == nullptr) even_tiles_workspace<d>(a);  // says what is too large
  refuse("cu_seqlens_q needs a Hopper GPU, and distances between keys that TMA supports");
}

}  // namespace
}  // namespace fa::FA_TARGET
