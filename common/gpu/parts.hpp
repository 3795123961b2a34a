/// @file
/// Kernels take long to compile, so a lesson lists the launch functions that need them, in parts,
/// and fa_kernel_parts() compiles them once, for a GPU each part in a source of its own: see
/// common/cmake/Course.cmake. What is on no list, and everything in the watched lab, is compiled
/// where it is used.
#pragma once

#if defined(FA_IN_PARTS)
/// The launch function with this declaration belongs to a part of the list. The source of the part
/// defines FA_PART_name as nothing, every other one as `extern`.
#define FA_LAUNCH(part, ...) FA_PART_##part template void __VA_ARGS__
#else
/// Without parts: nothing is declared.
#define FA_LAUNCH(part, ...) static_assert(true)
#endif

/// The same for half and bfloat16, in parts name_half and name_bfloat16: a function of a Tensors
/// and further parameters.
#define FA_LAUNCH_16_BIT(part, Tensors, parameters, ...)                           \
  FA_LAUNCH(part##_half, __VA_ARGS__(const Tensors<half>&, FA_LISTED parameters)); \
  FA_LAUNCH(part##_bfloat16, __VA_ARGS__(const Tensors<bfloat16>&, FA_LISTED parameters))
/// A list in parentheses without them.
#define FA_LISTED(...) __VA_ARGS__
