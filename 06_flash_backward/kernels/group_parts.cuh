/// @file
/// The query heads of a group, or slices of their queries, divided among several blocks: what each
/// part has, how many parts cost least, and how much workspace they need, for steps 19 and 20.
#pragma once

#include "06_flash_backward/kernels/hopper_backward.cuh"

namespace fa::FA_TARGET {

/// A block of keys and some query heads of its group, or some queries of one.
struct NBlockPart : NBlock {
  QueryHeads heads;
  int part;  ///< of the group
};
/// Query heads of a part.
template <class T>
__device__ QueryHeads query_heads(const Attention<T>& /*a*/,
                                  const NBlockPart& block) {
  return block.heads;
}

/// One of several slices of the tiles of queries that see a block of keys.
//! [slice_of]
__device__ inline MBlocks slice_of(const MBlocks& m, int slice, int slices) {
  const int tiles = m.max - m.min;
  const int min = m.min + tiles * slice / slices;
  const int max = m.min + tiles * (slice + 1) / slices;
  // The tile to begin with keeps its place in proportion.
  const std::int64_t ahead = std::int64_t{m.start - m.min} * (max - min);
  return {min, max, min + (tiles > 0 ? static_cast<int>(ahead / tiles) : 0)};
}
//! [slice_of]

/// The part for a place in the order: the scheduler has `parts` heads for each head of K and V.
/// @param parts at most as many as query heads of a group, or a multiple of these
//! [n_block_part]
template <class T>
__device__ NBlockPart n_block_part(const Attention<T>& a, const NBlock& block,
                                   int parts) {
  const int kv_head = block.kv_head / parts, part = block.kv_head % parts;
  const int group = group_size(a);
  const int first = part * group / parts, end = (part + 1) * group / parts;
  const int count = end > first ? end - first : 1;  // 1 for slices of a head
  NBlockPart result{block, {kv_head * group + first, count}, part};
  result.kv_head = kv_head;
  if (const int slices = parts / group; slices > 1) {
    result.m_blocks = slice_of(block.m_blocks, part % slices, slices);
  }
  return result;
}
//! [n_block_part]

/// The SMs that share the blocks of a pass; the lab has as many as an H100.
inline int sms_of(const DeviceProperties& device) {
  return device.compute_capability == 0 ? 132 : device.sm_count;
}

/// How long blocks of keys take on some SMs when each group has so many parts: in rows of queries
/// that an SM processes, with 128 more for the ends of a block, and 512 for a part of dK and dV
/// that is written and read once.
//! [cost]
template <class T>
double cost_of_parts(const Attention<T>& a, int block_n, int parts, int sms) {
  constexpr double ends = 128, traffic = 512;
  const double queries = a.length_q, keys = a.length_k;
  const double blocks =
      1.0 * ceil_div(a.length_k, block_n) * a.batch * a.kv_heads * parts;
  const int group = group_size(a);
  const double heads =  // of a block
      parts > group ? 1.0 * group / parts : ceil_div(group, parts);
  const double more = parts > 1 ? traffic * blocks / sms : 0;
  if (!a.causal) {
    return std::ceil(blocks / sms) * (heads * queries + ends) + more;
  }
  // The longest blocks come first and short ones fill the SMs, but not to the
  // end: a third of a longest block is lost.
  const double seen = std::min(queries, keys);
  const double scores = seen * (keys - seen / 2) * a.batch * a.heads;
  const double average = (scores / block_n + blocks * ends) / sms;
  const double longest = heads * seen + ends;
  return std::max(longest, average + longest / 3) + more;
}
//! [cost]

/// The number of parts with the least cost: 1 unless more save 5 % at least. More than eight blocks
/// for each SM would not.
/// @param slices of a head at most
template <class T, class Cost>
int cheapest_parts(const Attention<T>& a, int block_n, int sms, int slices,
                   Cost cost) {
  const std::int64_t blocks =
      std::int64_t{ceil_div(a.length_k, block_n)} * a.batch * a.kv_heads;
  const int group = group_size(a);
  const auto most =
      std::min<std::int64_t>(std::int64_t{group} * slices, 8 * sms / blocks);
  int best = 1;
  double least = 0.95 * cost(1);
  for (int parts = 2; parts <= most; parts += parts < group ? 1 : group) {
    const double of_parts = cost(parts);
    if (of_parts >= least) continue;
    best = parts;
    least = of_parts;
  }
  return best;
}

/// Floats of d_kv_parts; none for one part.
/// @param columns of dK and dV together
/// @param stored  whether each part is, or their sum only
template <class T>
std::int64_t d_kv_floats(const Attention<T>& a, int block_n, int columns,
                         int parts, bool stored = true) {
  const std::int64_t keys =
      std::int64_t{ceil_div(a.length_k, block_n)} * block_n;
  return parts == 1
             ? 0
             : keys * a.batch * a.kv_heads * columns * (stored ? parts : 1);
}

/// The problem with a head of K and V for each part, for a scheduler.
//! [with_parts]
template <class T>
AttentionGradient<T> with_parts(AttentionGradient<T> a, int parts) {
  a.kv_heads *= parts;
  a.heads = std::max(a.heads, a.kv_heads);  // slices of heads
  return a;
}
//! [with_parts]

}  // namespace fa::FA_TARGET
