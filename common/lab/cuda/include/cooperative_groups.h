/// @file
/// Cooperative groups: the block, tiles of a warp, coalesced threads, the grid.
#pragma once

#include <cuda_runtime.h>

namespace cooperative_groups {

/// A group of any kind, as functions take it.
class thread_group {
 public:
  enum class Kind { kBlock, kLanes, kGrid };
  thread_group(Kind kind, unsigned mask, unsigned count, unsigned rank)
      : kind_(kind), mask_(mask), count_(count), rank_(rank) {}
  unsigned long long size() const { return count_; }
  unsigned long long num_threads() const { return count_; }
  unsigned thread_rank() const { return rank_; }
  void sync(LAB_CUDA_WHERE) const {
    if (kind_ == Kind::kBlock) return ::lab_cuda::sync_block(lab_where);
    if (kind_ == Kind::kGrid) return ::lab_cuda::sync_grid(lab_where);
    ::lab_cuda::sync_warp(mask_, lab_where);
  }
  unsigned lab_mask() const { return mask_; }

 private:
  Kind kind_;
  unsigned mask_, count_, rank_;
};

namespace lab_details {
inline unsigned block_threads() {
  return blockDim.x * blockDim.y * blockDim.z;
}
inline unsigned number() {
  return static_cast<unsigned>(::lab_cuda::thread().number);
}
inline unsigned lane() {
  return static_cast<unsigned>(::lab_cuda::thread().lane);
}
}  // namespace lab_details

/// The threads of a block.
class thread_block : public thread_group {
 public:
  thread_block()
      : thread_group(Kind::kBlock, 0, lab_details::block_threads(), lab_details::number()) {}
  static void sync(LAB_CUDA_WHERE) { ::lab_cuda::sync_block(lab_where); }
  static unsigned size() { return lab_details::block_threads(); }
  static unsigned num_threads() { return lab_details::block_threads(); }
  static unsigned thread_rank() { return lab_details::number(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() {
  return {};
}

/// Lanes of a warp that act together; `mask` are their numbers in the warp.
class lab_lanes : public thread_group {
 public:
  explicit lab_lanes(unsigned mask)
      : thread_group(
            Kind::kLanes, mask, static_cast<unsigned>(__builtin_popcount(mask)),
            static_cast<unsigned>(__builtin_popcount(mask & ((1u << lab_details::lane()) - 1)))) {}
  void sync(LAB_CUDA_WHERE) const { ::lab_cuda::sync_warp(lab_mask(), lab_where); }
  unsigned size() const { return static_cast<unsigned>(__builtin_popcount(lab_mask())); }
  unsigned num_threads() const { return size(); }
  template <class T>
  T shfl(T value, int rank, LAB_CUDA_WHERE) const {
    const int count = static_cast<int>(size());
    return from(value, static_cast<unsigned>((rank % count + count) % count), lab_where);
  }
  template <class T>
  T shfl_down(T value, unsigned distance, LAB_CUDA_WHERE) const {
    return from(value, thread_rank() + distance, lab_where);
  }
  template <class T>
  T shfl_up(T value, unsigned distance, LAB_CUDA_WHERE) const {
    return from(value, thread_rank() - distance, lab_where);
  }
  template <class T>
  T shfl_xor(T value, unsigned distance, LAB_CUDA_WHERE) const {
    return from(value, thread_rank() ^ distance, lab_where);
  }
  int any(int predicate, LAB_CUDA_WHERE) const {
    return __any_sync(lab_mask(), predicate, lab_where);
  }
  int all(int predicate, LAB_CUDA_WHERE) const {
    return __all_sync(lab_mask(), predicate, lab_where);
  }
  unsigned ballot(int predicate, LAB_CUDA_WHERE) const {
    return by_rank(__ballot_sync(lab_mask(), predicate, lab_where));
  }
  template <class T>
  unsigned match_any(T value, LAB_CUDA_WHERE) const {
    return by_rank(__match_any_sync(lab_mask(), value, lab_where));
  }
  template <class T>
  unsigned match_all(T value, int& same, LAB_CUDA_WHERE) const {
    return by_rank(__match_all_sync(lab_mask(), value, &same, lab_where));
  }
  /// The lane of a rank.
  int lane_of(int rank) const {
    for (int lane = 0; lane < 32; ++lane) {
      if ((lab_mask() >> lane & 1u) != 0 && rank-- == 0) return lane;
    }
    return -1;
  }

 private:
  // The value of a rank; its own where there is none.
  template <class T>
  T from(T value, unsigned rank, ::lab_cuda::Where where) const {
    const int lane = lane_of(static_cast<int>(rank < size() ? rank : thread_rank()));
    return ::lab_cuda::shuffle(lab_mask(), value, lane, where);
  }
  unsigned by_rank(unsigned lanes) const {
    unsigned result = 0;
    for (unsigned lane = 0, rank = 0; lane < 32; ++lane) {
      if ((lab_mask() >> lane & 1u) != 0) result |= (lanes >> lane & 1u) << rank++;
    }
    return result;
  }
};

/// Where a GPU keeps what tiles of several warps exchange.
template <unsigned most_threads = 1024>
struct block_tile_memory {
  char room;
};
template <unsigned most_threads>
thread_block this_thread_block(block_tile_memory<most_threads>&) {
  return {};
}

/// `count` neighbouring lanes.
template <unsigned count, class Parent = void>
class thread_block_tile : public lab_lanes {
  static_assert(count <= 32 && (count & (count - 1)) == 0, "tiles of up to 32 threads");

 public:
  template <class Other>
  thread_block_tile(const thread_block_tile<count, Other>& other) : lab_lanes(other.lab_mask()) {}
  thread_block_tile()
      : lab_lanes((count == 32 ? ~0u : (1u << count % 32) - 1)
                  << lab_details::lane() / count * count) {}
  static constexpr unsigned size() { return count; }
  static constexpr unsigned num_threads() { return count; }
  unsigned meta_group_rank() const { return lab_details::number() / count; }
  unsigned meta_group_size() const { return (lab_details::block_threads() + count - 1) / count; }
};
template <unsigned count, class Parent>
thread_block_tile<count, Parent> tiled_partition(const Parent&) {
  return {};
}
inline thread_group tiled_partition(const thread_group&, unsigned count) {
  return lab_lanes((count == 32 ? ~0u : (1u << count % 32) - 1)
                   << lab_details::lane() / count * count);
}

/// Threads that run together.
class coalesced_group : public lab_lanes {
 public:
  using lab_lanes::lab_lanes;
  unsigned meta_group_rank() const { return 0; }
  unsigned meta_group_size() const { return 1; }
};
inline coalesced_group coalesced_threads() {
  return coalesced_group(::lab_cuda::active_lanes());
}
template <class Label>
coalesced_group labeled_partition(const lab_lanes& group, Label label, LAB_CUDA_WHERE) {
  return coalesced_group(__match_any_sync(group.lab_mask(), label, lab_where));
}
inline coalesced_group binary_partition(const lab_lanes& group, bool label, LAB_CUDA_WHERE) {
  return coalesced_group(__match_any_sync(group.lab_mask(), static_cast<int>(label), lab_where));
}

/// All threads of the launch.
class grid_group : public thread_group {
 public:
  grid_group() : thread_group(Kind::kGrid, 0, 0, 0) {}
  bool is_valid() const { return ::lab_cuda::is_cooperative(); }
  void sync(LAB_CUDA_WHERE) const { ::lab_cuda::sync_grid(lab_where); }
  unsigned long long size() const { return num_blocks() * lab_details::block_threads(); }
  unsigned long long num_threads() const { return size(); }
  unsigned long long thread_rank() const {
    return block_rank() * lab_details::block_threads() + lab_details::number();
  }
  unsigned long long num_blocks() const {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
  }
  unsigned long long block_rank() const {
    return (static_cast<unsigned long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x +
           blockIdx.x;
  }
  dim3 group_dim() const { return gridDim; }
  dim3 dim_blocks() const { return gridDim; }
  dim3 block_index() const { return blockIdx; }
};
inline grid_group this_grid() {
  return {};
}

/// The blocks of a cluster.
class cluster_group : public thread_group {
 public:
  cluster_group() : thread_group(Kind::kGrid, 0, 0, 0) {}
  static void barrier_arrive(LAB_CUDA_WHERE) { ::lab_cuda::cluster_arrive(lab_where); }
  static void barrier_wait(LAB_CUDA_WHERE) { ::lab_cuda::cluster_wait(lab_where); }
  static void sync(LAB_CUDA_WHERE) {
    barrier_arrive(lab_where);
    barrier_wait(lab_where);
  }
  static unsigned block_rank() { return ::lab_cuda::cluster_rank(); }
  static dim3 block_index() {
    const dim3 of = dim_blocks();
    return {blockIdx.x % of.x, blockIdx.y % of.y, blockIdx.z % of.z};
  }
  static unsigned num_blocks() { return ::lab_cuda::cluster_size(); }
  static dim3 dim_blocks() { return ::lab_cuda::cluster_dims(); }
  static unsigned thread_rank() {
    return block_rank() * lab_details::block_threads() + lab_details::number();
  }
  static unsigned num_threads() { return num_blocks() * lab_details::block_threads(); }
  static unsigned size() { return num_threads(); }
  template <class T>
  static T* map_shared_rank(T* pointer, int rank, LAB_CUDA_WHERE) {
    return static_cast<T*>(::lab_cuda::peer_shared(const_cast<std::remove_cv_t<T>*>(pointer),
                                                   static_cast<unsigned>(rank), lab_where));
  }
};
inline cluster_group this_cluster() {
  return {};
}

template <class Group>
void sync(const Group& group, LAB_CUDA_WHERE) {
  group.sync(lab_where);
}

// ---------------------------------------------------------------- reductions and scans

using std::bit_and;
using std::bit_or;
using std::bit_xor;
using std::plus;
template <class T>
struct less {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
  T operator()(T a, T b) const { return a < b ? b : a; }
};

template <class T, class Operation>
T reduce(const lab_lanes& group, T value, Operation operation, LAB_CUDA_WHERE) {
  return ::lab_cuda::reduce_lanes(group.lab_mask(), value, operation, lab_where);
}
template <class T, class Operation = plus<T>>
T inclusive_scan(const lab_lanes& group, T value, Operation operation = {}, LAB_CUDA_WHERE) {
  const ::lab_cuda::Exchange<T> values(group.lab_mask(), value, lab_where);
  T result = values.of_lane(group.lane_of(0));
  for (unsigned rank = 1; rank <= group.thread_rank(); ++rank) {
    result = operation(result, values.of_lane(group.lane_of(static_cast<int>(rank))));
  }
  return result;
}
template <class T, class Operation = plus<T>>
T exclusive_scan(const lab_lanes& group, T value, Operation operation = {}, LAB_CUDA_WHERE) {
  const ::lab_cuda::Exchange<T> values(group.lab_mask(), value, lab_where);
  T result{};
  for (unsigned rank = 0; rank < group.thread_rank(); ++rank) {
    const T next = values.of_lane(group.lane_of(static_cast<int>(rank)));
    result = rank == 0 ? next : operation(result, next);
  }
  return result;
}

// ---------------------------------------------------------------- asynchronous copies

template <class Group>
void memcpy_async(const Group& group, void* to, const void* from, std::size_t bytes,
                  LAB_CUDA_WHERE) {
  ::lab_cuda::copy_by_group(to, from, bytes, group.thread_rank(), group.num_threads(), lab_where);
  ::lab_cuda::commit_copies();
}
template <class Group>
void wait(const Group& group, LAB_CUDA_WHERE) {
  ::lab_cuda::wait_copies(0);
  group.sync(lab_where);
}
template <unsigned pending, class Group>
void wait_prior(const Group& group, LAB_CUDA_WHERE) {
  ::lab_cuda::wait_copies(pending);
  group.sync(lab_where);
}

}  // namespace cooperative_groups
