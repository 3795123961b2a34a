/// @file
/// Lesson 06: the time of distributed attention, predicted from FLOPs, bytes and the bandwidth of
/// the links. What it leaves out makes real runs slower: latencies, launches, partial tiles.
#pragma once

#include "06_flash_backward/ring/counts.hpp"

namespace fa::ring {

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
