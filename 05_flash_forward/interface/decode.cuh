/// @file
/// What fa_decode() and fa_append() do: they look at what they are given, and launch a kernel.
/// Compiled once for each backend: see common/gpu/target.hpp.
#pragma once

#include <vector>

#include "05_flash_forward/interface/decode_choice.cuh"
#include "05_flash_forward/interface/packed_checks.cuh"
#include "05_flash_forward/kernels/decode/append.cuh"
#include "05_flash_forward/kernels/decode/merge.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each library includes this

// The window, the tree and the size of parts.
inline void check_masks(const fa_attention& a, const fa_cache& cache) {
  const bool packed = cache.cu_seqlens_q != nullptr;
  const int least = packed ? kLeastWindow : 1;
  if (cache.window != 0 && (cache.window < least || cache.window > kMaxLength)) {
    refuse("window is {}; {}allowed are 0 and {} to {}", cache.window,
           packed ? "with cu_seqlens_q " : "", least, kMaxLength);
  }
  if (cache.part_keys < 0 || cache.part_keys > kMaxLength || cache.part_keys % kPartKeys != 0) {
    refuse("part_keys is {}; allowed are 0 and multiples of {} up to {}", cache.part_keys,
           kPartKeys, kMaxLength);
  }
  if (cache.tree == nullptr) return;
  if (a.causal != 0) refuse("causal is 1; with a tree 0 is allowed");
  if (cache.window != 0) refuse("window is {}; with a tree 0 is allowed", cache.window);
  if (packed) refuse("cu_seqlens_q is not a null pointer, which is what a tree allows");
}

inline bool has_8_bits(const fa_cache& cache) {
  return cache.type == FA_CACHE_E4M3;
}

inline void check_8_bit_cache(const fa_attention& a, const fa_cache& cache) {
  check_16_bit_problem("a cache in 8 bits", a);
  check_flag("scale_per_head", cache.scale_per_head);
  if (a.head_dim % 16 != 0) {
    refuse("head_dim is {}; a cache in 8 bits allows multiples of 16", a.head_dim);
  }
  if (cache.kernel != FA_DECODE_FASTEST) {
    refuse("kernel is {}; a cache in 8 bits allows 0", cache.kernel);
  }
  for (const auto& [name, given] : {std::pair{"cu_seqlens_q", cache.cu_seqlens_q != nullptr},
                                    {"sinks", cache.sinks != nullptr},
                                    {"tree", cache.tree != nullptr}}) {
    if (given) refuse("{} is not a null pointer, which is what a cache in 8 bits allows", name);
  }
  for (const auto& [name, size] :
       {std::pair{"window", cache.window}, {"part_keys", cache.part_keys}}) {
    if (size != 0) refuse("{} is {}; a cache in 8 bits allows 0", name, size);
  }
}

inline void check_cache(const fa_attention& a, const fa_cache* given) {
  check_struct("fa_cache", given);
  const fa_cache& cache = *given;
  check_flag("check", cache.check);
  if (cache.type != FA_CACHE_SAME && cache.type != FA_CACHE_E4M3) {
    refuse("the type of the cache is {}; allowed are 0 (that of q) and 1 (e4m3)", cache.type);
  }
  if (cache.kernel < 0 || cache.kernel > FA_DECODE_CHUNKED_PREFILL) {
    refuse("kernel is {}; allowed are 0 to {}", cache.kernel, int{FA_DECODE_CHUNKED_PREFILL});
  }
  check_masks(a, cache);
  if (has_8_bits(cache)) check_8_bit_cache(a, cache);
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

// What fa_decode() is given, but where it is.
inline void check_decode(const fa_attention* given, const fa_cache* cache) {
  check_problem(given);
  check_16_bit_problem("fa_decode", *given);
  check_cache(*given, cache);
}

// Checks where k or v of a cache is.
inline attention::MemoryRegion checked_cache(const char* name, const void* pointer,
                                             const fa_strides& strides, const fa_attention& a,
                                             const fa_cache& cache, std::int64_t columns,
                                             bool written = false) {
  const bool paged = cache.block_table != nullptr;
  const std::int64_t bytes = has_8_bits(cache) ? 1 : a.type == FA_TYPE_FLOAT32 ? 4 : 2;
  return checked_tensor(name, pointer, row_strides(strides),
                        {paged ? cache.cache_pages : a.batch, a.kv_heads,
                         paged ? cache.page_size : a.length_k, columns},
                        bytes, written, columns == a.head_dim ? "head_dim" : "head_dim_v");
}

// Checks where lengths, tables, sinks and scales are.
inline std::vector<attention::MemoryRegion> checked_tables(const fa_attention& a,
                                                           const fa_cache& cache) {
  std::vector<attention::MemoryRegion> regions;
  const auto add = [&](const char* name, const void* pointer, std::int64_t count) {
    if (pointer == nullptr) return;
    regions.push_back(checked_bytes(name, pointer, alignof(std::int32_t),
                                    sizeof(std::int32_t) * static_cast<std::uint64_t>(count)));
  };
  add("lengths_k", cache.lengths_k, a.batch);
  add("block_table", cache.block_table, a.batch * cache.most_pages);
  add("cu_seqlens_q", cache.cu_seqlens_q, a.batch + 1);
  add("sinks", cache.sinks, a.heads);
  add("tree", cache.tree, a.batch * a.length_q * ceil_div<std::int64_t>(a.length_q, 32));
  const std::int64_t rows = cache.block_table == nullptr ? a.batch : cache.cache_pages;
  const std::int64_t scales = cache.scale_per_head == 0 ? 1 : rows * a.kv_heads;
  for (const auto& [name, pointer] :
       {std::pair{"k_scales", cache.k_scales}, {"v_scales", cache.v_scales}}) {
    if (!has_8_bits(cache)) continue;
    regions.push_back(checked_bytes(name, pointer, alignof(float),
                                    sizeof(float) * static_cast<std::uint64_t>(scales)));
  }
  return regions;
}

// The problem as the queries have it: packed ones are those of one sequence.
inline fa_attention problem_of_queries(fa_attention a, const fa_cache& cache) {
  if (cache.cu_seqlens_q != nullptr) a.batch = 1;
  return a;
}

// Checks where the tensors, the table and the workspace are.
inline CallMemory checked_decode_call(const fa_attention& a, const fa_cache& cache) {
  const std::int64_t d = a.head_dim;
  const fa_attention rows = problem_of_queries(a, cache);
  CallMemory memory{
      {checked_tensor("q", a.q, a.q_strides, rows, a.heads, a.length_q, d),
       checked_cache("k", a.k, a.k_strides, a, cache, d),
       checked_cache("v", a.v, a.v_strides, a, cache, d)},
      {checked_tensor("o", a.o, a.o_strides, rows, a.heads, a.length_q, d, true), checked_lse(rows),
       checked_bytes("workspace", a.workspace, 16, a.workspace_bytes)}};
  for (const auto& region : checked_tables(a, cache)) memory.read.push_back(region);
  return memory;
}

// Reads lengths, table and cu_seqlens_q from the memory of the device and checks them.
inline void check_pages(const fa_attention& a, const fa_cache& cache) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(a.batch),
                                    static_cast<std::int32_t>(a.length_k));
  if (cache.lengths_k != nullptr) lengths = device_integers(cache.lengths_k, a.batch);
  std::vector<std::int32_t> table;
  if (cache.block_table != nullptr) {
    table = device_integers(cache.block_table, a.batch * cache.most_pages);
  }
  std::vector<std::int32_t> cu;
  if (cache.cu_seqlens_q != nullptr) {
    cu = check_cu_seqlens("cu_seqlens_q", cache.cu_seqlens_q, a.batch, a.length_q, "length_q");
  }
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] < 0 || lengths[b] > a.length_k) {
      refuse("lengths_k[{}] is {}; allowed are 0 to {}, which is length_k", b, lengths[b],
             a.length_k);
    }
    if (table.empty()) continue;
    const std::int64_t queries = cu.empty() ? a.length_q : cu[b + 1] - cu[b];
    const std::int64_t before =  // the window of the first query
        cache.window == 0 ? 0 : lengths[b] - queries + 1 - cache.window;
    std::int64_t i = std::max<std::int64_t>(0, before) / cache.page_size;
    for (; i * cache.page_size < lengths[b]; ++i) {
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

inline ChunkSequences sequences_of(const fa_attention& a, const fa_cache& cache) {
  return {static_cast<int>(a.batch), cache.cu_seqlens_q, cache.lengths_k, pages_of(cache)};
}

template <class T>
DecodeAttention<T> decode_attention(Attention<T> a, const fa_cache& cache) {
  a.causal = a.causal || cache.window > 0;  // it ends with the query's own position
  return {a, static_cast<int>(cache.window), static_cast<int>(cache.part_keys), cache.sinks,
          cache.tree};
}

inline EightBitCache eight_bit_cache(const fa_attention& a, const fa_cache& cache) {
  return {static_cast<const e4m3*>(a.k),
          static_cast<const e4m3*>(a.v),
          cache.k_scales,
          cache.v_scales,
          cache.scale_per_head == 1,
          pages_of(cache)};
}

// Calls work(attention, d, sequences, kernel) for a problem and a cache that were checked.
template <class Work>
void with_decode_kernel(const fa_attention& given, const fa_cache& cache, Work work) {
  const ChunkSequences sequences = sequences_of(given, cache);
  with_16_bit_attention(problem_of_queries(given, cache), [&](const auto& all, auto d) {
    const auto a = decode_attention(all, cache);
    work(a, d, sequences,
         has_8_bits(cache) ? kEightBitCache
                           : decode_kernel<decltype(d)::value>(a, sequences, cache.kernel));
  });
}

template <int d, class T>
void launch_decode(int kernel, const DecodeAttention<T>& a, const ChunkSequences& of,
                   const Stream& stream, const DecodeWorkspace& workspace) {
  switch (kernel) {
    case FA_DECODE_FORWARD:
      return forward_kernel(a).launch(stream, workspace.counters);
    case FA_DECODE_PACKED_GQA:
      return launch_packed_gqa<d>(a, stream, workspace.states);
    case FA_DECODE_ONE_LAUNCH:
      return launch_one_launch<d>(a, stream, workspace);
    case FA_DECODE_EVEN_TILES:
      return launch_even_tiles<d>(a, of.lengths_k, stream, workspace);
    case FA_DECODE_PAGED_KV:
      return launch_paged_kv<d>(a, of.lengths_k, of.pages, stream, workspace);
    case FA_DECODE_WGMMA:
      return launch_decode_wgmma<d>(a, stream, workspace.states);
    default:
      return launch_chunks<d>(a, of, stream, workspace);
  }
}

// Rows of elements of four bytes, as append_rows() takes them.
inline NewRows new_rows(const fa_attention& a, const fa_cache& cache, const void* from,
                        const fa_strides& from_strides, const void* to,
                        const fa_strides& to_strides, std::int64_t columns, const float* scales) {
  const std::int64_t each = a.type == FA_TYPE_FLOAT32 ? 1 : 2;  // elements of four bytes
  const auto in_fours = [](const fa_strides& s, std::int64_t of_four) {
    return RowStrides{s.batch / of_four, s.head / of_four, s.row / of_four};
  };
  return {static_cast<const float*>(from),  static_cast<float*>(const_cast<void*>(to)),
          in_fours(from_strides, each),     in_fours(to_strides, has_8_bits(cache) ? 4 : each),
          static_cast<int>(columns / each), scales,
          cache.scale_per_head == 1};
}

}  // namespace
}  // namespace fa::FA_TARGET

using namespace fa::FA_TARGET;  // one source file for each library includes this

size_t fa_decode_workspace_bytes(const fa_attention* given, const fa_cache* cache) {
  return guarded_bytes([&](std::size_t& bytes) {
    check_decode(given, cache);
    with_decode_kernel(*given, *cache, [&](const auto& a, auto d, const auto& of, int kernel) {
      bytes = workspace_bytes(decode_workspace<decltype(d)::value>(kernel, a, of));
    });
  });
}

const char* fa_decode_kernel_name(const fa_attention* given, const fa_cache* cache) {
  return guarded_name([&] {
    check_decode(given, cache);
    with_decode_kernel(*given, *cache, [&](const auto& a, auto, const auto&, int kernel) {
      constexpr const char* names[] = {"02_packed_gqa",  "03_one_launch", "04_even_tiles",
                                       "05_paged_kv",    "06_wgmma",      "07_chunked_prefill",
                                       "eight_bit_cache"};
      last_name() = kernel == FA_DECODE_FORWARD ? forward_kernel(a).name
                                                : names[kernel - FA_DECODE_PACKED_GQA];
    });
  });
}

int fa_decode(const fa_attention* given, const fa_cache* given_cache) {
  return guarded([&] {
    check_decode(given, given_cache);
    const fa_cache& cache = *given_cache;
    const CurrentGpu gpu(checked_gpu(checked_decode_call(*given, cache)));
    require_gpu("fa_decode", fa::kNeedsMma);
    if (cache.check == 1) check_pages(*given, cache);
    with_decode_kernel(*given, cache, [&](const auto& a, auto columns, const auto& of, int kernel) {
      constexpr int d = decltype(columns)::value;
      const DecodeWorkspaceSize size = decode_workspace<d>(kernel, a, of);
      check_workspace_bytes(given->workspace_bytes, workspace_bytes(size));
      char* const memory = static_cast<char*>(given->workspace);
      const DecodeWorkspace workspace{reinterpret_cast<float*>(memory + counter_bytes(size)),
                                      reinterpret_cast<unsigned*>(memory)};
      if (kernel == kEightBitCache) {
        return launch_eight_bit_cache<d>(a, eight_bit_cache(*given, cache), of.lengths_k,
                                         stream_of(*given), workspace);
      }
      launch_decode<d>(kernel, a, of, stream_of(*given), workspace);
    });
  });
}

int fa_append(const fa_attention* given, const fa_cache* given_cache,
              const fa_new_keys* given_keys) {
  return guarded([&] {
    check_problem(given);
    check_cache(*given, given_cache);
    check_struct("fa_new_keys", given_keys);
    const fa_new_keys& keys = *given_keys;
    const fa_attention& a = *given;
    const fa_cache& cache = *given_cache;
    if (cache.cu_seqlens_q != nullptr) {
      refuse("cu_seqlens_q is not a null pointer, which is what fa_append allows");
    }
    const std::int64_t d = a.head_dim, columns_v = a.head_dim_v;
    CallMemory memory{
        {checked_tensor("new k", keys.k, keys.k_strides, a, a.kv_heads, a.length_q, d),
         checked_tensor("new v", keys.v, keys.v_strides, a, a.kv_heads, a.length_q, columns_v)},
        {checked_cache("k", a.k, a.k_strides, a, cache, d, true),
         checked_cache("v", a.v, a.v_strides, a, cache, columns_v, true)}};
    for (const auto& region : checked_tables(a, cache)) memory.read.push_back(region);
    const CurrentGpu gpu(checked_gpu(memory));
    if (cache.check == 1) check_pages(a, cache);
    const auto append = has_8_bits(cache) ? a.type == FA_TYPE_FLOAT16 ? launch_append<half>
                                                                      : launch_append<bfloat16>
                                          : launch_append<void>;
    append(new_rows(a, cache, keys.k, keys.k_strides, a.k, a.k_strides, d, cache.k_scales),
           new_rows(a, cache, keys.v, keys.v_strides, a.v, a.v_strides, columns_v, cache.v_scales),
           static_cast<int>(a.batch), static_cast<int>(a.kv_heads), static_cast<int>(a.length_q),
           static_cast<int>(a.length_k), cache.lengths_k, pages_of(cache), stream_of(a));
  });
}

int fa_merge(const fa_attention* given, const fa_other_keys* given_other) {
  return guarded([&] {
    check_problem(given);
    check_16_bit_problem("fa_merge", *given);
    check_struct("fa_other_keys", given_other);
    const fa_attention& a = *given;
    const fa_other_keys& other = *given_other;
    const std::int64_t d = a.head_dim;
    check_flag("one_sequence", other.one_sequence);
    const auto other_lse =
        checked_bytes("other lse", other.lse, alignof(float), checked_lse(a).row_bytes);
    const CurrentGpu gpu(checked_gpu(
        {{checked_tensor("other o", other.o, other.o_strides, a, a.heads, a.length_q, d),
          other_lse},
         {checked_tensor("o", a.o, a.o_strides, a, a.heads, a.length_q, d, true),
          checked_lse(a)}}));
    const RowStrides lse_strides = other.one_sequence != 0
                                       ? RowStrides{a.length_q, a.batch * a.length_q, 1}
                                       : RowStrides{a.heads * a.length_q, a.length_q, 1};
    with_16_bit_attention(a, [&](const auto& attention, auto) {
      const auto* const o = static_cast<decltype(attention.q)>(other.o);
      launch_merge_outputs(attention, {o, other.lse, row_strides(other.o_strides), lse_strides},
                           stream_of(a));
    });
  });
}
