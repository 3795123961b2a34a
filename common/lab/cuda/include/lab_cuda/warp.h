/// @file
/// Barriers, shuffles, votes and matches of a warp, and fences.
#pragma once

#include <lab_cuda/base.h>

LAB_CUDA_FUNCTION void __syncthreads(LAB_CUDA_WHERE)
{ ::lab_cuda::sync_block(lab_where); }
LAB_CUDA_FUNCTION void __syncwarp(unsigned mask = 0xffffffffu, LAB_CUDA_WHERE)
{ ::lab_cuda::sync_warp(mask, lab_where); }
LAB_CUDA_DEFINE(void, __threadfence, (), ::lab_cuda::fence())
LAB_CUDA_DEFINE(void, __threadfence_block, (), ::lab_cuda::fence(false))
LAB_CUDA_DEFINE(void, __threadfence_system, (), ::lab_cuda::fence())

namespace lab_cuda {

/// What the lanes of a mask give each other, until the next exchange but one.
template <class T>
class Exchange {
 public:
  Exchange(unsigned mask, const T& own, Where where)
      : deposits_(exchange(mask, &own, sizeof own, where)) {
    static_assert(sizeof(T) <= kDeposit, "a value of at most 48 bytes");
  }
  unsigned lanes() const { return deposits_.lanes; }
  bool has(int lane) const { return (deposits_.lanes >> lane & 1u) != 0; }
  LAB_CUDA_UNWATCHED T of_lane(int lane) const {
    T result;
    __builtin_memcpy(static_cast<void*>(&result),
                     deposits_.bytes + static_cast<std::size_t>(lane) * kDeposit, sizeof(T));
    return result;
  }

 private:
  const Deposits deposits_;
};

/// The value of a lane. Of one outside of the mask it is undefined: all bits are 1.
template <class T>
T shuffle(unsigned mask, T value, int from, Where where) {
  const Exchange<T> values(mask, value, where);
  if (values.has(from)) return values.of_lane(from);
  absent_source(mask, from, where);
  T result;
  __builtin_memset(static_cast<void*>(&result), 0xff, sizeof(T));
  return result;
}

/// Counts arrivals of a block's threads at votes; each thread's own vote is kept between barriers.
int vote_of_block(int predicate, int kind, Where where);

}  // namespace lab_cuda

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, LAB_CUDA_WHERE) {
  const int lane = ::lab_cuda::thread().lane;
  return ::lab_cuda::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)),
                             lab_where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32, LAB_CUDA_WHERE) {
  const int lane = ::lab_cuda::thread().lane, from = lane ^ distance;
  return ::lab_cuda::shuffle(mask, value, from / width <= lane / width ? from : lane, lab_where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, LAB_CUDA_WHERE) {
  const int lane = ::lab_cuda::thread().lane, from = lane + static_cast<int>(distance);
  return ::lab_cuda::shuffle(mask, value, from / width == lane / width ? from : lane, lab_where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, LAB_CUDA_WHERE) {
  const int lane = ::lab_cuda::thread().lane, from = lane - static_cast<int>(distance);
  return ::lab_cuda::shuffle(mask, value, from >= lane / width * width ? from : lane, lab_where);
}

namespace lab_cuda {
/// The lanes of a mask for which a predicate holds, and those that take part.
struct Votes {
  unsigned yes, all;
};
inline Votes votes(unsigned mask, int predicate, Where where) {
  const Exchange<unsigned> bits(mask, predicate != 0, where);
  Votes result{0, bits.lanes()};
  for (int lane = 0; lane < 32; ++lane) {
    if (bits.has(lane)) result.yes |= bits.of_lane(lane) << lane;
  }
  return result;
}
}  // namespace lab_cuda
LAB_CUDA_DEFINE(unsigned, __ballot_sync, (unsigned mask, int predicate, LAB_CUDA_WHERE),
                ::lab_cuda::votes(mask, predicate, lab_where).yes)
LAB_CUDA_DEFINE(int, __any_sync, (unsigned mask, int predicate, LAB_CUDA_WHERE),
                __ballot_sync(mask, predicate, lab_where) != 0)
inline int __all_sync(unsigned mask, int predicate, LAB_CUDA_WHERE) {
  const ::lab_cuda::Votes votes = ::lab_cuda::votes(mask, predicate, lab_where);
  return votes.yes == votes.all;
}
LAB_CUDA_DEFINE(unsigned, __activemask, (), ::lab_cuda::active_lanes())

template <class T>
unsigned __match_any_sync(unsigned mask, T value, LAB_CUDA_WHERE) {
  const ::lab_cuda::Exchange<T> values(mask, value, lab_where);
  unsigned result = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (values.has(lane) && values.of_lane(lane) == value) result |= 1u << lane;
  }
  return result;
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* same, LAB_CUDA_WHERE) {
  const ::lab_cuda::Exchange<T> values(mask, value, lab_where);
  *same = 1;
  for (int lane = 0; lane < 32; ++lane) {
    if (values.has(lane) && !(values.of_lane(lane) == value)) *same = 0;
  }
  return *same != 0 ? values.lanes() : 0;
}

namespace lab_cuda {
template <class T, class Operation>
T reduce_lanes(unsigned mask, T value, Operation operation, Where where) {
  const Exchange<T> values(mask, value, where);
  bool first = true;
  T result = value;
  for (int lane = 0; lane < 32; ++lane) {
    if (!values.has(lane)) continue;
    result = first ? values.of_lane(lane) : operation(result, values.of_lane(lane));
    first = false;
  }
  return result;
}
}  // namespace lab_cuda

#define LAB_CUDA_REDUCE(name, expression)                                  \
  template <class T>                                                       \
  T __reduce_##name##_sync(unsigned mask, T value, LAB_CUDA_WHERE) {       \
    return ::lab_cuda::reduce_lanes(                                       \
        mask, value, [](T a, T b) -> T { return expression; }, lab_where); \
  }
LAB_CUDA_REDUCE(add, a + b)
LAB_CUDA_REDUCE(min, b < a ? b : a)
LAB_CUDA_REDUCE(max, a < b ? b : a)
LAB_CUDA_REDUCE(and, a& b)
LAB_CUDA_REDUCE(or, a | b)
LAB_CUDA_REDUCE(xor, a ^ b)
#undef LAB_CUDA_REDUCE

LAB_CUDA_DEFINE(int, __syncthreads_count, (int predicate, LAB_CUDA_WHERE),
                ::lab_cuda::vote_of_block(predicate, 0, lab_where))
LAB_CUDA_DEFINE(int, __syncthreads_and, (int predicate, LAB_CUDA_WHERE),
                ::lab_cuda::vote_of_block(predicate, 1, lab_where))
LAB_CUDA_DEFINE(int, __syncthreads_or, (int predicate, LAB_CUDA_WHERE),
                ::lab_cuda::vote_of_block(predicate, 2, lab_where))
