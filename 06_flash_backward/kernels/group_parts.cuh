/// @file
/// The query heads of a group divided into parts, one for each of several blocks: which heads a
/// part has, how many parts cost least, and how much workspace they need. Rungs 19 and 20 share it.
#pragma once

#include "06_flash_backward/kernels/hopper_backward.cuh"

namespace fa::FA_TARGET {

/// A block of keys and some query heads of its group.
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

/// The part for a place in the order: the scheduler has `parts` heads for each head of K and V.
//! [n_block_part]
template <class T>
__device__ NBlockPart n_block_part(const Attention<T>& a, const NBlock& block,
                                   int parts) {
  const int kv_head = block.kv_head / parts, part = block.kv_head % parts;
  const int group = group_size(a);
  const int first = part * group / parts, end = (part + 1) * group / parts;
  NBlockPart result{block, {kv_head * group + first, end - first}, part};
  result.kv_head = kv_head;
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
  const double heads = ceil_div(group_size(a), parts);  // of a block
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
/// @param cost cost(parts)
template <class T, class Cost>
int cheapest_parts(const Attention<T>& a, int block_n, int sms, Cost cost) {
  const std::int64_t blocks =
      std::int64_t{ceil_div(a.length_k, block_n)} * a.batch * a.kv_heads;
  const int most = static_cast<int>(
      std::min<std::int64_t>(group_size(a), 8 * sms / blocks));
  int best = 1;
  double least = 0.95 * cost(1);
  for (int parts = 2; parts <= most; ++parts) {
    const double of_parts = cost(parts);
    if (of_parts >= least) continue;
    best = parts;
    least = of_parts;
  }
  return best;
}

/// Floats of d_kv_parts; none for one part.
/// @param block_n keys of a block
/// @param columns of dK and dV together
template <class T>
std::int64_t d_kv_floats(const Attention<T>& a, int block_n, int columns,
                         int parts) {
  const std::int64_t keys =
      std::int64_t{ceil_div(a.length_k, block_n)} * block_n;
  return parts > 1 ? keys * a.batch * a.kv_heads * parts * columns : 0;
}

/// The problem with a head of K and V for each part, for a scheduler.
//! [with_parts]
template <class T>
AttentionGradient<T> with_parts(AttentionGradient<T> a, int parts) {
  a.kv_heads *= parts;
  return a;
}
//! [with_parts]

}  // namespace fa::FA_TARGET
