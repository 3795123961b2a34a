/// @file
/// Which kernels compute gradients and how they are launched. The last rungs of the ladder, the training program and the
/// C interface share it.
#pragma once

#include <algorithm>

#include "05_flash_forward/src/dispatch.cuh"
#include "06_flash_backward/kernels/04_atomics.cuh"
#include "06_flash_backward/kernels/07_deterministic.cuh"
#include "06_flash_backward/kernels/any_gpu.cuh"
#include "06_flash_backward/src/tma_launch.cuh"

namespace fa::FA_TARGET {

/// Launches the kernels of rungs 05 and 06: `kernel` between preprocess() and write_d_q().
template <class Tile, class T>
void launch_with_sums(void (*kernel)(AttentionGradient<T>),
                      std::size_t shared_bytes, const AttentionGradient<T>& a,
                      const Stream& stream, int stages = 0) {
  launch_preprocess<Tile::d>(a, stream);
  launch(
      stream, kernel,
      {grid_of_keys(a, Tile::block_n), {Tile::threads}, shared_bytes, stages},
      a);
  launch(stream, write_d_q<Tile, T>,
         {grid_of(a, Tile::block_m), {Tile::block_m * Tile::d / 16}}, a);
}

/// Whether every run gives the same bits. For wide heads without dropout it does on a Hopper GPU: by rung 13, or by rung
/// 07 where strides keep rung 13 away, so that neither needs sums of dQ.
/// @param a      what is computed
/// @param asked  whether somebody asked for it
/// @param device where
template <class T>
bool is_deterministic(const Attention<T>& a, bool asked,
                      const DeviceProperties& device) {
  return asked || (prefers_hopper(device) && tma_columns(a) >= kWideHeads);
}

/// Launches kernels for a GPU that the others do not fit. They need no sums of dQ.
template <class T>
void launch_any_gpu_backward(const AttentionGradient<T>& of,
                             const Stream& stream) {
  AttentionGradient<T> a = of;
  a.d_q_semaphores = nullptr;
  a.d_q_sum = nullptr;
  launch_preprocess<kAnyGpuColumns>(a, stream);
  if constexpr (std::is_same_v<T, float>) {
    launch(stream, any_gpu_row_sums,
           {grid_of(a, kAnyGpuWarps), {kAnyGpuWarps * kWarp}}, a);
  }
  launch(stream, any_gpu_keys<T>,
         {grid_of_keys(a, kAnyGpuWarps), {kAnyGpuWarps * kWarp}}, a);
  launch(stream, any_gpu_queries<T>,
         {grid_of(a, kAnyGpuWarps), {kAnyGpuWarps * kWarp}}, a);
}

/// Shared memory of a block of rungs 03 and 04.
inline std::size_t float_backward_bytes(std::int64_t head_dim) {
  return with_head_dim<32, 256>(head_dim, [](auto d) {
    return std::max(FloatBackwardTile<decltype(d)::value>::shared_bytes,
                    RowSumTile<decltype(d)::value>::shared_bytes);
  });
}
/// Shared memory of a block of rung 06, or of 07, at least.
inline std::size_t sm_80_backward_bytes(std::int64_t head_dim,
                                        bool deterministic) {
  return with_head_dim<32, 256>(head_dim, [=](auto columns) {
    constexpr int d = decltype(columns)::value;
    if constexpr (d < 128) {
      const auto bytes = backward_bytes<SwizzledBackwardTile<d>, half>();
      return deterministic
                 ? std::max(
                       bytes,
                       query_gradient_bytes<QueryGradientTile<d>, half>())
                 : bytes;
    } else {
      const auto bytes = backward_bytes<SmallBackwardTile<d>, half>();
      return deterministic
                 ? std::max(bytes,
                            query_gradient_bytes<SmallQueryGradientTile<d>,
                                                 half>())
                 : bytes;
    }
  });
}
/// Whether a device can run the kernels without Hopper's instructions.
inline bool runs_backward(const AttentionGradient<float>& a,
                          bool /*deterministic*/,
                          const DeviceProperties& device) {
  return can_run(device,
                 Needs{}.with_shared(float_backward_bytes(a.head_dim)));
}
/// The same for the 16-bit types.
template <class T>
bool runs_backward(const Attention<T>& a, bool deterministic,
                   const DeviceProperties& device) {
  return can_run(device, kNeedsMma.with_shared(sm_80_backward_bytes(
                             a.head_dim, deterministic)));
}

/// What launch_backward() needs.
inline Workspace workspace_of(
    const Attention<float>&, bool /*deterministic*/,
    const DeviceProperties& /*device*/ = device_properties()) {
  return {0};  // rung 04 adds to dQ itself
}
/// What launch_sm_80_backward() needs.
/// @param a             what is computed
/// @param deterministic whether every run must give the same bits
template <class T>
Workspace sm_80_workspace_of(const Attention<T>& a, bool deterministic) {
  if (deterministic) return {0};  // a kernel of its own computes dQ
  return {with_head_dim<32, 256>(a.head_dim,
                                 [](auto d) { return decltype(d)::value; })};
}
/// What launch_backward() needs in the 16-bit types. Strides do not matter: it is enough for whatever they make it
/// launch.
/// @param a      what is computed
/// @param asked  whether every run must give the same bits
/// @param device where
template <class T>
Workspace workspace_of(const Attention<T>& a, bool asked,
                       const DeviceProperties& device = device_properties()) {
  const bool deterministic = is_deterministic(a, asked, device);
  if (!runs_backward(a, deterministic, device)) return {0};
  const int sm_80 = sm_80_workspace_of(a, deterministic).columns;
  const int mapped = prefers_hopper(device) ? tma_columns(a) : 0;
  if (mapped == 0 || mapped >= kWideHeads) return {sm_80};
  return {std::max(sm_80, mapped), true};
}

/// Launches the fastest kernels for gradients with a head dimension that is a multiple of 8 up to 256.
/// @param a             with a workspace for workspace_of()
/// @param deterministic whether every run must give the same bits
/// @param stream        where
/// @param device        where; the choice depends on nothing else
/// @throws as launch()
inline void launch_backward(
    const AttentionGradient<float>& a, bool deterministic,
    const Stream& stream,
    const DeviceProperties& device = device_properties()) {
  if (!runs_backward(a, deterministic, device)) {
    launch_any_gpu_backward(a, stream);
    return;
  }
  with_head_dim<32, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = FloatBackwardTile<d>;
    const Launch of_keys{
        grid_of_keys(a, Tile::side), {Tile::threads}, Tile::shared_bytes};
    const Launch of_queries{
        grid_of(a, Tile::side), {Tile::threads}, Tile::shared_bytes};
    using SumTile = RowSumTile<d>;
    const unsigned sum_blocks = padded_rows(a) / SumTile::side;
    launch_preprocess<d>(a, stream);
    launch(stream, recomputed_row_sums<d>,
           {{sum_blocks, of_queries.grid.y, of_queries.grid.z},
            {SumTile::threads},
            SumTile::shared_bytes},
           a);
    if (deterministic) {
      launch(stream, backward_keys<d>, of_keys, a);
      launch(stream, backward_queries<d>, of_queries, a);
    } else {
      launch(stream, zero_d_q<d>, {of_queries.grid, of_queries.block}, a);
      launch(stream, backward_atomics<d>, of_keys, a);
    }
  });
}

/// Launches the fastest kernels without Hopper's instructions, for the 16-bit types.
/// @tparam T            half or bfloat16
/// @param of            with a workspace for workspace_of()
/// @param deterministic whether every run must give the same bits
/// @param stream        where
/// @param device        where; runs_backward() holds
template <class T>
void launch_sm_80_backward(
    const AttentionGradient<T>& of, bool deterministic, const Stream& stream,
    const DeviceProperties& device = device_properties()) {
  AttentionGradient<T> a = of;
  a.d_q_semaphores = nullptr;              // all blocks add
  if (deterministic) a.d_q_sum = nullptr;  // nobody adds
  const bool has_dropout = a.dropout.threshold > 0;
  const auto launch_keys = [&](auto tile) {
    using Tile = decltype(tile);
    if (!deterministic) {
      launch_with_sums<Tile>(
          has_dropout ? flash_backward_swizzled_pipeline<Tile, T, true>
                      : flash_backward_swizzled_pipeline<Tile, T, false>,
          backward_bytes<Tile, T>(), a, stream, kPipelineStages);
      return;
    }
    launch_preprocess<Tile::d>(a, stream);
    launch(stream,
           has_dropout
               ? flash_backward_swizzled_pipeline<Tile, T, true, false>
               : flash_backward_swizzled_pipeline<Tile, T, false, false>,
           {grid_of_keys(a, Tile::block_n),
            {Tile::threads},
            backward_bytes<Tile, T>(),
            kPipelineStages},
           a);
  };
  const auto launch_queries = [&](auto tile) {
    using Tile = decltype(tile);
    launch(stream,
           has_dropout ? flash_backward_queries<Tile, T, true>
                       : flash_backward_queries<Tile, T, false>,
           {grid_of(a, Tile::block_m),
            {Tile::threads},
            query_gradient_bytes<Tile, T>(),
            kPipelineStages},
           a);
  };
  // Calls launch_tile with the large tile, or with the small one where the large one does not fit.
  const auto fitting = [&](std::size_t bytes, auto large, auto small,
                           const auto& launch_tile) {
    if (can_run(device, kNeedsMma.with_shared(bytes))) {
      launch_tile(large);
    } else {
      launch_tile(small);
    }
  };
  with_head_dim<32, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using OfKeys = SwizzledBackwardTile<d>;
    using OfQueries = QueryGradientTile<d>;
    if constexpr (d < 128) {
      launch_keys(OfKeys{});
      if (deterministic) launch_queries(OfQueries{});
    } else {
      fitting(backward_bytes<OfKeys, T>(), OfKeys{}, SmallBackwardTile<d>{},
              launch_keys);
      if (!deterministic) return;
      fitting(query_gradient_bytes<OfQueries, T>(), OfQueries{},
              SmallQueryGradientTile<d>{}, launch_queries);
    }
  });
}

/// The same for the 16-bit types.
/// @tparam T half or bfloat16
template <class T>
void launch_backward(const AttentionGradient<T>& a, bool asked,
                     const Stream& stream,
                     const DeviceProperties& device = device_properties()) {
  static_assert(sizeof(T) == 2, "half or bfloat16");
  const bool deterministic = is_deterministic(a, asked, device);
  if (!runs_backward(a, deterministic, device)) {
    launch_any_gpu_backward(a, stream);
  } else if (!prefers_hopper(device) || !can_use_tma_backward(a)) {
    launch_sm_80_backward(a, deterministic, stream, device);
  } else if (a.head_dim >= kWideHeads) {
    launch_wide(a, stream);
  } else {
    with_head_dim<64, 128>(a.head_dim, [&](auto d) {
      launch_store_then_reduce<decltype(d)::value>(a, deterministic, stream);
    });
  }
}

/// The rung that launch_backward() launches, and the columns of its tiles.
struct BackwardRung {
  const char* name;  ///< of its file
  int columns;       ///< at least head_dim
};
/// The one for a problem.
/// @param a             what is computed
/// @param deterministic as for launch_backward()
/// @param device        as for launch_backward()
inline BackwardRung backward_rung(
    const AttentionGradient<float>& a, bool deterministic,
    const DeviceProperties& device = device_properties()) {
  if (!runs_backward(a, deterministic, device)) {
    return {"any_gpu", kAnyGpuColumns};
  }
  return {deterministic ? "03_two_kernels" : "04_atomics",
          with_head_dim<32, 256>(a.head_dim,
                                 [](auto d) { return decltype(d)::value; })};
}
/// The same for the 16-bit types.
template <class T>
BackwardRung backward_rung(
    const AttentionGradient<T>& a, bool asked,
    const DeviceProperties& device = device_properties()) {
  const bool deterministic = is_deterministic(a, asked, device);
  if (!runs_backward(a, deterministic, device)) {
    return {"any_gpu", kAnyGpuColumns};
  }
  if (prefers_hopper(device) && can_use_tma_backward(a)) {
    return {a.head_dim >= kWideHeads ? "13_wide_heads"
            : deterministic          ? "11_ordered_dq"
                                     : "12_store_then_reduce",
            tma_columns(a)};
  }
  return {deterministic ? "07_deterministic" : "06_swizzled_pipeline",
          with_head_dim<32, 256>(a.head_dim,
                                 [](auto d) { return decltype(d)::value; })};
}

}  // namespace fa::FA_TARGET
