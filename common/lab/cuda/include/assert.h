// assert() in a kernel ends the launch. Read anew each time, as C wants it.
#include_next <assert.h>
#if !defined(NDEBUG) && defined(LAB_CUDA_PROGRAM)
#undef assert
#define assert(condition) \
  ((condition) ? (void)0  \
               : ::lab_cuda::assert_failed(#condition, __PRETTY_FUNCTION__, ::lab_cuda::here()))
#endif
