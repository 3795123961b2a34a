/// @file
/// What fa_decode() and fa_append() do: they look at what they are given, and launch a kernel.
/// Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include <algorithm>
#include <vector>

#include "05_flash_forward/interface/checks.cuh"
#include "05_flash_forward/kernels/decode/05_paged_kv.cuh"
#include "05_flash_forward/kernels/decode/06_wgmma.cuh"
#include "05_flash_forward/kernels/decode/append.cuh"
#include "05_flash_forward/src/dispatch.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

// What fa_decode() does not have, although fa_forward() may.
inline void check_decode_problem(const fa_attention* given) {
  check_problem(given);
  check_16_bit_problem("fa_decode", *given);
}

inline void check_cache(const fa_attention& a, const fa_cache* given) {
  check_struct("fa_cache", given);
  const fa_cache& cache = *given;
  check_flag("check", cache.check);
  if (cache.block_table == nullptr) return;
  check_size("page_size", cache.page_size, kMaxLength);
  check_size("cache_pages", cache.cache_pages, kMaxLength);
  check_size("most_pages", cache.most_pages, kMaxLength);
  if (cache.page_size % kPageMultiple != 0) {
    refuse("page_size is {}; allowed are multiples of {}", cache.page_size, kPageMultiple);
  }
  if (cache.most_pages * cache.page_size < a.length_k) {
    refuse("most_pages is {}; length_k is {}, for which {} pages of {} keys are needed",
           cache.most_pages, a.length_k, ceil_div(a.length_k, cache.page_size), cache.page_size);
  }
}

// Checks where k or v of a cache is.
inline attention::MemoryRegion checked_cache(const char* name, const void* pointer,
                                             const fa_strides& strides, const fa_attention& a,
                                             const fa_cache& cache, std::int64_t columns,
                                             bool written = false) {
  const bool paged = cache.block_table != nullptr;
  fa_attention pages = a;
  if (paged) pages.batch = cache.cache_pages;
  return checked_tensor(name, pointer, strides, pages, a.kv_heads,
                        paged ? cache.page_size : a.length_k, columns, written);
}

// Checks where lengths and table are.
inline std::vector<attention::MemoryRegion> checked_tables(const fa_attention& a,
                                                           const fa_cache& cache) {
  std::vector<attention::MemoryRegion> regions;
  const auto add = [&](const char* name, const std::int32_t* pointer, std::int64_t count) {
    if (pointer == nullptr) return;
    regions.push_back(checked_bytes(name, pointer, alignof(std::int32_t),
                                    sizeof(std::int32_t) * static_cast<std::uint64_t>(count)));
  };
  add("lengths_k", cache.lengths_k, a.batch);
  add("block_table", cache.block_table, a.batch * cache.most_pages);
  return regions;
}

// Checks where the tensors, the table and the workspace are.
inline CallMemory checked_decode_call(const fa_attention& a, const fa_cache& cache) {
  const std::int64_t d = a.head_dim;
  CallMemory memory{
      {checked_tensor("q", a.q, a.q_strides, a, a.heads, a.length_q, d),
       checked_cache("k", a.k, a.k_strides, a, cache, d),
       checked_cache("v", a.v, a.v_strides, a, cache, d)},
      {checked_tensor("o", a.o, a.o_strides, a, a.heads, a.length_q, d, true), checked_lse(a),
       checked_bytes("workspace", a.workspace, 16, a.workspace_bytes)}};
  for (const auto& region : checked_tables(a, cache)) memory.read.push_back(region);
  return memory;
}

// Reads the lengths and the table from the memory of the device and checks them.
inline void check_pages(const fa_attention& a, const fa_cache& cache) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(a.batch),
                                    static_cast<std::int32_t>(a.length_k));
  if (cache.lengths_k != nullptr) lengths = device_integers(cache.lengths_k, a.batch);
  std::vector<std::int32_t> table;
  if (cache.block_table != nullptr) {
    table = device_integers(cache.block_table, a.batch * cache.most_pages);
  }
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] < 0 || lengths[b] > a.length_k) {
      refuse("lengths_k[{}] is {}; allowed are 0 to {}, which is length_k", b, lengths[b],
             a.length_k);
    }
    if (table.empty()) continue;
    for (std::int64_t i = 0; i * cache.page_size < lengths[b]; ++i) {
      const std::int32_t page =
          table[b * static_cast<std::size_t>(cache.most_pages) + static_cast<std::size_t>(i)];
      if (page < 0 || page >= cache.cache_pages) {
        refuse("block_table[{}][{}] is {}; allowed are 0 to {}", b, i, page, cache.cache_pages - 1);
      }
    }
  }
}

inline PagedKv pages_of(const fa_cache& cache) {
  if (cache.block_table == nullptr) return {};
  return {cache.block_table, static_cast<int>(cache.most_pages),
          static_cast<int>(cache.cache_pages), static_cast<int>(cache.page_size)};
}

// Counters, and then states at a multiple of 16 bytes.
inline std::size_t counter_bytes(const DecodeWorkspaceSize& size) {
  return static_cast<std::size_t>(ceil_div<std::int64_t>(size.counters, 4)) * 16;
}
inline std::size_t workspace_bytes(const DecodeWorkspaceSize& size) {
  return counter_bytes(size) + sizeof(float) * static_cast<std::size_t>(size.states);
}

// Whether fa_forward() computes faster: queries fill half of its tiles of 128, and there are so many
// rows that launch_decode_wgmma() would not split the keys.
template <int d, class T>
bool prefers_forward(const Attention<T>& a) {
  return a.length_q >= 64 && decode_wgmma_parts<WgmmaDecodeTile<T, d>>(a) == 1;
}
// Whether its kernel is taken: it is faster, or the others cannot number the rows, or not launch so
// many blocks.
template <int d, class T>
bool takes_forward(const Attention<T>& a) {
  if (all_rows(a) > kMostRows) return true;
  const unsigned blocks =
      with_decode_tile<d>(a, [&](auto tile) { return decode_grid<decltype(tile)>(a, 1).y; });
  return blocks > kMaxGrid || prefers_forward<d>(a);
}
// Whether the kernel for Hopper is taken, for more rows than a tile of decode_one_launch() has.
template <class T>
bool takes_wgmma(const Attention<T>& a) {
  return prefers_hopper() && can_use_tma(a);
}

// What the kernel for sequences with all keys needs.
template <int d, class T>
DecodeWorkspaceSize all_keys_workspace(const Attention<T>& a) {
  if (takes_forward<d>(a)) return {0, 1};  // the counter of a tile scheduler
  if (packed_rows(a) <= 16) return one_launch_workspace<d>(a);
  return {takes_wgmma(a) ? decode_wgmma_workspace<d>(a) : packed_gqa_workspace<d>(a), 0};
}
// The same, and for lengths and pages unless they are refused: one workspace serves both.
template <int d, class T>
DecodeWorkspaceSize decode_workspace(const Attention<T>& a) {
  const DecodeWorkspaceSize all = all_keys_workspace<d>(a);
  if (!can_list_tiles<d>(a)) return all;
  const DecodeWorkspaceSize even = even_tiles_workspace<d>(a);
  return {std::max(all.states, even.states), std::max(all.counters, even.counters)};
}

inline std::size_t bytes_of_decode_workspace(const fa_attention* given) {
  std::size_t bytes = 0;
  guarded([&] {
    check_decode_problem(given);
    with_16_bit_attention(*given, [&](const auto& a, auto d) {
      bytes = workspace_bytes(decode_workspace<decltype(d)::value>(a));
    });
  });
  return bytes;
}

inline int decode(const fa_attention* given, const fa_cache* given_cache) {
  return guarded([&] {
    check_decode_problem(given);
    check_cache(*given, given_cache);
    const fa_cache& cache = *given_cache;
    const CurrentGpu gpu(checked_gpu(checked_decode_call(*given, cache)));
    if (!can_run(device_properties(), kNeedsMma)) {
      throw std::runtime_error("fa_decode " + missing(device_properties(), kNeedsMma));
    }
    if (cache.check == 1) check_pages(*given, cache);
    with_16_bit_attention(*given, [&](const auto& a, auto columns) {
      constexpr int d = decltype(columns)::value;
      const bool paged = cache.block_table != nullptr;
      const bool all_keys = !paged && cache.lengths_k == nullptr;
      if (!all_keys) even_tiles_workspace<d>(a);  // throws for too many tiles
      const DecodeWorkspaceSize size = decode_workspace<d>(a);
      check_workspace_bytes(given->workspace_bytes, workspace_bytes(size));
      auto* const counters = static_cast<unsigned*>(given->workspace);
      const DecodeWorkspace workspace{
          reinterpret_cast<float*>(static_cast<char*>(given->workspace) + counter_bytes(size)),
          counters};
      const Stream stream = stream_of(*given);
      if (all_keys) {
        if (takes_forward<d>(a)) {
          forward_kernel(a).launch(stream, counters);
        } else if (packed_rows(a) <= 16) {
          launch_one_launch<d>(a, stream, workspace);
        } else if (takes_wgmma(a)) {
          launch_decode_wgmma<d>(a, stream, workspace.states);
        } else {  // so many states are merged by a kernel of their own
          launch_packed_gqa<d>(a, stream, workspace.states);
        }
      } else if (paged) {
        launch_paged_kv<d>(a, cache.lengths_k, pages_of(cache), stream, workspace);
      } else {
        launch_even_tiles<d>(a, cache.lengths_k, stream, workspace);
      }
    });
  });
}

// Rows of elements of four bytes, as append_rows() takes them.
inline NewRows new_rows(const fa_attention& a, const void* from, const fa_strides& from_strides,
                        const void* to, const fa_strides& to_strides, std::int64_t columns) {
  const std::int64_t each = a.type == FA_TYPE_FLOAT32 ? 1 : 2;  // elements of four bytes
  const auto in_fours = [&](const fa_strides& s) {
    return RowStrides{s.batch / each, s.head / each, s.row / each};
  };
  return {static_cast<const float*>(from), static_cast<float*>(const_cast<void*>(to)),
          in_fours(from_strides), in_fours(to_strides), static_cast<int>(columns / each)};
}

inline int append(const fa_attention* given, const fa_cache* given_cache,
                  const fa_new_keys* given_keys) {
  return guarded([&] {
    check_problem(given);
    check_cache(*given, given_cache);
    check_struct("fa_new_keys", given_keys);
    const fa_new_keys& keys = *given_keys;
    const fa_attention& a = *given;
    const fa_cache& cache = *given_cache;
    const std::int64_t d = a.head_dim, columns_v = a.head_dim_v;
    CallMemory memory{
        {checked_tensor("new k", keys.k, keys.k_strides, a, a.kv_heads, a.length_q, d),
         checked_tensor("new v", keys.v, keys.v_strides, a, a.kv_heads, a.length_q, columns_v)},
        {checked_cache("k", a.k, a.k_strides, a, cache, d, true),
         checked_cache("v", a.v, a.v_strides, a, cache, columns_v, true)}};
    for (const auto& region : checked_tables(a, cache)) memory.read.push_back(region);
    const CurrentGpu gpu(checked_gpu(memory));
    if (cache.check == 1) check_pages(a, cache);
    launch_append(new_rows(a, keys.k, keys.k_strides, a.k, a.k_strides, d),
                  new_rows(a, keys.v, keys.v_strides, a.v, a.v_strides, columns_v),
                  static_cast<int>(a.batch), static_cast<int>(a.kv_heads),
                  static_cast<int>(a.length_q), static_cast<int>(a.length_k), cache.lengths_k,
                  pages_of(cache), stream_of(a));
  });
}

}  // namespace
}  // namespace fa::FA_TARGET
