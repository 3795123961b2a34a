/// @file
/// Lesson 06: what each way to distribute attention moves, stores and computes on a rank, from the
/// layout alone, and how long that takes, predicted from FLOPs, bytes and the bandwidth of the links.
/// The programs count the same as messages arrive, and compare. What the prediction leaves out makes
/// real runs slower: latencies, launches, partial tiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "06_flash_backward/ring/layout.hpp"

namespace fa::ring {

/// A way to distribute attention over ranks.
enum class Method { kAllGather, kRing, kOverlap, kZigZag, kHeads };

/// All of them, in the order of the chapter.
inline constexpr Method kMethods[] = {Method::kAllGather, Method::kRing, Method::kOverlap,
                                      Method::kZigZag, Method::kHeads};

/// "all-gather", "ring", "overlap", "zig-zag" or "heads".
std::string name_of(Method method);

/// The order of the sequence that a method uses.
RowOrder order_of(Method method);

/// What a rank receives from others, stores and computes.
struct RankCounts {
  std::int64_t forward_elements = 0, forward_messages = 0;    ///< received in the forward pass
  std::int64_t backward_elements = 0, backward_messages = 0;  ///< received in the backward pass
  std::int64_t stored = 0;  ///< most elements in the buffers for K and V, forward
  std::int64_t pairs = 0;   ///< visible pairs of query and key, over the heads of a batch element
};

/// The counts of a rank.
/// @param problem with order_of(method)
RankCounts counts_of(const Problem& problem, Method method, int rank);

/// The pairs of one head that the busiest rank computes at a step of the ring.
std::int64_t most_pairs(const Problem& problem, int step);

/// The FLOPs of pairs: 4 head_dim each in the forward pass, 10 head_dim in the backward pass.
double flops(double pairs, std::int64_t head_dim, bool backward);

/// GPUs and their links; the defaults are those of the data sheets of H100 and H200 SXM.
struct Machine {
  double tflops = 989;          ///< TFLOP/s of a GPU: dense bfloat16
  double link = 450;            ///< GB/s from a GPU to another: half of NVLink's 900 both ways
  double element = 2;           ///< bytes of an element of Q, K, V and O
  double gradient_element = 4;  ///< bytes of an element of dK and dV that travel: float32 sums
};

/// Predicted seconds of a pass.
/// @param problem with order_of(method)
double predicted_seconds(const Problem& problem, Method method, bool backward,
                         const Machine& machine);

/// The speed of all GPUs as a fraction of their number times the speed of one.
double predicted_efficiency(AttentionShape shape, bool causal, int gpus, Method method,
                            bool backward, const Machine& machine);

}  // namespace fa::ring
