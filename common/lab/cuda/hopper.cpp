// mbarriers, bulk copies, wgmma and clusters of any kernel, passed on to the engine; tensor maps and
// the driver's function that makes them.
#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <map>

#include <fmt/format.h>

#include "common/lab/async.hpp"
#include "common/lab/block.hpp"
#include "common/lab/cuda/include/lab_cuda/ptx.h"
#include "common/lab/cuda/state.hpp"

namespace lab_cuda {
namespace {

namespace lab = fa::lab;
using Kind = lab::BulkCopy::Kind;

lab::SourceLocation location(Where where) {
  return {where.file, where.line};
}

// What the lab keeps in a tensor map.
struct MapContents {
  static constexpr std::uint64_t kMark = 0x70616d726f736e74;
  std::uint64_t mark = kMark;
  unsigned rank = 0;
  lab::TensorBox box;
};
static_assert(sizeof(MapContents) <= sizeof(CUtensorMap));

std::byte* bytes_of(const void* pointer) {
  return static_cast<std::byte*>(const_cast<void*>(pointer));
}

// The block of the cluster whose shared memory an address is in; that of the thread for others.
int rank_of(const void* shared) {
  lab::Block& block = *lab::this_thread().block;
  for (unsigned rank = 0; rank < cluster_size(); ++rank) {
    const std::byte* const begin = block.shared(static_cast<int>(rank));
    if (shared >= begin && shared < begin + block.shared_bytes()) return static_cast<int>(rank);
  }
  return lab::current->rank;
}
// The same place in the shared memory of the thread's own block.
template <class T>
T* at_home(T* shared, int rank) {
  lab::Block& block = *lab::this_thread().block;
  return shared - block.shared(rank) + block.shared(lab::current->rank);
}

// A copy to shared memory of this block or others.
void load(const lab::BulkCopy& copy, void* barrier, unsigned blocks) {
  const int rank = rank_of(copy.shared);
  if (blocks == 0 && rank == lab::current->rank) return lab::begin_load(copy, barrier);
  if (blocks == 0) blocks = 1u << rank;
  lab::BulkCopy from_here = copy;
  from_here.shared = at_home(copy.shared, rank);
  lab::begin_multicast(from_here, at_home(bytes_of(barrier), rank_of(barrier)), blocks);
}

// A copy of a box.
lab::BulkCopy box_copy(Kind kind, const void* map, const Coordinates& at, const void* shared,
                       Where where) {
  MapContents contents;
  std::memcpy(static_cast<void*>(&contents), map, sizeof contents);
  if (contents.mark != MapContents::kMark) {
    stop_kernel("tensor map",
                "a copy with a tensor map that cuTensorMapEncodeTiled() has not made: give the "
                "kernel the map as a const __grid_constant__ parameter, or copy it to the device",
                where);
  }
  if (contents.rank != at.count) {
    stop_kernel("tensor map",
                "a copy with more or fewer coordinates than the tensor of its map has sizes",
                where);
  }
  lab::BulkCopy copy;
  copy.kind = kind;
  copy.shared = bytes_of(shared);
  copy.box = contents.box;
  copy.size = contents.box.bytes();
  std::copy(at.at, at.at + at.count, copy.at.rbegin());
  copy.location = location(where);
  return copy;
}

lab::BulkCopy byte_copy(Kind kind, const void* shared, const void* other, long long bytes,
                        Where where) {
  lab::BulkCopy copy;
  copy.kind = kind;
  copy.shared = bytes_of(shared);
  copy.global = bytes_of(other);
  copy.size = static_cast<std::size_t>(bytes);
  copy.location = location(where);
  return copy;
}

// Registers of A that are no array, until they have been read: of each thread.
std::map<const lab::Thread*, std::list<std::array<unsigned, 4>>> kept;

}  // namespace

// ---------------------------------------------------------------- mbarriers and fences

unsigned long long arrive_at_barrier(void* barrier, long long bytes, int count, bool drops,
                                     Where where) {
  return lab::arrive_at_barrier(barrier, bytes, location(where), count, drops) & 1u;
}
bool test_barrier(void* barrier, unsigned long long parity, Where where) {
  return lab::test_barrier(barrier, static_cast<int>(parity), location(where));
}
// To mbarriers that were initialised it is a fence, too, as CUDA's guide uses it.
void fence_async(bool of_shared, bool of_global) {
  if (of_shared) {
    lab::fence_async();
    lab::fence_barriers();
  }
  if (of_global) lab::fence_async_global();
}

// ---------------------------------------------------------------- copies

void bulk_load(void* shared, const void* global, long long bytes, void* barrier, unsigned blocks,
               Where where) {
  load(byte_copy(Kind::kLoadBytes, shared, global, bytes, where), barrier, blocks);
}
void bulk_copy_to_peer(void* to, const void* from, long long bytes, void* barrier, Where where) {
  const int rank = rank_of(to);
  lab::begin_multicast(byte_copy(Kind::kPeerBytes, at_home(bytes_of(to), rank), from, bytes, where),
                       at_home(bytes_of(barrier), rank_of(barrier)), 1u << rank);
}
void bulk_store(void* global, const void* shared, long long bytes, Reduction how, Where where) {
  lab::begin_store(byte_copy(how == Reduction::kAdd ? Kind::kAddFloats : Kind::kStoreFloats, shared,
                             global, bytes, where));
}
void tensor_load(void* shared, const void* map, Coordinates at, void* barrier, unsigned blocks,
                 Where where) {
  load(box_copy(Kind::kLoadBox, map, at, shared, where), barrier, blocks);
}
void tensor_store(const void* map, Coordinates at, const void* shared, Where where) {
  lab::begin_store(box_copy(Kind::kStoreBox, map, at, shared, where));
}

// ---------------------------------------------------------------- wgmma

void wgmma_wait(int pending) {
  lab::wait_wgmma(pending);
  if (pending == 0) kept[lab::current].clear();
}
void wgmma(const Wgmma& what, float* sums, int count, const unsigned* a, Where where) {
  // Below this address a descriptor may mean one beyond its reach.
  const int doubtful = static_cast<int>(lab::this_thread().block->shared_bytes()) - (1 << 18);
  const auto start = [](auto operand) { return static_cast<int>(operand & 0x3fff) << 4; };
  if (start(what.b) < doubtful || (a == nullptr && start(what.a) < doubtful)) {
    stop_kernel(
        "unsupported",
        "in a file for Hopper the lab keeps the static shared variables of all kernels side "
        "by side, and descriptors reach 256 KiB: make some dynamic (extern __shared__)",
        where);
  }
  lab::begin_wgmma({count, static_cast<lab::WgmmaType>(what.type_a), what.transposed_a,
                    what.transposed_b, what.adds, what.negates, what.a, what.b,
                    static_cast<lab::WgmmaType>(what.type_b), what.half_sums},
                   {sums, a}, location(where));
}
const unsigned* keep_registers(const unsigned (&registers)[4]) {
  auto& own = kept[lab::current];
  own.push_back({registers[0], registers[1], registers[2], registers[3]});
  return own.back().data();
}
void scattered_registers(Where where) {
  stop_kernel("unsupported", "accumulators of a wgmma that are not the elements of one array",
              where);
}

// ---------------------------------------------------------------- clusters and warps

unsigned cluster_rank() {
  return static_cast<unsigned>(lab::current->rank);
}
unsigned cluster_size() {
  return static_cast<unsigned>(lab::this_thread().block->cluster());
}
dim3 cluster_dims() {
  const auto [x, y, z] = lab::this_thread().block->cluster_size();
  return {x, y, z};
}
void* peer_shared(const void* pointer, unsigned rank, Where where) {
  return lab::peer_shared(pointer, static_cast<int>(rank), location(where));
}
bool elect(unsigned mask, unsigned* lane, Where where) {
  const unsigned lanes = exchange(mask, &mask, 0, where).lanes;
  *lane = static_cast<unsigned>(__builtin_ctz(lanes));
  return *lane == static_cast<unsigned>(lab::current->lane);
}

void stmatrix(void* row, const unsigned* from, int count, bool transposed, Where where) {
  struct Pairs {
    std::uint16_t of[4][2];  // matrix, element
  } own = {};
  std::memcpy(&own, from, sizeof(unsigned) * static_cast<std::size_t>(count));
  const Exchange<Pairs> pairs(0xffffffffu, own, where);
  const int lane = thread().lane, matrix = lane / 8, i = lane % 8;
  if (matrix >= count) return;
  note_access(row, 16, true, where);
  std::uint16_t elements[8];
  for (int j = 0; j < 8; ++j) {
    const int source = transposed ? 4 * j + i / 2 : 4 * i + j / 2;
    elements[j] = pairs.of_lane(source).of[matrix][transposed ? i % 2 : j % 2];
  }
  std::memcpy(row, elements, sizeof elements);
}

}  // namespace lab_cuda

// ---------------------------------------------------------------- tensor maps

namespace {

using fa::lab::TensorBox;

constexpr int kBytesOfType[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};  // CUtensorMapDataType

// What is wrong with a box and its tensor; empty: nothing.
std::string wrong_with(const TensorBox& box) {
  if (reinterpret_cast<std::uintptr_t>(box.data) % 16 != 0) {
    return "the tensor's address is not a multiple of 16";
  }
  for (std::size_t i = 0; i < box.sizes.size(); ++i) {
    if (box.sizes[i] < 1 || box.sizes[i] > std::int64_t{1} << 32) {
      return fmt::format("a size of {}; allowed are 1 to 2^32", box.sizes[i]);
    }
    if (box.box[i] < 1 || box.box[i] > 256) {
      return fmt::format("a box of {} elements; allowed are 1 to 256", box.box[i]);
    }
  }
  for (const std::int64_t stride : box.strides) {
    if (stride % 16 != 0 || stride < 0 || stride >= std::int64_t{1} << 40) {
      return fmt::format("a stride of {} bytes; allowed are multiples of 16 below 2^40", stride);
    }
  }
  if (box.row_bytes() % 16 != 0) {
    return fmt::format("rows of the box have {} bytes; allowed are multiples of 16",
                       box.row_bytes());
  }
  if (box.swizzle_bytes > 0 && box.row_bytes() > box.swizzle_bytes) {
    return fmt::format("rows of the box have {} bytes; with this swizzle at most {} are allowed",
                       box.row_bytes(), box.swizzle_bytes);
  }
  return "";
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  const auto refuse = [](CUresult error, const std::string& why) {
    lab_cuda::add_here("error", "cuTensorMapEncodeTiled() makes no map: " + why);
    return error;
  };
  if (rank < 1 || rank > 5) {
    return refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("a rank of {}; allowed are 1 to 5", rank));
  }
  lab_cuda::MapContents contents;
  contents.rank = rank;
  TensorBox& to = contents.box;
  to.data = static_cast<std::byte*>(address);
  to.element_bytes = kBytesOfType[type];
  to.swizzle_bytes = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 0 : 16 << static_cast<int>(swizzle);
  to.sizes.fill(1);
  bool steps = false;
  for (std::size_t i = 0; i < rank; ++i) {
    to.sizes[4 - i] = static_cast<std::int64_t>(sizes[i]);
    to.box[4 - i] = static_cast<int>(box[i]);
    if (i + 1 < rank) to.strides[3 - i] = static_cast<std::int64_t>(strides[i]);
    steps = steps || element_strides[i] != 1;
  }
  const std::string wrong = wrong_with(to);
  if (!wrong.empty()) return refuse(CUDA_ERROR_INVALID_VALUE, wrong);
  if (steps || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
    return refuse(CUDA_ERROR_NOT_SUPPORTED,
                  "the lab has no steps along an index, no interleaving, and fills with zeros");
  }
  std::memset(static_cast<void*>(map), 0, sizeof *map);
  std::memcpy(static_cast<void*>(map), &contents, sizeof contents);
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = error == CUDA_SUCCESS               ? "CUDA_SUCCESS"
          : error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
          : error == CUDA_ERROR_NOT_SUPPORTED ? "CUDA_ERROR_NOT_SUPPORTED"
                                              : "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));  // their numbers are the same
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char* name, void** function, int, cuuint64_t,
                          CUdriverProcAddressQueryResult* found) {
  const std::string wanted = name;
  *function = wanted == "cuTensorMapEncodeTiled" ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled)
              : wanted == "cuGetProcAddress"     ? reinterpret_cast<void*>(&cuGetProcAddress)
                                                 : nullptr;
  if (found != nullptr) {
    *found =
        *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const CUresult result = cuGetProcAddress(name, function, CUDA_VERSION, 0, nullptr);
  if (found != nullptr) {
    *found =
        result == CUDA_SUCCESS ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return lab_cuda::pending_error();
}
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, found);
}
