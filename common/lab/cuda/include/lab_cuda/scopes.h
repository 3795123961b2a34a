/// @file
/// Scopes and orders of cuda::atomic, cuda::barrier and cuda::pipeline.
#pragma once

#include <cuda_runtime.h>

namespace cuda {

enum thread_scope {
  thread_scope_system,
  thread_scope_device,
  thread_scope_block,
  thread_scope_thread
};
enum memory_order {
  memory_order_relaxed,
  memory_order_consume,
  memory_order_acquire,
  memory_order_release,
  memory_order_acq_rel,
  memory_order_seq_cst
};
namespace std {
using namespace ::std;
using ::cuda::memory_order;
using ::cuda::memory_order_acq_rel;
using ::cuda::memory_order_acquire;
using ::cuda::memory_order_relaxed;
using ::cuda::memory_order_release;
using ::cuda::memory_order_seq_cst;
}  // namespace std
/// A size that is a multiple of `alignment`.
template <::std::size_t alignment>
struct aligned_size_t {
  ::std::size_t value;
  explicit constexpr aligned_size_t(::std::size_t size) : value(size) {}
  constexpr operator ::std::size_t() const { return value; }
};

}  // namespace cuda

namespace lab_cuda {
template <class T, class Operation>
T change_on_host(T* address, Operation operation) {
  const T old = *address;
  *address = operation(old);
  return old;
}
}  // namespace lab_cuda
