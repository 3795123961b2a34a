/// @file
/// Launches with the functor that a FunctorSpec means, and the parts in which they and the launches
/// of fa_decode() are compiled: see common/gpu/parts.hpp.
#pragma once

#include "05_flash_forward/kernels/decode/05_paged_kv.cuh"
#include "05_flash_forward/kernels/decode/06_wgmma.cuh"
#include "05_flash_forward/kernels/functors/01_score_functor.cuh"
#include "05_flash_forward/kernels/functors/02_persistent.cuh"
#include "common/attention/functor_instances.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// launch_score_functor() with the functor of a spec.
template <int d, class T>
void launch_functor(const Attention<T>& a, const FunctorSpec& spec, const Stream& stream,
                    TileKind* workspace) {
  with_functor(spec, a.length_q, a.length_k, [&](const auto& functor) {
    launch_score_functor<d>(a, functor, stream, workspace);
  });
}

/// launch_persistent_functor() with the functor of a spec.
template <class T>
void launch_functor_persistent(const Attention<T>& a, const FunctorSpec& spec, const Stream& stream,
                               TileKind* kinds, unsigned* tile_counter) {
  with_functor(spec, a.length_q, a.length_k, [&](const auto& functor) {
    launch_persistent_functor(a, functor, stream, kinds, tile_counter);
  });
}

/// @cond
#define FA_PART_OF(part, parameters, ...) FA_LAUNCH_16_BIT(part, Attention, parameters, __VA_ARGS__)
FA_PART_OF(functor, (const FunctorSpec&, const Stream&, TileKind*), launch_functor<64>);
FA_PART_OF(functor, (const FunctorSpec&, const Stream&, TileKind*), launch_functor<128>);
FA_PART_OF(persistent_functor, (const FunctorSpec&, const Stream&, TileKind*, unsigned*),
           launch_functor_persistent);
FA_PART_OF(decode, (const Stream&, float*), launch_packed_gqa<64>);
FA_PART_OF(decode, (const Stream&, float*), launch_packed_gqa<128>);
FA_PART_OF(decode, (const Stream&, float*), launch_decode_wgmma<64>);
FA_PART_OF(decode, (const Stream&, float*), launch_decode_wgmma<128>);
FA_PART_OF(decode, (const Stream&, const DecodeWorkspace&), launch_one_launch<64>);
FA_PART_OF(decode, (const Stream&, const DecodeWorkspace&), launch_one_launch<128>);
FA_PART_OF(decode, (const int*, const Stream&, const DecodeWorkspace&), launch_even_tiles<64>);
FA_PART_OF(decode, (const int*, const Stream&, const DecodeWorkspace&), launch_even_tiles<128>);
FA_PART_OF(decode, (const int*, const PagedKv&, const Stream&, const DecodeWorkspace&),
           launch_paged_kv<64>);
FA_PART_OF(decode, (const int*, const PagedKv&, const Stream&, const DecodeWorkspace&),
           launch_paged_kv<128>);
#undef FA_PART_OF
/// @endcond

}  // namespace fa::FA_TARGET
