/// @file
/// Calls of the C interface, for its tests.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "06_flash_backward/interface/flash_attention_backward.h"
#include "common/attention/tests/placed.cuh"

namespace fa::FA_TARGET {
namespace {  // source files for one test program include this

using namespace attention;
using G = fa_gradient;

// A call with the attention of a problem, without pointers and strides.
inline G given_gradient(const Problem& problem, bool deterministic) {
  G g{};
  g.size = sizeof g;
  g.attention = given_attention<fa_attention>(problem);
  g.deterministic = deterministic ? 1 : 0;
  return g;
}

// Sets the pointers of q, k, v, o, d_o, d_q, d_k and d_v, and the strides of those with a row for
// each query and of those with a row for each key.
inline void set_tensors(G& g, const std::array<void*, 8>& at, const fa_strides& of_queries,
                        const fa_strides& of_keys) {
  fa_attention& a = g.attention;
  a.q = at[0], a.k = at[1], a.v = at[2], a.o = at[3];
  g.d_o = at[4], g.d_q = at[5], g.d_k = at[6], g.d_v = at[7];
  a.q_strides = a.o_strides = g.d_o_strides = g.d_q_strides = of_queries;
  a.k_strides = a.v_strides = g.d_k_strides = g.d_v_strides = of_keys;
}

// Calls the library on its stream, with exactly as much workspace as it asks for, and nothing
// behind that is written. Where strides keep TMA away, its kernels have no use for the counters at
// the end.
inline void run(G& g, bool all_is_used = true) {
  constexpr std::int64_t guard = 1024;
  const std::size_t bytes = fa_backward_workspace_bytes(&g);
  REQUIRE(bytes > 0);
  REQUIRE(bytes % sizeof(float) == 0);
  const auto floats = static_cast<std::int64_t>(bytes / sizeof(float));
  DeviceBuffer<float> workspace(floats + guard);
  const Stream stream;
  g.attention.stream = stream.native();
  g.workspace = workspace.data();
  g.workspace_bytes = bytes;
  const int status = fa_backward(&g);
  CAPTURE(std::string(fa_backward_last_error()));
  REQUIRE(status == FA_STATUS_OK);
  stream.synchronize();
  std::vector<std::uint32_t> end(guard + 1);
  device_copy(end.data(), workspace.data() + floats - 1, end.size() * sizeof(float),
              CopyKind::kToHost);
  CAPTURE(std::string(fa_backward_kernel_name(&g)));
  if (all_is_used) CHECK(end[0] != 0xffffffff);
  CHECK(std::count(end.begin() + 1, end.end(), 0xffffffff) == guard);
}

}  // namespace
}  // namespace fa::FA_TARGET
