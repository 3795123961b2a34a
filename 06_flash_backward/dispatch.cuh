/// @file
/// Which kernels compute gradients, what memory they need, and how they are launched. The last rungs of the ladder,
/// the training program and the C interface share it.
#pragma once

#include "05_flash_forward/dispatch.cuh"
#include "06_flash_backward/kernels/04_atomics.cuh"
#include "06_flash_backward/kernels/07_deterministic.cuh"

namespace fa::FA_TARGET {

/// Floats that the backward pass needs beside its inputs and results: delta, LSE in base 2 and, where there are some,
/// sums of dQ.
/// @param a       with its sizes
/// @param columns of the sums of dQ; 0: none
template <class T>
std::int64_t workspace_floats(const Attention<T>& a, int columns) {
  return std::int64_t{a.batch} * a.heads * padded_rows(a) * (2 + columns);
}

/// Tells the kernels where their workspace is.
/// @param a       on return with its pointers
/// @param floats  memory of the device for workspace_floats(a, columns), at a multiple of 16 bytes
/// @param columns of the sums of dQ; 0: none
template <class T>
void set_workspace(AttentionGradient<T>& a, float* floats, int columns) {
  const std::int64_t rows = std::int64_t{a.batch} * a.heads * padded_rows(a);
  a.delta = floats;
  a.lse_base_2 = floats + rows;
  a.d_q_sum = columns > 0 ? floats + 2 * rows : nullptr;
}

/// The sizes of a launch whose blocks cover all keys of all key and value heads, block_n keys each.
template <class T>
Size grid_of_keys(const Attention<T>& a, int block_n) {
  return {static_cast<unsigned>(ceil_div(a.length_k, block_n)),
          static_cast<unsigned>(a.kv_heads), static_cast<unsigned>(a.batch)};
}

/// Launches preprocess().
/// @tparam d columns of d_q_sum, at least head_dim
template <int d, class T>
void launch_preprocess(const AttentionGradient<T>& a, const Stream& stream) {
  constexpr int rows = kPreprocessThreads / (d / 8);
  launch(stream, preprocess<d, T>,
         {{static_cast<unsigned>(ceil_div(padded_rows(a), rows)),
           static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)},
          {kPreprocessThreads}},
         a);
}

/// Launches the kernels of rungs 05 and 06: `kernel` between preprocess() and write_d_q().
template <class Tile, class T>
void launch_with_sums(void (*kernel)(AttentionGradient<T>),
                      std::size_t shared_bytes, const AttentionGradient<T>& a,
                      const Stream& stream) {
  launch_preprocess<Tile::d>(a, stream);
  launch(stream, kernel,
         {grid_of_keys(a, Tile::block_n), {Tile::threads}, shared_bytes}, a);
  launch(stream, write_d_q<Tile, T>,
         {grid_of(a, Tile::block_m), {Tile::block_m * Tile::d / 16}}, a);
}

/// Columns of the sums of dQ that launch_backward() needs.
inline int sum_columns(const Attention<float>&, bool /*deterministic*/) {
  return 0;  // rung 04 adds to dQ itself
}
/// The same for the 16-bit types.
/// @param a             what is computed
/// @param deterministic whether every run must give the same bits
template <class T>
int sum_columns(const Attention<T>& a, bool deterministic) {
  return deterministic ? 0 : with_head_dim<32, 256>(a.head_dim, [](auto d) {
    return decltype(d)::value;
  });
}

/// Launches the fastest kernels for gradients with a head dimension that is a multiple of 8 up to 256.
/// @param a             with a workspace for sum_columns()
/// @param deterministic whether every run must give the same bits
/// @param stream        where
/// @throws as launch()
inline void launch_backward(const AttentionGradient<float>& a,
                            bool deterministic, const Stream& stream) {
  with_head_dim<32, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = FloatBackwardTile<d>;
    const Launch of_keys{
        grid_of_keys(a, Tile::side), {Tile::threads}, Tile::shared_bytes};
    const Launch of_queries{
        grid_of(a, Tile::side), {Tile::threads}, Tile::shared_bytes};
    launch_preprocess<d>(a, stream);
    if (deterministic) {
      launch(stream, backward_keys<d>, of_keys, a);
      launch(stream, backward_queries<d>, of_queries, a);
    } else {
      launch(stream, zero_d_q<d>, {of_queries.grid, of_queries.block}, a);
      launch(stream, backward_atomics<d>, of_keys, a);
    }
  });
}

/// The same for the 16-bit types.
/// @tparam T half or bfloat16
template <class T>
void launch_backward(const AttentionGradient<T>& a, bool deterministic,
                     const Stream& stream) {
  static_assert(sizeof(T) == 2, "half or bfloat16");
  const bool drops = a.dropout.threshold > 0;
  with_head_dim<32, 256>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = FinishedBackwardTile<d>;
    if (!deterministic) {
      launch_with_sums<Tile>(drops ? flash_backward_finish<Tile, T, true>
                                   : flash_backward_finish<Tile, T, false>,
                             backward_bytes<Tile, T>(), a, stream);
      return;
    }
    using OfQueries = QueryGradientTile<d>;
    launch_preprocess<d>(a, stream);
    launch(stream,
           drops ? flash_backward_finish<Tile, T, true, false>
                 : flash_backward_finish<Tile, T, false, false>,
           {grid_of_keys(a, Tile::block_n),
            {Tile::threads},
            backward_bytes<Tile, T>()},
           a);
    launch(stream,
           drops ? flash_backward_queries<OfQueries, T, true>
                 : flash_backward_queries<OfQueries, T, false>,
           {grid_of(a, OfQueries::block_m),
            {OfQueries::threads},
            query_gradient_bytes<OfQueries, T>()},
           a);
  });
}

/// The rung that launch_backward() launches.
/// @param deterministic as for launch_backward()
inline const char* backward_rung(const Attention<float>&,
                                 bool deterministic) {
  return deterministic ? "03_two_kernels" : "04_atomics";
}
/// The same for the 16-bit types.
template <class T>
const char* backward_rung(const Attention<T>&, bool deterministic) {
  return deterministic ? "07_deterministic" : "06_finish";
}

}  // namespace fa::FA_TARGET
