/// @file
/// Launches with the functor that a FunctorSpec means, and the parts in which they are compiled: see
/// common/gpu/parts.hpp.
#pragma once

#include "06_flash_backward/kernels/functors/01_score_functor.cuh"
#include "06_flash_backward/kernels/functors/02_hopper.cuh"
#include "common/attention/functor_instances.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// launch_backward_score_functor() with the functor of a spec.
template <int d, class T>
void launch_backward_functor(const AttentionGradient<T>& a, const FunctorSpec& spec,
                             const Stream& stream, TileKind* kinds) {
  with_functor(spec, a.length_q, a.length_k, [&](const auto& functor) {
    launch_backward_score_functor<d>(a, functor, stream, kinds);
  });
}

/// launch_backward_hopper_functor() with the functor of a spec.
template <class T>
void launch_backward_functor_hopper(const AttentionGradient<T>& a, const FunctorSpec& spec,
                                    const Stream& stream, TileKind* kinds) {
  with_functor(spec, a.length_q, a.length_k, [&](const auto& functor) {
    launch_backward_hopper_functor(a, functor, stream, kinds);
  });
}

/// @cond
#define FA_FUNCTOR(...)                                 \
  FA_LAUNCH_16_BIT(backward_functor, AttentionGradient, \
                   (const FunctorSpec&, const Stream&, TileKind*), __VA_ARGS__)
FA_FUNCTOR(launch_backward_functor<64>);
FA_FUNCTOR(launch_backward_functor<128>);
FA_LAUNCH(backward_functor_hopper,
          launch_backward_functor_hopper(const AttentionGradient<bfloat16>&, const FunctorSpec&,
                                         const Stream&, TileKind*));
#undef FA_FUNCTOR
/// @endcond

}  // namespace fa::FA_TARGET
