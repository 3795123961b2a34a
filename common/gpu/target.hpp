/// @file
/// Which backend a kernel file is compiled for. The same file is compiled up to three times: by
/// nvcc for the GPU, by the host compiler for the lab, and by the host compiler for the watched
/// lab. Each time its names live in another namespace, so that all can be in one program.
#pragma once

#include <type_traits>

#if defined(__CUDACC__) && defined(FA_STAMPS)
#define FA_TARGET on_stamped_gpu  // see stamps.hpp
#elif defined(__CUDACC__)
/// The namespace of the names in this compilation.
#define FA_TARGET on_gpu
#elif defined(FA_LAB_WATCHED)
#define FA_TARGET on_watched_lab
#else
#define FA_TARGET on_lab
#endif

namespace fa::FA_TARGET {
/// Whether this compilation is for the watched lab.
#if defined(FA_LAB_WATCHED)
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif
}  // namespace fa::FA_TARGET

/// The row with which the file of a step ends: FA_STEP_ROW(forward, 8) { return row(...)...; }. `row`
/// is what the lesson makes rows with, such as StepRow of common/attention/host/step_row.cuh.
#define FA_STEP_ROW(ladder, number) \
  template <class Row>              \
  auto ladder##_step(std::integral_constant<int, number>, Row row)
