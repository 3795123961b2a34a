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

/// @{ The same for float, or for half and bfloat16 in parts name_half and name_bfloat16: functions
/// of a Tensors and further parameters, one for each list of template arguments. For example
///     FA_LAUNCH_FLOAT(forward_float, Attention, (const Stream&), launch_tiles, (32), (64, true));
#define FA_LAUNCH_FLOAT(part, Tensors, parameters, ...) \
  FA_EACH(FA_ONE_FLOAT, part, Tensors, parameters, __VA_ARGS__)
#define FA_LAUNCH_16_BIT(part, Tensors, parameters, ...) \
  FA_EACH(FA_ONE_16_BIT, part, Tensors, parameters, __VA_ARGS__)
/// @}

/// @cond of one function, and of up to seven
#define FA_LISTED(...) __VA_ARGS__
#define FA_ONE_FLOAT(part, Tensors, parameters, name, list) \
  FA_LAUNCH(part, name<FA_LISTED list>(const Tensors<float>&, FA_LISTED parameters))
#define FA_ONE_16_BIT(part, Tensors, parameters, name, list)                                \
  FA_LAUNCH(part##_half, name<FA_LISTED list>(const Tensors<half>&, FA_LISTED parameters)); \
  FA_LAUNCH(part##_bfloat16, name<FA_LISTED list>(const Tensors<bfloat16>&, FA_LISTED parameters))
#define FA_EACH(one, part, Tensors, parameters, ...)                                      \
  FA_NINTH(__VA_ARGS__, FA_EACH_7, FA_EACH_6, FA_EACH_5, FA_EACH_4, FA_EACH_3, FA_EACH_2, \
           FA_EACH_1, FA_EACH_0, )                                                        \
  (one, part, Tensors, parameters, __VA_ARGS__)
#define FA_NINTH(a, b, c, d, e, f, g, h, ninth, ...) ninth
#define FA_EACH_0(one, part, Tensors, parameters, name) one(part, Tensors, parameters, name, ())
#define FA_EACH_1(one, part, Tensors, parameters, name, list) \
  one(part, Tensors, parameters, name, list)
#define FA_EACH_2(one, part, Tensors, parameters, name, list, ...) \
  one(part, Tensors, parameters, name, list);                      \
  FA_EACH_1(one, part, Tensors, parameters, name, __VA_ARGS__)
#define FA_EACH_3(one, part, Tensors, parameters, name, list, ...) \
  one(part, Tensors, parameters, name, list);                      \
  FA_EACH_2(one, part, Tensors, parameters, name, __VA_ARGS__)
#define FA_EACH_4(one, part, Tensors, parameters, name, list, ...) \
  one(part, Tensors, parameters, name, list);                      \
  FA_EACH_3(one, part, Tensors, parameters, name, __VA_ARGS__)
#define FA_EACH_5(one, part, Tensors, parameters, name, list, ...) \
  one(part, Tensors, parameters, name, list);                      \
  FA_EACH_4(one, part, Tensors, parameters, name, __VA_ARGS__)
#define FA_EACH_6(one, part, Tensors, parameters, name, list, ...) \
  one(part, Tensors, parameters, name, list);                      \
  FA_EACH_5(one, part, Tensors, parameters, name, __VA_ARGS__)
#define FA_EACH_7(one, part, Tensors, parameters, name, list, ...) \
  one(part, Tensors, parameters, name, list);                      \
  FA_EACH_6(one, part, Tensors, parameters, name, __VA_ARGS__)
/// @endcond
