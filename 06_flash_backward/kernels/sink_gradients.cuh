/// @file
/// The gradient of a functor's sinks. A sink is a key whose value is 0, so its dP is 0, and its
/// gradient the sum of -P delta over the rows.
#pragma once

#include "06_flash_backward/kernels/preprocess.cuh"
#include "common/attention/score_functors.cuh"

namespace fa::FA_TARGET {

/// Threads of a block of sink_gradients().
constexpr int kSinkThreads = 256;

/// The gradient of each head's sink; a block has a head.
template <class T, class Functor>
__global__ void sink_gradients(AttentionGradient<T> a, Functor functor) {
  __shared__ float sums[kSinkThreads / kWarp];
  const int head = blockIdx.x, rows = padded_rows(a);
  // Rounded as in the forward pass, so that P of a row without keys is 1.
  const float unit = unit_of(functor, a.scale);
  const float sink = __fmul_rn(functor.sink(head) / unit * unit, kLog2E);
  float sum = 0;
  //! [sink_sum]
  for (int batch = 0; batch < a.batch; ++batch) {
    const std::int64_t row0 = gradient_head(a, batch, head).padded_row;
    for (int i = threadIdx.x; i < rows; i += kSinkThreads) {
      // dP = 0: the sink's value is 0
      const float p = exp2_approx(fminf(sink - a.lse_base_2[row0 + i], 0.0f));
      sum -= p * a.delta[row0 + i];
    }
  }
  //! [sink_sum]
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = sum;
  __syncthreads();  // the sums of all warps are stored
  if (threadIdx.x >= kWarp) return;
  const bool has_sum = threadIdx.x < kSinkThreads / kWarp;
  sum = warp_sum(has_sum ? sums[threadIdx.x] : 0.0f);
  if (threadIdx.x == 0) functor.d_sinks()[head] = sum;
}

/// Launches it for a functor with sinks whose gradient is wanted.
template <class T, class Functor>
void launch_sink_gradients(const AttentionGradient<T>& a,
                           const Functor& functor, const Stream& stream) {
  if constexpr (Functor::has_sink) {
    if (functor.d_sinks() == nullptr) return;
    launch(stream, sink_gradients<T, Functor>,
           {{static_cast<unsigned>(a.heads)}, {kSinkThreads}}, a, functor);
  }
}

}  // namespace fa::FA_TARGET
